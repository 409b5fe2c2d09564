//! A connection to a Streamable HTTP server.

mod stream;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::StreamExt;
use lro_host::mcp::{self, Fault, Id, Kind, Message, method};
use lro_transport::{Spool, SpoolError};
use parking_lot::{Mutex, MutexGuard};
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{RequestBuilder, Response, StatusCode};
use tokio::runtime::Runtime;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use self::stream::StreamEnd;
use super::endpoint::{CONNECT_TIMEOUT, Endpoint};
use crate::headers::{METHOD, NAME, PROTOCOL_VERSION, SESSION_ID, encoded};
use crate::session::{ErrorPage, Session};
use crate::trace;
use crate::translate::{Steps, Translator};
use crate::upstream::content::{self, BodyKind, Content, ContentError, HeaderError};
use crate::upstream::link::Receive;
use crate::upstream::retry;

/// How long later messages wait until the server has taken a notification or a response.
const ORDER_TIMEOUT: Duration = Duration::from_secs(10);

/// How long a stream is read on when nobody waits for its response any more.
const UNWANTED_GRACE: Duration = Duration::from_secs(10);

/// How often calls in flight are checked at shutdown.
const DRAIN_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How often a message is retried while too many wait.
const ROOM_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum number of a client's messages that wait until the server has those before them.
const WAITING_MAX: usize = 1_000;

/// Maximum size in bytes of the names that are kept of the arguments to repeat in headers.
const PARAMETERS_BYTES_MAX: usize = 1 << 20;

/// Maximum number of characters of an HTTP error page to quote in an error.
const EXCERPT_CHARACTERS_MAX: usize = 200;

/// Why a request got no response.
#[derive(Debug, thiserror::Error)]
enum ExchangeError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server answered with HTTP status {status}: {text}")]
    Status { status: StatusCode, text: String },
    #[error("the session with the server has ended, and a new one cannot be started: {0}")]
    Session(String),
    #[error("the server ended its response without the result")]
    Unanswered,
    #[error(transparent)]
    Content(#[from] ContentError),
    #[error(transparent)]
    Spool(#[from] SpoolError),
}

/// A connection to an endpoint, with its runtime.
pub(crate) struct Remote<R> {
    runtime: Option<Runtime>,
    inner: Arc<Inner<R>>,
}

struct Inner<R> {
    endpoint: Endpoint,
    session: Arc<Session>,
    receiver: Weak<R>,
    translator: Translator,
    messages: UnboundedSender<Queued>,
    /// Permits for messages of the client.
    room: Arc<Semaphore>,
    state: Mutex<ServerSession>,
    /// Held while a new session is initialized.
    handshake_lock: tokio::sync::Mutex<()>,
}

/// A message to send, with the permit of one from the client.
struct Queued(Bytes, Option<OwnedSemaphorePermit>);

/// The server's demand for authorization.
#[derive(Clone, Debug)]
pub(crate) struct Challenge {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
}

#[derive(Default)]
struct ServerSession {
    /// Headers of the client, which those of the configuration replace.
    client_headers: HeaderMap,
    challenge: Option<Challenge>,
    /// The session id, in revisions up to 2025-11-25.
    id: Option<HeaderValue>,
    revision: Option<HeaderValue>,
    running: HashMap<Id, Running>,
    parameters: Parameters,
    is_listening: bool,
}

/// A request in flight.
struct Running {
    task: AbortHandle,
    /// What its response tells about the server, until it has.
    tells: Option<Tells>,
}

/// What the response to a request tells about the server, for later requests.
#[derive(Clone, Copy)]
enum Tells {
    Revision,
    Parameters,
}

impl Tells {
    fn of(request: &Message) -> Option<Self> {
        match request.method().as_deref() {
            Some(method::INITIALIZE) => Some(Self::Revision),
            Some(method::TOOLS_LIST) => Some(Self::Parameters),
            _ => None,
        }
    }
}

/// The arguments to repeat in headers, and the headers, by tool.
#[derive(Default)]
struct Parameters {
    by_tool: BTreeMap<String, Vec<(String, HeaderName)>>,
    /// Size of the names in it.
    bytes: usize,
}

impl Parameters {
    /// Sets what is known of a tool. Returns whether there is room for it: at most [`PARAMETERS_BYTES_MAX`] of names.
    fn set(&mut self, tool: String, parameters: Vec<(String, HeaderName)>) -> bool {
        let size = |parameters: &[(String, HeaderName)]| -> usize {
            parameters.iter().map(|(argument, header)| tool.len() + argument.len() + header.as_str().len()).sum()
        };
        self.bytes -= self.by_tool.remove(&tool).map_or(0, |before| size(&before));
        let bytes = size(&parameters);
        let fits = self.bytes + bytes <= PARAMETERS_BYTES_MAX;
        if fits && !parameters.is_empty() {
            self.bytes += bytes;
            self.by_tool.insert(tool, parameters);
        }
        fits
    }
}

impl<R: Receive + 'static> Remote<R> {
    pub(crate) fn new(
        runtime: Runtime,
        endpoint: Endpoint,
        session: Arc<Session>,
        receiver: Weak<R>,
        translator: Translator,
    ) -> Self {
        let (messages, received) = unbounded_channel();
        let inner = Arc::new(Inner {
            endpoint,
            session,
            receiver,
            translator,
            messages,
            room: Arc::new(Semaphore::new(WAITING_MAX)),
            state: Mutex::default(),
            handshake_lock: tokio::sync::Mutex::default(),
        });
        runtime.spawn(Arc::clone(&inner).run(received));
        Self { runtime: Some(runtime), inner }
    }

    /// Sends a message. Blocks while too many wait.
    pub(crate) fn send(&self, message: Bytes) {
        while !self.try_send(message.clone()) && !self.inner.messages.is_closed() {
            std::thread::sleep(ROOM_POLL_INTERVAL);
        }
    }

    /// Sends a message, unless too many wait. Returns whether it was sent.
    pub(crate) fn try_send(&self, message: Bytes) -> bool {
        let Ok(permit) = Arc::clone(&self.inner.room).try_acquire_owned() else { return false };
        self.follow(self.inner.translator.client_message(message), Some(permit));
        true
    }

    /// Does what is due because time has passed.
    pub(crate) fn poll(&self) {
        self.follow(self.inner.translator.due(), None);
    }

    /// Sends these headers of the client with the messages that follow.
    pub(crate) fn set_client_headers(&self, headers: HeaderMap) {
        self.inner.state().client_headers = headers;
    }

    /// The server's demand for authorization since the last call of this function, if there was one.
    pub(crate) fn take_challenge(&self) -> Option<Challenge> {
        self.inner.state().challenge.take()
    }

    pub(crate) fn translator(&self) -> &Translator {
        &self.inner.translator
    }

    /// Follows the steps; the last message for the server has the permit.
    fn follow(&self, steps: Steps, permit: Option<OwnedSemaphorePermit>) {
        let Steps { to_server, to_client } = steps;
        self.inner.queue(to_server, permit);
        if let Some(receiver) = self.inner.receiver.upgrade().filter(|_| !to_client.is_empty()) {
            // The caller may hold what receiving a message needs.
            let deliver = move |_| to_client.into_iter().for_each(|message| receiver.message(message));
            self.inner.session.rules.senders.run(deliver);
        }
    }

    /// Waits for the calls in flight, then ends the session.
    pub(crate) fn finish(&self, timeout: Duration) {
        let start = Instant::now();
        while self.inner.session.pending_count() > 0 && start.elapsed() < timeout {
            std::thread::sleep(DRAIN_POLL_INTERVAL);
        }
        self.end_session();
    }

    /// Ends the session with the server, if there is one.
    pub(crate) fn end_session(&self) {
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
    fn queue(&self, messages: Vec<Bytes>, mut permit: Option<OwnedSemaphorePermit>) {
        let count = messages.len();
        for (index, message) in messages.into_iter().enumerate() {
            let permit = if index + 1 == count { permit.take() } else { None };
            // The receiver lives as long as the runtime.
            let _ = self.messages.send(Queued(message, permit));
        }
    }

    async fn run(self: Arc<Self>, mut messages: UnboundedReceiver<Queued>) {
        while let Some(Queued(bytes, _permit)) = messages.recv().await {
            let message = Message::read(bytes);
            match (message.kind(), message.method().as_deref()) {
                (Kind::Request, _) => self.start(message),
                (Kind::Notification, Some(method::CANCELLED)) if self.state().id.is_none() => {
                    // Without a session, closing the connection cancels the request.
                    let id = message.params().cancelled_id();
                    let running = id.and_then(|id| self.state().running.remove(&id));
                    if let Some(running) = running {
                        running.task.abort();
                    }
                }
                // The server must see these before the messages that follow.
                (_, method) => {
                    let is_initialized = method == Some(method::INITIALIZED);
                    self.exchange_in_order(message).await;
                    if is_initialized {
                        self.listen();
                    }
                }
            }
        }
    }

    fn start(self: &Arc<Self>, message: Message) {
        let Some(id) = message.id() else { return };
        let (inner, ended, tells) = (Arc::clone(self), id.clone(), Tells::of(&message));
        // The session does not know the requests of the translator.
        let is_awaited = self.session.is_pending(&id);
        let exchange = async move {
            let exchange = Arc::clone(&inner).exchange(message);
            match is_awaited {
                true => tokio::select! {
                    () = exchange => {}
                    () = inner.unwanted(&ended) => {}
                },
                false => exchange.await,
            }
            inner.state().running.remove(&ended);
        };
        // The lock is held so that the task does not end before it is recorded.
        let mut state = self.state();
        let task = tokio::spawn(exchange).abort_handle();
        state.running.insert(id, Running { task, tells });
    }

    /// Waits until a response has not been awaited for a while. What a server sends behind its response is still read.
    async fn unwanted(&self, id: &Id) {
        self.session.until_answered(id).await;
        tokio::time::sleep(UNWANTED_GRACE).await;
    }

    /// Sends a notification or a response, and waits until the server has taken it, but not for ever.
    async fn exchange_in_order(self: &Arc<Self>, message: Message) {
        let timeout = Duration::from_millis(self.session.rules.config.gateway.call_timeout_ms.get());
        let exchange = tokio::spawn(tokio::time::timeout(timeout, Arc::clone(self).exchange(message)));
        if tokio::time::timeout(ORDER_TIMEOUT, exchange).await.is_err() {
            let seconds = ORDER_TIMEOUT.as_secs();
            tracing::warn!(
                "the server takes longer than {seconds} s to take a notification: later messages do not wait for it"
            );
        }
    }

    /// Sends a message and forwards the response.
    async fn exchange(self: Arc<Self>, message: Message) {
        let id = message.id().filter(|_| message.kind() == Kind::Request);
        let ended = match self.send_and_forward(&message, id.as_ref()).await {
            // The client may have reused the id by now.
            Ok(true) => return,
            Ok(false) => ExchangeError::Unanswered,
            Err(error) => error,
        };
        if let Some(id) = id.as_ref().filter(|_| !self.translator.is_plain()) {
            // It may be a request of the translator, or one that shows what the server does not understand.
            self.receive(mcp::error_response(Some(id), mcp::INTERNAL_ERROR, &ended.to_string()), None);
            return;
        }
        match id.and_then(|id| self.session.fail(&id, &ended.to_string())) {
            Some(failure) => drop(self.receive(failure.error, None)),
            None if matches!(ended, ExchangeError::Unreachable(_) | ExchangeError::Status { .. }) => {
                // A text is logged escaped, as this one may quote the server.
                let ended = ended.to_string();
                tracing::warn!(ended, "a message did not reach the server");
            }
            None => {}
        }
    }

    /// Sends a message and forwards the response. Returns whether it answered the request.
    async fn send_and_forward(self: &Arc<Self>, message: &Message, id: Option<&Id>) -> Result<bool, ExchangeError> {
        let session_id = self.state().id.clone();
        let mut response = self.post(message).await?;
        if let Some(session_id) = session_id.filter(|_| response.status() == StatusCode::NOT_FOUND && id.is_some()) {
            self.reinitialize(&session_id).await?;
            response = self.post(message).await?;
        }
        let (status, headers) = (response.status(), response.headers());
        let is_challenge = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN);
        if is_challenge && headers.contains_key(WWW_AUTHENTICATE) {
            let all = headers.get_all(WWW_AUTHENTICATE).iter().map(|value| (WWW_AUTHENTICATE, value.clone()));
            self.state().challenge = Some(Challenge { status, headers: all.collect() });
        }
        if message.method().as_deref() == Some(method::INITIALIZE) {
            self.state().id = headers.get(&SESSION_ID).cloned();
        }
        self.read(response, id).await
    }

    /// Initializes a new session after the server has dropped the old one. Others that need it wait meanwhile, so that it has
    /// the time of a start.
    async fn reinitialize(self: &Arc<Self>, old: &HeaderValue) -> Result<(), ExchangeError> {
        let _alone = self.handshake_lock.lock().await;
        if self.state().id.as_ref() != Some(old) {
            return Ok(());
        }
        tracing::warn!("the session with the server has ended; starting a new one");
        let millis = self.session.rules.config.gateway.start_timeout_ms.get();
        let late = |_| {
            let text = format!("the server did not answer initialize within {millis} ms (gateway.start-timeout-ms)");
            ExchangeError::Session(text)
        };
        tokio::time::timeout(Duration::from_millis(millis), self.begin_session()).await.map_err(late)??;
        self.listen();
        Ok(())
    }

    /// Repeats the handshake of the client.
    async fn begin_session(&self) -> Result<(), ExchangeError> {
        let unknown = || ExchangeError::Session("the handshake of the client is not known".to_owned());
        let (initialize, initialized) = self.translator.handshake(self.session.handshake()).ok_or_else(unknown)?;
        let initialize = Message::read(initialize);
        let response = self.post(&initialize).await?;
        let status = response.status();
        if !status.is_success() {
            return Err(ExchangeError::Session(format!("the server answered initialize with HTTP status {status}")));
        }
        let id = response.headers().get(&SESSION_ID).cloned();
        // What the answer says is known from the first handshake.
        let answer = self.answer_to(&initialize.id().ok_or_else(unknown)?, response).await?;
        if answer.result().is_none() {
            let text = excerpt(&answer.error_text().unwrap_or_default());
            return Err(ExchangeError::Session(format!("the server answered initialize with the error {text:?}")));
        }
        self.state().id = id;
        if let Some(initialized) = initialized {
            self.post(&Message::read(initialized)).await?;
        }
        Ok(())
    }

    /// The answer to a request of the gateway itself. What else a stream brings is left out, before the answer and behind it.
    async fn answer_to(&self, id: &Id, response: Response) -> Result<Message, ExchangeError> {
        let is_answer = |message: &Message| message.kind() == Kind::Response && message.id().as_ref() == Some(id);
        let content = content::of_headers(response.headers())?;
        if content.is_stream {
            return self.event_that(content, response, is_answer).await?.ok_or(ExchangeError::Unanswered);
        }
        let answer = Message::read(self.body(content, response).await?);
        if is_answer(&answer) { Ok(answer) } else { Err(ExchangeError::Unanswered) }
    }

    /// The whole body of a response.
    async fn body(&self, content: Content, response: Response) -> Result<Bytes, ExchangeError> {
        let mut chunks = content::chunks(content, response);
        let mut spool = Spool::new(Arc::clone(&self.session.rules.limits));
        while let Some(chunk) = chunks.next().await {
            spool.push(&chunk?)?;
        }
        Ok(spool.finish()?)
    }

    async fn post(&self, message: &Message) -> Result<Response, ExchangeError> {
        let request = self.endpoint.client().post(self.endpoint.url());
        let request = match message.method().as_deref() {
            Some(method::INITIALIZE) => request.headers(self.own_headers(&self.state())),
            _ => self.with_session(request),
        };
        let request = request.headers(self.standard_headers(message)).headers(trace::headers(message));
        let request = request.header(CONTENT_TYPE, "application/json");
        let request = request.header(ACCEPT, "application/json, text/event-stream").body(message.bytes().clone());
        request.send().await.map_err(|error| ExchangeError::Unreachable(Endpoint::explain(&error)))
    }

    fn with_session(&self, request: RequestBuilder) -> RequestBuilder {
        let state = self.state();
        let mut headers = self.own_headers(&state);
        if let Some(id) = &state.id {
            headers.insert(SESSION_ID, id.clone());
        }
        if let Some(revision) = &state.revision {
            headers.insert(PROTOCOL_VERSION, revision.clone());
        }
        request.headers(headers)
    }

    /// The headers of the client and of the configuration.
    fn own_headers(&self, state: &ServerSession) -> HeaderMap {
        let mut headers = state.client_headers.clone();
        headers.extend(self.endpoint.headers().clone());
        headers
    }

    /// The headers that revision 2026-07-28 repeats from the body.
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
        let parameters = params.name.as_deref().and_then(|tool| state.parameters.by_tool.get(tool));
        for (argument, header) in parameters.into_iter().flatten() {
            let value = message.value(&["params", "arguments", argument]);
            headers.extend(value.and_then(|value| parameter(&value)).map(|value| (header.clone(), value)));
        }
        headers
    }

    /// Forwards the messages of a response. Returns whether one of them answers the request.
    async fn read(self: &Arc<Self>, response: Response, id: Option<&Id>) -> Result<bool, ExchangeError> {
        let status = response.status();
        let retry = retry::note(status, response.headers());
        let content = content::of_headers(response.headers())?;
        if content.is_stream {
            let (end, answered) = self.events(content, response, id, StreamEnd::default()).await?;
            return match id.filter(|_| !answered && end.last.is_some()) {
                Some(id) => self.resume(end, id).await,
                None => Ok(answered),
            };
        }
        let body = self.body(content, response).await?;
        if body.is_empty() && status.is_success() {
            return Ok(false);
        }
        if content::classify(&body) == BodyKind::Wide {
            return Err(ContentError::from(HeaderError::Charset("utf-16".to_owned())).into());
        }
        let message = Message::read(body.clone());
        match (message.fault(), message.kind()) {
            (Some(fault), _) => self.refuse(&message, fault, status, &retry, id).await,
            // The server could not read the id of the request, but this response can only be for that request.
            (None, Kind::Response) if message.id().is_none() && message.result().is_none() => {
                let text = message.value(&["error", "message"]);
                let text = text.and_then(|text| serde_json::from_slice::<String>(&text).ok()).unwrap_or_default();
                Err(ExchangeError::Status { status, text: format!("{retry}{}", excerpt(&text)) })
            }
            _ => Ok(self.receive(body, id)),
        }
    }

    /// Fails the requests that an invalid message could be taken to answer. Returns whether `id` is among them.
    async fn refuse(
        self: &Arc<Self>,
        message: &Message,
        fault: Fault,
        status: StatusCode,
        retry: &str,
        id: Option<&Id>,
    ) -> Result<bool, ExchangeError> {
        let refusal = format!("{retry}the server answered with HTTP status {status}");
        let is_tool = id.is_some_and(|id| self.session.awaits_tool(id));
        for failure in self.session.fail_answered(message, &format!("{refusal}: {fault}")) {
            self.receive(failure.error, None);
        }
        // The text of the page helps, unless it may be the result of a tool.
        let page = excerpt(&String::from_utf8_lossy(message.bytes()));
        match id.filter(|_| is_tool) {
            None => Err(ExchangeError::Status { status, text: format!("{retry}{page}") }),
            Some(_) if status.is_success() => Err(ExchangeError::Status { status, text: fault.to_string() }),
            Some(id) => {
                let text = match self.session.error_page(id, page.as_bytes()).await {
                    None => return Ok(true),
                    Some(ErrorPage::Unchanged) => format!("{refusal}: {page}"),
                    Some(ErrorPage::Replaced(_)) => refusal,
                };
                self.receive(mcp::error_response(Some(id), mcp::INTERNAL_ERROR, &text), None);
                Ok(true)
            }
        }
    }

    /// Forwards a message. Returns whether it answers the request `id`.
    fn receive(self: &Arc<Self>, bytes: Bytes, id: Option<&Id>) -> bool {
        let message = Message::read(bytes.clone());
        let answered_id = message.id().map(|id| self.session.request_id(id));
        if let Some(answered_id) = answered_id.as_ref().filter(|_| message.kind() == Kind::Response) {
            self.record_metadata(&message, answered_id);
        }
        let answers = message.kind() == Kind::Response && answered_id.as_ref() == id && id.is_some();
        let Steps { to_server, to_client } = self.translator.server_message(bytes, id);
        if let Some(receiver) = self.receiver.upgrade() {
            // Blocks while the client is slow to read.
            tokio::task::block_in_place(|| to_client.into_iter().for_each(|message| receiver.message(message)));
        }
        self.queue(to_server, None);
        answers
    }

    /// Records the protocol revision and the header parameters that later requests need, if the response is the first to a
    /// request for them.
    fn record_metadata(&self, response: &Message, id: &Id) {
        let tells = self.state().running.get_mut(id).and_then(|running| running.tells.take());
        match tells {
            None => {}
            Some(Tells::Revision) => {
                if let Some(revision) = response.value(&["result", "protocolVersion"]) {
                    let revision = serde_json::from_slice::<String>(&revision).ok();
                    self.state().revision = revision.and_then(|revision| HeaderValue::from_str(&revision).ok());
                }
            }
            Some(Tells::Parameters) => {
                let mut left_out = 0;
                for tool in mcp::listed_tools(response) {
                    let parameters = tool.input_schema.map(header_parameters).unwrap_or_default();
                    let is_kept = self.state().parameters.set(tool.name.into_owned(), parameters);
                    left_out += usize::from(!is_kept);
                }
                if left_out > 0 {
                    let limit = PARAMETERS_BYTES_MAX;
                    let text = "calls of some tools lack the headers that the server declares: their names are too long together";
                    tracing::warn!(tools = left_out, limit, "{text}");
                }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, ServerSession> {
        self.state.lock()
    }
}

/// Truncates a server's text, to quote it in an error.
fn excerpt(text: &str) -> String {
    text.chars().take(EXCERPT_CHARACTERS_MAX).collect()
}

/// The arguments that a tool declares as headers (`x-mcp-header`).
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

/// Encodes an argument as a header value; `None` if it is not a string, number or boolean.
fn parameter(json: &[u8]) -> Option<HeaderValue> {
    match serde_json::from_slice(json).ok()? {
        serde_json::Value::String(text) => encoded(&text),
        value @ (serde_json::Value::Number(_) | serde_json::Value::Bool(_)) => encoded(&value.to_string()),
        _ => None,
    }
}
