//! What stands behind a gateway without a server: it shakes hands in both generations of the protocol, and knows no other
//! method, so that clients see what the gateway itself has.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use lro_host::mcp::{self, Id, Kind, METHOD_NOT_FOUND, Message, meta, method};
use serde_json::{Value, json};

use super::link::Receive;
use crate::session::Session;
use crate::translate::{LEGACY_REVISIONS, MODERN_REVISION, Translator};

/// Name of the server in the handshake.
const NAME: &str = "lro-filter";

/// The answers in the place of a server's.
pub(crate) struct NoServer<R> {
    session: Arc<Session>,
    receiver: Weak<R>,
    translator: Translator,
}

impl<R: Receive + 'static> NoServer<R> {
    pub(crate) fn new(session: Arc<Session>, receiver: Weak<R>, translator: Translator) -> Self {
        Self { session, receiver, translator }
    }

    /// It never translates.
    pub(crate) fn translator(&self) -> &Translator {
        &self.translator
    }

    /// Answers the requests in a message. The caller may hold what receiving the answers needs.
    pub(crate) fn send(&self, message: &Bytes) {
        let message = Message::read(message.clone());
        let instructions = self.session.rules.instructions.as_deref();
        let answers: Vec<Bytes> = match message.kind() {
            Kind::Request => answer(&message, instructions).into_iter().collect(),
            Kind::Batch => {
                let requests = message.batch().unwrap_or_default().into_iter().map(Message::read);
                requests.filter_map(|request| answer(&request, instructions)).collect()
            }
            Kind::Notification | Kind::Response | Kind::Other => Vec::new(),
        };
        if let Some(receiver) = self.receiver.upgrade().filter(|_| !answers.is_empty()) {
            self.session.rules.senders.run(move |_| answers.into_iter().for_each(|answer| receiver.message(answer)));
        }
    }
}

/// The answer to a request; `None` without an id.
fn answer(request: &Message, instructions: Option<&str>) -> Option<Bytes> {
    let id: Id = request.id()?;
    let method = request.method();
    let info = json!({ "name": NAME, "title": "lro-filter", "version": env!("CARGO_PKG_VERSION") });
    let mut about = json!({ "capabilities": {} });
    if let Some(instructions) = instructions {
        about["instructions"] = instructions.into();
    }
    let result = match method.as_deref() {
        Some(method::INITIALIZE) => {
            about["protocolVersion"] = revision(request).into();
            about["serverInfo"] = info;
            about
        }
        Some(method::DISCOVER) => {
            about["_meta"] = json!({ meta::SERVER_INFO: info });
            about["resultType"] = "complete".into();
            about["supportedVersions"] = json!([MODERN_REVISION]);
            about["ttlMs"] = 0.into();
            about["cacheScope"] = "private".into();
            about
        }
        Some(method::PING) => json!({}),
        unknown => {
            let text = format!("there is no method `{}`", unknown.unwrap_or_default());
            return Some(mcp::error_response(Some(&id), METHOD_NOT_FOUND, &text));
        }
    };
    Some(mcp::response(&id, &result.to_string()))
}

/// The revision that the client asks for, if it begins with a handshake, or else the last of those.
fn revision(request: &Message) -> &'static str {
    let asked: Option<Value> =
        request.value(&["params", "protocolVersion"]).and_then(|json| serde_json::from_slice(&json).ok());
    let known = LEGACY_REVISIONS.into_iter().find(|revision| asked.as_ref().is_some_and(|asked| asked == revision));
    known.or(LEGACY_REVISIONS.last().copied()).unwrap_or_default()
}
