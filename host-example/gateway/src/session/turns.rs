//! On which thread a message of a session is worked on.
//!
//! A policy begins where its result was read, and no thread that serves others runs it for longer than a tick. What is large or
//! takes longer, and all that reads or writes files, has its turn on the threads of its tenant.

use std::sync::Arc;

use bytes::Bytes;

use crate::session::own::{OwnCall, Produced};
use crate::session::{Filtering, Session};
use crate::tenants::workers::Refused;
use lro_host::faults::caught;
use lro_host::job::{self, INLINE_BYTES, Job};
use lro_host::mcp::Message;

impl Session {
    /// Has a message filtered, for a face that reads on a thread of the server's own: `done` gets what goes to the client, here
    /// or later. Blocks while too much waits, so that the server waits too.
    pub(crate) fn settle(
        &self,
        filtering: Filtering,
        is_wanted: impl Fn() -> bool + Send + 'static,
        done: impl FnOnce(Bytes) + Send + 'static,
    ) {
        let workers = &self.rules.workers;
        let Filtering { message, job } = filtering;
        let job = match workers.begin(job, message.len()) {
            Ok(answer) => {
                done(answer);
                return self.rules.filter.restock();
            }
            Err(job) => job,
        };
        workers.wait_for_room();
        workers.run(move |turn| {
            let answer = turn
                .and_then(|()| lost(|| job.finish_while(is_wanted)))
                .unwrap_or_else(|refused| Some(Self::unfiltered(&message, &refused.to_string())));
            if let Some(answer) = answer {
                done(answer);
            }
            // Freeing a large one takes a while, so it stays until the answer is out.
            drop(message);
        });
    }

    /// As [`Session::settle`], for a face that serves others meanwhile. Dropped, it ends the policy.
    pub(crate) async fn settled(&self, filtering: Filtering) -> Bytes {
        let workers = &self.rules.workers;
        let Filtering { message, job } = filtering;
        match workers.begin(job, message.len()) {
            Ok(answer) => answer,
            Err(job) => {
                let done = workers.done(job).await;
                done.unwrap_or_else(|refused| Self::unfiltered(&message, &refused.to_string()))
            }
        }
    }

    /// The envelope of a message of the server, for such a face. A large one is read on a thread of the tenant.
    pub(crate) async fn parsed(&self, bytes: &Bytes) -> Message {
        if bytes.len() <= INLINE_BYTES {
            return Message::read(bytes.clone());
        }
        let message = bytes.clone();
        let read = self.rules.workers.done(Job::new(async move { Message::read(message) })).await;
        read.unwrap_or_else(|_| Message::read(bytes.clone()))
    }

    /// Does what the client asks of the gateway itself; `done` gets what comes of it, on a thread of the tenant, or here when it
    /// is refused.
    pub(crate) fn carry_out(&self, work: OwnCall, done: impl FnOnce(Produced) + Send + 'static) {
        self.rules.questions.run(move |turn| {
            let produced = turn.and_then(|()| lost(|| job::finish(work.done())));
            done(produced.unwrap_or_else(|refused| work.refused(&refused.to_string())));
        });
    }

    /// As [`Session::carry_out`], for a face that serves others meanwhile. Dropped, it gives the work up.
    pub(crate) async fn carried_out(&self, work: OwnCall) -> Produced {
        let work = Arc::new(work);
        let shared = Arc::clone(&work);
        let done = self.rules.questions.done(Job::new(async move { shared.done().await })).await;
        done.unwrap_or_else(|refused| work.refused(&refused.to_string()))
    }
}

/// Does something. A panic, which has told of itself, is a refusal.
fn lost<T>(act: impl FnOnce() -> T) -> Result<T, Refused> {
    caught(act).map_err(|_| Refused::Lost)
}
