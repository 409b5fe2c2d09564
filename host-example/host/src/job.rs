//! Work that may start on a thread that serves other requests, and moves to another thread before it blocks or takes
//! long.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::oneshot;

/// Results and messages up to this size, 64 KiB, are handled on the thread that read them, which saves two thread
/// switches.
pub const INLINE_BYTES: usize = 64 << 10;

/// Work that any thread may start, and that a thread which may block finishes.
///
/// Until it first returns `Pending` it neither blocks nor runs longer than one
/// [`EPOCH_TICK`](crate::sandbox::EPOCH_TICK); after that it may do both. It is also a future, for callers that
/// dedicate a thread to it. Dropping it cancels the work: a policy that still runs is stopped, and its output is
/// removed.
pub struct Job<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Job").finish_non_exhaustive()
    }
}

impl<T> Job<T> {
    /// Creates a job from a future that is pending once before it blocks or runs longer than a tick: see [`pause`].
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future) }
    }

    /// Starts the work, on any thread. Returns the result if it is ready; otherwise call [`Job::finish`].
    pub fn begin(&mut self) -> Option<T> {
        poll_once(self.future.as_mut())
    }

    /// Runs the work, or the rest of it, to its end. Blocks.
    pub fn finish(self) -> T {
        finish(self.future)
    }

    /// As [`Job::finish`], but cancels the work when `is_wanted` returns false, which is checked once a tick.
    pub fn finish_while(mut self, is_wanted: impl Fn() -> bool) -> Option<T> {
        finish(std::future::poll_fn(move |context| match is_wanted() {
            true => self.future.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        }))
    }

    /// Runs the rest of the work on one of tokio's blocking threads. Dropping the future cancels the job. `None` after
    /// a panic.
    pub async fn finish_on_tokio(self) -> Option<T>
    where
        T: Send + 'static,
    {
        let (answer, answered) = oneshot::channel();
        tokio::task::spawn_blocking(move || {
            if let Some(done) = self.finish_while(|| !answer.is_closed()) {
                let _ = answer.send(done);
            }
        });
        answered.await.ok()
    }
}

impl<T> Future for Job<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.future.as_mut().poll(context)
    }
}

/// Polls a future once. Returns its output if it is ready, else drops it.
pub fn now_or_never<T>(future: impl Future<Output = T>) -> Option<T> {
    poll_once(pin!(future))
}

fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Runs a future to its end on this thread, which may block.
pub fn finish<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(done) => return done,
            Poll::Pending => thread::park(),
        }
    }
}

/// Yields once. A [`Job`] does so before it may block, and a policy after each tick.
pub async fn pause() {
    let mut has_paused = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
