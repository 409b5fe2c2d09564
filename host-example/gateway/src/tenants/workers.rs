//! Threads for what takes longer than a message may be held up: large results, policies that take their time, questions.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use lro_host::faults::{caught, fail_point};
use lro_host::job::{INLINE_BYTES, Job};

/// A job that takes longer than this on a thread that serves others was none for it.
const BRIEF: Duration = Duration::from_millis(1);

/// After such a job the tenant has none begun there for so many times as long: it takes up a hundredth of a thread at most.
const REST_FACTOR: u32 = 100;

/// Most threads of one tenant that wait for servers to read.
const SENDING_THREADS_MAX: usize = 64;

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    /// As many wait as may.
    #[error("{waiting} of this tenant wait already (limit {limit}): try again in a moment")]
    Full { waiting: usize, limit: &'static str },
    /// The system gives none, and the tenant has none.
    #[error("the system gives no thread for it: try again in a moment")]
    NoThread,
    /// The thread failed.
    #[error("it failed within the gateway")]
    Lost,
}

/// Told whether it was its turn, or why that will not come.
type Task = Box<dyn FnOnce(Result<(), Refused>) + Send>;

/// Threads of one tenant, and a queue of the tenant's own before them, so that it cannot hold up the others. Without tasks
/// there are no threads. A clone shares them with its original.
#[derive(Clone, Debug)]
pub(crate) struct Workers {
    shared: Arc<Shared>,
    threads_max: usize,
    waiting_max: usize,
    /// The setting by which a task is refused when so many wait. Without one, who brings it waits.
    limit: Option<&'static str>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// There is a task less, or a thread less.
    less: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Task>,
    threads: usize,
    /// Until when no job is begun on threads that serve others.
    rests_until: Option<Instant>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let waiting = self.waiting.len();
        formatter.debug_struct("State").field("waiting", &waiting).field("threads", &self.threads).finish()
    }
}

impl Workers {
    /// For results: at most twice as many threads as processors, and four where there are fewer, as some wait for the disk.
    pub(crate) fn for_results(waiting_max: usize) -> Self {
        let (threads_max, waiting_max) = ((2 * processors()).max(4), waiting_max.max(1));
        Self { shared: Arc::default(), threads_max, waiting_max, limit: None }
    }

    /// For questions: half as many.
    pub(crate) fn for_questions(waiting_max: usize) -> Self {
        Self {
            shared: Arc::default(),
            threads_max: processors().max(2),
            waiting_max,
            limit: Some("admission.questions"),
        }
    }

    /// For messages to a server that may not read: as many threads as sessions may wait for theirs without holding up others.
    pub(crate) fn for_sending(waiting_max: usize) -> Self {
        Self { shared: Arc::default(), threads_max: SENDING_THREADS_MAX, waiting_max, limit: Some("gateway.requests") }
    }

    /// Begins a job of so many bytes on this thread, which serves others, unless it is large or the last ones took long. What
    /// it gives, or the job that is to go on elsewhere. After a panic it is one that panics there again.
    pub(crate) fn begin<T>(&self, mut job: Job<T>, bytes: usize) -> Result<T, Job<T>> {
        let begun = Instant::now();
        if bytes > INLINE_BYTES || self.shared.lock().rests_until.is_some_and(|until| begun < until) {
            return Err(job);
        }
        let done = caught(|| job.begin()).ok().flatten();
        let took = begun.elapsed();
        if took > BRIEF {
            self.shared.lock().rests_until = Some(begun + took * REST_FACTOR);
        }
        done.ok_or(job)
    }

    /// Runs a task as soon as a thread is free, or tells it on this thread that it is refused.
    pub(crate) fn run(&self, task: impl FnOnce(Result<(), Refused>) + Send + 'static) {
        let mut state = self.shared.lock();
        let has_thread = state.threads < self.threads_max;
        let is_full = !has_thread && state.waiting.len() >= self.waiting_max;
        if let Some(limit) = self.limit.filter(|_| is_full) {
            drop(state);
            return task(Err(Refused::Full { waiting: self.waiting_max, limit }));
        }
        state.waiting.push_back(Box::new(task));
        if !has_thread {
            return;
        }
        state.threads += 1;
        drop(state);
        if self.start().is_err() {
            let mut state = self.shared.lock();
            state.threads -= 1;
            self.shared.less.notify_all();
            if state.threads > 0 {
                // They come to it.
                return;
            }
            let tasks = std::mem::take(&mut state.waiting);
            drop(state);
            tasks.into_iter().for_each(|task| task(Err(Refused::NoThread)));
        }
    }

    /// Waits until no more tasks wait than may. Blocks.
    pub(crate) fn wait_for_room(&self) {
        let is_full = |state: &mut State| state.waiting.len() >= self.waiting_max;
        drop(self.shared.less.wait_while(self.shared.lock(), is_full));
    }

    /// What a job gives, on one of the threads. Dropped, it gives the job up.
    pub(crate) async fn done<T: Send + 'static>(&self, job: Job<T>) -> Result<T, Refused> {
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
        answered.await.unwrap_or(Err(Refused::Lost))
    }

    /// Waits until every task is done.
    pub(crate) fn finish(&self) {
        let is_busy = |state: &mut State| state.threads > 0;
        drop(self.shared.less.wait_while(self.shared.lock(), is_busy));
    }

    fn start(&self) -> std::io::Result<()> {
        fail_point!("gateway::thread", std::convert::identity);
        let shared = Arc::clone(&self.shared);
        thread::Builder::new().name("lro-worker".into()).spawn(move || shared.work())?;
        Ok(())
    }
}

impl Shared {
    /// Does what there is to do.
    fn work(&self) {
        loop {
            let mut state = self.lock();
            let task = state.waiting.pop_front();
            state.threads -= usize::from(task.is_none());
            drop(state);
            self.less.notify_all();
            let Some(task) = task else { return };
            // A panic has told of itself; the next task is not to blame.
            let _ = caught(|| task(Ok(())));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn processors() -> usize {
    thread::available_parallelism().map_or(2, usize::from)
}
