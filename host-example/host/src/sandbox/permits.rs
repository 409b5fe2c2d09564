//! Permits for the instances of the pool: how many calls, queries and stocked instances may have one.

use std::sync::Arc;
use std::time::Duration;

use super::call::CallError;
use super::engine::CONCURRENT_CALLS_MAX;
use super::gate::{Bounds, Gate, Permit};

/// Maximum number of concurrent queries of all tenants: the other half of the permits is left to policies.
pub const CONCURRENT_QUESTIONS_MAX: u32 = CONCURRENT_CALLS_MAX / 2;

/// Maximum number of instances in stock for all policies together, in addition to concurrent calls. See
/// [`Prepared::restock`](super::Prepared::restock).
pub const STOCK_MAX: u32 = 32;

/// Permits for the instances of an engine's pool, which has one instance for every permit.
#[derive(Clone, Debug, Default)]
pub(super) struct PoolPermits {
    calls: Arc<Gate>,
    questions: Arc<Gate>,
    stock: Arc<Gate>,
}

/// A permit for one pooled instance, released when dropped.
pub(super) struct PoolPermit {
    _permit: Permit,
    _question: Option<Permit>,
}

impl PoolPermits {
    /// Number of permits of all kinds together.
    pub(super) const ALL: u32 = CONCURRENT_CALLS_MAX + STOCK_MAX;

    /// Waits for a permit for a call of a policy.
    pub(super) async fn call(&self, wait: Duration) -> Result<PoolPermit, CallError> {
        let permit = acquire(&self.calls, CONCURRENT_CALLS_MAX, wait).await?;
        Ok(PoolPermit { _permit: permit, _question: None })
    }

    /// Waits for a permit for a query.
    pub(super) async fn question(&self, wait: Duration) -> Result<PoolPermit, CallError> {
        let question = acquire(&self.questions, CONCURRENT_QUESTIONS_MAX, wait).await?;
        let permit = acquire(&self.calls, CONCURRENT_CALLS_MAX, wait).await?;
        Ok(PoolPermit { _permit: permit, _question: Some(question) })
    }

    /// Returns a permit for a stocked instance, if one is free.
    pub(super) fn stock(&self) -> Option<PoolPermit> {
        Some(PoolPermit { _permit: self.stock.try_acquire(STOCK_MAX)?, _question: None })
    }
}

/// The number of waiters is unlimited, because the number of calling threads is limited.
async fn acquire(gate: &Arc<Gate>, permits: u32, wait: Duration) -> Result<Permit, CallError> {
    let bounds = Bounds { permits, waiters: u32::MAX, timeout: wait };
    gate.acquire_async(&bounds).await.ok_or(CallError::Busy(permits))
}
