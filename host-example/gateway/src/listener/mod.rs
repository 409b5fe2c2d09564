//! What all HTTP listeners of the gateway share: connection limits, fair shares between tenants, host and origin
//! checks, bounded bodies, and throttling of wrong tokens.

pub(crate) mod attempts;
pub(crate) mod body;
pub(crate) mod connections;
pub(crate) mod guard;
pub(crate) mod shares;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex. Poisoning is ignored: a panic leaves the data consistent, see [`caught`](lro_host::faults::caught).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
