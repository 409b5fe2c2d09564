//! Leases: how stores on one bucket know whether the store that runs a job, or holds a session, goes on.
//!
//! A store that does keeps the object `.leases/{id}`, which says for how many seconds it holds, and writes it anew
//! three times in these. One that finds a lease older than that writes into it that it is over, unless its holder has just
//! written it: so the jobs of a lease are lost for all stores or for none, and its sessions free for all. A holder that was only slow
//! learns of it and takes another lease for what follows.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, SystemTime};

use tracing::warn;

use super::bucket::{Bucket, Found, Object, Version};
use super::error::failed;
use super::{StoreError, Ulid};

/// Directory of the leases. It begins with a dot, so it is not a tenant.
const LEASES: &str = ".leases";
/// What a lease says that is over.
const OVER: &[u8] = b"0";
/// Maximum size of a lease: two numbers.
const LEASE_BYTES_MAX: u64 = 64;
/// How often a lease is written while it holds, so that one request may fail.
pub(super) const RENEWALS: u32 = 3;
/// Buckets tell when an object was written in whole seconds.
pub(super) const PRECISION: Duration = Duration::from_secs(1);
/// How often an object is looked at that another store writes at the same time, or whose answer was lost.
const ATTEMPTS: usize = 3;

/// The lease of this store.
#[derive(Debug)]
pub(super) struct Lease {
    id: Ulid,
    version: Version,
    renewals: u64,
}

impl Bucket {
    /// The lease of this store, which takes one if it has none.
    pub(super) fn lease(self: &Arc<Self>) -> Result<Ulid, StoreError> {
        let mut own = self.own_lease.lock();
        if let Some(lease) = &*own {
            return Ok(lease.id);
        }
        let id = Ulid::generate().map_err(StoreError::Random)?;
        let written = self.objects.put_if(&key(id), held(self.lease_time, 0), None)?;
        let is_there = || StoreError::bucket("write", self.objects.place(&key(id)), "it is there already".into());
        let version = written.ok_or_else(is_there)?;
        let (bucket, pause) = (Arc::downgrade(self), self.lease_time / RENEWALS);
        let keeping = thread::Builder::new().name("lro-lease".into()).spawn(move || keep(&bucket, id, pause));
        keeping.map_err(failed("start a thread for", self.objects.place(&key(id))))?;
        *own = Some(Lease { id, version, renewals: 0 });
        Ok(id)
    }

    /// Whether this store has the lease.
    pub(super) fn has_lease(&self, id: Ulid) -> bool {
        self.own_lease.lock().as_ref().is_some_and(|lease| lease.id == id)
    }

    /// Whether the store that has the lease goes on.
    pub(super) fn holds(&self, id: Ulid) -> Result<bool, StoreError> {
        if self.has_lease(id) {
            return Ok(true);
        }
        for _ in 0..ATTEMPTS {
            let found = match self.objects.find(&key(id), LEASE_BYTES_MAX) {
                Err(StoreError::NotFound { .. }) => return Ok(false),
                found => found?,
            };
            if found.bytes == OVER {
                return Ok(false);
            }
            if found.modified + time_of(&found.bytes).unwrap_or(self.lease_time) + PRECISION > SystemTime::now() {
                return Ok(true);
            }
            if self.objects.put_if(&key(id), OVER.to_vec(), Some(&found.version))?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Writes the lease anew. Returns whether it still holds.
    fn renew(&self, id: Ulid) -> Result<bool, StoreError> {
        let (version, renewals) = match &mut *self.own_lease.lock() {
            Some(lease) if lease.id == id => {
                lease.renewals += 1;
                (lease.version.clone(), lease.renewals)
            }
            _ => return Ok(false),
        };
        // The number makes each content another, as a bucket may derive the version from it.
        let held = held(self.lease_time, renewals);
        let written = self.write_own(&key(id), &held, &version, LEASE_BYTES_MAX, |found| found.bytes != OVER)?;
        let lease = written.map(|version| Lease { id, version, renewals });
        let holds = lease.is_some();
        *self.own_lease.lock() = lease;
        Ok(holds)
    }

    /// Writes an object anew that this store has written last. Returns its new version; `None` if it is gone, or no longer its own.
    pub(super) fn write_own(
        &self,
        key: &str,
        bytes: &[u8],
        version: &Version,
        bytes_max: u64,
        is_own: impl Fn(&Found) -> bool,
    ) -> Result<Option<Version>, StoreError> {
        let mut version = version.clone();
        for _ in 0..ATTEMPTS {
            if let Some(version) = self.objects.put_if(key, bytes.to_vec(), Some(&version))? {
                return Ok(Some(version));
            }
            // The answer to the request before may have been lost.
            match self.objects.find(key, bytes_max) {
                Err(StoreError::NotFound { .. }) => break,
                Ok(found) if !is_own(&found) => break,
                found => version = found?.version,
            }
        }
        Ok(None)
    }
}

/// Renews a lease while it holds and its store is open.
fn keep(bucket: &Weak<Bucket>, id: Ulid, pause: Duration) {
    loop {
        thread::sleep(pause);
        let Some(bucket) = bucket.upgrade() else { return };
        match bucket.renew(id) {
            Ok(true) => {}
            Ok(false) => {
                warn!(lease = %id, "other gateways take the jobs that run here for lost, and sessions over: the bucket was not reached in time");
                return;
            }
            Err(error) => {
                warn!(lease = %id, error = &error as &dyn std::error::Error, "cannot renew the lease of jobs and sessions");
            }
        }
    }
}

/// Whether an object is a lease.
pub(super) fn is_lease(object: &Object) -> bool {
    object.key.strip_prefix(LEASES).is_some_and(|rest| rest.starts_with('/'))
}

fn key(id: Ulid) -> String {
    format!("{LEASES}/{id}")
}

/// The content of a lease.
fn held(time: Duration, renewals: u64) -> Vec<u8> {
    format!("{} {renewals}", time.as_secs()).into_bytes()
}

/// For how long a lease with this content holds.
fn time_of(content: &[u8]) -> Option<Duration> {
    let (seconds, _) = str::from_utf8(content).ok()?.split_once(' ')?;
    seconds.parse().ok().map(Duration::from_secs)
}
