//! A semaphore with a bounded queue and a timeout.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::job::pause;

/// Counts permits and waiters.
#[derive(Debug, Default)]
pub(crate) struct Gate {
    count: Mutex<Count>,
    released: Condvar,
}

#[derive(Debug, Default)]
struct Count {
    permits: u32,
    waiters: u32,
}

/// Maximum number of permits and waiters, and maximum wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) permits: u32,
    pub(crate) waiters: u32,
    pub(crate) timeout: Duration,
}

/// A permit, released when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
}

impl Gate {
    /// As [`Gate::acquire`]. Yields before it waits, which blocks.
    pub(crate) async fn acquire_async(self: &Arc<Self>, bounds: &Bounds) -> Option<Permit> {
        if let Some(permit) = self.try_acquire(bounds.permits) {
            return Some(permit);
        }
        pause().await;
        self.acquire(bounds)
    }

    /// Returns a permit if fewer than `permits` are in use.
    pub(crate) fn try_acquire(self: &Arc<Self>, permits: u32) -> Option<Permit> {
        let mut count = self.count.lock();
        (count.permits < permits).then(|| self.permit(&mut count))
    }

    /// Waits for a permit. `None` after the timeout, or if too many wait already. Blocks.
    pub(crate) fn acquire(self: &Arc<Self>, bounds: &Bounds) -> Option<Permit> {
        let mut count = self.count.lock();
        if count.permits >= bounds.permits && count.waiters >= bounds.waiters {
            return None;
        }
        count.waiters += 1;
        let is_full = |count: &mut Count| count.permits >= bounds.permits;
        self.released.wait_while_for(&mut count, is_full, bounds.timeout);
        count.waiters -= 1;
        (count.permits < bounds.permits).then(|| self.permit(&mut count))
    }

    fn permit(self: &Arc<Self>, count: &mut Count) -> Permit {
        count.permits += 1;
        Permit { gate: Arc::clone(self) }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.count.lock().permits -= 1;
        self.gate.released.notify_one();
    }
}
