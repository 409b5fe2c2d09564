//! What stands behind a gateway without a server: it shakes hands in both generations of the protocol, and knows no other
//! method, so that clients see what the gateway itself has.

use std::sync::{Arc, Weak};

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_PARAMS, Id, Kind, METHOD_NOT_FOUND, Message, ProtocolError, meta, method};
use serde_json::{Value, json};

use super::link::Receive;
use crate::malformed;
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
        let answers: Vec<Bytes> = match message.batch() {
            Some(elements) => {
                elements.into_iter().filter_map(|element| answer(&Message::read(element), instructions)).collect()
            }
            None => answer(&message, instructions).into_iter().collect(),
        };
        if let Some(receiver) = self.receiver.upgrade().filter(|_| !answers.is_empty()) {
            self.session.rules.senders.run(move |_| answers.into_iter().for_each(|answer| receiver.message(answer)));
        }
    }
}

/// The answer to a request, or to what is not a message; `None` where none is expected.
fn answer(request: &Message, instructions: Option<&str>) -> Option<Bytes> {
    match request.kind() {
        Kind::Request => {}
        Kind::Notification | Kind::Response => return None,
        Kind::Batch | Kind::Other if request.bytes().trim_ascii().is_empty() => return None,
        Kind::Batch | Kind::Other => {
            let (code, text) = malformed::reason(request);
            return Some(mcp::error_response(None, code, &text));
        }
    }
    let id: Id = request.id()?;
    let refused = |code, text: &str| Some(mcp::error_response(Some(&id), code, text));
    let params = request.params();
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
        Some(method::TOOLS_CALL) => {
            let name = params.name.as_deref().unwrap_or_default();
            return refused(INVALID_PARAMS, &format!("unknown tool `{name}`: tools/list names the known ones"));
        }
        Some(method::RESOURCES_READ) => {
            let text = format!("unknown resource `{}`", params.uri.as_deref().unwrap_or_default());
            let error = ProtocolError::missing_resource(text, params.is_modern());
            return refused(error.code, &error.message);
        }
        unknown => {
            return refused(METHOD_NOT_FOUND, &format!("unknown method `{}`", unknown.unwrap_or_default()));
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
