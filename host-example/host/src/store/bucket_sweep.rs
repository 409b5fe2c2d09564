//! Sweeps of a bucket: remove what has expired and what processes left, and count the rest.
//!
//! Of the stores on a bucket one sweeps at a time. The object `.sweep` says which, and what the last sweep has counted. The store
//! that has swept goes on to do so; another takes over when that has not for two periods.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tracing::{info, warn};

use super::bucket::{Bucket, Found, Object, TIME_TO_LIVE, Version, key};
use super::bucket_jobs::{Record, below_job};
use super::bucket_ledger::{Quotas, tenant_of_ledger};
use super::lease::{PRECISION, RENEWALS, is_lease};
use super::sessions::{has_expired, is_session};
use super::sweep::{Removal, Sweep};
use super::usage::{Counted, Kind};
use super::{MANIFEST_NAME, StoreError, TIME_TO_LIVE_MAX, Ulid, Usage};

/// Offloads that a sweep removes together.
const REMOVED_AT_ONCE: usize = 1000;
/// End of the key of a manifest. No other name has it.
const MANIFEST: &str = "/manifest.json";
/// The object that says who sweeps.
const SWEEP: &str = ".sweep";
/// Maximum size of that object.
const SWEEP_BYTES_MAX: u64 = 1 << 10;

/// What [`SWEEP`] says.
#[derive(Debug, Serialize, Deserialize)]
struct Turns {
    /// The store that sweeps, or has done so last.
    store: Ulid,
    /// For how many seconds from when this was written it has the turn. `None`: its sweep has ended.
    sweeping_seconds: Option<u64>,
    /// What the last sweep has counted.
    counted: Option<Usage>,
    /// Makes each content another, as a bucket may derive the version from it.
    number: u64,
}

/// The turn of this store.
#[derive(Debug)]
struct OwnTurn {
    says: Turns,
    version: Version,
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
    /// Sweeps, if no other store does so, or has done within two periods; then makes room for the total quota.
    pub(super) fn sweep_in_turn(&self, now: SystemTime, period: Duration, quotas: Quotas) -> Result<Sweep, StoreError> {
        let Some(turn) = self.take_turn(now, period, quotas.time_to_live)? else { return Ok(Sweep::default()) };
        let turn = Mutex::new(turn);
        let (end, ended) = channel();
        let swept = thread::scope(|scope| {
            let keep = || self.keep_turn(&turn, ended);
            if let Err(error) = thread::Builder::new().name("lro-sweep".into()).spawn_scoped(scope, keep) {
                warn!(%error, "another gateway may sweep the bucket at the same time: cannot start a thread");
            }
            let swept = self.sweep(now, quotas.time_to_live);
            let swept = swept.and_then(|swept| self.make_room_of_all(quotas).map(|()| swept));
            drop(end);
            swept
        });
        let mut turn = turn.into_inner();
        turn.says.sweeping_seconds = None;
        if swept.is_ok() {
            turn.says.counted = Some(self.ledger.lock().usage());
        }
        if let Err(error) = self.write_turn(&mut turn) {
            warn!(error = &error as &dyn std::error::Error, "cannot write to the bucket that a sweep has ended");
        }
        swept
    }

    /// The turn to sweep, unless another store has it or has had it lately. Of several stores that try, one gets it.
    fn take_turn(
        &self,
        now: SystemTime,
        period: Duration,
        time_to_live: Duration,
    ) -> Result<Option<OwnTurn>, StoreError> {
        let found = match self.objects.find(SWEEP, SWEEP_BYTES_MAX) {
            Err(StoreError::NotFound { .. }) => None,
            found => Some(found?),
        };
        // Other content is replaced.
        let before = found.as_ref().and_then(Turns::of);
        let modified = found.as_ref().map_or(now, |found| found.modified);
        if let Some(before) = &before
            && before.is_taken(self.id, modified, now, period)
        {
            if let Some(counted) = before.counted.filter(|_| before.store != self.id) {
                self.ledger.lock().set_elsewhere(counted, now.checked_sub(time_to_live).unwrap_or(now));
            }
            return Ok(None);
        }
        let (counted, number) = before.map_or((None, 0), |before| (before.counted, before.number + 1));
        let says = Turns { store: self.id, sweeping_seconds: Some(self.lease_time.as_secs()), counted, number };
        let written = self.objects.put_if(SWEEP, says.text(), found.as_ref().map(|found| &found.version))?;
        Ok(written.map(|version| OwnTurn { says, version }))
    }

    /// Writes the turn anew until the sweep has ended.
    fn keep_turn(&self, turn: &Mutex<OwnTurn>, ended: Receiver<()>) {
        let pause = (self.lease_time / RENEWALS).max(PRECISION);
        while ended.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
            match self.write_turn(&mut turn.lock()) {
                Ok(true) => {}
                Ok(false) => {
                    warn!("another gateway sweeps the bucket at the same time: the bucket was not reached in time");
                    return;
                }
                Err(error) => {
                    warn!(error = &error as &dyn std::error::Error, "cannot write to the bucket that a sweep goes on");
                }
            }
        }
    }

    /// Returns whether this store still has the turn.
    fn write_turn(&self, turn: &mut OwnTurn) -> Result<bool, StoreError> {
        turn.says.number += 1;
        let is_own = |found: &Found| Turns::of(found).is_some_and(|says| says.store == self.id);
        let written = self.write_own(SWEEP, &turn.says.text(), &turn.version, SWEEP_BYTES_MAX, is_own)?;
        let Some(version) = written else { return Ok(false) };
        turn.version = version;
        Ok(true)
    }

    /// Removes expired offloads and what has no manifest, and counts the others. What cannot be removed is logged and left to
    /// the next sweep.
    pub(super) fn sweep(&self, now: SystemTime, time_to_live: Duration) -> Result<Sweep, StoreError> {
        let (begun, mut sweep) = (SystemTime::now(), Sweep::default());
        let mut survey = self.new_survey(now, time_to_live);
        self.objects.list("", |object| {
            survey.add(object);
            if survey.over.len() >= REMOVED_AT_ONCE {
                self.remove_over(std::mem::take(&mut survey.over), &mut sweep);
            }
            Ok(())
        })?;
        let Survey { counted, over, jobs, others, .. } = survey.ended();
        self.remove_over(over, &mut sweep);
        let bytes = counted.iter().map(|(tenant, counted)| (tenant.clone(), counted.bytes())).collect();
        let mut ledger = self.ledger.lock();
        ledger.retain(|tenant| counted.contains_key(tenant));
        counted.into_iter().for_each(|(tenant, counted)| ledger.replace(&tenant, counted));
        ledger.set_fresh();
        drop(ledger);
        self.sweep_jobs(jobs, now, time_to_live);
        if let Err(error) = self.objects.delete(&others) {
            warn!(error = &error as &dyn std::error::Error, "cannot remove leases and sessions from the bucket");
        }
        self.write_counts(bytes, begun);
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

    /// What one tenant has.
    pub(super) fn counted(&self, tenant: &str, now: SystemTime, time_to_live: Duration) -> Result<Counted, StoreError> {
        Ok(self.survey(tenant, now, time_to_live)?.counted.remove(tenant).unwrap_or_default())
    }

    fn survey(&self, below: &str, now: SystemTime, time_to_live: Duration) -> Result<Survey, StoreError> {
        let mut survey = self.new_survey(now, time_to_live);
        self.objects.list(below, |object| {
            survey.add(object);
            Ok(())
        })?;
        Ok(survey.ended())
    }

    fn new_survey(&self, now: SystemTime, time_to_live: Duration) -> Survey {
        Survey {
            now,
            time_to_live,
            left_age: self.left_age,
            lease_time: self.lease_time,
            last: None,
            counted: HashMap::new(),
            over: Vec::new(),
            jobs: Vec::new(),
            others: Vec::new(),
        }
    }

    /// Removes what is over, and adds it to the result of a sweep.
    fn remove_over(&self, over: Vec<ListedOffload>, sweep: &mut Sweep) {
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

    /// Removes an offload or the record of a job. Returns whether it was there.
    pub(super) fn remove_one(&self, tenant: &str, id: Ulid, kind: Kind) -> Result<bool, StoreError> {
        let below = match kind {
            Kind::Record => below_job(tenant, id),
            Kind::Offload | Kind::Growing => key(tenant, id),
        };
        let mut found = ListedOffload::new(tenant.to_owned(), id);
        self.objects.list(&below, |object| {
            found.keys.push(object.key);
            Ok(())
        })?;
        self.remove(&[&found])?;
        Ok(!found.keys.is_empty())
    }
}

impl Turns {
    fn of(found: &Found) -> Option<Self> {
        serde_json::from_slice(&found.bytes).ok()
    }

    /// Whether a store has no turn now, as one sweeps or has swept lately. What it says was written at `modified`.
    fn is_taken(&self, store: Ulid, modified: SystemTime, now: SystemTime, period: Duration) -> bool {
        match self.sweeping_seconds {
            Some(seconds) => modified + Duration::from_secs(seconds) + PRECISION > now,
            None => self.store != store && modified + 2 * period + PRECISION > now,
        }
    }

    fn text(&self) -> Vec<u8> {
        serde_json::json!(self).to_string().into_bytes()
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
        if let Some(tenant) = tenant_of_ledger(&object.key) {
            // A tenant that has nothing any more has a ledger.
            self.counted.entry(tenant.to_owned()).or_default();
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

    fn ended(mut self) -> Self {
        self.end();
        self
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

/// The directory name of the tenant, the offload and the file in a key.
fn parse(key: &str) -> Option<(&str, Ulid, &str)> {
    let (tenant, rest) = key.split_once('/')?;
    let (id, name) = rest.split_once('/')?;
    Some((tenant, id.parse().ok()?, name))
}
