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
    /// How many of the permits one holder takes.
    pub(crate) weight: u32,
    pub(crate) waiters: u32,
    pub(crate) timeout: Duration,
}

/// A permit, or as many as its holder takes, released when dropped.
#[derive(Debug)]
pub(crate) struct Permit {
    gate: Arc<Gate>,
    weight: u32,
}

impl Gate {
    /// As [`Gate::acquire`]. Yields before it waits, which blocks.
    pub(crate) async fn acquire_async(self: &Arc<Self>, bounds: &Bounds) -> Option<Permit> {
        if let Some(permit) = self.try_acquire(bounds.permits, bounds.weight) {
            return Some(permit);
        }
        pause().await;
        self.acquire(bounds)
    }

    /// Returns `weight` permits if as many of `permits` are free.
    pub(crate) fn try_acquire(self: &Arc<Self>, permits: u32, weight: u32) -> Option<Permit> {
        let mut count = self.count.lock();
        count.has_room(permits, weight).then(|| self.permit(&mut count, weight))
    }

    /// Waits for a permit. `None` after the timeout, or if too many wait already. Blocks.
    pub(crate) fn acquire(self: &Arc<Self>, bounds: &Bounds) -> Option<Permit> {
        let Bounds { permits, weight, waiters, timeout } = *bounds;
        let mut count = self.count.lock();
        if !count.has_room(permits, weight) && count.waiters >= waiters {
            return None;
        }
        count.waiters += 1;
        self.released.wait_while_for(&mut count, |count| !count.has_room(permits, weight), timeout);
        count.waiters -= 1;
        count.has_room(permits, weight).then(|| self.permit(&mut count, weight))
    }

    fn permit(self: &Arc<Self>, count: &mut Count, weight: u32) -> Permit {
        count.permits += weight;
        Permit { gate: Arc::clone(self), weight }
    }
}

impl Count {
    fn has_room(&self, permits: u32, weight: u32) -> bool {
        self.permits.saturating_add(weight) <= permits
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.gate.count.lock().permits -= self.weight;
        // The one who waits longest may need more than was released.
        self.gate.released.notify_all();
    }
}
