//! Published offloads, and those that are not whole yet.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use super::cipher::OffloadCipher;
use super::copies::Files;
use super::directory::Directory;
use super::reader::Reader;
use super::verified::Verified;
use super::{Growth, OffloadRecord, Store, StoreError, Ulid};

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
    pub(super) in_bucket: Option<InBucket>,
}

/// Where an offload in a bucket is.
#[derive(Clone, Debug)]
pub(super) struct InBucket {
    pub(super) store: Store,
    /// `None` if it is not encrypted.
    pub(super) cipher: Option<OffloadCipher>,
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

    /// Absolute path of the directory. For an offload in a bucket, it exists while there is a copy.
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

    /// Opens the directory, which must not be a link. Copies all files of an offload in a bucket first, unless they are here.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the offload was removed, [`StoreError::Io`]; for one in a bucket, also
    /// [`StoreError::Bucket`], [`StoreError::Changed`], [`StoreError::Quota`] and [`StoreError::NoSpace`].
    pub fn directory(&self) -> Result<File, StoreError> {
        match self.files()? {
            Files::Here(directory) => directory.to_file(),
            Files::InBucket(copying) => {
                copying.fetch()?.keep()?;
                Directory::open(self.path.clone())?.to_file()
            }
        }
    }

    /// As [`Offload::directory`], but the caller copies the files if they are not here.
    pub(crate) fn files(&self) -> Result<Files, StoreError> {
        match (&self.in_bucket, Directory::open(self.path.clone())) {
            (Some(InBucket { store, cipher }), Err(StoreError::NotFound { .. })) => store.copy(self, cipher.clone()),
            (_, opened) => opened.map(Files::Here),
        }
    }

    /// Opens a file in the directory in which a component reads it.
    pub(crate) fn open_in(&self, directory: &Directory, name: &str) -> Result<Reader, StoreError> {
        let Some(record) = self.record.file(name) else {
            return Err(StoreError::NotFound { path: self.path.join(name) });
        };
        let opened = Reader::open(directory, record, &self.verified);
        match &self.in_bucket {
            Some(InBucket { store, .. }) => store.copy_of(self).opened(opened),
            None => opened,
        }
    }

    /// Opens a file, named as in [`OffloadRecord::file`]. Does not follow links. Of an offload in a bucket without a copy here,
    /// ranges are read.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] when the file is not listed, or the offload was removed; [`StoreError::Changed`] when
    /// the file is missing, not a regular file, linked twice, or of another size.
    pub fn open(&self, name: &str) -> Result<Reader, StoreError> {
        let opened = Directory::open(self.path.clone()).and_then(|directory| self.open_in(&directory, name));
        match (&self.in_bucket, self.record.file(name)) {
            // A copy may be removed at any time.
            (Some(InBucket { store, cipher }), Some(record)) => {
                opened.or_else(|_| store.open_in_bucket(self, record, cipher.as_ref()))
            }
            _ => opened,
        }
    }
}
