//! Jobs: calls that go on at the server without the request that began them. This is what is known of those that run;
//! the store keeps a record of each, also after its end.

mod input;
mod parts;
mod record;
mod running;
mod waiting;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use lro_host::store::{JobState, Store, StoreError, Ulid};
use parking_lot::Mutex;

pub(crate) use self::input::{InputLimits, METHODS as INPUT_METHODS, Question};
pub(crate) use self::parts::Parts;
pub(crate) use self::record::{EndState, Ended, Outcome, Record};
pub(crate) use self::running::{JobCall, Progress, RunningJob};
use self::waiting::{Until, Waiting};

/// Reason of a job whose end no gateway saw.
const LOST: &str = "the gateway ended, or did not reach its store, while the job ran";

/// Reason of a job whose result could not be written.
const NOT_KEPT: &str = "its result could not be kept, see the log of the gateway";

/// The running jobs of all tenants, and the calls that wait for one to end.
#[derive(Debug, Default)]
pub(crate) struct Jobs {
    running: Mutex<HashMap<String, BTreeMap<Ulid, Arc<RunningJob>>>>,
    waiting: Waiting,
}

/// A job that a client asks for.
#[derive(Debug)]
pub(crate) enum Job {
    /// It runs in this gateway.
    Running(Arc<RunningJob>),
    /// It runs in another gateway of the same store.
    Elsewhere(Record),
    /// It has ended, with the result if it has one: a JSON object.
    Ended(Record, Ended, Bytes),
    /// Nobody knows how it ended.
    Lost(Record, &'static str),
}

impl Jobs {
    /// Begins a job; `None` if the tenant has as many as it may.
    pub(crate) fn begin(&self, call: JobCall, parts: Arc<Parts>, max: NonZeroU32) -> Option<Arc<RunningJob>> {
        let mut running = self.running.lock();
        let of_tenant = running.entry(call.tenant.clone()).or_default();
        if of_tenant.len() >= max.get() as usize {
            tracing::debug!(tenant = call.tenant, "a call does not become a job (gateway.jobs-max)");
            return None;
        }
        let job = Arc::new(RunningJob::new(parts, call));
        of_tenant.insert(job.handle, Arc::clone(&job));
        Some(job)
    }

    /// A running job of this tenant.
    pub(crate) fn running(&self, tenant: &str, handle: Ulid) -> Option<Arc<RunningJob>> {
        self.running.lock().get(tenant)?.get(&handle).cloned()
    }

    /// Number of the running jobs of all tenants.
    pub(crate) fn count(&self) -> usize {
        self.running.lock().values().map(BTreeMap::len).sum()
    }

    /// The running jobs of this tenant.
    pub(crate) fn all_running(&self, tenant: &str) -> Vec<Arc<RunningJob>> {
        self.running.lock().get(tenant).into_iter().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Records that a job runs, so that a restart knows of it, and what has come of its result. Blocks.
    pub(crate) fn record_begin(&self, store: &Store, job: &RunningJob) {
        let _turn = job.turn();
        if job.has_ended() {
            return;
        }
        if let Err(error) = store.begin_job(&job.call.tenant, job.handle, &Record::begun(&job.call).written(&[])) {
            warn(job, &error, "cannot record that a job runs");
        }
        job.parts.write(store);
    }

    /// Ends a job, keeps its record and result, and wakes the calls that wait for it. The first end counts. Blocks.
    pub(crate) fn end(&self, store: &Store, job: &RunningJob, outcome: Outcome, kept_max: NonZeroU32) {
        let turn = job.turn();
        if !job.set_ended() {
            return;
        }
        let (tenant, kept_max) = (&job.call.tenant, kept_max.get() as usize);
        let keep = |outcome: &Outcome| {
            let (record, result) = Record::ended(job, outcome);
            store.end_job(tenant, job.handle, &record.written(&result), kept_max)
        };
        // A disk without room for the result may have some for its record.
        let kept = keep(&outcome).or_else(|error| {
            warn(job, &error, "cannot keep the result of a job");
            keep(&Outcome::Failed(NOT_KEPT.to_owned()))
        });
        if let Err(error) = kept {
            warn(job, &error, "cannot record the end of a job");
        }
        job.parts.end(store, matches!(outcome, Outcome::Done(_)) && !job.is_canceled());
        drop(turn);
        let mut running = self.running.lock();
        if let Some(of_tenant) = running.get_mut(tenant) {
            of_tenant.remove(&job.handle);
            if of_tenant.is_empty() {
                running.remove(tenant);
            }
        }
        drop(running);
        self.waiting.wake(job.handle);
    }

    /// Keeps a request of the server for input, and wakes the calls that wait for the job.
    pub(crate) fn ask(&self, job: &RunningJob, question: Question, limits: InputLimits) {
        job.ask(question, limits);
        self.waiting.wake_asked(job.handle);
    }

    /// Keeps what a result of the server asks for, and wakes the calls that wait for the job.
    ///
    /// # Errors
    /// When it asks for too much.
    pub(crate) fn ask_all(
        &self,
        job: &RunningJob,
        questions: Vec<Question>,
        limits: InputLimits,
    ) -> Result<(), String> {
        job.ask_all(questions, limits)?;
        self.waiting.wake_asked(job.handle);
        Ok(())
    }

    /// Calls `wake` when the job has ended or waits for input, or at the deadline, on the thread that notices it.
    pub(crate) fn wait(&self, job: &RunningJob, deadline: Instant, wake: impl FnOnce() + Send + 'static) {
        let runs = || !job.asks() && self.running(&job.call.tenant, job.handle).is_some();
        self.waiting.add(job.handle, deadline, Until::Asked, runs, Box::new(wake));
    }

    /// As [`Jobs::wait`], also while the job waits for input.
    pub(crate) fn wait_for_end(&self, job: &RunningJob, deadline: Instant, wake: impl FnOnce() + Send + 'static) {
        let runs = || self.running(&job.call.tenant, job.handle).is_some();
        self.waiting.add(job.handle, deadline, Until::Ended, runs, Box::new(wake));
    }

    /// Calls `wake` at this time, or when the gateway ends, on the thread that notices it.
    pub(crate) fn wait_until(&self, job: Ulid, time: Instant, wake: impl FnOnce() + Send + 'static) {
        self.waiting.add(job, time, Until::Asked, || true, Box::new(wake));
    }

    /// Wakes the calls whose deadline has passed.
    pub(crate) fn wake_late(&self) {
        self.waiting.wake_until(Instant::now());
    }

    /// Wakes all calls that wait, because the gateway ends.
    pub(crate) fn wake_all(&self) {
        self.waiting.wake_all();
    }

    /// Finds a job of this tenant. Blocks.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is none, or it has expired; others if its record cannot be read.
    pub(crate) fn find(&self, store: &Store, tenant: &str, handle: Ulid, bytes_max: u64) -> Result<Job, StoreError> {
        if let Some(job) = self.running(tenant, handle) {
            return Ok(Job::Running(job));
        }
        let kept = store.job(tenant, handle, bytes_max)?;
        let missing = || StoreError::NotFound { path: store.shown_path(tenant, handle) };
        // Tenants whose directory names collide still do not see each other's jobs.
        let (record, result) =
            Record::read(kept.bytes).filter(|(record, _)| record.tenant == tenant).ok_or_else(missing)?;
        Ok(match (kept.state, record.end.clone()) {
            (_, Some(end)) => Job::Ended(record, end, result),
            (JobState::Running { is_own: false }, None) => Job::Elsewhere(record),
            // Its end was not recorded.
            (JobState::Running { is_own: true } | JobState::Ended, None) => Job::Lost(record, NOT_KEPT),
            (JobState::Lost, None) => Job::Lost(record, LOST),
        })
    }
}

fn warn(job: &RunningJob, error: &StoreError, text: &str) {
    let error = error as &dyn std::error::Error;
    tracing::warn!(tenant = job.call.tenant, job = %job.handle, tool = job.call.tool, error, "{text}");
}
