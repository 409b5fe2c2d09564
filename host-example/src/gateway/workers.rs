//! Threads for what takes longer than a message may be held up: large results, and the own tools.

use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};

type Job = Box<dyn FnOnce() + Send>;

/// A fixed number of threads and a queue without an end.
#[derive(Debug)]
pub(super) struct Workers {
    queue: mpsc::Sender<Job>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts the threads: twice as many as processors, and at least four, as some jobs wait for the disk.
    pub(super) fn start() -> Self {
        let processors = thread::available_parallelism().map_or(2, usize::from);
        let (queue, jobs) = mpsc::channel::<Job>();
        let jobs = Arc::new(Mutex::new(jobs));
        let run = |jobs: Arc<Mutex<mpsc::Receiver<Job>>>| {
            move || {
                loop {
                    let job = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
                    let Ok(job) = job else { return };
                    job();
                }
            }
        };
        let threads = (0..(2 * processors).max(4)).map(|_| thread::spawn(run(Arc::clone(&jobs)))).collect();
        Self { queue, threads }
    }

    /// Runs a job when a thread is free.
    pub(super) fn run(&self, job: impl FnOnce() + Send + 'static) {
        // Fails only when all threads are gone, and they end after the queue.
        let _ = self.queue.send(Box::new(job));
    }

    /// Waits until every job is done.
    pub(super) fn finish(self) {
        drop(self.queue);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}
