//! Published offloads, and those that are not whole yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::directory::Directory;
use super::reader::Reader;
use super::verified::Verified;
use super::{Growth, OffloadRecord, StoreError, Ulid};

/// A published offload. It keeps no file open, and does not prevent the removal of the offload.
#[derive(Clone, Debug)]
pub struct Offload {
    pub(super) tenant: String,
    pub(super) id: Ulid,
    pub(super) path: PathBuf,
    pub(super) expires: SystemTime,
    pub(super) record: OffloadRecord,
    pub(super) growth: Option<Growth>,
    pub(super) verified: Arc<Verified>,
}

impl Offload {
    /// The tenant.
    pub fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The id.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// Absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// When it expires.
    pub fn expires(&self) -> SystemTime {
        self.expires
    }

    /// Why it is not whole; `None` if it is. What has come so far does not change, and more may follow.
    pub fn growth(&self) -> Option<Growth> {
        self.growth
    }

    /// The record of the offload. Every file of a whole one has a digest.
    pub fn record(&self) -> &OffloadRecord {
        &self.record
    }

    /// Opens the directory, which must not be a link.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the offload was removed, [`StoreError::Io`].
    pub fn directory(&self) -> Result<File, StoreError> {
        Directory::open(self.path.clone())?.into_file()
    }

    /// Opens a file, named as in [`OffloadRecord::file`]. Does not follow links.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the file is not listed, or the offload was removed; [`StoreError::Changed`] when
    /// the file is missing, not a regular file, linked twice, or of another size.
    pub fn open(&self, name: &str) -> Result<Reader, StoreError> {
        let Some(record) = self.record.file(name) else {
            return Err(StoreError::NotFound { path: self.path.join(name) });
        };
        Reader::open(&Directory::open(self.path.clone())?, record, &self.verified)
    }
}
