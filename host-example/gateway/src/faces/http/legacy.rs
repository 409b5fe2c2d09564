//! A session of the handshake revisions, up to 2025-11-25, with its own connection to the server.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Id, Kind, Message, method};
use lro_transport::Permit;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, OwnedPermit, Receiver, Sender};

use super::bridge::Credentials;
use super::forwarding::{Forwarded, forward, messages_of, send_own};
use super::streams::{OutgoingMessage, STREAM_MESSAGES, empty, event_stream, message_response};
use crate::listener::guard::Refusal;
use crate::metrics::CountGuard;
use crate::session::{
    ClientDecision, Failure, FromServer, Heartbeat, Late, PARTS_TOKEN, SendOwn, Session, SessionOwner,
};
use crate::tenants::rules::Rules;
use crate::translate::Translator;
use crate::upstream::connection::{Connection, Prepared};
use crate::upstream::link::{Expects, Receive};
use crate::upstream::remote::Challenge;

/// Maximum number of messages kept for a client that does not listen. The oldest is dropped first.
const BACKLOG_MESSAGES_MAX: usize = 1_000;

/// Maximum size of these messages, in bytes.
const BACKLOG_BYTES_MAX: usize = 4 << 20;

/// How often an allocation of memory for a message is retried.
const MEMORY_POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Maximum size of messages that are copied before they wait, in bytes.
const COPIED_BYTES_MAX: usize = 16 << 10;

pub(super) struct LegacySession {
    id: String,
    session: Arc<Session>,
    tenant: String,
    connection: Connection<Self>,
    streams: Mutex<Streams>,
    used: Mutex<Instant>,
    is_initialized: AtomicBool,
    is_abandoned: AtomicBool,
    /// Whether the client has ended the session, which jobs keep alive.
    is_closed: AtomicBool,
    _open: CountGuard,
}

#[derive(Default)]
struct Streams {
    exchanges: Vec<Exchange>,
    /// Number of exchanges so far, which identifies an exchange even if a client reuses an id.
    count: u64,
    listener: Option<Sender<OutgoingMessage>>,
    backlog: VecDeque<BacklogMessage>,
    backlog_bytes: usize,
}

/// A message for a client that does not listen, with its memory.
struct BacklogMessage(Bytes, Permit<String>);

/// A request, or a batch of requests, in progress.
struct Exchange {
    number: u64,
    /// The unanswered requests, each with the channel slot reserved for its response.
    answers: Vec<(Id, OwnedPermit<OutgoingMessage>)>,
    progress: Vec<Id>,
    /// Whether the exchange initializes the session.
    initializes: bool,
    sender: Sender<OutgoingMessage>,
}

impl Streams {
    /// The stream of the session, if the client listens.
    fn listener(&self) -> Option<Sender<OutgoingMessage>> {
        self.listener.clone().filter(|listener| !listener.is_closed())
    }
}

/// Where to deliver a message from the server.
enum Route {
    Answer(Id),
    Progress(Id),
    /// A request of the server.
    Request,
    Other,
}

/// Removes an exchange when its response is dropped. If the session could not be initialized, it is abandoned.
struct ExchangeGuard(Weak<LegacySession>, u64);

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        let Some(session) = self.0.upgrade() else { return };
        // The idle time of a session starts at the end of a call, however long that took.
        *session.used.lock() = Instant::now();
        let ended: Vec<Exchange> =
            session.streams.lock().exchanges.extract_if(.., |exchange| exchange.number == self.1).collect();
        if ended.iter().any(|exchange| exchange.initializes) && !session.is_initialized.load(Ordering::Relaxed) {
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
    pub(super) fn new(id: String, tenant: String, rules: Arc<Rules>, prepared: Prepared) -> Arc<Self> {
        let owner = SessionOwner { tenant: tenant.clone(), session: Some(id.clone()), local: false };
        let open = rules.metrics.session();
        let session = Arc::new(Session::new(&rules, owner));
        let this = Arc::new_cyclic(|this| Self {
            id,
            connection: Connection::new(prepared, Arc::clone(&session), this.clone(), Translator::of(&session.rules)),
            session,
            tenant,
            streams: Mutex::default(),
            used: Mutex::new(Instant::now()),
            is_initialized: AtomicBool::new(false),
            is_abandoned: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            _open: open,
        });
        this.session.set_send(Self::sending(&this));
        this
    }

    /// Sends messages of the gateway itself.
    fn sending(this: &Arc<Self>) -> SendOwn {
        let this = Arc::downgrade(this);
        Arc::new(move |message| {
            if let Some(this) = this.upgrade() {
                send_own(&Arc::clone(&this.session), this, |this| &this.connection, message);
            }
        })
    }

    /// Uses the credentials for the messages that follow.
    pub(super) fn use_credentials(&self, credentials: Credentials) {
        if credentials.are_personal {
            self.session.never_reuse();
        }
        self.connection.set_client_headers(credentials.headers);
    }

    /// The server's demand for authorization since the last call of this function, if there was one.
    pub(super) fn take_challenge(&self) -> Option<Challenge> {
        self.connection.take_challenge()
    }

    /// Whether messages are translated.
    pub(super) fn is_translated(&self) -> bool {
        self.connection.translator().is_translating()
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) fn tenant(&self) -> &str {
        &self.tenant
    }

    /// The request of the client that began the session, once the server has answered it.
    pub(super) fn handshake(&self) -> Option<Bytes> {
        self.session.handshake().filter(|_| self.is_initialized()).map(|(request, _)| request)
    }

    /// Whether the server has answered the handshake.
    pub(super) fn is_initialized(&self) -> bool {
        self.is_initialized.load(Ordering::Relaxed)
    }

    pub(super) async fn answer(self: &Arc<Self>, message: Message) -> Result<Response, Refusal> {
        *self.used.lock() = Instant::now();
        let is_batch = message.kind() == Kind::Batch;
        let parts: Vec<Message> = match message.batch().filter(|_| is_batch) {
            Some(elements) => elements.into_iter().map(Message::read).collect(),
            None => vec![message],
        };
        let exchange = self.register_exchange(&parts);
        let forwarded = self.start_forwarding(parts);
        match exchange {
            None => {
                forwarded.end().await?;
                Ok(empty(StatusCode::ACCEPTED))
            }
            Some((messages, guard)) if is_batch => Ok(event_stream(None, messages, guard)),
            Some((messages, guard)) => forwarded.respond(message_response(messages, guard, |_| StatusCode::OK)).await,
        }
    }

    /// Registers an exchange for the requests among these messages, and reserves channel slots for their responses;
    /// `None` if there is no request.
    fn register_exchange(self: &Arc<Self>, parts: &[Message]) -> Option<(Receiver<OutgoingMessage>, ExchangeGuard)> {
        let requests = || parts.iter().filter(|part| part.kind() == Kind::Request);
        let ids: Vec<Id> = requests().filter_map(Message::id).collect();
        if ids.is_empty() {
            return None;
        }
        let token = |part: &Message| part.params().meta?.progress_id();
        let parts_token = |part: &Message| id_at(part, &["params", "_meta", PARTS_TOKEN]);
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES + ids.len());
        let reserve = |id| Some((id, sender.clone().try_reserve_owned().ok()?));
        let answers = ids.into_iter().filter_map(reserve).collect();
        let initializes = requests().any(|part| part.method().as_deref() == Some(method::INITIALIZE));
        let progress = requests().filter_map(token).chain(requests().filter_map(parts_token)).collect();
        let mut streams = self.streams.lock();
        streams.count += 1;
        let number = streams.count;
        streams.exchanges.push(Exchange { number, answers, progress, initializes, sender });
        Some((messages, ExchangeGuard(Arc::downgrade(self), number)))
    }

    /// Forwards the messages of a client's request.
    fn start_forwarding(self: &Arc<Self>, parts: Vec<Message>) -> Forwarded {
        let this = Arc::clone(self);
        match <[Message; 1]>::try_from(parts) {
            Ok([message]) => {
                let expects = Expects::of(&message);
                let proceed = move |decision| this.proceed(decision, expects);
                Forwarded::start(&self.session, &self.connection, message, proceed)
            }
            Err(parts) => {
                let forward = move |message: Message| {
                    let expects = Expects::of(&message);
                    this.proceed(this.session.decide_client(message), expects)
                };
                let forward_all = || parts.into_iter().map(forward).fold(Ok(()), Result::and);
                Forwarded::spawn(&self.session.rules, forward_all)
            }
        }
    }

    /// Forwards a message from the client. Blocks while the server does not read.
    fn proceed(self: &Arc<Self>, decision: ClientDecision, expects: Expects) -> Result<(), Refusal> {
        let this = Arc::clone(self);
        let forwarded = self.session.follow(decision, Self::sending(self), move |decided| {
            let answer = forward(&this.session, &this.connection, decided, &expects)?;
            let Expects::Response(id) = expects else { return Ok(()) };
            if let Some(answer) = answer {
                this.deliver(answer, Route::Answer(id));
            } else if this.session.is_due(&id) {
                this.answer_late();
            }
            Ok(())
        });
        forwarded.unwrap_or(Ok(()))
    }

    /// Opens the stream for messages that belong to no request.
    pub(super) fn listen(&self) -> Result<Response, Refusal> {
        *self.used.lock() = Instant::now();
        let mut streams = self.streams.lock();
        if streams.listener().is_some() {
            return Err(Refusal::Status(
                StatusCode::CONFLICT,
                "this session has an open stream already: close it first".to_owned(),
            ));
        }
        let (sender, messages) = mpsc::channel(STREAM_MESSAGES + BACKLOG_MESSAGES_MAX);
        for BacklogMessage(message, memory) in streams.backlog.drain(..) {
            // The channel has room for the whole backlog.
            let _ = sender.try_send(OutgoingMessage { memory: Some(memory), ..OutgoingMessage::new(message) });
        }
        streams.backlog_bytes = 0;
        streams.listener = Some(sender);
        Ok(event_stream(None, messages, ()))
    }

    pub(super) fn end_stream(&self) {
        self.streams.lock().listener = None;
    }

    /// Whether no client uses the session, and none will or has for as long as the timeout. Jobs keep it alive.
    pub(super) fn is_over(&self, timeout: Duration) -> bool {
        if self.session.has_jobs() {
            return false;
        }
        let streams = self.streams.lock();
        let is_unused = streams.listener().is_none() && streams.exchanges.is_empty();
        self.is_closed.load(Ordering::Relaxed) || (is_unused && self.used.lock().elapsed() > timeout)
    }

    /// Closes the session for its client if jobs keep it alive. Returns whether they do.
    pub(super) fn close_for_jobs(&self) -> bool {
        let has_jobs = self.session.has_jobs();
        if has_jobs {
            self.is_closed.store(true, Ordering::Relaxed);
            *self.streams.lock() = Streams::default();
        }
        has_jobs
    }

    /// Whether the client has ended the session.
    pub(super) fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }

    /// Whether the session is unusable, as `initialize` failed or the client left before the response.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    pub(super) fn answer_late(self: &Arc<Self>) {
        self.connection.poll();
        for Late { answer, cancellation } in self.session.late() {
            if let Some(answer) = answer {
                let (this, id) = (Arc::clone(self), answer.id.clone());
                // The record of a job is written first.
                self.session.rules.workers.run(move |_| this.deliver_now(answer.message(), &id));
            }
            if let Some(cancellation) = cancellation {
                self.connection.try_send(&cancellation);
            }
        }
        for response in self.session.responses() {
            let this = Arc::clone(self);
            // The server may not read.
            self.session.rules.senders.run(move |_| drop(this.connection.send(&response)));
        }
        self.send_heartbeats();
        let (this, updates) = (Arc::clone(self), self.session.updates());
        if !updates.is_empty() {
            // Reading what became of a job blocks.
            self.session.rules.workers.run(move |_| {
                this.session.notifications(&updates).into_iter().for_each(|message| this.deliver_to_session(message));
            });
        }
    }

    /// Sends the heartbeats that are due to their requests. None follows the answer, which needs the streams as well. A
    /// client that does not read gets none.
    fn send_heartbeats(&self) {
        let streams = self.streams.lock();
        for Heartbeat { call, message } in self.session.heartbeats() {
            let awaits = |exchange: &&Exchange| exchange.answers.iter().any(|(id, _)| *id == call);
            let of_call = streams.exchanges.iter().rev().find(awaits);
            let message = OutgoingMessage::new(message);
            let _ = of_call.map(|exchange| exchange.sender.try_send(message));
        }
    }

    pub(super) fn stop(&self, timeout: Duration) {
        // A client that does not read must not delay stopping the server.
        *self.streams.lock() = Streams::default();
        self.connection.stop(timeout);
    }

    fn route_of(&self, message: &Message) -> Route {
        match (message.kind(), message.id(), message.method().as_deref()) {
            (Kind::Response, Some(id), _) => Route::Answer(self.session.request_id(id)),
            (Kind::Notification, _, Some(method::PROGRESS)) => {
                message.params().progress_id().map_or(Route::Other, Route::Progress)
            }
            (Kind::Notification, _, Some(method::PARTIAL_RESULT)) => {
                id_at(message, &["params", PARTS_TOKEN]).map_or(Route::Other, Route::Progress)
            }
            (Kind::Request, _, _) => Route::Request,
            _ => Route::Other,
        }
    }

    /// Delivers a message: a response, progress or a part of a result to its request, any other to the latest request, as it most likely
    /// belongs to it, or to the stream of the session. Blocks while a client does not read, except for responses.
    fn deliver(&self, message: Bytes, route: Route) {
        let message = match route {
            Route::Answer(id) => match self.deliver_answer(&id, message) {
                Ok(()) => return,
                Err(message) => message,
            },
            Route::Progress(token) => return self.deliver_to(message, |exchange| exchange.progress.contains(&token)),
            Route::Request if !self.has_listener() && self.session.ask_job(&Message::read(message.clone()), None) => {
                return;
            }
            Route::Request | Route::Other => return self.deliver_to(message, |_| true),
        };
        self.deliver_to(message, |_| false);
    }

    /// Whether a client waits for messages: for an answer, or on the stream of the session.
    fn has_listener(&self) -> bool {
        let streams = self.streams.lock();
        let waits = |exchange: &Exchange| !exchange.answers.is_empty() && !exchange.sender.is_closed();
        streams.listener().is_some() || streams.exchanges.iter().any(waits)
    }

    fn deliver_failure(&self, failure: Failure) {
        self.deliver(failure.error, Route::Answer(failure.id));
    }

    /// Delivers a response to its request. Returns the message if no request waits for it.
    fn deliver_answer(&self, id: &Id, message: Bytes) -> Result<(), Bytes> {
        let mut streams = self.streams.lock();
        for exchange in streams.exchanges.iter_mut().rev().filter(|exchange| !exchange.sender.is_closed()) {
            let Some(index) = exchange.answers.iter().position(|(request, _)| request == id) else { continue };
            let (_, permit) = exchange.answers.swap_remove(index);
            if exchange.initializes && Message::read(message.clone()).result().is_some() {
                self.is_initialized.store(true, Ordering::Relaxed);
            }
            let last = exchange.answers.is_empty();
            // The receiver takes the lock next.
            drop(streams);
            permit.send(OutgoingMessage { last, ..OutgoingMessage::new(message) });
            return Ok(());
        }
        Err(message)
    }

    /// Delivers a response without blocking; to the stream of the session if its request is gone.
    fn deliver_now(&self, message: Bytes, id: &Id) {
        if let Err(message) = self.deliver_answer(id, message) {
            self.deliver_to_session(message);
        }
    }

    /// Delivers a message to the stream of the session, without blocking.
    fn deliver_to_session(&self, message: Bytes) {
        let Some(listener) = self.streams.lock().listener() else { return self.keep(message) };
        let memory = self.session.rules.limits.share.take(message.len().min(INLINE_BYTES));
        let _ = listener.try_send(OutgoingMessage { memory, ..OutgoingMessage::new(message) });
    }

    /// Delivers a message that is not a response, to the latest request that `belongs` accepts, or to the stream of the
    /// session.
    fn deliver_to(&self, message: Bytes, belongs: impl Fn(&Exchange) -> bool) {
        let found = {
            let streams = self.streams.lock();
            let exchange = streams.exchanges.iter().rev().find(|exchange| belongs(exchange));
            let of_exchange = exchange.map(|exchange| (exchange.sender.clone(), exchange.answers.len()));
            of_exchange.or_else(|| Some((streams.listener()?, 0)))
        };
        let Some((sender, reserved)) = found else { return self.keep(message) };
        let memory = self.memory(message.len(), &sender, reserved);
        let message = OutgoingMessage { memory, ..OutgoingMessage::new(compacted(message)) };
        if let Err(unsent) = sender.blocking_send(message) {
            self.keep(unsent.0.pieces.into_iter().next().unwrap_or_default());
        }
    }

    /// Allocates memory for a message that waits for its client. When memory is exhausted, only one message at a time
    /// may wait.
    fn memory(&self, bytes: usize, sender: &Sender<OutgoingMessage>, reserved: usize) -> Option<Permit<String>> {
        loop {
            let memory = self.session.rules.limits.share.take(bytes.min(INLINE_BYTES));
            let is_first = sender.capacity() + reserved >= sender.max_capacity();
            if memory.is_some() || is_first || sender.is_closed() {
                return memory;
            }
            std::thread::sleep(MEMORY_POLL_INTERVAL);
        }
    }

    fn keep(&self, message: Bytes) {
        let rules = &self.session.rules;
        if message.len() > BACKLOG_BYTES_MAX {
            return rules.record_unheard(message.len(), "it is too large");
        }
        let Some(memory) = rules.limits.share.take(message.len()) else {
            return rules.record_unheard(message.len(), "out of memory (gateway.memory-bytes)");
        };
        let mut streams = self.streams.lock();
        streams.backlog_bytes += message.len();
        streams.backlog.push_back(BacklogMessage(compacted(message), memory));
        while streams.backlog.len() > BACKLOG_MESSAGES_MAX || streams.backlog_bytes > BACKLOG_BYTES_MAX {
            let dropped = streams.backlog.pop_front().map_or(0, |kept| kept.0.len());
            streams.backlog_bytes -= dropped;
            rules.record_unheard(dropped, "it is the oldest of too many");
        }
    }
}

/// Copies a small message, which may share a large buffer with others.
fn compacted(message: Bytes) -> Bytes {
    if message.len() <= COPIED_BYTES_MAX { Bytes::copy_from_slice(&message) } else { message }
}

impl Receive for LegacySession {
    fn message(self: &Arc<Self>, line: Bytes) {
        for message in messages_of(line, &self.session.rules) {
            let (this, route) = (Arc::clone(self), self.route_of(&message));
            self.session.server_message(
                message,
                || true,
                move |decided| match decided {
                    FromServer::Pass(message) => this.deliver(message, route),
                    FromServer::Refuse(refused) => {
                        refused.failures.into_iter().for_each(|failure| this.deliver_failure(failure));
                    }
                    FromServer::Nothing => {}
                },
            );
        }
    }

    fn lost(self: &Arc<Self>, id: &Id, reason: &str) {
        if let Some(failure) = self.session.fail(id, reason) {
            self.deliver_failure(failure);
        }
    }

    fn ended(self: &Arc<Self>, reason: &str) {
        self.session.fail_all(reason).into_iter().for_each(|failure| self.deliver_failure(failure));
    }
}

/// A token in a message.
fn id_at(message: &Message, path: &[&str]) -> Option<Id> {
    message.value(path).map(|token| Id::of_json(&String::from_utf8_lossy(&token)))
}
