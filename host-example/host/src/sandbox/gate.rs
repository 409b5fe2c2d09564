//! A bounded number of things at a time, and a bounded wait for a place.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::job::pause;

/// Counts who is inside and who waits.
#[derive(Debug, Default)]
pub(crate) struct Gate {
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
pub(crate) struct Bounds {
    pub(crate) inside: u32,
    pub(crate) waiting: u32,
    pub(crate) wait: Duration,
}

/// A place inside, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Pass {
    gate: Arc<Gate>,
}

impl Gate {
    /// As [`Gate::enter`]. Pending before it waits, which blocks.
    pub(crate) async fn admit(self: &Arc<Self>, bounds: &Bounds) -> Option<Pass> {
        if let Some(pass) = self.try_enter(bounds.inside) {
            return Some(pass);
        }
        pause().await;
        self.enter(bounds)
    }

    /// A place, if one of so many is free.
    pub(crate) fn try_enter(self: &Arc<Self>, inside: u32) -> Option<Pass> {
        let mut count = self.count();
        (count.inside < inside).then(|| self.pass(&mut count))
    }

    /// A place, unless there is none in time or too many wait already. Blocks.
    pub(crate) fn enter(self: &Arc<Self>, bounds: &Bounds) -> Option<Pass> {
        let mut count = self.count();
        if count.inside >= bounds.inside && count.waiting >= bounds.waiting {
            return None;
        }
        count.waiting += 1;
        let is_full = |count: &mut Count| count.inside >= bounds.inside;
        let waited = self.left.wait_timeout_while(count, bounds.wait, is_full);
        let (mut count, _) = waited.unwrap_or_else(PoisonError::into_inner);
        count.waiting -= 1;
        (count.inside < bounds.inside).then(|| self.pass(&mut count))
    }

    fn pass(self: &Arc<Self>, count: &mut Count) -> Pass {
        count.inside += 1;
        Pass { gate: Arc::clone(self) }
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
