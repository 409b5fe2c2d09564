//! A server behind Streamable HTTP, for a client on standard input and output.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::endpoint::{CONNECT_TIMEOUT, Endpoint};
use crate::headers::{LAST_EVENT_ID, METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, encoded};
use crate::session::Session;
use crate::upstream::content::{self, Content, ContentError, Form};
use crate::upstream::link::Receive;
use lro_host::mcp::{self, Fault, Id, Kind, Message, method};
use lro_transport::{Event, EventReader, Spool, SpoolError};

/// Pause before a stream that ended is asked for again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked whether calls in flight have ended.
const POLL: Duration = Duration::from_millis(5);

/// Most characters of a page that is no JSON-RPC message in the error that tells of it.
const SHOWN_CHARACTERS_MAX: usize = 200;

/// Why an exchange ended without the answer.
#[derive(Debug, thiserror::Error)]
enum Lost {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server cannot answer: HTTP status {status}: {text}")]
    Status { status: StatusCode, text: String },
    #[error("the session with the server has ended")]
    Session,
    #[error("the server ended its answer before the result came")]
    Unanswered,
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// A connection to an endpoint.
pub(crate) struct Remote<R> {
    runtime: Option<Runtime>,
    messages: UnboundedSender<Bytes>,
    inner: Arc<Inner<R>>,
}

struct Inner<R> {
    endpoint: Endpoint,
    session: Arc<Session>,
    receiver: Weak<R>,
    state: Mutex<State>,
    /// Held while a new session begins.
    shaking_hands: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    /// Of revisions up to 2025-11-25.
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    /// Requests in flight, by id.
    running: HashMap<Id, AbortHandle>,
    /// By tool: argument and header, where the tool asks for that.
    parameters: BTreeMap<String, Vec<(String, HeaderName)>>,
    listens: bool,
}

impl<R: Receive + 'static> Remote<R> {
    pub(crate) fn new(runtime: Runtime, endpoint: Endpoint, session: Arc<Session>, receiver: Weak<R>) -> Self {
        let inner = Arc::new(Inner {
            endpoint,
            session,
            receiver,
            state: Mutex::default(),
            shaking_hands: tokio::sync::Mutex::default(),
        });
        let (messages, received) = unbounded_channel();
        runtime.spawn(Arc::clone(&inner).run(received));
        Self { runtime: Some(runtime), messages, inner }
    }

    pub(crate) fn send(&self, message: Bytes) {
        // The other end lives as long as the runtime.
        let _ = self.messages.send(message);
    }

    /// Waits for the calls in flight, then ends the session.
    pub(crate) fn finish(&self, patience: Duration) {
        let start = Instant::now();
        while self.inner.session.waiting() > 0 && start.elapsed() < patience {
            std::thread::sleep(POLL);
        }
        let has_session = self.inner.state().id.is_some();
        if let Some(runtime) = self.runtime.as_ref().filter(|_| has_session) {
            let inner = Arc::clone(&self.inner);
            let end = async move {
                let _ = inner.with_session(inner.endpoint.client().delete(inner.endpoint.url())).send().await;
            };
            let _ = runtime.block_on(async { tokio::time::timeout(CONNECT_TIMEOUT, end).await });
        }
    }
}

impl<R> Drop for Remote<R> {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl<R: Receive + 'static> Inner<R> {
    async fn run(self: Arc<Self>, mut messages: UnboundedReceiver<Bytes>) {
        while let Some(bytes) = messages.recv().await {
            let message = Message::read(bytes);
            match (message.kind(), message.method().as_deref()) {
                (Kind::Request, _) => self.start(message),
                (Kind::Notification, Some(method::CANCELLED)) if self.state().id.is_none() => {
                    // Without a session, the end of the connection is what cancels.
                    let id = message.params().request_id.map(|id| Id::of_json(id.get()));
                    let running = id.and_then(|id| self.state().running.remove(&id));
                    if let Some(running) = running {
                        running.abort();
                    }
                }
                // The server is to see these before what follows them.
                (_, method) => {
                    let is_initialized = method == Some(method::INITIALIZED);
                    Arc::clone(&self).exchange(message).await;
                    if is_initialized {
                        self.listen();
                    }
                }
            }
        }
    }

    fn start(self: &Arc<Self>, message: Message) {
        let Some(id) = message.id() else { return };
        let (inner, ended) = (Arc::clone(self), id.clone());
        let task = tokio::spawn(async move {
            Arc::clone(&inner).exchange(message).await;
            inner.state().running.remove(&ended);
        });
        let handle = task.abort_handle();
        if !handle.is_finished() {
            self.state().running.insert(id, handle);
        }
    }

    /// Sends a message and hands on what is answered.
    async fn exchange(self: Arc<Self>, message: Message) {
        let id = message.id().filter(|_| message.kind() == Kind::Request);
        let ended = match self.answered(&message, id.as_ref()).await {
            // The client may use the id again by now.
            Ok(true) => return,
            Ok(false) => Lost::Unanswered,
            Err(lost) => lost,
        };
        match id.and_then(|id| self.session.fail(&id, &ended.to_string())) {
            Some(answer) => drop(self.receive(answer, None)),
            None if matches!(ended, Lost::Unreachable(_) | Lost::Status { .. }) => {
                tracing::warn!(%ended, "a message did not reach the server");
            }
            None => {}
        }
    }

    /// Tells whether the answer to the request came.
    async fn answered(self: &Arc<Self>, message: &Message, id: Option<&Id>) -> Result<bool, Lost> {
        let of_session = self.state().id.clone();
        let mut response = self.post(message).await?;
        if let Some(of_session) = of_session.filter(|_| response.status() == StatusCode::NOT_FOUND && id.is_some()) {
            self.shake_hands(&of_session).await?;
            response = self.post(message).await?;
        }
        if message.method().as_deref() == Some(method::INITIALIZE) {
            self.state().id = response.headers().get(&SESSION_ID).cloned();
        }
        self.read(response, id).await
    }

    /// Begins a new session when the server has forgotten the old one.
    async fn shake_hands(self: &Arc<Self>, old: &HeaderValue) -> Result<(), Lost> {
        let _alone = self.shaking_hands.lock().await;
        if self.state().id.as_ref() != Some(old) {
            return Ok(());
        }
        let (initialize, initialized) = self.session.handshake().ok_or(Lost::Session)?;
        tracing::warn!("the session with the server has ended; a new one begins");
        let response = self.post(&Message::read(initialize)).await?;
        if !response.status().is_success() {
            return Err(Lost::Session);
        }
        self.state().id = response.headers().get(&SESSION_ID).cloned();
        // Its content is known from the first time; it must be read before the connection can be used again.
        let _ = response.bytes().await;
        if let Some(initialized) = initialized {
            self.post(&Message::read(initialized)).await?;
        }
        self.listen();
        Ok(())
    }

    async fn post(&self, message: &Message) -> Result<Response, Lost> {
        let request = self.endpoint.client().post(self.endpoint.url());
        let request = match message.method().as_deref() {
            Some(method::INITIALIZE) => request.headers(self.endpoint.headers().clone()),
            _ => self.with_session(request),
        };
        let request = request.headers(self.standard_headers(message));
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, "application/json, text/event-stream").body(message.bytes().clone());
        request.send().await.map_err(|error| Lost::Unreachable(Endpoint::explain(&error)))
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        let state = self.state();
        let mut headers = self.endpoint.headers().clone();
        if let Some(id) = &state.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(revision) = &state.revision {
            headers.insert(PROTOCOL_VERSION, revision.clone());
        }
        request.headers(headers)
    }

    /// What revision 2026-07-28 repeats from the body.
    fn standard_headers(&self, message: &Message) -> HeaderMap {
        let params = message.params();
        let mut headers = HeaderMap::new();
        let revision = params.meta.as_ref().and_then(|meta| meta.protocol_version.as_deref());
        let Some(revision) = revision.and_then(encoded) else { return headers };
        headers.insert(PROTOCOL_VERSION, revision);
        let method = message.method();
        headers.extend(method.as_deref().and_then(encoded).map(|method| (METHOD, method)));
        let name = method.as_deref().and_then(|method| params.subject(method));
        headers.extend(name.and_then(encoded).map(|name| (NAME, name)));
        let state = self.state();
        let parameters = params.name.as_deref().and_then(|tool| state.parameters.get(tool));
        for (argument, header) in parameters.into_iter().flatten() {
            let value = message.value(&["params", "arguments", argument]);
            headers.extend(value.and_then(|value| parameter(&value)).map(|value| (header.clone(), value)));
        }
        headers
    }

    /// Hands on what a response holds.
    async fn read(self: &Arc<Self>, response: Response, id: Option<&Id>) -> Result<bool, Lost> {
        let status = response.status();
        let content = Content::of(response.headers())?;
        if content.is_stream {
            let (last, answered) = self.events(content, response, id).await?;
            return match (last, id) {
                (Some(last), Some(id)) if !answered => self.resume(last, id).await,
                _ => Ok(answered),
            };
        }
        let mut chunks = content.chunks(response);
        let mut spool = Spool::new(Arc::clone(&self.session.rules.limits));
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk?;
            spool.push(&chunk)?;
        }
        let body = spool.finish()?;
        if body.is_empty() && status.is_success() {
            return Ok(false);
        }
        if content::form(&body) == Form::Wide {
            return Err(ContentError::Charset("utf-16".to_owned()).into());
        }
        let message = Message::read(body.clone());
        match (message.fault(), message.kind()) {
            (Some(fault), _) => self.refuse(&message, fault, status, id).await,
            // An error about a message that could not be read has no id, but here it is clear which one it was.
            (None, Kind::Response) if message.id().is_none() && message.result().is_none() => {
                let text = message.value(&["error", "message"]);
                let text = text.and_then(|text| serde_json::from_slice::<String>(&text).ok()).unwrap_or_default();
                Err(Lost::Status { status, text: beginning(&text) })
            }
            _ => Ok(self.receive(body, id)),
        }
    }

    /// Answers whom something that is not a message may be read to answer. Tells whether the request is among them.
    async fn refuse(
        self: &Arc<Self>,
        message: &Message,
        fault: Fault,
        status: StatusCode,
        id: Option<&Id>,
    ) -> Result<bool, Lost> {
        let refusal = format!("the server cannot answer: HTTP status {status}");
        let is_tool = id.is_some_and(|id| self.session.awaits_tool(id));
        let mut errors = Vec::new();
        message.each_id(&mut |id| errors.extend(self.session.fail(&id, &format!("{refusal}: {fault}"))));
        for error in errors {
            self.receive(error, None);
        }
        // The text of a page helps, unless it may be the result of a tool.
        let page = beginning(&String::from_utf8_lossy(message.bytes()));
        match id.filter(|_| is_tool) {
            None => Err(Lost::Status { status, text: page }),
            Some(_) if status.is_success() => Err(Lost::Status { status, text: fault.to_string() }),
            Some(id) => {
                let Some((shown, filtering)) = self.session.page(id, page.as_bytes()) else { return Ok(true) };
                let passes = self.session.settled(filtering).await == shown;
                let text = if passes { format!("{refusal}: {page}") } else { refusal };
                self.receive(mcp::error_response(Some(id), mcp::INTERNAL_ERROR, &text), None);
                Ok(true)
            }
        }
    }

    /// Hands on the events of a response. Returns the id of the last one, and whether the answer to the request came.
    async fn events(
        self: &Arc<Self>,
        content: Content,
        response: Response,
        id: Option<&Id>,
    ) -> Result<(Option<String>, bool), Lost> {
        let mut chunks = content.chunks(response);
        let mut reader = EventReader::new(Arc::clone(&self.session.rules.limits));
        let (mut events, mut last, mut answered) = (Vec::new(), None, false);
        while let Some(chunk) = chunks.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(_) if last.is_some() || answered => return Ok((last, answered)),
                Err(error) => return Err(error.into()),
            };
            let read = reader.push(&chunk, &mut events);
            for event in events.drain(..) {
                last = event.id().map(str::to_owned).or(last);
                if let Some(data) = event.data() {
                    answered |= self.receive(data, id);
                }
            }
            read?;
        }
        // The last event may lack the line that ends it.
        let rest = reader.finish().ok().flatten();
        let event = rest.and_then(|rest| Event::of_rest(&rest, &self.session.rules.limits).ok());
        let data = event.and_then(|event| event.data());
        if let Some(data) = data.filter(|data| Message::read(data.clone()).fault().is_none()) {
            answered |= self.receive(data, id);
        }
        Ok((last, answered))
    }

    /// Takes up a stream again that ended before the answer came.
    async fn resume(self: &Arc<Self>, mut last: String, id: &Id) -> Result<bool, Lost> {
        while self.session.waits_for(id) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
            let response = self.get(Some(&last)).await?;
            if !response.status().is_success() {
                return Ok(false);
            }
            let content = Content::of(response.headers())?;
            let (read, answered) = self.events(content, response, Some(id)).await?;
            if answered {
                return Ok(true);
            }
            last = read.unwrap_or(last);
        }
        Ok(true)
    }

    async fn get(&self, last: Option<&str>) -> Result<Response, Lost> {
        let request = self.with_session(self.endpoint.client().get(self.endpoint.url()));
        let request = request.header(ACCEPT, "text/event-stream");
        let request = match last.and_then(|last| HeaderValue::from_str(last).ok()) {
            Some(last) => request.header(LAST_EVENT_ID, last),
            None => request,
        };
        request.send().await.map_err(|error| Lost::Unreachable(Endpoint::explain(&error)))
    }

    /// Listens to what belongs to no request, if the server has a stream for that.
    fn listen(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().listens, true) {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let mut last = None;
            while let Ok(response) = inner.get(last.as_deref()).await {
                if !response.status().is_success() {
                    break;
                }
                let Ok(content) = Content::of(response.headers()) else { break };
                let read = inner.events(content, response, None).await.ok();
                last = read.and_then(|(read, _)| read).or(last);
                tokio::time::sleep(RECONNECT_PAUSE).await;
            }
            inner.state().listens = false;
        });
    }

    /// Hands on a message. Tells whether it answers a request.
    fn receive(self: &Arc<Self>, bytes: Bytes, id: Option<&Id>) -> bool {
        let message = Message::read(bytes.clone());
        self.learn(&message);
        let asked = message.id().map(|id| self.session.asked_as(id));
        let answers = message.kind() == Kind::Response && asked.as_ref() == id && id.is_some();
        if let Some(receiver) = self.receiver.upgrade() {
            // The client may be slow to read.
            tokio::task::block_in_place(|| receiver.message(bytes));
        }
        answers
    }

    /// Takes from an answer what later requests need.
    fn learn(&self, message: &Message) {
        if message.kind() != Kind::Response {
            return;
        }
        if let Some(revision) = message.value(&["result", "protocolVersion"]) {
            let revision = serde_json::from_slice::<String>(&revision).ok();
            self.state().revision = revision.and_then(|revision| HeaderValue::from_str(&revision).ok());
        }
        for tool in mcp::listed_tools(message) {
            let parameters = tool.input_schema.map(header_parameters).unwrap_or_default();
            if !parameters.is_empty() {
                self.state().parameters.insert(tool.name.into_owned(), parameters);
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The beginning of what a server says, for an error.
fn beginning(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// The arguments that a tool wants to be repeated in headers.
fn header_parameters(schema: &[u8]) -> Vec<(String, HeaderName)> {
    #[derive(serde::Deserialize)]
    struct Schema {
        #[serde(default)]
        properties: BTreeMap<String, serde_json::Value>,
    }
    let schema: Option<Schema> = serde_json::from_slice(schema).ok();
    let header = |(argument, schema): (String, serde_json::Value)| {
        let name = format!("mcp-param-{}", schema.get("x-mcp-header")?.as_str()?);
        Some((argument, name.to_ascii_lowercase().parse().ok()?))
    };
    schema.into_iter().flat_map(|schema| schema.properties).filter_map(header).collect()
}

/// The value of an argument as a header; none for one that is no string, number or boolean.
fn parameter(json: &[u8]) -> Option<HeaderValue> {
    match serde_json::from_slice(json).ok()? {
        serde_json::Value::String(text) => encoded(&text),
        value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => encoded(&value.to_string()),
        _ => None,
    }
}
