//! Futures on the threads of a tenant. One that waits holds no thread.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use lro_host::faults::caught;
use parking_lot::Mutex;

use super::workers::{QueueError, Workers};

/// A future, and what is done with its output.
type Running<T> = (Pin<Box<dyn Future<Output = T> + Send>>, Box<dyn FnOnce(Result<T, QueueError>) + Send>);

struct Task<T> {
    workers: Workers,
    /// `None` after its end.
    running: Mutex<Option<Running<T>>>,
    /// Whether it waits for a thread.
    is_queued: AtomicBool,
}

impl Workers {
    /// Runs a future on threads of the pool, each only while it polls. Calls `done` on the last of them; with an error after
    /// a panic, and when no thread can be started.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
        done: impl FnOnce(Result<T, QueueError>) + Send + 'static,
    ) {
        let running = Mutex::new(Some((Box::pin(future) as _, Box::new(done) as _)));
        Arc::new(Task { workers: self.clone(), running, is_queued: AtomicBool::new(false) }).wake();
    }
}

impl<T: Send + 'static> Wake for Task<T> {
    fn wake(self: Arc<Self>) {
        if !self.is_queued.swap(true, Ordering::AcqRel) {
            let workers = self.workers.clone();
            workers.run(move |turn| self.poll(turn));
        }
    }
}

impl<T: Send + 'static> Task<T> {
    fn poll(self: &Arc<Self>, turn: Result<(), QueueError>) {
        // Before the poll, so that what wakes it meanwhile queues it again.
        self.is_queued.store(false, Ordering::Release);
        let mut running = self.running.lock();
        let Some((future, _)) = running.as_mut() else { return };
        let waker = Waker::from(Arc::clone(self));
        let poll = || future.as_mut().poll(&mut Context::from_waker(&waker));
        let output = match turn.and_then(|()| caught(poll).map_err(|_| QueueError::Panicked)) {
            Ok(Poll::Pending) => return,
            Ok(Poll::Ready(output)) => Ok(output),
            Err(error) => Err(error),
        };
        let ended = running.take();
        drop(running);
        if let Some((_, done)) = ended {
            done(output);
        }
    }
}
