//! What the calls of one tenant go through.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwapOption, Guard};

use super::breaker::Breaker;
use super::gate::{Bounds, Gate, Pass};
use super::trial::Running;
use super::{BreakerSettings, Policy, PolicyError, Trial, TrialReport};
use crate::faults::fail_point;

/// Why a call was not let through to a policy.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// No policy was loaded yet.
    #[error("no policy is loaded: {0}")]
    Absent(String),
    /// [`Admission::calls`] of this tenant are running.
    #[error("the policy has {0} calls of this tenant running already: try again in a moment")]
    Busy(u32),
    /// The policy failed too often in a row.
    #[error("the policy is parked for {} ms more after repeated failures", .0.as_millis())]
    Parked(Duration),
}

/// How many calls of one tenant run at the same time, and how long others wait for their turn. As calls use a processor, it
/// keeps one tenant from taking them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admission {
    /// Calls that run at the same time, at least 1. 128, half of what the engine has room for.
    pub calls: u32,
    /// Calls that may wait. 1,024.
    pub waiting: u32,
    /// Longest time that one waits. 1 s.
    pub wait: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        Self { calls: 128, waiting: 1024, wait: Duration::from_secs(1) }
    }
}

/// How the calls of one tenant are bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSettings {
    /// How many at the same time.
    pub admission: Admission,
    /// When a failing policy is parked.
    pub breaker: BreakerSettings,
}

/// A policy that serves, or served.
#[derive(Debug)]
pub struct Version {
    /// What is called.
    pub policy: Policy,
    /// Counts the versions of a slot, from 1.
    pub number: u64,
    /// When it took over.
    pub loaded: SystemTime,
    breaker: Breaker,
}

impl Version {
    /// How long it stays parked, if it is.
    pub fn parked_for(&self) -> Option<Duration> {
        self.breaker.parked_for()
    }
}

/// The policy of one tenant.
///
/// A swap changes one pointer. A call keeps the version it began with, which is freed when its last call ends; nothing else
/// keeps an old version. Each version has a breaker of its own, so a swap ends the parking of its predecessor.
#[derive(Debug, Default)]
pub struct Slot {
    settings: SlotSettings,
    current: ArcSwapOption<Version>,
    /// The number of the last version. Locked while one takes over.
    changes: Mutex<u64>,
    gate: Arc<Gate>,
    trial: ArcSwapOption<Running>,
    loaded: AtomicU64,
    refused: AtomicU64,
    last: Mutex<Last>,
}

/// What was told last.
#[derive(Debug, Default)]
struct Last {
    /// Why a version was refused: for operators, and for clients.
    refusal: Option<(String, String)>,
    report: Option<TrialReport>,
}

/// A slot at one moment.
#[derive(Clone, Debug)]
pub struct SlotStatus {
    /// What serves; none before anything was loaded.
    pub version: Option<Arc<Version>>,
    /// How long it stays parked, if it is.
    pub parked_for: Option<Duration>,
    /// Versions that took over since the start.
    pub loaded: u64,
    /// Policies that were refused since the start.
    pub refused: u64,
    /// Why the last one was refused, unless one took over since.
    pub refusal: Option<String>,
    /// The trial under way, else the last one.
    pub trial: Option<TrialReport>,
}

impl From<Policy> for Slot {
    fn from(policy: Policy) -> Self {
        Self::new(Some(policy), SlotSettings::default())
    }
}

impl From<Policy> for Arc<Slot> {
    fn from(policy: Policy) -> Self {
        Self::new(policy.into())
    }
}

impl Slot {
    /// A slot. Without a policy every call fails until one is put in.
    pub fn new(policy: Option<Policy>, settings: SlotSettings) -> Self {
        let slot = Self { settings, ..Self::default() };
        if let Some(policy) = policy {
            slot.swap(policy);
        }
        slot
    }

    /// What serves now.
    pub fn current(&self) -> Option<Arc<Version>> {
        self.current.load_full()
    }

    /// Puts a policy in the place of the current one: every call that begins from now on runs it. A trial ends.
    pub fn swap(&self, policy: Policy) -> Arc<Version> {
        let mut number = lock(&self.changes);
        self.end_trial();
        self.put(&mut number, policy)
    }

    /// Puts the policy of a trial in the place of the current one, unless the trial is no longer the one under way.
    pub(super) fn promote(&self, running: Option<&Arc<Running>>, policy: Policy) -> Option<Arc<Version>> {
        let mut number = lock(&self.changes);
        let is_running = self.trial.load().as_ref().is_some_and(|it| running.is_some_and(|run| Arc::ptr_eq(it, run)));
        is_running.then(|| self.put(&mut number, policy))
    }

    fn put(&self, number: &mut u64, policy: Policy) -> Arc<Version> {
        *number += 1;
        let breaker = Breaker::new(self.settings.breaker);
        let version = Arc::new(Version { policy, number: *number, loaded: SystemTime::now(), breaker });
        self.loaded.fetch_add(1, Ordering::Relaxed);
        lock(&self.last).refusal = None;
        fail_point!("policy::swap");
        self.current.store(Some(Arc::clone(&version)));
        version
    }

    /// Notes that a policy was refused, and why.
    pub(super) fn refuse(&self, error: &PolicyError) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        lock(&self.last).refusal = Some((error.to_string(), error.for_client()));
    }

    /// What there is to tell.
    pub fn status(&self) -> SlotStatus {
        let version = self.current();
        let running = self.trial.load().as_ref().map(|running| running.report());
        let last = lock(&self.last);
        SlotStatus {
            parked_for: version.as_ref().and_then(|version| version.parked_for()),
            version,
            loaded: self.loaded.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            refusal: last.refusal.as_ref().map(|(whole, _)| whole.clone()),
            trial: running.or_else(|| last.report.clone()),
        }
    }

    /// Runs a policy beside the current one, on a thread of its own and after answers are settled, and compares what the two
    /// decide. A trial under way ends.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn begin_trial(self: &Arc<Self>, policy: Policy, trial: Trial) -> std::io::Result<()> {
        self.begin_trial_then(policy, trial, |_| {})
    }

    /// As [`Slot::begin_trial`]; tells of the version when the policy takes over.
    pub(super) fn begin_trial_then(
        self: &Arc<Self>,
        policy: Policy,
        trial: Trial,
        promoted: impl FnOnce(&Version) + Send + 'static,
    ) -> std::io::Result<()> {
        let running = Running::start(self, policy, trial, promoted)?;
        self.end_trial();
        self.trial.store(Some(running));
        Ok(())
    }

    /// Ends the trial under way without a change.
    pub fn end_trial(&self) {
        if let Some(running) = self.trial.swap(None) {
            lock(&self.last).report = Some(running.report());
        }
    }

    /// The trial under way.
    pub(crate) fn trial(&self) -> Guard<Option<Arc<Running>>> {
        self.trial.load()
    }

    /// A trial ended with this report.
    pub(super) fn trial_ended(&self, running: Option<&Arc<Running>>, report: TrialReport) {
        lock(&self.last).report = Some(report);
        if let Some(running) = running {
            self.trial.rcu(|current| current.clone().filter(|current| !Arc::ptr_eq(current, running)));
        }
    }

    /// Longest time for which a call waits to be let through.
    pub(crate) fn wait(&self) -> Duration {
        self.settings.admission.wait
    }

    /// Lets a call through, with the version that all of it runs on. Pending before it waits, which blocks.
    pub(crate) async fn admit(&self) -> Result<Admitted, SlotError> {
        // A parked policy is not worth waiting for.
        if let Some(left) = self.current.load().as_ref().and_then(|version| version.breaker.parked_for()) {
            return Err(SlotError::Parked(left));
        }
        let Admission { calls, waiting, wait } = self.settings.admission;
        let bounds = Bounds { inside: calls.max(1), waiting, wait };
        let pass = self.gate.admit(&bounds).await.ok_or(SlotError::Busy(bounds.inside))?;
        let version = self.current.load_full().ok_or_else(|| self.absent())?;
        let is_attempt = version.breaker.admit().map_err(SlotError::Parked)?;
        Ok(Admitted { version, is_attempt, _pass: pass })
    }

    fn absent(&self) -> SlotError {
        let refusal = lock(&self.last).refusal.clone();
        SlotError::Absent(refusal.map_or_else(|| "none was put in".to_owned(), |(_, told)| told))
    }
}

/// A call that was let through.
pub(crate) struct Admitted {
    version: Arc<Version>,
    /// Whether it finds out if a parked policy works again.
    is_attempt: bool,
    _pass: Pass,
}

impl Admitted {
    /// What it runs on.
    pub(crate) fn policy(&self) -> &Policy {
        &self.version.policy
    }

    /// The policy did what it should.
    pub(crate) fn succeeded(&self, tenant: &str) {
        if self.version.breaker.succeeded(self.is_attempt) {
            let (version, digest) = (self.version.number, self.version.policy.digest());
            tracing::warn!(tenant, version, %digest, "the policy works again");
        }
    }

    /// The call failed through the policy's fault.
    pub(crate) fn failed(&self, tenant: &str) {
        if let Some(pause) = self.version.breaker.failed(self.is_attempt) {
            let (version, digest, pause_ms) = (self.version.number, self.version.policy.digest(), pause.as_millis());
            tracing::error!(tenant, version, %digest, pause_ms, "the policy is parked after repeated failures");
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
