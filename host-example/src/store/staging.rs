//! One offload while it is written, and its publishing.

use std::{
    collections::HashSet,
    fs::File,
    io::{self, BufRead, BufReader, Read, Seek, SeekFrom, Write},
    path::Path,
};

use sha2::{Digest, Sha256};
use tracing::warn;

use super::{
    FileKind, FileRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, Offload, OffloadRecord, QuotaKind, Store, StoreError,
    Ulid,
    directory::Directory,
    error::failed,
    manifest::{MANIFEST_VERSION, Manifest, is_file_name},
    staging_name, tenant_name,
};

/// Most bytes read at once for a digest.
const DIGEST_BLOCK_BYTES: usize = 64 * 1024;

/// A private directory that a policy writes an offload into. Dropped without being published, it removes the directory.
#[derive(Debug)]
pub struct Staging {
    pub(super) store: Store,
    pub(super) tenant: String,
    pub(super) id: Ulid,
    /// Directory of the tenant.
    pub(super) parent: Directory,
    pub(super) directory: Directory,
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

    /// Checks the files, writes the manifest, makes room, and publishes everything by one rename.
    ///
    /// The policy must have ended: nothing may write to the directory any more. On any error the directory is removed.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] names a file that is not as `record` says: absent, of another size, not a regular
    /// file, linked twice, with a name that is not allowed, or not listed. [`StoreError::Quota`],
    /// [`StoreError::NoSpace`] and [`StoreError::Io`] as they say; a failed fsync fails the publishing.
    pub fn publish(self, mut record: OffloadRecord) -> Result<Offload, StoreError> {
        let bytes: u64 = record.files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
        match self.try_publish(&mut record, bytes) {
            Ok(()) => Ok(self.store.offload(&self.tenant, self.id, record)),
            Err(error) => {
                let (tenant, id) = (&self.tenant, self.id);
                warn!(tenant, %id, bytes, error = &error as &dyn std::error::Error, "offload not published");
                Err(error)
            }
        }
    }

    fn try_publish(&self, record: &mut OffloadRecord, bytes: u64) -> Result<(), StoreError> {
        self.check_names(&record.files)?;
        for file in &mut record.files {
            self.check_file(file)?;
        }
        let manifest = self.manifest(record)?;
        let tenant = tenant_name(&self.tenant);
        self.store.reserve(&tenant, self.id, bytes.saturating_add(manifest.len() as u64))?;
        let published = self.write_and_rename(&manifest);
        self.store.ledger().settle(&tenant, self.id, published.is_ok());
        published
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

    /// Compares one file with its record, completes the digest, and makes the file private and durable.
    fn check_file(&self, record: &mut FileRecord) -> Result<(), StoreError> {
        let path = self.path().join(&record.name);
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        let (mut file, stat) = match self.directory.file(&record.name) {
            Err(StoreError::NotFound { .. }) => return Err(unexpected("it is listed and absent")),
            opened => opened?,
        };
        if u64::try_from(stat.st_size) != Ok(record.bytes) {
            return Err(unexpected("its size is not the listed one"));
        }
        if record.digest_from > record.bytes {
            return Err(unexpected("its digest begins after its end"));
        }
        let limit = self.store.inner.config.file_bytes_max;
        if record.bytes > limit {
            return Err(StoreError::Quota { which: QuotaKind::File, limit, needed: record.bytes });
        }
        self.directory.make_private(&file, &record.name)?;
        if record.sha256.is_none() {
            if record.kind == FileKind::Records {
                record.digest_from = first_line_bytes(&mut file).map_err(failed("read", &path))?;
            }
            record.sha256 = Some(digest(&mut file, record.digest_from).map_err(failed("read", &path))?);
        }
        self.sync(&file, &record.name)
    }

    fn manifest(&self, record: &OffloadRecord) -> Result<Vec<u8>, StoreError> {
        let path = self.path().join(MANIFEST_NAME);
        let manifest = Manifest { version: MANIFEST_VERSION, id: self.id, tenant: &*self.tenant, record };
        let mut text =
            serde_json::to_vec(&manifest).map_err(|source| StoreError::Manifest { path: path.clone(), source })?;
        text.push(b'\n');
        if text.len() as u64 > MANIFEST_BYTES_MAX {
            return Err(StoreError::Unexpected { path, reason: "a manifest has at most 8 MiB" });
        }
        Ok(text)
    }

    /// Order matters: every file, then the manifest, then their names, then the rename, then the name it gave.
    fn write_and_rename(&self, manifest: &[u8]) -> Result<(), StoreError> {
        let mut file = self.directory.create_file(MANIFEST_NAME)?;
        file.write_all(manifest).map_err(failed("write", self.path().join(MANIFEST_NAME)))?;
        self.sync(&file, MANIFEST_NAME)?;
        let durable = self.store.inner.config.fsync;
        if durable {
            self.directory.sync()?;
        }
        let name = self.id.to_string();
        self.parent.rename(&staging_name(self.store.inner.owner.id, self.id), &name)?;
        if durable && let Err(error) = self.parent.sync() {
            // Without a durable name it is not published, so nobody may go on reading it.
            if let Ok(removing) = self.store.detach(&self.parent, self.id) {
                self.store.delete(&removing, &self.tenant, self.id, 0);
            }
            return Err(error);
        }
        Ok(())
    }

    fn sync(&self, file: &File, name: &str) -> Result<(), StoreError> {
        if self.store.inner.config.fsync {
            file.sync_all().map_err(failed("synchronize", self.path().join(name)))?;
        }
        Ok(())
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // Once published, there is nothing of this name.
        self.store.delete(self.path(), &self.tenant, self.id, 0);
    }
}

/// Length of a file's first line, its line feed included; 0 when there is no line feed.
fn first_line_bytes(file: &mut File) -> io::Result<u64> {
    let mut reader = BufReader::new(file);
    let mut length = 0;
    loop {
        let block = reader.fill_buf()?;
        if let Some(end) = block.iter().position(|&byte| byte == b'\n') {
            return Ok(length + end as u64 + 1);
        }
        let block_bytes = block.len();
        if block_bytes == 0 {
            return Ok(0);
        }
        length += block_bytes as u64;
        reader.consume(block_bytes);
    }
}

/// SHA-256 of a file from an offset to its end.
pub(super) fn digest(file: &mut File, from: u64) -> io::Result<[u8; 32]> {
    file.seek(SeekFrom::Start(from))?;
    let rest = file.metadata()?.len().saturating_sub(from);
    // Of an empty file one byte is asked for, to see its end.
    let block_bytes = usize::try_from(rest).unwrap_or(usize::MAX).clamp(1, DIGEST_BLOCK_BYTES);
    let (mut hasher, mut block) = (Sha256::new(), vec![0; block_bytes]);
    loop {
        match file.read(&mut block) {
            Ok(0) => return Ok(hasher.finalize().into()),
            Ok(length) => hasher.update(block.get(..length).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}
