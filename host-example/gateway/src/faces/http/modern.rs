//! One connection to the server shared by clients of a tenant that speak 2026-07-28 or later. Their requests are
//! independent, so the gateway only makes the ids unique.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{self, Id, Kind, Message, meta, method};
use parking_lot::Mutex;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, OwnedPermit, Sender};

use super::bridge::Credentials;
use super::forwarding::{Forwarded, STRAY_OUTPUT, forward, messages_of, refused, send_own};
use super::streams::{OutgoingMessage, empty, message_response};
use crate::listener::body;
use crate::listener::guard::{self, Refusal, json};
use crate::session::{
    FromClient, Late, PARTS_TOKEN, SendOwn, Session, SessionOwner, cancellation, end_of_subscription, is_own_request,
};
use crate::tenants::rules::Rules;
use crate::translate::{Translator, missing_claims};
use crate::upstream::connection::{Connection, Prepared};
use crate::upstream::link::{Expects, Receive};
use crate::upstream::remote::Challenge;

/// Maximum number of messages that wait for a client to read. Further ones are dropped, except the response.
const WAITING_MESSAGES_MAX: usize = 1_000;

/// Maximum size of these messages, in bytes.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Paths of the tokens in a request: for progress, and for parts of the result.
const TOKENS: [[&str; 3]; 2] = [["params", "_meta", "progressToken"], ["params", "_meta", PARTS_TOKEN]];
/// Paths of the same tokens in a notification.
const TOKENS_OF_NOTIFICATION: [[&str; 2]; 2] = [["params", "progressToken"], ["params", PARTS_TOKEN]];
/// Path of the subscription id in a notification.
const SUBSCRIPTION: [&str; 3] = ["params", "_meta", meta::SUBSCRIPTION_ID];

/// Path of the subscription id in the response that ends the subscription.
const SUBSCRIPTION_OF_RESULT: [&str; 3] = ["result", "_meta", meta::SUBSCRIPTION_ID];

/// A shared server, and the requests in progress.
pub(super) struct SharedServer {
    tenant: String,
    rules: Arc<Rules>,
    connection: Connection<Self>,
    exchanges: Mutex<HashMap<Id, Arc<Exchange>>>,
    count: AtomicU64,
    used: Mutex<Instant>,
    /// Whether the credentials of the clients may identify a user of the tenant.
    is_personal: bool,
}

/// A request in progress.
struct Exchange {
    /// The client's request id.
    id: Id,
    /// The client's [`TOKENS`], as JSON.
    tokens: [Option<Bytes>; 2],
    session: Arc<Session>,
    /// Whether the request is a subscription.
    is_subscription: bool,
    /// Whether the client has its answer, and a job keeps the exchange.
    is_left: AtomicBool,
    sender: Sender<OutgoingMessage>,
    /// The channel slot reserved for the response, until it arrives.
    answer: Mutex<Option<OwnedPermit<OutgoingMessage>>>,
    /// Permits for the bytes of messages that wait.
    room: Arc<Semaphore>,
}

/// Cancels a request at the server when its client disconnects, which is how clients of these revisions cancel.
struct ExchangeGuard(Weak<SharedServer>, Id);

impl Drop for ExchangeGuard {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else { return };
        let id = self.1.clone();
        let exchange = shared.exchange(&id);
        if exchange.as_ref().is_some_and(|exchange| exchange.session.has_jobs()) {
            // The server still has to answer the job, which ends the exchange.
            exchange.iter().for_each(|exchange| exchange.is_left.store(true, Ordering::Relaxed));
            return;
        }
        *shared.used.lock() = Instant::now();
        let left = shared.exchanges.lock().remove(&id);
        if left.is_some_and(|exchange| exchange.session.pending_count() > 0 && !exchange.session.stop_collecting()) {
            let senders = shared.rules.senders.clone();
            senders.run(move |turn| {
                // Sending may block, which is not allowed where a refused turn is told: here.
                if turn.is_ok() {
                    let _ = shared.connection.send(&cancellation(&id, "the client disconnected"));
                }
            });
        }
    }
}

impl fmt::Debug for SharedServer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("SharedServer").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl SharedServer {
    pub(super) fn new(tenant: String, rules: Arc<Rules>, prepared: Prepared, credentials: Credentials) -> Arc<Self> {
        let owner = SessionOwner { tenant: tenant.clone(), session: None, local: false };
        let session = Arc::new(Session::new(&rules, owner));
        let translator = Translator::for_modern_clients(&session.rules);
        let this = Arc::new_cyclic(|this| Self {
            tenant,
            rules,
            connection: Connection::new(prepared, session, this.clone(), translator),
            exchanges: Mutex::default(),
            count: AtomicU64::new(0),
            used: Mutex::new(Instant::now()),
            is_personal: credentials.are_personal,
        });
        this.connection.set_client_headers(credentials.headers);
        this
    }

    /// The server's demand for authorization since the last call of this function, if there was one.
    pub(super) fn take_challenge(&self) -> Option<Challenge> {
        self.connection.take_challenge()
    }

    /// Whether the server has understood its clients without a translation.
    pub(super) fn is_understood(&self) -> bool {
        self.connection.translator().is_understood()
    }

    /// Whether the server has answered in no generation of the protocol.
    pub(super) fn has_failed(&self) -> bool {
        self.connection.translator().has_given_up()
    }

    /// Whether there was no request for as long as the timeout.
    pub(super) fn is_idle(&self, timeout: Duration) -> bool {
        self.exchanges.lock().is_empty() && self.used.lock().elapsed() > timeout
    }

    /// Answers a request from this address.
    pub(super) async fn answer(self: &Arc<Self>, message: Message, address: IpAddr) -> Result<Response, Refusal> {
        let Some(original) = message.id().filter(|_| message.kind() == Kind::Request) else {
            return self.forward_notification(&message).await;
        };
        if !self.connection.translator().is_plain() {
            if message.method().as_deref() == Some(method::INITIALIZE) {
                // A handshake of one client is not one of all that share the connection.
                let text = "initialize is not a method of this revision: send requests without a handshake";
                let error = mcp::error_response(Some(&original), mcp::METHOD_NOT_FOUND, text);
                return Ok(json(StatusCode::NOT_FOUND, error));
            }
            if let Some(error) = missing_claims(&message) {
                return Ok(json(StatusCode::BAD_REQUEST, error));
            }
        }
        let id = Id::own(&format!("lro-{}", self.count.fetch_add(1, Ordering::Relaxed)));
        let tokens = TOKENS.map(|path| message.value(&path));
        let mut rewritten = Message::read(message.with_id(&id));
        for (path, _) in TOKENS.iter().zip(&tokens).filter(|(_, token)| token.is_some()) {
            rewritten = Message::read(rewritten.with_bytes(path, id.json().as_bytes()));
        }
        let owner = SessionOwner { tenant: self.tenant.clone(), session: None, local: false };
        let session = Arc::new(Session::of_request(&self.rules, owner, address));
        if self.is_personal {
            session.never_reuse();
        }
        let is_subscription = guard::is_listen_request(&rewritten);
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES_MAX + 1);
        let answer = Mutex::new(sender.clone().try_reserve_owned().ok());
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        let exchange = Arc::new(Exchange {
            id: original,
            tokens,
            session,
            is_subscription,
            is_left: AtomicBool::new(false),
            sender,
            answer,
            room,
        });
        self.exchanges.lock().insert(id.clone(), Arc::clone(&exchange));
        exchange.session.set_send(Self::sending_later(self, &exchange));
        let guard = ExchangeGuard(Arc::downgrade(self), id.clone());
        let forwarded = self.start_forwarding(exchange, id, rewritten);
        forwarded.respond(message_response(messages, guard, status)).await
    }

    fn start_forwarding(self: &Arc<Self>, exchange: Arc<Exchange>, id: Id, message: Message) -> Forwarded {
        let (shared, session, expects) = (Arc::clone(self), Arc::clone(&exchange.session), Expects::Response(id));
        let proceed = move |decision| {
            let session = Arc::clone(&exchange.session);
            let send = Self::sending(&shared, &exchange);
            let forwarded = session.follow(decision, send, move |decided| {
                if let FromClient::Open(message) = decided {
                    exchange.notify(&message);
                    return Ok(());
                }
                let answer = forward(&exchange.session, &shared.connection, decided, &expects)?;
                answer.iter().for_each(|answer| exchange.answer(answer));
                if let Expects::Response(id) = &expects
                    && exchange.session.is_due(id)
                {
                    shared.answer_late_of(&exchange);
                }
                Ok(())
            });
            forwarded.unwrap_or(Ok(()))
        };
        Forwarded::start(&session, &self.connection, message, proceed)
    }

    /// Sends requests of the gateway itself on behalf of a request, whose session their responses go to.
    fn sending(this: &Arc<Self>, exchange: &Arc<Exchange>) -> SendOwn {
        let (shared, exchange) = (Arc::downgrade(this), Arc::clone(exchange));
        Arc::new(move |message| {
            let Some(shared) = shared.upgrade() else { return };
            let read = Message::read(message.clone());
            if let Some(id) = read.id().filter(|_| read.kind() == Kind::Request) {
                shared.exchanges.lock().insert(id, Arc::clone(&exchange));
            } else if let Some(id) = read.params().cancelled_id() {
                shared.exchanges.lock().remove(&id);
            }
            send_own(&exchange.session, shared, |shared| &shared.connection, message);
        })
    }

    /// As [`Self::sending`], as long as the exchange goes on.
    fn sending_later(this: &Arc<Self>, exchange: &Arc<Exchange>) -> SendOwn {
        let (shared, exchange) = (Arc::downgrade(this), Arc::downgrade(exchange));
        Arc::new(move |message| {
            if let (Some(shared), Some(exchange)) = (shared.upgrade(), exchange.upgrade()) {
                Self::sending(&shared, &exchange)(message);
            }
        })
    }

    /// Forwards a message that expects no response.
    async fn forward_notification(self: &Arc<Self>, message: &Message) -> Result<Response, Refusal> {
        if message.kind() == Kind::Batch {
            let text = "revision 2026-07-28 does not allow batches: send the messages one by one";
            return Err(Refusal::Status(StatusCode::BAD_REQUEST, text.to_owned()));
        }
        // Clients of these revisions cancel by disconnecting. Ids are rewritten here, so this id may belong to another
        // client's request.
        if message.method().as_deref() == Some(method::CANCELLED) {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let (shared, message) = (Arc::clone(self), body::on_one_line(message.bytes().clone()));
        let send = move || shared.connection.send(&message).map_err(|error| refused(&error));
        Forwarded::spawn(&self.rules.of(&self.tenant), send).end().await?;
        Ok(empty(StatusCode::ACCEPTED))
    }

    pub(super) fn answer_late(&self) {
        self.connection.poll();
        let is_over = |exchange: &Exchange| exchange.is_left.load(Ordering::Relaxed) && !exchange.session.has_jobs();
        let exchanges: Vec<Arc<Exchange>> = {
            let mut exchanges = self.exchanges.lock();
            exchanges.retain(|_, exchange| !is_over(exchange));
            exchanges.values().cloned().collect()
        };
        for exchange in &exchanges {
            exchange.session.heartbeats().iter().for_each(|heartbeat| exchange.notify(&heartbeat.message));
            let updates = exchange.session.updates();
            if !updates.is_empty() {
                let exchange = Arc::clone(exchange);
                // Reading what became of a job blocks.
                self.rules.workers.run(move |_| {
                    exchange.session.notifications(&updates).iter().for_each(|message| exchange.notify(message));
                });
            }
        }
        exchanges
            .iter()
            .filter(|exchange| !exchange.is_subscription)
            .for_each(|exchange| self.answer_late_of(exchange));
    }

    fn answer_late_of(&self, exchange: &Arc<Exchange>) {
        for Late { answer, cancellation } in exchange.session.late() {
            if let Some(answer) = answer {
                let exchange = Arc::clone(exchange);
                // The record of a job is written first.
                self.rules.workers.run(move |_| exchange.answer(&answer.message()));
            }
            if let Some(cancellation) = cancellation {
                self.connection.try_send(&cancellation);
            }
        }
    }

    /// Ends the subscriptions.
    pub(super) fn end_streams(&self) {
        let listening: Vec<Arc<Exchange>> = self
            .exchanges
            .lock()
            .extract_if(|_, exchange| exchange.is_subscription)
            .map(|(_, exchange)| exchange)
            .collect();
        for exchange in listening {
            exchange.answer(&end_of_subscription(&exchange.id));
        }
    }

    pub(super) fn stop(&self, timeout: Duration) {
        self.connection.stop(timeout);
        self.exchanges.lock().clear();
    }

    fn exchange(&self, id: &Id) -> Option<Arc<Exchange>> {
        self.exchanges.lock().get(id).cloned()
    }

    /// The requests that a message belongs to: for an invalid one, all that some parser could take it to answer.
    fn exchanges_of(&self, message: &Message) -> Vec<Arc<Exchange>> {
        if self.is_invalid(message) {
            let mut found = HashMap::new();
            message.each_id(&mut |id| found.extend(self.exchange(&id).map(|exchange| (id, exchange))));
            if found.is_empty() {
                self.rules.record_dropped(message, STRAY_OUTPUT);
            }
            return found.into_values().collect();
        }
        let found = match message.id().filter(|_| self.is_answer(message)) {
            Some(id) => self.exchange(&id),
            None => self.exchange_of(message),
        };
        if found.is_none() {
            let bytes = message.bytes().len();
            tracing::debug!(bytes, "dropped a message from the server that belongs to no request");
        }
        found.into_iter().collect()
    }

    fn is_invalid(&self, message: &Message) -> bool {
        message.fault().is_some() && self.rules.enabled()
    }

    /// Whether a message answers a request, or could be taken to.
    fn is_answer(&self, message: &Message) -> bool {
        matches!(message.kind(), Kind::Response | Kind::Other) || self.is_invalid(message)
    }

    /// The request that a notification belongs to; if it names none, the only request in progress.
    fn exchange_of(&self, message: &Message) -> Option<Arc<Exchange>> {
        let named = TOKENS_OF_NOTIFICATION.iter().find_map(|path| message.value(path));
        let named = named.or_else(|| message.value(&SUBSCRIPTION));
        match named {
            Some(id) => self.exchange(&Id::of_json(std::str::from_utf8(&id).ok()?)),
            None => {
                let exchanges = self.exchanges.lock();
                let mut all = exchanges.values().filter(|exchange| !exchange.is_left.load(Ordering::Relaxed));
                all.next().cloned().filter(|_| all.next().is_none())
            }
        }
    }
}

impl Exchange {
    fn deliver(&self, message: &Bytes, is_answer: bool) {
        if is_answer {
            self.answer(message);
        } else {
            self.notify(message);
        }
    }

    /// Delivers the response under the client's request id.
    fn answer(&self, message: &Bytes) {
        let Some(slot) = self.answer.lock().take() else { return };
        let mut message = Message::read(message.clone());
        if self.is_subscription {
            message = Message::read(message.with_bytes(&SUBSCRIPTION_OF_RESULT, self.id.json().as_bytes()));
        }
        slot.send(OutgoingMessage { pieces: message.pieces_with_id(&self.id), last: true, room: None, memory: None });
    }

    /// Delivers a notification. It is dropped if the client does not read, as other clients wait for the server.
    fn notify(&self, message: &Bytes) {
        let bytes = message.len().min(WAITING_BYTES_MAX);
        let room =
            u32::try_from(bytes).ok().and_then(|bytes| Arc::clone(&self.room).try_acquire_many_owned(bytes).ok());
        let sent = room.zip(self.session.rules.limits.share.take(bytes)).map(|(room, memory)| {
            let pieces = vec![self.rewritten(message)];
            self.sender.try_send(OutgoingMessage { pieces, last: false, room: Some(room), memory: Some(memory) })
        });
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(bytes, "dropped a notification for a client that does not read");
        }
    }

    /// Restores the client's tokens and request id in a notification.
    fn rewritten(&self, message: &Bytes) -> Bytes {
        let mut message = Message::read(message.clone());
        for (path, token) in TOKENS_OF_NOTIFICATION.iter().zip(&self.tokens) {
            if let Some(token) = token {
                message = Message::read(message.with_bytes(path, token));
            }
        }
        message.with_bytes(&SUBSCRIPTION, self.id.json().as_bytes())
    }
}

impl Receive for SharedServer {
    fn message(self: &Arc<Self>, line: Bytes) {
        for message in messages_of(line, &self.rules) {
            let is_answer = self.is_answer(&message);
            let exchanges = self.exchanges_of(&message);
            if let Some(id) = message.id().filter(|id| is_answer && is_own_request(id)) {
                self.exchanges.lock().remove(&id);
            }
            for exchange in exchanges {
                let (session, requester) = (Arc::clone(&exchange.session), Arc::clone(&exchange));
                let is_wanted = move || !requester.sender.is_closed();
                session.server_message(message.clone(), is_wanted, move |decided| {
                    decided.into_messages().iter().for_each(|message| exchange.deliver(message, is_answer));
                });
            }
        }
    }

    fn lost(self: &Arc<Self>, id: &Id, reason: &str) {
        let Some(exchange) = self.exchange(id) else { return };
        if let Some(failure) = exchange.session.fail(id, reason) {
            exchange.answer(&failure.error);
        }
    }

    fn ended(self: &Arc<Self>, reason: &str) {
        let exchanges: Vec<Arc<Exchange>> = self.exchanges.lock().values().cloned().collect();
        for exchange in exchanges {
            exchange.session.fail_all(reason).iter().for_each(|failure| exchange.answer(&failure.error));
        }
    }
}

/// The HTTP status of a response, from revision 2026-07-28 on.
fn status(answer: &OutgoingMessage) -> StatusCode {
    // Errors are small.
    let size: usize = answer.pieces.iter().map(Bytes::len).sum();
    if size > INLINE_BYTES {
        return StatusCode::OK;
    }
    match Message::read(answer.pieces.concat().into()).error_code().and_then(|code| i32::try_from(code).ok()) {
        Some(mcp::METHOD_NOT_FOUND) => StatusCode::NOT_FOUND,
        Some(-32_022..=-32_020) => StatusCode::BAD_REQUEST,
        _ => StatusCode::OK,
    }
}
