//! A session of the handshake revisions, up to 2025-11-25, with a child process of its own.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::mpsc::{self, OwnedPermit, Receiver, Sender};

use super::streams::{Forwarded, Out, STREAM_MESSAGES, empty, events, meanwhile, of_messages, refused};
use crate::listener::body;
use crate::listener::guard::Refusal;
use crate::listener::lock;
use crate::metrics::Open;
use crate::tenants::rules::Rules;
use crate::upstream::link::{CHATTER, is_chatter};
use crate::upstream::link::{Link, Receive, id_of_cut};
use crate::{FromClient, FromServer, Produced, Session, Who};
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Id, Kind, Message, method};
use lro_transport::{Cut, Launch, Permit};

/// Most messages that are kept for a client that does not listen; the oldest is dropped first.
const BACKLOG_MESSAGES_MAX: usize = 1_000;

/// Most bytes of them.
const BACKLOG_BYTES_MAX: usize = 4 << 20;

/// How often it is looked for memory for a message.
const MEMORY_POLL: Duration = Duration::from_millis(10);

/// Messages up to this size are copied before they wait.
const SHARED_BYTES: usize = 16 << 10;

pub(super) struct LegacySession {
    id: String,
    session: Arc<Session>,
    tenant: String,
    link: Link<Self>,
    streams: Mutex<Streams>,
    used: Mutex<Instant>,
    has_begun: AtomicBool,
    is_abandoned: AtomicBool,
    _open: Open,
}

#[derive(Default)]
struct Streams {
    exchanges: Vec<Exchange>,
    /// Exchanges so far, as a client may use an id twice.
    count: u64,
    listener: Option<Sender<Out>>,
    backlog: VecDeque<Kept>,
    backlog_bytes: usize,
}

/// A message for a client that does not listen, with the memory that it takes.
struct Kept(Bytes, Permit<String>);

/// A request, or a batch of them, that is being answered.
struct Exchange {
    number: u64,
    /// For each request without an answer, the place that is kept for it.
    answers: Vec<(Id, OwnedPermit<Out>)>,
    progress: Vec<Id>,
    /// Whether the session begins with it.
    begins: bool,
    sender: Sender<Out>,
}

impl Streams {
    /// The stream of the session, while the client listens.
    fn listener(&self) -> Option<Sender<Out>> {
        self.listener.clone().filter(|listener| !listener.is_closed())
    }
}

/// Where a message of the server belongs.
enum Route {
    Answer(Id),
    Progress(Id),
    Other,
}

/// Forgets an exchange when its response is gone, and the session with it that it did not begin.
struct Held(Weak<LegacySession>, u64);

impl Drop for Held {
    fn drop(&mut self) {
        let Some(session) = self.0.upgrade() else { return };
        // A session is idle from the end of a call on, however long that took.
        *lock(&session.used) = Instant::now();
        let ended: Vec<Exchange> =
            lock(&session.streams).exchanges.extract_if(.., |exchange| exchange.number == self.1).collect();
        if ended.iter().any(|exchange| exchange.begins) && !session.has_begun.load(Ordering::Relaxed) {
            session.is_abandoned.store(true, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for LegacySession {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("LegacySession").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl LegacySession {
    pub(super) fn new(id: String, tenant: String, rules: Arc<Rules>, launch: Launch) -> Arc<Self> {
        let who = Who { tenant: tenant.clone(), session: Some(id.clone()), local: false };
        let open = rules.metrics.session();
        let session = Arc::new(Session::new(&rules, who));
        Arc::new_cyclic(|this| Self {
            id,
            link: Link::new(launch, Arc::clone(&session), this.clone()),
            session,
            tenant,
            streams: Mutex::default(),
            used: Mutex::new(Instant::now()),
            has_begun: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
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
        let is_batch = message.kind() == Kind::Batch;
        let parts: Vec<Message> = match message.batch().filter(|_| is_batch) {
            Some(elements) => elements.into_iter().map(Message::read).collect(),
            None => vec![message],
        };
        let exchange = this.exchange(&parts);
        let forwarded = this.forwarded(parts);
        match exchange {
            None => {
                forwarded.end().await?;
                Ok(empty(StatusCode::ACCEPTED))
            }
            Some((messages, held)) if is_batch => Ok(events(None, messages, held)),
            Some((messages, held)) => meanwhile(forwarded, of_messages(messages, held, |_| StatusCode::OK)).await,
        }
    }

    /// Makes room for the answers to the requests among these messages; none when there is no request.
    fn exchange(self: &Arc<Self>, parts: &[Message]) -> Option<(Receiver<Out>, Held)> {
        let requests = || parts.iter().filter(|part| part.kind() == Kind::Request);
        let ids: Vec<Id> = requests().filter_map(Message::id).collect();
        if ids.is_empty() {
            return None;
        }
        let token = |part: &Message| part.params().meta?.progress_token.map(|token| Id::of_json(token.get()));
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES + ids.len());
        let place = |id| Some((id, sender.clone().try_reserve_owned().ok()?));
        let answers = ids.into_iter().filter_map(place).collect();
        let begins = requests().any(|part| part.method().as_deref() == Some(method::INITIALIZE));
        let progress = requests().filter_map(token).collect();
        let mut streams = lock(&self.streams);
        streams.count += 1;
        let number = streams.count;
        streams.exchanges.push(Exchange { number, answers, progress, begins, sender });
        Some((messages, Held(Arc::downgrade(self), number)))
    }

    /// Takes messages of the client on their way: a small one at once, if that is possible without waiting, all else on a
    /// thread of the tenant.
    fn forwarded(self: &Arc<Self>, parts: Vec<Message>) -> Forwarded {
        let this = Arc::clone(self);
        let small = match <[Message; 1]>::try_from(parts) {
            Ok([message]) if message.bytes().len() <= INLINE_BYTES => message,
            Ok([message]) => return Forwarded::spawn(&self.session.rules, move || this.forward(message)),
            Err(parts) => {
                let forward = move |message| this.forward(message);
                return Forwarded::spawn(&self.session.rules, || {
                    parts.into_iter().map(forward).fold(Ok(()), Result::and)
                });
            }
        };
        let (id, asks) = (small.id(), small.kind() == Kind::Request);
        match self.session.from_client(small) {
            FromClient::Forward(message) if self.link.try_send(&body::on_one_line(message.clone())) => Forwarded::Done,
            next => Forwarded::spawn(&self.session.rules, move || this.go_on(next, id, asks)),
        }
    }

    /// Takes a message of the client on its way. Blocks while the server does not read.
    fn forward(self: &Arc<Self>, message: Message) -> Result<(), Refusal> {
        let (id, asks) = (message.id(), message.kind() == Kind::Request);
        self.go_on(self.session.from_client(message), id, asks)
    }

    fn go_on(self: &Arc<Self>, next: FromClient, id: Option<Id>, asks: bool) -> Result<(), Refusal> {
        match next {
            FromClient::Forward(message) => self.send(&message, id, asks),
            FromClient::Answer(answer) => {
                self.deliver(answer, id.map_or(Route::Other, Route::Answer));
                Ok(())
            }
            FromClient::Work(work) => {
                let this = Arc::clone(self);
                self.session.carry_out(*work, move |produced| match produced {
                    Produced::Answer(answer) => this.deliver(answer, id.map_or(Route::Other, Route::Answer)),
                    // The client has its answer, if it did not get there.
                    Produced::Forward(message) => drop(this.send(&message, id, true)),
                });
                Ok(())
            }
        }
    }

    fn send(&self, message: &Bytes, id: Option<Id>, asks: bool) -> Result<(), Refusal> {
        let message = body::on_one_line(message.clone());
        let waits = || id.as_ref().is_none_or(|id| self.session.waits_for(id));
        let sent = if asks { self.link.ask(&message, waits) } else { self.link.send(&message) };
        let Err(error) = sent else { return Ok(()) };
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
        if streams.listener().is_some() {
            return Err(Refusal::Status(StatusCode::CONFLICT, "this session has a stream already".to_owned()));
        }
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES + BACKLOG_MESSAGES_MAX);
        for Kept(message, memory) in streams.backlog.drain(..) {
            // There is room for all of the backlog.
            let _ = sender.try_send(Out { pieces: vec![message], last: false, room: None, memory: Some(memory) });
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
        streams.listener().is_none() && streams.exchanges.is_empty() && lock(&self.used).elapsed() > patience
    }

    /// Whether the client has no use for it, as `initialize` failed or the client left before the answer.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn end_overdue(&self) {
        for (answer, cancellation) in self.session.overdue() {
            let Some(id) = Message::read(answer.clone()).id() else { continue };
            self.deliver_now(answer, &id);
            self.link.try_send(&cancellation);
        }
    }

    pub(super) fn stop(&self, patience: Duration) {
        // A client that does not read must not hold up the end of the server.
        *lock(&self.streams) = Streams::default();
        self.link.stop(patience);
    }

    /// Hands a message on: an answer and progress to their request; all else to the latest request, as it most likely is
    /// about that, or to the stream of the session. Waits while a client does not read, except with an answer.
    fn deliver(&self, message: Bytes, route: Route) {
        let message = match route {
            Route::Answer(id) => match self.deliver_answer(&id, message) {
                Ok(()) => return,
                Err(message) => message,
            },
            Route::Progress(token) => return self.tell(message, |exchange| exchange.progress.contains(&token)),
            Route::Other => return self.tell(message, |_| true),
        };
        self.tell(message, |_| false);
    }

    /// Hands an answer on to its request. Returns it when nobody waits for it.
    fn deliver_answer(&self, id: &Id, message: Bytes) -> Result<(), Bytes> {
        let mut streams = lock(&self.streams);
        for exchange in streams.exchanges.iter_mut().rev().filter(|exchange| !exchange.sender.is_closed()) {
            let Some(place) = exchange.answers.iter().position(|(asked, _)| asked == id) else { continue };
            let (_, permit) = exchange.answers.swap_remove(place);
            if exchange.begins && Message::read(message.clone()).result().is_some() {
                self.has_begun.store(true, Ordering::Relaxed);
            }
            let last = exchange.answers.is_empty();
            // Whoever waits for it takes the lock next.
            drop(streams);
            permit.send(Out { pieces: vec![message], last, room: None, memory: None });
            return Ok(());
        }
        Err(message)
    }

    /// Hands an answer on without waiting, to the stream of the session when its request is gone.
    fn deliver_now(&self, message: Bytes, id: &Id) {
        let Err(message) = self.deliver_answer(id, message) else { return };
        let Some(listener) = lock(&self.streams).listener() else { return self.keep(message) };
        let memory = self.session.rules.limits.share.take(message.len().min(INLINE_BYTES));
        let _ = listener.try_send(Out { pieces: vec![message], last: false, room: None, memory });
    }

    /// Hands on what is no answer, to the latest request of which this is true, or to the stream of the session.
    fn tell(&self, message: Bytes, belongs: impl Fn(&Exchange) -> bool) {
        let found = {
            let streams = lock(&self.streams);
            let exchange = streams.exchanges.iter().rev().find(|exchange| belongs(exchange));
            let of_exchange = exchange.map(|exchange| (exchange.sender.clone(), exchange.answers.len()));
            of_exchange.or_else(|| Some((streams.listener()?, 0)))
        };
        let Some((sender, reserved)) = found else { return self.keep(message) };
        let memory = self.memory(message.len(), &sender, reserved);
        let message = Out { pieces: vec![unshared(message)], last: false, room: None, memory };
        if let Err(unsent) = sender.blocking_send(message) {
            self.keep(unsent.0.pieces.into_iter().next().unwrap_or_default());
        }
    }

    /// Memory for a message that is to wait for its client. Without any left, one message at a time waits.
    fn memory(&self, bytes: usize, sender: &Sender<Out>, reserved: usize) -> Option<Permit<String>> {
        loop {
            let memory = self.session.rules.limits.share.take(bytes.min(INLINE_BYTES));
            let is_first = sender.capacity() + reserved >= sender.max_capacity();
            if memory.is_some() || is_first || sender.is_closed() {
                return memory;
            }
            std::thread::sleep(MEMORY_POLL);
        }
    }

    fn keep(&self, message: Bytes) {
        if message.len() > BACKLOG_BYTES_MAX {
            tracing::warn!(bytes = message.len(), "a message for a client that does not listen is left out");
            return;
        }
        let Some(memory) = self.session.rules.limits.share.take(message.len()) else {
            tracing::warn!("a message for a client that does not listen is left out, as there is no memory for it");
            return;
        };
        let mut streams = lock(&self.streams);
        streams.backlog_bytes += message.len();
        streams.backlog.push_back(Kept(unshared(message), memory));
        while streams.backlog.len() > BACKLOG_MESSAGES_MAX || streams.backlog_bytes > BACKLOG_BYTES_MAX {
            let dropped = streams.backlog.pop_front().map_or(0, |kept| kept.0.len());
            streams.backlog_bytes -= dropped;
            tracing::warn!("a message for a client that does not listen is left out");
        }
    }
}

/// A message that keeps nothing but itself in memory: a small one shares what was read together with it.
fn unshared(message: Bytes) -> Bytes {
    if message.len() <= SHARED_BYTES { Bytes::copy_from_slice(&message) } else { message }
}

impl Receive for LegacySession {
    fn message(self: &Arc<Self>, message: Bytes) {
        let message = Message::read(message);
        if is_chatter(&message) {
            return self.session.rules.leave_out(&message, CHATTER);
        }
        if let Some(elements) = message.batch().filter(|_| message.kind() == Kind::Batch) {
            return elements.into_iter().for_each(|element| self.message(element));
        }
        let route = match (message.kind(), message.id(), message.method().as_deref()) {
            (Kind::Response, Some(id), _) => Route::Answer(self.session.asked_as(id)),
            (Kind::Notification, _, Some(method::PROGRESS)) => {
                let token = message.params().progress_token.map(|token| Id::of_json(token.get()));
                token.map_or(Route::Other, Route::Progress)
            }
            _ => Route::Other,
        };
        match self.session.from_server(message) {
            FromServer::Pass(message) => self.deliver(message, route),
            FromServer::Filter(filtering) => {
                let this = Arc::clone(self);
                self.session.settle(filtering, || true, move |answer| this.deliver(answer, route));
            }
            FromServer::Refuse(refused) => {
                for error in refused.errors {
                    let route = Message::read(error.clone()).id().map_or(Route::Other, Route::Answer);
                    self.deliver(error, route);
                }
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
