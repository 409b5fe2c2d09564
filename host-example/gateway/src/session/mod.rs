//! One client's view of one server: matches responses to requests, and decides what happens to each message.

mod ask;
mod decision;
mod filtering;
mod handles;
mod own;
mod reuse;
mod shape;
mod turns;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job::Job;
use lro_host::mcp::{
    self, EXTRACT_TOOL, Fault, INLINE_MODE, INTERNAL_ERROR, Id, Implementation, Kind, METHOD_NOT_FOUND, Message,
    Params, READ_TOOL, SchemaChange, ToolChange, method,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::OwnedSemaphorePermit;

pub(crate) use self::ask::Asked;
use self::ask::Asking;
pub(crate) use self::decision::{ClientDecision, ErrorPage, batch_of};
pub use self::decision::{Failure, FromClient, FromServer, Refused};
use self::decision::{Filtering, ServerDecision};
use crate::session::own::{OwnCall, TEMPLATE, guidance};
use crate::session::reuse::Reuse;
use crate::settings::{ClientProfile, DecisionMode, SchemaStrategy};
use crate::tenants::memory::{ClientKey, SchemaKind, TokenUsage};
use crate::tenants::rules::Rules;
use crate::tenants::tasks::TaskCall;
use crate::tenants::waiting::{CALLS_MAX, PendingLimits};

/// Maximum size in bytes of the arguments of a call that the header line of its files shows.
pub const QUERY_BYTES_MAX: usize = 16 << 10;

/// The owner of a session.
#[derive(Clone, Debug)]
pub struct SessionOwner {
    /// The tenant, whose directory the files are written to.
    pub tenant: String,
    /// The client's session id, any text.
    pub session: Option<String>,
    /// Whether the client runs on this machine, as one on stdio does.
    pub local: bool,
}

/// One client's view of one server. Shared by the threads that move its messages.
pub struct Session {
    pub(crate) rules: Arc<Rules>,
    pub(crate) owner: SessionOwner,
    usage: Arc<TokenUsage>,
    /// The address of the client, for a session of a single request; `None` for a session that lasts.
    request_from: Option<IpAddr>,
    /// Whether replies to identical calls may be reused.
    reuses: AtomicBool,
    state: Mutex<SessionState>,
}

struct SessionState {
    client: Arc<ClientProfile>,
    calls: HashMap<Id, VecDeque<Call>>,
    pending: usize,
    handshake: Option<Bytes>,
    initialized: Option<Bytes>,
}

/// A pending request.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) kind: RequestKind,
    pub(crate) client: Arc<ClientProfile>,
    /// Estimated tokens of results that the client received inline.
    pub(crate) usage: Arc<TokenUsage>,
    /// Whether the client speaks 2026-07-28 or later.
    pub(crate) modern: bool,
    progress: Option<Id>,
    last: Instant,
    /// Permits from [`PendingLimits`].
    permits: Vec<Arc<OwnedSemaphorePermit>>,
}

impl Call {
    /// Acquires the permits of the request; `None` if too many are pending.
    fn with_permits(mut self, limits: &PendingLimits) -> Option<Self> {
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
    Tool(ToolCall),
    /// `tasks/get` or `tasks/result`.
    Task(String),
    /// `subscriptions/listen`, which is answered when the subscription ends.
    Subscription,
    Other,
    /// A request from the gateway itself; the response goes to this channel.
    Own(std::sync::mpsc::SyncSender<Bytes>),
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
}

impl SessionState {
    /// The id of a pending request that equals this one, or that some parsers take for the same.
    fn pending_id(&self, id: &Id) -> Option<Id> {
        if let Some((pending_id, _)) = self.calls.get_key_value(id) {
            return Some(pending_id.clone());
        }
        self.calls.get_key_value(&id.of_other_type()?).map(|(pending_id, _)| pending_id.clone())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session whose client has not introduced itself yet.
    pub fn new(rules: &Arc<Rules>, owner: SessionOwner) -> Self {
        let rules = rules.of(&owner.tenant);
        let state = SessionState {
            client: Arc::new(rules.config.for_client("", "")),
            calls: HashMap::new(),
            pending: 0,
            handshake: None,
            initialized: None,
        };
        Self {
            rules,
            owner,
            usage: Arc::default(),
            request_from: None,
            reuses: AtomicBool::new(true),
            state: Mutex::new(state),
        }
    }

    /// Creates a session for a single request from this address. What outlives the request is kept per client.
    pub(crate) fn of_request(rules: &Arc<Rules>, owner: SessionOwner, address: IpAddr) -> Self {
        Self { request_from: Some(address), ..Self::new(rules, owner) }
    }

    /// Stops reusing replies in this session.
    pub(crate) fn never_reuse(&self) {
        self.reuses.store(false, Ordering::Relaxed);
    }

    /// Whether replies may be reused.
    pub(crate) fn reuses(&self) -> bool {
        self.reuses.load(Ordering::Relaxed)
    }

    /// The handshake so far, in revisions up to 2025-11-25: the request `initialize`, and the notification that
    /// completed it.
    pub fn handshake(&self) -> Option<(Bytes, Option<Bytes>)> {
        let state = self.state();
        Some((state.handshake.clone()?, state.initialized.clone()))
    }

    /// Decides what becomes of a message from the client.
    pub(crate) fn decide_client(self: &Arc<Self>, message: Message) -> ClientDecision {
        self.rules.metrics.client_sent(message.bytes().len());
        match message.kind() {
            Kind::Request => self.request(message),
            Kind::Notification => self.client_notification(message).into(),
            Kind::Batch => self.client_batch(&message).into(),
            Kind::Response | Kind::Other => FromClient::Forward(message.bytes().clone()).into(),
        }
    }

    /// Decides what becomes of a message from the server.
    fn decide_server(self: &Arc<Self>, message: Message) -> ServerDecision {
        self.rules.metrics.server_sent(message.bytes().len());
        if self.rules.enabled() {
            return self.handle_server_message(if self.rules.audits() { message } else { message.without_marks() });
        }
        if message.kind() == Kind::Response && self.deliver_own_response(&message) {
            return FromServer::Nothing.into();
        }
        self.forget_answered(&message);
        FromServer::Pass(message.bytes().clone()).into()
    }

    /// Removes the pending requests that a message answers.
    fn forget_answered(&self, message: &Message) {
        match message.kind() {
            Kind::Response => drop(message.id().and_then(|id| self.take(&id))),
            Kind::Batch => {
                let elements = message.batch().into_iter().flatten().map(Message::read);
                elements
                    .filter(|element| element.kind() == Kind::Response)
                    .for_each(|element| self.forget_answered(&element));
            }
            Kind::Request | Kind::Notification | Kind::Other => {}
        }
    }

    fn handle_server_message(self: &Arc<Self>, message: Message) -> ServerDecision {
        match (message.kind(), message.fault()) {
            (_, Some(fault)) => self.refuse_invalid(&message, fault).into(),
            (Kind::Response, _) => self.handle_response(message),
            (Kind::Notification, _) => self.server_notification(message),
            (Kind::Batch, _) => self.server_batch(message),
            (Kind::Request | Kind::Other, _) => FromServer::Pass(message.bytes().clone()).into(),
        }
    }

    /// Registers a request from the gateway itself. Its response goes to the channel instead of the client.
    pub(crate) fn expect_response(&self, id: Id, answer: std::sync::mpsc::SyncSender<Bytes>) {
        let call = Call {
            kind: RequestKind::Own(answer),
            client: Arc::clone(&self.state().client),
            usage: Arc::clone(&self.usage),
            modern: false,
            progress: None,
            last: Instant::now(),
            permits: Vec::new(),
        };
        self.remember(id, call);
    }

    /// Fails all pending requests, for this reason.
    pub fn fail_all(&self, reason: &str) -> Vec<Failure> {
        let calls = {
            let mut state = self.state();
            state.pending = 0;
            std::mem::take(&mut state.calls)
        };
        let failed = calls.into_iter().flat_map(|(id, calls)| calls.into_iter().map(move |call| (id.clone(), call)));
        failed.filter_map(|(id, call)| failure(id, &call, reason)).collect()
    }

    /// Fails a request, for this reason; `None` if it is not pending.
    pub fn fail(&self, id: &Id, reason: &str) -> Option<Failure> {
        let id = self.state().pending_id(id)?;
        let call = self.take(&id)?;
        failure(id, &call, reason)
    }

    /// Fails the requests without a response or progress within their timeout. Returns the cancellation for the server
    /// with each.
    pub fn overdue(&self) -> Vec<(Failure, Bytes)> {
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
            now.duration_since(call.last) > timeout(call)
                && !matches!(call.kind, RequestKind::Own(_) | RequestKind::Subscription)
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
        Some(mcp::response(id, &mcp::with_result_type(mcp::tool_error(reason), call.modern)))
    }

    /// Whether a request is pending.
    pub(crate) fn is_pending(&self, id: &Id) -> bool {
        self.state().calls.contains_key(id)
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

    /// The profile of the client.
    pub(crate) fn client(&self) -> Arc<ClientProfile> {
        Arc::clone(&self.state().client)
    }

    /// The tenant of the session.
    pub(crate) fn tenant(&self) -> &str {
        &self.owner.tenant
    }

    /// The number of pending requests.
    pub fn pending_count(&self) -> usize {
        self.state().pending
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }

    fn remember(&self, id: Id, call: Call) {
        let mut state = self.state();
        state.pending += 1;
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
        state.pending = state.pending.saturating_sub(1);
        call
    }

    /// Forwards a batch if all of its requests get permits; else answers each with an error.
    fn client_batch(&self, message: &Message) -> FromClient {
        let elements = message.batch().unwrap_or_default().into_iter().map(Message::read);
        let requests: Vec<(Id, Message)> = elements
            .filter(|element| element.kind() == Kind::Request)
            .filter_map(|one| Some((one.id()?, one)))
            .collect();
        let admit = |(_, one): &(Id, Message)| self.call(one, &one.params(), None).with_permits(&self.rules.pending);
        let Some(calls) = requests.iter().map(admit).collect::<Option<Vec<Call>>>() else {
            let errors: Vec<Bytes> = requests.iter().map(|(id, _)| too_many(id)).collect();
            return FromClient::Answer(batch_of(&errors));
        };
        for ((id, _), call) in requests.into_iter().zip(calls) {
            self.remember(id, call);
        }
        FromClient::Forward(message.bytes().clone())
    }

    fn request(self: &Arc<Self>, message: Message) -> ClientDecision {
        let Some(id) = message.id() else { return FromClient::Forward(message.bytes().clone()).into() };
        let Asking { message: without_question, asked } = match ask::taken(self, &message) {
            Ok(asking) => asking,
            Err(reason) => {
                let error = mcp::with_result_type(mcp::tool_error(&reason), message.params().is_modern());
                return FromClient::Answer(mcp::response(&id, &error)).into();
            }
        };
        let message = without_question.unwrap_or(message);
        let params = message.params();
        let Some(call) = self.call(&message, &params, asked).with_permits(&self.rules.pending) else {
            return FromClient::Answer(too_many(&id)).into();
        };
        if let Some(own) = self.own(&id, &call, &message, &params) {
            return own.into();
        }
        if message.method().as_deref() == Some(method::INITIALIZE) {
            let mut state = self.state();
            state.client = Arc::clone(&call.client);
            state.handshake = Some(message.bytes().clone());
            state.initialized = None;
        }
        let replaces =
            matches!(&call.kind, RequestKind::Tool(tool) if self.rules.config.gateway_tool(&tool.name).handles);
        let refers = replaces && params.arguments.is_some_and(|json| handles::mentions(json.get()));
        drop(params);
        let own = if refers && self.rules.enabled() {
            Some(OwnCall::arguments(self, &id, &call, &message))
        } else {
            reuse::cached(self, &call).map(|cached| OwnCall::reused(self, &id, &call, cached, &message))
        };
        self.remember(id, call);
        own.map_or_else(|| FromClient::Forward(message.bytes().clone()).into(), ClientDecision::from)
    }

    /// Creates the pending entry of a request, with the question about its result.
    fn call(&self, message: &Message, params: &Params<'_>, asked: Option<Asked>) -> Call {
        let meta = params.meta.as_ref();
        let revision = meta.and_then(|meta| meta.protocol_version.as_deref());
        let info = meta.and_then(|meta| meta.client_info.as_ref()).or(params.client_info.as_ref());
        let usage = self.usage_of(info);
        let client = match info {
            Some(info) => {
                self.rules.metrics.record_client(&info.name, &info.version);
                Arc::new(self.rules.config.for_client(&info.name, &info.version))
            }
            None => Arc::clone(&self.state().client),
        };
        let first_page = params.cursor.is_none();
        let kind = match message.method().as_deref() {
            Some(method::INITIALIZE) => RequestKind::Handshake,
            Some(method::DISCOVER) => RequestKind::Discovery,
            Some(method::TOOLS_LIST) => RequestKind::Tools { first_page },
            Some(method::RESOURCE_TEMPLATES_LIST) => RequestKind::Templates { first_page },
            Some(method::RESOURCES_LIST) => RequestKind::Resources,
            Some(method::TOOLS_CALL) => {
                let query = params.arguments.map(|arguments| arguments.get().to_owned());
                let name = params.name.as_deref().unwrap_or_default().to_owned();
                // A reply that is kept answers no other question.
                let reuse = || reuse::wanted(self, message, &name, &client, revision.is_some());
                RequestKind::Tool(ToolCall {
                    query: query.filter(|query| query.len() <= QUERY_BYTES_MAX),
                    inline: meta.and_then(|meta| meta.mode.as_deref()) == Some(INLINE_MODE),
                    task: None,
                    reuse: if asked.is_none() { reuse() } else { None },
                    asked,
                    name,
                })
            }
            Some(method::TASKS_GET | method::TASKS_RESULT) => {
                RequestKind::Task(params.task_id.as_deref().unwrap_or_default().to_owned())
            }
            Some(method::LISTEN) => RequestKind::Subscription,
            _ => RequestKind::Other,
        };
        let progress = meta.and_then(|meta| meta.progress_token).map(|token| Id::of_json(token.get()));
        let (modern, last) = (revision.is_some(), Instant::now());
        Call { kind, client, usage, modern, progress, last, permits: Vec::new() }
    }

    /// The token usage that a request counts against.
    fn usage_of(&self, info: Option<&Implementation<'_>>) -> Arc<TokenUsage> {
        let gateway = &self.rules.config.gateway;
        match self.request_from.filter(|_| gateway.session_budget.is_some()) {
            Some(address) => {
                let (name, version) = info.map_or(("", ""), |info| (&info.name, &info.version));
                let idle = Duration::from_secs(gateway.session_idle_seconds.get());
                self.rules.caches.usage(&self.owner.tenant, ClientKey::new(name, version, address), idle)
            }
            None => Arc::clone(&self.usage),
        }
    }

    /// The call of one of the gateway's tools or resources; `None` for any other.
    fn own(self: &Arc<Self>, id: &Id, call: &Call, message: &Message, params: &Params<'_>) -> Option<OwnCall> {
        if !self.rules.announces() {
            return None;
        }
        match &call.kind {
            RequestKind::Tool(tool) if tool.name == EXTRACT_TOOL || tool.name == READ_TOOL => {
                let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
                if self.rules.has_name_conflict() && !handles::knows(self, arguments) {
                    return None;
                }
                Some(OwnCall::tool(self, id, call, &tool.name, arguments))
            }
            RequestKind::Other if message.method().as_deref() == Some(method::RESOURCES_READ) => {
                let uri = params.uri.as_deref().filter(|uri| uri.starts_with(handles::SCHEME))?;
                Some(OwnCall::resource(self, id, call, uri))
            }
            _ => None,
        }
    }

    fn client_notification(&self, message: Message) -> FromClient {
        match message.method().as_deref() {
            Some(method::INITIALIZED) => self.state().initialized = Some(message.bytes().clone()),
            Some(method::CANCELLED) => {
                let id = message.params().request_id.map(|id| Id::of_json(id.get()));
                if let Some(id) = id {
                    // The server may still answer; the response is then filtered as that of an unknown tool.
                    self.take(&id);
                }
            }
            _ => {}
        }
        FromClient::Forward(message.bytes().clone())
    }

    fn server_notification(self: &Arc<Self>, message: Message) -> ServerDecision {
        match message.method().as_deref() {
            Some(method::PROGRESS) => self.handle_progress(&message),
            Some(method::TASK_STATUS) => {
                let task = message.params().task_id.as_deref().unwrap_or_default().to_owned();
                return match message.is_task(&["params"]) {
                    true => self.task_result(message, task, &["params", "result"], &self.unknown_call()),
                    false if self.rules.audits() => FromServer::Pass(message.bytes().clone()).into(),
                    false => FromServer::Pass(message.without_data()).into(),
                };
            }
            _ => {}
        }
        FromServer::Pass(message.bytes().clone()).into()
    }

    /// Restarts the timeout of calls that make progress.
    fn handle_progress(&self, message: &Message) {
        let Some(token) = message.params().progress_token.map(|token| Id::of_json(token.get())) else { return };
        let mut state = self.state();
        for call in state.calls.values_mut().flatten().filter(|call| call.progress.as_ref() == Some(&token)) {
            call.last = Instant::now();
        }
    }

    fn server_batch(self: &Arc<Self>, message: Message) -> ServerDecision {
        let elements = message.batch().into_iter().flatten();
        let decided: Vec<ServerDecision> =
            elements.map(|element| self.handle_server_message(Message::read(element))).collect();
        let has_output = |element: &ServerDecision| match element {
            ServerDecision::Ready(FromServer::Nothing) => false,
            ServerDecision::Ready(FromServer::Refuse(refused)) => !refused.failures.is_empty(),
            ServerDecision::Ready(FromServer::Pass(_)) | ServerDecision::Filter(_) => true,
        };
        if !decided.iter().any(has_output) {
            return FromServer::Nothing.into();
        }
        let (original, session) = (message.bytes().clone(), Arc::clone(self));
        let job = Job::new(async move {
            let mut elements = Vec::new();
            for element in decided {
                match element {
                    ServerDecision::Ready(decided) => elements.extend(decided.into_messages()),
                    ServerDecision::Filter(filtering) => elements.push(filtering.job.await),
                }
            }
            if session.rules.audits() { original } else { session.batch_within_ceiling(batch_of(&elements)) }
        });
        Filtering { message: message.bytes().clone(), job }.into()
    }

    /// Handles a message that is invalid or ambiguous: stray output or a broken response. An audit changes nothing.
    fn refuse_invalid(&self, message: &Message, fault: Fault) -> FromServer {
        if self.rules.audits() {
            return FromServer::Pass(message.bytes().clone());
        }
        self.rules.record_dropped(message, fault);
        let reason = format!("the server answered with something that is not a JSON-RPC message: {fault}");
        FromServer::Refuse(Refused { failures: self.fail_answered(message, &reason), reason })
    }

    /// Fails all requests that some parser could take this message to answer.
    pub(crate) fn fail_answered(&self, message: &Message, reason: &str) -> Vec<Failure> {
        let mut failures = Vec::new();
        message.each_id(&mut |id| failures.extend(self.fail(&id, reason)));
        failures
    }

    /// Delivers a response to a request from the gateway itself. Returns whether it was one.
    fn deliver_own_response(&self, message: &Message) -> bool {
        let Some(id) = message.id() else { return false };
        let is_own = {
            let state = self.state();
            let first = state.calls.get(&id).and_then(VecDeque::front);
            first.is_some_and(|call| matches!(call.kind, RequestKind::Own(_)))
        };
        if is_own && let Some(Call { kind: RequestKind::Own(answer), .. }) = self.take(&id) {
            let _ = answer.try_send(message.bytes().clone());
        }
        is_own
    }

    fn handle_response(self: &Arc<Self>, message: Message) -> ServerDecision {
        if self.deliver_own_response(&message) {
            return FromServer::Nothing.into();
        }
        // Clients may still read an unexpected response as the result of a call.
        let call = message.id().and_then(|id| self.take(&id)).unwrap_or_else(|| self.unknown_call());
        match &call.kind {
            RequestKind::Tool(_) => self.tool_answer(message, call),
            RequestKind::Task(task) => {
                let task = task.clone();
                let is_task = message.result().is_none() || message.is_task(&["result"]);
                self.task_result(message, task, if is_task { &["result", "result"] } else { &["result"] }, &call)
            }
            RequestKind::Other if mcp::looks_like_tool_result(&message) => {
                let call = Call { kind: RequestKind::Tool(ToolCall::default()), ..call };
                self.tool_answer(message, call)
            }
            _ => FromServer::Pass(self.with_own_items(&call, &message)).into(),
        }
    }

    /// The call to assume for a response that matches no request.
    fn unknown_call(&self) -> Call {
        let client = Arc::clone(&self.state().client);
        let (kind, usage) = (RequestKind::Tool(ToolCall::default()), Arc::clone(&self.usage));
        Call { kind, client, usage, modern: false, progress: None, last: Instant::now(), permits: Vec::new() }
    }

    fn tool_answer(self: &Arc<Self>, message: Message, call: Call) -> ServerDecision {
        if message.result().is_none() {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, &call.client)).into();
        }
        self.tool_result(message, call).into()
    }

    fn tool_result(self: &Arc<Self>, message: Message, call: Call) -> Filtering {
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move { session.filter(message, &call).await });
        Filtering { message: bytes, job }
    }

    fn task_result(
        self: &Arc<Self>,
        message: Message,
        task: String,
        path: &'static [&'static str],
        call: &Call,
    ) -> ServerDecision {
        if message.value(path).is_none_or(|value| value == "null") {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, &call.client)).into();
        }
        let TaskCall { tool: name, query, asked } = self.rules.tasks.call(&self.owner.tenant, &task);
        let call_of_task = ToolCall { name, query, asked, task: Some(task), ..ToolCall::default() };
        let kind = RequestKind::Tool(call_of_task);
        let call = Call { kind, modern: false, progress: None, ..call.clone() };
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move { session.filter_task(&message, &call, path).await });
        Filtering { message: bytes, job }.into()
    }

    /// Adds the gateway's tools and resources to a server's lists and capabilities.
    fn with_own_items(&self, call: &Call, message: &Message) -> Bytes {
        let Call { kind, modern, client, .. } = call;
        let modern = *modern;
        if matches!(kind, RequestKind::Tools { .. }) {
            self.learn_schemas(message);
        }
        if !self.rules.enabled() || self.rules.audits() {
            return message.bytes().clone();
        }
        if !self.rules.announces() {
            // Without a store nothing can be read back, but results can still be truncated.
            return match kind {
                RequestKind::Tools { .. } => self.tools(message, client, false),
                _ => message.bytes().clone(),
            };
        }
        let missing = message.error_code() == Some(i64::from(METHOD_NOT_FOUND));
        let response = |members: String| {
            let result = if modern {
                format!(r#"{{{members},"ttlMs":0,"cacheScope":"private"}}"#)
            } else {
                format!("{{{members}}}")
            };
            message.id().map(|id| mcp::response(&id, &mcp::with_result_type(result, modern)))
        };
        match kind {
            RequestKind::Handshake | RequestKind::Discovery if message.result().is_some() => {
                mcp::with_capabilities(message, &guidance())
            }
            RequestKind::Tools { first_page } => {
                if missing {
                    let tools = self.definitions(client).join(",");
                    return response(format!(r#""tools":[{tools}]"#)).unwrap_or_else(|| message.bytes().clone());
                }
                self.tools(message, client, *first_page)
            }
            RequestKind::Templates { first_page: true } => {
                if missing {
                    return response(format!(r#""resourceTemplates":[{TEMPLATE}]"#))
                        .unwrap_or_else(|| message.bytes().clone());
                }
                mcp::with_template(message, TEMPLATE)
            }
            RequestKind::Resources if missing => {
                response(r#""resources":[]"#.to_owned()).unwrap_or_else(|| message.bytes().clone())
            }
            _ => message.bytes().clone(),
        }
    }

    fn tools(&self, message: &Message, client: &ClientProfile, first_page: bool) -> Bytes {
        let listed = mcp::listed_tools(message);
        if listed.iter().any(|tool| tool.name == EXTRACT_TOOL || tool.name == READ_TOOL) {
            self.rules.set_name_conflict();
        }
        let config = &self.rules.config;
        let question = self.rules.announces().then_some((ask::ARGUMENT, self.rules.question_schema.as_str()));
        let change = |name: &str| {
            if config.for_tool(name).mode == DecisionMode::Never {
                return ToolChange { schema: SchemaChange::Keep, result_characters: None, argument: None };
            }
            let tool = config.gateway_tool(name);
            let schema = match tool.schema {
                SchemaStrategy::Rewrite => SchemaChange::Widen,
                SchemaStrategy::Strip => SchemaChange::Remove,
                SchemaStrategy::Shape | SchemaStrategy::Block => SchemaChange::Keep,
            };
            let argument = question.filter(|_| tool.ask);
            ToolChange { schema, result_characters: config.declared_size(name, client), argument }
        };
        let adds_own = first_page && !self.rules.has_name_conflict();
        let more = if adds_own { self.definitions(client) } else { Cow::Borrowed(&[][..]) };
        mcp::with_tools(message, change, &more)
    }

    /// Keeps the schemas of the listed tools: of arguments for the policy, of output for tools that keep its shape.
    fn learn_schemas(&self, message: &Message) {
        let config = &self.rules.config;
        let listed = mcp::listed_tools(message);
        let schemas = listed.iter().flat_map(|tool| {
            let keeps_shape = config.gateway_tool(&tool.name).schema == SchemaStrategy::Shape;
            let output = tool.output_schema.filter(|_| keeps_shape).map(|schema| (SchemaKind::Output, schema));
            let input = tool.input_schema.map(|schema| (SchemaKind::Input, schema));
            let of_tool = input.into_iter().chain(output);
            of_tool.map(|(kind, schema)| ((kind, tool.name.as_ref().to_owned()), schema))
        });
        self.rules.caches.learn(&self.owner.tenant, schemas);
    }

    /// The definitions of the gateway's tools for a client. The model chooses the length of their results.
    fn definitions(&self, client: &ClientProfile) -> Cow<'_, [String]> {
        let definitions = &self.rules.definitions;
        match client.declared_size {
            Some(size) => definitions.iter().map(|tool| mcp::with_result_characters(tool, size)).collect(),
            None => Cow::Borrowed(definitions),
        }
    }
}

fn too_many(id: &Id) -> Bytes {
    let text = format!("{CALLS_MAX} requests of this tenant are pending, or long questions: wait for their responses");
    mcp::error_response(Some(id), INTERNAL_ERROR, &text)
}

fn failure(id: Id, call: &Call, reason: &str) -> Option<Failure> {
    let code = match call.kind {
        // Dropping the sender wakes the waiting side.
        RequestKind::Own(_) => return None,
        // What a server without `server/discover` would answer.
        RequestKind::Discovery => METHOD_NOT_FOUND,
        _ => INTERNAL_ERROR,
    };
    Some(Failure { error: mcp::error_response(Some(&id), code, reason), id })
}

/// The notification that cancels a request.
pub(crate) fn cancellation(id: &Id, reason: &str) -> Bytes {
    let reason = serde_json::Value::from(reason);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#)
        .into()
}

/// The response that ends a subscription.
pub(crate) fn end_of_subscription(id: &Id) -> Bytes {
    mcp::response(
        id,
        &format!(r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#),
    )
}
