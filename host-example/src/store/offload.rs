//! A published offload, and reading from it.

use std::{
    fs::File,
    path::{Path, PathBuf},
    time::SystemTime,
};

use super::{FileRecord, OffloadRecord, StoreError, Ulid, directory::Directory, error::failed, staging::digest};

/// A published offload. Plain data: it holds nothing open, and does not keep the offload from being removed.
#[derive(Clone, Debug)]
pub struct Offload {
    pub(super) tenant: String,
    pub(super) id: Ulid,
    pub(super) path: PathBuf,
    pub(super) expires: SystemTime,
    pub(super) record: OffloadRecord,
}

impl Offload {
    /// Name of the tenant, as it was given.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// Its id.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// Absolute path of its directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it expires.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// What it holds. Every file has its digest.
    pub fn record(&self) -> &OffloadRecord {
        &self.record
    }

    /// Opens a file of the record for reading, without following links. It stays readable when the offload is removed.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when no such file is listed, or the offload was removed; [`StoreError::Unexpected`] when
    /// it is no longer a regular file of the listed size.
    pub fn open(&self, name: &str) -> Result<File, StoreError> {
        self.open_listed(name).map(|(file, _)| file)
    }

    /// Reads a file to its end and compares its digest with the record's.
    ///
    /// # Errors
    /// Those of [`Offload::open`], and [`StoreError::Unexpected`] when the digest differs.
    pub fn verify(&self, name: &str) -> Result<(), StoreError> {
        let (mut file, record) = self.open_listed(name)?;
        let path = self.path.join(name);
        let found = digest(&mut file, record.digest_from).map_err(failed("read", &path))?;
        if record.sha256 == Some(found) {
            Ok(())
        } else {
            Err(StoreError::Unexpected { path, reason: "its digest is not the listed one" })
        }
    }

    fn open_listed(&self, name: &str) -> Result<(File, &FileRecord), StoreError> {
        let path = || self.path.join(name);
        let Some(record) = self.record.files.iter().find(|file| file.name == name) else {
            return Err(StoreError::NotFound { path: path() });
        };
        let (file, stat) = Directory::open(self.path.clone())?.file(name)?;
        if u64::try_from(stat.st_size) != Ok(record.bytes) {
            return Err(StoreError::Unexpected { path: path(), reason: "its size is not the listed one" });
        }
        Ok((file, record))
    }
}
