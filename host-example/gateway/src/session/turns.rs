//! Scheduling of the work of a session.
//!
//! A policy starts on the thread that read its result, and runs on a shared thread for one tick at most. Large results,
//! longer runs and all file access move to the threads of the tenant.

use std::sync::Arc;

use bytes::Bytes;

use crate::session::own::{OwnCall, OwnOutcome};
use crate::session::{Filtering, Session};
use crate::tenants::workers::QueueError;
use lro_host::faults::caught;
use lro_host::job::{self, INLINE_BYTES, Job};
use lro_host::mcp::Message;

impl Session {
    /// Filters a message for a face that reads each server on its own thread. Calls `done` with the message for the
    /// client, now or later. Blocks while the queue of the tenant is full, so that the server waits too.
    pub(crate) fn filter_message(
        &self,
        filtering: Filtering,
        is_wanted: impl Fn() -> bool + Send + 'static,
        done: impl FnOnce(Bytes) + Send + 'static,
    ) {
        let workers = &self.rules.workers;
        let Filtering { message, job } = filtering;
        let job = match workers.run_inline(job, message.len()) {
            Ok(answer) => {
                done(answer);
                return self.rules.filter.restock();
            }
            Err(job) => job,
        };
        workers.wait_for_room();
        workers.run(move |turn| {
            let answer = turn
                .and_then(|()| catch_panic(|| job.finish_while(is_wanted)))
                .unwrap_or_else(|refused| Some(Self::unfiltered(&message, &refused.to_string())));
            if let Some(answer) = answer {
                done(answer);
            }
            // Freeing a large message takes a while, so it is freed after the response is out.
            drop(message);
        });
    }

    /// Filters a message asynchronously. Dropping the future cancels the policy.
    pub(crate) async fn filter_message_async(&self, filtering: Filtering) -> Bytes {
        let workers = &self.rules.workers;
        let Filtering { message, job } = filtering;
        match workers.run_inline(job, message.len()) {
            Ok(answer) => answer,
            Err(job) => {
                let done = workers.run_job(job).await;
                done.unwrap_or_else(|refused| Self::unfiltered(&message, &refused.to_string()))
            }
        }
    }

    /// Parses the envelope of a message from the server; a large one on a thread of the tenant.
    pub(crate) async fn parse_async(&self, bytes: &Bytes) -> Message {
        if bytes.len() <= INLINE_BYTES {
            return Message::read(bytes.clone());
        }
        let message = bytes.clone();
        let read = self.rules.workers.run_job(Job::new(async move { Message::read(message) })).await;
        read.unwrap_or_else(|_| Message::read(bytes.clone()))
    }

    /// Runs an [`OwnCall`]. Calls `done` with its outcome on a thread of the tenant, or at once on this one if it is
    /// refused.
    pub(crate) fn run_own_call(&self, work: OwnCall, done: impl FnOnce(OwnOutcome) + Send + 'static) {
        self.rules.questions.run(move |turn| {
            let outcome = turn.and_then(|()| catch_panic(|| job::finish(work.run_async())));
            done(outcome.unwrap_or_else(|refused| work.refused(&refused.to_string())));
        });
    }

    /// Runs an [`OwnCall`] asynchronously. Dropping the future cancels it.
    pub(crate) async fn run_own_call_async(&self, work: OwnCall) -> OwnOutcome {
        let work = Arc::new(work);
        let shared = Arc::clone(&work);
        let done = self.rules.questions.run_job(Job::new(async move { shared.run_async().await })).await;
        done.unwrap_or_else(|refused| work.refused(&refused.to_string()))
    }
}

/// Runs a closure. A panic, which is logged, becomes an error.
fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, QueueError> {
    caught(act).map_err(|_| QueueError::Panicked)
}
