//! Threads for what takes longer than a message may be held up: large results, and the own tools.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// The threads of one tenant: at most twice as many as processors, and four where there are fewer, as some jobs wait for the
/// disk. Further jobs wait in a queue of the tenant's own, so that it cannot hold up the others. Without jobs there are no
/// threads. A clone shares them with its original.
#[derive(Clone, Debug)]
pub(super) struct Workers {
    shared: Arc<Shared>,
    threads_max: usize,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    idle: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Job>,
    threads: usize,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.waiting.len();
        formatter.debug_struct("State").field("waiting", &waiting).field("threads", &self.threads).finish()
    }
}

impl Default for Workers {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(2, usize::from);
        Self { shared: Arc::default(), threads_max: (2 * processors).max(4) }
    }
}

impl Workers {
    /// Runs a job as soon as a thread is free.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.shared.lock();
        state.waiting.push_back(Box::new(job));
        if state.threads >= self.threads_max {
            return;
        }
        state.threads += 1;
        drop(state);
        let shared = Arc::clone(&self.shared);
        let started = thread::Builder::new().name("lro-worker".into()).spawn(move || shared.work());
        if started.is_err() {
            // The system gives no more threads: this one has to do.
            self.shared.work();
        }
    }

    /// Waits until every job is done.
    pub(super) fn finish(&self) {
        let busy = |state: &mut State| state.threads > 0;
        drop(self.shared.idle.wait_while(self.shared.lock(), busy));
    }
}

impl Shared {
    /// Does what there is to do.
    fn work(&self) {
        loop {
            let mut state = self.lock();
            let Some(job) = state.waiting.pop_front() else {
                state.threads -= 1;
                self.idle.notify_all();
                return;
            };
            drop(state);
            // A panic has told of itself; the next job is not to blame.
            let _ = catch_unwind(AssertUnwindSafe(job));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
