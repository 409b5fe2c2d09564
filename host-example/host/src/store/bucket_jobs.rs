//! Records of jobs in a bucket: the objects `{tenant}/.jobs/{id}/{state}`, which every store on it reads.
//!
//! The state of a job that runs names the [lease](super::lease) of its store. Without one that holds, the job is lost.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use tracing::warn;

use super::bucket::{Bucket, Object};
use super::bucket_ledger::Quotas;
use super::jobs::{JOBS, Mark, RUNNING_BYTES_MAX};
use super::usage::{Counted, Kind};
use super::{JobRecord, JobState, StoreError, Ulid};

/// How often the record of a job is looked for that another store ends at the same time.
const ATTEMPTS: usize = 3;

/// A record, as listed.
#[derive(Debug)]
pub(super) struct Record {
    /// Directory name of the tenant.
    tenant: String,
    id: Ulid,
    mark: Mark,
    object: Object,
}

impl Record {
    /// The record that an object is.
    pub(super) fn of(object: Object) -> Result<Self, Object> {
        let parse = |key: &str| {
            let (tenant, rest) = key.split_once('/')?;
            let (id, mark) = rest.strip_prefix(JOBS)?.strip_prefix('/')?.split_once('/')?;
            Some((tenant.to_owned(), id.parse().ok()?, Mark::of(mark)?))
        };
        match parse(&object.key) {
            Some((tenant, id, mark)) => Ok(Self { tenant, id, mark, object }),
            None => Err(object),
        }
    }

    /// Counts it for the quotas.
    pub(super) fn count(&self, counted: &mut HashMap<String, Counted>) {
        let counted = counted.entry(self.tenant.clone()).or_default();
        match self.mark {
            Mark::Running(_) => counted.running += self.object.bytes,
            Mark::Lost | Mark::Ended => {
                *counted.removable.entry((self.id, Kind::Record)).or_default() += self.object.bytes;
            }
        }
    }

    fn runs(&self) -> bool {
        matches!(self.mark, Mark::Running(_))
    }

    fn is_expired(&self, now: SystemTime, time_to_live: Duration) -> bool {
        !self.runs() && self.object.modified + time_to_live <= now
    }
}

impl Bucket {
    pub(super) fn begin_job(
        self: &Arc<Self>,
        tenant: &str,
        id: Ulid,
        record: &[u8],
        quotas: Quotas,
    ) -> Result<(), StoreError> {
        let (mark, bytes) = (Mark::Running(self.lease()?), record.len() as u64);
        self.make_room(tenant, bytes, quotas, |ledger| ledger.add_running(tenant, bytes))?;
        self.objects.put(&key(tenant, id, mark), record.to_vec())?;
        self.add_to_ledger(tenant, bytes);
        Ok(())
    }

    pub(super) fn end_job(
        self: &Arc<Self>,
        tenant: &str,
        id: Ulid,
        record: &[u8],
        kept_max: usize,
        quotas: Quotas,
    ) -> Result<(), StoreError> {
        let bytes = record.len() as u64;
        self.make_room(tenant, bytes, quotas, |ledger| ledger.add_ended(tenant, id, bytes, 0))?;
        self.objects.put(&key(tenant, id, Mark::Ended), record.to_vec())?;
        self.add_to_ledger(tenant, bytes);
        // The job has its record, whatever becomes of others.
        if let Err(error) = self.remove_surplus(tenant, id, kept_max) {
            warn!(tenant, error = &error as &dyn std::error::Error, "cannot remove the record of a job");
        }
        Ok(())
    }

    /// Removes the records in whose place that of the end of a job is, and those that were written first beyond `kept_max`.
    fn remove_surplus(&self, tenant: &str, ended: Ulid, kept_max: usize) -> Result<(), StoreError> {
        let is_replaced = |record: &Record| record.id == ended && record.mark != Mark::Ended;
        let (replaced, others): (Vec<_>, Vec<_>) = self.records(&below(tenant))?.into_iter().partition(is_replaced);
        let mut surplus: Vec<Record> = others.into_iter().filter(|record| !record.runs()).collect();
        surplus.sort_by_key(|record| record.object.modified);
        surplus.truncate(surplus.len().saturating_sub(kept_max));
        let keys: Vec<String> = replaced.iter().chain(&surplus).map(|record| record.object.key.clone()).collect();
        self.objects.delete(&keys)?;
        let mut ledger = self.ledger.lock();
        let running = replaced.iter().filter(|record| record.runs());
        ledger.remove_running(tenant, running.map(|record| record.object.bytes).sum());
        for record in &surplus {
            ledger.remove(tenant, record.id, Kind::Record);
        }
        Ok(())
    }

    pub(super) fn job(
        &self,
        tenant: &str,
        id: Ulid,
        bytes_max: u64,
        time_to_live: Duration,
    ) -> Result<JobRecord, StoreError> {
        let place = below_job(tenant, id);
        for _ in 0..ATTEMPTS {
            let Some(record) = self.records(&place)?.into_iter().max_by_key(|record| record.mark) else { break };
            if record.is_expired(SystemTime::now(), time_to_live) {
                break;
            }
            let state = match record.mark {
                Mark::Ended => JobState::Ended,
                Mark::Lost => JobState::Lost,
                Mark::Running(lease) if self.holds(lease)? => JobState::Running { is_own: self.has_lease(lease) },
                Mark::Running(_) => JobState::Lost,
            };
            match self.objects.first(&record.object.key, bytes_max.min(record.object.bytes)) {
                // Another store has just ended it.
                Err(StoreError::NotFound { .. }) => {}
                bytes => return Ok(JobRecord { state, bytes: bytes? }),
            }
        }
        Err(StoreError::NotFound { path: self.objects.place(&place) })
    }

    pub(super) fn jobs(&self, tenant: &str) -> Result<Vec<Ulid>, StoreError> {
        let mut jobs: Vec<Ulid> = self.records(&below(tenant))?.iter().map(|record| record.id).collect();
        jobs.sort_unstable_by(|one, other| other.cmp(one));
        jobs.dedup();
        Ok(jobs)
    }

    fn records(&self, below: &str) -> Result<Vec<Record>, StoreError> {
        let mut records = Vec::new();
        self.objects.list(below, |object| {
            records.extend(Record::of(object));
            Ok(())
        })?;
        Ok(records)
    }

    /// Removes expired records, and marks those as lost whose store is gone. What cannot be changed is logged and left to the
    /// next sweep.
    pub(super) fn sweep_jobs(&self, records: Vec<Record>, now: SystemTime, time_to_live: Duration) {
        let mut jobs: BTreeMap<(String, Ulid), Vec<Record>> = BTreeMap::new();
        for record in records {
            jobs.entry((record.tenant.clone(), record.id)).or_default().push(record);
        }
        for ((tenant, id), records) in jobs {
            if let Err(error) = self.sweep_job(&tenant, id, &records, now, time_to_live) {
                warn!(tenant, job = %id, error = &error as &dyn std::error::Error, "cannot sweep the record of a job");
            }
        }
    }

    fn sweep_job(
        &self,
        tenant: &str,
        id: Ulid,
        records: &[Record],
        now: SystemTime,
        time_to_live: Duration,
    ) -> Result<(), StoreError> {
        let has_ended = records.iter().any(|record| !record.runs());
        let mut over = Vec::new();
        for record in records {
            let key = &record.object.key;
            match record.mark {
                Mark::Running(lease) if has_ended || !self.holds(lease)? => {
                    // Its time to live begins when somebody can learn that it is lost.
                    if !has_ended {
                        let bytes = self.objects.get(key, RUNNING_BYTES_MAX)?;
                        self.objects.put(&self::key(tenant, id, Mark::Lost), bytes)?;
                    }
                    over.push(key.clone());
                }
                _ if record.is_expired(now, time_to_live) => over.push(key.clone()),
                _ => {}
            }
        }
        self.objects.delete(&over)
    }
}

/// Where the records of a tenant are.
fn below(tenant: &str) -> String {
    format!("{tenant}/{JOBS}")
}

/// Where the records of a job are.
pub(super) fn below_job(tenant: &str, id: Ulid) -> String {
    format!("{tenant}/{JOBS}/{id}")
}

fn key(tenant: &str, id: Ulid, mark: Mark) -> String {
    format!("{}/{}", below_job(tenant, id), mark.text())
}
