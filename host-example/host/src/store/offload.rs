//! A published offload.

use std::{
    fs::File,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use super::{FileRecord, OffloadRecord, StoreError, Ulid, directory::Directory, reader::Reader, verified::Verified};

/// A published offload. It holds nothing open, and does not keep the offload from being removed.
#[derive(Clone, Debug)]
pub struct Offload {
    pub(super) tenant: String,
    pub(super) id: Ulid,
    pub(super) path: PathBuf,
    pub(super) expires: SystemTime,
    pub(super) record: OffloadRecord,
    pub(super) verified: Arc<Verified>,
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

    /// The file of this name, else that of the first section of this name.
    pub fn file(&self, name: &str) -> Option<&FileRecord> {
        let files = &self.record.files;
        files.iter().find(|file| file.name == name).or_else(|| files.iter().find(|file| file.section == name))
    }

    /// Opens its directory, which must not be a link.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the offload was removed, [`StoreError::Io`].
    pub fn directory(&self) -> Result<File, StoreError> {
        Directory::open(self.path.clone()).map(Directory::into_file)
    }

    /// Opens a file, named as in [`Offload::file`], without following links.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when no such file is listed, or the offload was removed; [`StoreError::Changed`] when it
    /// is missing, something else than a regular file of one name, or of another size.
    pub fn open(&self, name: &str) -> Result<Reader, StoreError> {
        let Some(record) = self.file(name) else { return Err(StoreError::NotFound { path: self.path.join(name) }) };
        Reader::open(&Directory::open(self.path.clone())?, record, &self.verified)
    }
}
