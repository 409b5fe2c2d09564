//! What every address that a gateway listens at has: connections in shared pools, one host and origin, bodies in bounded
//! memory, and wrong tokens slowed down.

pub(crate) mod attempts;
pub(crate) mod body;
pub(crate) mod connections;
pub(crate) mod guard;
pub(crate) mod shares;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a thread that panicked held is whole: see [`caught`](lro_host::faults::caught).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
