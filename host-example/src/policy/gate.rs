//! A bounded number of things at a time, and a bounded wait for a place.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Counts who is inside and who waits.
#[derive(Debug, Default)]
pub(super) struct Gate {
    count: Mutex<Count>,
    left: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    inside: u32,
    waiting: u32,
}

/// How many may be inside, how many may wait, and for how long.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub(super) inside: u32,
    pub(super) waiting: u32,
    pub(super) wait: Duration,
}

/// A place inside, given back when it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    gate: Arc<Gate>,
}

impl Gate {
    /// A place, unless there is none in time or too many wait already.
    pub(super) fn enter(self: &Arc<Self>, bounds: &Bounds) -> Option<Pass> {
        let mut count = self.count();
        if count.inside >= bounds.inside {
            if count.waiting >= bounds.waiting {
                return None;
            }
            count = self.wait(count, bounds)?;
        }
        count.inside += 1;
        Some(Pass { gate: Arc::clone(self) })
    }

    fn wait<'a>(&'a self, mut count: MutexGuard<'a, Count>, bounds: &Bounds) -> Option<MutexGuard<'a, Count>> {
        let until = Instant::now() + bounds.wait;
        count.waiting += 1;
        while count.inside >= bounds.inside {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                count.waiting -= 1;
                return None;
            }
            count = self.left.wait_timeout(count, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        count.waiting -= 1;
        Some(count)
    }

    fn count(&self) -> MutexGuard<'_, Count> {
        self.count.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.gate.count().inside -= 1;
        self.gate.left.notify_one();
    }
}
