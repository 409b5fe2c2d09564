//! Offloads in a bucket, which several stores share.
//!
//! An offload is the objects `{tenant}/{id}/{file}`. Its manifest is put last, and only if there is none: readers find all
//! of an offload or nothing. It is deleted first. What has no manifest was left by a process that ended, and is removed once
//! it is older than [`BucketConfig::left_age`].

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::bucket_ledger::{Quotas, Shares};
use super::cipher::{ObjectCipher, OffloadCipher, SEALED_MANIFEST_BYTES_MAX, TenantKeys, is_encrypted, sealed_bytes};
use super::directory::Directory;
use super::early::Begun;
use super::key::KEY_BYTES;
use super::lease::Lease;
use super::objects::{Objects, Parts};
use super::ranges::Ranges;
use super::usage::Ledger;
use super::{BucketConfig, CURSOR_KEY, FileRecord, MANIFEST_NAME, OffloadRecord, StoreError, Ulid};

/// Times that a manifest is put when the answers are lost.
const MANIFEST_ATTEMPTS: usize = 3;
/// Indexes and checksums of files that are kept in memory, of those read last.
const RANGES_KEPT: usize = 32;
/// Beginning of the name of an empty object that says the time to live of an offload, in seconds: a list shows it.
pub(super) const TIME_TO_LIVE: &str = ".ttl-seconds-";

/// The offloads in a bucket.
#[derive(Debug)]
pub(super) struct Bucket {
    pub(super) objects: Objects,
    keys: Option<TenantKeys>,
    pub(super) left_age: Duration,
    /// Which of the stores on the bucket this is.
    pub(super) id: Ulid,
    pub(super) ledger: Mutex<Ledger>,
    pub(super) shares: Mutex<Shares>,
    /// How often what this store adds is written to the ledger of its tenant, and that is read.
    pub(super) ledger_time: Duration,
    /// By key of the file, those read last at the end.
    ranges: Mutex<VecDeque<(String, Arc<Ranges>)>>,
    /// For how long a lease of this store holds.
    pub(super) lease_time: Duration,
    pub(super) own_lease: Mutex<Option<Lease>>,
    /// Keys of offloads that are being copied to this machine.
    copying: Mutex<HashSet<String>>,
    copied: Condvar,
}

/// The right to copy an offload to this machine, which one at a time has.
#[derive(Debug)]
pub(super) struct Turn {
    bucket: Arc<Bucket>,
    key: String,
}

/// A file to be uploaded.
#[cfg_attr(not(feature = "object-store"), expect(dead_code, reason = "nothing is uploaded"))]
pub(super) struct Upload {
    pub(super) key: String,
    /// Name in its directory.
    pub(super) name: String,
    pub(super) bytes: u64,
    pub(super) cipher: Option<ObjectCipher>,
    /// Some may be on their way.
    pub(super) parts: Parts,
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

impl Bucket {
    pub(super) fn open(config: &BucketConfig) -> Result<Self, StoreError> {
        Ok(Self {
            objects: Objects::open(config)?,
            keys: config.keys.clone().map(TenantKeys),
            left_age: config.left_age,
            id: Ulid::generate().map_err(StoreError::Random)?,
            ledger: Mutex::default(),
            shares: Mutex::default(),
            ledger_time: config.ledger_time,
            ranges: Mutex::default(),
            lease_time: config.lease_time,
            own_lease: Mutex::default(),
            copying: Mutex::default(),
            copied: Condvar::new(),
        })
    }

    /// Uploads an offload: its files, then its manifest. Returns what has encrypted it.
    pub(super) fn publish(
        self: &Arc<Self>,
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
        if published.is_ok() {
            self.add_to_ledger(tenant, needed);
        }
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
            let parts = parts.remove(&name).unwrap_or_else(|| self.objects.parts(&key));
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
    pub(super) fn manifest(&self, tenant: &str, id: Ulid) -> Result<Vec<u8>, StoreError> {
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

    /// Waits until nobody else copies the offload with this key to this machine. Who copies several takes their turns in the order
    /// of their keys.
    pub(super) fn turn(self: &Arc<Self>, key: String) -> Turn {
        let mut copying = self.copying.lock();
        while !copying.insert(key.clone()) {
            self.copied.wait(&mut copying);
        }
        Turn { bucket: Arc::clone(self), key }
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
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.bucket.copying.lock().remove(&self.key);
        self.bucket.copied.notify_all();
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
