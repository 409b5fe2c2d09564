//! Throttling of wrong bearer tokens, by client address.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

/// Wrong tokens of one address that are answered without a delay.
const FREE_FAILURES: u32 = 5;

/// Time without a wrong token after which the count of an address restarts.
const RESET_AFTER: Duration = Duration::from_secs(60);

/// Delay of the response to each further wrong token.
const DELAY: Duration = Duration::from_secs(1);

/// Maximum number of delayed responses at a time. A further one is sent at once as [`AttemptOutcome::TooMany`].
const DELAYED_MAX: usize = 64;

/// Number of counters. Addresses are hashed to them; two that collide only delay each other, and only when both send
/// wrong tokens.
const SLOTS: usize = 1024;

/// Counts wrong tokens by address, in constant memory. A right token is never delayed.
#[derive(Debug)]
pub(crate) struct Attempts {
    slots: Mutex<Vec<Failures>>,
    hasher: RandomState,
    delayed: Semaphore,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Option<Instant>,
}

/// How to answer a wrong token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttemptOutcome {
    /// Refuse it.
    Refused,
    /// Refuse it as one of too many: all delayed responses are in use.
    TooMany,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            slots: Mutex::new(vec![Failures::default(); SLOTS]),
            hasher: RandomState::new(),
            delayed: Semaphore::new(DELAYED_MAX),
        }
    }
}

impl Attempts {
    /// Counts a wrong token of an address, and delays the response after too many of them.
    pub(crate) async fn failed(&self, address: IpAddr) -> AttemptOutcome {
        if self.count(address) <= FREE_FAILURES {
            return AttemptOutcome::Refused;
        }
        let Ok(_permit) = self.delayed.try_acquire() else { return AttemptOutcome::TooMany };
        tokio::time::sleep(DELAY).await;
        AttemptOutcome::Refused
    }

    /// Counts a wrong token, and returns the count of its address.
    fn count(&self, address: IpAddr) -> u32 {
        let slot = self.hasher.hash_one(address) as usize % SLOTS;
        let mut slots = self.slots.lock();
        let Some(failures) = slots.get_mut(slot) else { return 0 };
        if failures.last.is_none_or(|last| last.elapsed() > RESET_AFTER) {
            failures.count = 0;
        }
        failures.last = Some(Instant::now());
        failures.count = failures.count.saturating_add(1);
        failures.count
    }
}
