//! One client's view of one server: which answer belongs to which request, and what becomes of each message.

mod filtering;
mod handles;
pub(crate) mod own;
pub(crate) mod reuse;
mod shape;
pub(crate) mod tasks;
mod turns;

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use tokio::sync::OwnedSemaphorePermit;

use crate::session::own::{OwnCall, TEMPLATE, guidance};
use crate::session::reuse::Reuse;
use crate::settings::{ClientProfile, DecisionMode, SchemaStrategy};
use crate::tenants::memory::{Client, Spent};
use crate::tenants::rules::Rules;
use crate::tenants::waiting::{CALLS_MAX, Waiting};
use lro_host::job::Job;
use lro_host::mcp::{
    self, EXTRACT_TOOL, Fault, INLINE_MODE, INTERNAL_ERROR, Id, Implementation, Kind, ListedTool, METHOD_NOT_FOUND,
    Message, Params, READ_TOOL, SchemaChange, ToolChange, method,
};

/// Most bytes of the arguments of a call that are kept for the header line of the files.
pub const QUERY_BYTES_MAX: usize = 16 << 10;

/// Whose session it is.
#[derive(Clone, Debug)]
pub struct Who {
    /// Whose directory the files go to.
    pub tenant: String,
    /// The client's session, any text.
    pub session: Option<String>,
    /// Whether the client runs on this machine, as one on stdio does.
    pub local: bool,
}

/// One client's view of one server. Shared by the threads that move its messages.
pub struct Session {
    pub(crate) rules: Arc<Rules>,
    pub(crate) who: Who,
    spent: Arc<Spent>,
    /// Where the request came from that it is for; none for a session that lasts.
    request_from: Option<IpAddr>,
    /// Whether a reply may be that of an identical call of another client.
    reuses: AtomicBool,
    state: Mutex<State>,
}

struct State {
    client: Arc<ClientProfile>,
    calls: HashMap<Id, VecDeque<Call>>,
    waiting: usize,
    handshake: Option<Bytes>,
    initialized: Option<Bytes>,
}

/// A request that waits for its answer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) asked: Asked,
    pub(crate) client: Arc<ClientProfile>,
    /// Estimated tokens of results that went on to the client as they were.
    pub(crate) spent: Arc<Spent>,
    /// Whether the client speaks 2026-07-28 or later.
    pub(crate) modern: bool,
    progress: Option<Id>,
    last: Instant,
    /// What it takes up of [`Waiting`].
    places: Vec<Arc<OwnedSemaphorePermit>>,
}

impl Call {
    /// With its places among those that wait; none when there are too many.
    fn admitted(mut self, waiting: &Waiting) -> Option<Self> {
        self.places.push(Arc::new(waiting.place()?));
        if let Asked::Tool(tool) = &mut self.asked
            && let Some(query) = &tool.query
        {
            match waiting.query_place(query.len()) {
                Some(place) => self.places.push(Arc::new(place)),
                None => tool.query = None,
            }
        }
        Some(self)
    }
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(crate) enum Asked {
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
    /// `subscriptions/listen`, which is answered when it ends.
    Subscription,
    Other,
    /// A request of the gateway's own.
    Own(std::sync::mpsc::SyncSender<Bytes>),
}

/// A call of a tool.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) query: Option<String>,
    /// The client wants the whole result.
    pub(crate) inline: bool,
    /// The task that it became.
    pub(crate) task: Option<String>,
    /// That identical calls may have one reply.
    pub(crate) reuse: Option<Reuse>,
}

/// What becomes of a message of the client.
pub enum FromClient {
    /// It goes to the server.
    Forward(Bytes),
    /// The client gets this at once; the server nothing.
    Answer(Bytes),
    /// It takes a while to know.
    Work(Box<OwnCall>),
}

/// What becomes of a message of the server.
pub enum FromServer {
    /// This goes to the client.
    Pass(Bytes),
    /// The policy is to be asked first.
    Filter(Filtering),
    /// None of it goes to the client.
    Refuse(Refused),
    /// Nothing goes to the client: it was for the gateway.
    Nothing,
}

/// In the place of a message that does not go on.
#[derive(Debug)]
pub struct Refused {
    /// For each request that it would have answered, an error for the client.
    pub errors: Vec<Bytes>,
    /// What was wrong with it.
    pub reason: String,
}

/// A message with tool results in it.
pub struct Filtering {
    pub(crate) message: Bytes,
    pub(crate) job: Job<Bytes>,
}

impl fmt::Debug for Filtering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Filtering").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl Filtering {
    /// Bytes of the message: the larger it is, the longer it takes.
    pub fn bytes(&self) -> usize {
        self.message.len()
    }

    /// Asks the policy and does what it says. Blocks. Returns what goes to the client.
    pub fn run(self) -> Bytes {
        self.job.finish()
    }
}

impl State {
    /// The id of a request that waits: this one, or one that some readers take for the same.
    fn known(&self, id: &Id) -> Option<Id> {
        if let Some((known, _)) = self.calls.get_key_value(id) {
            return Some(known.clone());
        }
        self.calls.get_key_value(&id.of_other_type()?).map(|(known, _)| known.clone())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("who", &self.who).finish_non_exhaustive()
    }
}

impl Session {
    /// A session of a client that has not said yet what it is.
    pub fn new(rules: &Arc<Rules>, who: Who) -> Self {
        let rules = rules.of(&who.tenant);
        let state = State {
            client: Arc::new(rules.config.for_client("", "")),
            calls: HashMap::new(),
            waiting: 0,
            handshake: None,
            initialized: None,
        };
        Self {
            rules,
            who,
            spent: Arc::default(),
            request_from: None,
            reuses: AtomicBool::new(true),
            state: Mutex::new(state),
        }
    }

    /// A session for one request of a client that has none, from this address. What lasts longer is kept by client.
    pub(crate) fn of_request(rules: &Arc<Rules>, who: Who, address: IpAddr) -> Self {
        Self { request_from: Some(address), ..Self::new(rules, who) }
    }

    /// No reply is reused from now on.
    pub(crate) fn never_reuse(&self) {
        self.reuses.store(false, Ordering::Relaxed);
    }

    /// Whether replies may be reused.
    pub(crate) fn reuses(&self) -> bool {
        self.reuses.load(Ordering::Relaxed)
    }

    /// The handshake of revisions up to 2025-11-25 so far: the request `initialize`, and the notification that ended it.
    pub fn handshake(&self) -> Option<(Bytes, Option<Bytes>)> {
        let state = self.state();
        Some((state.handshake.clone()?, state.initialized.clone()))
    }

    /// What becomes of a message of the client.
    pub fn from_client(self: &Arc<Self>, message: Message) -> FromClient {
        self.rules.metrics.client_sent(message.bytes().len());
        match message.kind() {
            Kind::Request => self.request(message),
            Kind::Notification => self.client_notification(message),
            Kind::Batch => self.client_batch(&message),
            Kind::Response | Kind::Other => FromClient::Forward(message.bytes().clone()),
        }
    }

    /// What becomes of a message of the server.
    pub fn from_server(self: &Arc<Self>, message: Message) -> FromServer {
        self.rules.metrics.server_sent(message.bytes().len());
        if self.rules.enabled() {
            return self.decided(if self.rules.audits() { message } else { message.without_marks() });
        }
        if message.kind() == Kind::Response && self.answers_own(&message) {
            return FromServer::Nothing;
        }
        self.forget_answered(&message);
        FromServer::Pass(message.bytes().clone())
    }

    /// Notes that requests were answered.
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

    fn decided(self: &Arc<Self>, message: Message) -> FromServer {
        match (message.kind(), message.fault()) {
            (_, Some(fault)) => self.unreadable(&message, fault),
            (Kind::Response, _) => self.answered(message),
            (Kind::Notification, _) => self.server_notification(message),
            (Kind::Batch, _) => self.server_batch(message),
            (Kind::Request | Kind::Other, _) => FromServer::Pass(message.bytes().clone()),
        }
    }

    /// Sends a request of the gateway's own past the client: its answer goes to the channel.
    pub(crate) fn expect(&self, id: Id, answer: std::sync::mpsc::SyncSender<Bytes>) {
        let call = Call {
            asked: Asked::Own(answer),
            client: Arc::clone(&self.state().client),
            spent: Arc::clone(&self.spent),
            modern: false,
            progress: None,
            last: Instant::now(),
            places: Vec::new(),
        };
        self.remember(id, call);
    }

    /// Answers every request that waits with an error, as the server will not.
    pub fn fail_all(&self, reason: &str) -> Vec<Bytes> {
        let calls = {
            let mut state = self.state();
            state.waiting = 0;
            std::mem::take(&mut state.calls)
        };
        let failed = calls.into_iter().flat_map(|(id, calls)| calls.into_iter().map(move |call| (id.clone(), call)));
        failed.filter_map(|(id, call)| failure(&id, &call, reason)).collect()
    }

    /// Answers one request with an error, if it still waits.
    pub fn fail(&self, id: &Id, reason: &str) -> Option<Bytes> {
        let id = self.state().known(id)?;
        let call = self.take(&id)?;
        failure(&id, &call, reason)
    }

    /// Requests without an answer or progress for too long: forgets them, and returns for each the error for the client and
    /// the cancellation for the server.
    pub fn overdue(&self) -> Vec<(Bytes, Bytes)> {
        let now = Instant::now();
        let gateway = &self.rules.config.gateway;
        let patience = |call: &Call| {
            Duration::from_millis(match call.asked {
                // An old server may not even refuse what it does not know, and its client has to go on.
                Asked::Discovery => gateway.start_timeout_ms.min(gateway.call_timeout_ms).get(),
                _ => gateway.call_timeout_ms.get(),
            })
        };
        let is_late = |call: &&Call| {
            now.duration_since(call.last) > patience(call) && !matches!(call.asked, Asked::Own(_) | Asked::Subscription)
        };
        let mut late = Vec::new();
        for (id, calls) in &self.state().calls {
            late.extend(calls.iter().filter(is_late).map(|call| (id.clone(), patience(call).as_millis())));
        }
        let end = |(id, millis)| {
            let reason = format!("the server neither answered nor told of progress within {millis} ms");
            Some((self.fail(&id, &reason)?, cancellation(&id, &reason)))
        };
        late.into_iter().filter_map(end).collect()
    }

    /// Answers a call that the gateway itself refuses, as an error of the tool.
    pub(crate) fn refuse(&self, id: &Id, reason: &str) -> Option<Bytes> {
        let call = self.take(id)?;
        Some(mcp::response(id, &mcp::with_result_type(mcp::tool_error(reason), call.modern)))
    }

    /// Whether a request still waits.
    pub(crate) fn waits_for(&self, id: &Id) -> bool {
        self.state().calls.contains_key(id)
    }

    /// Forgets a request whose answer is none of the gateway's business.
    pub(crate) fn forget(&self, id: &Id) {
        drop(self.take(id));
    }

    /// The id that a client gave the request which an answer of the server is to.
    pub(crate) fn asked_as(&self, id: Id) -> Id {
        self.state().known(&id).unwrap_or(id)
    }

    /// Whether a call of a tool waits under this id.
    pub(crate) fn awaits_tool(&self, id: &Id) -> bool {
        let state = self.state();
        state.calls.get(id).is_some_and(|calls| calls.iter().any(|call| matches!(call.asked, Asked::Tool(_))))
    }

    /// A text that a server answered a call of a tool with, as an error of the tool, and the policy's turn; what it leaves as
    /// it is may go on in any form. None when no such call waits.
    pub(crate) fn page(self: &Arc<Self>, id: &Id, text: &[u8]) -> Option<(Bytes, Filtering)> {
        if !self.awaits_tool(id) {
            return None;
        }
        let call = self.take(id)?;
        let error = mcp::with_result_type(mcp::tool_error(&String::from_utf8_lossy(text)), call.modern);
        let shown = mcp::response(id, &error);
        match self.tool_answer(Message::read(shown.clone()), call) {
            FromServer::Filter(filtering) => Some((shown, filtering)),
            _ => None,
        }
    }

    /// What is known of the client.
    pub(crate) fn client(&self) -> Arc<ClientProfile> {
        Arc::clone(&self.state().client)
    }

    /// Whose results these are.
    pub(crate) fn tenant(&self) -> &str {
        &self.who.tenant
    }

    /// Number of requests that wait.
    pub fn waiting(&self) -> usize {
        self.state().waiting
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn remember(&self, id: Id, call: Call) {
        let mut state = self.state();
        state.waiting += 1;
        state.calls.entry(id).or_default().push_back(call);
    }

    /// The request of this id, or of one that some readers take for the same, which waits no more.
    pub(crate) fn take(&self, id: &Id) -> Option<Call> {
        let mut state = self.state();
        let id = state.known(id)?;
        let calls = state.calls.get_mut(&id)?;
        let call = calls.pop_front();
        if calls.is_empty() {
            state.calls.remove(&id);
        }
        state.waiting = state.waiting.saturating_sub(1);
        call
    }

    /// A batch goes on when all of its requests may wait; else each of them is answered.
    fn client_batch(&self, message: &Message) -> FromClient {
        let elements = message.batch().unwrap_or_default().into_iter().map(Message::read);
        let requests: Vec<(Id, Message)> = elements
            .filter(|element| element.kind() == Kind::Request)
            .filter_map(|one| Some((one.id()?, one)))
            .collect();
        let admit = |(_, one): &(Id, Message)| self.call(one, &one.params()).admitted(&self.rules.waiting);
        let Some(calls) = requests.iter().map(admit).collect::<Option<Vec<Call>>>() else {
            let errors: Vec<Bytes> = requests.iter().map(|(id, _)| too_many(id)).collect();
            return FromClient::Answer([b"[", errors.join(&b","[..]).as_slice(), b"]"].concat().into());
        };
        for ((id, _), call) in requests.into_iter().zip(calls) {
            self.remember(id, call);
        }
        FromClient::Forward(message.bytes().clone())
    }

    fn request(self: &Arc<Self>, message: Message) -> FromClient {
        let (Some(id), params) = (message.id(), message.params()) else {
            return FromClient::Forward(message.bytes().clone());
        };
        let Some(call) = self.call(&message, &params).admitted(&self.rules.waiting) else {
            return FromClient::Answer(too_many(&id));
        };
        if let Some(own) = self.own(&id, &call, &message, &params) {
            return FromClient::Work(Box::new(own));
        }
        if message.method().as_deref() == Some(method::INITIALIZE) {
            let mut state = self.state();
            state.client = Arc::clone(&call.client);
            state.handshake = Some(message.bytes().clone());
            state.initialized = None;
        }
        let replaces = matches!(&call.asked, Asked::Tool(tool) if self.rules.config.gateway_tool(&tool.name).handles);
        let refers = replaces && params.arguments.is_some_and(|json| handles::mentions(json.get()));
        drop(params);
        let own = if refers && self.rules.enabled() {
            Some(OwnCall::arguments(self, &id, &call, &message))
        } else {
            reuse::known(self, &call).map(|known| OwnCall::reused(self, &id, &call, known, &message))
        };
        self.remember(id, call);
        if let Some(own) = own {
            return FromClient::Work(Box::new(own));
        }
        FromClient::Forward(message.bytes().clone())
    }

    /// Describes a request for the time it waits.
    fn call(&self, message: &Message, params: &Params<'_>) -> Call {
        let meta = params.meta.as_ref();
        let revision = meta.and_then(|meta| meta.protocol_version.as_deref());
        let info = meta.and_then(|meta| meta.client_info.as_ref()).or(params.client_info.as_ref());
        let spent = self.spent_by(info);
        let client = match info {
            Some(info) => {
                self.rules.metrics.introduced(&info.name, &info.version);
                Arc::new(self.rules.config.for_client(&info.name, &info.version))
            }
            None => Arc::clone(&self.state().client),
        };
        let first_page = params.cursor.is_none();
        let asked = match message.method().as_deref() {
            Some(method::INITIALIZE) => Asked::Handshake,
            Some(method::DISCOVER) => Asked::Discovery,
            Some(method::TOOLS_LIST) => Asked::Tools { first_page },
            Some(method::RESOURCE_TEMPLATES_LIST) => Asked::Templates { first_page },
            Some(method::RESOURCES_LIST) => Asked::Resources,
            Some(method::TOOLS_CALL) => {
                let query = params.arguments.map(|arguments| arguments.get().to_owned());
                let name = params.name.as_deref().unwrap_or_default().to_owned();
                Asked::Tool(ToolCall {
                    query: query.filter(|query| query.len() <= QUERY_BYTES_MAX),
                    inline: meta.and_then(|meta| meta.mode.as_deref()) == Some(INLINE_MODE),
                    task: None,
                    reuse: reuse::wanted(self, message, &name, &client, revision.is_some()),
                    name,
                })
            }
            Some(method::TASKS_GET | method::TASKS_RESULT) => {
                Asked::Task(params.task_id.as_deref().unwrap_or_default().to_owned())
            }
            Some(method::LISTEN) => Asked::Subscription,
            _ => Asked::Other,
        };
        let progress = meta.and_then(|meta| meta.progress_token).map(|token| Id::of_json(token.get()));
        let (modern, last) = (revision.is_some(), Instant::now());
        Call { asked, client, spent, modern, progress, last, places: Vec::new() }
    }

    /// What was spent of the budget that a request counts against.
    fn spent_by(&self, info: Option<&Implementation<'_>>) -> Arc<Spent> {
        let gateway = &self.rules.config.gateway;
        match self.request_from.filter(|_| gateway.session_budget.is_some()) {
            Some(address) => {
                let (name, version) = info.map_or(("", ""), |info| (&info.name, &info.version));
                let idle = Duration::from_secs(gateway.session_idle_seconds.get());
                self.rules.memory.spent(&self.who.tenant, Client::new(name, version, address), idle)
            }
            None => Arc::clone(&self.spent),
        }
    }

    /// The call of an own tool or resource.
    fn own(self: &Arc<Self>, id: &Id, call: &Call, message: &Message, params: &Params<'_>) -> Option<OwnCall> {
        if !self.rules.announces() {
            return None;
        }
        match &call.asked {
            Asked::Tool(tool) if tool.name == EXTRACT_TOOL || tool.name == READ_TOOL => {
                let arguments = params.arguments.map_or("{}", |arguments| arguments.get());
                if self.rules.has_namesakes() && !handles::knows(self, arguments) {
                    return None;
                }
                Some(OwnCall::tool(self, id, call, &tool.name, arguments))
            }
            Asked::Other if message.method().as_deref() == Some(method::RESOURCES_READ) => {
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
                    // The server may still answer; without a call it is decided upon with the settings for all tools.
                    self.take(&id);
                }
            }
            _ => {}
        }
        FromClient::Forward(message.bytes().clone())
    }

    fn server_notification(self: &Arc<Self>, message: Message) -> FromServer {
        match message.method().as_deref() {
            Some(method::PROGRESS) => self.progressed(&message),
            Some(method::TASK_STATUS) => {
                let task = message.params().task_id.as_deref().unwrap_or_default().to_owned();
                return match message.is_task(&["params"]) {
                    true => self.task_result(message, task, &["params", "result"], &self.unasked()),
                    false if self.rules.audits() => FromServer::Pass(message.bytes().clone()),
                    false => FromServer::Pass(message.without_data()),
                };
            }
            _ => {}
        }
        FromServer::Pass(message.bytes().clone())
    }

    /// A call that makes progress is not overdue.
    fn progressed(&self, message: &Message) {
        let Some(token) = message.params().progress_token.map(|token| Id::of_json(token.get())) else { return };
        let mut state = self.state();
        for call in state.calls.values_mut().flatten().filter(|call| call.progress.as_ref() == Some(&token)) {
            call.last = Instant::now();
        }
    }

    fn server_batch(self: &Arc<Self>, message: Message) -> FromServer {
        let elements = message.batch().into_iter().flatten();
        let decided: Vec<FromServer> = elements.map(|element| self.decided(Message::read(element))).collect();
        let is_left = |element: &FromServer| match element {
            FromServer::Nothing => false,
            FromServer::Refuse(refused) => !refused.errors.is_empty(),
            FromServer::Pass(_) | FromServer::Filter(_) => true,
        };
        if !decided.iter().any(is_left) {
            return FromServer::Nothing;
        }
        let (original, session) = (message.bytes().clone(), Arc::clone(self));
        let job = Job::new(async move {
            let mut batch = BytesMut::from(&b"["[..]);
            for element in decided {
                let elements = match element {
                    FromServer::Pass(element) => vec![element],
                    FromServer::Filter(filtering) => vec![filtering.job.await],
                    FromServer::Refuse(refused) => refused.errors,
                    FromServer::Nothing => continue,
                };
                for element in elements {
                    if batch.len() > 1 {
                        batch.extend_from_slice(b",");
                    }
                    batch.extend_from_slice(&element);
                }
            }
            batch.extend_from_slice(b"]");
            if session.rules.audits() { original } else { session.batch_within_ceiling(batch.freeze()) }
        });
        FromServer::Filter(Filtering { message: message.bytes().clone(), job })
    }

    /// What is no message, or one that readers disagree about: a server's own chatter, or a broken answer. An audit changes
    /// nothing.
    fn unreadable(&self, message: &Message, fault: Fault) -> FromServer {
        if self.rules.audits() {
            return FromServer::Pass(message.bytes().clone());
        }
        self.rules.leave_out(message, fault);
        FromServer::Refuse(self.refused(message, fault))
    }

    /// Errors for all that some reader may take such a message for the answer to.
    pub(crate) fn refused(&self, message: &Message, fault: Fault) -> Refused {
        let reason = format!("the server answered with something that is not a JSON-RPC message: {fault}");
        let mut errors = Vec::new();
        message.each_id(&mut |id| errors.extend(self.fail(&id, &reason)));
        Refused { errors, reason }
    }

    /// Whether a message answers a request of the gateway's own, which then has it.
    fn answers_own(&self, message: &Message) -> bool {
        let Some(id) = message.id() else { return false };
        let is_own = {
            let state = self.state();
            let first = state.calls.get(&id).and_then(VecDeque::front);
            first.is_some_and(|call| matches!(call.asked, Asked::Own(_)))
        };
        if is_own && let Some(Call { asked: Asked::Own(answer), .. }) = self.take(&id) {
            let _ = answer.try_send(message.bytes().clone());
        }
        is_own
    }

    fn answered(self: &Arc<Self>, message: Message) -> FromServer {
        if self.answers_own(&message) {
            return FromServer::Nothing;
        }
        // What nobody asked for may be read as the answer to a call all the same.
        let call = message.id().and_then(|id| self.take(&id)).unwrap_or_else(|| self.unasked());
        match &call.asked {
            Asked::Tool(_) => self.tool_answer(message, call),
            Asked::Task(task) => {
                let task = task.clone();
                let is_task = message.result().is_none() || message.is_task(&["result"]);
                self.task_result(message, task, if is_task { &["result", "result"] } else { &["result"] }, &call)
            }
            Asked::Other if mcp::looks_like_tool_result(&message) => {
                let call = Call { asked: Asked::Tool(ToolCall::default()), ..call };
                self.tool_answer(message, call)
            }
            _ => FromServer::Pass(self.announced(&call, &message)),
        }
    }

    /// Stands for the call behind an answer to nothing that was asked.
    fn unasked(&self) -> Call {
        let client = Arc::clone(&self.state().client);
        let (asked, spent) = (Asked::Tool(ToolCall::default()), Arc::clone(&self.spent));
        Call { asked, client, spent, modern: false, progress: None, last: Instant::now(), places: Vec::new() }
    }

    fn tool_answer(self: &Arc<Self>, message: Message, call: Call) -> FromServer {
        if message.result().is_none() {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, &call.client));
        }
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move { session.filter(message, &call).await });
        FromServer::Filter(Filtering { message: bytes, job })
    }

    fn task_result(
        self: &Arc<Self>,
        message: Message,
        task: String,
        path: &'static [&'static str],
        call: &Call,
    ) -> FromServer {
        if message.value(path).is_none_or(|value| value == "null") {
            return FromServer::Pass(self.within_ceiling(message.bytes().clone(), &message, &call.client));
        }
        let (name, query) = self.rules.tasks.call(&self.who.tenant, &task);
        let asked = Asked::Tool(ToolCall { name, query, inline: false, task: Some(task), reuse: None });
        let call = Call { asked, modern: false, progress: None, ..call.clone() };
        let (session, bytes) = (Arc::clone(self), message.bytes().clone());
        let job = Job::new(async move { session.filter_task(&message, &call, path).await });
        FromServer::Filter(Filtering { message: bytes, job })
    }

    /// What a server says about itself, with what the gateway adds to it.
    fn announced(&self, call: &Call, message: &Message) -> Bytes {
        let Call { asked, modern, client, .. } = call;
        let modern = *modern;
        if !self.rules.enabled() || self.rules.audits() {
            return message.bytes().clone();
        }
        if !self.rules.announces() {
            // Without a store there is nothing to read back, but results are still cut.
            return match asked {
                Asked::Tools { .. } => self.tools(message, client, false),
                _ => message.bytes().clone(),
            };
        }
        let missing = message.error_code() == Some(i64::from(METHOD_NOT_FOUND));
        let own = |members: String| {
            let result = if modern {
                format!(r#"{{{members},"ttlMs":0,"cacheScope":"private"}}"#)
            } else {
                format!("{{{members}}}")
            };
            message.id().map(|id| mcp::response(&id, &mcp::with_result_type(result, modern)))
        };
        match asked {
            Asked::Handshake | Asked::Discovery if message.result().is_some() => {
                mcp::with_capabilities(message, &guidance())
            }
            Asked::Tools { first_page } => {
                if missing {
                    let tools = self.definitions(client).join(",");
                    return own(format!(r#""tools":[{tools}]"#)).unwrap_or_else(|| message.bytes().clone());
                }
                self.tools(message, client, *first_page)
            }
            Asked::Templates { first_page: true } => {
                if missing {
                    return own(format!(r#""resourceTemplates":[{TEMPLATE}]"#))
                        .unwrap_or_else(|| message.bytes().clone());
                }
                mcp::with_template(message, TEMPLATE)
            }
            Asked::Resources if missing => {
                own(r#""resources":[]"#.to_owned()).unwrap_or_else(|| message.bytes().clone())
            }
            _ => message.bytes().clone(),
        }
    }

    fn tools(&self, message: &Message, client: &ClientProfile, first_page: bool) -> Bytes {
        let listed = mcp::listed_tools(message);
        if listed.iter().any(|tool| tool.name == EXTRACT_TOOL || tool.name == READ_TOOL) {
            self.rules.found_namesakes();
        }
        let config = &self.rules.config;
        let keeps_shape = |tool: &&ListedTool<'_>| config.gateway_tool(&tool.name).schema == SchemaStrategy::Shape;
        let schemas =
            listed.iter().filter(keeps_shape).filter_map(|tool| Some((tool.name.as_ref(), tool.output_schema?)));
        self.rules.memory.learn(&self.who.tenant, schemas);
        let change = |name: &str| {
            if config.for_tool(name).mode == DecisionMode::Never {
                return ToolChange { schema: SchemaChange::Keep, result_characters: None };
            }
            let schema = match config.gateway_tool(name).schema {
                SchemaStrategy::Rewrite => SchemaChange::Widen,
                SchemaStrategy::Strip => SchemaChange::Remove,
                SchemaStrategy::Shape | SchemaStrategy::Block => SchemaChange::Keep,
            };
            ToolChange { schema, result_characters: config.declared_size(name, client) }
        };
        let is_place = first_page && !self.rules.has_namesakes();
        let more = if is_place { self.definitions(client) } else { Cow::Borrowed(&[][..]) };
        mcp::with_tools(message, change, &more)
    }

    /// Definitions of the own tools for a client. Their answers have the length that the model asks for.
    fn definitions(&self, client: &ClientProfile) -> Cow<'_, [String]> {
        let definitions = &self.rules.definitions;
        match client.declared_size {
            Some(size) => definitions.iter().map(|tool| mcp::with_result_characters(tool, size)).collect(),
            None => Cow::Borrowed(definitions),
        }
    }
}

fn too_many(id: &Id) -> Bytes {
    let text = format!("{CALLS_MAX} requests of this tenant wait for an answer already");
    mcp::error_response(Some(id), INTERNAL_ERROR, &text)
}

fn failure(id: &Id, call: &Call, reason: &str) -> Option<Bytes> {
    match call.asked {
        // Its sender is dropped, which the waiting side sees.
        Asked::Own(_) => None,
        // What a server without it would have said.
        Asked::Discovery => Some(mcp::error_response(Some(id), METHOD_NOT_FOUND, reason)),
        _ => Some(mcp::error_response(Some(id), INTERNAL_ERROR, reason)),
    }
}

/// Tells the server that nobody waits for an answer any more.
pub(crate) fn cancellation(id: &Id, reason: &str) -> Bytes {
    let reason = serde_json::Value::from(reason);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id},"reason":{reason}}}}}"#)
        .into()
}
