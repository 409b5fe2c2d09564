//! One offload while it is written, and its publishing.

use std::{
    collections::{BTreeMap, HashSet},
    io::Write,
    panic::resume_unwind,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use tracing::warn;

use super::{
    Digest, FileDigest, FileKind, FileRecord, INDEX_STEP_BYTES, IndexRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME,
    Offload, OffloadRecord, Place, QuotaKind, Store, StoreError, Ulid,
    directory::{Directory, bytes_on_disk},
    error::failed,
    manifest::{MANIFEST_VERSION, Manifest, is_file_name},
    staging_name, tenant_name,
};
use crate::faults::fail_point;

/// Files that are synchronized at the same time: a journal takes them together.
const SYNCS_AT_ONCE: usize = 4;

/// A private directory that a policy writes an offload into. Dropped without being published, it removes the directory.
#[derive(Debug)]
pub struct Staging {
    pub(super) store: Store,
    /// Keeps the owner, whose name the directory carries.
    pub(super) place: Arc<Place>,
    pub(super) tenant: String,
    pub(super) id: Ulid,
    /// Directory of the tenant.
    pub(super) parent: Directory,
    pub(super) directory: Directory,
    /// What is known of the files, by name.
    pub(super) digests: BTreeMap<String, FileDigest>,
    /// Whether it has the name of a published one.
    pub(super) is_named: bool,
    pub(super) is_published: bool,
}

/// A file that the store adds to those of the policy.
struct Addition {
    name: String,
    bytes: Vec<u8>,
}

impl Staging {
    /// Absolute path of the directory, for a preopen.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// Id of the offload.
    pub fn id(&self) -> Ulid {
        self.id
    }

    /// Whether publishing waits until the disk has the files.
    pub fn is_durable(&self) -> bool {
        self.store.inner.config.fsync
    }

    /// Adds what is known of files, by name, so that they need not be read again. It is taken on trust.
    pub fn with_digests(mut self, digests: BTreeMap<String, FileDigest>) -> Self {
        self.digests = digests;
        self
    }

    /// Checks the files, writes their indexes and the manifest, makes room, and publishes everything by one rename.
    ///
    /// The policy must have ended: nothing may write to the directory any more. On any error the directory is removed.
    /// Digests, indexes and the number of lines of a text are filled in.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] names a file that is not as `record` says: absent, of another size or number of
    /// records, not a regular file, linked twice, with a name that is not allowed, or not listed. [`StoreError::Quota`],
    /// [`StoreError::NoSpace`] and [`StoreError::Io`] as they say; a failed fsync fails the publishing.
    pub fn publish(mut self, mut record: OffloadRecord) -> Result<Offload, StoreError> {
        match self.try_publish(&mut record) {
            Ok(()) => {
                self.is_published = true;
                Ok(self.store.offload(&self.tenant, self.id, record))
            }
            Err(error) => {
                let (tenant, id) = (&self.tenant, self.id);
                let bytes = record.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
                warn!(tenant, %id, bytes, error = &error as &dyn std::error::Error, "offload not published");
                Err(error)
            }
        }
    }

    /// Checks the files and fills in what [`Staging::publish`] does, and publishes nothing: for an offload that is only
    /// compared with another one.
    ///
    /// # Errors
    /// Those of [`Staging::publish`] about the files.
    pub fn check(&self, record: &mut OffloadRecord) -> Result<(), StoreError> {
        self.complete(record).map(drop)
    }

    fn complete(&self, record: &mut OffloadRecord) -> Result<Vec<Addition>, StoreError> {
        self.check_names(&record.files)?;
        let mut additions = Vec::new();
        for file in &mut record.files {
            let digest = self.check_file(file)?;
            additions.extend(complete(file, digest));
        }
        Ok(additions)
    }

    fn try_publish(&mut self, record: &mut OffloadRecord) -> Result<(), StoreError> {
        let mut additions = self.complete(record)?;
        additions.push(self.manifest(record)?);
        let tenant = tenant_name(&self.tenant);
        let added = additions.iter().map(|addition| bytes_on_disk(addition.bytes.len() as u64, 0));
        let needed = added.fold(self.directory.bytes_on_disk()?, u64::saturating_add);
        self.store.reserve(&tenant, self.id, needed)?;
        self.write_and_rename(&record.files, &additions)?;
        self.store.ledger().settle(&tenant, self.id, true);
        Ok(())
    }

    /// Compares the names on the disk with those of the record.
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

    /// Compares one file with its record, and makes the file private.
    fn check_file(&self, record: &FileRecord) -> Result<FileDigest, StoreError> {
        let path = self.path().join(&record.name);
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        let (file, stat) = match self.directory.file(&record.name) {
            Err(StoreError::NotFound { .. }) => return Err(unexpected("it is listed and absent")),
            opened => opened?,
        };
        if u64::try_from(stat.st_size) != Ok(record.bytes) {
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
            None => FileDigest::of(&file, has_header).map_err(failed("read", &path))?,
        };
        let digest = digest.ok_or_else(|| unexpected("it has no header line"))?;
        if has_header && digest.lines != record.records {
            return Err(unexpected("its number of records is not the listed one"));
        }
        Ok(digest)
    }

    fn manifest(&self, record: &OffloadRecord) -> Result<Addition, StoreError> {
        let path = self.path().join(MANIFEST_NAME);
        let manifest = Manifest { version: MANIFEST_VERSION, id: self.id, tenant: &*self.tenant, record };
        let mut text =
            serde_json::to_vec(&manifest).map_err(|source| StoreError::Manifest { path: path.clone(), source })?;
        text.push(b'\n');
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(StoreError::Unexpected { path, reason: "a manifest has at most 8 MiB" });
        }
        Ok(Addition { name: MANIFEST_NAME.to_owned(), bytes: text })
    }

    /// Order matters: every file and their names, then the rename, then the name it gave.
    fn write_and_rename(&mut self, files: &[FileRecord], additions: &[Addition]) -> Result<(), StoreError> {
        fail_point!("store::write", failed("write", self.path()));
        for Addition { name, bytes } in additions {
            let mut file = self.directory.create_file(name)?;
            file.write_all(bytes).map_err(failed("write", self.path().join(name)))?;
        }
        if self.is_durable() {
            let listed = files.iter().map(|file| file.name.as_str());
            self.sync(&listed.chain(additions.iter().map(|addition| addition.name.as_str())).collect::<Vec<_>>())?;
        }
        let name = self.id.to_string();
        fail_point!("store::publish", failed("rename", self.path()));
        self.parent.rename(&staging_name(self.place.owner.id, self.id), &name)?;
        self.is_named = true;
        fail_point!("store::published", failed("synchronize", &self.parent.path));
        if self.is_durable() { self.parent.sync() } else { Ok(()) }
    }

    /// Waits until the disk has these files and their names.
    fn sync(&self, names: &[&str]) -> Result<(), StoreError> {
        let next = AtomicUsize::new(0);
        let work = || {
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.directory.sync_file(name)?;
            }
            Ok(())
        };
        thread::scope(|scope| {
            // What a thread that the system does not give would do, the others do.
            let start = |_| thread::Builder::new().name("lro-sync".into()).spawn_scoped(scope, work).ok();
            let threads: Vec<_> = (1..SYNCS_AT_ONCE.min(names.len())).filter_map(start).collect();
            let results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            work().and_then(|()| self.directory.sync()).and(results.collect())
        })
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if self.is_published {
            return;
        }
        // It ended early, by an error or a panic: it counts no more, and nobody may go on reading what has no durable name.
        self.store.ledger().settle(&tenant_name(&self.tenant), self.id, false);
        // What the disk does not confirm even now is left to a sweep.
        if self.is_named
            && let Ok(removing) = self.store.detach(&self.parent, self.id)
            && (!self.is_durable() || self.parent.sync().is_ok())
        {
            self.store.delete(&removing, &self.tenant, self.id, 0);
        }
        self.store.delete(self.path(), &self.tenant, self.id, 0);
    }
}

/// Fills in what is known of a file. Returns its index, if it needs one.
fn complete(record: &mut FileRecord, digest: FileDigest) -> Option<Addition> {
    record.sha256 = Some(digest.sha256);
    record.digest_from = digest.digest_from;
    record.index = None;
    if !record.has_lines() {
        return None;
    }
    record.records = digest.lines;
    if record.bytes <= INDEX_STEP_BYTES {
        return None;
    }
    record.index = Some(IndexRecord { bytes: digest.index.len() as u64, sha256: Digest::of(&digest.index) });
    Some(Addition { name: record.index_name(), bytes: digest.index })
}
