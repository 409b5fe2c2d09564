//! Tokens that are wrong: whoever tries many of them has to wait.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::Semaphore;

use super::lock;

/// Wrong tokens of one address that are answered at once.
const FREE_FAILURES: u32 = 5;

/// Time without a wrong token after which an address begins anew.
const MEMORY: Duration = Duration::from_secs(60);

/// How long the answer to a further wrong token takes.
const PAUSE: Duration = Duration::from_secs(1);

/// Answers that wait at a time. One more is given at once, and then its connection is of no more use.
const WAITING_MAX: usize = 64;

/// Addresses that are told apart. Two that are not only make each other wait, and only when both are wrong.
const SLOTS: usize = 1024;

/// Wrong tokens by address, in constant memory. A right token never waits.
#[derive(Debug)]
pub(crate) struct Attempts {
    slots: Mutex<Vec<Failures>>,
    hasher: RandomState,
    waiting: Semaphore,
}

#[derive(Clone, Copy, Debug, Default)]
struct Failures {
    count: u32,
    last: Option<Instant>,
}

/// What comes of a wrong token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slowed {
    /// It is refused.
    Refused,
    /// There are so many that this one could not even wait.
    TooMany,
}

impl Default for Attempts {
    fn default() -> Self {
        Self {
            slots: Mutex::new(vec![Failures::default(); SLOTS]),
            hasher: RandomState::new(),
            waiting: Semaphore::new(WAITING_MAX),
        }
    }
}

impl Attempts {
    /// Counts a wrong token of an address, and waits when there were too many of them.
    pub(crate) async fn failed(&self, address: IpAddr) -> Slowed {
        if self.count(address) <= FREE_FAILURES {
            return Slowed::Refused;
        }
        let Ok(_waits) = self.waiting.try_acquire() else { return Slowed::TooMany };
        tokio::time::sleep(PAUSE).await;
        Slowed::Refused
    }

    /// The wrong tokens of an address so far.
    fn count(&self, address: IpAddr) -> u32 {
        let slot = self.hasher.hash_one(address) as usize % SLOTS;
        let mut slots = lock(&self.slots);
        let Some(failures) = slots.get_mut(slot) else { return 0 };
        if failures.last.is_none_or(|last| last.elapsed() > MEMORY) {
            failures.count = 0;
        }
        failures.last = Some(Instant::now());
        failures.count = failures.count.saturating_add(1);
        failures.count
    }
}
