//! Writes and publishes one offload.

use std::collections::{BTreeMap, HashSet};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lro_contract::manifest::{MANIFEST_VERSION, Manifest, is_file_name};
use tracing::warn;

use super::bucket::Publication;
use super::directory::{Directory, bytes_on_disk};
use super::early::Early;
use super::error::failed;
use super::expiry::{TIME_TO_LIVE_NAME, time_to_live_text};
use super::synchronize::{Published, synchronize};
use super::{
    FileDigest, FileKind, FileRecord, Fsync, InBucket, MANIFEST_BYTES_MAX, MANIFEST_NAME, Offload, OffloadRecord,
    OpenRoot, QuotaKind, Store, StoreError, TIME_TO_LIVE_MAX, Ulid, staging_name, tenant_name,
};
use crate::digest;
use crate::faults::fail_point;

/// A private directory that a policy writes an offload to. It is removed when dropped, unless it was published.
#[derive(Debug)]
pub struct Staging {
    pub(super) store: Store,
    /// Keeps the owner file alive, whose name is part of the directory name.
    pub(super) opened: Arc<OpenRoot>,
    pub(super) tenant: String,
    pub(super) id: Ulid,
    /// Directory of the tenant.
    pub(super) parent: Directory,
    pub(super) directory: Directory,
    /// The time to live of the offload, if it has its own.
    pub(super) time_to_live: Option<Duration>,
    /// Known digests, by file name.
    pub(super) digests: BTreeMap<String, FileDigest>,
    /// See [`Staging::with_early_uploads`].
    pub(super) early: Option<Arc<Early>>,
    /// Whether the directory has its final name.
    pub(super) is_named: bool,
    pub(super) is_published: bool,
}

/// A file that the store adds.
struct Addition {
    name: String,
    bytes: Vec<u8>,
}

impl Staging {
    /// Absolute path of the directory.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Id of the offload.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// When its files are synchronized to the disk. What a bucket has need not be.
    pub fn fsync(&self) -> Fsync {
        match self.store.inner.config.bucket {
            Some(_) => Fsync::Never,
            None => self.store.inner.config.fsync,
        }
    }

    /// Has large files uploaded while they are written, if there is a bucket.
    pub(crate) fn with_early_uploads(mut self) -> Self {
        // Without one that can be opened, publishing fails and says why.
        let bucket = self.store.bucket().ok().flatten();
        let early = |bucket| Early::new(bucket, tenant_name(&self.tenant), self.id, self.directory.path.clone());
        self.early = bucket.cloned().map(early).map(Arc::new);
        self
    }

    /// What has to learn of each write then.
    pub(crate) fn early(&self) -> Option<Arc<Early>> {
        self.early.clone()
    }

    /// Sets the age at which the offload expires, in whole seconds, at most [`TIME_TO_LIVE_MAX`]. `None`: that of the
    /// store.
    pub fn with_time_to_live(mut self, time_to_live: Option<Duration>) -> Self {
        self.time_to_live = time_to_live.map(|time| Duration::from_secs(time.min(TIME_TO_LIVE_MAX).as_secs()));
        self
    }

    /// As [`Staging::with_time_to_live`], counted from now: the id may be older.
    pub fn with_time_to_live_from_now(self, time_to_live: Option<Duration>) -> Self {
        let age = SystemTime::now().duration_since(self.id.time()).unwrap_or_default();
        let time_to_live = time_to_live.unwrap_or(self.store.inner.config.time_to_live);
        self.with_time_to_live(Some(time_to_live.saturating_add(age)))
    }

    /// Adds known digests by file name, so that the files need not be read again. They are trusted.
    pub fn with_digests(mut self, digests: BTreeMap<String, FileDigest>) -> Self {
        self.digests = digests;
        self
    }

    /// Checks the files, writes their indexes and the manifest, makes room, and publishes everything with one rename. With a
    /// bucket, uploads everything before that, and the directory becomes a copy.
    ///
    /// The policy must have ended, so that nothing writes to the directory any more. Fills in digests, indexes and the
    /// number of lines of texts. On any error the directory is removed.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] when a file does not match `record`: missing, of another size or number of records,
    /// not a regular file, linked twice, with an invalid name, or not listed. [`StoreError::Quota`],
    /// [`StoreError::NoSpace`] and [`StoreError::Io`], also for a failed fsync; [`StoreError::Bucket`].
    pub fn publish(mut self, mut record: OffloadRecord) -> Result<Offload, StoreError> {
        match self.try_publish(&mut record) {
            Ok(in_bucket) => {
                let offload = self.store.offload(&self.tenant, self.id, self.time_to_live, record);
                Ok(Offload { in_bucket, ..offload })
            }
            Err(error) => {
                let (tenant, id) = (&self.tenant, self.id);
                let bytes = record.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
                warn!(tenant, %id, bytes, error = &error as &dyn std::error::Error, "cannot publish an offload");
                Err(error)
            }
        }
    }

    /// Checks the files and completes `record` as [`Staging::publish`] does, without publishing.
    ///
    /// # Errors
    /// As for [`Staging::publish`], about the files.
    pub fn check(&self, record: &mut OffloadRecord) -> Result<(), StoreError> {
        self.complete(record).map(drop)
    }

    fn complete(&self, record: &mut OffloadRecord) -> Result<Vec<Addition>, StoreError> {
        self.check_names(&record.files)?;
        let mut additions = Vec::new();
        for file in &mut record.files {
            let digest = self.check_file(file)?;
            additions.extend(file.complete(digest).map(|bytes| Addition { name: file.index_name(), bytes }));
        }
        Ok(additions)
    }

    fn try_publish(&mut self, record: &mut OffloadRecord) -> Result<Option<InBucket>, StoreError> {
        let additions = self.additions(record)?;
        self.write(&record.files, &additions)?;
        let in_bucket = self.upload(record, &additions)?;
        match (self.rename(&record.files, &additions), &in_bucket) {
            // The directory was to be a copy of what is published already.
            (Err(error), Some(_)) => {
                warn!(tenant = self.tenant, id = %self.id, error = &error as &dyn std::error::Error, "no copy is kept");
            }
            (renamed, _) => renamed?,
        }
        Ok(in_bucket)
    }

    /// Keeps the files of an offload that lies in a bucket as a copy.
    ///
    /// # Errors
    /// [`StoreError::Changed`] when they are not as `record` says; otherwise as for [`Staging::publish`].
    pub(super) fn keep(mut self, record: &OffloadRecord) -> Result<(), StoreError> {
        let mut found = record.clone();
        let additions = self.additions(&mut found)?;
        for (expected, found) in record.files.iter().zip(&found.files) {
            if (expected.sha256, expected.digest_from) != (found.sha256, found.digest_from) {
                let describe = |file: &FileRecord| {
                    format!("SHA-256 {}", file.sha256.map(|digest| digest.to_string()).unwrap_or_default())
                };
                let path = self.path().join(&expected.name);
                return Err(StoreError::Changed { path, expected: describe(expected), found: describe(found) });
            }
        }
        self.write(&record.files, &additions)?;
        self.rename(&record.files, &additions)
    }

    /// Checks the files and completes `record`. Returns what the store adds.
    fn additions(&self, record: &mut OffloadRecord) -> Result<Vec<Addition>, StoreError> {
        let mut additions = self.complete(record)?;
        additions.extend(
            self.time_to_live.map(|time| Addition {
                name: TIME_TO_LIVE_NAME.to_owned(),
                bytes: time_to_live_text(time).into_bytes(),
            }),
        );
        additions.push(self.manifest(record)?);
        Ok(additions)
    }

    /// Uploads everything, if there is a bucket.
    fn upload(&self, record: &OffloadRecord, additions: &[Addition]) -> Result<Option<InBucket>, StoreError> {
        let Some(bucket) = self.store.bucket()? else { return Ok(None) };
        let added = |name: &str| {
            let addition = additions.iter().find(|addition| addition.name == name);
            addition.map(|addition| addition.bytes.as_slice()).unwrap_or_default()
        };
        let publication = Publication {
            tenant: &tenant_name(&self.tenant),
            id: self.id,
            directory: Directory::open(self.directory.path.clone())?,
            record,
            indexes: record.files.iter().map(|file| added(&file.index_name())).collect(),
            manifest: added(MANIFEST_NAME),
            time_to_live: self.time_to_live,
            begun: self.early.as_ref().and_then(|early| early.finish(&record.files)),
        };
        let cipher = bucket.publish(publication, self.store.quotas())?;
        Ok(Some(InBucket { store: self.store.clone(), cipher }))
    }

    /// Compares the names on disk with those of the record.
    fn check_names(&self, files: &[FileRecord]) -> Result<(), StoreError> {
        let unexpected = |name: &Path, reason| StoreError::Unexpected { path: self.path().join(name), reason };
        let mut listed = HashSet::with_capacity(files.len());
        for file in files {
            if !is_file_name(&file.name) {
                return Err(unexpected(Path::new(&file.name), "its name is not allowed"));
            }
            if !listed.insert(file.name.as_str()) {
                return Err(unexpected(Path::new(&file.name), "it is listed twice"));
            }
        }
        for name in self.directory.names()? {
            let name = name?;
            if !name.to_str().is_some_and(|name| listed.contains(name)) {
                return Err(unexpected(Path::new(&name), "it is not listed"));
            }
        }
        Ok(())
    }

    /// Compares one file with its record, and sets its mode.
    fn check_file(&self, record: &FileRecord) -> Result<FileDigest, StoreError> {
        let path = self.path().join(&record.name);
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        let (file, metadata) = match self.directory.file(&record.name) {
            Err(StoreError::NotFound { .. }) => return Err(unexpected("it is listed and absent")),
            opened => opened?,
        };
        if metadata.len() != record.bytes {
            return Err(unexpected("its size is not the listed one"));
        }
        let limit = self.store.inner.config.file_bytes_max;
        if record.bytes > limit {
            return Err(StoreError::Quota { which: QuotaKind::File, limit, needed: record.bytes });
        }
        self.directory.make_private(&file, &record.name)?;
        let has_header = record.kind == FileKind::Records;
        let is_of_file = |digest: &&FileDigest| digest.bytes == record.bytes && (digest.digest_from > 0) == has_header;
        let digest = match self.digests.get(&record.name).filter(is_of_file) {
            Some(digest) => Some(digest.clone()),
            None => digest::digest(&file, has_header).map_err(failed("read", &path))?,
        };
        let digest = digest.ok_or_else(|| unexpected("it has no header line"))?;
        if has_header && digest.lines != record.records {
            return Err(unexpected("its number of records is not the listed one"));
        }
        Ok(digest)
    }

    fn manifest(&self, record: &OffloadRecord) -> Result<Addition, StoreError> {
        let path = self.path().join(MANIFEST_NAME);
        // A directory has a file for it.
        let in_bucket = self.time_to_live.filter(|_| self.store.inner.config.bucket.is_some());
        let ttl_seconds = in_bucket.map(|time| time.as_secs());
        let manifest = Manifest { version: MANIFEST_VERSION, id: self.id, tenant: &*self.tenant, ttl_seconds, record };
        let mut text =
            serde_json::to_vec(&manifest).map_err(|source| StoreError::Manifest { path: path.clone(), source })?;
        text.push(b'\n');
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(StoreError::Unexpected { path, reason: "a manifest has at most 8 MiB" });
        }
        Ok(Addition { name: MANIFEST_NAME.to_owned(), bytes: text })
    }

    /// Makes room, writes what the store adds, and synchronizes all files and their directory entries, if that comes before.
    fn write(&self, files: &[FileRecord], additions: &[Addition]) -> Result<(), StoreError> {
        let added = additions.iter().map(|addition| bytes_on_disk(addition.bytes.len() as u64, 0));
        let needed = added.fold(self.directory.bytes_on_disk()?, u64::saturating_add);
        self.store.reserve(&tenant_name(&self.tenant), self.id, needed)?;
        fail_point!("store::write", failed("write", self.path()));
        for Addition { name, bytes } in additions {
            let mut file = self.directory.create_file(name)?;
            file.write_all(bytes).map_err(failed("write", self.path().join(name)))?;
        }
        if self.fsync() == Fsync::Before {
            synchronize(&self.directory, &names_of(files, additions).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Gives the directory its final name, and synchronizes that, or everything behind the answer.
    fn rename(&mut self, files: &[FileRecord], additions: &[Addition]) -> Result<(), StoreError> {
        let name = self.id.to_string();
        fail_point!("store::publish", failed("rename", self.path()));
        self.parent.rename(&staging_name(self.opened.owner.id, self.id), &name)?;
        self.is_named = true;
        fail_point!("store::published", failed("synchronize", &self.parent.path));
        match self.fsync() {
            Fsync::Before => self.parent.sync()?,
            Fsync::After => {
                let names = names_of(files, additions).map(str::to_owned).collect();
                self.store.inner.behind.add(Published { directory: self.parent.path.join(&name), names });
            }
            Fsync::Never => {}
        }
        self.store.inner.ledger.lock().settle(&tenant_name(&self.tenant), self.id, true);
        self.is_published = true;
        Ok(())
    }
}

/// The names of all files.
fn names_of<'a>(files: &'a [FileRecord], additions: &'a [Addition]) -> impl Iterator<Item = &'a str> {
    let listed = files.iter().map(|file| file.name.as_str());
    listed.chain(additions.iter().map(|addition| addition.name.as_str()))
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // After an error or a panic, the offload no longer counts, and must not stay readable without a durable name.
        self.store.inner.ledger.lock().settle(&tenant_name(&self.tenant), self.id, false);
        // If this sync fails too, a sweep removes it.
        if self.is_named
            && let Ok(removing) = self.store.detach(&self.parent, self.id)
            && (self.fsync() == Fsync::Never || self.parent.sync().is_ok())
        {
            self.store.delete(&removing, &self.tenant, self.id, 0);
        }
        self.store.delete(self.path(), &self.tenant, self.id, 0);
    }
}
