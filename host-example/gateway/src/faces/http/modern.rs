//! One child process for all clients of a tenant that speak 2026-07-28 or later: requests stand for themselves, so only their
//! ids have to be told apart.

use std::collections::HashMap;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{self, OwnedPermit, Sender};

use super::streams::{Forwarded, Out, empty, meanwhile, of_messages, refused};
use crate::listener::body;
use crate::listener::guard::{self, Refusal};
use crate::listener::lock;
use crate::session::cancellation;
use crate::tenants::rules::Rules;
use crate::upstream::link::{CHATTER, is_chatter};
use crate::upstream::link::{Link, Receive, id_of_cut};
use crate::{FromClient, FromServer, Produced, Session, Who};
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{self, Id, Kind, Message, method};
use lro_transport::{Cut, Launch};

/// Most messages that wait for a client to read them; what comes then is left out, but for the answer.
const WAITING_MESSAGES_MAX: usize = 1_000;

/// Most bytes of them.
const WAITING_BYTES_MAX: usize = 4 << 20;

/// Path of the token that progress notifications repeat, in a request.
const PROGRESS_TOKEN: [&str; 3] = ["params", "_meta", "progressToken"];
/// And in a notification.
const PROGRESS_OF: [&str; 2] = ["params", "progressToken"];
/// Path of the id of the request that a notification belongs to.
const SUBSCRIPTION: [&str; 3] = ["params", "_meta", "io.modelcontextprotocol/subscriptionId"];

/// And in the answer that ends a subscription.
const SUBSCRIPTION_OF_RESULT: [&str; 3] = ["result", "_meta", "io.modelcontextprotocol/subscriptionId"];

/// A server, and the requests that it works on.
pub(super) struct Shared {
    tenant: String,
    rules: Arc<Rules>,
    link: Link<Self>,
    exchanges: Mutex<HashMap<Id, Arc<Exchange>>>,
    count: AtomicU64,
}

/// A request that is being answered.
struct Exchange {
    /// The client's id.
    id: Id,
    /// The client's progress token, as JSON.
    progress: Option<Bytes>,
    session: Arc<Session>,
    /// Whether it has no end of its own.
    listens: bool,
    sender: Sender<Out>,
    /// The place that is kept for the answer, until it comes.
    answer: Mutex<Option<OwnedPermit<Out>>>,
    /// For the bytes of messages that wait.
    room: Arc<Semaphore>,
}

/// Tells the server when the client of a request is gone, which is how such a client cancels.
struct Held(Weak<Shared>, Id);

impl Drop for Held {
    fn drop(&mut self) {
        let Some(shared) = self.0.upgrade() else { return };
        let id = self.1.clone();
        if lock(&shared.exchanges).remove(&id).is_some_and(|exchange| exchange.session.waiting() > 0) {
            // Sending may block, and this runs where that is not allowed.
            std::thread::spawn(move || shared.link.send(&cancellation(&id, "the client is gone")));
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Shared").field("tenant", &self.tenant).finish_non_exhaustive()
    }
}

impl Shared {
    pub(super) fn new(tenant: String, rules: Arc<Rules>, launch: Launch) -> Arc<Self> {
        let who = Who { tenant: tenant.clone(), session: None, local: false };
        let session = Arc::new(Session::new(&rules, who));
        Arc::new_cyclic(|this| Self {
            tenant,
            rules,
            link: Link::new(launch, session, this.clone()),
            exchanges: Mutex::default(),
            count: AtomicU64::new(0),
        })
    }

    /// Answers a request from this address.
    pub(super) async fn answer(this: &Arc<Self>, message: Message, address: IpAddr) -> Result<Response, Refusal> {
        let Some(original) = message.id().filter(|_| message.kind() == Kind::Request) else {
            return Self::tell(this, &message).await;
        };
        let id = Id::own(&format!("lro-{}", this.count.fetch_add(1, Ordering::Relaxed)));
        let progress = message.value(&PROGRESS_TOKEN);
        let mut renamed = Message::read(message.with_id(&id));
        if progress.is_some() {
            renamed = Message::read(renamed.with_bytes(&PROGRESS_TOKEN, id.json().as_bytes()));
        }
        let who = Who { tenant: this.tenant.clone(), session: None, local: false };
        let session = Arc::new(Session::of_request(&this.rules, who, address));
        let listens = guard::asks_to_listen(&renamed);
        let (sender, messages) = mpsc::channel(WAITING_MESSAGES_MAX + 1);
        let answer = Mutex::new(sender.clone().try_reserve_owned().ok());
        let room = Arc::new(Semaphore::new(WAITING_BYTES_MAX));
        let exchange = Arc::new(Exchange { id: original, progress, session, listens, sender, answer, room });
        lock(&this.exchanges).insert(id.clone(), Arc::clone(&exchange));
        let held = Held(Arc::downgrade(this), id.clone());
        let forwarded = Self::forwarded(this, exchange, id, renamed);
        meanwhile(forwarded, of_messages(messages, held, status)).await
    }

    /// Hands on what asks for no answer.
    async fn tell(this: &Arc<Self>, message: &Message) -> Result<Response, Refusal> {
        if message.kind() == Kind::Batch {
            let text = "from revision 2026-07-28 on there are no batches";
            return Err(Refusal::Status(StatusCode::BAD_REQUEST, text.to_owned()));
        }
        // A client cancels by hanging up; the ids are the gateway's own here, and this one may stand for another client's.
        if message.method().as_deref() == Some(method::CANCELLED) {
            return Ok(empty(StatusCode::ACCEPTED));
        }
        let (shared, message) = (Arc::clone(this), body::on_one_line(message.bytes().clone()));
        let send = move || shared.link.send(&message).map_err(|error| refused(&error));
        Forwarded::spawn(&this.rules.of(&this.tenant), send).end().await?;
        Ok(empty(StatusCode::ACCEPTED))
    }

    /// Takes a request on its way: a small one at once, if that is possible without waiting, all else on a thread of the
    /// tenant.
    fn forwarded(this: &Arc<Self>, exchange: Arc<Exchange>, id: Id, message: Message) -> Forwarded {
        let (shared, rules) = (Arc::clone(this), Arc::clone(&exchange.session.rules));
        if message.bytes().len() > INLINE_BYTES {
            return Forwarded::spawn(&rules, move || {
                shared.go_on(&exchange, &id, exchange.session.from_client(message));
                Ok(())
            });
        }
        match exchange.session.from_client(message) {
            FromClient::Forward(message) if this.link.try_send(&body::on_one_line(message.clone())) => Forwarded::Done,
            next => Forwarded::spawn(&rules, move || {
                shared.go_on(&exchange, &id, next);
                Ok(())
            }),
        }
    }

    /// Takes a request on its way. Blocks while the server does not read.
    fn go_on(self: &Arc<Self>, exchange: &Arc<Exchange>, id: &Id, next: FromClient) {
        match next {
            FromClient::Forward(message) => self.send(exchange, id, message),
            FromClient::Answer(answer) => exchange.answer(&answer),
            FromClient::Work(work) => {
                let (shared, asking, id) = (Arc::clone(self), Arc::clone(exchange), id.clone());
                exchange.session.carry_out(*work, move |produced| match produced {
                    Produced::Answer(answer) => asking.answer(&answer),
                    Produced::Forward(message) => shared.send(&asking, &id, message),
                });
            }
        }
    }

    fn send(&self, exchange: &Exchange, id: &Id, message: Bytes) {
        if let Err(error) = self.link.ask(&body::on_one_line(message), || exchange.session.waits_for(id))
            && let Some(answer) = exchange.session.fail(id, &error.to_string())
        {
            tracing::warn!(%error, "a message did not reach the server");
            exchange.answer(&answer);
        }
    }

    pub(super) fn end_overdue(&self) {
        let exchanges: Vec<Arc<Exchange>> = lock(&self.exchanges).values().cloned().collect();
        for exchange in exchanges.into_iter().filter(|exchange| !exchange.listens) {
            for (answer, cancellation) in exchange.session.overdue() {
                exchange.answer(&answer);
                self.link.try_send(&cancellation);
            }
        }
    }

    /// Ends the subscriptions, which have no end of their own.
    pub(super) fn end_streams(&self) {
        let listening: Vec<Arc<Exchange>> =
            lock(&self.exchanges).extract_if(|_, exchange| exchange.listens).map(|(_, exchange)| exchange).collect();
        for exchange in listening {
            exchange.answer(&end_of_subscription(&exchange.id));
        }
    }

    pub(super) fn stop(&self, patience: Duration) {
        self.link.stop(patience);
        lock(&self.exchanges).clear();
    }

    fn exchange(&self, id: &Id) -> Option<Arc<Exchange>> {
        lock(&self.exchanges).get(id).cloned()
    }

    /// Answers every request that something which is not a message may be taken for the answer to.
    fn refuse(&self, message: &Message) {
        let mut found = HashMap::new();
        message.each_id(&mut |id| found.extend(self.exchange(&id).map(|exchange| (id, exchange))));
        if found.is_empty() {
            return self.rules.leave_out(message, CHATTER);
        }
        for exchange in found.into_values() {
            match exchange.session.from_server(message.clone()) {
                FromServer::Refuse(refused) => refused.errors.iter().for_each(|error| exchange.answer(error)),
                FromServer::Pass(message) => exchange.answer(&message),
                FromServer::Filter(_) | FromServer::Nothing => {}
            }
        }
    }

    /// The request that a notification belongs to; without a word about it, the only one there is.
    fn exchange_of(&self, message: &Message) -> Option<Arc<Exchange>> {
        let named = message.value(&PROGRESS_OF).or_else(|| message.value(&SUBSCRIPTION));
        match named {
            Some(id) => self.exchange(&Id::of_json(std::str::from_utf8(&id).ok()?)),
            None => {
                let exchanges = lock(&self.exchanges);
                let mut all = exchanges.values();
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

    /// Hands on the answer under the client's own id.
    fn answer(&self, message: &Bytes) {
        let Some(place) = lock(&self.answer).take() else { return };
        let mut message = Message::read(message.clone());
        if self.listens {
            message = Message::read(message.with_bytes(&SUBSCRIPTION_OF_RESULT, self.id.json().as_bytes()));
        }
        place.send(Out { pieces: message.pieces_with_id(&self.id), last: true, room: None, memory: None });
    }

    /// Hands on a notification, unless the client does not read: others wait for what the server says next.
    fn notify(&self, message: &Bytes) {
        let bytes = message.len().min(WAITING_BYTES_MAX);
        let room =
            u32::try_from(bytes).ok().and_then(|bytes| Arc::clone(&self.room).try_acquire_many_owned(bytes).ok());
        let sent = room.zip(self.session.rules.limits.share.take(bytes)).map(|(room, memory)| {
            let pieces = vec![self.renamed(message)];
            self.sender.try_send(Out { pieces, last: false, room: Some(room), memory: Some(memory) })
        });
        if !matches!(sent, Some(Ok(()))) {
            tracing::debug!(bytes, "a notification for a client that does not read is left out");
        }
    }

    /// A notification as the client knows its request.
    fn renamed(&self, message: &Bytes) -> Bytes {
        let message = Message::read(message.clone());
        let renamed = match &self.progress {
            Some(token) => message.with_bytes(&PROGRESS_OF, token),
            None => message.bytes().clone(),
        };
        Message::read(renamed).with_bytes(&SUBSCRIPTION, self.id.json().as_bytes())
    }
}

impl Receive for Shared {
    fn message(self: &Arc<Self>, message: Bytes) {
        let message = Message::read(message);
        if is_chatter(&message) {
            return self.rules.leave_out(&message, CHATTER);
        }
        if let Some(elements) = message.batch().filter(|_| message.kind() == Kind::Batch) {
            return elements.into_iter().for_each(|element| self.message(element));
        }
        if message.fault().is_some() && self.rules.enabled() {
            return self.refuse(&message);
        }
        let is_answer = matches!(message.kind(), Kind::Response | Kind::Other);
        let found = match message.id().filter(|_| is_answer) {
            Some(id) => self.exchange(&id),
            None => self.exchange_of(&message),
        };
        let Some(exchange) = found else {
            tracing::debug!(bytes = message.bytes().len(), "a message of the server belongs to no request");
            return;
        };
        match exchange.session.from_server(message) {
            FromServer::Pass(message) => exchange.deliver(&message, is_answer),
            FromServer::Filter(filtering) => {
                let (session, asking) = (Arc::clone(&exchange.session), Arc::clone(&exchange));
                let is_wanted = move || !asking.sender.is_closed();
                session.settle(filtering, is_wanted, move |answer| exchange.deliver(&answer, is_answer));
            }
            FromServer::Refuse(_) | FromServer::Nothing => {}
        }
    }

    fn cut(self: &Arc<Self>, cut: &Cut) {
        tracing::warn!(bytes = cut.bytes, reason = %cut.reason, "a message of the server cannot be kept");
        let Some((id, exchange)) = id_of_cut(cut).and_then(|id| Some((self.exchange(&id)?, id))).map(|(e, id)| (id, e))
        else {
            return;
        };
        if let Some(answer) = exchange.session.fail(&id, &cut.reason.to_string()) {
            exchange.answer(&answer);
        }
    }

    fn ended(self: &Arc<Self>, how: &str) {
        tracing::info!("the server {how}");
        let exchanges: Vec<Arc<Exchange>> = lock(&self.exchanges).values().cloned().collect();
        for exchange in exchanges {
            for answer in exchange.session.fail_all(&format!("the server {how} before it answered")) {
                exchange.answer(&answer);
            }
        }
    }
}

/// What tells a client that its subscription has ended as it should.
pub(super) fn end_of_subscription(id: &Id) -> Bytes {
    mcp::response(
        id,
        &format!(r#"{{"resultType":"complete","_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}}}"#),
    )
}

/// The status that goes with an answer, from revision 2026-07-28 on.
fn status(answer: &Out) -> StatusCode {
    // An error fits into its first pieces; a result is no error.
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
