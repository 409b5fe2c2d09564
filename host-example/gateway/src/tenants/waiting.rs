//! How many requests of a tenant may wait for an answer.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Most requests of one tenant that wait for an answer. One more is refused.
pub const CALLS_MAX: usize = 10_000;

/// Most bytes of the arguments of all calls of one tenant that wait. The header lines of further ones are without.
const QUERIES_BYTES_MAX: usize = 16 << 20;

/// The requests of one tenant that wait for an answer. A clone counts them together with its original.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    calls: Arc<Semaphore>,
    query_bytes: Arc<Semaphore>,
}

impl Default for Waiting {
    fn default() -> Self {
        Self { calls: Arc::new(Semaphore::new(CALLS_MAX)), query_bytes: Arc::new(Semaphore::new(QUERIES_BYTES_MAX)) }
    }
}

impl Waiting {
    /// The place of one more request; none when there are too many.
    pub(crate) fn place(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.calls).try_acquire_owned().ok()
    }

    /// Room for the arguments of a call, in bytes; none when those of others fill it.
    pub(crate) fn query_place(&self, bytes: usize) -> Option<OwnedSemaphorePermit> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        Arc::clone(&self.query_bytes).try_acquire_many_owned(bytes).ok()
    }
}
