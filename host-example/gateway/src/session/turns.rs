//! Scheduling of the work of a session.
//!
//! A policy starts on the thread that read its result, and runs on a shared thread for one tick at most. Large results,
//! longer runs and all file access move to the threads of the tenant.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::faults::caught;
use lro_host::job::{self, INLINE_BYTES, Job};
use lro_host::mcp::{self, Id, Message};
use tokio::sync::oneshot;

use crate::session::decision::{ClientDecision, ErrorPage, Filtering, FromClient, FromServer, ServerDecision};
use crate::session::own::OwnCall;
use crate::session::{LateAnswer, SendOwn, Session};
use crate::tenants::jobs::Outcome;
use crate::tenants::workers::QueueError;

/// How often a call whose time has come is tried again when the tenant has as many jobs as it may.
const DETACH_POLL_INTERVAL: Duration = Duration::from_millis(250);

impl Session {
    /// Decides what becomes of a message from the client. Calls `done` with it now or, if it takes a call of the
    /// gateway's own tools, later on a thread of the tenant. `send` sends a message of the gateway itself to the server.
    pub(crate) fn client_message(
        self: &Arc<Self>,
        message: Message,
        send: SendOwn,
        done: impl FnOnce(FromClient) + Send + 'static,
    ) {
        self.follow(self.decide_client(message), send, done);
    }

    /// As [`client_message`](Self::client_message), for a decision made already. Returns what `done` returns, if it was
    /// called now.
    pub(crate) fn follow<T>(
        &self,
        decision: ClientDecision,
        send: SendOwn,
        done: impl FnOnce(FromClient) -> T + Send + 'static,
    ) -> Option<T> {
        let call = match decision {
            ClientDecision::Ready(decided) => return Some(done(decided)),
            ClientDecision::Work(call) => call,
        };
        if call.waits().is_some() {
            let (workers, call) = (call.workers().clone(), Arc::<OwnCall>::from(call));
            let running = Arc::clone(&call);
            workers.spawn(async move { running.run(&send).await }, move |decided| {
                done(decided.unwrap_or_else(|refused| call.refused(&refused.to_string())));
            });
            return None;
        }
        let (workers, awaited) = (call.workers().clone(), call.begin());
        let run = move || {
            workers.run(move |turn| {
                let decided = turn.and_then(|()| catch_panic(|| job::finish(call.run(&send))));
                done(decided.unwrap_or_else(|refused| call.refused(&refused.to_string())));
            });
        };
        match awaited {
            Some((job, deadline)) => self.wait_for(job, deadline, run),
            None => run(),
        }
        None
    }

    /// As [`client_message`](Self::client_message). Dropping the future cancels the work.
    pub(crate) async fn client_message_async(self: &Arc<Self>, message: Message, send: SendOwn) -> FromClient {
        let call = match self.decide_client(message) {
            ClientDecision::Ready(decided) => return decided,
            ClientDecision::Work(call) => Arc::<OwnCall>::from(call),
        };
        if let Some(id) = call.waits() {
            return self.waiting(&call, id, send).await;
        }
        if let Some((job, deadline)) = call.begin() {
            let (wake, woken) = oneshot::channel();
            self.wait_for(job, deadline, move || {
                let _ = wake.send(());
            });
            // The sender is dropped only when the gateway ends.
            let _ = woken.await;
        }
        let shared = Arc::clone(&call);
        let done = call.workers().run_job(Job::new(async move { shared.run(&send).await })).await;
        done.unwrap_or_else(|refused| call.refused(&refused.to_string()))
    }

    /// Runs a call that waits for the server. Returns its outcome, or the descriptor when it becomes a job. Dropping the
    /// future cancels it, unless it is a job.
    async fn waiting(self: &Arc<Self>, call: &Arc<OwnCall>, id: &Id, send: SendOwn) -> FromClient {
        let (answer, mut answered) = oneshot::channel();
        // Dropped with this future.
        let (_here, gone) = oneshot::channel::<()>();
        let (session, running, running_id) = (Arc::clone(self), Arc::clone(call), id.clone());
        let run = async move {
            let mut run = pin!(running.run(&send));
            tokio::select! {
                decided = &mut run => decided,
                _ = gone => match session.job_of(&running_id) {
                    Some(_) => run.await,
                    None => {
                        session.forget(&running_id);
                        FromClient::Nothing
                    }
                },
            }
        };
        let refusing = Arc::clone(call);
        call.workers().spawn(run, move |decided| {
            let _ = answer.send(decided.unwrap_or_else(|refused| refusing.refused(&refused.to_string())));
        });
        let refused = || call.refused(&QueueError::Panicked.to_string());
        let Some(due) = self.detaches_at(id) else { return answered.await.unwrap_or_else(|_| refused()) };
        tokio::select! {
            decided = &mut answered => decided.unwrap_or_else(|_| refused()),
            late = self.late_answer(id, due) => {
                self.recorded(late).await.map_or_else(|_| refused(), FromClient::Answer)
            }
        }
    }

    /// Waits until a call becomes a job at this time. Never ready if it does not.
    pub(crate) async fn late_answer(self: &Arc<Self>, id: &Id, due: Instant) -> LateAnswer {
        tokio::time::sleep_until(due.into()).await;
        loop {
            if let Some(answer) = self.detach(id) {
                return answer;
            }
            tokio::time::sleep(DETACH_POLL_INTERVAL).await;
        }
    }

    /// The descriptor of a job, after its begin is recorded.
    pub(crate) async fn recorded(&self, answer: LateAnswer) -> Result<Bytes, QueueError> {
        let (done, message) = oneshot::channel();
        self.rules.workers.run(move |_| drop(done.send(answer.message())));
        message.await.map_err(|_| QueueError::Panicked)
    }

    /// Decides what becomes of a message from the server, for a face that reads each server on its own thread. Calls
    /// `done` with it, now or later, unless `is_wanted` has become false. Blocks while the queue of the tenant is full,
    /// so that the server waits too.
    pub fn server_message(
        self: &Arc<Self>,
        message: Message,
        is_wanted: impl Fn() -> bool + Send + 'static,
        done: impl FnOnce(FromServer) + Send + 'static,
    ) {
        let Filtering { message, job, is_answered } = match self.decide_server(message) {
            ServerDecision::Ready(decided) => return done(decided),
            ServerDecision::Filter(filtering) => filtering,
        };
        let workers = &self.rules.workers;
        let job = match workers.run_inline(job, message.len()) {
            Ok(decided) => {
                done(decided);
                return self.rules.filter.restock();
            }
            Err(job) => job,
        };
        workers.wait_for_room();
        workers.run(move |turn| {
            let decided = turn
                .and_then(|()| catch_panic(|| job.finish_while(|| is_answered || is_wanted())))
                .unwrap_or_else(|refused| Some(Self::not_filtered(&message, is_answered, &refused)));
            if let Some(decided) = decided {
                done(decided);
            }
            // Freeing a large message takes a while, so it is freed after the response is out.
            drop(message);
        });
    }

    /// As [`server_message`](Self::server_message). Dropping the future cancels the policy.
    pub(crate) async fn server_message_async(self: &Arc<Self>, message: Message) -> FromServer {
        match self.decide_server(message) {
            ServerDecision::Ready(decided) => decided,
            ServerDecision::Filter(filtering) => self.filtered(filtering).await,
        }
    }

    /// What becomes of a message that could not be filtered.
    fn not_filtered(message: &Bytes, is_answered: bool, error: &QueueError) -> FromServer {
        match is_answered {
            true => FromServer::Nothing,
            false => FromServer::Pass(Self::unfiltered(message, &error.to_string())),
        }
    }

    /// Decides what becomes of the text of an HTTP error response to a tool call: as if it were the text of a tool
    /// error. `None` if no such call is pending.
    pub(crate) async fn error_page(self: &Arc<Self>, id: &Id, text: &[u8]) -> Option<ErrorPage> {
        if !self.awaits_tool(id) {
            return None;
        }
        let call = self.take(id)?;
        if let Some(job) = &call.job {
            let text = String::from_utf8_lossy(text);
            self.end_job(job, Outcome::Failed(format!("the server answered with an HTTP error: {text}")));
            return None;
        }
        let error = mcp::with_result_type(mcp::tool_error(&String::from_utf8_lossy(text)), call.modern);
        let shown = mcp::response(id, &error);
        Some(match self.filtered(self.tool_result(Message::read(shown.clone()), call)).await {
            FromServer::Pass(reply) if reply != shown => ErrorPage::Replaced(reply),
            _ => ErrorPage::Unchanged,
        })
    }

    async fn filtered(&self, filtering: Filtering) -> FromServer {
        let workers = &self.rules.workers;
        let Filtering { message, job, is_answered } = filtering;
        match workers.run_inline(job, message.len()) {
            Ok(decided) => decided,
            Err(job) => {
                let done = workers.run_job(job).await;
                done.unwrap_or_else(|refused| Self::not_filtered(&message, is_answered, &refused))
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
}

/// Runs a closure. A panic, which is logged, becomes an error.
fn catch_panic<T>(act: impl FnOnce() -> T) -> Result<T, QueueError> {
    caught(act).map_err(|_| QueueError::Panicked)
}
