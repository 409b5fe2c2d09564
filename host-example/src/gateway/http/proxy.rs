//! A reverse proxy in front of a Streamable HTTP server: what goes through keeps its headers, status and order.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_ENCODING, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, ORIGIN, TRANSFER_ENCODING,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{Stream, StreamExt, stream};

use super::body::{self, BodyError};
use super::bridge::lock;
use super::guard::{self, Refusal, SESSION_ID, json};
use crate::gateway::metrics::Open;
use crate::gateway::remote::Endpoint;
use crate::gateway::rules::Rules;
use crate::gateway::{FromClient, FromServer, Produced, Session, Who};
use crate::mcp::{Id, Kind, Message};
use crate::transport::{Event, EventReader};

/// Headers of one connection, which are not handed on (RFC 9110, section 7.6.1), and those that this side makes anew.
const NOT_FORWARDED: [HeaderName; 10] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("te"),
    HeaderName::from_static("trailer"),
    HeaderName::from_static("upgrade"),
    TRANSFER_ENCODING,
    CONTENT_LENGTH,
    HOST,
    ACCEPT_ENCODING,
];

/// A server behind HTTP, and what is known of the sessions of older revisions with it.
pub(super) struct Proxy {
    rules: Arc<Rules>,
    endpoint: Endpoint,
    /// Whether the client's token is for the gateway, and not for the server.
    keeps_token: bool,
    sessions: Mutex<Sessions>,
}

/// Sessions by the id that the server gave them. The oldest is forgotten first, which only costs what is known of its
/// client.
#[derive(Default)]
struct Sessions {
    known: HashMap<String, (Arc<Session>, Open)>,
    order: VecDeque<String>,
}

type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, reqwest::Error>> + Send>>;

impl fmt::Debug for Proxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Proxy").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

impl Proxy {
    pub(super) fn new(rules: Arc<Rules>, endpoint: Endpoint, keeps_token: bool) -> Self {
        Self { rules, endpoint, keeps_token, sessions: Mutex::default() }
    }

    pub(super) async fn answer(&self, tenant: String, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        let answered = match parts.method {
            Method::POST => self.post(tenant, &parts, body).await,
            _ => self.other(tenant, &parts).await,
        };
        answered.unwrap_or_else(Refusal::response)
    }

    /// Hands on a request that is not for the endpoint, such as for the metadata of an authorization server.
    pub(super) async fn forward(&self, request: Request) -> Response {
        let (parts, _) = request.into_parts();
        if parts.method != Method::GET {
            return Refusal::NotFound.response();
        }
        let url = self.endpoint.at(parts.uri.path_and_query().map_or("/", |path| path.as_str()));
        match self.endpoint.client().get(url).headers(self.headers(&parts.headers)).send().await {
            Ok(response) => {
                let (status, headers) = (response.status(), forwarded(response.headers()));
                respond(status, headers, Body::from_stream(response.bytes_stream()))
            }
            Err(error) => unreachable(&error).response(),
        }
    }

    async fn post(&self, tenant: String, parts: &Parts, body: Body) -> Result<Response, Refusal> {
        let bytes = body::of_request(body, &self.rules).await?;
        let message = Message::read(bytes);
        let modern = guard::is_modern(&parts.headers, &message);
        if modern {
            guard::matches_body(&parts.headers, &message, false)?;
        }
        let session = self.session(tenant, &parts.headers, modern);
        // Streams that broke leave calls behind, which nobody waits for.
        drop(session.overdue());
        let is_first = message.method().as_deref() == Some("initialize");
        let id = message.id().filter(|_| message.kind() == Kind::Request);
        let message = match session.from_client(message) {
            FromClient::Forward(message) => message,
            FromClient::Answer(answer) => return Ok(json(StatusCode::OK, answer)),
            FromClient::Work(work) => match tokio::task::block_in_place(|| work.run()) {
                Produced::Answer(answer) => return Ok(json(StatusCode::OK, answer)),
                Produced::Forward(message) => message,
            },
        };
        let request = self.endpoint.client().post(self.endpoint.url()).headers(self.headers(&parts.headers));
        let response = match request.body(self.body(message)).send().await {
            Ok(response) => response,
            Err(error) => {
                let text = format!("the server cannot be reached: {}", Endpoint::explain(&error));
                let answer = id.and_then(|id| session.fail(&id, &text));
                return answer.map_or_else(|| Err(unreachable(&error)), |answer| Ok(json(StatusCode::OK, answer)));
            }
        };
        if is_first && let Some(id) = guard::text(response.headers(), &SESSION_ID) {
            self.remember(id.to_owned(), &session);
        }
        self.respond(session, id, response).await
    }

    /// GET and DELETE of older revisions, and what the server makes of the rest.
    async fn other(&self, tenant: String, parts: &Parts) -> Result<Response, Refusal> {
        let session = self.session(tenant, &parts.headers, false);
        if parts.method == Method::DELETE
            && let Some(id) = guard::text(&parts.headers, &SESSION_ID)
        {
            lock(&self.sessions).known.remove(id);
        }
        let request = self.endpoint.client().request(parts.method.clone(), self.endpoint.url());
        let sent = request.headers(self.headers(&parts.headers)).send().await;
        self.respond(session, None, sent.map_err(|error| unreachable(&error))?).await
    }

    async fn respond(
        &self,
        session: Arc<Session>,
        id: Option<Id>,
        response: reqwest::Response,
    ) -> Result<Response, Refusal> {
        let (status, headers) = (response.status(), forwarded(response.headers()));
        let kind = guard::text(&headers, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let chunks: Chunks = Box::pin(response.bytes_stream());
        if kind.starts_with("text/event-stream") {
            let mut response = respond(status, headers, self.events(session, id, chunks));
            response.headers_mut().insert("x-accel-buffering", HeaderValue::from_static("no"));
            return Ok(response);
        }
        if !kind.starts_with("application/json") {
            return Ok(respond(status, headers, Body::from_stream(chunks)));
        }
        let patience = Duration::from_millis(self.rules.config.gateway.call_timeout_ms.get());
        let bytes = match tokio::time::timeout(patience, body::collect(chunks, &self.rules.limits)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return failed(&session, id, &reason(&error)),
            Err(_) => {
                return failed(&session, id, &format!("the server did not answer within {} ms", patience.as_millis()));
            }
        };
        let answer = match session.from_server(Message::read(bytes.clone())) {
            FromServer::Pass(answer) => answer,
            FromServer::Filter(filtering) => body::filtered(filtering).await,
            FromServer::Nothing => bytes.clone(),
        };
        // What the gateway answers in the place of an error is none.
        let is_replaced = answer.as_ptr() != bytes.as_ptr();
        let mended = is_replaced && status.is_client_error() && Message::read(answer.clone()).result().is_some();
        Ok(respond(if mended { StatusCode::OK } else { status }, headers, body::of_bytes(answer)))
    }

    /// The events of a stream, each as it came unless a tool result in it is replaced.
    fn events(&self, session: Arc<Session>, id: Option<Id>, chunks: Chunks) -> Body {
        let patience = Duration::from_millis(self.rules.config.gateway.call_timeout_ms.get());
        let state = Events {
            chunks,
            reader: Some(EventReader::new(Arc::clone(&self.rules.limits))),
            ready: VecDeque::new(),
            session,
            patience: id.is_some().then_some(patience),
            id,
        };
        Body::from_stream(stream::unfold(state, |mut state| async move {
            let piece = state.next().await?;
            Some((Ok::<_, std::convert::Infallible>(piece), state))
        }))
    }

    fn body(&self, message: Bytes) -> reqwest::Body {
        if message.len() <= super::INLINE_BYTES {
            return message.into();
        }
        reqwest::Body::wrap_stream(stream::iter(body::pieces(message).map(Ok::<_, std::convert::Infallible>)))
    }

    fn headers(&self, of_client: &HeaderMap) -> HeaderMap {
        let mut headers = forwarded(of_client);
        // The origin was checked here; the server sees no browser.
        headers.remove(ORIGIN);
        if self.keeps_token {
            headers.remove(AUTHORIZATION);
        }
        headers.extend(self.endpoint.headers().clone());
        headers
    }

    /// What is known of the client of a request: of a session, or nothing before it says so itself.
    fn session(&self, tenant: String, headers: &HeaderMap, modern: bool) -> Arc<Session> {
        let id = guard::text(headers, &SESSION_ID).filter(|_| !modern);
        let known = id.and_then(|id| lock(&self.sessions).known.get(id).map(|(session, _)| Arc::clone(session)));
        known.filter(|session| session.tenant() == tenant).unwrap_or_else(|| {
            let who = Who { tenant, session: id.map(str::to_owned), local: false };
            Arc::new(Session::new(Arc::clone(&self.rules), who))
        })
    }

    fn remember(&self, id: String, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        sessions.known.insert(id.clone(), (Arc::clone(session), self.rules.metrics.session()));
        sessions.order.push_back(id);
        while sessions.order.len() > self.rules.config.gateway.sessions.get() as usize {
            if let Some(oldest) = sessions.order.pop_front() {
                sessions.known.remove(&oldest);
            }
        }
    }
}

/// An event stream on its way to the client.
struct Events {
    chunks: Chunks,
    /// None at the end.
    reader: Option<EventReader>,
    ready: VecDeque<Bytes>,
    session: Arc<Session>,
    /// The request that the stream answers.
    id: Option<Id>,
    patience: Option<Duration>,
}

impl Events {
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            self.reader.as_ref()?;
            let chunk = match self.patience {
                Some(patience) => match tokio::time::timeout(patience, self.chunks.next()).await {
                    Ok(chunk) => chunk,
                    Err(_) => {
                        self.fail(&format!("the server was silent for {} ms", patience.as_millis()));
                        continue;
                    }
                },
                None => self.chunks.next().await,
            };
            match chunk {
                Some(Ok(chunk)) => self.read(&chunk).await,
                Some(Err(error)) => {
                    self.fail(&format!("the connection to the server broke: {}", Endpoint::explain(&error)))
                }
                None => {
                    // A server may end a stream that the client takes up again.
                    let rest = self.reader.take().and_then(|reader| reader.finish().ok().flatten());
                    self.ready.extend(rest);
                }
            }
        }
    }

    async fn read(&mut self, chunk: &[u8]) {
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

    async fn event(&mut self, event: &Event) {
        let Some(data) = event.data() else { return self.pass(event) };
        let answer = match self.session.from_server(Message::read(data.clone())) {
            FromServer::Pass(answer) => answer,
            FromServer::Filter(filtering) => body::filtered(filtering).await,
            FromServer::Nothing => return,
        };
        if answer.as_ptr() == data.as_ptr() && answer.len() == data.len() {
            self.pass(event);
        } else {
            self.ready.extend(event.with_data(&answer));
        }
    }

    fn pass(&mut self, event: &Event) {
        self.ready.extend(body::pieces(event.raw().clone()));
    }

    /// Ends the stream with an error for who waits for an answer.
    fn fail(&mut self, reason: &str) {
        self.reader = None;
        if let Some(answer) = self.id.as_ref().and_then(|id| self.session.fail(id, reason)) {
            let event = [b"event: message\ndata: ".as_slice(), &answer, b"\n\n"].concat();
            self.ready.push_back(event.into());
        }
    }
}

fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// The headers that are about the message and not about the connection.
fn forwarded(headers: &HeaderMap) -> HeaderMap {
    let named: Vec<&str> = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).collect();
    let is_named = |name: &HeaderName| {
        named.iter().flat_map(|names| names.split(',')).any(|other| other.trim().eq_ignore_ascii_case(name.as_str()))
    };
    let kept = headers.iter().filter(|(name, _)| !NOT_FORWARDED.contains(name) && !is_named(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn unreachable(error: &reqwest::Error) -> Refusal {
    Refusal::Status(StatusCode::BAD_GATEWAY, format!("the server cannot be reached: {}", Endpoint::explain(error)))
}

fn reason(error: &BodyError) -> String {
    match error {
        BodyError::Spool(error) => error.to_string(),
        BodyError::Broken(text) => format!("the connection to the server broke: {text}"),
    }
}

fn failed(session: &Session, id: Option<Id>, reason: &str) -> Result<Response, Refusal> {
    match id.and_then(|id| session.fail(&id, reason)) {
        Some(answer) => Ok(json(StatusCode::OK, answer)),
        None => Err(Refusal::Status(StatusCode::BAD_GATEWAY, reason.to_owned())),
    }
}
