//! The HTTP end of a server that is a command.

use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};
use tokio::task::JoinHandle;

use super::body;
use super::guard::{self, Refusal, SESSION_ID, json};
use super::legacy::LegacySession;
use super::modern::Shared;
use super::shares::Holder;
use crate::gateway::link::LinkError;
use crate::gateway::rules::Rules;
use crate::gateway::workers::Refused;
use crate::job::INLINE_BYTES;
use crate::mcp::{Kind, Message};
use crate::transport::{Launch, Place, Pool};

/// How long a stream may be silent before a comment shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Messages that wait for a client to read them before the server has to wait too.
pub(super) const STREAM_MESSAGES: usize = 64;

/// Random bytes of a session id.
const SESSION_ID_BYTES: usize = 16;

/// Sessions with children of their own, and the child that the others share.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) rules: Arc<Rules>,
    launch: Launch,
    sessions: Mutex<HashMap<String, Open>>,
    places: Arc<Pool<Holder>>,
    shared: Mutex<HashMap<String, Arc<Shared>>>,
}

/// A session, and its place among them.
#[derive(Debug)]
struct Open {
    session: Arc<LegacySession>,
    _place: Place<Holder>,
}

/// A message for a client, in pieces.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) pieces: Vec<Bytes>,
    /// Whether it answers the request, so that nothing follows.
    pub(super) last: bool,
    /// The part of a stream's bytes that it takes up while it waits, if they are counted.
    #[expect(dead_code, reason = "it gives the bytes back when it is dropped")]
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// And the part of the tenant's memory.
    #[expect(dead_code, reason = "it gives the memory back when it is dropped")]
    pub(super) memory: Option<Place<String>>,
}

impl Bridge {
    pub(super) fn new(rules: Arc<Rules>, launch: Launch) -> Self {
        let places = Pool::new(u64::from(rules.config.gateway.sessions.get()));
        Self { rules, launch, sessions: Mutex::default(), places, shared: Mutex::default() }
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(
        &self,
        holder: &Holder,
        address: IpAddr,
        parts: &Parts,
        message: Option<Message>,
    ) -> Result<Response, Refusal> {
        let (tenant, headers) = (holder.tenant.as_str(), &parts.headers);
        match (&parts.method, message) {
            (_, Some(message)) => self.post(holder, address, headers, message).await,
            (&Method::GET, None) => self.get(tenant, headers),
            (&Method::DELETE, None) => self.delete(tenant, headers).await,
            _ => Err(not_allowed()),
        }
    }

    async fn post(
        &self,
        holder: &Holder,
        address: IpAddr,
        headers: &HeaderMap,
        message: Message,
    ) -> Result<Response, Refusal> {
        if guard::is_modern(headers, &message) {
            guard::matches_body(headers, &message, true)?;
            let shared = self.shared(&holder.tenant);
            return Shared::answer(&shared, message, address).await;
        }
        let session = match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(&holder.tenant, id)?,
            None if message.method().as_deref() == Some("initialize") => self.open(holder)?,
            None if message.method().as_deref() == Some("server/discover") => {
                let text = "the header mcp-protocol-version is missing";
                return Err(Refusal::Mismatch(message.id(), text.to_owned()));
            }
            None => {
                let text = "the header mcp-session-id is missing: begin with initialize";
                return Err(Refusal::Status(StatusCode::BAD_REQUEST, text.to_owned()));
            }
        };
        let is_first = message.method().as_deref() == Some("initialize");
        let mut response = LegacySession::answer(&session, message).await?;
        if is_first
            && !session.is_abandoned()
            && let Ok(id) = HeaderValue::from_str(session.id())
        {
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(response)
    }

    fn get(&self, tenant: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(tenant, id)?.listen(),
            None => Err(not_allowed()),
        }
    }

    async fn delete(&self, tenant: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        let Some(id) = guard::text(headers, &SESSION_ID) else { return Err(not_allowed()) };
        let session = self.session(tenant, id)?;
        lock(&self.sessions).remove(id);
        let _ = end(vec![session], self.patience()).await;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session of an id, which another tenant does not find.
    fn session(&self, tenant: &str, id: &str) -> Result<Arc<LegacySession>, Refusal> {
        let found = lock(&self.sessions).get(id).map(|open| Arc::clone(&open.session));
        let found = found.filter(|session| session.tenant() == tenant);
        found.ok_or_else(|| {
            let text = "there is no such session: it may have ended; begin again with initialize";
            Refusal::Status(StatusCode::NOT_FOUND, text.to_owned())
        })
    }

    fn open(&self, holder: &Holder) -> Result<Arc<LegacySession>, Refusal> {
        let mut random = [0; SESSION_ID_BYTES];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .map_err(|error| Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = self.places.take(holder, 1).or_else(|| {
            end(self.remove(|session| session.is_abandoned()), self.patience());
            self.places.take(holder, 1)
        });
        let place = place.ok_or_else(|| {
            let text = "too many sessions at a time, the limit `gateway.sessions`";
            Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        })?;
        let (rules, launch) = (Arc::clone(&self.rules), self.launch.clone());
        let session = LegacySession::new(id.clone(), holder.tenant.clone(), rules, launch);
        lock(&self.sessions).insert(id, Open { session: Arc::clone(&session), _place: place });
        Ok(session)
    }

    /// Takes out the sessions for which that is so.
    fn remove(&self, is_over: impl Fn(&LegacySession) -> bool) -> Vec<Arc<LegacySession>> {
        let removed = |(_, open): (String, Open)| open.session;
        lock(&self.sessions).extract_if(|_, open| is_over(&open.session)).map(removed).collect()
    }

    fn all_sessions(&self) -> Vec<Arc<LegacySession>> {
        lock(&self.sessions).values().map(|open| Arc::clone(&open.session)).collect()
    }

    fn shared(&self, tenant: &str) -> Arc<Shared> {
        let new = || Shared::new(tenant.to_owned(), Arc::clone(&self.rules), self.launch.clone());
        Arc::clone(lock(&self.shared).entry(tenant.to_owned()).or_insert_with(new))
    }

    /// Ends sessions that nobody uses, servers of tenants that are gone, and calls that take too long.
    pub(super) fn end_idle(&self) {
        let patience = Duration::from_secs(self.rules.config.gateway.session_idle_seconds.get());
        self.all_sessions().iter().for_each(|session| session.end_overdue());
        for shared in self.all_shared() {
            shared.end_overdue();
        }
        let over = self.remove(|session| {
            session.is_abandoned() || session.is_idle(patience) || self.rules.is_gone(session.tenant())
        });
        if !over.is_empty() {
            // A server may take its time to end, and the other sessions go on.
            end(over, self.patience());
        }
        let gone: Vec<Arc<Shared>> =
            lock(&self.shared).extract_if(|tenant, _| self.rules.is_gone(tenant)).map(|(_, shared)| shared).collect();
        if !gone.is_empty() {
            let patience = self.patience();
            tokio::task::spawn_blocking(move || gone.iter().for_each(|shared| shared.stop(patience)));
        }
    }

    fn all_shared(&self) -> Vec<Arc<Shared>> {
        lock(&self.shared).values().cloned().collect()
    }

    /// How long a server may take to end.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.rules.config.gateway.shutdown_ms.get())
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn end_streams(&self) {
        self.all_sessions().iter().for_each(|session| session.end_stream());
        for shared in self.all_shared() {
            shared.end_streams();
        }
    }

    /// Ends all children.
    pub(super) async fn finish(&self) {
        let patience = self.patience();
        let sessions = self.remove(|_| true);
        let shared: Vec<Arc<Shared>> = lock(&self.shared).drain().map(|(_, shared)| shared).collect();
        let _ = end(sessions, patience).await;
        let stop = move || shared.iter().for_each(|shared| shared.stop(patience));
        let _ = tokio::task::spawn_blocking(stop).await;
    }
}

/// Ends sessions, on a thread for blocking work.
fn end(sessions: Vec<Arc<LegacySession>>, patience: Duration) -> JoinHandle<()> {
    // Each child may take its time, so all are asked at once.
    let stop = move || {
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || session.stop(patience));
            }
        });
    };
    tokio::task::spawn_blocking(stop)
}

/// A message on its way to the server.
pub(super) enum Forwarded {
    /// It is there.
    Done,
    /// A thread of the tenant takes it there.
    Spawned(oneshot::Receiver<Result<(), Refusal>>),
}

impl Forwarded {
    /// Has a thread of the tenant with these rules take it there, as the server may not read.
    pub(super) fn spawn(rules: &Rules, forward: impl FnOnce() -> Result<(), Refusal> + Send + 'static) -> Self {
        let (done, ended) = oneshot::channel();
        rules.senders.run(move |turn| {
            let refused = |error: Refused| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            let _ = done.send(turn.map_err(refused).and_then(|()| forward()));
        });
        Self::Spawned(ended)
    }

    /// What became of it.
    pub(super) async fn end(self) -> Result<(), Refusal> {
        let Self::Spawned(ended) = self else { return Ok(()) };
        let failed = |_| Err(Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, Refused::Lost.to_string()));
        ended.await.unwrap_or_else(failed)
    }
}

/// The response to a request that is on its way to the server at the same time.
pub(super) async fn meanwhile(
    forwarded: Forwarded,
    response: impl Future<Output = Response>,
) -> Result<Response, Refusal> {
    let (mut response, forwarded) = (std::pin::pin!(response), std::pin::pin!(forwarded.end()));
    tokio::select! {
        response = &mut response => return Ok(response),
        forwarded = forwarded => forwarded?,
    }
    Ok(response.await)
}

/// What a line is that [`is_chatter`].
pub(super) const CHATTER: &str = "it answers nothing";

/// Whether a line is no message but something that a server wrote for people.
pub(super) fn is_chatter(message: &Message) -> bool {
    message.kind() == Kind::Response && message.id().is_none() && message.value(&["jsonrpc"]).is_none()
}

/// The answer to a request whose messages come through a channel: one JSON document when the first message is the answer,
/// else an event stream. What `held` holds is dropped with the response.
pub(super) async fn of_messages<H: Send + 'static>(
    mut messages: Receiver<Out>,
    held: H,
    status: impl FnOnce(&Out) -> StatusCode,
) -> Response {
    let first = tokio::time::timeout(KEEP_ALIVE, messages.recv()).await;
    match first {
        Ok(Some(first)) if first.last => {
            drop(held);
            let status = status(&first);
            json(status, of_pieces(first.pieces))
        }
        Ok(None) => {
            let text = "the session ended before the answer came";
            Refusal::Status(StatusCode::BAD_GATEWAY, text.to_owned()).response()
        }
        Ok(Some(first)) => events(Some(first), messages, held),
        Err(_) => events(None, messages, held),
    }
}

/// An event stream of messages.
pub(super) fn events<H: Send + 'static>(first: Option<Out>, messages: Receiver<Out>, held: H) -> Response {
    struct Stream<H> {
        messages: Receiver<Out>,
        ready: Box<dyn Iterator<Item = Bytes> + Send>,
        done: bool,
        _held: H,
    }
    let done = first.as_ref().is_some_and(|first| first.last);
    let ready = first.map_or_else(|| encoded(Vec::new()), |first| encoded(first.pieces));
    let state = Stream { messages, ready, done, _held: held };
    let pieces = stream::unfold(state, |mut state| async move {
        loop {
            if let Some(piece) = state.ready.next() {
                return Some((Ok::<_, std::convert::Infallible>(piece), state));
            }
            if state.done {
                return None;
            }
            match tokio::time::timeout(KEEP_ALIVE, state.messages.recv()).await {
                Ok(Some(out)) => {
                    state.done = out.last;
                    state.ready = encoded(out.pieces);
                }
                Ok(None) => return None,
                Err(_) => state.ready = Box::new(std::iter::once(Bytes::from_static(b":\n\n"))),
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// A message as an event, in pieces; none of an empty one.
fn encoded(message: Vec<Bytes>) -> Box<dyn Iterator<Item = Bytes> + Send> {
    const BEFORE: &[u8] = b"event: message\ndata: ";
    const AFTER: &[u8] = b"\n\n";
    let size: usize = message.iter().map(Bytes::len).sum();
    if size == 0 {
        return Box::new(std::iter::empty());
    }
    if size < INLINE_BYTES {
        let message = body::on_one_line(message.concat().into());
        return Box::new(std::iter::once([BEFORE, &message, AFTER].concat().into()));
    }
    let pieces = message.into_iter().flat_map(body::pieces).map(body::on_one_line);
    Box::new(std::iter::once(Bytes::from_static(BEFORE)).chain(pieces).chain([Bytes::from_static(AFTER)]))
}

fn of_pieces(mut pieces: Vec<Bytes>) -> Body {
    match pieces.len() {
        1 => body::of_bytes(pieces.pop().unwrap_or_default()),
        _ => {
            let pieces: Vec<Bytes> = pieces.into_iter().flat_map(body::pieces).collect();
            Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>)))
        }
    }
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}

/// A request that the server cannot take. Where its program lies concerns no client; the log has it.
pub(super) fn refused(error: &LinkError) -> Refusal {
    let text = match error {
        LinkError::Start { source, .. } => {
            tracing::warn!(%error, "request refused");
            format!("the server cannot be started: {source}")
        }
        error => error.to_string(),
    };
    Refusal::Status(StatusCode::BAD_GATEWAY, text)
}

fn not_allowed() -> Refusal {
    Refusal::Status(StatusCode::METHOD_NOT_ALLOWED, "this method is not for this revision or session".to_owned())
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
