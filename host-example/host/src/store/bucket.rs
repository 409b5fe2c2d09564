//! Offloads in a bucket, which several stores share.
//!
//! An offload is the objects `{tenant}/{id}/{file}`. Its manifest is put last, and only if there is none: readers find all
//! of an offload or nothing. It is deleted first. What has no manifest was left by a process that ended, and is removed once
//! it is older than [`BucketConfig::left_age`].

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};
use tracing::{info, warn};

use super::bucket_jobs::{Record, below_job};
use super::cipher::{ObjectCipher, OffloadCipher, SEALED_MANIFEST_BYTES_MAX, TenantKeys, is_encrypted, sealed_bytes};
use super::directory::Directory;
use super::early::Begun;
use super::key::KEY_BYTES;
use super::lease::{Lease, is_lease};
use super::objects::{Objects, Parts};
use super::ranges::Ranges;
use super::sessions::{has_expired, is_session};
use super::sweep::{Removal, Sweep};
use super::usage::{Counted, Kind, Ledger};
use super::{
    BucketConfig, CURSOR_KEY, FileRecord, MANIFEST_NAME, OffloadRecord, QuotaKind, StoreError, TIME_TO_LIVE_MAX, Ulid,
};

/// How long a count of a tenant's objects is used for its quota: within this time, other stores may add to them unseen.
const COUNT_VALID: Duration = Duration::from_secs(60);
/// Times that a manifest is put when the answers are lost.
const MANIFEST_ATTEMPTS: usize = 3;
/// Indexes and checksums of files that are kept in memory, of those read last.
const RANGES_KEPT: usize = 32;
/// Offloads that a sweep removes together.
const REMOVED_AT_ONCE: usize = 200;
/// End of the key of a manifest. No other name has it.
const MANIFEST: &str = "/manifest.json";
/// Beginning of the name of an empty object that says the time to live of an offload, in seconds: a list shows it.
const TIME_TO_LIVE: &str = ".ttl-seconds-";

/// The offloads in a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) objects: Objects,
    keys: Option<TenantKeys>,
    left_age: Duration,
    pub(super) ledger: Mutex<Ledger>,
    /// By key of the file, those read last at the end.
    ranges: Mutex<VecDeque<(String, Arc<Ranges>)>>,
    /// For how long a lease of this store holds.
    pub(super) lease_time: Duration,
    pub(super) own_lease: Mutex<Option<Lease>>,
    /// Offloads that are being copied to this machine.
    copying: Mutex<HashSet<Ulid>>,
    copied: Condvar,
}

/// The right to copy an offload to this machine, which one at a time has.
#[derive(Debug)]
pub(super) struct Turn {
    bucket: Arc<Bucket>,
    id: Ulid,
}

/// A file to be uploaded.
#[cfg_attr(not(feature = "object-store"), expect(dead_code, reason = "nothing is uploaded"))]
pub(super) struct Upload {
    pub(super) key: String,
    /// Name in its directory.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) cipher: Option<ObjectCipher>,
    /// Of which parts may be on their way.
    pub(super) parts: Option<Parts>,
}

/// An object, as listed.
#[derive(Debug)]
pub(super) struct Object {
    pub(super) key: String,
    pub(super) bytes: u64,
    pub(super) modified: SystemTime,
}

/// An object, as read.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) bytes: Vec<u8>,
    pub(super) modified: SystemTime,
    pub(super) version: Version,
}

/// Which of the contents of an object it is.
#[derive(Clone, Debug)]
#[cfg_attr(not(feature = "object-store"), expect(dead_code, reason = "nothing is read"))]
pub(super) struct Version {
    pub(super) e_tag: Option<String>,
    pub(super) version: Option<String>,
}

/// An offload that is complete in a directory.
pub(super) struct Publication<'a> {
    /// Directory name of the tenant.
    pub(super) tenant: &'a str,
    pub(super) id: Ulid,
    pub(super) directory: Directory,
    pub(super) record: &'a OffloadRecord,
    /// The indexes of its files, in their order; empty where a file has none.
    pub(super) indexes: Vec<&'a [u8]>,
    pub(super) manifest: &'a [u8],
    /// Its own time to live.
    pub(super) time_to_live: Option<Duration>,
    /// What was uploaded of it while it was written.
    pub(super) begun: Option<Begun>,
}

/// Most bytes of one tenant and of all, and when offloads expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotas {
    pub(super) tenant: u64,
    pub(super) total: u64,
    pub(super) time_to_live: Duration,
}

/// What a list shows of one offload.
#[derive(Debug)]
struct ListedOffload {
    tenant: String,
    id: Ulid,
    keys: Vec<String>,
    bytes: u64,
    is_published: bool,
    time_to_live: Option<Duration>,
    /// When the last of it was written.
    modified: SystemTime,
}

/// What a list shows.
struct Survey {
    now: SystemTime,
    time_to_live: Duration,
    left_age: Duration,
    lease_time: Duration,
    last: Option<ListedOffload>,
    /// By directory name of the tenant.
    counted: HashMap<String, Counted>,
    /// Expired, or left by a process that ended.
    over: Vec<ListedOffload>,
    jobs: Vec<Record>,
    /// Keys of leases whose stores are gone, and of sessions that have expired.
    others: Vec<String>,
}

impl Bucket {
    pub(super) fn open(config: &BucketConfig) -> Result<Self, StoreError> {
        Ok(Self {
            objects: Objects::open(config)?,
            keys: config.keys.clone().map(TenantKeys),
            left_age: config.left_age,
            ledger: Mutex::default(),
            ranges: Mutex::default(),
            lease_time: config.lease_time,
            own_lease: Mutex::default(),
            copying: Mutex::default(),
            copied: Condvar::new(),
        })
    }

    /// Uploads an offload: its files, then its manifest. Returns what has encrypted it.
    pub(super) fn publish(
        &self,
        mut offload: Publication<'_>,
        quotas: Quotas,
    ) -> Result<Option<OffloadCipher>, StoreError> {
        let (tenant, id) = (offload.tenant, offload.id);
        let (cipher, parts) = match offload.begun.take() {
            Some(Begun { cipher, parts }) => (cipher, parts),
            None => (self.encrypting(tenant)?, BTreeMap::new()),
        };
        let size = |bytes| if cipher.is_some() { sealed_bytes(bytes) } else { bytes };
        let sizes = offload.record.files.iter().map(|file| size(file.bytes) + size(Ranges::size(file)));
        let needed = sizes.fold(size(offload.manifest.len() as u64), u64::saturating_add);
        self.make_room(tenant, needed, quotas, |ledger| ledger.reserve(tenant, id, needed))?;
        let published = self.upload(offload, cipher.as_ref(), parts);
        self.ledger.lock().settle(tenant, id, published.is_ok());
        published.map(|()| cipher)
    }

    /// What encrypts an offload, if a key is set.
    pub(super) fn encrypting(&self, tenant: &str) -> Result<Option<OffloadCipher>, StoreError> {
        self.keys.as_ref().map(|keys| keys.encrypting(tenant)).transpose()
    }

    fn upload(
        &self,
        offload: Publication<'_>,
        cipher: Option<&OffloadCipher>,
        mut parts: BTreeMap<String, Parts>,
    ) -> Result<(), StoreError> {
        let begun = Instant::now();
        let key = key(offload.tenant, offload.id);
        // Its files would be overwritten before its manifest is not.
        match self.manifest(offload.tenant, offload.id) {
            Ok(_) => return Err(self.is_there(&key)),
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error),
        }
        let files = &offload.record.files;
        let upload = |file: &FileRecord| {
            let (key, name, bytes) = (format!("{key}/{}", file.name), file.name.clone(), file.bytes);
            let cipher = cipher.map(|cipher| cipher.object(&key)).transpose()?;
            let parts = parts.remove(&name);
            Ok(Upload { key, name, bytes, cipher, parts })
        };
        let uploads = files.iter().map(upload).collect::<Result<_, StoreError>>()?;
        let sums = self.objects.upload(offload.directory, uploads)?;
        let read = files.iter().zip(offload.indexes).zip(&sums);
        for ((file, index), sums) in read.filter(|((file, _), _)| Ranges::size(file) > 0) {
            let key = format!("{key}/{}", Ranges::name(&file.name));
            let ranges = Ranges::write(file, index, sums);
            let sealed = cipher.map(|cipher| cipher.object(&key)?.seal(0, &ranges)).transpose()?;
            self.objects.put(&key, sealed.unwrap_or(ranges))?;
        }
        if let Some(time) = offload.time_to_live {
            self.objects.put(&format!("{key}/{TIME_TO_LIVE}{}", time.as_secs()), Vec::new())?;
        }
        // The other half is for the manifest.
        if begun.elapsed() > self.left_age / 2 {
            let source = "a sweep could have removed its files, as uploading them took too long".into();
            return Err(StoreError::bucket("publish", self.objects.place(&key), source));
        }
        let key = manifest_key(offload.tenant, offload.id);
        let sealed = cipher.map(|cipher| cipher.seal_manifest(&key, offload.manifest)).transpose()?;
        self.put_manifest(&key, sealed.as_deref().unwrap_or(offload.manifest))
    }

    /// Puts a manifest, unless another is there. After an answer that was lost, looks whether it is there.
    fn put_manifest(&self, key: &str, manifest: &[u8]) -> Result<(), StoreError> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let put = self.objects.put_if(key, manifest.to_vec(), None);
            if matches!(put, Ok(Some(_))) {
                return Ok(());
            }
            match (self.objects.get(key, SEALED_MANIFEST_BYTES_MAX), put) {
                (Ok(found), _) if found == manifest => return Ok(()),
                (Ok(_), _) => return Err(self.is_there(key)),
                // The files stay, as the request may still arrive. Without it, a sweep removes them.
                (Err(_), Err(error)) if attempts >= MANIFEST_ATTEMPTS => return Err(error),
                (Err(error), Ok(_)) if attempts >= MANIFEST_ATTEMPTS => return Err(error),
                (Err(_), _) => {}
            }
        }
    }

    fn is_there(&self, key: &str) -> StoreError {
        StoreError::bucket("publish", self.objects.place(key), "an offload with this id is there already".into())
    }

    /// Reads the manifest of an offload as it stands in the bucket.
    fn manifest(&self, tenant: &str, id: Ulid) -> Result<Vec<u8>, StoreError> {
        self.objects.get(&manifest_key(tenant, id), SEALED_MANIFEST_BYTES_MAX)
    }

    /// Reads the manifest of an offload, and what decrypts its files.
    pub(super) fn read_manifest(&self, tenant: &str, id: Ulid) -> Result<(Vec<u8>, Option<OffloadCipher>), StoreError> {
        let (key, found) = (manifest_key(tenant, id), self.manifest(tenant, id)?);
        let path = self.objects.place(&key);
        match &self.keys {
            Some(keys) => keys.decrypting(tenant, &key, &found, path).map(|(text, cipher)| (text, Some(cipher))),
            None if is_encrypted(&found) => {
                Err(StoreError::Unexpected { path, reason: "it is encrypted: `store-keys` has to name the keys" })
            }
            None => Ok((found, None)),
        }
    }

    /// Reads what is known of a file, unless it was read lately.
    pub(super) fn ranges(
        &self,
        key: &str,
        read: impl FnOnce() -> Result<Ranges, StoreError>,
    ) -> Result<Arc<Ranges>, StoreError> {
        let mut kept = self.ranges.lock();
        if let Some(at) = kept.iter().position(|(other, _)| other == key)
            && let Some(found) = kept.remove(at)
        {
            let ranges = Arc::clone(&found.1);
            kept.push_back(found);
            return Ok(ranges);
        }
        // Others do not wait for the bucket.
        drop(kept);
        let ranges = Arc::new(read()?);
        let mut kept = self.ranges.lock();
        kept.push_back((key.to_owned(), Arc::clone(&ranges)));
        if kept.len() > RANGES_KEPT {
            kept.pop_front();
        }
        Ok(ranges)
    }

    /// Waits until nobody else copies an offload to this machine.
    pub(super) fn turn(self: &Arc<Self>, id: Ulid) -> Turn {
        let mut copying = self.copying.lock();
        while !copying.insert(id) {
            self.copied.wait(&mut copying);
        }
        Turn { bucket: Arc::clone(self), id }
    }

    /// The key that signs cursors, which all stores on this bucket share. Created if it is missing.
    pub(super) fn cursor_key(&self) -> Result<[u8; KEY_BYTES], StoreError> {
        let mut key = [0; KEY_BYTES];
        let read = || self.objects.get(CURSOR_KEY, KEY_BYTES as u64);
        let found = match read() {
            Err(StoreError::NotFound { .. }) => {
                getrandom::fill(&mut key).map_err(|error| StoreError::Random(error.into()))?;
                // Another store may be first, and an answer may be lost.
                self.objects.put_if(CURSOR_KEY, key.to_vec(), None).and_then(|_| read())?
            }
            found => found?,
        };
        let unexpected =
            |_| StoreError::Unexpected { path: self.objects.place(CURSOR_KEY), reason: "a key has 32 bytes" };
        found.try_into().map_err(unexpected)
    }

    /// Removes expired offloads and what has no manifest, and counts the others. What cannot be removed is logged and left to
    /// the next sweep.
    pub(super) fn sweep(&self, now: SystemTime, time_to_live: Duration) -> Result<Sweep, StoreError> {
        let Survey { mut counted, over, jobs, others, .. } = self.survey("", now, time_to_live)?;
        let mut ledger = self.ledger.lock();
        ledger.retain(|tenant| counted.contains_key(tenant));
        counted.drain().for_each(|(tenant, counted)| ledger.replace(&tenant, counted));
        ledger.set_fresh();
        drop(ledger);
        self.sweep_jobs(jobs, now, time_to_live);
        if let Err(error) = self.objects.delete(&others) {
            warn!(error = &error as &dyn std::error::Error, "cannot remove leases and sessions from the bucket");
        }
        let mut sweep = Sweep::default();
        for some in over.chunks(REMOVED_AT_ONCE) {
            let some: Vec<&ListedOffload> = some.iter().filter(|found| self.is_still_over(found)).collect();
            if let Err(error) = self.remove(&some) {
                warn!(error = &error as &dyn std::error::Error, "cannot remove offloads from the bucket");
                continue;
            }
            for ListedOffload { tenant, id, bytes, is_published, .. } in some {
                if *is_published {
                    info!(tenant, handle = %id, bytes, "offload expired");
                }
                sweep.expired += u64::from(*is_published);
                sweep.orphans += u64::from(!is_published);
                sweep.bytes += bytes;
            }
        }
        Ok(sweep)
    }

    /// Lists what a sweep would remove.
    pub(super) fn removals(&self, now: SystemTime, time_to_live: Duration) -> Result<Vec<Removal>, StoreError> {
        let over = self.survey("", now, time_to_live)?.over;
        let removal = |found: ListedOffload| {
            let path = self.objects.place(&key(&found.tenant, found.id));
            Removal { path, is_expired: found.is_published, bytes: found.bytes }
        };
        Ok(over.into_iter().map(removal).collect())
    }

    fn survey(&self, below: &str, now: SystemTime, time_to_live: Duration) -> Result<Survey, StoreError> {
        let left_age = self.left_age;
        let survey = Survey {
            now,
            time_to_live,
            left_age,
            lease_time: self.lease_time,
            last: None,
            counted: HashMap::new(),
            over: Vec::new(),
            jobs: Vec::new(),
            others: Vec::new(),
        };
        let mut survey = self.objects.list(below, survey, Survey::add)?;
        survey.end();
        Ok(survey)
    }

    /// A bucket may list the objects of one offload apart: nothing published is taken for what a process left.
    fn is_still_over(&self, found: &ListedOffload) -> bool {
        found.is_published || matches!(self.manifest(&found.tenant, found.id), Err(StoreError::NotFound { .. }))
    }

    /// Deletes the manifests, so that nothing is found any more, and then the files.
    fn remove(&self, offloads: &[&ListedOffload]) -> Result<(), StoreError> {
        let keys = offloads.iter().flat_map(|found| &found.keys).cloned();
        let (manifests, files): (Vec<_>, Vec<_>) = keys.partition(|key| key.ends_with(MANIFEST));
        self.objects.delete(&manifests)?;
        self.objects.delete(&files)
    }

    /// Makes room within the quotas, and counts it with `add`. Removes the oldest offloads and records of ended jobs: of this
    /// tenant, then of all.
    pub(super) fn make_room(
        &self,
        tenant: &str,
        needed: u64,
        quotas: Quotas,
        add: impl FnOnce(&mut Ledger),
    ) -> Result<(), StoreError> {
        let time_to_live = quotas.time_to_live;
        let quotas = [(QuotaKind::Tenant, quotas.tenant, Some(tenant)), (QuotaKind::Total, quotas.total, None)];
        if let Some((which, limit, _)) = quotas.into_iter().find(|(_, limit, _)| needed > *limit) {
            return Err(StoreError::Quota { which, limit, needed });
        }
        if !self.ledger.lock().is_fresh(Some(tenant), COUNT_VALID) {
            let counted = self.survey(tenant, SystemTime::now(), time_to_live)?.counted.remove(tenant);
            self.ledger.lock().replace(tenant, counted.unwrap_or_default());
        }
        let mut oldest = Vec::new();
        let mut ledger = self.ledger.lock();
        let room = quotas.into_iter().try_for_each(|(which, limit, of)| {
            while ledger.bytes(of) > limit - needed {
                let (tenant, id, kind) = ledger.oldest(of).ok_or(StoreError::Quota { which, limit, needed })?;
                ledger.remove(&tenant, id, kind);
                oldest.push((tenant, id, kind));
            }
            Ok(())
        });
        if room.is_ok() {
            add(&mut ledger);
        }
        // Others do not wait for the bucket.
        drop(ledger);
        for (tenant, id, kind) in oldest {
            if let Err(error) = self.remove_one(&tenant, id, kind) {
                let error = &error as &dyn std::error::Error;
                warn!(tenant, %id, error, "cannot remove an offload or the record of a job from the bucket");
            }
        }
        room
    }

    fn remove_one(&self, tenant: &str, id: Ulid, kind: Kind) -> Result<(), StoreError> {
        let below = match kind {
            Kind::Record => below_job(tenant, id),
            Kind::Offload | Kind::Growing => key(tenant, id),
        };
        let mut found = ListedOffload::new(tenant.to_owned(), id);
        found.keys = self.objects.list(&below, Vec::new(), |keys, object| keys.push(object.key))?;
        self.remove(&[&found])
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.bucket.copying.lock().remove(&self.id);
        self.bucket.copied.notify_all();
    }
}

impl ListedOffload {
    fn new(tenant: String, id: Ulid) -> Self {
        let (keys, modified) = (Vec::new(), SystemTime::UNIX_EPOCH);
        Self { tenant, id, keys, bytes: 0, is_published: false, time_to_live: None, modified }
    }
}

impl Survey {
    /// Adds an object. Those of one offload follow each other.
    fn add(&mut self, object: Object) {
        if is_lease(&object) {
            // One that a store renews is never that old.
            if object.modified + self.left_age + self.lease_time <= self.now.min(SystemTime::now()) {
                self.others.push(object.key);
            }
            return;
        }
        if is_session(&object) {
            if has_expired(&object, self.now) {
                self.others.push(object.key);
            }
            return;
        }
        let object = match Record::of(object) {
            Ok(record) => {
                record.count(&mut self.counted);
                self.jobs.push(record);
                return;
            }
            Err(object) => object,
        };
        let Some((tenant, id, name)) = parse(&object.key) else { return };
        if !self.last.as_ref().is_some_and(|last| last.tenant == tenant && last.id == id) {
            self.end();
        }
        let last = self.last.get_or_insert_with(|| ListedOffload::new(tenant.to_owned(), id));
        last.bytes += object.bytes;
        last.modified = last.modified.max(object.modified);
        last.is_published |= name == MANIFEST_NAME;
        if let Some(seconds) = name.strip_prefix(TIME_TO_LIVE) {
            last.time_to_live = seconds.parse().ok().map(Duration::from_secs);
        }
        last.keys.push(object.key);
    }

    /// Decides about the offload that was listed last.
    fn end(&mut self) {
        let Some(last) = self.last.take() else { return };
        let is_over = if last.is_published {
            last.id.time() + last.time_to_live.unwrap_or(self.time_to_live).min(TIME_TO_LIVE_MAX) <= self.now
        } else {
            // Whatever the time to live, it may be about to be published.
            last.modified + self.left_age <= self.now.min(SystemTime::now())
        };
        if is_over {
            self.over.push(last);
            return;
        }
        let counted = self.counted.entry(last.tenant).or_default();
        if last.is_published {
            *counted.removable.entry((last.id, Kind::Offload)).or_default() += last.bytes;
        } else {
            counted.running += last.bytes;
        }
    }
}

/// Key of the manifest of an offload.
fn manifest_key(tenant: &str, id: Ulid) -> String {
    format!("{}/{MANIFEST_NAME}", key(tenant, id))
}

/// Key of an offload.
pub(super) fn key(tenant: &str, id: Ulid) -> String {
    format!("{tenant}/{id}")
}

/// The directory name of the tenant, the offload and the file in a key.
fn parse(key: &str) -> Option<(&str, Ulid, &str)> {
    let (tenant, rest) = key.split_once('/')?;
    let (id, name) = rest.split_once('/')?;
    Some((tenant, id.parse().ok()?, name))
}
