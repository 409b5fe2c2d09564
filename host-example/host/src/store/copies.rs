//! Copies, in the root, of offloads that lie in a bucket. Questions need all files of one; quotas of the root bound them.

use std::fs::File;
use std::mem;
use std::sync::Arc;

use lro_contract::digest::{FileDigest, FileHasher};
use lro_system::files::write_all_at;
use tracing::warn;

use super::bucket::{self, Bucket, Turn};
use super::cipher::{OffloadCipher, Opening, sealed_bytes};
use super::directory::Directory;
use super::error::failed;
use super::objects::TRANSFERS_AT_ONCE;
use super::ranges::RangeReader;
use super::usage::Kind;
use super::{FileKind, FileRecord, Offload, OffloadRecord, Reader, Staging, Store, StoreError, Ulid, tenant_name};
use crate::ahead::{Arrival, Arriver};
use crate::at_once::each_at_once;

/// The files of an offload for a question.
#[derive(Debug)]
pub(crate) enum Files {
    /// Their directory.
    Here(Directory),
    /// They have to be copied first.
    InBucket(Box<Copying>),
}

/// The copy of an offload.
#[derive(Debug)]
pub(super) struct CopyOf {
    store: Store,
    /// Directory name of the tenant.
    tenant: String,
    id: Ulid,
}

/// A copy that is being made. Nothing of it may be given out before [`Copying::keep`] has succeeded.
#[derive(Debug)]
pub(crate) struct Copying {
    bucket: Arc<Bucket>,
    cipher: Option<OffloadCipher>,
    staging: Staging,
    record: OffloadRecord,
    /// Those that were not fetched yet, in the order of the record.
    files: Vec<(File, Arriver)>,
    turn: Turn,
}

impl Store {
    /// The copy of an offload in a bucket, or an empty one.
    pub(super) fn copy(&self, offload: &Offload, cipher: Option<OffloadCipher>) -> Result<Files, StoreError> {
        let open = || Directory::open(offload.path.clone());
        let Some(bucket) = self.bucket()? else { return open().map(Files::Here) };
        let turn = bucket.turn(bucket::key(&tenant_name(&offload.tenant), offload.id));
        // Another thread may have just copied it.
        if let Ok(copy) = open() {
            return Ok(Files::Here(copy));
        }
        let time_to_live = offload.expires.duration_since(offload.id.time()).ok();
        let staging = self.stage(&offload.tenant, offload.id)?.with_time_to_live(time_to_live);
        let record = offload.record.clone();
        let create = |file: &FileRecord| Ok((staging.directory.create_file(&file.name)?, Arriver::of(&file.name)));
        let files = record.files.iter().map(create).collect::<Result<_, StoreError>>()?;
        Ok(Files::InBucket(Box::new(Copying { bucket: Arc::clone(bucket), cipher, staging, record, files, turn })))
    }

    /// The copy of an offload.
    pub(super) fn copy_of(&self, offload: &Offload) -> CopyOf {
        CopyOf { store: self.clone(), tenant: tenant_name(&offload.tenant), id: offload.id }
    }

    /// Opens a file in the bucket.
    pub(super) fn open_in_bucket(
        &self,
        offload: &Offload,
        record: &FileRecord,
        cipher: Option<&OffloadCipher>,
    ) -> Result<Reader, StoreError> {
        let Some(bucket) = self.bucket()? else { return Err(StoreError::NotFound { path: offload.path.clone() }) };
        let key = bucket::key(&tenant_name(&offload.tenant), offload.id);
        let source = RangeReader::new(Arc::clone(bucket), key, record.clone(), cipher)?;
        Ok(Reader::in_bucket(source, record))
    }
}

impl CopyOf {
    /// A file of the copy.
    pub(super) fn opened(self, opened: Result<Reader, StoreError>) -> Result<Reader, StoreError> {
        let opened = opened.inspect_err(|error| self.forget_if(error));
        opened.map(|reader| reader.of_copy(self))
    }

    /// Removes the copy after an error that says that it is damaged. It is not synchronized to disk, and need not survive a crash of
    /// the machine.
    pub(super) fn forget_if(&self, error: &StoreError) {
        let Self { store, tenant, id } = self;
        if !matches!(error, StoreError::Changed { .. }) {
            return;
        }
        let parent = store.opened().and_then(|opened| opened.root.directory(tenant));
        if let Ok(removing) = parent.and_then(|parent| store.detach(&parent, *id)) {
            warn!(tenant, %id, "the copy of an offload is damaged, and is removed");
            let bytes = store.inner.ledger.lock().remove(tenant, *id, Kind::Offload);
            store.delete(&removing, tenant, *id, bytes);
        }
    }
}

impl Copying {
    /// Opens its directory.
    pub(crate) fn directory(&self) -> Result<Directory, StoreError> {
        Directory::open(self.staging.path().to_owned())
    }

    /// What will have come of its files.
    pub(crate) fn arrivals(&self) -> Vec<Arrival> {
        self.files.iter().map(|(_, arriver)| arriver.arrival()).collect()
    }

    /// A file of it, before all of it is there. As long as [`Copying::keep`] has not succeeded, it may be another.
    pub(crate) fn reader(&self, record: &FileRecord) -> Result<Reader, StoreError> {
        let path = self.staging.directory.path.join(&record.name);
        let Some(arrival) = self.arrivals().into_iter().find(|arrival| arrival.is_of(&record.name)) else {
            return Err(StoreError::NotFound { path });
        };
        let (file, _) = self.staging.directory.file(&record.name)?;
        Ok(Reader::arriving(record, file, path, arrival))
    }

    /// Downloads the files, several at the same time.
    pub(crate) fn fetch(mut self: Box<Self>) -> Result<Box<Self>, StoreError> {
        let files = mem::take(&mut self.files);
        let fetch = |(record, (file, arriver)): (&FileRecord, (File, Arriver))| {
            let digest = self.fetch_file(record, &file, &arriver)?;
            Ok(digest.map(|digest| (record.name.clone(), digest)))
        };
        let files = self.record.files.iter().zip(files).collect();
        let digests = each_at_once("lro-copy", TRANSFERS_AT_ONCE, files, fetch)?;
        self.staging.digests = digests.into_iter().flatten().collect();
        Ok(self)
    }

    /// Downloads a file, and computes its digest meanwhile.
    fn fetch_file(&self, record: &FileRecord, file: &File, to: &Arriver) -> Result<Option<FileDigest>, StoreError> {
        let Staging { tenant, id, directory, .. } = &self.staging;
        let (mut hasher, mut next) = (FileHasher::new(record.kind == FileKind::Records), 0);
        let key = format!("{}/{}", bucket::key(&tenant_name(tenant), *id), record.name);
        let mut add = |bytes: &[u8]| {
            write_all_at(file, next, bytes).map_err(failed("write", directory.path.join(&record.name)))?;
            to.add(bytes.len());
            hasher.add(next, bytes);
            next += bytes.len() as u64;
            Ok::<_, StoreError>(())
        };
        let objects = &self.bucket.objects;
        match &self.cipher {
            None => objects.download(&key, record.bytes, add)?,
            Some(cipher) => {
                let mut opening = Opening::new(cipher.object(&key)?, objects.place(&key));
                objects.download(&key, sealed_bytes(record.bytes), |chunk| opening.add(chunk, &mut add))?;
                opening.finish(&mut add)?;
            }
        }
        Ok(hasher.finish())
    }

    /// Compares the files with the record, and keeps them.
    ///
    /// # Errors
    /// [`StoreError::Changed`] when they are others; otherwise as for [`Staging::publish`].
    pub(crate) fn keep(self: Box<Self>) -> Result<(), StoreError> {
        let Self { staging, record, turn, .. } = *self;
        let place = staging.store.shown_path(&staging.tenant, staging.id);
        // Another process may have kept its copy first.
        let kept = staging.keep(&record).or_else(|error| Directory::open(place).map(drop).map_err(|_| error));
        drop(turn);
        kept
    }
}
