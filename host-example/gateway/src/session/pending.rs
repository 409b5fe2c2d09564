//! Requests that wait for a response.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, METHOD_NOT_FOUND, Message, RequestedOutputs, meta, method};
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tracing::Span;

use super::Session;
use super::ask::Asked;
use super::collect::CollectState;
use super::decision::Failure;
use super::job::JobForm;
use super::job::beat::Beat;
use super::job::growing::GrowingResource;
use super::list_pages::ListPage;
use super::reuse::Reuse;
use crate::settings::ClientProfile;
use crate::tenants::caches::TokenUsage;
use crate::tenants::jobs::{Outcome, Parts, Progress, RunningJob};
use crate::tenants::pending_limits::PendingLimits;
use crate::trace;

/// How often a request is checked for whether it is still pending.
const ANSWERED_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// A pending request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: RequestKind,
    pub(crate) client: Arc<ClientProfile>,
    /// Estimated tokens of results that the client received inline.
    pub(crate) usage: Arc<TokenUsage>,
    /// Whether the client speaks 2026-07-28 or later.
    pub(crate) modern: bool,
    /// The outputs that a client of 2026-12-01 gets in place of the halves of a result.
    pub(super) outputs: Option<Arc<RequestedOutputs>>,
    /// Whether the client says that it knows tasks.
    pub(super) knows_tasks: bool,
    /// Whether the client gets the files of an offload as file values.
    pub(crate) downloads: bool,
    /// The page of a list that the request asks for.
    pub(super) page: Option<ListPage>,
    pub(super) progress: Option<Id>,
    /// Whether the progress token is the gateway's, so that the client gets no progress.
    pub(super) has_own_token: bool,
    /// Progress of the gateway while the server reports none, if the client asked for progress.
    pub(super) beat: Option<Beat>,
    /// What the server has reported before the call became a job.
    pub(super) reported: Option<Progress>,
    pub(super) begun: Instant,
    pub(super) last: Instant,
    /// Permits from [`PendingLimits`].
    pub(super) permits: Vec<Arc<OwnedSemaphorePermit>>,
    /// Whether the server has the request, as far as the gateway decides it.
    pub(super) is_forwarded: bool,
    /// How the call becomes a job, if it may.
    pub(super) detachment: Option<Detachment>,
    /// The job that the call has become. The client has its answer then.
    pub(super) job: Option<Arc<RunningJob>>,
    /// The collection of its pages, or what a job goes on with. The server has other requests of the gateway then, and not
    /// this one.
    pub(super) collect: Option<Arc<CollectState>>,
    /// The span of the call, if it is one of a tool. It ends with the last copy of the call.
    pub(super) span: Span,
    /// The span of the call while the server has it.
    pub(super) upstream: Span,
}

/// How a call becomes a job.
#[derive(Clone, Debug)]
pub(super) struct Detachment {
    /// After how long.
    pub(super) after: Duration,
    /// How the client hears of the job.
    pub(super) form: JobForm,
    /// Whether the gateway asks the server for a task in place of the client.
    pub(super) asks_task: bool,
    /// What has come of the result.
    pub(super) parts: Arc<Parts>,
    /// With what the server names the call when it sends a part of the result.
    pub(super) parts_token: Option<PartsToken>,
    /// The resource in which the result grows.
    pub(super) growing: Option<Arc<GrowingResource>>,
    /// The message as the server has it, if it is small and may have to be sent again.
    pub(super) message: Option<Bytes>,
}

/// A token for parts of a result.
#[derive(Clone, Debug)]
pub(super) struct PartsToken {
    pub(super) token: Id,
    /// Whether it is the gateway's, so that the client gets no parts.
    pub(super) is_own: bool,
}

impl Call {
    /// A request of this kind, which begins now.
    pub(super) fn new(kind: RequestKind, client: Arc<ClientProfile>, usage: Arc<TokenUsage>) -> Self {
        let now = Instant::now();
        Self {
            kind,
            client,
            usage,
            modern: false,
            outputs: None,
            knows_tasks: false,
            downloads: false,
            page: None,
            progress: None,
            has_own_token: false,
            beat: None,
            reported: None,
            begun: now,
            last: now,
            permits: Vec::new(),
            is_forwarded: false,
            detachment: None,
            job: None,
            collect: None,
            span: Span::none(),
            upstream: Span::none(),
        }
    }

    /// Whether the call is to become a job now.
    pub(super) fn is_due(&self) -> bool {
        let is_late = self.detachment.as_ref().is_some_and(|detachment| self.begun.elapsed() >= detachment.after);
        is_late && self.is_forwarded && self.job.is_none()
    }

    /// Notes that the call goes to the server, as this message. One of at most `kept_max` bytes may be sent again.
    pub(super) fn forward(&mut self, message: &Bytes, kept_max: u64) {
        self.is_forwarded = true;
        if let Some(detachment) = &mut self.detachment
            && self.modern
            && message.len() as u64 <= kept_max
        {
            // A copy, as the message may be a part of a larger buffer.
            detachment.message = Some(Bytes::copy_from_slice(message));
        }
    }

    /// The message for the server, which gets the context of the call's spans.
    pub(super) fn traced(&mut self, id: &Id, message: Message) -> Message {
        let RequestKind::Tool(tool) = &self.kind else { return message };
        self.upstream = trace::of_upstream(&self.span, id, &tool.name);
        trace::with_context(message, &self.upstream)
    }

    /// Notes how the server has answered.
    pub(super) fn answered(&mut self, answer: &Message) {
        trace::answered(&self.span, answer);
        trace::answered(&std::mem::replace(&mut self.upstream, Span::none()), answer);
    }

    /// Its job, if the session sees to the job's end: a collection of pages does so itself.
    pub(super) fn cancelable(&self) -> Option<Arc<RunningJob>> {
        self.job.clone().filter(|_| self.collect.is_none())
    }

    /// Keeps progress of the server, for the job that the call is or becomes, and for its heartbeat.
    pub(super) fn hear(&mut self, notification: &Message) {
        if self.detachment.is_none() && self.beat.is_none() {
            return;
        }
        let Some(progress) = Progress::read(notification) else { return };
        if let Some(job) = &self.job {
            return job.report(progress);
        }
        self.beat.iter_mut().for_each(|beat| beat.hear(&progress));
        self.reported = Some(progress);
    }

    /// Acquires the permits of the request; `None` if too many are pending.
    pub(super) fn with_permits(mut self, limits: &PendingLimits) -> Option<Self> {
        self.permits.push(Arc::new(limits.call_permit()?));
        if let RequestKind::Tool(tool) = &mut self.kind
            && let Some(query) = &tool.query
        {
            match limits.query_permit(query.len()) {
                Some(permit) => self.permits.push(Arc::new(permit)),
                None => tool.query = None,
            }
        }
        if let RequestKind::Tool(ToolCall { asked: Some(asked), .. }) = &self.kind {
            self.permits.push(Arc::new(limits.query_permit(asked.bytes)?));
        }
        Some(self)
    }
}

/// The kind of a request, with what its response needs.
#[derive(Clone, Debug)]
pub(crate) enum RequestKind {
    /// `initialize`.
    Handshake,
    /// `server/discover`.
    Discovery,
    Tools {
        first_page: bool,
    },
    Templates {
        first_page: bool,
    },
    Resources,
    Prompts,
    /// `resources/read`, with the URI.
    Resource(String),
    /// `prompts/get`.
    Prompt,
    Tool(ToolCall),
    /// `tasks/get` or `tasks/result`.
    Task {
        id: String,
        /// Whether the revision of the client has the method.
        is_known: bool,
    },
    /// `tasks/list`, up to 2025-11-25.
    TaskList {
        first_page: bool,
    },
    /// `subscriptions/listen`, which is answered when the subscription ends.
    Subscription,
    Other,
    /// The handshake of the gateway itself with a server; the response goes to this channel, and its other end closes without
    /// one.
    Handshaking(std::sync::mpsc::SyncSender<Bytes>),
    /// A request from the gateway itself; the response, or the failure, goes to this channel.
    Own(mpsc::Sender<Message>),
}

impl RequestKind {
    /// Whether the timeout of calls does not apply.
    fn has_own_end(&self) -> bool {
        matches!(self, Self::Handshaking(_) | Self::Own(_) | Self::Subscription)
    }
}

/// A call of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) query: Option<String>,
    /// Whether the client asked for the whole result.
    pub(crate) inline: bool,
    /// The id of the task that the call created.
    pub(crate) task: Option<String>,
    /// How to reuse the reply for identical calls.
    pub(crate) reuse: Option<Reuse>,
    /// The question to answer if the result is offloaded.
    pub(crate) asked: Option<Asked>,
    /// The arguments that the server gets in place of those of the call, as a JSON object.
    pub(crate) changed: Option<Arc<str>>,
}

impl Session {
    /// Registers a handshake of the gateway itself. Its response goes to the channel instead of the client.
    pub(crate) fn expect_handshake(&self, id: Id, answer: std::sync::mpsc::SyncSender<Bytes>) {
        self.expect(id, RequestKind::Handshaking(answer));
    }

    /// Registers a request from the gateway itself. Its response or failure goes to the channel.
    pub(super) fn expect_own(&self, id: Id, answer: mpsc::Sender<Message>) {
        self.expect(id, RequestKind::Own(answer));
    }

    fn expect(&self, id: Id, kind: RequestKind) {
        let call = Call::new(kind, self.client(), Arc::clone(&self.usage));
        self.remember(id, call);
    }

    /// Fails all pending requests, for this reason. A call whose pages are collected ends with what came of them.
    pub fn fail_all(&self, reason: &str) -> Vec<Failure> {
        let calls = {
            let mut state = self.state();
            let collects = |calls: &VecDeque<Call>| calls.iter().any(|call| call.collect.is_some());
            let (kept, failed): (_, HashMap<_, _>) =
                std::mem::take(&mut state.calls).into_iter().partition(|(_, calls)| collects(calls));
            state.calls = kept;
            state.pending = state.calls.values().flatten().filter(|call| call.job.is_none()).count();
            failed
        };
        let failed = calls.into_iter().flat_map(|(id, calls)| calls.into_iter().map(move |call| (id.clone(), call)));
        failed.filter_map(|(id, call)| self.failure(id, &call, reason)).collect()
    }

    /// Fails a request, for this reason; `None` if it is not pending, or its client has its answer.
    pub fn fail(&self, id: &Id, reason: &str) -> Option<Failure> {
        let id = self.state().pending_id(id)?;
        if self.collection_of(&id).is_some() {
            return None;
        }
        let call = self.take(&id)?;
        self.failure(id, &call, reason)
    }

    /// Fails the requests without a response or progress within their timeout. Returns the cancellation for the server
    /// with each.
    pub(crate) fn overdue(&self) -> Vec<(Failure, Bytes)> {
        let now = Instant::now();
        let gateway = &self.rules.config.gateway;
        let timeout = |call: &Call| {
            Duration::from_millis(match call.kind {
                // An old server may not even reject an unknown method, and the client must be able to go on.
                RequestKind::Discovery => gateway.start_timeout_ms.min(gateway.call_timeout_ms).get(),
                _ => gateway.call_timeout_ms.get(),
            })
        };
        let is_late = |call: &&Call| {
            let has_own_end = call.kind.has_own_end() || call.job.is_some() || call.collect.is_some();
            now.duration_since(call.last) > timeout(call) && !has_own_end
        };
        let mut late = Vec::new();
        for (id, calls) in &self.state().calls {
            late.extend(calls.iter().filter(is_late).map(|call| (id.clone(), timeout(call).as_millis())));
        }
        let end = |(id, millis)| {
            let reason = format!("the server sent no response and no progress within {millis} ms");
            Some((self.fail(&id, &reason)?, cancellation(&id, &reason)))
        };
        late.into_iter().filter_map(end).collect()
    }

    /// Fails a pending call as a tool error of the gateway.
    pub(crate) fn refuse(&self, id: &Id, reason: &str) -> Option<Bytes> {
        let call = self.take(id)?;
        trace::failed_tool(&call.span);
        Some(call.shaped(mcp::response(id, &mcp::with_result_type(mcp::tool_error(reason), call.modern))))
    }

    /// Ends the collecting of pages. Returns whether there was any.
    pub(crate) fn stop_collecting(&self) -> bool {
        let collections: Vec<_> =
            self.state().calls.values().flatten().filter_map(|call| call.collect.clone()).collect();
        collections.iter().for_each(|collection| collection.stop());
        !collections.is_empty()
    }

    /// The collection of the pages of a pending call.
    pub(super) fn collection_of(&self, id: &Id) -> Option<Arc<CollectState>> {
        let state = self.state();
        state.calls.get(&state.pending_id(id)?)?.front()?.collect.clone()
    }

    /// Whether a request is pending.
    pub(crate) fn is_pending(&self, id: &Id) -> bool {
        self.state().calls.contains_key(id)
    }

    /// Waits until a request is not pending.
    pub(crate) async fn until_answered(&self, id: &Id) {
        while self.is_pending(id) {
            tokio::time::sleep(ANSWERED_POLL_INTERVAL).await;
        }
    }

    /// Removes a pending request whose response the gateway does not look at.
    pub(crate) fn forget(&self, id: &Id) {
        drop(self.take(id));
    }

    /// The id of the pending request that a response with this id answers.
    pub(crate) fn request_id(&self, id: Id) -> Id {
        self.state().pending_id(&id).unwrap_or(id)
    }

    /// Whether a tool call is pending under this id.
    pub(crate) fn awaits_tool(&self, id: &Id) -> bool {
        let state = self.state();
        state.calls.get(id).is_some_and(|calls| calls.iter().any(|call| matches!(call.kind, RequestKind::Tool(_))))
    }

    /// The number of pending requests, without jobs.
    pub fn pending_count(&self) -> usize {
        self.state().pending
    }

    pub(super) fn remember(&self, id: Id, call: Call) {
        let mut state = self.state();
        state.pending += usize::from(call.job.is_none());
        state.calls.entry(id).or_default().push_back(call);
    }

    /// Removes the pending request with this id, or with one that some parsers take for the same.
    pub(crate) fn take(&self, id: &Id) -> Option<Call> {
        let mut state = self.state();
        let id = state.pending_id(id)?;
        let calls = state.calls.get_mut(&id)?;
        let call = calls.pop_front();
        if calls.is_empty() {
            state.calls.remove(&id);
        }
        let is_pending = call.as_ref().is_some_and(|call| call.job.is_none());
        state.pending = state.pending.saturating_sub(usize::from(is_pending));
        call
    }

    /// Records that a pending request goes to the server after all, as this message.
    pub(super) fn set_forwarded(&self, id: &Id, message: &Bytes) {
        let kept_max = self.rules.config.gateway.job_call_bytes.get();
        let mut state = self.state();
        state.calls.get_mut(id).into_iter().flatten().for_each(|call| call.forward(message, kept_max));
    }

    fn failure(&self, id: Id, call: &Call, reason: &str) -> Option<Failure> {
        if let Some(job) = &call.job {
            self.end_job(job, Outcome::Unanswered(reason.to_owned()));
            return None;
        }
        let code = match &call.kind {
            // Dropping the sender wakes the waiting side.
            RequestKind::Handshaking(_) => return None,
            RequestKind::Own(answer) => {
                let _ = answer.try_send(Message::read(mcp::error_response(Some(&id), INTERNAL_ERROR, reason)));
                return None;
            }
            // What a server without `server/discover` would answer.
            RequestKind::Discovery => METHOD_NOT_FOUND,
            _ => INTERNAL_ERROR,
        };
        trace::ended_with(&call.span, code);
        trace::ended_with(&call.upstream, code);
        Some(Failure { error: mcp::error_response(Some(&id), code, reason), id })
    }
}

/// The notification that cancels a request.
pub(crate) fn cancellation(id: &Id, reason: &str) -> Bytes {
    let reason = serde_json::Value::from(reason);
    mcp::notification(method::CANCELLED, &format!(r#"{{"requestId":{id},"reason":{reason}}}"#))
}

/// The response that ends a subscription.
pub(crate) fn end_of_subscription(id: &Id) -> Bytes {
    mcp::response(id, &format!(r#"{{"resultType":"complete","_meta":{{"{}":{id}}}}}"#, meta::SUBSCRIPTION_ID))
}
