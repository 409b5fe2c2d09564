//! Thread pools of a tenant, for work that would hold up others: large results, slow policies, questions about
//! offloads.

use std::collections::VecDeque;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lro_host::faults::{caught, fail_point};
use lro_host::job::{INLINE_BYTES, Job};
use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

/// Time limit of a job on a shared thread. A longer one starts a cooldown.
const INLINE_TIME_MAX: Duration = Duration::from_millis(1);

/// Length of the cooldown, as a multiple of the time the job took: a tenant takes at most a hundredth of a shared
/// thread.
const COOLDOWN_FACTOR: u32 = 100;

/// How long a thread without a task waits for one before it ends. To start a thread takes longer than most tasks.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Maximum number of threads of one tenant that wait for servers to read.
const SENDING_THREADS_MAX: usize = 64;

/// Why a task did not run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum QueueError {
    /// The queue is full.
    #[error("{waiting} requests of this tenant are queued already (limit {limit}): try again in a moment")]
    Full { waiting: usize, limit: &'static str },
    /// No thread could be started, and none is running.
    #[error("the system cannot start a thread: try again in a moment")]
    NoThread,
    /// The task panicked.
    #[error("internal error of the gateway: see its log")]
    Panicked,
}

/// A task. It gets `Err` when it is refused instead of run.
type Task = Box<dyn FnOnce(Result<(), QueueError>) + Send>;

/// A thread pool of one tenant with its own queue, so that a tenant cannot hold up others. Threads end when they have been
/// idle for [`IDLE_TIME`]. Clones share the pool.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    shared: Arc<Queue>,
    threads_max: usize,
    waiting_max: usize,
    /// The setting that limits the queue, for the error of a refused task. Without it, the caller waits instead.
    limit: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Queue {
    state: Mutex<QueueState>,
    /// Notified when an idle thread is to take a task.
    ready: Condvar,
    /// Notified when a task or a thread is done.
    progress: Condvar,
}

#[derive(Default)]
struct QueueState {
    waiting: VecDeque<Task>,
    threads: usize,
    /// Of these, the ones without a task.
    idle: usize,
    /// When jobs may run on shared threads again.
    cooldown_until: Option<Instant>,
}

impl std::fmt::Debug for QueueState {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { waiting, threads, idle, .. } = self;
        let mut state = formatter.debug_struct("QueueState");
        state.field("waiting", &waiting.len()).field("threads", threads).field("idle", idle).finish()
    }
}

impl Workers {
    /// A pool for results: twice as many threads as processors, at least 4, as some wait for the disk.
    pub(crate) fn for_results(waiting_max: usize) -> Self {
        let (threads_max, waiting_max) = ((2 * processors()).max(4), waiting_max.max(1));
        Self { shared: Arc::default(), threads_max, waiting_max, limit: None }
    }

    /// A pool for questions: half as many threads.
    pub(crate) fn for_questions(waiting_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max: processors().max(2), waiting_max, limit: Some("query.waiting") }
    }

    /// A pool for calls whose pages are collected: as many threads as processors. Pending requests have a limit of their own.
    pub(crate) fn for_collecting() -> Self {
        Self { shared: Arc::default(), threads_max: processors().max(2), waiting_max: usize::MAX, limit: None }
    }

    /// A pool for messages to servers that may not read: a thread for each blocked session.
    pub(crate) fn for_sending(waiting_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max: SENDING_THREADS_MAX, waiting_max, limit: Some("gateway.requests") }
    }

    /// Runs a job on the current, shared thread, unless its input is large or the tenant is in its cooldown. Returns
    /// its output, or the job to continue elsewhere. A job that panicked panics again there.
    pub(crate) fn run_inline<T>(&self, mut job: Job<T>, bytes: usize) -> Result<T, Job<T>> {
        let begun = Instant::now();
        if bytes > INLINE_BYTES || self.shared.state.lock().cooldown_until.is_some_and(|until| begun < until) {
            return Err(job);
        }
        let done = caught(|| job.begin()).ok().flatten();
        let took = begun.elapsed();
        if took > INLINE_TIME_MAX {
            self.shared.state.lock().cooldown_until = Some(begun + took * COOLDOWN_FACTOR);
        }
        done.ok_or(job)
    }

    /// Queues a task. A refused task is called at once, on the current thread.
    pub(crate) fn run(&self, task: impl FnOnce(Result<(), QueueError>) + Send + 'static) {
        let mut state = self.shared.state.lock();
        let has_idle = state.idle > state.waiting.len();
        let has_thread = !has_idle && state.threads < self.threads_max;
        let is_full = !has_idle && !has_thread && state.waiting.len() >= self.waiting_max;
        if let Some(limit) = self.limit.filter(|_| is_full) {
            drop(state);
            return task(Err(QueueError::Full { waiting: self.waiting_max, limit }));
        }
        state.waiting.push_back(Box::new(task));
        if has_idle {
            self.shared.ready.notify_one();
        }
        if !has_thread {
            return;
        }
        state.threads += 1;
        drop(state);
        if self.start().is_err() {
            let mut state = self.shared.state.lock();
            state.threads -= 1;
            self.shared.progress.notify_all();
            if state.threads > 0 {
                // The running threads will take the task.
                return;
            }
            let tasks = std::mem::take(&mut state.waiting);
            drop(state);
            tasks.into_iter().for_each(|task| task(Err(QueueError::NoThread)));
        }
    }

    /// Waits until the queue is below its limit. Blocks.
    pub(crate) fn wait_for_room(&self) {
        let is_full = |state: &mut QueueState| state.waiting.len() >= self.waiting_max;
        self.shared.progress.wait_while(&mut self.shared.state.lock(), is_full);
    }

    /// Runs a job on a thread of the pool. Dropping the future cancels the job.
    pub(crate) async fn run_job<T: Send + 'static>(&self, job: Job<T>) -> Result<T, QueueError> {
        let (answer, answered) = oneshot::channel();
        self.run(move |turn| {
            let done = match turn {
                Ok(()) => job.finish_while(|| !answer.is_closed()).map(Ok),
                Err(refused) => Some(Err(refused)),
            };
            if let Some(done) = done {
                let _ = answer.send(done);
            }
        });
        answered.await.unwrap_or(Err(QueueError::Panicked))
    }

    /// Waits until all tasks are done. Blocks.
    pub(crate) fn finish(&self) {
        let is_busy = |state: &mut QueueState| state.threads > state.idle || !state.waiting.is_empty();
        self.shared.progress.wait_while(&mut self.shared.state.lock(), is_busy);
    }

    fn start(&self) -> std::io::Result<()> {
        fail_point!("gateway::thread", std::convert::identity);
        let shared = Arc::clone(&self.shared);
        thread::Builder::new().name("lro-worker".into()).spawn(move || shared.work())?;
        Ok(())
    }
}

impl Queue {
    /// Runs tasks until there has been none for a while.
    fn work(&self) {
        while let Some(task) = self.next() {
            self.progress.notify_all();
            // The panic is logged; the next task runs regardless.
            let _ = caught(|| task(Ok(())));
        }
    }

    /// The next task for a thread, which ends without one.
    fn next(&self) -> Option<Task> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() {
            state.idle += 1;
            self.progress.notify_all();
            self.ready.wait_while_for(&mut state, |state| state.waiting.is_empty(), IDLE_TIME);
            state.idle -= 1;
        }
        let task = state.waiting.pop_front();
        state.threads -= usize::from(task.is_none());
        task
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}
