//! A reverse proxy in front of a Streamable HTTP server: what goes through keeps its headers, status and order.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use memchr::memchr;
use reqwest::RequestBuilder;
use tokio::sync::watch;

use super::modern::end_of_subscription;
use super::upstream;
use crate::headers::SESSION_ID;
use crate::listener::body::{self, BodyError};
use crate::listener::guard::{self, Refusal, json};
use crate::listener::lock;
use crate::listener::shares::Holder;
use crate::metrics::Open;
use crate::tenants::rules::Rules;
use crate::upstream::Endpoint;
use crate::upstream::content::{self, Chunks, Content, ContentError, Form};
use crate::{FromClient, FromServer, Produced, Refused, Session, Who};
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Fault, Id, Kind, Message, method};
use lro_transport::{Event, EventReader, Permit, Pool};

/// Methods that go upstream besides POST.
const METHODS: [Method; 4] = [Method::GET, Method::DELETE, Method::HEAD, Method::OPTIONS];

/// Headers about the bytes of a body, which are true no more when it is replaced.
const OF_BODY: [HeaderName; 8] = [
    CONTENT_ENCODING,
    HeaderName::from_static("content-md5"),
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("etag"),
    HeaderName::from_static("accept-ranges"),
    HeaderName::from_static("content-range"),
];

/// Bytes of a stream that show what it is.
const HEAD_BYTES: usize = 8;
/// A server behind HTTP, and what is known of the sessions of older revisions with it.
pub(super) struct Proxy {
    rules: Arc<Rules>,
    endpoint: Endpoint,
    /// Headers that the configuration names.
    named: Vec<HeaderName>,
    places: Arc<Pool<Holder>>,
    sessions: Mutex<Sessions>,
    /// Whether streams without an end of their own are to end.
    ending: watch::Sender<bool>,
}

/// Sessions by the id that the server gave them. The oldest is forgotten first, of those who have too many.
#[derive(Default)]
struct Sessions {
    known: HashMap<String, Known>,
    order: VecDeque<String>,
}

struct Known {
    session: Arc<Session>,
    place: Permit<Holder>,
    _open: Open,
}

impl Sessions {
    fn forget(&mut self, id: &str) {
        if self.known.remove(id).is_some() {
            self.order.retain(|known| known != id);
        }
    }

    /// Forgets the oldest session of a holder; where it has none, the oldest of all. Tells whether there was one.
    fn forget_one(&mut self, holder: &Holder) -> bool {
        let is_own = |id: &&String| self.known.get(*id).is_some_and(|known| known.place.holder() == holder);
        let Some(oldest) = self.order.iter().find(is_own).or(self.order.front()).cloned() else { return false };
        self.forget(&oldest);
        true
    }
}

/// What a response is to.
#[derive(Default)]
struct Asked {
    /// The id of a request that is to be answered.
    id: Option<Id>,
    /// Whether it is of revision 2026-07-28 or later, where a stream cannot be taken up again.
    modern: bool,
    /// Whether it asks for a stream that has no end of its own.
    listens: bool,
}

/// Why there is no response.
struct Unsent {
    status: StatusCode,
    reason: String,
}

impl From<Unsent> for Refusal {
    fn from(unsent: Unsent) -> Self {
        Self::Status(unsent.status, unsent.reason)
    }
}

/// Requests on their way. When the server does not get them, or the client leaves before there is an answer, nobody waits for
/// them any more.
struct Pending {
    session: Arc<Session>,
    ids: Vec<Id>,
}

impl Drop for Pending {
    fn drop(&mut self) {
        for id in &self.ids {
            drop(self.session.fail(id, "nobody waits for the answer"));
        }
    }
}

/// The ids of all requests of a message.
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
        let places = Pool::new(u64::from(settings.sessions.get()));
        // Every name was read as one before.
        let named = settings.forward_headers.iter().filter_map(|name| name.parse().ok()).collect();
        Self { rules, endpoint, named, places, sessions: Mutex::default(), ending: watch::Sender::new(false) }
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(
        &self,
        holder: &Holder,
        address: IpAddr,
        parts: &Parts,
        message: Option<Message>,
    ) -> Result<Response, Refusal> {
        match message {
            Some(message) => self.post(holder, address, parts, message).await,
            None if METHODS.contains(&parts.method) => self.other(holder, address, parts).await,
            // Of the others, TRACE would show the client what the gateway sends along.
            None => Err(Refusal::Status(StatusCode::METHOD_NOT_ALLOWED, "this method does not go upstream".to_owned())),
        }
    }

    /// Hands on a request for a document that is there for everybody, such as the metadata of an authorization server.
    pub(super) async fn document(&self, parts: &Parts) -> Result<Response, Refusal> {
        let is_asked = matches!(parts.method, Method::GET | Method::HEAD);
        let url = upstream::document(&self.endpoint, &parts.uri).filter(|_| is_asked).ok_or(Refusal::NotFound)?;
        let request = self.endpoint.client().request(parts.method.clone(), url);
        let response = self.send(request.headers(upstream::document_headers(&parts.headers))).await?;
        let (status, headers) = (response.status(), self.returned(response.headers()));
        Ok(respond(status, headers, Body::from_stream(response.bytes_stream())))
    }

    async fn post(
        &self,
        holder: &Holder,
        address: IpAddr,
        parts: &Parts,
        message: Message,
    ) -> Result<Response, Refusal> {
        let modern = guard::is_modern(&parts.headers, &message);
        if modern {
            guard::matches_body(&parts.headers, &message, false)?;
        }
        let is_first = message.method().as_deref() == Some(method::INITIALIZE);
        let address = (!is_first).then_some(address);
        let session = self.session(&holder.tenant, &parts.headers, modern, address)?;
        let headers = self.headers(&parts.headers);
        if upstream::may_name_a_user(&headers) {
            session.never_reuse();
        }
        // Streams that broke leave calls behind, which nobody waits for.
        drop(session.overdue());
        let asked = Asked {
            id: message.id().filter(|_| message.kind() == Kind::Request),
            modern,
            listens: modern && guard::asks_to_listen(&message),
        };
        let ids = ids_of(&message);
        let message = match session.from_client(message) {
            FromClient::Forward(message) => message,
            FromClient::Answer(answer) => return Ok(json(StatusCode::OK, answer)),
            FromClient::Work(work) => match session.carried_out(*work).await {
                Produced::Answer(answer) => return Ok(json(StatusCode::OK, answer)),
                Produced::Forward(message) => message,
            },
        };
        let mut pending = Pending { session: Arc::clone(&session), ids };
        let request = self.endpoint.client().post(self.endpoint.url()).headers(self.sent(headers));
        let response = match self.send(request.body(self.body(message))).await {
            Ok(response) => response,
            Err(unsent) => {
                let answer = asked.id.and_then(|id| session.fail(&id, &unsent.reason));
                if answer.is_some() {
                    pending.ids.clear();
                }
                return answer.map_or_else(|| Err(unsent.into()), |answer| Ok(json(StatusCode::OK, answer)));
            }
        };
        if is_first && let Some(id) = guard::text(response.headers(), &SESSION_ID) {
            self.remember(id.to_owned(), holder, &session);
        }
        let answered = self.respond(session, asked, response).await;
        pending.ids.clear();
        answered
    }

    /// GET and DELETE of older revisions, and what the server makes of the others of [`METHODS`].
    async fn other(&self, holder: &Holder, address: IpAddr, parts: &Parts) -> Result<Response, Refusal> {
        let session = self.session(&holder.tenant, &parts.headers, false, Some(address))?;
        let request = self.endpoint.client().request(parts.method.clone(), self.endpoint.url());
        let request = request.headers(self.sent(self.headers(&parts.headers)));
        if parts.method == Method::GET {
            let response = self.listened(request).await?;
            return self.respond(session, Asked::default(), response).await;
        }
        let response = self.send(request).await?;
        let has_ended = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
        if parts.method == Method::DELETE
            && has_ended
            && let Some(id) = guard::text(&parts.headers, &SESSION_ID)
        {
            lock(&self.sessions).forget(id);
        }
        self.respond(session, Asked::default(), response).await
    }

    /// Sends a request; the head of the response must come within the time of a call.
    async fn send(&self, request: RequestBuilder) -> Result<reqwest::Response, Unsent> {
        match tokio::time::timeout(self.patience(), request.send()).await {
            Ok(sent) => sent.map_err(|error| unreachable(&error)),
            Err(_) => Err(Unsent { status: StatusCode::GATEWAY_TIMEOUT, reason: self.unanswered() }),
        }
    }

    /// Asks for a stream, whose head may come only with the first event.
    async fn listened(&self, request: RequestBuilder) -> Result<reqwest::Response, Unsent> {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            sent = request.send() => sent.map_err(|error| unreachable(&error)),
            _ = ending.wait_for(|ending| *ending) => {
                Err(Unsent { status: StatusCode::SERVICE_UNAVAILABLE, reason: "the gateway ends".to_owned() })
            }
        }
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn end_streams(&self) {
        self.ending.send_replace(true);
    }

    /// How long a call may take.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.rules.config.gateway.call_timeout_ms.get())
    }

    fn unanswered(&self) -> String {
        format!("the server did not answer within {} ms", self.patience().as_millis())
    }

    async fn respond(
        &self,
        session: Arc<Session>,
        asked: Asked,
        response: reqwest::Response,
    ) -> Result<Response, Refusal> {
        let (status, mut headers) = (response.status(), self.returned(response.headers()));
        let (content, rules) = (Content::of(response.headers()), &session.rules);
        // Where nothing is changed, nothing is made readable.
        let is_read = matches!(&content, Ok(content) if !content.is_packed && (content.is_stream || rules.enabled()));
        if !rules.changes() && !is_read {
            return Ok(untouched(&session, &asked, response, headers));
        }
        let content = match content {
            Ok(content) => content,
            Err(_) if response.content_length() == Some(0) => Content { is_stream: false, is_packed: false },
            Err(error) => return failed(&session, asked.id, &error.to_string()),
        };
        let chunks = content.chunks(response);
        if content.is_packed {
            OF_BODY.iter().for_each(|name| drop(headers.remove(name)));
        }
        if content.is_stream {
            let mut response = respond(status, headers, self.events(session, asked, chunks));
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            return Ok(response);
        }
        let bytes = match tokio::time::timeout(self.patience(), body::collect(chunks, &session.rules.limits)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return failed(&session, asked.id, &reason(&error)),
            Err(_) => return failed(&session, asked.id, &self.unanswered()),
        };
        read(&session, asked, bytes, status, headers).await
    }

    /// The events of a stream, each as it came unless a tool result in it is replaced.
    fn events(&self, session: Arc<Session>, asked: Asked, chunks: Chunks) -> Body {
        let has_end = asked.id.is_some() && !asked.listens;
        let state = Events {
            chunks,
            reader: Some(EventReader::new(Arc::clone(&session.rules.limits))),
            ready: VecDeque::new(),
            head: session.rules.changes().then(Vec::new),
            session,
            patience: has_end.then(|| self.patience()),
            ending: (!has_end).then(|| self.ending.subscribe()),
            asked,
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

    /// Headers of a client that go to the server.
    fn headers(&self, of_client: &HeaderMap) -> HeaderMap {
        upstream::request_headers(of_client, &self.named, self.rules.has_tokens())
    }

    /// With those of the configuration, which replace a client's.
    fn sent(&self, mut headers: HeaderMap) -> HeaderMap {
        headers.extend(self.endpoint.headers().clone());
        headers
    }

    fn returned(&self, of_server: &HeaderMap) -> HeaderMap {
        upstream::response_headers(of_server, &self.named)
    }

    /// What is known of the client of a request: of a session, or nothing before it says so itself. With tenants, a
    /// session has to be the tenant's own. `address` is where a request comes from that begins no session.
    fn session(
        &self,
        tenant: &str,
        headers: &HeaderMap,
        modern: bool,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, Refusal> {
        let known = |id: &str| {
            let session = lock(&self.sessions).known.get(id).map(|known| Arc::clone(&known.session));
            session.filter(|session| session.tenant() == tenant)
        };
        let is_own = |value: &HeaderValue| value.to_str().is_ok_and(|id| known(id).is_some());
        if self.rules.has_tokens() && !headers.get_all(SESSION_ID).iter().all(is_own) {
            let text = "there is no such session: it may have ended; begin again with initialize";
            return Err(Refusal::Status(StatusCode::NOT_FOUND, text.to_owned()));
        }
        let id = guard::text(headers, &SESSION_ID).filter(|_| !modern);
        Ok(id.and_then(known).unwrap_or_else(|| {
            let who = Who { tenant: tenant.to_owned(), session: id.map(str::to_owned), local: false };
            Arc::new(match address {
                Some(address) => Session::of_request(&self.rules, who, address),
                None => Session::new(&self.rules, who),
            })
        }))
    }

    fn remember(&self, id: String, holder: &Holder, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        if sessions.known.get(&id).is_some_and(|known| known.session.tenant() != session.tenant()) {
            tracing::warn!("the server gave the session of a tenant to another one, which cannot use it");
            return;
        }
        sessions.forget(&id);
        let place = loop {
            match self.places.take(holder, 1) {
                Some(place) => break place,
                None if sessions.forget_one(holder) => {}
                None => return,
            }
        };
        let known = Known { session: Arc::clone(session), place, _open: self.rules.metrics.session() };
        sessions.known.insert(id.clone(), known);
        sessions.order.push_back(id);
    }
}

/// An event stream on its way to the client.
struct Events {
    chunks: Chunks,
    /// None at the end.
    reader: Option<EventReader>,
    ready: VecDeque<Bytes>,
    session: Arc<Session>,
    asked: Asked,
    /// How long the server may be silent, when the stream has an end.
    patience: Option<Duration>,
    /// Tells a stream that has none when to end.
    ending: Option<watch::Receiver<bool>>,
    /// Its first bytes, until it is clear that it is a stream.
    head: Option<Vec<u8>>,
    /// Whether the client can take the stream up again.
    has_event_id: bool,
}

impl Events {
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
                Step::Silence(patience) => {
                    self.fail(&format!("the server was silent for {} ms", patience.as_millis()));
                }
                Step::Stop => self.stop(),
            }
        }
    }

    async fn step(&mut self) -> Step {
        let of_chunk = |chunk: Option<_>| chunk.map_or(Step::End, Step::Chunk);
        if let Some(patience) = self.patience {
            let chunk = tokio::time::timeout(patience, self.chunks.next()).await;
            return chunk.map_or(Step::Silence(patience), of_chunk);
        }
        let Some(ending) = &mut self.ending else { return of_chunk(self.chunks.next().await) };
        tokio::select! {
            chunk = self.chunks.next() => of_chunk(chunk),
            _ = ending.wait_for(|ending| *ending) => Step::Stop,
        }
    }

    /// The server has ended the stream, which it may when the client can take it up again.
    async fn end(&mut self) {
        let rest = self.reader.take().and_then(|reader| reader.finish().ok().flatten());
        let event = rest.as_ref().and_then(|rest| Event::of_rest(rest, &self.session.rules.limits).ok());
        let replaced = match &event {
            Some(event) => self.decided(event).await,
            None => Some(Vec::new()),
        };
        let goes_on = replaced.is_none();
        self.ready.extend(replaced.into_iter().flatten());
        let is_resumable = self.has_event_id && !self.asked.modern;
        if (is_resumable || !self.fail("the server ended the stream before it answered")) && goes_on {
            self.ready.extend(rest);
        }
    }

    /// The gateway ends a stream that has no end of its own.
    fn stop(&mut self) {
        self.reader = None;
        if let Some(id) = self.asked.id.as_ref().filter(|_| self.asked.modern) {
            self.ready.push_back(event_of(&end_of_subscription(id)));
        }
    }

    async fn read(&mut self, chunk: &[u8]) {
        if self.is_no_stream(chunk) {
            self.fail("the server sent its answer as an event stream, but it is none");
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

    /// Whether a stream begins with what some readers take for a message as a whole.
    fn is_no_stream(&mut self, chunk: &[u8]) -> bool {
        let Some(head) = &mut self.head else { return false };
        let chunk = if head.is_empty() { chunk.trim_ascii_start() } else { chunk };
        head.extend(chunk.iter().take(HEAD_BYTES - head.len()));
        let form = content::form(head);
        if head.len() >= HEAD_BYTES {
            self.head = None;
        }
        matches!(form, Form::Message | Form::Wide)
    }

    async fn event(&mut self, event: &Event) {
        match self.decided(event).await {
            Some(pieces) => self.ready.extend(pieces),
            None => self.pass(event),
        }
    }

    /// What goes on in the place of an event; none when it goes on as it is.
    async fn decided(&mut self, event: &Event) -> Option<Vec<Bytes>> {
        self.has_event_id |= event.id().is_some_and(|id| !id.is_empty());
        let changes = self.session.rules.changes();
        if changes && event.has_braces_beside() {
            tracing::warn!("the server sent an event with something like a message beside its data; it is left out");
            return Some(Vec::new());
        }
        // What has no object in it is no message to anybody.
        let data = event.data().filter(|data| !changes || memchr(b'{', data).is_some())?;
        let answer = match self.session.from_server(self.session.parsed(&data).await) {
            FromServer::Pass(answer) => answer,
            FromServer::Filter(filtering) => self.session.settled(filtering).await,
            FromServer::Refuse(refused) => return Some(in_place_of(event, &refused)),
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

    /// Ends the stream with an error for who waits for an answer. Tells whether somebody does.
    fn fail(&mut self, reason: &str) -> bool {
        self.reader = None;
        let answer = self.asked.id.as_ref().and_then(|id| self.session.fail(id, reason));
        self.ready.extend(answer.as_ref().map(event_of));
        answer.is_some()
    }
}

/// What comes next on a stream.
enum Step {
    Chunk(Result<Bytes, ContentError>),
    End,
    Silence(Duration),
    Stop,
}

/// A message of the gateway's own as an event.
fn event_of(message: &Bytes) -> Bytes {
    [b"event: message\ndata: ".as_slice(), message, b"\n\n"].concat().into()
}

/// Errors in the place of an event, the first of them with its other fields.
fn in_place_of(event: &Event, refused: &Refused) -> Vec<Bytes> {
    let Some((first, others)) = refused.errors.split_first() else { return Vec::new() };
    event.with_data(first).into_iter().chain(others.iter().map(event_of)).collect()
}

/// Whether a line of a text is a message by itself, which a reader may find who does not put the lines together.
fn has_message_line(text: &Bytes) -> bool {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| memchr(b'{', line).is_some() && Message::read(text.slice_ref(line)).fault().is_none())
}

/// A response as it came, whatever is in it.
fn untouched(session: &Session, asked: &Asked, response: reqwest::Response, headers: HeaderMap) -> Response {
    asked.id.iter().for_each(|id| session.forget(id));
    respond(response.status(), headers, Body::from_stream(response.bytes_stream()))
}

/// What goes on for the whole body of a response.
async fn read(
    session: &Arc<Session>,
    asked: Asked,
    bytes: Bytes,
    status: StatusCode,
    mut headers: HeaderMap,
) -> Result<Response, Refusal> {
    let message = session.parsed(&bytes).await;
    let decided = match (content::form(&bytes), message.fault()) {
        _ if session.rules.audits() => session.from_server(message),
        (Form::Wide, _) => return failed(session, asked.id, &ContentError::Charset("utf-16".to_owned()).to_string()),
        (Form::Events, _) => {
            return failed(session, asked.id, "the server sent an event stream without saying so in its content type");
        }
        (Form::Text, _) | (Form::Message, Some(Fault::Nothing)) => {
            return other_body(session, asked, bytes, status, headers).await;
        }
        (Form::Message, _) => session.from_server(message),
    };
    let (answer, mut status) = match decided {
        FromServer::Pass(answer) => (answer, status),
        FromServer::Filter(filtering) => (session.settled(filtering).await, status),
        FromServer::Refuse(refused) => match refused.errors.as_slice() {
            [] => return failed(session, asked.id, &refused.reason),
            [error] => (error.clone(), StatusCode::OK),
            errors => ([b"[", errors.join(&b","[..]).as_slice(), b"]"].concat().into(), StatusCode::OK),
        },
        FromServer::Nothing => return failed(session, asked.id, "the server answered nothing that was asked"),
    };
    // What the gateway answers in the place of an error is none.
    let is_replaced = answer.as_ptr() != bytes.as_ptr() || answer.len() != bytes.len();
    if is_replaced {
        OF_BODY.iter().for_each(|name| drop(headers.remove(name)));
        if status.is_client_error() && Message::read(answer.clone()).result().is_some() {
            status = StatusCode::OK;
        }
    }
    Ok(respond(status, headers, body::of_bytes(answer)))
}

/// What goes on for a body that is no message. Where a call waits, it is all that a client could read as the result.
async fn other_body(
    session: &Arc<Session>,
    asked: Asked,
    bytes: Bytes,
    status: StatusCode,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Some(id) = asked.id else { return Ok(respond(status, headers, body::of_bytes(bytes))) };
    if status.is_success() {
        let kind = guard::text(&headers, &CONTENT_TYPE).unwrap_or("none");
        let reason =
            format!("the server answered with something that is not a JSON-RPC message, of content type {kind:?}");
        return failed(session, Some(id), &reason);
    }
    let Some((shown, filtering)) = session.page(&id, &bytes) else {
        session.forget(&id);
        return Ok(respond(status, headers, body::of_bytes(bytes)));
    };
    let reply = session.settled(filtering).await;
    if reply == shown {
        return Ok(respond(status, headers, body::of_bytes(bytes)));
    }
    Ok(json(StatusCode::OK, body::of_bytes(reply)))
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

fn unreachable(error: &reqwest::Error) -> Unsent {
    let reason = format!("the server cannot be reached: {}", Endpoint::explain(error));
    Unsent { status: StatusCode::BAD_GATEWAY, reason }
}

fn reason(error: &BodyError) -> String {
    match error {
        BodyError::Spool(error) => error.to_string(),
        BodyError::Broken(text) => text.clone(),
    }
}

fn failed(session: &Session, id: Option<Id>, reason: &str) -> Result<Response, Refusal> {
    match id.and_then(|id| session.fail(&id, reason)) {
        Some(answer) => Ok(json(StatusCode::OK, answer)),
        None => Err(Refusal::Status(StatusCode::BAD_GATEWAY, reason.to_owned())),
    }
}
