//! Trials: a new policy runs beside the current one, and their decisions are compared.
//!
//! A thread of the trial runs the new policy after the current one has answered. Its queue is short; results that find
//! it full are not compared, so a trial never delays a call.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::{Digest, Policy, Slot, Version};
use crate::faults::{caught, fail_point};
use crate::units::{in_some_seconds, some_positive, some_positive_seconds};

/// Maximum number of results that wait to be compared.
pub const TRIAL_QUEUE_MAX: usize = 16;

/// Maximum number of differences and failures in a report.
pub const TRIAL_EXAMPLES_MAX: usize = 20;

/// Duration of a trial without a time limit.
const ENDLESS: Duration = Duration::from_secs(100 * 365 * 86_400);

/// How long a trial runs, and what follows. It ends at the first limit reached. In a configuration, the time is
/// `seconds`, and limits are at least 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trial {
    /// Number of results to compare. Default: no limit.
    #[serde(deserialize_with = "some_positive")]
    pub calls: Option<u64>,
    /// Maximum duration. Default: no limit.
    #[serde(rename = "seconds", serialize_with = "in_some_seconds", deserialize_with = "some_positive_seconds")]
    pub time: Option<Duration>,
    /// Whether the new policy becomes current if it was compared at least once and all decisions were the same.
    /// Otherwise it is dropped.
    pub promote: bool,
}

impl Trial {
    /// This trial, if it has a limit: a configuration without one asks for no trial.
    pub fn if_limited(self) -> Option<Self> {
        (self.calls.is_some() || self.time.is_some()).then_some(self)
    }
}

/// The results of a trial so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialReport {
    /// The policy on trial.
    pub digest: Digest,
    /// Number of results with the same verdict, descriptor and files.
    pub same: u64,
    /// Number of results where one of them differs.
    pub different: u64,
    /// Number of results on which only the new policy failed.
    pub failed: u64,
    /// Number of results that were not compared because the queue was full.
    pub skipped: u64,
    /// The first differences and failures, at most [`TRIAL_EXAMPLES_MAX`].
    pub examples: Vec<TrialExample>,
    /// How the trial ended; `None` while it runs.
    pub outcome: Option<TrialOutcome>,
}

/// A result on which the two policies differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrialExample {
    /// The tool.
    pub tool: String,
    /// What differs.
    pub what: String,
}

/// How a trial ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrialOutcome {
    /// The new policy became current, as the version of this number.
    Promoted(u64),
    /// The new policy was dropped.
    Dropped,
    /// It was ended, or another policy was loaded, before it was complete.
    Ended,
}

/// The comparison of one result.
#[derive(Debug)]
pub(crate) enum Comparison {
    Same,
    Different(String),
    Failed(String),
}

/// Runs the new policy on a result and compares.
type Compare = Box<dyn FnOnce(&Policy) -> Comparison + Send>;

struct Job {
    tool: String,
    compare: Compare,
}

/// A running trial. It ends when the slot drops it.
#[derive(Debug)]
pub(crate) struct Running {
    jobs: SyncSender<Job>,
    report: Arc<Mutex<TrialReport>>,
}

impl Running {
    pub(super) fn start(
        slot: &Arc<Slot>,
        policy: Policy,
        trial: Trial,
        promoted: impl FnOnce(&Version) + Send + 'static,
    ) -> std::io::Result<Arc<Self>> {
        let (jobs, waiting) = mpsc::sync_channel(TRIAL_QUEUE_MAX);
        let digest = *policy.digest();
        let (same, different, failed, skipped) = (0, 0, 0, 0);
        let report = TrialReport { digest, same, different, failed, skipped, examples: Vec::new(), outcome: None };
        let report = Arc::new(Mutex::new(report));
        let running = Arc::new(Self { jobs, report: Arc::clone(&report) });
        // The thread must not keep alive what it waits for.
        let (slot, itself) = (Arc::downgrade(slot), Arc::downgrade(&running));
        thread::Builder::new().name("lro-trial".into()).spawn(move || {
            let is_done = compare(&waiting, &policy, &trial, &report);
            end(&slot, &itself, policy, &report, is_done.then_some(trial), promoted);
        })?;
        Ok(running)
    }

    /// Queues a result for comparison, unless the queue is full.
    pub(crate) fn offer(&self, tool: &str, compare: impl FnOnce(&Policy) -> Comparison + Send + 'static) {
        let job = Job { tool: tool.to_owned(), compare: Box::new(compare) };
        if let Err(TrySendError::Full(_)) = self.jobs.try_send(job) {
            self.report.lock().skipped += 1;
        }
    }

    /// Returns the report so far.
    pub(super) fn report(&self) -> TrialReport {
        self.report.lock().clone()
    }
}

/// Compares until the trial is complete. Returns false if the slot dropped it before.
fn compare(jobs: &Receiver<Job>, policy: &Policy, trial: &Trial, report: &Mutex<TrialReport>) -> bool {
    let until = Instant::now() + trial.time.unwrap_or(ENDLESS).min(ENDLESS);
    let mut left = trial.calls.unwrap_or(u64::MAX);
    while left > 0 {
        let job = match jobs.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(job) => job,
            Err(RecvTimeoutError::Timeout) => return true,
            Err(RecvTimeoutError::Disconnected) => return false,
        };
        let compare = move || {
            fail_point!("policy::trial");
            (job.compare)(policy)
        };
        let comparison =
            caught(compare).unwrap_or_else(|panic| Comparison::Failed(format!("the host panicked: {panic}")));
        report.lock().add(job.tool, comparison);
        left -= 1;
    }
    true
}

/// Ends a trial; `trial` is `Some` if it was complete.
fn end(
    slot: &Weak<Slot>,
    running: &Weak<Running>,
    policy: Policy,
    report: &Mutex<TrialReport>,
    trial: Option<Trial>,
    promoted: impl FnOnce(&Version),
) {
    let Some(slot) = slot.upgrade() else { return };
    let running = running.upgrade();
    let found = report.lock().clone();
    let agrees = found.same > 0 && found.different == 0 && found.failed == 0;
    let outcome = match trial {
        Some(trial) if trial.promote && agrees => match slot.promote(running.as_ref(), policy) {
            Some(version) => {
                promoted(&version);
                TrialOutcome::Promoted(version.number)
            }
            None => TrialOutcome::Ended,
        },
        Some(_) => TrialOutcome::Dropped,
        None => TrialOutcome::Ended,
    };
    let report = {
        let mut report = report.lock();
        report.outcome = Some(outcome);
        report.clone()
    };
    let TrialReport { digest, same, different, failed, skipped, .. } = &report;
    tracing::warn!(%digest, same, different, failed, skipped, ?outcome, "the trial of a policy ended");
    slot.trial_ended(running.as_ref(), report);
}

impl TrialReport {
    fn add(&mut self, tool: String, comparison: Comparison) {
        let what = match comparison {
            Comparison::Same => {
                self.same += 1;
                return;
            }
            Comparison::Different(what) => {
                self.different += 1;
                what
            }
            Comparison::Failed(what) => {
                self.failed += 1;
                what
            }
        };
        if self.examples.len() < TRIAL_EXAMPLES_MAX {
            self.examples.push(TrialExample { tool, what });
        }
    }
}
