//! The epoch of an engine. It advances while a component runs, and rests otherwise: an idle process does not wake up.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::{self, Thread};

use wasmtime::Engine;

use super::engine::EPOCH_TICK;

/// Ticks without a running component after which the epoch rests: a second. Calls that follow each other need not wake it.
const IDLE_TICKS: u32 = 100;

/// Advances the epoch of an engine on a thread that ends with it.
pub(super) struct Epoch {
    engine: Engine,
    /// Components that run.
    running: AtomicUsize,
    rests: AtomicBool,
    thread: OnceLock<Thread>,
}

/// A component that runs, or is about to: until this is dropped, the epoch advances.
pub(super) struct Running(Arc<Epoch>);

impl Epoch {
    pub(super) fn start(engine: Engine) -> io::Result<Arc<Self>> {
        let (running, rests, thread) = (AtomicUsize::new(0), AtomicBool::new(false), OnceLock::new());
        let epoch = Arc::new(Self { engine, running, rests, thread });
        let shared = Arc::downgrade(&epoch);
        let thread = thread::Builder::new().name("lro-epoch".into()).spawn(move || advance(&shared))?;
        epoch.thread.get_or_init(|| thread.thread().clone());
        Ok(epoch)
    }

    pub(super) fn run(self: &Arc<Self>) -> Running {
        self.running.fetch_add(1, Ordering::SeqCst);
        self.begun()
    }

    /// Whether fewer components run than `most`.
    pub(super) fn runs_fewer_than(&self, most: usize) -> bool {
        self.running.load(Ordering::SeqCst) < most
    }

    /// As [`Epoch::run`], if fewer components run than `most`.
    pub(super) fn run_beside(self: &Arc<Self>, most: usize) -> Option<Running> {
        let one_more = |running| (running < most).then_some(running + 1);
        self.running.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(self.begun())
    }

    fn begun(self: &Arc<Self>) -> Running {
        if self.rests.load(Ordering::SeqCst) {
            self.wake();
        }
        Running(Arc::clone(self))
    }

    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }

    /// Advances it. Returns whether it rests until it is woken.
    fn advance(&self, idle: &mut u32) -> bool {
        self.engine.increment_epoch();
        // Before the look at what runs: who begins to run looks at it after.
        self.rests.store(*idle >= IDLE_TICKS, Ordering::SeqCst);
        *idle = if self.running.load(Ordering::SeqCst) == 0 { *idle + 1 } else { 0 };
        *idle > IDLE_TICKS
    }
}

fn advance(epoch: &Weak<Epoch>) {
    let mut idle = 0;
    loop {
        thread::sleep(EPOCH_TICK);
        let Some(shared) = epoch.upgrade() else { return };
        let rests = shared.advance(&mut idle);
        drop(shared);
        if rests {
            thread::park();
            idle = 0;
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.wake();
    }
}

impl std::fmt::Debug for Epoch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Epoch").field("running", &self.running).finish_non_exhaustive()
    }
}
