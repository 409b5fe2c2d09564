//! A reverse proxy in front of a Streamable HTTP server. Headers, status and order of messages are kept.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use memchr::memchr;
use parking_lot::Mutex;
use reqwest::RequestBuilder;
use tokio::sync::watch;

use super::streams::event_of;
use super::{RequestHead, upstream};
use crate::headers::{ACCEL_BUFFERING, SESSION_ID};
use crate::listener::body::{self, BodyError};
use crate::listener::guard::{self, Refusal, json};
use crate::listener::shares::Holder;
use crate::metrics::CountGuard;
use crate::session::{
    ErrorPage, FromClient, FromServer, Refused, Session, SessionOwner, batch_of, end_of_subscription,
};
use crate::tenants::rules::Rules;
use crate::upstream::Endpoint;
use crate::upstream::content::{self, BodyKind, Chunks, Content, ContentError};
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Fault, Id, Kind, Message, method};
use lro_transport::{Event, EventReader, Permit, Pool};

/// HTTP methods forwarded besides POST.
const METHODS: [Method; 4] = [Method::GET, Method::DELETE, Method::HEAD, Method::OPTIONS];

/// Headers that describe the bytes of a body, removed when the body is replaced.
const BODY_HEADERS: [HeaderName; 8] = [
    CONTENT_ENCODING,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("etag"),
    HeaderName::from_static("accept-ranges"),
    HeaderName::from_static("content-range"),
];

/// Number of leading bytes that classify a stream.
const HEAD_BYTES: usize = 8;

/// An HTTP server, and its known sessions of older revisions.
pub(super) struct Proxy {
    rules: Arc<Rules>,
    endpoint: Endpoint,
    /// Headers to forward from the configuration.
    named: Vec<HeaderName>,
    pool: Arc<Pool<Holder>>,
    sessions: Mutex<Sessions>,
    /// Whether long-lived streams are to end.
    ending: watch::Sender<bool>,
}

/// Sessions by their id from the server. At the limit, the oldest session of the tenant is evicted first.
#[derive(Default)]
struct Sessions {
    known: HashMap<String, KnownSession>,
    order: VecDeque<String>,
}

struct KnownSession {
    session: Arc<Session>,
    permit: Permit<Holder>,
    _open: CountGuard,
}

impl Sessions {
    fn forget(&mut self, id: &str) {
        if self.known.remove(id).is_some() {
            self.order.retain(|known| known != id);
        }
    }

    /// Evicts the oldest session of the holder, or the oldest of all if the holder has none. Returns whether there was
    /// one.
    fn evict_one(&mut self, holder: &Holder) -> bool {
        let is_own = |id: &&String| self.known.get(*id).is_some_and(|known| known.permit.holder() == holder);
        let Some(oldest) = self.order.iter().find(is_own).or(self.order.front()).cloned() else { return false };
        self.forget(&oldest);
        true
    }
}

/// The request that a response answers.
#[derive(Default)]
struct RequestInfo {
    /// The id, if it is a request.
    id: Option<Id>,
    /// Whether the revision is 2026-07-28 or later, where streams cannot be resumed.
    modern: bool,
    /// Whether it is a subscription, which opens a long-lived stream.
    is_subscription: bool,
}

/// Why the server did not respond.
struct UpstreamError {
    status: StatusCode,
    reason: String,
}

impl From<UpstreamError> for Refusal {
    fn from(error: UpstreamError) -> Self {
        Self::Status(error.status, error.reason)
    }
}

/// Requests being sent. Dropping this removes those that got no response, because sending failed or the client left.
struct PendingRequests {
    session: Arc<Session>,
    ids: Vec<Id>,
}

impl Drop for PendingRequests {
    fn drop(&mut self) {
        for id in &self.ids {
            drop(self.session.fail(id, "the client no longer waits"));
        }
    }
}

/// The ids of all requests in a message.
fn ids_of(message: &Message) -> Vec<Id> {
    match message.kind() {
        Kind::Batch => {
            message.batch().unwrap_or_default().into_iter().flat_map(|one| ids_of(&Message::read(one))).collect()
        }
        Kind::Request => message.id().into_iter().collect(),
        _ => Vec::new(),
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Proxy {
    pub(super) fn new(rules: Arc<Rules>, endpoint: Endpoint) -> Self {
        let settings = &rules.config.gateway;
        let pool = Pool::new(u64::from(settings.sessions.get()));
        // The settings accept only valid names.
        let named = settings.forward_headers.iter().filter_map(|name| name.parse().ok()).collect();
        Self { rules, endpoint, named, pool, sessions: Mutex::default(), ending: watch::Sender::new(false) }
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(&self, head: &RequestHead, message: Option<Message>) -> Result<Response, Refusal> {
        match message {
            Some(message) => self.post(head, message).await,
            None if METHODS.contains(&head.parts.method) => self.other(head).await,
            // TRACE, for example, would show the client the headers that the gateway adds.
            None => Err(Refusal::Status(
                StatusCode::METHOD_NOT_ALLOWED,
                "the gateway does not forward this HTTP method".to_owned(),
            )),
        }
    }

    /// Forwards a request for a public document, such as the metadata of an authorization server.
    pub(super) async fn document(&self, parts: &Parts) -> Result<Response, Refusal> {
        let is_read_only = matches!(parts.method, Method::GET | Method::HEAD);
        let url = upstream::document(&self.endpoint, &parts.uri).filter(|_| is_read_only).ok_or(Refusal::NotFound)?;
        let request = self.endpoint.client().request(parts.method.clone(), url);
        let response = self.send(request.headers(upstream::document_headers(&parts.headers))).await?;
        let (status, headers) = (response.status(), self.response_headers(response.headers()));
        Ok(respond(status, headers, Body::from_stream(response.bytes_stream())))
    }

    async fn post(&self, head: &RequestHead, message: Message) -> Result<Response, Refusal> {
        let RequestHead { holder, address, parts } = head;
        let modern = guard::is_modern(&parts.headers, &message);
        if modern {
            guard::check_headers(&parts.headers, &message, false)?;
        }
        let is_first = message.method().as_deref() == Some(method::INITIALIZE);
        let address = (!is_first).then_some(*address);
        let session = self.session(&holder.tenant, &parts.headers, modern, address)?;
        let headers = self.request_headers(&parts.headers);
        if upstream::may_identify_user(&headers) {
            session.never_reuse();
        }
        // Broken streams leave calls behind that no client waits for.
        drop(session.overdue());
        let request_info = RequestInfo {
            id: message.id().filter(|_| message.kind() == Kind::Request),
            modern,
            is_subscription: modern && guard::is_listen_request(&message),
        };
        let ids = ids_of(&message);
        let message = match session.client_message_async(message).await {
            FromClient::Forward(message) => message,
            FromClient::Answer(answer) => return Ok(json(StatusCode::OK, answer)),
        };
        let mut pending = PendingRequests { session: Arc::clone(&session), ids };
        let request = self.endpoint.client().post(self.endpoint.url()).headers(self.with_configured_headers(headers));
        let response = match self.send(request.body(self.body(message))).await {
            Ok(response) => response,
            Err(error) => {
                let failure = request_info.id.and_then(|id| session.fail(&id, &error.reason));
                if failure.is_some() {
                    pending.ids.clear();
                }
                return failure.map_or_else(|| Err(error.into()), |failure| Ok(json(StatusCode::OK, failure.error)));
            }
        };
        if is_first && let Some(id) = guard::text(response.headers(), &SESSION_ID) {
            self.remember(id.to_owned(), holder, &session);
        }
        let answered = self.respond(session, request_info, response).await;
        pending.ids.clear();
        answered
    }

    /// Forwards a request of the other [`METHODS`], such as GET and DELETE of older revisions.
    async fn other(&self, head: &RequestHead) -> Result<Response, Refusal> {
        let RequestHead { holder, address, parts } = head;
        let session = self.session(&holder.tenant, &parts.headers, false, Some(*address))?;
        let request = self.endpoint.client().request(parts.method.clone(), self.endpoint.url());
        let request = request.headers(self.with_configured_headers(self.request_headers(&parts.headers)));
        if parts.method == Method::GET {
            let response = self.open_stream(request).await?;
            return self.respond(session, RequestInfo::default(), response).await;
        }
        let response = self.send(request).await?;
        let has_ended = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
        if parts.method == Method::DELETE
            && has_ended
            && let Some(id) = guard::text(&parts.headers, &SESSION_ID)
        {
            self.sessions.lock().forget(id);
        }
        self.respond(session, RequestInfo::default(), response).await
    }

    /// Sends a request. The head of the response must arrive within the timeout of a call.
    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, UpstreamError> {
        match tokio::time::timeout(self.call_timeout(), request.send()).await {
            Ok(sent) => sent.map_err(|error| unreachable(&error)),
            Err(_) => Err(UpstreamError { status: StatusCode::GATEWAY_TIMEOUT, reason: self.timeout_reason() }),
        }
    }

    /// Opens a stream, whose head may arrive only with the first event.
    async fn open_stream(&self, request: RequestBuilder) -> Result<reqwest::Response, UpstreamError> {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            sent = request.send() => sent.map_err(|error| unreachable(&error)),
            _ = ending.wait_for(|ending| *ending) => {
                let reason = "the gateway is shutting down".to_owned();
                Err(UpstreamError { status: StatusCode::SERVICE_UNAVAILABLE, reason })
            }
        }
    }

    /// Ends the long-lived streams.
    pub(super) fn end_streams(&self) {
        self.ending.send_replace(true);
    }

    /// Timeout of a call.
    fn call_timeout(&self) -> Duration {
        Duration::from_millis(self.rules.config.gateway.call_timeout_ms.get())
    }

    fn timeout_reason(&self) -> String {
        format!("the server did not answer within {} ms", self.call_timeout().as_millis())
    }

    async fn respond(
        &self,
        session: Arc<Session>,
        request_info: RequestInfo,
        response: reqwest::Response,
    ) -> Result<Response, Refusal> {
        let (status, mut headers) = (response.status(), self.response_headers(response.headers()));
        let (content, rules) = (Content::of(response.headers()), &session.rules);
        // If nothing may be changed, nothing needs decoding.
        let is_read =
            matches!(&content, Ok(content) if !content.is_compressed && (content.is_stream || rules.enabled()));
        if !rules.changes() && !is_read {
            return Ok(pass_through(&session, &request_info, response, headers));
        }
        let content = match content {
            Ok(content) => content,
            Err(_) if response.content_length() == Some(0) => Content { is_stream: false, is_compressed: false },
            Err(error) => return failed(&session, request_info.id, &error.to_string()),
        };
        let chunks = content.chunks(response);
        if content.is_compressed {
            BODY_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
        }
        if content.is_stream {
            let mut response = respond(status, headers, self.events(session, request_info, chunks));
            response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
            return Ok(response);
        }
        let bytes = match tokio::time::timeout(self.call_timeout(), body::collect(chunks, &session.rules.limits)).await
        {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return failed(&session, request_info.id, &reason(&error)),
            Err(_) => return failed(&session, request_info.id, &self.timeout_reason()),
        };
        read(&session, request_info, bytes, status, headers).await
    }

    /// The events of a stream, each unchanged unless a tool result in it is replaced.
    fn events(&self, session: Arc<Session>, request_info: RequestInfo, chunks: Chunks) -> Body {
        let has_end = request_info.id.is_some() && !request_info.is_subscription;
        let state = EventStream {
            chunks,
            reader: Some(EventReader::new(Arc::clone(&session.rules.limits))),
            ready: VecDeque::new(),
            head: session.rules.changes().then(Vec::new),
            session,
            idle_timeout: has_end.then(|| self.call_timeout()),
            ending: (!has_end).then(|| self.ending.subscribe()),
            request_info,
            has_event_id: false,
        };
        Body::from_stream(stream::unfold(state, |mut state| async move {
            let piece = state.next().await?;
            Some((Ok::<_, std::convert::Infallible>(piece), state))
        }))
    }

    fn body(&self, message: Bytes) -> reqwest::Body {
        if message.len() <= INLINE_BYTES {
            return message.into();
        }
        reqwest::Body::wrap_stream(stream::iter(body::pieces(message).map(Ok::<_, std::convert::Infallible>)))
    }

    /// The client's headers to forward.
    fn request_headers(&self, client_headers: &HeaderMap) -> HeaderMap {
        upstream::request_headers(client_headers, &self.named, self.rules.has_tokens())
    }

    /// Adds the headers of the configuration, which replace a client's.
    fn with_configured_headers(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.extend(self.endpoint.headers().clone());
        headers
    }

    fn response_headers(&self, server_headers: &HeaderMap) -> HeaderMap {
        upstream::response_headers(server_headers, &self.named)
    }

    /// The session of a request, or a new one for this request. With tokens, a session must belong to the tenant.
    /// `address` is that of a request that does not start a session.
    fn session(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        modern: bool,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, Refusal> {
        let known = |id: &str| {
            let session = self.sessions.lock().known.get(id).map(|known| Arc::clone(&known.session));
            session.filter(|session| session.tenant() == tenant)
        };
        let is_own = |value: &HeaderValue| value.to_str().is_ok_and(|id| known(id).is_some());
        if self.rules.has_tokens() && !headers.get_all(SESSION_ID).iter().all(is_own) {
            return Err(guard::unknown_session());
        }
        let id = guard::text(headers, &SESSION_ID).filter(|_| !modern);
        Ok(id.and_then(known).unwrap_or_else(|| {
            let owner = SessionOwner { tenant: tenant.to_owned(), session: id.map(str::to_owned), local: false };
            Arc::new(match address {
                Some(address) => Session::of_request(&self.rules, owner, address),
                None => Session::new(&self.rules, owner),
            })
        }))
    }

    fn remember(&self, id: String, holder: &Holder, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock();
        if sessions.known.get(&id).is_some_and(|known| known.session.tenant() != session.tenant()) {
            tracing::warn!("the server assigned the session id of one tenant to another, which cannot use it");
            return;
        }
        sessions.forget(&id);
        let permit = loop {
            match self.pool.take(holder, 1) {
                Some(permit) => break permit,
                None if sessions.evict_one(holder) => {}
                None => return,
            }
        };
        let known = KnownSession { session: Arc::clone(session), permit, _open: self.rules.metrics.session() };
        sessions.known.insert(id.clone(), known);
        sessions.order.push_back(id);
    }
}

/// An event stream being forwarded to the client.
struct EventStream {
    chunks: Chunks,
    /// `None` at the end of the stream.
    reader: Option<EventReader>,
    ready: VecDeque<Bytes>,
    session: Arc<Session>,
    request_info: RequestInfo,
    /// How long the server may send nothing, if the stream is to end.
    idle_timeout: Option<Duration>,
    /// Signals the end of a long-lived stream.
    ending: Option<watch::Receiver<bool>>,
    /// The first bytes, until they show whether this is an event stream.
    head: Option<Vec<u8>>,
    /// Whether events have ids, so that the client can resume the stream.
    has_event_id: bool,
}

impl EventStream {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            self.reader.as_ref()?;
            match self.step().await {
                Step::Chunk(Ok(chunk)) => self.read(&chunk).await,
                Step::Chunk(Err(error)) => {
                    self.fail(&error.to_string());
                }
                Step::End => self.end().await,
                Step::Timeout(timeout) => {
                    self.fail(&format!("the server sent nothing for {} ms", timeout.as_millis()));
                }
                Step::Stop => self.stop(),
            }
        }
    }

    async fn step(&mut self) -> Step {
        let of_chunk = |chunk: Option<_>| chunk.map_or(Step::End, Step::Chunk);
        if let Some(timeout) = self.idle_timeout {
            let chunk = tokio::time::timeout(timeout, self.chunks.next()).await;
            return chunk.map_or(Step::Timeout(timeout), of_chunk);
        }
        let Some(ending) = &mut self.ending else { return of_chunk(self.chunks.next().await) };
        tokio::select! {
            chunk = self.chunks.next() => of_chunk(chunk),
            _ = ending.wait_for(|ending| *ending) => Step::Stop,
        }
    }

    /// Handles the end of the stream. A client that can resume the stream gets no error.
    async fn end(&mut self) {
        let rest = self.reader.take().and_then(|reader| reader.finish().ok().flatten());
        let event = rest.as_ref().and_then(|rest| Event::of_rest(rest, &self.session.rules.limits).ok());
        let replaced = match &event {
            Some(event) => self.replacement(event).await,
            None => Some(Vec::new()),
        };
        let goes_on = replaced.is_none();
        self.ready.extend(replaced.into_iter().flatten());
        let is_resumable = self.has_event_id && !self.request_info.modern;
        if (is_resumable || !self.fail("the server ended the stream before it answered")) && goes_on {
            self.ready.extend(rest);
        }
    }

    /// Ends a long-lived stream.
    fn stop(&mut self) {
        self.reader = None;
        if let Some(id) = self.request_info.id.as_ref().filter(|_| self.request_info.modern) {
            self.ready.push_back(event_of(&end_of_subscription(id)));
        }
    }

    async fn read(&mut self, chunk: &[u8]) {
        if self.is_not_a_stream(chunk) {
            self.fail("the server declared its response as an event stream, but it is not one");
            return;
        }
        let Some(reader) = &mut self.reader else { return };
        let mut events = Vec::new();
        let read = reader.push(chunk, &mut events);
        for event in events {
            self.event(&event).await;
        }
        if let Err(error) = read {
            self.fail(&error.to_string());
        }
    }

    /// Whether a stream starts with bytes that some parsers take for a single message.
    fn is_not_a_stream(&mut self, chunk: &[u8]) -> bool {
        let Some(head) = &mut self.head else { return false };
        let chunk = if head.is_empty() { chunk.trim_ascii_start() } else { chunk };
        head.extend(chunk.iter().take(HEAD_BYTES - head.len()));
        let form = content::classify(head);
        if head.len() >= HEAD_BYTES {
            self.head = None;
        }
        matches!(form, BodyKind::Message | BodyKind::Wide)
    }

    async fn event(&mut self, event: &Event) {
        match self.replacement(event).await {
            Some(pieces) => self.ready.extend(pieces),
            None => self.pass(event),
        }
    }

    /// The replacement of an event; `None` to forward it unchanged.
    async fn replacement(&mut self, event: &Event) -> Option<Vec<Bytes>> {
        self.has_event_id |= event.id().is_some_and(|id| !id.is_empty());
        let changes = self.session.rules.changes();
        if changes && event.has_braces_beside() {
            tracing::warn!("dropped an event from the server with message-like text outside its data");
            return Some(Vec::new());
        }
        // Data without an object cannot be a message.
        let data = event.data().filter(|data| !changes || memchr(b'{', data).is_some())?;
        let answer = match self.session.server_message_async(self.session.parse_async(&data).await).await {
            FromServer::Pass(answer) => answer,
            FromServer::Refuse(refused) => return Some(replacements(event, &refused)),
            FromServer::Nothing => return Some(Vec::new()),
        };
        let is_same = answer.as_ptr() == data.as_ptr() && answer.len() == data.len();
        if is_same && changes && event.data_lines() > 1 && has_message_line(&data) {
            return Some(event.with_data(&body::on_one_line(data)));
        }
        (!is_same).then(|| event.with_data(&answer))
    }

    fn pass(&mut self, event: &Event) {
        self.ready.extend(body::pieces(event.raw().clone()));
    }

    /// Ends the stream with an error for the request, if it is pending. Returns whether it was.
    fn fail(&mut self, reason: &str) -> bool {
        self.reader = None;
        let failure = self.request_info.id.as_ref().and_then(|id| self.session.fail(id, reason));
        self.ready.extend(failure.as_ref().map(|failure| event_of(&failure.error)));
        failure.is_some()
    }
}

/// The next step of a stream.
enum Step {
    Chunk(Result<Bytes, ContentError>),
    End,
    Timeout(Duration),
    Stop,
}

/// The errors that replace an event. The first keeps the other fields of the event.
fn replacements(event: &Event, refused: &Refused) -> Vec<Bytes> {
    let Some((first, others)) = refused.failures.split_first() else { return Vec::new() };
    event.with_data(&first.error).into_iter().chain(others.iter().map(|other| event_of(&other.error))).collect()
}

/// Whether a line of a text is a message by itself, which a client that does not join data lines would read.
fn has_message_line(text: &Bytes) -> bool {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| memchr(b'{', line).is_some() && Message::read(text.slice_ref(line)).fault().is_none())
}

/// Forwards a response unchanged.
fn pass_through(
    session: &Session,
    request_info: &RequestInfo,
    response: reqwest::Response,
    headers: HeaderMap,
) -> Response {
    request_info.id.iter().for_each(|id| session.forget(id));
    respond(response.status(), headers, Body::from_stream(response.bytes_stream()))
}

/// Decides about the whole body of a response.
async fn read(
    session: &Arc<Session>,
    request_info: RequestInfo,
    bytes: Bytes,
    status: StatusCode,
    mut headers: HeaderMap,
) -> Result<Response, Refusal> {
    let message = session.parse_async(&bytes).await;
    let decided = match (content::classify(&bytes), message.fault()) {
        _ if session.rules.audits() => session.server_message_async(message).await,
        (BodyKind::Wide, _) => {
            return failed(session, request_info.id, &ContentError::Charset("utf-16".to_owned()).to_string());
        }
        (BodyKind::Events, _) => {
            return failed(session, request_info.id, "the server sent an event stream with another content type");
        }
        (BodyKind::Text, _) | (BodyKind::Message, Some(Fault::NoKind)) => {
            return other_body(session, request_info, bytes, status, headers).await;
        }
        (BodyKind::Message, _) => session.server_message_async(message).await,
    };
    let (answer, mut status) = match decided {
        FromServer::Pass(answer) => (answer, status),
        FromServer::Refuse(refused) if refused.failures.is_empty() => {
            return failed(session, request_info.id, &refused.reason);
        }
        FromServer::Refuse(refused) => {
            let errors: Vec<Bytes> = refused.failures.into_iter().map(|failure| failure.error).collect();
            (if let [error] = errors.as_slice() { error.clone() } else { batch_of(&errors) }, StatusCode::OK)
        }
        FromServer::Nothing => return failed(session, request_info.id, "the server answered another request"),
    };
    // A result that replaces an error is not an error.
    let is_replaced = answer.as_ptr() != bytes.as_ptr() || answer.len() != bytes.len();
    if is_replaced {
        BODY_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
        if status.is_client_error() && Message::read(answer.clone()).result().is_some() {
            status = StatusCode::OK;
        }
    }
    Ok(respond(status, headers, body::of_bytes(answer)))
}

/// Decides about a body that is not a message. If a tool call is pending, a client could read the body as its result.
async fn other_body(
    session: &Arc<Session>,
    request_info: RequestInfo,
    bytes: Bytes,
    status: StatusCode,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Some(id) = request_info.id else { return Ok(respond(status, headers, body::of_bytes(bytes))) };
    if status.is_success() {
        let kind = guard::text(&headers, &CONTENT_TYPE).unwrap_or("none");
        let reason =
            format!("the server answered with something that is not a JSON-RPC message, of content type {kind:?}");
        return failed(session, Some(id), &reason);
    }
    match session.error_page(&id, &bytes).await {
        Some(ErrorPage::Replaced(reply)) => return Ok(json(StatusCode::OK, body::of_bytes(reply))),
        Some(ErrorPage::Unchanged) => {}
        None => session.forget(&id),
    }
    Ok(respond(status, headers, body::of_bytes(bytes)))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn unreachable(error: &reqwest::Error) -> UpstreamError {
    let reason = format!("the server cannot be reached: {}", Endpoint::explain(error));
    UpstreamError { status: StatusCode::BAD_GATEWAY, reason }
}

fn reason(error: &BodyError) -> String {
    match error {
        BodyError::Spool(error) => error.to_string(),
        BodyError::Broken(text) => text.clone(),
    }
}

fn failed(session: &Session, id: Option<Id>, reason: &str) -> Result<Response, Refusal> {
    match id.and_then(|id| session.fail(&id, reason)) {
        Some(failure) => Ok(json(StatusCode::OK, failure.error)),
        None => Err(Refusal::Status(StatusCode::BAD_GATEWAY, reason.to_owned())),
    }
}
