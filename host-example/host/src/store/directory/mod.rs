//! Directories of private files. Nothing here follows links.

#[cfg_attr(unix, path = "unix.rs")]
#[cfg_attr(windows, path = "windows.rs")]
mod system;

use std::fs::Metadata;
use std::io::{Read, Write};
use std::path::{self, Path, PathBuf};
use std::time::{Duration, SystemTime};

use lro_system::files::{private_directories, real_path};

pub(super) use self::system::is_open_to_others;
use super::error::failed;
use super::{StoreError, Ulid};
use crate::faults::fail_point;

/// Prefix and suffix of the name of a temporary file; a ULID is between them.
const TEMPORARY_AFFIXES: (&str, &str) = (".new-", ".tmp");
/// Age from which on no live process is still writing a temporary file.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(3600);

/// Bytes that a file or directory uses besides its data, for its inode and name.
const ENTRY_BYTES: u64 = 4096;

/// Minimum block size assumed, because the system may not have allocated the blocks of a new file yet.
const BLOCK_BYTES: u64 = 4096;

/// Disk usage of a file, as quotas count it: whole blocks, or what the system has allocated if that is more, plus
/// [`ENTRY_BYTES`].
pub(super) fn bytes_on_disk(length: u64, allocated: u64) -> u64 {
    let data = length.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
    data.max(allocated).saturating_add(ENTRY_BYTES)
}

/// The same of a file with this metadata.
pub(crate) fn file_bytes(metadata: &Metadata) -> u64 {
    bytes_on_disk(metadata.len(), system::allocated_bytes(metadata))
}

/// A directory, open where the system has access relative to it.
#[derive(Debug)]
pub(crate) struct Directory {
    #[cfg(unix)]
    handle: std::fs::File,
    pub(crate) path: PathBuf,
}

/// A temporary file, removed when dropped unless it was renamed.
struct TemporaryFile<'a> {
    directory: &'a Directory,
    name: String,
}

impl Directory {
    /// Opens a directory that must belong to this user and not be writable by others. Creates it if it is missing; with
    /// `durable`, also syncs it to disk.
    pub(crate) fn private(path: &Path, durable: bool) -> Result<Self, StoreError> {
        let absolute = path::absolute(path).map_err(failed("find", path))?;
        let missing: Vec<&Path> = absolute.ancestors().take_while(|directory| !directory.exists()).collect();
        private_directories().recursive(true).create(path).map_err(failed("create", path))?;
        for parent in missing.into_iter().filter_map(Path::parent).filter(|_| durable) {
            system::sync_entries(parent).map_err(failed("synchronize", parent))?;
        }
        let directory = Self::open(real_path(path).map_err(failed("find", path))?)?;
        match directory.weakness()? {
            Some(reason) => Err(StoreError::UnsafeRoot { path: directory.path, reason }),
            None => Ok(directory),
        }
    }

    /// Writes a private file atomically and syncs it to disk: a reader sees the old or the new content.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_with(name, bytes, true)
    }

    /// As [`put`](Self::put), but syncs only if `durable`.
    pub(super) fn put_with(&self, name: &str, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
        let temporary = TemporaryFile::new(self, bytes, durable)?;
        self.rename(&temporary.name, name)?;
        if durable { self.sync() } else { Ok(()) }
    }

    /// As [`put`](Self::put), unless the name exists. Returns whether the file was written.
    pub(crate) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        let temporary = TemporaryFile::new(self, bytes, true)?;
        match self.rename_new(&temporary.name, name)? {
            true => self.sync().map(|()| true),
            false => Ok(false),
        }
    }

    /// Reads a whole file of at most `bytes_max` bytes.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let (file, metadata) = self.file(name)?;
        let path = self.path.join(name);
        if metadata.len() > bytes_max {
            return Err(StoreError::Unexpected { path, reason: "it is larger than the limit" });
        }
        // One allocation: growing it would move the bytes.
        let mut bytes = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default());
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed("read", path))?;
        Ok(bytes)
    }

    /// Removes temporary files that dead processes left behind.
    pub(crate) fn remove_stale_temporaries(&self) -> Result<(), StoreError> {
        let newest = SystemTime::now().checked_sub(TEMPORARY_AGE_MAX).unwrap_or(SystemTime::UNIX_EPOCH);
        for name in self.names()? {
            let name = name?;
            let Some(name) = name.to_str() else { continue };
            let id = name.strip_prefix(TEMPORARY_AFFIXES.0).and_then(|rest| rest.strip_suffix(TEMPORARY_AFFIXES.1));
            if id.and_then(|id| id.parse::<Ulid>().ok()).is_some_and(|id| id.time() < newest) {
                self.remove_if_there(name)?;
            }
        }
        Ok(())
    }

    /// Removes a file, unless it is gone: other processes remove the same ones.
    pub(crate) fn remove_if_there(&self, name: &str) -> Result<(), StoreError> {
        match self.remove_file(name) {
            Err(StoreError::NotFound { .. }) => Ok(()),
            removed => removed,
        }
    }

    /// Disk usage of this directory and its files, as quotas count it. Does not follow links.
    pub(super) fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        let mut bytes = ENTRY_BYTES;
        for name in self.names()? {
            bytes = bytes.saturating_add(self.entry_bytes(&name?)?.unwrap_or(0));
        }
        Ok(bytes)
    }
}

impl<'a> TemporaryFile<'a> {
    fn new(directory: &'a Directory, bytes: &[u8], durable: bool) -> Result<Self, StoreError> {
        let id = Ulid::generate().map_err(StoreError::Random)?;
        let name = format!("{}{id}{}", TEMPORARY_AFFIXES.0, TEMPORARY_AFFIXES.1);
        let mut file = directory.create_file(&name)?;
        let temporary = Self { directory, name };
        let path = || directory.path.join(&temporary.name);
        fail_point!("store::put", failed("write", path()));
        file.write_all(bytes).map_err(failed("write", path()))?;
        if durable {
            file.sync_all().map_err(failed("synchronize", path()))?;
        }
        Ok(temporary)
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.directory.remove_if_there(&self.name) {
            tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove a temporary file");
        }
    }
}
