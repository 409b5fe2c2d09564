//! A reverse proxy in front of a Streamable HTTP server. Headers, status and order of messages are kept.

mod detached;
mod events;
mod heartbeats;
mod pages;
mod reply;
mod sessions;
mod translated;

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::CONTENT_ENCODING;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Id, Kind, Message, REVISION_BEFORE_OUTPUTS, method};
use reqwest::RequestBuilder;
use tokio::sync::watch;

use self::detached::Detachable;
use self::events::EventStream;
use self::heartbeats::Decided;
use self::reply::{failed, respond};
use self::sessions::Sessions;
use super::bridge::Bridge;
use super::streams::empty;
use super::{RequestHead, upstream};
use crate::headers::{ACCEL_BUFFERING, PROTOCOL_VERSION, SESSION_ID};
use crate::listener::body;
use crate::listener::guard::{self, Refusal, json};
use crate::listener::shares::Holder;
use crate::session::{FromClient, Session, SessionOwner, is_of_outputs_revision};
use crate::tenants::rules::Rules;
use crate::trace;
use crate::upstream::content::{self, Chunks, Content};
use crate::upstream::{Endpoint, Upstream};

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

/// An HTTP server, and its known sessions of older revisions.
pub(super) struct Proxy {
    rules: Arc<Rules>,
    endpoint: Endpoint,
    /// Headers to forward from the configuration.
    named: Vec<HeaderName>,
    sessions: Sessions,
    /// The connections whose messages are translated.
    bridge: Bridge,
    /// Whether the server has understood a client without a handshake.
    is_modern: AtomicBool,
    /// Whether long-lived streams are to end.
    ending: watch::Sender<bool>,
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
    /// Whether it may become a job.
    is_detachable: bool,
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

fn is_handshake(head: &RequestHead, message: &Message) -> bool {
    message.method().as_deref() == Some(method::INITIALIZE) && !guard::is_modern(&head.parts.headers, message)
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
        // The settings accept only valid names.
        let named = settings.forward_headers.iter().filter_map(|name| name.parse().ok()).collect();
        let bridge = Bridge::new(Arc::clone(&rules), Upstream::Http(endpoint.clone()));
        let sessions = Sessions::new(bridge.pool(), &rules.metrics);
        let (is_modern, ending) = (AtomicBool::new(false), watch::Sender::new(false));
        Self { rules, endpoint, named, sessions, bridge, is_modern, ending }
    }

    /// The connections whose messages are translated.
    pub(super) const fn bridge(&self) -> &Bridge {
        &self.bridge
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(
        self: &Arc<Self>,
        head: &RequestHead,
        message: Option<Message>,
    ) -> Result<Response, Refusal> {
        if let Some(translated) = self.translated(head, message.as_ref()).await? {
            return Ok(translated);
        }
        match message {
            Some(message) if is_handshake(head, &message) => self.begin(head, message).await,
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
        let request = request.headers(upstream::document_headers(&parts.headers));
        let response = self.send(request, self.call_timeout()).await?;
        let (status, headers) = (response.status(), self.response_headers(response.headers()));
        Ok(respond(status, headers, Body::from_stream(response.bytes_stream())))
    }

    async fn post(self: &Arc<Self>, head: &RequestHead, message: Message) -> Result<Response, Refusal> {
        let RequestHead { holder, address, parts } = head;
        let modern = guard::is_modern(&parts.headers, &message);
        if modern {
            guard::check_headers(&parts.headers, &message, false)?;
        }
        let is_first = message.method().as_deref() == Some(method::INITIALIZE);
        let address = (!is_first).then_some(*address);
        let session = self.session(holder, &parts.headers, modern, address).await?;
        let mut headers = self.request_headers(&parts.headers);
        if modern && session.rules.gives_outputs() && is_of_outputs_revision(&message) {
            // As the message that the server gets.
            headers.insert(PROTOCOL_VERSION, HeaderValue::from_static(REVISION_BEFORE_OUTPUTS));
        }
        if upstream::may_identify_user(&headers) {
            session.never_reuse();
        }
        // Broken streams leave calls behind that no client waits for.
        drop(session.overdue());
        let mut request_info = RequestInfo {
            id: message.id().filter(|_| message.kind() == Kind::Request),
            modern,
            is_subscription: modern && guard::is_listen_request(&message),
            is_detachable: false,
        };
        let ids = ids_of(&message);
        let send = self.sending(&session, &headers);
        let message = match (heartbeats::decide(&session, message, Arc::clone(&send)).await, request_info.id.clone()) {
            (Decided::Now(FromClient::Forward(message)), _) => message,
            (Decided::Now(FromClient::Open(first)), Some(id)) => {
                return Ok(heartbeats::subscription(session, id, first, self.ending.subscribe()));
            }
            (Decided::Now(FromClient::Answer(answer) | FromClient::Open(answer)), _) => {
                return Ok(json(StatusCode::OK, answer));
            }
            (Decided::Now(FromClient::Nothing), _) => return Ok(empty(StatusCode::ACCEPTED)),
            (Decided::Streaming(response), _) => return Ok(response),
        };
        if trace::is_on() {
            headers.extend(trace::headers(&Message::read(message.clone())));
        }
        if session.rules.config.input_limit.is_some() {
            session.set_send(Arc::clone(&send));
        }
        let pending = PendingRequests { session: Arc::clone(&session), ids };
        let due = request_info.id.clone().and_then(|id| Some((session.detaches_at(&id)?, id)));
        if let Some((due, id)) = due {
            request_info.is_detachable = true;
            session.set_send(send);
            let call = Detachable { session, id, due, request_info, message, headers };
            return self.forward_detachable(call, pending).await;
        }
        let first = is_first.then_some(holder);
        self.exchange(session, request_info, message, headers, pending, first).await
    }

    /// Sends a message to the server, and makes the response to the client from that of the server. `first` is the
    /// holder of a session that begins.
    async fn exchange(
        &self,
        session: Arc<Session>,
        request_info: RequestInfo,
        message: Bytes,
        headers: HeaderMap,
        mut pending: PendingRequests,
        first: Option<&Holder>,
    ) -> Result<Response, Refusal> {
        let request = self.endpoint.client().post(self.endpoint.url()).headers(self.with_configured_headers(headers));
        let response = match self.send(request.body(self.body(message)), self.timeout_of(&request_info)).await {
            Ok(response) => response,
            Err(error) => {
                let failure = request_info.id.and_then(|id| session.fail(&id, &error.reason));
                if failure.is_some() {
                    pending.ids.clear();
                }
                return failure.map_or_else(|| Err(error.into()), |failure| Ok(json(StatusCode::OK, failure.error)));
            }
        };
        if let Some(holder) = first
            && let Some(id) = guard::text(response.headers(), &SESSION_ID)
        {
            self.begun(id, holder, &session).await;
        }
        let answered = self.respond(session, request_info, response).await;
        pending.ids.clear();
        answered
    }

    /// Remembers a session that the server has opened, here and for other replicas.
    async fn begun(&self, id: &str, holder: &Holder, session: &Arc<Session>) {
        self.bridge.kept().forget(self.sessions.remember(id, holder, session)).await;
        let is_known = self.sessions.find(id, &holder.tenant).is_some();
        if let Some((handshake, _)) = session.handshake().filter(|_| is_known) {
            self.bridge.kept().keep(&holder.tenant, id, handshake).await;
        }
    }

    /// Learns of a session that the server has opened for another replica, whose client introduced itself there.
    async fn adopt(&self, holder: &Holder, id: &str) {
        let Some(handshake) = self.bridge.kept().of_another(&holder.tenant, id).await else { return };
        let owner = SessionOwner { tenant: holder.tenant.clone(), session: Some(id.to_owned()), local: false };
        let session = Arc::new(Session::new(&self.rules, owner));
        session.resume(&handshake);
        self.bridge.kept().forget(self.sessions.remember(id, holder, &session)).await;
    }

    /// Forwards a request of the other [`METHODS`], such as GET and DELETE of older revisions.
    async fn other(&self, head: &RequestHead) -> Result<Response, Refusal> {
        let RequestHead { holder, address, parts } = head;
        let session = self.session(holder, &parts.headers, false, Some(*address)).await?;
        let request = self.endpoint.client().request(parts.method.clone(), self.endpoint.url());
        let request = request.headers(self.with_configured_headers(self.request_headers(&parts.headers)));
        if parts.method == Method::GET {
            let response = self.open_stream(request).await?;
            return self.respond(session, RequestInfo::default(), response).await;
        }
        let response = self.send(request, self.call_timeout()).await?;
        let has_ended = response.status().is_success() || response.status() == StatusCode::NOT_FOUND;
        if parts.method == Method::DELETE
            && has_ended
            && let Some(id) = guard::text(&parts.headers, &SESSION_ID)
        {
            self.sessions.forget(id);
            self.bridge.kept().forget(vec![(holder.tenant.clone(), id.to_owned())]).await;
        }
        self.respond(session, RequestInfo::default(), response).await
    }

    /// Sends a request. The head of the response must arrive within the timeout.
    async fn send(&self, request: RequestBuilder, timeout: Duration) -> Result<reqwest::Response, UpstreamError> {
        match tokio::time::timeout(timeout, request.send()).await {
            Ok(sent) => sent.map_err(|error| unreachable(&error)).and_then(final_response),
            Err(_) => Err(UpstreamError { status: StatusCode::GATEWAY_TIMEOUT, reason: timeout_reason(timeout) }),
        }
    }

    /// Opens a stream, whose head may arrive only with the first event.
    async fn open_stream(&self, request: RequestBuilder) -> Result<reqwest::Response, UpstreamError> {
        let mut ending = self.ending.subscribe();
        tokio::select! {
            sent = request.send() => sent.map_err(|error| unreachable(&error)).and_then(final_response),
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

    /// Timeout of a request. A job may take longer than a call.
    fn timeout_of(&self, request_info: &RequestInfo) -> Duration {
        if request_info.is_detachable { self.timeout_of_jobs() } else { self.call_timeout() }
    }

    fn timeout_of_jobs(&self) -> Duration {
        let job = Duration::from_secs(self.rules.config.gateway.job_seconds_max.get());
        self.call_timeout().max(job)
    }

    async fn respond(
        &self,
        session: Arc<Session>,
        request_info: RequestInfo,
        response: reqwest::Response,
    ) -> Result<Response, Refusal> {
        let (status, mut headers) = (response.status(), self.response_headers(response.headers()));
        let (content, rules) = (content::of_headers(response.headers()), &session.rules);
        // If nothing may be changed, nothing needs decoding.
        let is_read =
            matches!(&content, Ok(content) if !content.is_compressed && (content.is_stream || rules.enabled()));
        if !rules.changes() && !is_read {
            return Ok(reply::pass_through(&session, &request_info, response, headers));
        }
        let content = match content {
            Ok(content) => content,
            Err(_) if response.content_length() == Some(0) => Content { is_stream: false, is_compressed: false },
            Err(error) => return failed(&session, request_info.id, &error.to_string()),
        };
        let chunks = content::chunks(content, response);
        if content.is_compressed {
            BODY_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
        }
        if content.is_stream {
            let mut response = respond(status, headers, self.events(session, request_info, chunks));
            response.headers_mut().insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
            return Ok(response);
        }
        let timeout = self.timeout_of(&request_info);
        let bytes = match tokio::time::timeout(timeout, body::collect(chunks, &session.rules.limits)).await {
            Ok(Ok(bytes)) => bytes,
            Ok(Err(error)) => return failed(&session, request_info.id, &reply::reason(&error)),
            Err(_) => return failed(&session, request_info.id, &timeout_reason(timeout)),
        };
        reply::of_body(&session, request_info, bytes, status, headers).await
    }

    /// The events of a stream, each unchanged unless a tool result in it is replaced.
    fn events(&self, session: Arc<Session>, request_info: RequestInfo, chunks: Chunks) -> Body {
        let has_end = request_info.id.is_some() && !request_info.is_subscription;
        let idle_timeout = has_end.then(|| self.timeout_of(&request_info));
        let ending = (!has_end).then(|| self.ending.subscribe());
        let state = EventStream::new(session, request_info, chunks, idle_timeout, ending);
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

    /// The session of a request, also one of another replica, or a new one for this request. With tokens, a session must belong
    /// to the tenant. `address` is that of a request that does not start a session.
    async fn session(
        &self,
        holder: &Holder,
        headers: &HeaderMap,
        modern: bool,
        address: Option<IpAddr>,
    ) -> Result<Arc<Session>, Refusal> {
        let tenant = holder.tenant.as_str();
        let id = guard::text(headers, &SESSION_ID).filter(|_| !modern);
        if let Some(id) = id.filter(|id| self.sessions.find(id, tenant).is_none()) {
            self.adopt(holder, id).await;
        }
        let known = |id: &str| self.sessions.find(id, tenant);
        let is_own = |value: &HeaderValue| value.to_str().is_ok_and(|id| known(id).is_some());
        if self.rules.has_tokens() && !headers.get_all(SESSION_ID).iter().all(is_own) {
            return Err(guard::unknown_session());
        }
        Ok(id.and_then(known).unwrap_or_else(|| {
            let owner = SessionOwner { tenant: tenant.to_owned(), session: id.map(str::to_owned), local: false };
            Arc::new(match address {
                Some(address) => Session::of_request(&self.rules, owner, address),
                None => Session::new(&self.rules, owner),
            })
        }))
    }
}

fn timeout_reason(timeout: Duration) -> String {
    format!("the server did not answer within {} ms", timeout.as_millis())
}

/// A response whose status can be forwarded: behind one of 1xx, such as 101, comes no HTTP.
fn final_response(response: reqwest::Response) -> Result<reqwest::Response, UpstreamError> {
    let status = response.status();
    if !status.is_informational() {
        return Ok(response);
    }
    let reason = format!("the server answered with HTTP status {status}, which nobody asked for");
    Err(UpstreamError { status: StatusCode::BAD_GATEWAY, reason })
}

fn unreachable(error: &reqwest::Error) -> UpstreamError {
    let reason = format!("the server cannot be reached: {}", Endpoint::explain(error));
    UpstreamError { status: StatusCode::BAD_GATEWAY, reason }
}
