//! Limits of the pending requests of a tenant.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of pending requests of one tenant. A further one is refused.
pub const CALLS_MAX: usize = 10_000;

/// Maximum size in bytes of the arguments kept for the pending calls of one tenant. Beyond it, the header lines of
/// files lack them.
const QUERIES_BYTES_MAX: usize = 16 << 20;

/// The pending requests of one tenant. Clones share the limits.
#[derive(Clone, Debug)]
pub(crate) struct PendingLimits {
    calls: Arc<Semaphore>,
    query_bytes: Arc<Semaphore>,
}

impl Default for PendingLimits {
    fn default() -> Self {
        Self { calls: Arc::new(Semaphore::new(CALLS_MAX)), query_bytes: Arc::new(Semaphore::new(QUERIES_BYTES_MAX)) }
    }
}

impl PendingLimits {
    /// A permit for one more request; `None` at the limit.
    pub(crate) fn call_permit(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// A permit for the arguments of a call, in bytes; `None` at the limit.
    pub(crate) fn query_permit(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Arc::clone(&self.query_bytes).try_acquire_many_owned(bytes).ok()
    }
}
