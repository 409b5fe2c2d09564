//! The places of the pool, and who may have how many of them.

use std::sync::Arc;
use std::time::Duration;

use super::call::CallError;
use super::engine::CONCURRENT_CALLS_MAX;
use super::gate::{Bounds, Gate, Pass};

/// Questions that may run at the same time, all tenants together: the other half of the places is left to policies.
pub const CONCURRENT_QUESTIONS_MAX: u32 = CONCURRENT_CALLS_MAX / 2;

/// Instances that all policies together keep in stock, besides the calls that may run. See
/// [`Prepared::restock`](super::Prepared::restock).
pub const STOCK_MAX: u32 = 32;

/// Who has a place in the pool of an engine. It has one for every pass that these give out.
#[derive(Clone, Debug, Default)]
pub(super) struct Places {
    calls: Arc<Gate>,
    questions: Arc<Gate>,
    stock: Arc<Gate>,
}

/// A place, given back when it is dropped.
pub(super) struct Place {
    _place: Pass,
    _question: Option<Pass>,
}

impl Places {
    /// How many there are of all kinds together.
    pub(super) const ALL: u32 = CONCURRENT_CALLS_MAX + STOCK_MAX;

    /// A place for a call of a policy.
    pub(super) async fn call(&self, wait: Duration) -> Result<Place, CallError> {
        let place = enter(&self.calls, CONCURRENT_CALLS_MAX, wait).await?;
        Ok(Place { _place: place, _question: None })
    }

    /// A place for a question.
    pub(super) async fn question(&self, wait: Duration) -> Result<Place, CallError> {
        let question = enter(&self.questions, CONCURRENT_QUESTIONS_MAX, wait).await?;
        let place = enter(&self.calls, CONCURRENT_CALLS_MAX, wait).await?;
        Ok(Place { _place: place, _question: Some(question) })
    }

    /// A place for an instance in stock, if one is free.
    pub(super) fn stock(&self) -> Option<Place> {
        Some(Place { _place: self.stock.try_enter(STOCK_MAX)?, _question: None })
    }
}

/// The threads that ask are bounded, so those that wait need not be.
async fn enter(gate: &Arc<Gate>, inside: u32, wait: Duration) -> Result<Pass, CallError> {
    let bounds = Bounds { inside, waiting: u32::MAX, wait };
    gate.admit(&bounds).await.ok_or(CallError::Busy(inside))
}
