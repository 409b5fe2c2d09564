//! Circuit breaker: parks a policy that fails repeatedly, so that its calls are rejected at once until a probe call is
//! admitted.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::units::{in_milliseconds, positive, positive_milliseconds};

static PARKED: AtomicU64 = AtomicU64::new(0);

/// Number of policies of this process that are parked.
pub fn parked_count() -> u64 {
    PARKED.load(Ordering::Relaxed)
}

/// When a policy is parked, and for how long: its calls then get the result of the failure mode at once. In a
/// configuration, times are in milliseconds, and at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct BreakerSettings {
    /// Consecutive failures that park it, at least 1. Default: 5.
    #[serde(deserialize_with = "positive")]
    pub failures: u32,
    /// Time until the first probe call. Doubles with each failed probe call. Default: 1 s.
    #[serde(rename = "pause-ms", serialize_with = "in_milliseconds", deserialize_with = "positive_milliseconds")]
    pub pause: Duration,
    /// Maximum of this time. Default: 60 s.
    #[serde(rename = "pause-max-ms", serialize_with = "in_milliseconds", deserialize_with = "positive_milliseconds")]
    pub pause_max: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(1), pause_max: Duration::from_secs(60) }
    }
}

/// Counts the failures of one version of a policy. Each version has its own breaker.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: Mutex<BreakerState>,
}

#[derive(Debug, Default)]
struct BreakerState {
    failures: u32,
    parked: Option<Parked>,
}

#[derive(Clone, Copy, Debug)]
struct Parked {
    /// When the next probe call is admitted.
    until: Instant,
    pause: Duration,
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// Remaining time in which no call is admitted.
    pub(super) fn parked_for(&self) -> Option<Duration> {
        let parked = self.state.lock().parked?;
        Some(parked.until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Admits a call, or returns the remaining pause. While parked, one probe call is admitted at the end of each
    /// pause; `Ok(true)` marks it.
    pub(super) fn admit(&self) -> Result<bool, Duration> {
        let now = Instant::now();
        let Some(parked) = &mut self.state.lock().parked else { return Ok(false) };
        if now < parked.until {
            return Err(parked.until - now);
        }
        // Calls that arrive while the probe call runs are rejected. If it never ends, the next pause admits another
        // one.
        parked.until = now + parked.pause;
        Ok(true)
    }

    /// Records a success. Returns whether it ends the parking: only a probe call can.
    pub(super) fn succeeded(&self, is_probe: bool) -> bool {
        let mut state = self.state.lock();
        if state.parked.is_some() && !is_probe {
            return false;
        }
        state.failures = 0;
        let was_parked = state.parked.take().is_some();
        if was_parked {
            PARKED.fetch_sub(1, Ordering::Relaxed);
        }
        was_parked
    }

    /// Records a failure that is the policy's fault. Returns the pause that it starts, if any.
    pub(super) fn failed(&self, is_probe: bool) -> Option<Duration> {
        let mut state = self.state.lock();
        let pause = match state.parked {
            Some(parked) if is_probe => parked.pause * 2,
            Some(_) => return None,
            None => {
                state.failures += 1;
                if state.failures < self.settings.failures {
                    return None;
                }
                PARKED.fetch_add(1, Ordering::Relaxed);
                self.settings.pause
            }
        };
        let pause = pause.min(self.settings.pause_max);
        state.parked = Some(Parked { until: Instant::now() + pause, pause });
        Some(pause)
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        if self.state.lock().parked.is_some() {
            PARKED.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
