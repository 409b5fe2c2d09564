//! Permits for instances: how many calls, queries and stocked instances may have one.

use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use super::call::CallError;
use super::engine::CONCURRENT_CALLS_MAX;
use super::epoch::{Epoch, Running};
use super::gate::{Bounds, Gate, Permit};
use super::room::Room;

/// Maximum number of concurrent queries of all tenants, where [`CONCURRENT_CALLS_MAX`] calls have room: the other half of
/// the permits is left to policies.
pub const CONCURRENT_QUESTIONS_MAX: u32 = CONCURRENT_CALLS_MAX / 2;

/// Maximum number of instances in stock for all policies together, in addition to concurrent calls. Without a pool there
/// are none. See
/// [`Prepared::restock`](super::Prepared::restock).
pub const STOCK_MAX: u32 = 32;

/// Permits for the instances of an engine, whose pool has one instance and one memory for every permit.
#[derive(Clone, Debug)]
pub(super) struct PoolPermits {
    room: Room,
    /// Number of permits that one call takes.
    weight: u32,
    calls: Arc<Gate>,
    questions: Arc<Gate>,
    stock: Arc<Gate>,
    epoch: Arc<Epoch>,
}

/// The permits for one instance, released when dropped.
pub(crate) struct PoolPermit {
    /// Number of calls that run at the same time.
    calls: u32,
    _permit: Permit,
    _question: Option<Permit>,
    /// Of a call, which runs; what is in stock does not.
    _running: Option<Running>,
}

impl PoolPermit {
    pub(super) fn calls(&self) -> u32 {
        self.calls
    }
}

impl PoolPermits {
    pub(super) fn new(room: Room, epoch: Arc<Epoch>) -> Self {
        Self { room, weight: 1, calls: Arc::default(), questions: Arc::default(), stock: Arc::default(), epoch }
    }

    /// Has the epoch advance, for what runs without a permit of a call.
    pub(super) fn run(&self) -> Running {
        self.epoch.run()
    }

    /// The same permits, for calls of a component with so many memories.
    pub(super) fn weighing(&self, memories: u32) -> Self {
        Self { weight: memories.max(1), ..self.clone() }
    }

    /// Number of calls that run at the same time.
    pub(super) fn calls(&self) -> u32 {
        self.room.calls
    }

    /// Waits for a permit for a call of a policy.
    pub(super) async fn call(&self, wait: Duration) -> Result<PoolPermit, CallError> {
        let permit = self.acquire(&self.calls, self.room.calls, wait).await?;
        Ok(self.running(permit, None))
    }

    /// Waits for a permit for a query.
    pub(super) async fn question(&self, wait: Duration) -> Result<PoolPermit, CallError> {
        let question = self.acquire(&self.questions, self.questions_max(), wait).await?;
        let permit = self.acquire(&self.calls, self.room.calls, wait).await?;
        Ok(self.running(permit, Some(question)))
    }

    /// Waits for a permit for a query, and returns it with others for instances beside it, at most so many in all: as many as there
    /// are processors that have nothing else to run. None if there are not two.
    pub(super) async fn together(&self, most: u64, wait: Duration) -> Result<Vec<PoolPermit>, CallError> {
        let processors = available_parallelism().map_or(1, usize::from);
        if !self.epoch.runs_fewer_than(processors - 1) {
            return Ok(Vec::new());
        }
        // First the one that it may wait for: if it held others meanwhile, it could wait for itself.
        let own = self.question(wait).await?;
        let mut permits: Vec<_> = (1..most).map_while(|_| self.beside(processors)).collect();
        if !permits.is_empty() {
            permits.push(own);
        }
        Ok(permits)
    }

    /// A permit for a further instance of a query, if one is free and fewer components run than there are processors.
    fn beside(&self, processors: usize) -> Option<PoolPermit> {
        let running = self.epoch.run_beside(processors)?;
        let question = self.questions.try_acquire(self.questions_max(), self.weight)?;
        let permit = self.calls.try_acquire(self.room.calls, self.weight)?;
        let calls = self.room.calls;
        Some(PoolPermit { calls, _permit: permit, _question: Some(question), _running: Some(running) })
    }

    fn questions_max(&self) -> u32 {
        (self.room.calls / 2).max(self.weight)
    }

    fn running(&self, permit: Permit, question: Option<Permit>) -> PoolPermit {
        PoolPermit { calls: self.room.calls, _permit: permit, _question: question, _running: Some(self.run()) }
    }

    /// Returns a permit for a stocked instance, if one is free.
    pub(super) fn stock(&self) -> Option<PoolPermit> {
        let permit = self.stock.try_acquire(self.room.stock, self.weight)?;
        Some(PoolPermit { calls: self.room.calls, _permit: permit, _question: None, _running: None })
    }

    /// The number of waiters is unlimited, because the number of calling threads is limited.
    async fn acquire(&self, gate: &Arc<Gate>, permits: u32, wait: Duration) -> Result<Permit, CallError> {
        let bounds = Bounds { permits, weight: self.weight, waiters: u32::MAX, timeout: wait };
        gate.acquire_async(&bounds).await.ok_or(CallError::Busy(permits))
    }
}
