//! Quotas of a bucket: a ledger for each tenant, so that publishing needs no list.
//!
//! The object `{tenant}/.ledger` says how much a tenant had when somebody counted it, which each sweep does, and what stores have
//! added since. It never says less than there is, apart from what was added in the last seconds; it may say more, as nothing is
//! subtracted. So a tenant is listed only when it seems to exceed its quota, and only what that list shows is removed.

use std::collections::{BTreeMap, HashMap};
use std::panic::resume_unwind;
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::MutexGuard;
use serde::{Deserialize, Serialize};
use tracing::warn;

use super::bucket::{Bucket, Version};
use super::error::failed;
use super::usage::Ledger;
use super::{QuotaKind, StoreError};

/// Name of the ledger of a tenant. It begins with a dot, so it is not an offload.
const LEDGER: &str = ".ledger";
/// Maximum size of a ledger. Additions of an hour are less.
const LEDGER_BYTES_MAX: u64 = 64 << 10;
/// Age of its count from which on a ledger is not used: no sweep renews it.
const LEDGER_VALID: Duration = Duration::from_secs(3600);
/// Additions within this time are one number.
const SLOT: Duration = Duration::from_secs(10);
/// How far clocks of machines may be apart.
const CLOCKS: Duration = Duration::from_secs(5);
/// How long a list of a tenant is used to choose what is removed, as long as that is there.
const LIST_VALID: Duration = Duration::from_secs(60);
/// Ledgers that are written at the same time.
const LEDGERS_AT_ONCE: usize = 16;
/// How often a ledger is read that another store writes at the same time.
const ATTEMPTS: usize = 5;
/// Shortest time between two attempts to write what was added.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// Most bytes of one tenant and of all, and when offloads expire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Quotas {
    pub(super) tenant: u64,
    pub(super) total: u64,
    pub(super) time_to_live: Duration,
}

/// What a store knows of the ledgers.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// By directory name of the tenant.
    tenants: HashMap<String, Share>,
    /// Whether a thread writes them.
    has_thread: bool,
}

/// What a store knows of the ledger of a tenant.
#[derive(Debug, Default)]
struct Share {
    /// Bytes that it says.
    bytes: u64,
    /// When it was read.
    read: Option<Instant>,
    /// What this store has to write to it.
    change: Change,
}

/// A change of a ledger.
#[derive(Clone, Copy, Debug, Default)]
struct Change {
    /// When a list of the tenant began, and the bytes that it showed.
    counted: Option<(SystemTime, u64)>,
    /// Bytes added.
    added: u64,
    /// When the ledger had been read that is taken to say it.
    read: Option<Instant>,
}

/// What the ledger of a tenant says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct TenantLedger {
    /// When the count began, in milliseconds since 1970.
    counted_ms: u64,
    /// Bytes counted.
    bytes: u64,
    /// Bytes that stores have added from then on, by time in units of [`SLOT`].
    added: BTreeMap<u64, u64>,
}

impl Bucket {
    /// Makes room within the quotas, and counts it with `add`. Removes the oldest offloads and records of ended jobs: of this
    /// tenant, then of all.
    pub(super) fn make_room(
        &self,
        tenant: &str,
        needed: u64,
        quotas: Quotas,
        add: impl FnOnce(&mut Ledger),
    ) -> Result<(), StoreError> {
        let limits = [(QuotaKind::Tenant, quotas.tenant, Some(tenant)), (QuotaKind::Total, quotas.total, None)];
        if let Some((which, limit, _)) = limits.into_iter().find(|(_, limit, _)| needed > *limit) {
            return Err(StoreError::Quota { which, limit, needed });
        }
        let room = quotas.tenant - needed;
        self.read_share(tenant, quotas.time_to_live)?;
        let mut is_counted = false;
        loop {
            let ledger = self.ledger.lock();
            let said = self.shares.lock().bytes(tenant);
            let seems_over = said.saturating_add(ledger.pending(tenant)) > room;
            if seems_over && !is_counted && !self.knows_what_to_remove(&ledger, tenant, room) {
                drop(ledger);
                self.count(tenant, quotas.time_to_live)?;
                is_counted = true;
                continue;
            }
            let applies = |of: Option<&str>| if of.is_some() { seems_over } else { !ledger.is_elsewhere() };
            let is_over = |limit, of| applies(of) && ledger.bytes(of) > limit - needed;
            let Some((which, limit, of)) = limits.into_iter().find(|(_, limit, of)| is_over(*limit, *of)) else {
                let mut ledger = ledger;
                add(&mut ledger);
                return Ok(());
            };
            if !self.remove_oldest(ledger, of, quotas.time_to_live)? {
                return Err(StoreError::Quota { which, limit, needed });
            }
        }
    }

    /// Makes room for the total quota, after a sweep.
    pub(super) fn make_room_of_all(&self, quotas: Quotas) -> Result<(), StoreError> {
        loop {
            let ledger = self.ledger.lock();
            if ledger.bytes(None) <= quotas.total || !self.remove_oldest(ledger, None, quotas.time_to_live)? {
                return Ok(());
            }
        }
    }

    /// Whether a list of a tenant that seems to exceed its quota is recent enough: it agrees, or shows what is there now.
    fn knows_what_to_remove(&self, ledger: &Ledger, tenant: &str, room: u64) -> bool {
        let agrees = ledger.is_fresh(Some(tenant), LIST_VALID) && ledger.bytes(Some(tenant)) > room;
        agrees || ledger.is_fresh(Some(tenant), self.ledger_time)
    }

    /// Removes what is oldest, of one tenant or of all. Returns whether there was something.
    fn remove_oldest(
        &self,
        mut ledger: MutexGuard<'_, Ledger>,
        of: Option<&str>,
        time_to_live: Duration,
    ) -> Result<bool, StoreError> {
        let Some((tenant, id, kind)) = ledger.oldest(of) else { return Ok(false) };
        ledger.remove(&tenant, id, kind);
        let is_recent = ledger.is_fresh(Some(&tenant), self.ledger_time);
        // Others do not wait for the bucket.
        drop(ledger);
        match self.remove_one(&tenant, id, kind) {
            // Another store has removed it, maybe for what it has added itself.
            Ok(false) if !is_recent => self.count(&tenant, time_to_live)?,
            Ok(_) => {}
            Err(error) => {
                let error = &error as &dyn std::error::Error;
                warn!(tenant, %id, error, "cannot remove an offload or the record of a job from the bucket");
            }
        }
        Ok(true)
    }

    /// Reads the ledger of a tenant, unless it was read lately. Without one, lists what the tenant has.
    fn read_share(&self, tenant: &str, time_to_live: Duration) -> Result<(), StoreError> {
        if self.shares.lock().tenants.get(tenant).is_some_and(|share| share.was_read_within(self.ledger_time)) {
            return Ok(());
        }
        let (found, _) = self.find_ledger(tenant)?;
        match found.filter(|found| found.is_valid(SystemTime::now())) {
            Some(found) => {
                self.shares.lock().of(tenant).set_read(found.all_bytes());
                Ok(())
            }
            None => self.count(tenant, time_to_live),
        }
    }

    /// Lists what a tenant has. The count is written to its ledger soon.
    fn count(&self, tenant: &str, time_to_live: Duration) -> Result<(), StoreError> {
        // The list shows it.
        let added = self.shares.lock().of(tenant).take_change();
        let begun = SystemTime::now();
        match self.counted(tenant, begun, time_to_live) {
            Ok(counted) => {
                let bytes = counted.bytes();
                self.ledger.lock().replace(tenant, counted);
                let mut shares = self.shares.lock();
                let share = shares.of(tenant);
                share.set_read(bytes);
                share.change.counted = Some((begun, bytes));
                Ok(())
            }
            Err(error) => {
                self.shares.lock().of(tenant).give_back(added);
                Err(error)
            }
        }
    }

    /// Adds bytes to the ledger of a tenant, which is written soon.
    pub(super) fn add_to_ledger(self: &Arc<Self>, tenant: &str, bytes: u64) {
        let mut shares = self.shares.lock();
        shares.of(tenant).change.added += bytes;
        if !shares.has_thread {
            let (bucket, pause) = (Arc::downgrade(self), self.ledger_time.max(PAUSE_MIN));
            let started = thread::Builder::new().name("lro-ledger".into()).spawn(move || keep(&bucket, pause));
            shares.has_thread = started
                .inspect_err(|error| warn!(%error, "cannot start a thread that writes ledgers to the bucket"))
                .is_ok();
        }
    }

    /// Writes what this store has counted and added to the ledgers. What cannot be written is logged and left to the next time.
    fn write_shares(&self) {
        let mut shares = self.shares.lock();
        shares.tenants.retain(|_, share| share.has_changed() || share.was_read_within(LIST_VALID));
        let changed = shares.tenants.iter().filter(|(_, share)| share.has_changed());
        let tenants: Vec<String> = changed.map(|(tenant, _)| tenant.clone()).collect();
        drop(shares);
        self.write_all(&tenants, |tenant| {
            let change = self.shares.lock().of(tenant).take_change();
            let written = self.write_ledger(tenant, change);
            let mut shares = self.shares.lock();
            match &written {
                Ok(Some(bytes)) => shares.of(tenant).set_read(*bytes),
                Ok(None) => {}
                Err(_) => shares.of(tenant).give_back(change),
            }
            written.map(drop)
        });
    }

    /// Writes what a sweep that began at this time has counted.
    pub(super) fn write_counts(&self, counts: Vec<(String, u64)>, begun: SystemTime) {
        let (counts, empty): (Vec<_>, Vec<_>) = counts.into_iter().partition(|(_, bytes)| *bytes > 0);
        // What is added meanwhile is counted by the next store that finds no ledger.
        let empty: Vec<String> = empty.iter().map(|(tenant, _)| key(tenant)).collect();
        if let Err(error) = self.objects.delete(&empty) {
            warn!(error = &error as &dyn std::error::Error, "cannot remove ledgers from the bucket");
        }
        self.write_all(&counts, |(tenant, bytes)| {
            self.write_ledger(tenant, Change { counted: Some((begun, *bytes)), ..Change::default() }).map(drop)
        });
    }

    /// Writes several ledgers, and logs the first error.
    fn write_all<T: Sync>(&self, all: &[T], write: impl Fn(&T) -> Result<(), StoreError> + Sync) {
        for some in all.chunks(LEDGERS_AT_ONCE) {
            let written = thread::scope(|scope| {
                let write = &write;
                let spawn = |one| thread::Builder::new().spawn_scoped(scope, move || write(one));
                let writing: Vec<_> = some.iter().map(spawn).collect();
                writing.into_iter().try_for_each(|writing| {
                    let writing = writing.map_err(failed("start a thread for", self.objects.place(LEDGER)))?;
                    writing.join().unwrap_or_else(|panic| resume_unwind(panic))
                })
            });
            if let Err(error) = written {
                warn!(error = &error as &dyn std::error::Error, "cannot write the ledgers of tenants to the bucket");
                return;
            }
        }
    }

    /// Returns the bytes that the ledger says, if it was written.
    fn write_ledger(&self, tenant: &str, change: Change) -> Result<Option<u64>, StoreError> {
        for _ in 0..ATTEMPTS {
            let (before, version) = self.find_ledger(tenant)?;
            let Some(after) = change.of(before, SystemTime::now()) else { return Ok(None) };
            let text = serde_json::json!(after).to_string().into_bytes();
            if self.objects.put_if(&key(tenant), text, version.as_ref())?.is_some() {
                return Ok(Some(after.all_bytes()));
            }
        }
        Err(StoreError::bucket("write", self.objects.place(&key(tenant)), "other stores write it all the time".into()))
    }

    /// The ledger of a tenant, and the version of its object. One with wrong content is as one that is missing.
    fn find_ledger(&self, tenant: &str) -> Result<(Option<TenantLedger>, Option<Version>), StoreError> {
        let key = key(tenant);
        match self.objects.find(&key, LEDGER_BYTES_MAX) {
            Err(StoreError::NotFound { .. }) => Ok((None, None)),
            // A store writes none that is larger than the limit.
            Err(StoreError::Unexpected { .. }) => {
                self.objects.delete(&[key])?;
                Ok((None, None))
            }
            found => {
                let found = found?;
                let ledger = serde_json::from_slice(&found.bytes).inspect_err(|error| {
                    warn!(tenant, %error, "the ledger in the bucket is not valid, and is counted anew");
                });
                Ok((ledger.ok(), Some(found.version)))
            }
        }
    }
}

/// A store that ends has written what it added.
impl Drop for Bucket {
    fn drop(&mut self) {
        self.write_shares();
    }
}

impl Shares {
    fn of(&mut self, tenant: &str) -> &mut Share {
        self.tenants.entry(tenant.to_owned()).or_default()
    }

    /// Bytes of what a tenant has, as its ledger said, with what this store has added since.
    fn bytes(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, Share::all_bytes)
    }
}

impl Share {
    fn set_read(&mut self, bytes: u64) {
        (self.bytes, self.read) = (bytes, Some(Instant::now()));
    }

    fn was_read_within(&self, time: Duration) -> bool {
        self.read.is_some_and(|read| read.elapsed() < time)
    }

    fn has_changed(&self) -> bool {
        self.change.counted.is_some() || self.change.added > 0
    }

    fn all_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.change.added)
    }

    /// What is to be written. From then on, the ledger is taken to say it.
    fn take_change(&mut self) -> Change {
        self.bytes = self.all_bytes();
        Change { read: self.read, ..std::mem::take(&mut self.change) }
    }

    /// Takes back what could not be written.
    fn give_back(&mut self, change: Change) {
        // What was read since does not have it.
        if self.read == change.read {
            self.bytes = self.bytes.saturating_sub(change.added);
        }
        self.change.added += change.added;
        self.change.counted = self.change.counted.or(change.counted);
    }
}

impl Change {
    /// The ledger with this change; `None` if it is not to be written.
    fn of(&self, before: Option<TenantLedger>, now: SystemTime) -> Option<TenantLedger> {
        let before = before.filter(|before| before.is_valid(now));
        let mut after = match self.counted {
            Some((begun, bytes)) => TenantLedger::counted(before.as_ref(), begun, bytes, now),
            // Without a count, the next store that publishes makes one.
            None => before.clone()?,
        };
        if self.added > 0 {
            let slot = after.added.entry(slot(now)).or_default();
            *slot = slot.saturating_add(self.added);
        }
        let is_same = before.is_some_and(|before| {
            let is_young = before.counted_ms + milliseconds(LEDGER_VALID) / 2 > after.counted_ms;
            is_young && (before.bytes, &before.added) == (after.bytes, &after.added)
        });
        (!is_same).then_some(after)
    }
}

impl TenantLedger {
    /// A ledger after a count. What was added since that began, or may have been as clocks are apart, is still to be counted.
    fn counted(before: Option<&Self>, begun: SystemTime, bytes: u64, now: SystemTime) -> Self {
        let counted_ms = milliseconds(begun.duration_since(UNIX_EPOCH).unwrap_or_default());
        match before {
            Some(before) if before.counted_ms > counted_ms => before.clone(),
            _ => {
                let since = slot(begun.checked_sub(CLOCKS).unwrap_or(begun))..=slot(now + CLOCKS);
                let added = before.map(|before| before.added.range(since).map(|(at, bytes)| (*at, *bytes)).collect());
                Self { counted_ms, bytes, added: added.unwrap_or_default() }
            }
        }
    }

    fn is_valid(&self, now: SystemTime) -> bool {
        let counted = UNIX_EPOCH.checked_add(Duration::from_millis(self.counted_ms));
        counted.is_some_and(|counted| counted <= now + CLOCKS && counted + LEDGER_VALID > now)
    }

    fn all_bytes(&self) -> u64 {
        self.added.values().fold(self.bytes, |all, added| all.saturating_add(*added))
    }
}

/// Writes what a store adds, while it is open.
fn keep(bucket: &Weak<Bucket>, pause: Duration) {
    loop {
        thread::sleep(pause);
        let Some(bucket) = bucket.upgrade() else { return };
        bucket.write_shares();
    }
}

/// The directory name of the tenant whose ledger has this key.
pub(super) fn tenant_of_ledger(key: &str) -> Option<&str> {
    key.split_once('/').filter(|(_, name)| *name == LEDGER).map(|(tenant, _)| tenant)
}

fn key(tenant: &str) -> String {
    format!("{tenant}/{LEDGER}")
}

fn slot(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() / SLOT.as_secs()
}

fn milliseconds(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_written_counts_whatever_was_read_meanwhile() {
        let mut share = Share::default();
        share.set_read(100);
        share.change.added = 10;
        let change = share.take_change();
        assert_eq!(share.all_bytes(), 110);
        share.give_back(change);
        assert_eq!(share.all_bytes(), 110);
        let change = share.take_change();
        share.set_read(100);
        share.give_back(change);
        assert_eq!(share.all_bytes(), 110);
    }
}
