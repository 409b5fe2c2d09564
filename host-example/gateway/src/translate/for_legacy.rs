//! A client of the handshake revisions before a server that has none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_PARAMS, Id, Kind, METHOD_NOT_FOUND, Message, TASKS_EXTENSION, meta, method};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::json::{read, text, with_members, with_params, without_result_members};
use super::{
    LEGACY_REVISION, LEGACY_REVISIONS, Limits, MODERN_REVISION, OWN_ID, Steps, TASK_MEMBERS, is_own, response_id,
};

/// How often the state of a task is asked for while a client waits for its result, unless the server says so, and at most.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
const POLL_INTERVAL_MAX: Duration = Duration::from_secs(30);

const SUBSCRIPTION: [&str; 3] = ["params", "_meta", meta::SUBSCRIPTION_ID];

/// The request for what the server offers, for a client's `initialize`.
pub(super) fn discover_request(initialize: &Message, id: &Id) -> Bytes {
    let meta = Identity::of(initialize).members(None, false);
    mcp::request(id, method::DISCOVER, &format!(r#"{{"_meta":{{{meta}}}}}"#))
}

/// What a client has said of itself, as JSON.
#[derive(Clone, Debug)]
struct Identity {
    info: Value,
    capabilities: Map<String, Value>,
}

impl Identity {
    fn of(initialize: &Message) -> Self {
        let mut capabilities = match read(initialize, &["params", "capabilities"]) {
            Value::Object(capabilities) => capabilities,
            _ => Map::new(),
        };
        capabilities.remove("tasks");
        if let Some(roots) = capabilities.get_mut("roots") {
            *roots = json!({});
        }
        Self { info: read(initialize, &["params", "clientInfo"]), capabilities }
    }

    /// The members of the metadata of a request.
    fn members(&self, level: Option<&str>, accepts_task: bool) -> String {
        let mut capabilities = self.capabilities.clone();
        if accepts_task {
            let extensions = capabilities.entry("extensions").or_insert_with(|| json!({}));
            if let Some(extensions) = extensions.as_object_mut() {
                extensions.insert(TASKS_EXTENSION.to_owned(), json!({}));
            }
        }
        let mut members = format!(r#""{}":"{MODERN_REVISION}""#, meta::PROTOCOL_VERSION);
        if self.info.is_object() {
            members += &format!(r#","{}":{}"#, meta::CLIENT_INFO, self.info);
        }
        members += &format!(r#","{}":{}"#, meta::CLIENT_CAPABILITIES, Value::Object(capabilities));
        if let Some(level) = level {
            members += &format!(r#","{}":{}"#, meta::LOG_LEVEL, Value::from(level));
        }
        members
    }
}

/// A server without a handshake, as its client sees it.
#[derive(Debug)]
pub(super) struct ForLegacyClient {
    limits: Limits,
    identity: Identity,
    /// The result of `initialize`.
    greeting: String,
    /// The notifications about lists that the server offers, as members of a subscription.
    lists: Vec<&'static str>,
    level: Option<String>,
    calls: HashMap<Id, Call>,
    /// The request of the client that each request at the server stands for.
    at_server: HashMap<Id, Id>,
    /// The questions to the client: the request that each belongs to, and its key there.
    questions: HashMap<Id, (Id, String)>,
    listen: Option<Id>,
    /// Whether the subscription ended with the server.
    must_listen: bool,
    resources: BTreeSet<String>,
    polls: Vec<Poll>,
    count: u64,
}

/// A pending request of the client.
#[derive(Debug)]
struct Call {
    /// The request as the server got it.
    request: Message,
    kind: CallKind,
    rounds: u32,
    /// `requestState`, as JSON.
    state: Option<Bytes>,
    answers: BTreeMap<String, Box<RawValue>>,
    open: usize,
}

impl Call {
    fn new(request: Message, kind: CallKind) -> Self {
        Self { request, kind, rounds: 0, state: None, answers: BTreeMap::new(), open: 0 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CallKind {
    Plain,
    /// The client asked for a task.
    Task,
    TaskState,
    /// The client cancels this task, and gets its state.
    TaskCancel(String),
    /// The client waits for the result of this task.
    TaskResult(String),
}

#[derive(Debug)]
struct Poll {
    at: Instant,
    call: Id,
    task: String,
}

impl ForLegacyClient {
    pub(super) fn new(initialize: &Message, discovered: &Bytes, limits: Limits) -> Self {
        let offered: Value = serde_json::from_slice(discovered).unwrap_or_default();
        let mut capabilities = offered.get("capabilities").cloned().unwrap_or_else(|| json!({}));
        let changes = |kind: &str| capabilities.pointer(&format!("/{kind}/listChanged")) == Some(&Value::Bool(true));
        let lists =
            [("tools", "toolsListChanged"), ("prompts", "promptsListChanged"), ("resources", "resourcesListChanged")];
        let lists = lists.into_iter().filter(|(kind, _)| changes(kind)).map(|(_, member)| member).collect();
        let asked = text(initialize, &["params", "protocolVersion"]).unwrap_or_default();
        let revision = LEGACY_REVISIONS.into_iter().find(|revision| *revision == asked).unwrap_or(LEGACY_REVISION);
        let has_tasks = capabilities.pointer("/extensions").is_some_and(|all| all.get(TASKS_EXTENSION).is_some());
        if let Some(capabilities) = capabilities.as_object_mut().filter(|_| has_tasks && revision == LEGACY_REVISION) {
            capabilities.insert("tasks".to_owned(), json!({ "cancel": {}, "requests": { "tools": { "call": {} } } }));
        }
        let info = offered.pointer("/_meta/io.modelcontextprotocol~1serverInfo");
        let unnamed = || json!({ "name": "unnamed", "version": "0" });
        let mut greeting = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "serverInfo": info.cloned().unwrap_or_else(unnamed),
        });
        if let Some(instructions) = offered.get("instructions") {
            greeting["instructions"] = instructions.clone();
        }
        Self {
            limits,
            identity: Identity::of(initialize),
            greeting: greeting.to_string(),
            lists,
            level: None,
            calls: HashMap::new(),
            at_server: HashMap::new(),
            questions: HashMap::new(),
            listen: None,
            must_listen: false,
            resources: BTreeSet::new(),
            polls: Vec::new(),
            count: 0,
        }
    }

    /// Forgets what a server that has ended was asked. It is listened to again with the next request.
    pub(super) fn restarted(&mut self) {
        self.calls.clear();
        self.at_server.clear();
        self.questions.clear();
        self.polls.clear();
        self.must_listen = self.listen.take().is_some();
    }

    pub(super) fn client_message(&mut self, message: &Message) -> Steps {
        match message.kind() {
            Kind::Request if message.params().is_modern() => Steps::to_server(message.bytes().clone()),
            Kind::Request if std::mem::take(&mut self.must_listen) => {
                let again = self.listen_again();
                again.and(self.request(message))
            }
            Kind::Request => self.request(message),
            Kind::Notification => self.notification(message),
            Kind::Response => self.answered(message),
            Kind::Batch | Kind::Other => Steps::to_server(message.bytes().clone()),
        }
    }

    fn request(&mut self, message: &Message) -> Steps {
        let Some(id) = message.id() else { return Steps::default() };
        let done = || Steps::to_client(mcp::response(&id, "{}"));
        match message.method().as_deref() {
            Some(method::INITIALIZE) => Steps::to_client(mcp::response(&id, &self.greeting)),
            Some(method::PING) => done(),
            Some(method::SET_LEVEL) => {
                self.level = text(message, &["params", "level"]);
                done()
            }
            Some(method::SUBSCRIBE) => {
                self.resources.extend(text(message, &["params", "uri"]));
                done().and(self.listen_again())
            }
            Some(method::UNSUBSCRIBE) => {
                text(message, &["params", "uri"]).iter().for_each(|uri| _ = self.resources.remove(uri));
                done().and(self.listen_again())
            }
            Some(method::TASKS_LIST) => {
                Steps::to_client(mcp::error_response(Some(&id), METHOD_NOT_FOUND, "the server does not list tasks"))
            }
            Some(method::TASKS_RESULT) => {
                let Some(task) = text(message, &["params", "taskId"]) else {
                    let error = mcp::error_response(Some(&id), INVALID_PARAMS, "`taskId` is missing");
                    return Steps::to_client(error);
                };
                self.ask_for_task(&id, &task, CallKind::TaskResult(task.clone()))
            }
            Some(method::TASKS_CANCEL) => {
                let task = text(message, &["params", "taskId"]).unwrap_or_default();
                self.forward(id, message, CallKind::TaskCancel(task))
            }
            Some(method::TASKS_GET) => self.forward(id, message, CallKind::TaskState),
            Some(method::TOOLS_CALL) if message.value(&["params", "task"]).is_some() => {
                let without = Message::read(message.without(&["params", "task"]));
                self.forward(id, &without, CallKind::Task)
            }
            _ => self.forward(id, message, CallKind::Plain),
        }
    }

    fn forward(&mut self, id: Id, message: &Message, kind: CallKind) -> Steps {
        let request = with_params(message, "", &self.identity.members(self.level.as_deref(), kind == CallKind::Task));
        let bytes = request.bytes().clone();
        self.at_server.insert(id.clone(), id.clone());
        let call = Call::new(request, kind);
        self.calls.insert(id, call);
        Steps::to_server(bytes)
    }

    fn notification(&mut self, message: &Message) -> Steps {
        match message.method().as_deref() {
            Some(method::INITIALIZED) => self.listen_again(),
            Some("notifications/roots/list_changed") => Steps::default(),
            Some(method::CANCELLED) => {
                let Some(id) = message.params().cancelled_id() else { return Steps::default() };
                self.calls.remove(&id);
                self.polls.retain(|poll| poll.call != id);
                self.questions.retain(|_, (call, _)| *call != id);
                let at_server =
                    self.at_server.iter().find(|(_, call)| **call == id).map(|(at_server, _)| at_server.clone());
                match at_server {
                    Some(at_server) => {
                        self.at_server.remove(&at_server);
                        Steps::to_server(message.with_bytes(&["params", "requestId"], at_server.json().as_bytes()))
                    }
                    None => Steps::default(),
                }
            }
            _ => Steps::to_server(message.bytes().clone()),
        }
    }

    /// Keeps the client's answer to a question, and repeats the request when it is the last one.
    fn answered(&mut self, message: &Message) -> Steps {
        let Some((id, key)) = message.id().and_then(|id| self.questions.remove(&id)) else {
            return Steps::default();
        };
        let Some(call) = self.calls.get_mut(&id) else { return Steps::default() };
        let answer = message.result().and_then(|result| serde_json::from_slice(&result).ok());
        let Some(answer) = answer else {
            let reason = text(message, &["error", "message"]).unwrap_or_default();
            self.calls.remove(&id);
            self.questions.retain(|_, (call, _)| *call != id);
            let error = format!("the client did not answer the question `{key}` of the server: {reason}");
            return Steps::to_client(mcp::error_response(Some(&id), mcp::INTERNAL_ERROR, &error));
        };
        call.answers.insert(key, answer);
        call.open -= 1;
        if call.open > 0 { Steps::default() } else { self.retry(&id) }
    }

    /// Repeats a request under a new id, with the answers to what the server asked.
    fn retry(&mut self, id: &Id) -> Steps {
        let own = self.own_id();
        let Some(call) = self.calls.get_mut(id) else { return Steps::default() };
        let answers = std::mem::take(&mut call.answers);
        let mut members = match serde_json::to_string(&answers) {
            Ok(answers) => format!(r#""inputResponses":{answers}"#),
            Err(_) => return Steps::default(),
        };
        if let Some(state) = call.state.take() {
            members += &format!(r#","requestState":{}"#, String::from_utf8_lossy(&state));
        }
        let retry = with_params(&call.request, &members, "");
        self.at_server.insert(own.clone(), id.clone());
        Steps::to_server(retry.with_id(&own))
    }

    pub(super) fn server_message(&mut self, message: &Message) -> Steps {
        match message.kind() {
            Kind::Response => self.response(message),
            Kind::Notification => self.server_notification(message),
            Kind::Request | Kind::Batch | Kind::Other => Steps::to_client(message.bytes().clone()),
        }
    }

    fn response(&mut self, message: &Message) -> Steps {
        let Some(at_server) = response_id(message) else { return Steps::to_client(message.bytes().clone()) };
        let Some(id) = self.at_server.remove(&at_server) else {
            let is_own = is_own(&at_server);
            self.listen = self.listen.take().filter(|listen| *listen != at_server);
            return if is_own { Steps::default() } else { Steps::to_client(message.bytes().clone()) };
        };
        if message.value(&["result", "resultType"]).is_some_and(|kind| kind == r#""input_required""#) {
            return self.ask(&id, message);
        }
        let Some(call) = self.calls.remove(&id) else { return Steps::default() };
        let answer = Message::read(message.with_id(&id));
        if answer.result().is_none() {
            return Steps::to_client(answer.bytes().clone());
        }
        match call.kind {
            CallKind::Task => {
                let answer = match text(&answer, &["result", "taskId"]) {
                    Some(_) => mcp::response(&id, &json!({ "task": task(&read(&answer, &["result"])) }).to_string()),
                    // The server has decided against a task.
                    None => plain(answer),
                };
                Steps::to_client(answer)
            }
            CallKind::TaskState => Steps::to_client(mcp::response(&id, &task(&read(&answer, &["result"])).to_string())),
            CallKind::TaskCancel(task) => self.ask_for_task(&id, &task, CallKind::TaskState),
            CallKind::TaskResult(name) => self.task_result(id, name, &answer),
            CallKind::Plain => Steps::to_client(plain(answer)),
        }
    }

    /// Asks the client what the server needs to know for a request.
    fn ask(&mut self, id: &Id, message: &Message) -> Steps {
        let Some(call) = self.calls.get_mut(id) else { return Steps::default() };
        call.rounds += 1;
        let limit = self.limits.input_rounds;
        if call.rounds > limit {
            self.calls.remove(id);
            let text = format!("the server asked for input more than {limit} times in one call (gateway.input-rounds)");
            return Steps::to_client(mcp::error_response(Some(id), mcp::INTERNAL_ERROR, &text));
        }
        call.state = message.value(&["result", "requestState"]);
        let asked = message.value(&["result", "inputRequests"]);
        let asked: BTreeMap<String, Box<RawValue>> =
            asked.and_then(|asked| serde_json::from_slice(&asked).ok()).unwrap_or_default();
        call.open = asked.len();
        if asked.is_empty() {
            return self.retry(id);
        }
        let mut steps = Steps::default();
        for (key, question) in asked {
            let own = self.own_id();
            let head = format!(r#""jsonrpc":"2.0","id":{own}"#);
            steps.to_client.push(with_members(question.get().as_bytes(), &head).into());
            self.questions.insert(own, (id.clone(), key));
        }
        steps
    }

    fn server_notification(&mut self, message: &Message) -> Steps {
        match message.method().as_deref() {
            Some(method::SUBSCRIPTION_ACKNOWLEDGED) => Steps::default(),
            Some(method::TASK_STATUS) => {
                let params = task(&read(message, &["params"])).to_string();
                Steps::to_client(mcp::notification(method::TASK_STATUS_2025, &params))
            }
            _ => Steps::to_client(message.without(&SUBSCRIPTION)),
        }
    }

    /// Subscribes to what the client wants to hear of now.
    fn listen_again(&mut self) -> Steps {
        let mut steps = Steps::default();
        if let Some(listen) = self.listen.take() {
            let params = format!(r#"{{"requestId":{listen}}}"#);
            steps.to_server.push(mcp::notification(method::CANCELLED, &params));
        }
        let mut wanted: Map<String, Value> = self.lists.iter().map(|list| ((*list).to_owned(), json!(true))).collect();
        if !self.resources.is_empty() {
            wanted.insert("resourceSubscriptions".to_owned(), json!(self.resources));
        }
        if wanted.is_empty() {
            return steps;
        }
        let own = self.own_id();
        let meta = self.identity.members(None, false);
        let params = format!(r#"{{"notifications":{},"_meta":{{{meta}}}}}"#, Value::Object(wanted));
        steps.to_server.push(mcp::request(&own, method::LISTEN, &params));
        self.listen = Some(own);
        steps
    }

    /// Asks for the state of a task, which has its result in it.
    fn ask_for_task(&mut self, id: &Id, task: &str, kind: CallKind) -> Steps {
        let own = self.own_id();
        let meta = self.identity.members(self.level.as_deref(), true);
        let params = format!(r#"{{"taskId":{},"_meta":{{{meta}}}}}"#, Value::from(task));
        let bytes = mcp::request(&own, method::TASKS_GET, &params);
        let request = Message::read(bytes.clone());
        self.at_server.insert(own, id.clone());
        self.calls.insert(id.clone(), Call::new(request, kind));
        Steps::to_server(bytes)
    }

    fn task_result(&mut self, id: Id, task: String, answer: &Message) -> Steps {
        match text(answer, &["result", "status"]).as_deref() {
            Some("completed") => {
                let result = answer.value(&["result", "result"]).unwrap_or_default();
                let related = json!({ meta::RELATED_TASK: { "taskId": task } }).to_string();
                let result = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{}}}"#, String::from_utf8_lossy(&result));
                let result = without_result_members(Message::read(result.into()), &["resultType"]);
                let has_meta = result.value(&["result", "_meta"]).is_some();
                let related = if has_meta { String::new() } else { format!(r#""_meta":{related}"#) };
                Steps::to_client(super::json::with_result(&result, &related))
            }
            Some("failed") => {
                let error = answer.value(&["result", "error"]).unwrap_or_default();
                let error = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{}}}"#, String::from_utf8_lossy(&error));
                Steps::to_client(error.into())
            }
            Some("cancelled") => {
                let text = format!("the task {task} was canceled");
                Steps::to_client(mcp::error_response(Some(&id), mcp::INTERNAL_ERROR, &text))
            }
            _ => {
                let interval = read(answer, &["result", "pollIntervalMs"]).as_u64().map(Duration::from_millis);
                let interval = interval.unwrap_or(POLL_INTERVAL).min(POLL_INTERVAL_MAX);
                self.polls.push(Poll { at: Instant::now() + interval, call: id, task });
                Steps::default()
            }
        }
    }

    pub(super) fn due(&mut self) -> Steps {
        let now = Instant::now();
        let due: Vec<Poll> = self.polls.extract_if(.., |poll| poll.at <= now).collect();
        due.into_iter().fold(Steps::default(), |steps, Poll { call, task, .. }| {
            steps.and(self.ask_for_task(&call, &task, CallKind::TaskResult(task.clone())))
        })
    }

    fn own_id(&mut self) -> Id {
        self.count += 1;
        Id::own(&format!("{OWN_ID}{}", self.count))
    }
}

/// A result as the handshake revisions have it.
fn plain(answer: Message) -> Bytes {
    without_result_members(answer, &["resultType", "ttlMs", "cacheScope"]).bytes().clone()
}

/// A task as 2025-11-25 has it, of one as the extension has it.
fn task(of_extension: &Value) -> Value {
    let member = |(to, from): &(&str, &str)| Some(((*to).to_owned(), of_extension.get(from)?.clone()));
    let mut task: Map<String, Value> = TASK_MEMBERS.iter().filter_map(member).collect();
    task.entry("ttl").or_insert(Value::Null);
    Value::Object(task)
}
