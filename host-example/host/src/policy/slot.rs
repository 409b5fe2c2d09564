//! The slot of a tenant: its current policy, admission and trial.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::{ArcSwapOption, Guard};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::breaker::Breaker;
use super::gate::{Bounds, Gate, Permit};
use super::trial::Running;
use super::{BreakerSettings, LoadError, Policy, Trial, TrialReport};
use crate::faults::fail_point;
use crate::units::{in_milliseconds, milliseconds, positive};

/// Why a call was not admitted.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SlotError {
    /// No policy is loaded.
    #[error("no policy is loaded: {0}")]
    Absent(String),
    /// [`Admission::calls`] calls of this tenant are running.
    #[error("{0} calls of this tenant are already running: try again in a moment")]
    Busy(u32),
    /// The policy is parked after repeated failures.
    #[error("the policy is parked for {} ms more after repeated failures", .0.as_millis())]
    Parked(Duration),
}

/// How many calls of one tenant run at the same time, and how long others wait. It keeps one tenant from taking all
/// processors. In a configuration, the time is in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admission {
    /// Maximum number of concurrent calls, at least 1. Default: 128, half the capacity of the engine.
    #[serde(deserialize_with = "positive")]
    pub calls: u32,
    /// Maximum number of waiting calls. While as many results wait for a thread, the gateway stops reading from the
    /// server. Default: 1,024.
    pub waiting: u32,
    /// Maximum time that a call waits. Default: 1 s.
    #[serde(rename = "wait-ms", serialize_with = "in_milliseconds", deserialize_with = "milliseconds")]
    pub wait: Duration,
}

impl Default for Admission {
    fn default() -> Self {
        Self { calls: 128, waiting: 1024, wait: Duration::from_secs(1) }
    }
}

/// Limits of one tenant's calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlotSettings {
    /// How many run at the same time.
    pub admission: Admission,
    /// When to park a failing policy.
    pub breaker: BreakerSettings,
}

/// A current or former policy of a slot.
#[derive(Debug)]
pub struct Version {
    /// The policy.
    pub policy: Policy,
    /// Number of the version in its slot, from 1.
    pub number: u64,
    /// When it became current.
    pub loaded: SystemTime,
    breaker: Breaker,
}

impl Version {
    /// Remaining time for which it is parked, if it is.
    pub fn parked_for(&self) -> Option<Duration> {
        self.breaker.parked_for()
    }
}

/// The policy of one tenant.
///
/// A swap changes one pointer. A call keeps the version it started with, which is freed when its last call ends. Each
/// version has its own breaker, so a swap also ends parking.
#[derive(Debug, Default)]
pub struct Slot {
    settings: SlotSettings,
    current: ArcSwapOption<Version>,
    /// Number of the last version. Locked during a swap.
    changes: Mutex<u64>,
    gate: Arc<Gate>,
    trial: ArcSwapOption<Running>,
    loaded: AtomicU64,
    refused: AtomicU64,
    last: Mutex<Last>,
}

/// Results of the last attempts.
#[derive(Debug, Default)]
struct Last {
    /// Why a policy was refused: the message for operators, and the one for clients.
    refusal: Option<(String, String)>,
    report: Option<TrialReport>,
}

/// A snapshot of a slot.
#[derive(Clone, Debug)]
pub struct SlotStatus {
    /// The current version; `None` before a policy is loaded.
    pub version: Option<Arc<Version>>,
    /// Remaining time for which it is parked, if it is.
    pub parked_for: Option<Duration>,
    /// Number of policies loaded since the start.
    pub loaded: u64,
    /// Number of policies refused since the start.
    pub refused: u64,
    /// Why the last policy was refused, unless one was loaded since.
    pub refusal: Option<String>,
    /// The running trial, else the last one.
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
    /// Creates a slot. Without a policy every call fails until [`Slot::swap`].
    pub fn new(policy: Option<Policy>, settings: SlotSettings) -> Self {
        let slot = Self { settings, ..Self::default() };
        if let Some(policy) = policy {
            slot.swap(policy);
        }
        slot
    }

    /// Returns the current version.
    pub fn current(&self) -> Option<Arc<Version>> {
        self.current.load_full()
    }

    /// Replaces the current policy: every call that starts from now on runs the new one. Ends a running trial.
    pub fn swap(&self, policy: Policy) -> Arc<Version> {
        let mut number = self.changes.lock();
        self.end_trial();
        self.put(&mut number, policy)
    }

    /// Replaces the current policy by that of a trial, unless the trial is no longer running.
    pub(super) fn promote(&self, running: Option<&Arc<Running>>, policy: Policy) -> Option<Arc<Version>> {
        let mut number = self.changes.lock();
        let is_running = self.trial.load().as_ref().is_some_and(|it| running.is_some_and(|run| Arc::ptr_eq(it, run)));
        is_running.then(|| self.put(&mut number, policy))
    }

    fn put(&self, number: &mut u64, policy: Policy) -> Arc<Version> {
        *number += 1;
        let breaker = Breaker::new(self.settings.breaker);
        let version = Arc::new(Version { policy, number: *number, loaded: SystemTime::now(), breaker });
        self.loaded.fetch_add(1, Ordering::Relaxed);
        self.last.lock().refusal = None;
        fail_point!("policy::swap");
        self.current.store(Some(Arc::clone(&version)));
        version
    }

    /// Records that a policy was refused, and why.
    pub(super) fn refuse(&self, error: &LoadError) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.last.lock().refusal = Some((error.to_string(), error.for_client()));
    }

    /// Returns a snapshot of the slot.
    pub fn status(&self) -> SlotStatus {
        let version = self.current();
        let running = self.trial.load().as_ref().map(|running| running.report());
        let last = self.last.lock();
        SlotStatus {
            parked_for: version.as_ref().and_then(|version| version.parked_for()),
            version,
            loaded: self.loaded.load(Ordering::Relaxed),
            refused: self.refused.load(Ordering::Relaxed),
            refusal: last.refusal.as_ref().map(|(whole, _)| whole.clone()),
            trial: running.or_else(|| last.report.clone()),
        }
    }

    /// Runs a policy beside the current one, on a separate thread and after the answers, and compares their decisions.
    /// Ends a running trial.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub fn begin_trial(self: &Arc<Self>, policy: Policy, trial: Trial) -> std::io::Result<()> {
        self.begin_trial_then(policy, trial, |_| {})
    }

    /// As [`Slot::begin_trial`]; calls `promoted` with the new version if the policy becomes current.
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

    /// Ends a running trial without changing the policy.
    pub fn end_trial(&self) {
        if let Some(running) = self.trial.swap(None) {
            self.last.lock().report = Some(running.report());
        }
    }

    /// Returns the running trial.
    pub(crate) fn trial(&self) -> Guard<Option<Arc<Running>>> {
        self.trial.load()
    }

    /// Records that a trial ended with this report.
    pub(super) fn trial_ended(&self, running: Option<&Arc<Running>>, report: TrialReport) {
        self.last.lock().report = Some(report);
        if let Some(running) = running {
            self.trial.rcu(|current| current.clone().filter(|current| !Arc::ptr_eq(current, running)));
        }
    }

    /// Maximum time that a call waits to be admitted.
    pub(crate) fn wait(&self) -> Duration {
        self.settings.admission.wait
    }

    /// Admits a call, and returns the version that it runs on. Yields before it waits, which blocks.
    pub(crate) async fn admit(&self) -> Result<Admitted, SlotError> {
        // Do not wait for a parked policy.
        if let Some(left) = self.current.load().as_ref().and_then(|version| version.breaker.parked_for()) {
            return Err(SlotError::Parked(left));
        }
        let Admission { calls, waiting, wait } = self.settings.admission;
        let bounds = Bounds { permits: calls.max(1), weight: 1, waiters: waiting, timeout: wait };
        let permit = self.gate.acquire_async(&bounds).await.ok_or(SlotError::Busy(bounds.permits))?;
        let version = self.current.load_full().ok_or_else(|| self.absent())?;
        let is_probe = version.breaker.admit().map_err(SlotError::Parked)?;
        Ok(Admitted { version, is_probe, _permit: permit })
    }

    fn absent(&self) -> SlotError {
        let refusal = self.last.lock().refusal.clone();
        SlotError::Absent(refusal.map_or_else(|| "none was given".to_owned(), |(_, for_client)| for_client))
    }
}

/// An admitted call.
pub(crate) struct Admitted {
    version: Arc<Version>,
    /// Whether it is the probe of a parked policy.
    is_probe: bool,
    _permit: Permit,
}

impl Admitted {
    /// The policy it runs on.
    pub(crate) fn policy(&self) -> &Policy {
        &self.version.policy
    }

    /// Reports to the breaker that the call succeeded.
    pub(crate) fn succeeded(&self, tenant: &str) {
        if self.version.breaker.succeeded(self.is_probe) {
            let (version, digest) = (self.version.number, self.version.policy.digest());
            tracing::warn!(tenant, version, %digest, "the policy works again");
        }
    }

    /// Reports to the breaker that the call failed and the policy is at fault.
    pub(crate) fn failed(&self, tenant: &str) {
        if let Some(pause) = self.version.breaker.failed(self.is_probe) {
            let (version, digest, pause_ms) = (self.version.number, self.version.policy.digest(), pause.as_millis());
            tracing::error!(tenant, version, %digest, pause_ms, "the policy is parked after repeated failures");
        }
    }
}
