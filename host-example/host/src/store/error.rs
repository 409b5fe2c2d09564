//! Errors of the store.

use std::error::Error;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use super::{QuotaKind, Ulid};

/// An error of the store. The message of a variant does not include that of its source.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The offload, or the file in it, does not exist.
    #[error("{} does not exist", path.display())]
    NotFound {
        /// The path.
        path: PathBuf,
    },
    /// The offload is older than its time to live, or is absent and older than that of the store.
    #[error("offload {id} has expired")]
    Expired {
        /// The offload.
        id: Ulid,
    },
    /// The disk is full, a disk quota of the system is exhausted, or a file exceeds the system's size limit (`ENOSPC`,
    /// `EDQUOT`, `EFBIG`).
    #[error("no space left to {action} {}", path.display())]
    NoSpace {
        /// The failed action, such as `write`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// An offload exceeds a quota of [`StoreConfig`](super::StoreConfig), or not enough older offloads could be
    /// removed.
    #[error("the offload needs {needed} bytes, and the quota for {which} is {limit} bytes")]
    Quota {
        /// The exceeded quota.
        which: QuotaKind,
        /// Its limit in bytes.
        limit: u64,
        /// Size of the file, or disk usage of the whole offload, in bytes.
        needed: u64,
    },
    /// A directory that should be private is not.
    #[error("{} is unsafe for private files: {reason}", path.display())]
    UnsafeRoot {
        /// The directory.
        path: PathBuf,
        /// Why it is not private.
        reason: &'static str,
    },
    /// A tenant has no key, and needs one: see [`BucketConfig::keys`](super::BucketConfig::keys).
    #[error("tenant `{tenant}` has no key: create {} (openssl rand -hex 32)", path.display())]
    NoKey {
        /// Name of its directory.
        tenant: String,
        /// The file for its keys.
        path: PathBuf,
    },
    /// A line in the file of a tenant's keys is not a key.
    #[error("{} has a line that is not a key: a key is 64 hexadecimal digits (openssl rand -hex 32)", path.display())]
    WrongKey {
        /// The file.
        path: PathBuf,
    },
    /// A file differs from its record, or is not listed in any.
    // A guest may have chosen the name: `Debug` escapes control characters.
    #[error("unexpected file {path:?}: {reason}")]
    Unexpected {
        /// The file.
        path: PathBuf,
        /// How it differs.
        reason: &'static str,
    },
    /// A file has changed since it was published.
    #[error("{path:?} has changed: expected {expected}, found {found}")]
    Changed {
        /// The file.
        path: PathBuf,
        /// Size and SHA-256 of the published file.
        expected: String,
        /// Size and SHA-256 of the current file, or what was found instead.
        found: String,
    },
    /// The manifest of an offload, or another record, is not valid.
    #[error("the manifest {} is not valid", path.display())]
    Manifest {
        /// The manifest.
        path: PathBuf,
        /// The error in it.
        #[source]
        source: serde_json::Error,
    },
    /// A bucket cannot be used, or a request to it failed and was not repeated any more.
    #[error("cannot {action} {}", place.display())]
    Bucket {
        /// The failed action, such as `write`.
        action: &'static str,
        /// The address.
        place: PathBuf,
        /// What the bucket or the network says.
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
    /// The system provides no random bytes, for an id or a key.
    #[error("cannot get random bytes from the system")]
    Random(#[source] io::Error),
    /// Another error of the system.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// The failed action, such as `rename`.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
}

impl StoreError {
    pub(super) fn bucket(action: &'static str, place: PathBuf, source: Box<dyn Error + Send + Sync>) -> Self {
        Self::Bucket { action, place, source }
    }

    /// Error message for clients, without paths of this machine. The full message belongs in the log.
    pub fn for_client(&self) -> String {
        match self {
            Self::NotFound { .. } => "there is no such offload, or no such file in it".to_owned(),
            Self::Expired { .. } | Self::Quota { .. } => self.to_string(),
            Self::NoSpace { action, .. } => format!("no space left to {action} a file of the store"),
            Self::UnsafeRoot { reason, .. } => format!("the directory of the store is unsafe: {reason}"),
            Self::NoKey { tenant, .. } => format!("the store has no key of tenant `{tenant}`"),
            Self::WrongKey { .. } => "the store cannot read the keys of the tenant".to_owned(),
            Self::Unexpected { path, reason } => format!("unexpected file {}: {reason}", name(path)),
            Self::Changed { path, expected, found } => {
                format!("{} has changed: expected {expected}, found {found}", name(path))
            }
            Self::Manifest { .. } => "the manifest of the offload is not valid".to_owned(),
            Self::Bucket { action, .. } => format!("the store cannot {action} an object of its bucket"),
            Self::Random(source) => format!("the store cannot get random bytes: {source}"),
            Self::Io { action, source, .. } => format!("the store cannot {action} a file: {source}"),
        }
    }
}

/// The file name of a path. A guest may have chosen it: `Debug` escapes control characters.
fn name(path: &Path) -> String {
    format!("{:?}", path.file_name().unwrap_or_default())
}

/// Converts the error of a system call, for use with `map_err`.
pub(super) fn failed<E: Into<io::Error>>(
    action: &'static str,
    path: impl Into<PathBuf>,
) -> impl FnOnce(E) -> StoreError {
    move |error| {
        let (path, source) = (path.into(), error.into());
        match source.kind() {
            ErrorKind::NotFound => StoreError::NotFound { path },
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => {
                StoreError::NoSpace { action, path, source }
            }
            _ => StoreError::Io { action, path, source },
        }
    }
}
