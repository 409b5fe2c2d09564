//! A policy that fails time after time is parked: its calls cost nothing until one of them is let through again.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use metrics::gauge;

/// Gauge of the policies that are parked.
pub const PARKED: &str = "lro_policies_parked";

/// When a policy is parked, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerSettings {
    /// Failures in a row that park it, at least 1. 5.
    pub failures: u32,
    /// Time until a call is let through for the first time. It doubles with each failure of such a call. 1 s.
    pub pause: Duration,
    /// Longest such time. 60 s.
    pub pause_max: Duration,
}

impl Default for BreakerSettings {
    fn default() -> Self {
        Self { failures: 5, pause: Duration::from_secs(1), pause_max: Duration::from_secs(60) }
    }
}

/// Counts the failures of one version of a policy. A version put in its place begins with a breaker of its own.
#[derive(Debug)]
pub(super) struct Breaker {
    settings: BreakerSettings,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    failures: u32,
    parked: Option<Parked>,
}

#[derive(Clone, Copy, Debug)]
struct Parked {
    /// When the next call is let through.
    until: Instant,
    pause: Duration,
}

impl Breaker {
    pub(super) fn new(settings: BreakerSettings) -> Self {
        Self { settings, state: Mutex::default() }
    }

    /// How long no call is let through.
    pub(super) fn parked_for(&self) -> Option<Duration> {
        let parked = self.state().parked?;
        Some(parked.until.saturating_duration_since(Instant::now())).filter(|left| !left.is_zero())
    }

    /// Lets a call through or tells how long none is. While parked, one call is let through at the end of each pause, and
    /// told that it is that one.
    pub(super) fn admit(&self) -> Result<bool, Duration> {
        let now = Instant::now();
        let Some(parked) = &mut self.state().parked else { return Ok(false) };
        if now < parked.until {
            return Err(parked.until - now);
        }
        // Whoever comes while that call runs is refused; should it never end, another one follows.
        parked.until = now + parked.pause;
        Ok(true)
    }

    /// A call did what it should. Tells whether that ends the parking: a call from before it tells nothing new.
    pub(super) fn succeeded(&self, is_attempt: bool) -> bool {
        let mut state = self.state();
        if state.parked.is_some() && !is_attempt {
            return false;
        }
        state.failures = 0;
        let was_parked = state.parked.take().is_some();
        if was_parked {
            gauge!(PARKED).decrement(1.0);
        }
        was_parked
    }

    /// A call failed through the policy's fault. Tells the pause that begins with it, if one does.
    pub(super) fn failed(&self, is_attempt: bool) -> Option<Duration> {
        let mut state = self.state();
        let pause = match state.parked {
            Some(parked) if is_attempt => parked.pause * 2,
            Some(_) => return None,
            None => {
                state.failures += 1;
                if state.failures < self.settings.failures {
                    return None;
                }
                gauge!(PARKED).increment(1.0);
                self.settings.pause
            }
        };
        let pause = pause.min(self.settings.pause_max);
        state.parked = Some(Parked { until: Instant::now() + pause, pause });
        Some(pause)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        if self.state().parked.is_some() {
            gauge!(PARKED).decrement(1.0);
        }
    }
}
