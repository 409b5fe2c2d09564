//! Offload directories: staging, atomic publishing, handles, expiry and quotas.
//!
//! One offload is one directory, `{root}/{tenant}/{ULID}/`, with its files and a [`MANIFEST_NAME`]. It is written as
//! `{root}/{tenant}/.staging-{owner}-{ULID}/` and published by one rename, so that a reader sees either all of it or
//! nothing. Directories have mode 0700 and files 0600, whatever the umask.
//!
//! What has come of a result before its end lies in `{root}/{tenant}/.growing-{ULID}/`, where [`Store::find`] finds it until
//! an offload of the same id is published. Records of jobs are files in `{root}/{tenant}/.jobs/`.
//!
//! With a [`BucketConfig`], offloads lie in a bucket, which several stores share: staging is in the directory as before, publishing
//! uploads, and the directory keeps copies within a bound.
//!
//! A guest may plant symbolic links in its directory. The host therefore opens files relative to it and without
//! following links, and publishes only what the record lists.

mod bucket;
mod bucket_jobs;
mod bucket_ledger;
mod bucket_sweep;
#[cfg(feature = "object-store")]
mod cipher;
#[cfg(not(feature = "object-store"))]
#[path = "no_cipher.rs"]
mod cipher;
mod copies;
pub(crate) mod directory;
mod early;
mod error;
mod expiry;
mod growing;
mod jobs;
pub(crate) mod key;
mod lease;
mod names;
#[cfg(feature = "object-store")]
mod objects;
#[cfg(not(feature = "object-store"))]
#[path = "no_objects.rs"]
mod objects;
mod offload;
mod owner;
mod quota;
mod ranges;
mod reader;
mod sessions;
mod staging;
mod sweep;
mod synchronize;
mod usage;
mod verified;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{ErrorKind, Read};
use std::path::{self, Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

pub use lro_contract::digest::{Checksum, Digest, FileDigest, INDEX_ENTRY_BYTES, INDEX_STEP_BYTES};
pub use lro_contract::manifest::{
    FILE_NAME_BYTES_MAX, FileKind, FileRecord, Form, IndexRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, OffloadRecord,
    Origin, RecordShape, StoredQuery,
};
use lro_contract::manifest::{MANIFEST_VERSION, MANIFEST_VERSION_MIN, Manifest};
pub use lro_contract::ulid::{ParseUlidError, Ulid, rfc3339};
pub use lro_reading::{Growth, Section};
use parking_lot::{Mutex, RwLock};
use serde::de::Error;
use serde::{Deserialize, Serialize};

use self::bucket::Bucket;
use self::bucket_ledger::Quotas;
pub(crate) use self::copies::{Copying, Files};
use self::directory::Directory;
pub(crate) use self::early::Early;
pub use self::error::StoreError;
use self::error::failed;
pub use self::growing::{Growing, PARTIAL_SECTION};
pub use self::jobs::{JobRecord, JobState};
use self::key::Key;
pub use self::names::safe_name;
use self::offload::InBucket;
pub use self::offload::Offload;
use self::owner::Owner;
pub use self::quota::QuotaKind;
pub use self::reader::Reader;
pub use self::sessions::SESSION_BYTES_MAX;
pub use self::staging::Staging;
pub use self::sweep::{Removal, Sweep};
use self::synchronize::Behind;
pub use self::synchronize::Fsync;
use self::usage::Ledger;
pub use self::verified::VERIFIED_FILES_MAX;
use self::verified::Verified;
use crate::faults::fail_point;

/// Default of [`StoreConfig::time_to_live`].
pub const TIME_TO_LIVE_DEFAULT: Duration = Duration::from_secs(3600);
/// Maximum [`StoreConfig::time_to_live`]: about 100 years; longer values are lowered to it.
pub const TIME_TO_LIVE_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);
/// Default of [`StoreConfig::file_bytes_max`]: 1 GiB.
pub const FILE_BYTES_MAX_DEFAULT: u64 = 1 << 30;
/// Default of [`StoreConfig::tenant_bytes_max`]: 4 GiB.
pub const TENANT_BYTES_MAX_DEFAULT: u64 = 4 << 30;
/// Default of [`StoreConfig::total_bytes_max`]: 16 GiB.
pub const TOTAL_BYTES_MAX_DEFAULT: u64 = 16 << 30;
/// Default of [`BucketConfig::copies_bytes_max`]: 4 GiB.
pub const COPIES_BYTES_MAX_DEFAULT: u64 = 4 << 30;
/// Default of [`BucketConfig::request_time`].
pub const REQUEST_TIME_DEFAULT: Duration = Duration::from_secs(20);
/// Default of [`BucketConfig::retry_time`].
pub const RETRY_TIME_DEFAULT: Duration = Duration::from_secs(30);
/// Default of [`BucketConfig::left_age`]: an hour.
pub const LEFT_AGE_DEFAULT: Duration = Duration::from_secs(3600);
/// Default of [`BucketConfig::lease_time`].
pub const LEASE_TIME_DEFAULT: Duration = Duration::from_secs(30);
/// Default of [`BucketConfig::ledger_time`].
const LEDGER_TIME_DEFAULT: Duration = Duration::from_secs(5);
/// Name of the cursor key in the root, or in the bucket.
const CURSOR_KEY: &str = ".cursor-key";
/// Maximum length of a tenant's directory name, in bytes.
pub const TENANT_NAME_BYTES_MAX: usize = 64;

/// Location, lifetime and quotas of offloads.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// Root directory. Created with mode 0700 if it is missing.
    pub root: PathBuf,
    /// Age at which an offload expires that does not have its own time to live, measured from the time in its id.
    pub time_to_live: Duration,
    /// When a published offload is synchronized to the disk. With a bucket, it is about records of jobs and growing results alone.
    pub fsync: Fsync,
    /// Maximum size of one file, in bytes.
    pub file_bytes_max: u64,
    /// Maximum disk usage of all offloads of one tenant, in bytes: see [`Usage`]. In a bucket, sizes of objects count, and what
    /// other stores have just added may not: see [`BucketConfig::ledger_time`].
    pub tenant_bytes_max: u64,
    /// Maximum disk usage of all offloads, in bytes. In a bucket, the store that sweeps makes room, so that it may
    /// be exceeded by what is added between two sweeps: see [`Store::sweep_in_turn`].
    pub total_bytes_max: u64,
    /// The bucket that the offloads lie in. `None`: the root.
    pub bucket: Option<BucketConfig>,
}

/// A bucket, and how requests to it are sent.
///
/// Credentials, region, endpoint and encryption come from the variables of the environment that the SDKs read, such as
/// `AWS_ACCESS_KEY_ID`, and from `options`. Needs the feature `object-store`.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketConfig {
    /// `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`; the prefix may be missing.
    pub url: String,
    /// Maximum disk usage of the root, in bytes. What is larger can be neither published nor queried.
    pub copies_bytes_max: u64,
    /// Time for one request, with its answer of at most 8 MiB.
    pub request_time: Duration,
    /// Time from the first attempt of a request on, after which it is not repeated any more.
    pub retry_time: Duration,
    /// Age of the last object from which on objects without a manifest are removed: a process that ended left them. Publishing
    /// that takes half of it fails, so that nothing is published whose files were removed.
    pub left_age: Duration,
    /// Directory with the keys that offloads are encrypted with: for each tenant a file `TENANT.key`, named as its directory, whose
    /// lines are keys of 64 hexadecimal digits. The first encrypts, and each decrypts. It is read at each use. With it, a tenant
    /// without a key can neither publish nor read, and what is not encrypted is refused. `None`: nothing is encrypted here.
    pub keys: Option<PathBuf>,
    /// Whole seconds after which a store that no longer renews its lease counts as ended: its jobs are lost, and its sessions free.
    pub lease_time: Duration,
    /// Time between two looks at the ledger of a tenant, 5 s by default: what stores add within twice this time may exceed a quota.
    pub ledger_time: Duration,
    /// Options that win over the environment, named as in the crate `object_store`, such as `aws_endpoint`.
    pub options: BTreeMap<String, String>,
}

/// Without the values of options, which may be secret.
impl fmt::Debug for BucketConfig {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("BucketConfig").field("url", &self.url).finish_non_exhaustive()
    }
}

impl BucketConfig {
    /// Default settings for an address: see the constants of this module.
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            copies_bytes_max: COPIES_BYTES_MAX_DEFAULT,
            request_time: REQUEST_TIME_DEFAULT,
            retry_time: RETRY_TIME_DEFAULT,
            left_age: LEFT_AGE_DEFAULT,
            keys: None,
            lease_time: LEASE_TIME_DEFAULT,
            ledger_time: LEDGER_TIME_DEFAULT,
            options: BTreeMap::new(),
        }
    }
}

impl StoreConfig {
    /// Default settings for a root: see the constants of this module; [`Fsync::Before`], and no bucket.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self {
            root: root.into(),
            time_to_live: TIME_TO_LIVE_DEFAULT,
            fsync: Fsync::Before,
            file_bytes_max: FILE_BYTES_MAX_DEFAULT,
            tenant_bytes_max: TENANT_BYTES_MAX_DEFAULT,
            total_bytes_max: TOTAL_BYTES_MAX_DEFAULT,
            bucket: None,
        }
    }

    /// Whether names and small records wait for the disk.
    fn synchronizes(&self) -> bool {
        self.fsync != Fsync::Never
    }
}

/// The offloads of all tenants. Clones share their state.
///
/// Several processes may open a store on the same root.
#[derive(Clone, Debug)]
pub struct Store {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    config: StoreConfig,
    /// Absolute path of the root, without links if the root could be opened at the start.
    path: PathBuf,
    /// `None` until the root is opened.
    opened: RwLock<Option<Arc<OpenRoot>>>,
    /// Of the root.
    ledger: Mutex<Ledger>,
    verified: Arc<Verified>,
    /// Set on first use, if there is one.
    bucket: OnceLock<Arc<Bucket>>,
    behind: Behind,
}

/// The opened root.
#[derive(Debug)]
struct OpenRoot {
    root: Directory,
    owner: Owner,
}

impl OpenRoot {
    fn open(root: &Path, durable: bool) -> Result<Self, StoreError> {
        let root = Directory::private(root, durable)?;
        root.remove_stale_temporaries()?;
        let owner = Owner::create(&root)?;
        Ok(Self { root, owner })
    }
}

/// Contents of a store.
///
/// In a bucket, bytes are the sizes of objects. Otherwise they are disk usage, because many small files use up blocks and inodes
/// first: each file counts in whole blocks of 4 KiB, or as what the system has allocated if that is more, and each file and
/// directory counts another 4 KiB for its inode and name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Number of published offloads.
    pub offloads: u64,
    /// Disk usage in bytes, including manifests, indexes and offloads being published.
    pub bytes: u64,
}

/// A published offload, as returned by [`Store::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Directory name of the tenant: see [`safe_name`].
    pub tenant: String,
    /// Its id.
    pub id: Ulid,
    /// Disk usage in bytes: see [`Usage`].
    pub bytes: u64,
}

impl Store {
    /// Opens the store, creates its root if it is missing, and sweeps the root: see [`Store::sweep`]. Sends no request to a
    /// bucket.
    ///
    /// # Errors
    /// [`StoreError::UnsafeRoot`] when the root belongs to another user or others can write to it; [`StoreError::Bucket`] when
    /// the address of the bucket or the environment is wrong.
    pub fn open(config: StoreConfig) -> Result<Self, StoreError> {
        let store = Self::open_unswept(config)?;
        store.sweep_directory(SystemTime::now())?;
        Ok(store)
    }

    /// As [`Store::open`], but without a sweep: removes and counts nothing.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn open_unswept(mut config: StoreConfig) -> Result<Self, StoreError> {
        let opened = OpenRoot::open(&config.root, config.synchronizes())?;
        config.root.clone_from(&opened.root.path);
        let store = Self::new(config, Some(opened));
        store.bucket()?;
        Ok(store)
    }

    /// As [`Store::open`], for a process that continues without a store. If the store cannot be opened now, returns the
    /// error too; each use of the store then tries again, and fails until that succeeds.
    pub fn open_or_retry(config: StoreConfig) -> (Self, Option<StoreError>) {
        match Self::open(config.clone()) {
            Ok(store) => (store, None),
            Err(error) => {
                let root = path::absolute(&config.root).unwrap_or_else(|_| config.root.clone());
                (Self::new(StoreConfig { root, ..config }, None), Some(error))
            }
        }
    }

    fn new(mut config: StoreConfig, opened: Option<OpenRoot>) -> Self {
        config.time_to_live = config.time_to_live.min(TIME_TO_LIVE_MAX);
        let (path, opened) = (config.root.clone(), RwLock::new(opened.map(Arc::new)));
        let (ledger, verified, bucket) = (Mutex::default(), Arc::default(), OnceLock::new());
        let inner = Arc::new(Inner { config, path, opened, ledger, verified, bucket, behind: Behind::default() });
        Self { inner }
    }

    /// Checks that the store is open, or opens it.
    ///
    /// # Errors
    /// As for [`Store::open`].
    pub fn check(&self) -> Result<(), StoreError> {
        self.opened()?;
        self.bucket().map(drop)
    }

    /// Checks that there is a key to encrypt offloads of a tenant with, if they are to be: see [`BucketConfig::keys`]. Sends no
    /// request to the bucket.
    ///
    /// # Errors
    /// [`StoreError::NoKey`], or another if the file of the keys cannot be read.
    pub fn check_tenant(&self, tenant: &str) -> Result<(), StoreError> {
        let Some(bucket) = self.bucket()? else { return Ok(()) };
        bucket.encrypting(&tenant_name(tenant)).map(drop)
    }

    /// Asks the bucket, if the offloads lie in one: that it exists, can be reached and takes the credentials.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn ask_bucket(&self) -> Result<(), StoreError> {
        // One short list: nothing has this key.
        self.bucket()?.map_or(Ok(()), |bucket| bucket.objects.list("lro-self-check", |_| Ok(())))
    }

    /// The bucket, if the offloads lie in one.
    fn bucket(&self) -> Result<Option<&Arc<Bucket>>, StoreError> {
        let Some(config) = &self.inner.config.bucket else { return Ok(None) };
        if let Some(bucket) = self.inner.bucket.get() {
            return Ok(Some(bucket));
        }
        let opened = Arc::new(Bucket::open(config)?);
        Ok(Some(self.inner.bucket.get_or_init(|| opened)))
    }

    /// Quotas of the bucket.
    fn quotas(&self) -> Quotas {
        let StoreConfig { tenant_bytes_max, total_bytes_max, time_to_live, .. } = self.inner.config;
        Quotas { tenant: tenant_bytes_max, total: total_bytes_max, time_to_live }
    }

    /// What is known of the offloads.
    fn ledger(&self) -> &Mutex<Ledger> {
        self.inner.bucket.get().map_or(&self.inner.ledger, |bucket| &bucket.ledger)
    }

    /// Absolute path of the root.
    pub fn root(&self) -> &Path {
        &self.inner.path
    }

    /// Unique id of this open store, among those of all processes.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn owner(&self) -> Result<Ulid, StoreError> {
        Ok(self.opened()?.owner.id)
    }

    /// Whether the store with this owner id has been closed, or its process has ended.
    ///
    /// # Errors
    /// [`StoreError::Io`].
    pub fn is_gone(&self, owner: Ulid) -> Result<bool, StoreError> {
        self.opened()?.owner.is_dead(owner)
    }

    /// Creates a private, empty directory for one offload, not visible to readers until it is published. Recreates a
    /// root that was removed or moved.
    ///
    /// # Errors
    /// [`StoreError::NoSpace`] or [`StoreError::Io`]; the latter also if the id is already being staged.
    pub fn stage(&self, tenant: &str, id: Ulid) -> Result<Staging, StoreError> {
        let opened = self.current_root()?;
        fail_point!("store::stage", failed("create", &opened.root.path));
        let parent = self.tenant_directory(&opened.root, &tenant_name(tenant))?;
        let name = staging_name(opened.owner.id, id);
        match parent.create_directory(&name)? {
            Some(directory) => {
                let (store, tenant, digests) = (self.clone(), tenant.to_owned(), BTreeMap::new());
                Ok(Staging {
                    store,
                    opened,
                    tenant,
                    id,
                    parent,
                    directory,
                    time_to_live: None,
                    digests,
                    early: None,
                    is_named: false,
                    is_published: false,
                })
            }
            None => Err(failed("create", parent.path.join(name))(std::io::Error::from(ErrorKind::AlreadyExists))),
        }
    }

    /// Finds a published offload of this tenant and reads its manifest; before it is published, what has come of it. Offloads
    /// of other tenants are not found.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], [`StoreError::Expired`], [`StoreError::Manifest`].
    pub fn find(&self, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        let is_absent = |error: &StoreError| matches!(error, StoreError::NotFound { .. } | StoreError::Expired { .. });
        match self.find_published(tenant, id) {
            Err(error) if is_absent(&error) => match self.find_growing(tenant, id) {
                // It may have been published between the two.
                Err(error) if is_absent(&error) => self.find_published(tenant, id),
                found => found,
            },
            found => found,
        }
    }

    fn find_published(&self, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        match self.bucket()? {
            Some(bucket) => self.find_in_bucket(bucket, tenant, id),
            None => self.find_in_directory(tenant, id),
        }
    }

    fn find_in_bucket(&self, bucket: &Bucket, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        let (now, name) = (SystemTime::now(), tenant_name(tenant));
        let (text, cipher) = match bucket.read_manifest(&name, id) {
            Err(StoreError::NotFound { .. }) if self.expires(id, None) <= now => {
                return Err(StoreError::Expired { id });
            }
            read => read?,
        };
        let place = bucket.objects.place(&bucket::key(&name, id));
        let manifest = parse_manifest(&text, place, tenant, id)?;
        let time_to_live = manifest.ttl_seconds.map(|seconds| Duration::from_secs(seconds).min(TIME_TO_LIVE_MAX));
        if self.expires(id, time_to_live) <= now {
            return Err(StoreError::Expired { id });
        }
        let offload = self.offload(tenant, id, time_to_live, manifest.record);
        Ok(Offload { in_bucket: Some(InBucket { store: self.clone(), cipher }), ..offload })
    }

    fn find_in_directory(&self, tenant: &str, id: Ulid) -> Result<Offload, StoreError> {
        let now = SystemTime::now();
        let parent = self.opened()?.root.directory(tenant_name(tenant));
        let directory = match parent.and_then(|parent| parent.directory(id.to_string())) {
            Err(StoreError::NotFound { .. }) if self.expires(id, None) <= now => {
                return Err(StoreError::Expired { id });
            }
            opened => opened?,
        };
        let time_to_live = directory.time_to_live()?;
        if self.expires(id, time_to_live) <= now {
            return Err(StoreError::Expired { id });
        }
        let (file, _) = directory.file(MANIFEST_NAME)?;
        let path = directory.path.join(MANIFEST_NAME);
        let mut text = Vec::new();
        file.take(MANIFEST_BYTES_MAX).read_to_end(&mut text).map_err(failed("read", &path))?;
        let manifest = parse_manifest(&text, directory.path, tenant, id)?;
        Ok(self.offload(tenant, id, time_to_live, manifest.record))
    }

    /// Absolute path of an offload once it is published, without a trailing slash. One in a bucket is there while a copy is.
    pub fn shown_path(&self, tenant: &str, id: Ulid) -> PathBuf {
        self.inner.path.join(tenant_name(tenant)).join(id.to_string())
    }

    /// The key that signs cursors: 32 random bytes in the file `.cursor-key` of the root, or the object of the bucket, shared by
    /// all processes on it. Created if it is missing.
    ///
    /// # Errors
    /// [`StoreError::Unexpected`] when others have access to the file or it is not a key; [`StoreError::Io`] and
    /// [`StoreError::Bucket`].
    pub fn cursor_key(&self) -> Result<[u8; 32], StoreError> {
        if let Some(bucket) = self.bucket()? {
            return bucket.cursor_key();
        }
        Ok(Key::of(&self.opened()?.root, CURSOR_KEY)?.0)
    }

    /// All published offloads that this process knows, oldest first. Exact after a sweep, as long as no other process
    /// writes. In a bucket that [another store sweeps](Store::sweep_in_turn), those that this store has published.
    pub fn list(&self) -> Vec<Listed> {
        let published = self.ledger().lock().published();
        published.into_iter().map(|(id, tenant, bytes)| Listed { tenant, id, bytes }).collect()
    }

    /// Usage as far as this process knows: see [`Store::list`]. In a bucket that another store sweeps, as that has counted last.
    pub fn usage(&self) -> Usage {
        self.ledger().lock().usage()
    }

    /// Returns the root, and opens it if it is not open yet.
    fn opened(&self) -> Result<Arc<OpenRoot>, StoreError> {
        let opened = self.inner.opened.read().clone();
        opened.map_or_else(|| self.reopen(), Ok)
    }

    /// Returns the root, and reopens it if its path no longer refers to the opened directory.
    fn current_root(&self) -> Result<Arc<OpenRoot>, StoreError> {
        let opened = self.opened()?;
        if opened.root.is_at_its_path() { Ok(opened) } else { self.reopen() }
    }

    fn reopen(&self) -> Result<Arc<OpenRoot>, StoreError> {
        let mut current = self.inner.opened.write();
        if let Some(opened) = current.as_ref().filter(|opened| opened.root.is_at_its_path()) {
            return Ok(Arc::clone(opened));
        }
        let opened = Arc::new(OpenRoot::open(&self.inner.path, self.inner.config.synchronizes())?);
        let before = current.replace(Arc::clone(&opened));
        drop(current);
        let root = self.inner.path.display();
        match before {
            Some(_) => tracing::warn!(%root, "the directory of the store was removed or moved; created it again"),
            None => {
                tracing::warn!(%root, "the store could be opened: results are offloaded from now on");
                // Existing offloads count towards the quotas.
                self.sweep_directory(SystemTime::now())?;
            }
        }
        Ok(opened)
    }

    /// Opens the directory of a tenant, and creates it if it is missing.
    fn tenant_directory(&self, root: &Directory, name: &str) -> Result<Directory, StoreError> {
        match root.directory(name) {
            Err(StoreError::NotFound { .. }) => {}
            opened => return opened,
        }
        match root.create_directory(name)? {
            Some(created) => {
                if self.inner.config.synchronizes() {
                    root.sync()?;
                }
                Ok(created)
            }
            // Another thread or process created it.
            None => root.directory(name),
        }
    }

    fn offload(&self, tenant: &str, id: Ulid, time_to_live: Option<Duration>, record: OffloadRecord) -> Offload {
        let (path, expires) = (self.shown_path(tenant, id), self.expires(id, time_to_live));
        let verified = Arc::clone(&self.inner.verified);
        Offload { tenant: tenant.to_owned(), id, path, expires, record, growth: None, verified, in_bucket: None }
    }
}

/// Reads a manifest, which must be that of this offload. `place` is where it lies.
fn parse_manifest(
    text: &[u8],
    place: PathBuf,
    tenant: &str,
    id: Ulid,
) -> Result<Manifest<String, OffloadRecord>, StoreError> {
    let damaged = |source| StoreError::Manifest { path: place.join(MANIFEST_NAME), source };
    let manifest: Manifest<String, OffloadRecord> = serde_json::from_slice(text).map_err(damaged)?;
    // Tenants whose directory names collide still do not see each other's offloads.
    if manifest.tenant != tenant {
        return Err(StoreError::NotFound { path: place });
    }
    if !(MANIFEST_VERSION_MIN..=MANIFEST_VERSION).contains(&manifest.version)
        || manifest.id != id
        || !manifest.record.files.iter().all(FileRecord::is_complete)
    {
        return Err(damaged(serde_json::Error::custom("wrong version or id, or incomplete")));
    }
    Ok(manifest)
}

/// Returns the directory name of a tenant.
fn tenant_name(tenant: &str) -> String {
    safe_name(tenant, TENANT_NAME_BYTES_MAX)
}

/// Returns the name of a staging directory.
fn staging_name(owner: Ulid, id: Ulid) -> String {
    format!(".staging-{owner}-{id}")
}
