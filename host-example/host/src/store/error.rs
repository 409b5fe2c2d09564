//! Why the store could not do what it was asked.

use std::{
    io,
    path::{Path, PathBuf},
};

use rustix::io::Errno;

use super::{QuotaKind, Ulid};

/// An error of the store. The source of a case is never repeated in its text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no such offload, or no such file in it.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// Where it would be.
        path: PathBuf,
    },
    /// The offload is older than the time to live, whether or not it was removed already.
    #[error("offload {id} has expired")]
    Expired {
        /// The offload.
        id: Ulid,
    },
    /// The disk is full, a disk quota of the system is used up, or a file met the system's limit on its size (`ENOSPC`,
    /// `EDQUOT`, `EFBIG`).
    #[error("no space left to {action} {}", path.display())]
    NoSpace {
        /// What was attempted, such as `write`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer of the system.
        #[source]
        source: io::Error,
    },
    /// An offload is larger than a quota of [`StoreConfig`](super::StoreConfig), or no room could be made for it.
    #[error("the offload needs {needed} bytes, and the quota for {which} is {limit} bytes")]
    Quota {
        /// The quota that was met.
        which: QuotaKind,
        /// Its size in bytes.
        limit: u64,
        /// Bytes of the file, or what the whole offload takes up on the disk.
        needed: u64,
    },
    /// A directory that should be private is not.
    #[error("{} is unsafe for private files: {reason}", path.display())]
    UnsafeRoot {
        /// The directory.
        path: PathBuf,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A file is not as its record says, or there is something that no record lists.
    // A guest chose the name: `Debug` escapes what a terminal would act upon.
    #[error("unexpected file {path:?}: {reason}")]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: &'static str,
    },
    /// A published file is not the one that was published.
    #[error("{path:?} has changed: expected {expected}, found {found}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Size and SHA-256 of the file that was published.
        expected: String,
        /// Size and SHA-256 of the present one, or what is there in its place.
        found: String,
    },
    /// The manifest of an offload, or another record, cannot be read or written as JSON.
    #[error("the manifest {} is not valid", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: serde_json::Error,
    },
    /// The system refused something else.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted, such as `rename`.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// The answer of the system.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    /// The error as clients are told it: what is wrong, and nothing of where files lie on this machine. Its whole text
    /// belongs in the log.
    pub fn for_client(&self) -> String {
        match self {
            Self::NotFound { .. } => "there is no such offload, or no such file in it".to_owned(),
            Self::Expired { .. } | Self::Quota { .. } => self.to_string(),
            Self::NoSpace { action, .. } => format!("no space left to {action} a file of the store"),
            Self::UnsafeRoot { reason, .. } => format!("the directory of the store is unsafe: {reason}"),
            Self::Unexpected { path, reason } => format!("unexpected file {}: {reason}", name(path)),
            Self::Changed { path, expected, found } => {
                format!("{} has changed: expected {expected}, found {found}", name(path))
            }
            Self::Manifest { .. } => "the manifest of the offload is not valid".to_owned(),
            Self::Io { action, source, .. } => format!("the store cannot {action} a file: {source}"),
        }
    }
}

/// The last step of a path. A guest may have chosen it: `Debug` escapes what a terminal would act upon.
fn name(path: &Path) -> String {
    format!("{:?}", path.file_name().unwrap_or_default())
}

/// Makes the error of a failed system call; to be used with `map_err`.
pub(super) fn failed<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> StoreError {
    move |error| {
        let (path, source) = (path.into(), error.into());
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => StoreError::NotFound { path },
            Some(Errno::NOSPC | Errno::DQUOT | Errno::FBIG) => StoreError::NoSpace { action, path, source },
            _ => StoreError::Io { action, path, source },
        }
    }
}
