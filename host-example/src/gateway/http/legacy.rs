//! A session of the handshake revisions, up to 2025-11-25, with a child process of its own.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::mpsc::{self, Sender};

use super::INLINE_BYTES;
use super::bridge::{Out, STREAM_MESSAGES, empty, events, lock, of_messages, refused};
use super::guard::Refusal;
use crate::gateway::link::{Link, Receive, id_of_cut};
use crate::gateway::metrics::Open;
use crate::gateway::rules::Rules;
use crate::gateway::workers::Workers;
use crate::gateway::{FromClient, FromServer, Produced, Session, Who};
use crate::mcp::{Id, Kind, Message};
use crate::transport::{Cut, Launch};

/// Most messages that are kept for a client that does not listen; the oldest is dropped first.
const BACKLOG_MESSAGES_MAX: usize = 1_000;

/// Most bytes of them.
const BACKLOG_BYTES_MAX: usize = 4 << 20;

pub(super) struct LegacySession {
    id: String,
    session: Arc<Session>,
    tenant: String,
    link: Link<Self>,
    workers: Arc<Workers>,
    streams: Mutex<Streams>,
    used: Mutex<Instant>,
    _open: Open,
}

#[derive(Default)]
struct Streams {
    exchanges: Vec<Exchange>,
    listener: Option<Sender<Out>>,
    backlog: VecDeque<Bytes>,
    backlog_bytes: usize,
}

/// A request that is being answered.
struct Exchange {
    id: Id,
    progress: Option<Id>,
    sender: Sender<Out>,
}

/// Where a message of the server belongs.
enum Route {
    Answer(Id),
    Progress(Id),
    Other,
}

/// Forgets an exchange when its response is gone.
struct Held(Weak<LegacySession>, Id);

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(session) = self.0.upgrade() {
            lock(&session.streams).exchanges.retain(|exchange| exchange.id != self.1);
        }
    }
}

impl fmt::Debug for LegacySession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LegacySession").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl LegacySession {
    pub(super) fn new(
        id: String,
        tenant: String,
        rules: Arc<Rules>,
        launch: Launch,
        workers: Arc<Workers>,
    ) -> Arc<Self> {
        let who = Who { tenant: tenant.clone(), session: Some(id.clone()), local: false };
        let open = rules.metrics.session();
        let session = Arc::new(Session::new(rules, who));
        Arc::new_cyclic(|this| Self {
            id,
            link: Link::new(launch, Arc::clone(&session), this.clone()),
            session,
            tenant,
            workers,
            streams: Mutex::default(),
            used: Mutex::new(Instant::now()),
            _open: open,
        })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tenant(&self) -> &str {
        &self.tenant
    }

    pub(super) async fn answer(this: &Arc<Self>, message: Message) -> Result<Response, Refusal> {
        *lock(&this.used) = Instant::now();
        let asks = matches!(message.kind(), Kind::Request);
        let Some(id) = message.id().filter(|_| asks) else {
            tokio::task::block_in_place(|| this.forward(message))?;
            return Ok(empty(StatusCode::ACCEPTED));
        };
        let progress = message.params().meta.and_then(|meta| meta.progress_token.map(|token| Id::of_json(token.get())));
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES);
        lock(&this.streams).exchanges.push(Exchange { id: id.clone(), progress, sender });
        let held = Held(Arc::downgrade(this), id);
        // Seldom blocks: a server reads what is sent to it.
        tokio::task::block_in_place(|| this.forward(message))?;
        Ok(of_messages(messages, held, |_| StatusCode::OK).await)
    }

    /// Takes a message of the client on its way. Blocks while the server does not read.
    fn forward(self: &Arc<Self>, message: Message) -> Result<(), Refusal> {
        let (id, asks) = (message.id(), matches!(message.kind(), Kind::Request | Kind::Batch));
        match self.session.from_client(message) {
            FromClient::Forward(message) => self.send(&message, id, asks),
            FromClient::Answer(answer) => {
                self.deliver(answer, id.map_or(Route::Other, Route::Answer));
                Ok(())
            }
            FromClient::Work(work) => match work.run() {
                Produced::Answer(answer) => {
                    self.deliver(answer, id.map_or(Route::Other, Route::Answer));
                    Ok(())
                }
                Produced::Forward(message) => self.send(&message, id, true),
            },
        }
    }

    fn send(&self, message: &[u8], id: Option<Id>, asks: bool) -> Result<(), Refusal> {
        let Err(error) = self.link.send(message, asks) else { return Ok(()) };
        tracing::warn!(%error, "a message did not reach the server");
        match id.and_then(|id| Some((self.session.fail(&id, &error.to_string())?, id))) {
            Some((answer, id)) => {
                self.deliver(answer, Route::Answer(id));
                Ok(())
            }
            None if asks => Ok(()),
            None => Err(refused(&error)),
        }
    }

    /// The stream for what belongs to no request.
    pub(super) fn listen(&self) -> Result<Response, Refusal> {
        *lock(&self.used) = Instant::now();
        let mut streams = lock(&self.streams);
        if streams.listener.as_ref().is_some_and(|listener| !listener.is_closed()) {
            return Err(Refusal::Status(StatusCode::CONFLICT, "this session has a stream already".to_owned()));
        }
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES + BACKLOG_MESSAGES_MAX);
        for message in streams.backlog.drain(..) {
            // There is room for all of the backlog.
            let _ = sender.try_send(Out { pieces: vec![message], last: false });
        }
        streams.backlog_bytes = 0;
        streams.listener = Some(sender);
        Ok(events(None, messages, ()))
    }

    pub(super) fn end_stream(&self) {
        lock(&self.streams).listener = None;
    }

    pub(super) fn is_idle(&self, patience: Duration) -> bool {
        let streams = lock(&self.streams);
        let listens = streams.listener.as_ref().is_some_and(|listener| !listener.is_closed());
        !listens && streams.exchanges.is_empty() && lock(&self.used).elapsed() > patience
    }

    pub(super) fn end_overdue(&self) {
        for (answer, cancellation) in self.session.overdue() {
            let route = Message::read(answer.clone()).id().map_or(Route::Other, Route::Answer);
            self.deliver_now(answer, route);
            let _ = self.link.send(&cancellation, false);
        }
    }

    pub(super) fn stop(&self, patience: Duration) {
        // A client that does not read must not hold up the end of the server.
        *lock(&self.streams) = Streams::default();
        self.link.stop(patience);
    }

    /// Hands a message on; waits while its client does not read.
    fn deliver(&self, message: Bytes, route: Route) {
        let Some((sender, last)) = self.sender(&route) else { return self.keep(message) };
        if let Err(unsent) = sender.blocking_send(Out { pieces: vec![message], last }) {
            self.keep(unsent.0.pieces.into_iter().next().unwrap_or_default());
        }
    }

    /// As [`deliver`](Self::deliver), without waiting: for callers that must not.
    fn deliver_now(&self, message: Bytes, route: Route) {
        if let Some((sender, last)) = self.sender(&route) {
            let _ = sender.try_send(Out { pieces: vec![message], last });
        }
    }

    /// Where a message goes: an answer and progress to their request; all else to the latest request, as it most likely
    /// is about that, or to the stream of the session.
    fn sender(&self, route: &Route) -> Option<(Sender<Out>, bool)> {
        let streams = lock(&self.streams);
        let is_asked = |exchange: &&Exchange| match route {
            Route::Answer(id) => exchange.id == *id,
            Route::Progress(token) => exchange.progress.as_ref() == Some(token),
            Route::Other => true,
        };
        let exchange = streams.exchanges.iter().rev().find(is_asked);
        let last = matches!(route, Route::Answer(_));
        match exchange {
            Some(exchange) => Some((exchange.sender.clone(), last)),
            None => streams.listener.clone().filter(|listener| !listener.is_closed()).map(|listener| (listener, false)),
        }
    }

    fn keep(&self, message: Bytes) {
        if message.len() > BACKLOG_BYTES_MAX {
            tracing::warn!(bytes = message.len(), "a message for a client that does not listen is left out");
            return;
        }
        let mut streams = lock(&self.streams);
        streams.backlog_bytes += message.len();
        streams.backlog.push_back(message);
        while streams.backlog.len() > BACKLOG_MESSAGES_MAX || streams.backlog_bytes > BACKLOG_BYTES_MAX {
            let dropped = streams.backlog.pop_front().map_or(0, |message| message.len());
            streams.backlog_bytes -= dropped;
            tracing::warn!("a message for a client that does not listen is left out");
        }
    }
}

impl Receive for LegacySession {
    fn message(self: &Arc<Self>, message: Bytes) {
        let message = Message::read(message);
        let route = match (message.kind(), message.id(), message.method().as_deref()) {
            (Kind::Response | Kind::Other, Some(id), _) => Route::Answer(id),
            (Kind::Notification, _, Some("notifications/progress")) => {
                let token = message.params().progress_token.map(|token| Id::of_json(token.get()));
                token.map_or(Route::Other, Route::Progress)
            }
            _ => Route::Other,
        };
        match self.session.from_server(message) {
            FromServer::Pass(message) => self.deliver(message, route),
            FromServer::Filter(filtering) if filtering.bytes() <= INLINE_BYTES => self.deliver(filtering.run(), route),
            FromServer::Filter(filtering) => {
                let this = Arc::clone(self);
                self.workers.run(move || this.deliver(filtering.run(), route));
            }
            FromServer::Nothing => {}
        }
    }

    fn cut(self: &Arc<Self>, cut: &Cut) {
        tracing::warn!(bytes = cut.bytes, reason = %cut.reason, "a message of the server cannot be kept");
        let Some(id) = id_of_cut(cut) else { return };
        if let Some(answer) = self.session.fail(&id, &cut.reason.to_string()) {
            self.deliver(answer, Route::Answer(id));
        }
    }

    fn ended(self: &Arc<Self>, how: &str) {
        tracing::info!("the server {how}");
        for answer in self.session.fail_all(&format!("the server {how} before it answered")) {
            let route = Message::read(answer.clone()).id().map_or(Route::Other, Route::Answer);
            self.deliver(answer, route);
        }
    }
}
