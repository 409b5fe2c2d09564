//! Work that may begin on a thread which serves others: whatever takes long or blocks is left to another one.

use std::fmt;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};

use tokio::sync::oneshot;

/// Results and messages up to this size are handled where they were read, which saves two changes of threads.
pub const INLINE_BYTES: usize = 64 << 10;

/// Work that any thread may begin, and a thread that may block ends.
///
/// Until it is pending for the first time it neither blocks nor runs longer than one
/// [`EPOCH_TICK`](crate::sandbox::EPOCH_TICK); then it may do both. It is a future for those who give it a thread of its own.
/// Dropped, it is given up: a policy that still runs ends, and what it wrote is removed.
pub struct Job<T> {
    future: Pin<Box<dyn Future<Output = T> + Send>>,
}

impl<T> fmt::Debug for Job<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Job").finish_non_exhaustive()
    }
}

impl<T> Job<T> {
    /// Work that is pending once before whatever may block or take longer than a tick: see [`pause`].
    pub fn new(future: impl Future<Output = T> + Send + 'static) -> Self {
        Self { future: Box::pin(future) }
    }

    /// Begins it, on any thread. What it gives, if that is known by now; otherwise [`Job::finish`] is next.
    pub fn begin(&mut self) -> Option<T> {
        poll_once(self.future.as_mut())
    }

    /// Does it, or the rest of it. Blocks.
    pub fn finish(self) -> T {
        finish(self.future)
    }

    /// As [`Job::finish`]; gives it up when nobody wants what it gives, which is looked at once a tick.
    pub fn finish_while(mut self, is_wanted: impl Fn() -> bool) -> Option<T> {
        finish(std::future::poll_fn(move |context| match is_wanted() {
            true => self.future.as_mut().poll(context).map(Some),
            false => Poll::Ready(None),
        }))
    }

    /// Does the rest of it on one of tokio's threads for blocking work. Dropped, it gives the job up. None after a panic.
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

/// What a future gives without waiting. Otherwise it is dropped.
pub fn at_once<T>(future: impl Future<Output = T>) -> Option<T> {
    poll_once(pin!(future))
}

fn poll_once<T>(future: Pin<&mut (impl Future<Output = T> + ?Sized)>) -> Option<T> {
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(done) => Some(done),
        Poll::Pending => None,
    }
}

/// Waits for a future on this thread, which may block.
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

/// Is pending once. A [`Job`] does so before whatever may block, and a policy whenever it has run for a tick.
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
