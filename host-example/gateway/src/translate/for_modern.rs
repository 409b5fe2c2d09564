//! A client without a handshake before a server that begins with one.
//!
//! What the server asks for during a call becomes a result `input_required` of the call; the client repeats the call with the
//! input, and the server goes on with the call that it has.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Instant;

use bytes::Bytes;
use lro_host::mcp::{
    self, INTERNAL_ERROR, INVALID_PARAMS, Id, Kind, METHOD_NOT_FOUND, Message, RESOURCE_NOT_FOUND, TASKS_EXTENSION,
    meta, method,
};
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::claims::{self, CAPABILITIES, severity};
use super::json::{read, text, with_members, with_result};
use super::{INPUT_METHODS, LEGACY_REVISION, Limits, MODERN_REVISION, OWN_ID, Steps, TASK_MEMBERS};
use crate::random::random_hex;

/// Lists that a server may announce changes of: the capability, the member of a subscription, and the notification.
const LISTS: [(&str, &str, &str); 3] = [
    ("tools", "toolsListChanged", "notifications/tools/list_changed"),
    ("prompts", "promptsListChanged", "notifications/prompts/list_changed"),
    ("resources", "resourcesListChanged", "notifications/resources/list_changed"),
];

/// Methods that revision 2026-07-28 does not have any more.
const REMOVED: [&str; 6] =
    [method::PING, method::SET_LEVEL, method::SUBSCRIBE, method::UNSUBSCRIBE, method::TASKS_LIST, method::TASKS_RESULT];

const LOG_MESSAGE: &str = "notifications/message";

const CLIENT_INFO: [&str; 3] = ["params", "_meta", meta::CLIENT_INFO];
const LOG_LEVEL: [&str; 3] = ["params", "_meta", meta::LOG_LEVEL];
const PROGRESS_TOKEN: [&str; 3] = ["params", "_meta", "progressToken"];
const TOKEN_OF_PROGRESS: [&str; 2] = ["params", "progressToken"];

/// The request for what the server offers, as the client of this request would send it.
pub(super) fn discover_request(first: &Message, id: &Id) -> Bytes {
    let first = Message::read(first.without(&PROGRESS_TOKEN));
    let meta = first.value(&["params", "_meta"]).unwrap_or_else(|| "{}".into());
    mcp::request(id, method::DISCOVER, &format!(r#"{{"_meta":{}}}"#, String::from_utf8_lossy(&meta)))
}

/// The handshake in place of a client whose first request is this one.
pub(super) fn initialize_request(first: &Message, id: &Id) -> Bytes {
    let mut capabilities = read(first, &CAPABILITIES);
    if let Some(capabilities) = capabilities.as_object_mut() {
        capabilities.remove("extensions");
    } else {
        capabilities = json!({});
    }
    let mut info = read(first, &CLIENT_INFO);
    if !info.is_object() {
        info = json!({"name": env!("CARGO_PKG_NAME"), "version": env!("CARGO_PKG_VERSION")});
    }
    let params = json!({"protocolVersion": LEGACY_REVISION, "capabilities": capabilities, "clientInfo": info});
    mcp::request(id, method::INITIALIZE, &params.to_string())
}

/// A server with a handshake, as its clients see it.
#[derive(Debug)]
pub(super) struct ForModernClient {
    limits: Limits,
    /// The request of the handshake.
    initialize: Bytes,
    /// The result of the handshake.
    offered: Value,
    /// The severity from which on the server sends log messages.
    severity: Option<usize>,
    /// Tools that run as tasks alone, as far as lists of tools have said.
    task_tools: BTreeSet<String>,
    /// Those on the pages of the list since the last first page.
    listed: BTreeSet<String>,
    /// The requests at the server, by the ids that it knows.
    calls: HashMap<Id, Call>,
    subscriptions: HashMap<Id, Subscription>,
    count: u64,
}

/// A request at the server.
#[derive(Debug)]
struct Call {
    /// The id that the client waits for now; `None` while it gathers input.
    client: Option<Id>,
    kind: CallKind,
    /// The client's tokens for progress, as JSON: the one at the server, and the one of now.
    tokens: Option<(Bytes, Bytes)>,
    /// What the client can be asked for.
    capabilities: Value,
    /// The severity from which on the client wants log messages.
    severity: Option<usize>,
    /// `requestState`, which the client sends back with its input.
    state: String,
    /// What the client was asked for, by key: the request of the server.
    asked: BTreeMap<String, Question>,
    /// What it is asked for next.
    next: VecDeque<Question>,
    /// The answer that came while the client gathered input.
    answer: Option<Message>,
    count: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum CallKind {
    Plain,
    /// A list or a resource, which may be kept by the client.
    Cacheable,
    /// A page of the list of tools.
    Tools {
        is_first: bool,
    },
    /// The server runs it as a task.
    Task,
    TaskState,
    TaskCancel,
    /// The result of a task, for its state: the rest of the answer.
    TaskResult(Map<String, Value>),
    /// A request of the translator itself, whose answer nobody reads.
    Own,
}

#[derive(Debug)]
struct Question {
    id: Id,
    method: String,
    params: Option<Bytes>,
    at: Instant,
}

/// What a client listens to.
#[derive(Debug, Default)]
struct Subscription {
    notifications: BTreeSet<&'static str>,
    resources: BTreeSet<String>,
}

impl ForModernClient {
    pub(super) fn new(first: &Message, result: &[u8], limits: Limits) -> Self {
        Self {
            limits,
            initialize: initialize_request(first, &Id::own(OWN_ID)),
            offered: serde_json::from_slice(result).unwrap_or_default(),
            severity: None,
            task_tools: BTreeSet::new(),
            listed: BTreeSet::new(),
            calls: HashMap::new(),
            subscriptions: HashMap::new(),
            count: 0,
        }
    }

    /// The messages of the handshake, for a server that starts again.
    pub(super) fn handshake(&self) -> (Bytes, Bytes) {
        (self.initialize.clone(), mcp::notification(method::INITIALIZED, "{}"))
    }

    /// Forgets what a server that has ended was asked. Its clients get an error for each request that was open, and listen
    /// again: the new server is then subscribed to what they name.
    pub(super) fn restarted(&mut self) {
        self.calls.clear();
        self.subscriptions.clear();
        self.severity = None;
    }

    pub(super) fn client_message(&mut self, message: &Message) -> Steps {
        match message.kind() {
            Kind::Request => self.request(message),
            Kind::Notification if message.method().as_deref() == Some(method::CANCELLED) => self.cancelled(message),
            Kind::Notification => Steps::to_server(message.bytes().clone()),
            // These clients answer nothing, and send one message at a time.
            Kind::Response | Kind::Batch | Kind::Other => Steps::default(),
        }
    }

    fn request(&mut self, message: &Message) -> Steps {
        let Some(id) = message.id() else { return Steps::default() };
        if let Some(error) = claims::missing(message).or_else(|| claims::unsupported(message)) {
            return Steps::to_client(error);
        }
        if let Some(state) = text(message, &["params", "requestState"]) {
            return self.repeated(id, &state, message);
        }
        let method = message.method().unwrap_or_default().into_owned();
        match method.as_str() {
            method::DISCOVER => Steps::to_client(self.discovered(&id)),
            method::LISTEN => self.listen(id, message),
            removed if REMOVED.contains(&removed) => {
                let text = "the method is not one of this revision";
                Steps::to_client(mcp::error_response(Some(&id), METHOD_NOT_FOUND, text))
            }
            method::TASKS_UPDATE => {
                let text = "the server takes no input for tasks in this way: it asks within other calls";
                Steps::to_client(mcp::error_response(Some(&id), METHOD_NOT_FOUND, text))
            }
            method::TASKS_GET => self.forward(id, message, CallKind::TaskState),
            method::TASKS_CANCEL => self.forward(id, message, CallKind::TaskCancel),
            method::TOOLS_CALL if self.runs_as_task(message) => {
                let task = with_members(&message.value(&["params"]).unwrap_or_default(), r#""task":{}"#);
                let message = Message::read(message.with_bytes(&["params"], &task));
                self.forward(id, &message, CallKind::Task)
            }
            method::TOOLS_LIST => {
                let is_first = message.params().cursor.is_none();
                self.forward(id, message, CallKind::Tools { is_first })
            }
            method::PROMPTS_LIST
            | method::RESOURCES_LIST
            | method::RESOURCE_TEMPLATES_LIST
            | method::RESOURCES_READ => self.forward(id, message, CallKind::Cacheable),
            _ => self.forward(id, message, CallKind::Plain),
        }
    }

    /// Whether a tool runs as a task alone, for a client that takes one.
    fn runs_as_task(&self, call: &Message) -> bool {
        let takes = read(call, &CAPABILITIES)["extensions"].get(TASKS_EXTENSION).is_some();
        takes && text(call, &["params", "name"]).is_some_and(|tool| self.task_tools.contains(&tool))
    }

    fn forward(&mut self, id: Id, message: &Message, kind: CallKind) -> Steps {
        let token = message.value(&PROGRESS_TOKEN);
        let call = Call {
            tokens: token.map(|token| (token.clone(), token)),
            capabilities: read(message, &CAPABILITIES),
            severity: severity(message, &LOG_LEVEL),
            ..Call::new(Some(id.clone()), kind)
        };
        self.calls.insert(id, call);
        let mut steps = self.leveled();
        steps.to_server.push(without_claims(message).bytes().clone());
        steps
    }

    /// Tells the server the least severe level of log messages that a call wants.
    fn leveled(&mut self) -> Steps {
        let wanted = self.calls.values().filter_map(|call| call.severity).min();
        let Some(severity) = wanted.filter(|_| wanted != self.severity) else { return Steps::default() };
        if self.offered["capabilities"].get("logging").is_none() {
            return Steps::default();
        }
        self.severity = wanted;
        let params = json!({ "level": claims::level(severity) }).to_string();
        Steps::to_server(self.own_request(method::SET_LEVEL, &params))
    }

    /// A request of the translator itself, whose answer nobody reads.
    fn own_request(&mut self, method: &str, params: &str) -> Bytes {
        let id = self.own_id();
        self.calls.insert(id.clone(), Call::new(None, CallKind::Own));
        mcp::request(&id, method, params)
    }

    /// What the server offers, as from revision 2026-07-28 on.
    fn discovered(&self, id: &Id) -> Bytes {
        let mut capabilities = self.offered["capabilities"].clone();
        if let Some(capabilities) = capabilities.as_object_mut()
            && capabilities.remove("tasks").is_some_and(|tasks| tasks["requests"]["tools"].get("call").is_some())
        {
            capabilities.insert("extensions".to_owned(), json!({TASKS_EXTENSION: {}}));
        }
        let mut result = json!({
            "resultType": "complete",
            "supportedVersions": [MODERN_REVISION],
            "capabilities": capabilities,
            "ttlMs": 0,
            "cacheScope": "private",
        });
        if let Some(info) = self.offered.get("serverInfo") {
            result["_meta"] = json!({ meta::SERVER_INFO: info });
        }
        if let Some(instructions) = self.offered.get("instructions") {
            result["instructions"] = instructions.clone();
        }
        mcp::response(id, &result.to_string())
    }

    fn listen(&mut self, id: Id, message: &Message) -> Steps {
        let wanted = read(message, &["params", "notifications"]);
        let offered = &self.offered["capabilities"];
        let mut subscription = Subscription::default();
        let mut agreed = Map::new();
        for (capability, member, notification) in LISTS {
            if wanted[member] == true && offered[capability]["listChanged"] == true {
                subscription.notifications.insert(notification);
                agreed.insert(member.to_owned(), json!(true));
            }
        }
        if offered["resources"]["subscribe"] == true {
            let uris = wanted["resourceSubscriptions"].as_array().into_iter().flatten();
            subscription.resources = uris.filter_map(|uri| Some(uri.as_str()?.to_owned())).collect();
        }
        let mut steps = Steps::default();
        for uri in &subscription.resources {
            if !self.is_listened(uri) {
                let params = json!({ "uri": uri }).to_string();
                steps.to_server.push(self.own_request(method::SUBSCRIBE, &params));
            }
        }
        if !subscription.resources.is_empty() {
            agreed.insert("resourceSubscriptions".to_owned(), json!(subscription.resources));
        }
        let key = meta::SUBSCRIPTION_ID;
        let params = format!(r#"{{"notifications":{},"_meta":{{"{key}":{id}}}}}"#, Value::Object(agreed));
        steps.to_client.push(mcp::notification(method::SUBSCRIPTION_ACKNOWLEDGED, &params));
        self.subscriptions.insert(id, subscription);
        steps
    }

    fn is_listened(&self, uri: &str) -> bool {
        self.subscriptions.values().any(|subscription| subscription.resources.contains(uri))
    }

    fn cancelled(&mut self, message: &Message) -> Steps {
        let Some(id) = message.params().cancelled_id() else { return Steps::default() };
        if let Some(subscription) = self.subscriptions.remove(&id) {
            let ended: Vec<String> = subscription.resources.into_iter().filter(|uri| !self.is_listened(uri)).collect();
            let unsubscribe = |uri: String| self.own_request(method::UNSUBSCRIBE, &json!({ "uri": uri }).to_string());
            return Steps { to_server: ended.into_iter().map(unsubscribe).collect(), to_client: Vec::new() };
        }
        let at_server = self.calls.iter().find(|(_, call)| call.client.as_ref() == Some(&id)).map(|(id, _)| id.clone());
        let Some(at_server) = at_server else { return Steps::default() };
        // The server need not answer.
        self.calls.remove(&at_server);
        Steps::to_server(message.with_bytes(&["params", "requestId"], at_server.json().as_bytes()))
    }

    /// A call that its client repeats with input.
    fn repeated(&mut self, id: Id, state: &str, message: &Message) -> Steps {
        let waits = |call: &Call| call.client.is_none() && call.kind != CallKind::Own && !state.is_empty();
        let found = self.calls.iter_mut().find(|(_, call)| waits(call) && call.state == state);
        let Some((at_server, call)) = found else {
            let text =
                "`requestState` is unknown: the call has ended, or waited too long for input; call again without it";
            return Steps::to_client(mcp::error_response(Some(&id), INVALID_PARAMS, text));
        };
        let given = message.value(&["params", "inputResponses"]);
        let mut given: BTreeMap<String, Box<RawValue>> =
            given.and_then(|given| serde_json::from_slice(&given).ok()).unwrap_or_default();
        let mut steps = Steps::default();
        for (key, question) in std::mem::take(&mut call.asked) {
            match given.remove(&key) {
                Some(given) => steps.to_server.push(mcp::response(&question.id, given.get())),
                // The client is asked again.
                None => call.next.push_back(question),
            }
        }
        call.client = Some(id);
        call.tokens = call.tokens.take().and_then(|(first, _)| Some((first, message.value(&PROGRESS_TOKEN)?)));
        let at_server = at_server.clone();
        if let Some(answer) = call.answer.take() {
            return steps.and(self.response(&at_server, &answer));
        }
        let asked = call.ask();
        steps.to_client.extend(asked);
        steps
    }

    pub(super) fn server_message(&mut self, message: &Message, stream: Option<&Id>) -> Steps {
        match message.kind() {
            Kind::Response => match message.id().filter(|id| self.calls.contains_key(id)) {
                Some(id) => self.response(&id, message),
                None => Steps::to_client(message.bytes().clone()),
            },
            Kind::Request => self.asked(message, stream),
            Kind::Notification => self.notification(message),
            Kind::Batch | Kind::Other => Steps::to_client(message.bytes().clone()),
        }
    }

    fn response(&mut self, at_server: &Id, message: &Message) -> Steps {
        let Some(mut call) = self.calls.remove(at_server) else { return Steps::default() };
        if call.kind == CallKind::Own {
            return Steps::default();
        }
        let Some(client) = call.client.clone() else {
            call.answer = Some(message.clone());
            self.calls.insert(at_server.clone(), call);
            return Steps::default();
        };
        let answer = Message::read(message.with_id(&client));
        if answer.result().is_none() {
            return match call.kind {
                CallKind::TaskResult(state) => Steps::to_client(failed_task(&client, state, &answer)),
                CallKind::Cacheable if answer.error_code() == Some(RESOURCE_NOT_FOUND.into()) => {
                    let code = INVALID_PARAMS.to_string();
                    Steps::to_client(answer.with_bytes(&["error", "code"], code.as_bytes()))
                }
                _ => Steps::to_client(answer.bytes().clone()),
            };
        }
        match call.kind {
            CallKind::Plain | CallKind::Own => Steps::to_client(complete(&answer, "")),
            CallKind::Cacheable | CallKind::Tools { .. } => {
                if let CallKind::Tools { is_first } = call.kind {
                    self.learn_tools(&answer, is_first);
                }
                let is_said = answer.value(&["result", "ttlMs"]).is_some();
                let members = if is_said { "" } else { r#","ttlMs":0,"cacheScope":"private""# };
                Steps::to_client(complete(&answer, members))
            }
            CallKind::Task => match answer.value(&["result", "task"]) {
                Some(_) => {
                    let mut created = task(&read(&answer, &["result", "task"]));
                    created.insert("resultType".to_owned(), json!("task"));
                    Steps::to_client(mcp::response(&client, &Value::Object(created).to_string()))
                }
                None => Steps::to_client(complete(&answer, "")),
            },
            CallKind::TaskCancel => Steps::to_client(mcp::response(&client, r#"{"resultType":"complete"}"#)),
            CallKind::TaskState => self.task_state(client, task(&read(&answer, &["result"]))),
            CallKind::TaskResult(mut state) => {
                let result = String::from_utf8(complete(&answer, "").to_vec()).unwrap_or_default();
                let result = Message::read(result.into()).value(&["result"]).unwrap_or_default();
                state.insert("resultType".to_owned(), json!("complete"));
                let state = Value::Object(state).to_string();
                let result = format!(r#""result":{}"#, String::from_utf8_lossy(&result));
                let state = with_members(state.as_bytes(), &result);
                Steps::to_client(mcp::response(&client, &String::from_utf8_lossy(&state)))
            }
        }
    }

    /// Notes which tools run as tasks alone. What an earlier list has said holds until the last page of this one.
    fn learn_tools(&mut self, page: &Message, is_first: bool) {
        if is_first {
            self.listed.clear();
        }
        for tool in mcp::listed_tools(page).into_iter().filter(|tool| tool.requires_tasks) {
            self.listed.insert(tool.name.into_owned());
        }
        if page.value(&["result", "nextCursor"]).is_none_or(|cursor| cursor == "null") {
            // Not taken, as clients that share a server may read its pages in turns.
            self.task_tools.clone_from(&self.listed);
        } else {
            self.task_tools.extend(self.listed.iter().cloned());
        }
    }

    /// The state of a task, for which a result is fetched when there is one.
    fn task_state(&mut self, client: Id, mut state: Map<String, Value>) -> Steps {
        let task_id = state.get("taskId").cloned().unwrap_or_default();
        match state.get("status").and_then(Value::as_str) {
            // While a task waits for input, the server asks whoever waits for its result.
            Some("completed" | "failed" | "input_required") => {
                let own = self.own_id();
                if state["status"] == "input_required" {
                    state.insert("status".to_owned(), json!("working"));
                }
                self.calls.insert(own.clone(), Call::new(Some(client), CallKind::TaskResult(state)));
                Steps::to_server(mcp::request(&own, method::TASKS_RESULT, &json!({ "taskId": task_id }).to_string()))
            }
            _ => {
                state.insert("resultType".to_owned(), json!("complete"));
                Steps::to_client(mcp::response(&client, &Value::Object(state).to_string()))
            }
        }
    }

    /// A request of the server, which is for the client of the call that it belongs to: the one whose stream brought it, or
    /// else the only one.
    fn asked(&mut self, message: &Message, stream: Option<&Id>) -> Steps {
        let Some(id) = message.id() else { return Steps::default() };
        let method = message.method().unwrap_or_default().into_owned();
        let Some((_, capability)) = INPUT_METHODS.iter().find(|(asks, _)| *asks == method) else {
            return Steps::to_server(match method.as_str() {
                method::PING => mcp::response(&id, "{}"),
                _ => mcp::error_response(Some(&id), METHOD_NOT_FOUND, "the client does not know this method"),
            });
        };
        let question = Question { id, method, params: message.value(&["params"]), at: Instant::now() };
        let waiting = self.calls.values().filter(|call| call.client.is_none() && call.kind != CallKind::Own).count();
        let stream = stream.filter(|id| self.calls.contains_key(id));
        let belongs = |id: &Id, call: &Call| call.can_ask() && stream.is_none_or(|stream| stream == id);
        let mut calls = self.calls.iter_mut().filter(|(id, call)| belongs(id, call)).map(|(_, call)| call);
        let call = match (calls.next(), calls.next()) {
            (Some(call), None) => call,
            (None, _) => return Steps::to_server(question.refused("no call is pending that this could belong to")),
            (Some(_), Some(_)) => {
                let text = "several calls are pending, and the client takes a question only as the answer to one";
                return Steps::to_server(question.refused(text));
            }
        };
        if call.capabilities.get(capability).is_none() {
            let text = format!("the client does not support {capability}");
            return Steps::to_server(mcp::error_response(Some(&question.id), METHOD_NOT_FOUND, &text));
        }
        if waiting >= self.limits.waiting || call.next.len() >= self.limits.waiting {
            let text = "too many calls or requests wait for input (gateway.translate-waiting)";
            return Steps::to_server(question.refused(text));
        }
        call.next.push_back(question);
        Steps { to_server: Vec::new(), to_client: call.ask().into_iter().collect() }
    }

    fn notification(&self, message: &Message) -> Steps {
        let method = message.method().unwrap_or_default().into_owned();
        let resource = || text(message, &["params", "uri"]).unwrap_or_default();
        let is_list = LISTS.iter().any(|(.., notification)| *notification == method);
        if is_list || method == method::RESOURCE_UPDATED {
            let listens = |subscription: &Subscription| match is_list {
                true => subscription.notifications.contains(method.as_str()),
                false => subscription.resources.contains(&resource()),
            };
            let listeners = self.subscriptions.iter().filter(|(_, subscription)| listens(subscription));
            let for_listener = |(id, _): (&Id, &Subscription)| {
                let metadata = format!(r#""{}":{id}"#, meta::SUBSCRIPTION_ID);
                super::json::with_params(message, "", &metadata).bytes().clone()
            };
            return Steps { to_server: Vec::new(), to_client: listeners.map(for_listener).collect() };
        }
        match method.as_str() {
            method::PROGRESS => {
                let token = message.value(&TOKEN_OF_PROGRESS);
                let tokens = self.calls.values().filter_map(|call| call.tokens.as_ref());
                match tokens.into_iter().find(|(first, _)| Some(first) == token.as_ref()) {
                    Some((_, now)) => Steps::to_client(message.with_bytes(&TOKEN_OF_PROGRESS, now)),
                    None => Steps::default(),
                }
            }
            // A client gets those that a request of it wants.
            LOG_MESSAGE => {
                let severity = severity(message, &["params", "level"]);
                let wants =
                    |call: &Call| call.client.is_some() && call.severity.is_some_and(|from| severity >= Some(from));
                let is_wanted = self.calls.values().any(wants);
                Steps {
                    to_server: Vec::new(),
                    to_client: is_wanted.then(|| message.bytes().clone()).into_iter().collect(),
                }
            }
            // Clients of these revisions subscribe to tasks, or ask for their state.
            method::TASK_STATUS_2025 | "notifications/elicitation/complete" => Steps::default(),
            _ => Steps::to_client(message.bytes().clone()),
        }
    }

    /// Gives up calls whose clients have given no input in time.
    pub(super) fn due(&mut self) -> Steps {
        let input_wait = self.limits.input_wait;
        let is_late = |call: &Call| call.asked.values().any(|question| question.at.elapsed() > input_wait);
        let mut steps = Steps::default();
        for call in self.calls.values_mut().filter(|call| call.client.is_none() && is_late(call)) {
            let questions = std::mem::take(&mut call.asked).into_values().chain(call.next.drain(..));
            steps.to_server.extend(questions.map(|question| question.refused("the client gave no input in time")));
            // The server still has to answer the call.
            call.kind = CallKind::Own;
        }
        steps
    }

    fn own_id(&mut self) -> Id {
        self.count += 1;
        Id::own(&format!("{OWN_ID}{}", self.count))
    }
}

impl Call {
    fn new(client: Option<Id>, kind: CallKind) -> Self {
        Self {
            client,
            kind,
            tokens: None,
            capabilities: Value::Null,
            severity: None,
            state: String::new(),
            asked: BTreeMap::new(),
            next: VecDeque::new(),
            answer: None,
            count: 0,
        }
    }

    /// Whether the server may ask the client something because of this request.
    fn can_ask(&self) -> bool {
        !matches!(self.kind, CallKind::Own | CallKind::TaskState | CallKind::TaskCancel) && self.answer.is_none()
    }

    /// The result that asks the client for what waits, if the client is there.
    fn ask(&mut self) -> Option<Bytes> {
        if self.next.is_empty() {
            return None;
        }
        let client = self.client.take()?;
        let mut requests = BTreeMap::new();
        for question in self.next.drain(..) {
            self.count += 1;
            let key = format!("input-{}", self.count);
            let params = question.params.as_deref().map(String::from_utf8_lossy);
            let params = params.map(|params| format!(r#","params":{params}"#)).unwrap_or_default();
            let method = Value::from(question.method.as_str());
            requests.insert(key.clone(), RawValue::from_string(format!(r#"{{"method":{method}{params}}}"#)).ok());
            self.asked.insert(key, question);
        }
        // Empty without random bytes, and then nobody can repeat the call.
        self.state = random_hex().unwrap_or_default();
        let requests = serde_json::to_string(&requests).unwrap_or_default();
        let state = &self.state;
        let result =
            format!(r#"{{"resultType":"input_required","inputRequests":{requests},"requestState":"{state}"}}"#);
        Some(mcp::response(&client, &result))
    }
}

impl Question {
    fn refused(&self, reason: &str) -> Bytes {
        mcp::error_response(Some(&self.id), INTERNAL_ERROR, reason)
    }
}

/// The request without what it says of its client, which the handshake has said.
fn without_claims(message: &Message) -> Message {
    let claims = [meta::PROTOCOL_VERSION, meta::CLIENT_INFO, meta::CLIENT_CAPABILITIES, meta::LOG_LEVEL];
    claims.iter().fold(message.clone(), |message, claim| Message::read(message.without(&["params", "_meta", claim])))
}

/// The response with the type of its result, and these members, which begin with a comma.
fn complete(answer: &Message, members: &str) -> Bytes {
    if answer.value(&["result", "resultType"]).is_some() {
        return answer.bytes().clone();
    }
    with_result(answer, &format!(r#""resultType":"complete"{members}"#))
}

/// The state of a task whose result is an error.
fn failed_task(client: &Id, mut state: Map<String, Value>, answer: &Message) -> Bytes {
    state.insert("status".to_owned(), json!("failed"));
    state.insert("error".to_owned(), read(answer, &["error"]));
    state.insert("resultType".to_owned(), json!("complete"));
    mcp::response(client, &Value::Object(state).to_string())
}

/// A task as the extension has it, of one as 2025-11-25 has it.
fn task(of_revision: &Value) -> Map<String, Value> {
    let member = |(from, to): &(&str, &str)| Some(((*to).to_owned(), of_revision.get(from)?.clone()));
    TASK_MEMBERS.iter().filter_map(member).collect()
}
