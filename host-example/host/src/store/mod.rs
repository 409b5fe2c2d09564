//! Output directories: staging, atomic publishing, handles, expiry and quotas.
//!
//! One offload is one directory, `{root}/{tenant}/{ULID}/`, with its files and a [`MANIFEST_NAME`]. It is written as
//! `{root}/{tenant}/.staging-{owner}-{ULID}/` and published by one rename, so a reader sees all of it or nothing.
//! Directories have mode 0700 and files 0600, whatever the umask.
//!
//! A guest may plant symbolic links in its directory. Whatever the host opens there is opened beneath it and without
//! following links, and nothing is published that the record does not list.

pub(crate) mod directory;
mod error;
pub(crate) mod key;
mod manifest;
mod names;
mod offload;
mod owner;
mod quota;
mod reader;
mod staging;
mod sweep;
mod ulid;
mod usage;
mod verified;

use std::{
    collections::BTreeMap,
    io::{ErrorKind, Read},
    path::{self, Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock},
    time::{Duration, SystemTime},
};

use serde::de::Error;

use self::{
    directory::Directory,
    error::failed,
    key::Key,
    manifest::{MANIFEST_VERSION, Manifest},
    owner::Owner,
    usage::Ledger,
    verified::Verified,
};
pub use self::{
    error::StoreError,
    manifest::{
        FILE_NAME_BYTES_MAX, FileKind, FileRecord, IndexRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, OffloadRecord,
        RecordShape, StoredQuery,
    },
    names::safe_name,
    offload::Offload,
    quota::QuotaKind,
    reader::Reader,
    staging::Staging,
    sweep::{Removal, Sweep},
    ulid::{ParseUlidError, Ulid, rfc3339},
    verified::VERIFIED_FILES_MAX,
};
pub use crate::digest::{Digest, FileDigest, INDEX_ENTRY_BYTES, INDEX_STEP_BYTES};
use crate::faults::fail_point;

/// Default of [`StoreConfig::time_to_live`].
pub const TIME_TO_LIVE_DEFAULT: Duration = Duration::from_secs(3600);
/// Greatest [`StoreConfig::time_to_live`]: about 100 years; a longer one is cut to it.
pub const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Default of [`StoreConfig::file_bytes_max`]: 1 GiB.
pub const FILE_BYTES_MAX_DEFAULT: u64 = 1 << 30;
/// Default of [`StoreConfig::tenant_bytes_max`]: 4 GiB.
pub const TENANT_BYTES_MAX_DEFAULT: u64 = 4 << 30;
/// Default of [`StoreConfig::total_bytes_max`]: 16 GiB.
pub const TOTAL_BYTES_MAX_DEFAULT: u64 = 16 << 30;
/// Name of the key of cursors in the root.
const CURSOR_KEY: &str = ".cursor-key";
/// Most bytes of the directory name of a tenant.
pub const TENANT_NAME_BYTES_MAX: usize = 64;

/// Where offloads are kept, how long, and how much of them.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The directory that holds everything. It is created with mode 0700 when it is missing.
    pub root: PathBuf,
    /// Age at which an offload expires, counted from the time in its id.
    pub time_to_live: Duration,
    /// Whether publishing waits until the disk has the data. Without, an offload may be lost or damaged when the power
    /// fails; other processes never see a part of it either way.
    pub fsync: bool,
    /// Most bytes of one file.
    pub file_bytes_max: u64,
    /// Most bytes that all offloads of one tenant take up on the disk: see [`Usage`].
    pub tenant_bytes_max: u64,
    /// Most bytes that all offloads take up on the disk.
    pub total_bytes_max: u64,
}

impl StoreConfig {
    /// The defaults for a root: see the constants of this module; `fsync` is on.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            time_to_live: TIME_TO_LIVE_DEFAULT,
            fsync: true,
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            tenant_bytes_max: TENANT_BYTES_MAX_DEFAULT,
            total_bytes_max: TOTAL_BYTES_MAX_DEFAULT,
        }
    }
}

/// The output directories of all tenants. A clone shares everything with its original.
///
/// Several processes may have a store open on the same root.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
    opening: Sweep,
}

#[derive(Debug)]
struct Inner {
    config: StoreConfig,
    /// The root, as an absolute path; without links if it could be opened at once.
    path: PathBuf,
    /// None until the root could be opened.
    place: RwLock<Option<Arc<Place>>>,
    ledger: Mutex<Ledger>,
    verified: Arc<Verified>,
}

/// The root as it was when it was opened.
#[derive(Debug)]
struct Place {
    root: Directory,
    owner: Owner,
}

impl Place {
    fn open(root: &Path, fsync: bool) -> Result<Self, StoreError> {
        let root = Directory::private(root, fsync)?;
        root.remove_unnamed()?;
        let owner = Owner::create(&root)?;
        Ok(Self { root, owner })
    }
}

/// What a store holds.
///
/// Bytes are those on the disk, for a tenant that keeps many small files uses up blocks and inodes first: each file counts
/// in whole blocks of 4 KiB, or with what the system has allocated for it when that is more, and each file and each
/// directory with 4 KiB besides for its inode and its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Published offloads.
    pub offloads: u64,
    /// Bytes that they take up, manifests and indexes too, with what is being published.
    pub bytes: u64,
}

/// A published offload, as [`Store::list`] finds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Directory name of its tenant: [`safe_name`] of the tenant.
    pub tenant: String,
    /// Its id.
    pub id: Ulid,
    /// Bytes that it takes up: see [`Usage`].
    pub bytes: u64,
}

impl Store {
    /// Opens the store, creates its root when it is missing, and sweeps: see [`Store::sweep`].
    ///
    /// # Errors
    /// [`StoreError::UnsafeRoot`] when the root belongs to another user or others can write to it.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let store = Self::open_unswept(config)?;
        let opening = store.sweep(SystemTime::now())?;
        Ok(Self { opening, ..store })
    }

    /// As [`Store::open`], but removes nothing and counts nothing yet.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn open_unswept(mut config: StoreConfig) -> Result<Self, StoreError> {
        let place = Place::open(&config.root, config.fsync)?;
        config.root.clone_from(&place.root.path);
        Ok(Self::new(config, Some(place)))
    }

    /// As [`Store::open`], for a process that goes on without a store: when it cannot be opened now, each use of it tries again,
    /// and fails with the error of [`Store::open`] until one succeeds. The second is why it could not.
    pub fn open_sooner_or_later(config: StoreConfig) -> (Self, Option<StoreError>) {
        match Self::open(config.clone()) {
            Ok(store) => (store, None),
            Err(error) => {
                let root = path::absolute(&config.root).unwrap_or_else(|_| config.root.clone());
                (Self::new(StoreConfig { root, ..config }, None), Some(error))
            }
        }
    }

    fn new(mut config: StoreConfig, place: Option<Place>) -> Self {
        config.time_to_live = config.time_to_live.min(TIME_TO_LIVE_MAX);
        let (path, place) = (config.root.clone(), RwLock::new(place.map(Arc::new)));
        let inner = Arc::new(Inner { config, path, place, ledger: Mutex::default(), verified: Arc::default() });
        Self { inner, opening: Sweep::default() }
    }

    /// Whether it is open, which is tried.
    ///
    /// # Errors
    /// As of [`Store::open`].
    pub fn check(&self) -> Result<(), StoreError> {
        self.place().map(drop)
    }

    /// The directory that holds everything, as an absolute path.
    pub fn root(&self) -> &Path {
        &self.inner.path
    }

    /// What [`Store::open`] removed.
    pub fn opening_sweep(&self) -> Sweep {
        self.opening
    }

    /// What tells this open store from all others, of this process and others.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owner(&self) -> Result<Ulid, StoreError> {
        Ok(self.place()?.owner.id)
    }

    /// Whether an open store is gone, however its process ended.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_gone(&self, owner: Ulid) -> Result<bool, StoreError> {
        self.place()?.owner.is_dead(owner)
    }

    /// Makes a private, empty directory for one offload. Nobody else finds it before it is published. A root that was
    /// removed or moved away is made again.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] or [`StoreError::Io`], the latter too when the id is being staged already.
    pub fn stage(&self, tenant: &str, id: Ulid) -> Result<Staging, StoreError> {
        let place = self.present_place()?;
        fail_point!("store::stage", failed("create", &place.root.path));
        let parent = self.tenant_directory(&place.root, &tenant_name(tenant))?;
        let name = staging_name(place.owner.id, id);
        match parent.create_directory(&name)? {
            Some(directory) => {
                let (store, tenant, digests) = (self.clone(), tenant.to_owned(), BTreeMap::new());
                Ok(Staging {
                    store,
                    place,
                    tenant,
                    id,
                    parent,
                    directory,
                    digests,
                    is_named: false,
                    is_published: false,
                })
            }
            None => Err(failed("create", parent.path.join(name))(std::io::Error::from(ErrorKind::AlreadyExists))),
        }
    }

    /// Finds a published offload of this tenant and reads its manifest. The offload of another tenant is not found.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Expired`], [`StoreError::Manifest`].
    pub fn find(&self, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        if self.expires(id) <= SystemTime::now() {
            return Err(StoreError::Expired { id });
        }
        let directory = self.place()?.root.directory(tenant_name(tenant))?.directory(id.to_string())?;
        let (file, _) = directory.file(MANIFEST_NAME)?;
        let path = directory.path.join(MANIFEST_NAME);
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text).map_err(failed("read", &path))?;
        let manifest: Manifest<String, OffloadRecord> =
            serde_json::from_slice(&text).map_err(|source| StoreError::Manifest { path: path.clone(), source })?;
        // Two tenants whose directory names clash still do not see each other's offloads.
        if manifest.tenant != tenant {
            return Err(StoreError::NotFound { path: directory.path });
        }
        if manifest.version != MANIFEST_VERSION
            || manifest.id != id
            || !manifest.record.files.iter().all(FileRecord::is_complete)
        {
            let source = serde_json::Error::custom("it is of another version, for another id, or incomplete");
            return Err(StoreError::Manifest { path, source });
        }
        Ok(self.offload(tenant, id, manifest.record))
    }

    /// Absolute path of the offload once it is published, without a slash at its end.
    pub fn shown_path(&self, tenant: &str, id: Ulid) -> PathBuf {
        self.inner.path.join(tenant_name(tenant)).join(id.to_string())
    }

    /// The key that cursors are signed with: 32 random bytes in a file `.cursor-key` of the root, the same for all processes
    /// on this root. It is made when there is none.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] when others have access to the file or it is no key; [`StoreError::Io`].
    pub fn cursor_key(&self) -> Result<[u8; 32], StoreError> {
        Ok(Key::of(&self.place()?.root, CURSOR_KEY)?.0)
    }

    /// All published offloads that this process knows of, oldest first: exact after a sweep, and then as long as no other
    /// process writes.
    pub fn list(&self) -> Vec<Listed> {
        let published = self.ledger().published();
        published.into_iter().map(|(id, tenant, bytes)| Listed { tenant, id, bytes }).collect()
    }

    /// What is held, as far as this process knows: see [`Store::list`].
    pub fn usage(&self) -> Usage {
        self.ledger().usage()
    }

    /// The root as it was when it was opened, which is tried if it was not.
    fn place(&self) -> Result<Arc<Place>, StoreError> {
        let place = self.inner.place.read().unwrap_or_else(PoisonError::into_inner).clone();
        place.map_or_else(|| self.open_place(), Ok)
    }

    /// The root where its path leads to, made again if that is nowhere or to another directory than it did.
    fn present_place(&self) -> Result<Arc<Place>, StoreError> {
        let place = self.place()?;
        if place.root.is_at_its_path() { Ok(place) } else { self.open_place() }
    }

    fn open_place(&self) -> Result<Arc<Place>, StoreError> {
        let mut current = self.inner.place.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(place) = current.as_ref().filter(|place| place.root.is_at_its_path()) {
            return Ok(Arc::clone(place));
        }
        let place = Arc::new(Place::open(&self.inner.path, self.inner.config.fsync)?);
        let before = current.replace(Arc::clone(&place));
        drop(current);
        let root = self.inner.path.display();
        match before {
            Some(_) => tracing::warn!(%root, "the directory of the store was removed or moved away; it was made again"),
            None => {
                tracing::warn!(%root, "the store could be opened; results are offloaded from now on");
                // What is held counts towards the quotas.
                self.sweep(SystemTime::now())?;
            }
        }
        Ok(place)
    }

    /// Opens the directory of a tenant, and makes it when it is missing.
    fn tenant_directory(&self, root: &Directory, name: &str) -> Result<Directory, StoreError> {
        match root.directory(name) {
            Err(StoreError::NotFound { .. }) => {}
            opened => return opened,
        }
        match root.create_directory(name)? {
            Some(created) => {
                if self.inner.config.fsync {
                    root.sync()?;
                }
                Ok(created)
            }
            // Another thread or process was faster.
            None => root.directory(name),
        }
    }

    fn offload(&self, tenant: &str, id: Ulid, record: OffloadRecord) -> Offload {
        let (path, expires) = (self.shown_path(tenant, id), self.expires(id));
        let verified = Arc::clone(&self.inner.verified);
        Offload { tenant: tenant.to_owned(), id, path, expires, record, verified }
    }

    fn expires(&self, id: Ulid) -> SystemTime {
        id.time() + self.inner.config.time_to_live
    }

    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.inner.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Directory name of a tenant.
fn tenant_name(tenant: &str) -> String {
    safe_name(tenant, TENANT_NAME_BYTES_MAX)
}

/// Name of a directory that is being written.
fn staging_name(owner: Ulid, id: Ulid) -> String {
    format!(".staging-{owner}-{id}")
}
