//! Translates between the generations of the protocol, for a client and a server that have no revision in common: those up
//! to 2025-11-25 begin with a handshake, and from 2026-07-28 on each request stands for itself.
//!
//! A translator stands between a session and its server, and does no input or output. The session sees the generation of
//! its client. Once a server has understood its client, nothing is looked at any more.

mod claims;
mod for_legacy;
mod for_modern;
mod json;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, Kind, Message, method};
use parking_lot::Mutex;

pub(crate) use self::claims::{input_capabilities, missing as missing_claims};
use self::for_legacy::ForLegacyClient;
use self::for_modern::ForModernClient;
use crate::settings::{GatewaySettings, TranslateMode};
use crate::tenants::jobs::INPUT_METHODS;
use crate::tenants::rules::Rules;

/// The revision of this generation that the translator speaks, and the first one of it.
pub(crate) const MODERN_REVISION: &str = "2026-07-28";

/// The last revision that begins with a handshake.
const LEGACY_REVISION: &str = "2025-11-25";

/// All of them, the oldest first.
pub(crate) const LEGACY_REVISIONS: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", LEGACY_REVISION];

/// Beginning of the request ids of the translator.
const OWN_ID: &str = "lro-translate-";

/// Members of a task, by their names in 2025-11-25 and in the extension.
const TASK_MEMBERS: [(&str, &str); 7] = [
    ("taskId", "taskId"),
    ("status", "status"),
    ("statusMessage", "statusMessage"),
    ("createdAt", "createdAt"),
    ("lastUpdatedAt", "lastUpdatedAt"),
    ("ttl", "ttlMs"),
    ("pollInterval", "pollIntervalMs"),
];

/// What to send because of a message, each in order.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    pub(crate) to_server: Vec<Bytes>,
    pub(crate) to_client: Vec<Bytes>,
}

impl Steps {
    fn to_server(message: Bytes) -> Self {
        Self { to_server: vec![message], to_client: Vec::new() }
    }

    fn to_client(message: Bytes) -> Self {
        Self { to_server: Vec::new(), to_client: vec![message] }
    }

    fn and(mut self, more: Self) -> Self {
        self.to_server.extend(more.to_server);
        self.to_client.extend(more.to_client);
        self
    }
}

/// Translates the messages of one connection to a server, where that is needed.
#[derive(Debug)]
pub(crate) struct Translator {
    mode: TranslateMode,
    /// Whether nothing is translated any more.
    is_plain: AtomicBool,
    /// Whether the server has answered in the generation of the client.
    is_understood: AtomicBool,
    limits: Limits,
    state: Mutex<State>,
}

/// How long the translator waits, and how much it keeps meanwhile, as the settings say.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// How long a server may take to answer `server/discover`, or the translator's own first request, before it is taken for
    /// one that does not know it.
    answer_wait: Duration,
    /// How long a client may take to give the input that a server asks for.
    input_wait: Duration,
    /// How often a server may ask for input in one call.
    input_rounds: u32,
    /// Most messages that wait for the handshake of the translator.
    held: usize,
    /// Most calls that wait for input from their client, and most requests for input of one call.
    waiting: usize,
}

impl Limits {
    fn of(gateway: &GatewaySettings) -> Self {
        Self {
            answer_wait: Duration::from_millis(gateway.translate_timeout_ms.get()),
            input_wait: Duration::from_secs(gateway.job_input_seconds.get()),
            input_rounds: gateway.input_rounds.get(),
            held: gateway.translate_held.get() as usize,
            waiting: gateway.translate_waiting.get() as usize,
        }
    }
}

/// What is known of the server.
#[derive(Debug)]
enum State {
    /// Nothing: these first requests have no answer yet.
    Unknown(HashMap<Id, FirstRequest>),
    /// The translator asks of which generation it is.
    Asking(Asking),
    /// It understands its clients.
    Plain,
    /// It is of the handshake revisions, and its client is not.
    ForModern(ForModernClient),
    /// It has no handshake, and its client begins with one.
    ForLegacy(ForLegacyClient),
}

/// A first request.
#[derive(Clone, Debug)]
struct FirstRequest {
    request: Message,
    at: Instant,
}

/// The first request of the translator itself, and what waits for its answer.
#[derive(Debug)]
struct Asking {
    id: Id,
    since: Instant,
    /// Whether it is `server/discover` in the generation of the client, before anything of the client has gone to the server.
    is_probe: bool,
    /// The first request of the client: all else follows from it.
    first: Message,
    /// Requests that the server refused, each with the refusal, if it gave one.
    refused: Vec<(Message, Option<Bytes>)>,
    unanswered: HashMap<Id, FirstRequest>,
    held: Vec<Bytes>,
}

impl Translator {
    pub(crate) fn of(rules: &Rules) -> Self {
        let gateway = &rules.config.gateway;
        Self::new(Self::mode(rules), Limits::of(gateway))
    }

    /// For clients that all speak 2026-07-28 or later.
    pub(crate) fn for_modern_clients(rules: &Rules) -> Self {
        let mode = match Self::mode(rules) {
            TranslateMode::Always => TranslateMode::Always,
            TranslateMode::Auto | TranslateMode::Never => TranslateMode::Never,
        };
        Self::new(mode, Limits::of(&rules.config.gateway))
    }

    /// When messages are translated; never by a gateway that may change nothing.
    pub(crate) fn mode(rules: &Rules) -> TranslateMode {
        if rules.changes() { rules.config.gateway.translate } else { TranslateMode::Never }
    }

    fn new(mode: TranslateMode, limits: Limits) -> Self {
        let is_plain = mode == TranslateMode::Never;
        let state = if is_plain { State::Plain } else { State::Unknown(HashMap::new()) };
        Self {
            mode,
            is_plain: AtomicBool::new(is_plain),
            is_understood: AtomicBool::default(),
            limits,
            state: Mutex::new(state),
        }
    }

    /// Whether messages go on as they are.
    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain.load(Ordering::Relaxed)
    }

    /// Whether the server has answered in the generation of the client.
    pub(crate) fn is_understood(&self) -> bool {
        self.is_understood.load(Ordering::Relaxed)
    }

    /// Whether the server has answered in no generation of the protocol.
    pub(crate) fn has_given_up(&self) -> bool {
        self.mode != TranslateMode::Never && self.is_plain() && !self.is_understood()
    }

    /// Whether messages are translated.
    pub(crate) fn is_translating(&self) -> bool {
        matches!(&*self.state.lock(), State::ForModern(_) | State::ForLegacy(_))
    }

    /// The messages of the handshake with a server that starts again: the request, and the notification after it, if that was
    /// sent. `of_client` is the handshake of the client.
    pub(crate) fn handshake(&self, of_client: Option<(Bytes, Option<Bytes>)>) -> Option<(Bytes, Option<Bytes>)> {
        match &*self.state.lock() {
            State::ForLegacy(_) => None,
            State::ForModern(server) => {
                let (request, initialized) = server.handshake();
                Some((request, Some(initialized)))
            }
            State::Unknown(_) | State::Asking(_) | State::Plain => of_client,
        }
    }

    /// What to send because of a message from the client.
    pub(crate) fn client_message(&self, message: Bytes) -> Steps {
        if self.is_plain() {
            return Steps::to_server(message);
        }
        let message = Message::read(message);
        match message.batch() {
            Some(elements) => all(elements, |element| self.one_of_client(element)),
            None => self.one_of_client(message),
        }
    }

    /// What to send because of a message from the server; over HTTP, on the stream that answers the request `stream`.
    pub(crate) fn server_message(&self, message: Bytes, stream: Option<&Id>) -> Steps {
        if self.is_plain() {
            return Steps::to_client(message);
        }
        let message = Message::read(message);
        match message.batch() {
            Some(elements) => all(elements, |element| self.one_of_server(element, stream)),
            None => self.one_of_server(message, stream),
        }
    }

    /// What to send because time has passed.
    pub(crate) fn due(&self) -> Steps {
        if self.is_plain() {
            return Steps::default();
        }
        let mut state = self.state.lock();
        match &mut *state {
            State::Unknown(asked) => {
                let is_silent = |first: &&FirstRequest| {
                    is_discovery(&first.request) && first.at.elapsed() > self.limits.answer_wait
                };
                match asked.values().find(is_silent).cloned() {
                    Some(silent) => self.ask(&mut state, silent.request, None),
                    None => Steps::default(),
                }
            }
            State::Asking(asking) if asking.since.elapsed() > self.limits.answer_wait => match asking.is_probe {
                true => asking.shake_hands(),
                false => self.give_up(&mut state, None),
            },
            State::ForModern(server) => server.due(),
            State::ForLegacy(server) => server.due(),
            State::Asking(_) | State::Plain => Steps::default(),
        }
    }

    /// Forgets what a server that has ended had said. What waited for it has failed.
    pub(crate) fn restarted(&self) {
        let mut state = self.state.lock();
        match &mut *state {
            State::Unknown(asked) => asked.clear(),
            State::Asking(_) => *state = State::Unknown(HashMap::new()),
            State::ForModern(server) => server.restarted(),
            State::ForLegacy(server) => server.restarted(),
            State::Plain => {}
        }
    }

    fn one_of_client(&self, message: Message) -> Steps {
        let mut state = self.state.lock();
        match &mut *state {
            State::Plain => Steps::to_server(message.bytes().clone()),
            State::Unknown(asked) => {
                let is_translated = self.mode == TranslateMode::Always && message.kind() == Kind::Request;
                if is_translated && !is_discovery(&message) && message.params().is_modern() {
                    return self.probe(&mut state, message);
                }
                let begins = is_handshake(&message) || (is_translated && is_discovery(&message));
                if let Some(id) = message.id().filter(|_| begins) {
                    asked.insert(id, FirstRequest { request: message.clone(), at: Instant::now() });
                }
                Steps::to_server(message.bytes().clone())
            }
            State::Asking(asking) => {
                let limit = self.limits.held;
                if asking.held.len() < limit {
                    asking.held.push(message.bytes().clone());
                    return Steps::default();
                }
                let text = "too many messages wait for the handshake with the server (gateway.translate-held)";
                tracing::warn!(limit, "dropped a message of a client: {text}");
                let id = message.id().filter(|_| message.kind() == Kind::Request);
                let refused = |id| mcp::error_response(Some(&id), INTERNAL_ERROR, &format!("{text}: try again"));
                id.map(refused).map_or_else(Steps::default, Steps::to_client)
            }
            State::ForModern(_) if is_handshake(&message) => {
                // The client has gone back to the generation of the server.
                self.understands(&mut state);
                Steps::to_server(message.bytes().clone())
            }
            State::ForModern(server) => server.client_message(&message),
            State::ForLegacy(server) => server.client_message(&message),
        }
    }

    fn one_of_server(&self, message: Message, stream: Option<&Id>) -> Steps {
        let mut state = self.state.lock();
        match &mut *state {
            State::Plain => Steps::to_client(message.bytes().clone()),
            State::Unknown(asked) => {
                let answered = response_id(&message).and_then(|id| asked.remove(&id));
                match answered {
                    Some(answered) if message.error_code().is_some() => {
                        self.ask(&mut state, answered.request, Some(message.bytes().clone()))
                    }
                    Some(_) => {
                        self.understands(&mut state);
                        Steps::to_client(message.bytes().clone())
                    }
                    None => Steps::to_client(message.bytes().clone()),
                }
            }
            State::Asking(asking) => match response_id(&message) {
                Some(id) if id == asking.id => match (message.result(), asking.is_probe) {
                    (Some(result), false) => self.begin(&mut state, &result),
                    (None, true) => asking.shake_hands(),
                    (Some(_), true) => {
                        let steps = self.give_up(&mut state, None);
                        self.understands(&mut state);
                        steps
                    }
                    (None, false) => self.give_up(&mut state, None),
                },
                Some(id) if message.error_code().is_some() => match asking.unanswered.remove(&id) {
                    Some(asked) => {
                        asking.refused.push((asked.request, Some(message.bytes().clone())));
                        Steps::default()
                    }
                    None => Steps::to_client(message.bytes().clone()),
                },
                // It understands its clients after all, and was only slow.
                Some(id) if asking.unanswered.contains_key(&id) => {
                    self.give_up(&mut state, Some(message.bytes().clone()))
                }
                _ => Steps::to_client(message.bytes().clone()),
            },
            State::ForModern(server) => server.server_message(&message, stream),
            State::ForLegacy(server) => server.server_message(&message),
        }
    }

    /// Asks the server whether it understands a client that begins with this request. Some servers answer requests without a
    /// handshake, but not in the generation of the client.
    fn probe(&self, state: &mut State, first: Message) -> Steps {
        let State::Unknown(asked) = state else { return Steps::default() };
        let (id, unanswered) = (Id::own(&format!("{OWN_ID}probe")), std::mem::take(asked));
        let request = for_modern::discover_request(&first, &id);
        let (held, since) = (vec![first.bytes().clone()], Instant::now());
        *state = State::Asking(Asking { id, since, is_probe: true, first, refused: Vec::new(), unanswered, held });
        Steps::to_server(request)
    }

    /// Asks the server whether it is of the other generation than this first request.
    fn ask(&self, state: &mut State, first: Message, refusal: Option<Bytes>) -> Steps {
        let State::Unknown(asked) = state else { return Steps::default() };
        let mut unanswered = std::mem::take(asked);
        let id = handshake_id();
        let request = if is_handshake(&first) {
            for_legacy::discover_request(&first, &id)
        } else {
            for_modern::initialize_request(&first, &id)
        };
        let refused = match &refusal {
            Some(_) => vec![(first.clone(), refusal)],
            // It may still be answered.
            None => Vec::new(),
        };
        if let Some(id) = first.id().filter(|_| refused.is_empty()) {
            unanswered.insert(id, FirstRequest { request: first.clone(), at: Instant::now() });
        }
        let (held, since) = (Vec::new(), Instant::now());
        *state = State::Asking(Asking { id, since, is_probe: false, first, refused, unanswered, held });
        Steps::to_server(request)
    }

    /// Begins to translate, after the server has answered the translator.
    fn begin(&self, state: &mut State, result: &Bytes) -> Steps {
        let State::Asking(asking) = std::mem::replace(state, State::Plain) else { return Steps::default() };
        let is_legacy_client = is_handshake(&asking.first);
        let other = if is_legacy_client { MODERN_REVISION } else { LEGACY_REVISION };
        tracing::info!(revision = other, "translating: the server speaks another generation of the protocol");
        let mut steps = Steps::default();
        *state = if is_legacy_client {
            State::ForLegacy(ForLegacyClient::new(&asking.first, result, self.limits))
        } else {
            steps.to_server.push(mcp::notification(method::INITIALIZED, "{}"));
            State::ForModern(ForModernClient::new(&asking.first, result, self.limits))
        };
        // A server that has not answered `server/discover` by now never will.
        let unanswered = asking.unanswered.into_values().map(|asked| asked.request);
        let again = unanswered.filter(is_discovery);
        let refused = asking.refused.into_iter().map(|(request, _)| request);
        let held = asking.held.into_iter().map(Message::read);
        let messages: Vec<Message> = again.chain(refused).chain(held).collect();
        for message in messages {
            let more = match state {
                State::ForLegacy(server) => server.client_message(&message),
                State::ForModern(server) => server.client_message(&message),
                _ => Steps::default(),
            };
            steps = steps.and(more);
        }
        steps
    }

    /// Leaves the server as it is: it is not of the other generation. `answer` has shown that.
    fn give_up(&self, state: &mut State, answer: Option<Bytes>) -> Steps {
        let State::Asking(asking) = std::mem::replace(state, State::Plain) else { return Steps::default() };
        self.is_plain.store(true, Ordering::Relaxed);
        let refusals = asking.refused.into_iter().filter_map(|(_, refusal)| refusal);
        Steps { to_server: asking.held, to_client: answer.into_iter().chain(refusals).collect() }
    }

    fn understands(&self, state: &mut State) {
        *state = State::Plain;
        self.is_understood.store(true, Ordering::Relaxed);
        self.is_plain.store(true, Ordering::Relaxed);
    }
}

impl Asking {
    /// Goes on with the handshake, after the server did not answer the probe.
    fn shake_hands(&mut self) -> Steps {
        self.id = handshake_id();
        self.is_probe = false;
        self.since = Instant::now();
        Steps::to_server(for_modern::initialize_request(&self.first, &self.id))
    }
}

/// What to send because of the elements of a batch.
fn all(elements: Vec<Bytes>, one: impl Fn(Message) -> Steps) -> Steps {
    elements.into_iter().fold(Steps::default(), |steps, element| steps.and(one(Message::read(element))))
}

fn is_handshake(message: &Message) -> bool {
    message.method().as_deref() == Some(method::INITIALIZE)
}

fn is_discovery(message: &Message) -> bool {
    message.method().as_deref() == Some(method::DISCOVER)
}

fn response_id(message: &Message) -> Option<Id> {
    message.id().filter(|_| message.kind() == Kind::Response)
}

/// Whether the translator has made an id.
fn is_own(id: &Id) -> bool {
    serde_json::from_str(id.json()).is_ok_and(|text: String| text.starts_with(OWN_ID))
}

/// The id of the translator's first request in the generation of the server.
fn handshake_id() -> Id {
    Id::own(&format!("{OWN_ID}handshake"))
}
