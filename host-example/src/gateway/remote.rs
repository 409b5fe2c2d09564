//! A server behind Streamable HTTP, for a client on standard input and output.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Client, RequestBuilder, Response, StatusCode, Url, redirect};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::AbortHandle;

use super::content::{self, Content, ContentError, Form};
use super::link::Receive;
use super::session::Session;
use crate::mcp::{self, Fault, Id, Kind, Message};
use crate::transport::{Event, EventReader, Spool};

/// How long a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Pause before a stream that ended is asked for again.
const RECONNECT_PAUSE: Duration = Duration::from_secs(1);

/// How often it is looked whether calls in flight have ended.
const POLL: Duration = Duration::from_millis(5);

/// Most characters of a page that is no JSON-RPC message in the error that tells of it.
const SHOWN_CHARACTERS_MAX: usize = 200;

const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// A server's address, and what is sent with each request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    client: Client,
}

/// Why there is no such endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL.
    #[error("`{url}` is not a URL: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The client for it cannot be made, such as without certificates.
    #[error("no client for HTTP: {0}")]
    Client(String),
}

impl Endpoint {
    /// An endpoint with headers for each request to it.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn new(url: &str, headers: HeaderMap) -> Result<Self, EndpointError> {
        static PROVIDER: Once = Once::new();
        // Fails only when the program has one already, which serves as well.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let parsed =
            url.parse().map_err(|error| EndpointError::Url { url: url.to_owned(), reason: format!("{error}") });
        // A redirect would send a POST again as a GET.
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirect::Policy::none());
        let client = client.build().map_err(|error| EndpointError::Client(Self::explain(&error)))?;
        Ok(Self { url: parsed?, headers, client })
    }

    pub(super) fn url(&self) -> Url {
        self.url.clone()
    }

    pub(super) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(super) const fn client(&self) -> &Client {
        &self.client
    }

    /// An error with its causes, and without the address, which may hold a secret.
    pub(super) fn explain(error: &reqwest::Error) -> String {
        let mut text = String::from(if error.is_connect() { "no connection" } else { "the request failed" });
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        text
    }
}

/// A connection to an endpoint.
pub(super) struct Remote<R> {
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
    pub(super) fn new(runtime: Runtime, endpoint: Endpoint, session: Arc<Session>, receiver: Weak<R>) -> Self {
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

    pub(super) fn send(&self, message: Bytes) {
        // The other end lives as long as the runtime.
        let _ = self.messages.send(message);
    }

    /// Waits for the calls in flight, then ends the session.
    pub(super) fn finish(&self, patience: Duration) {
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
                (Kind::Notification, Some("notifications/cancelled")) if self.state().id.is_none() => {
                    // Without a session, the end of the connection is what cancels.
                    let id = message.params().request_id.map(|id| Id::of_json(id.get()));
                    let running = id.and_then(|id| self.state().running.remove(&id));
                    if let Some(running) = running {
                        running.abort();
                    }
                }
                // The server is to see these before what follows them.
                (_, method) => {
                    let is_initialized = method == Some("notifications/initialized");
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
            Ok(false) => "the server ended its answer before the result came".to_owned(),
            Err(reason) => reason,
        };
        match id.and_then(|id| self.session.fail(&id, &ended)) {
            Some(answer) => drop(self.receive(answer, None)),
            None if ended.starts_with("the server cannot") => {
                tracing::warn!(ended, "a message did not reach the server");
            }
            None => {}
        }
    }

    /// Tells whether the answer to the request came.
    async fn answered(self: &Arc<Self>, message: &Message, id: Option<&Id>) -> Result<bool, String> {
        let of_session = self.state().id.clone();
        let mut response = self.post(message).await?;
        if let Some(of_session) = of_session.filter(|_| response.status() == StatusCode::NOT_FOUND && id.is_some()) {
            self.shake_hands(&of_session).await?;
            response = self.post(message).await?;
        }
        if message.method().as_deref() == Some("initialize") {
            self.state().id = response.headers().get(&SESSION_ID).cloned();
        }
        self.read(response, id).await
    }

    /// Begins a new session when the server has forgotten the old one.
    async fn shake_hands(self: &Arc<Self>, old: &HeaderValue) -> Result<(), String> {
        let _alone = self.shaking_hands.lock().await;
        if self.state().id.as_ref() != Some(old) {
            return Ok(());
        }
        let lost = || "the session with the server has ended".to_owned();
        let (initialize, initialized) = self.session.handshake().ok_or_else(lost)?;
        tracing::warn!("the session with the server has ended; a new one begins");
        let response = self.post(&Message::read(initialize)).await?;
        if !response.status().is_success() {
            return Err(lost());
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

    async fn post(&self, message: &Message) -> Result<Response, String> {
        let request = self.endpoint.client().post(self.endpoint.url());
        let request = match message.method().as_deref() {
            Some("initialize") => request.headers(self.endpoint.headers().clone()),
            _ => self.with_session(request),
        };
        let request = request.headers(self.standard_headers(message));
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, "application/json, text/event-stream").body(message.bytes().clone());
        request.send().await.map_err(|error| format!("the server cannot be reached: {}", Endpoint::explain(&error)))
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
        let Some(revision) = revision.and_then(header_value) else { return headers };
        headers.insert(PROTOCOL_VERSION, revision);
        let method = message.method();
        headers.extend(method.as_deref().and_then(header_value).map(|method| (METHOD, method)));
        let name = match method.as_deref() {
            Some("tools/call" | "prompts/get") => params.name.as_deref(),
            Some("resources/read") => params.uri.as_deref(),
            Some(method) if method.starts_with("tasks/") => params.task_id.as_deref(),
            _ => None,
        };
        headers.extend(name.and_then(header_value).map(|name| (NAME, name)));
        let state = self.state();
        let parameters = params.name.as_deref().and_then(|tool| state.parameters.get(tool));
        for (argument, header) in parameters.into_iter().flatten() {
            let value = message.value(&["params", "arguments", argument]);
            headers.extend(value.and_then(|value| parameter(&value)).map(|value| (header.clone(), value)));
        }
        headers
    }

    /// Hands on what a response holds.
    async fn read(self: &Arc<Self>, response: Response, id: Option<&Id>) -> Result<bool, String> {
        let status = response.status();
        let content = Content::of(response.headers()).map_err(|error| error.to_string())?;
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
            let chunk = chunk.map_err(|error| error.to_string())?;
            spool.push(&chunk).map_err(|error| error.to_string())?;
        }
        let body = spool.finish().map_err(|error| error.to_string())?;
        if body.is_empty() && status.is_success() {
            return Ok(false);
        }
        if content::form(&body) == Form::Wide {
            return Err(ContentError::Charset("utf-16".to_owned()).to_string());
        }
        let message = Message::read(body.clone());
        match (message.fault(), message.kind()) {
            (Some(fault), _) => self.refuse(&message, fault, status, id).await,
            // An error about a message that could not be read has no id, but here it is clear which one it was.
            (None, Kind::Response) if message.id().is_none() && message.result().is_none() => {
                let text = message.value(&["error", "message"]);
                let text = text.and_then(|text| serde_json::from_slice::<String>(&text).ok()).unwrap_or_default();
                Err(format!("the server cannot answer: HTTP status {status}: {}", beginning(&text)))
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
    ) -> Result<bool, String> {
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
            None => Err(format!("{refusal}: {page}")),
            Some(_) if status.is_success() => Err(format!("{refusal}: {fault}")),
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
    ) -> Result<(Option<String>, bool), String> {
        let mut chunks = content.chunks(response);
        let mut reader = EventReader::new(Arc::clone(&self.session.rules.limits));
        let (mut events, mut last, mut answered) = (Vec::new(), None, false);
        while let Some(chunk) = chunks.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(_) if last.is_some() || answered => return Ok((last, answered)),
                Err(error) => return Err(error.to_string()),
            };
            let read = reader.push(&chunk, &mut events);
            for event in events.drain(..) {
                last = event.id().map(str::to_owned).or(last);
                if let Some(data) = event.data() {
                    answered |= self.receive(data, id);
                }
            }
            read.map_err(|error| error.to_string())?;
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
    async fn resume(self: &Arc<Self>, mut last: String, id: &Id) -> Result<bool, String> {
        while self.session.waits_for(id) {
            tokio::time::sleep(RECONNECT_PAUSE).await;
            let response = self.get(Some(&last)).await?;
            if !response.status().is_success() {
                return Ok(false);
            }
            let content = Content::of(response.headers()).map_err(|error| error.to_string())?;
            let (read, answered) = self.events(content, response, Some(id)).await?;
            if answered {
                return Ok(true);
            }
            last = read.unwrap_or(last);
        }
        Ok(true)
    }

    async fn get(&self, last: Option<&str>) -> Result<Response, String> {
        let request = self.with_session(self.endpoint.client().get(self.endpoint.url()));
        let request = request.header(ACCEPT, "text/event-stream");
        let request = match last.and_then(|last| HeaderValue::from_str(last).ok()) {
            Some(last) => request.header(LAST_EVENT_ID, last),
            None => request,
        };
        request.send().await.map_err(|error| format!("the server cannot be reached: {}", Endpoint::explain(&error)))
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
        serde_json::Value::String(text) => header_value(&text),
        value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => header_value(&value.to_string()),
        _ => None,
    }
}

/// A text as the value of a header: in base64 when it would not survive as it is.
fn header_value(text: &str) -> Option<HeaderValue> {
    use base64::Engine as _;
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !(text.starts_with("=?base64?") && text.ends_with("?=")) {
        return HeaderValue::from_str(text).ok();
    }
    let encoded = base64::engine::general_purpose::STANDARD.encode(text);
    HeaderValue::from_str(&format!("=?base64?{encoded}?=")).ok()
}
