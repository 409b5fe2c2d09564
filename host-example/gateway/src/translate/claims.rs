//! What a request of 2026-07-28 says of its client in its metadata. A server with a handshake does not check it.

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_PARAMS, Message, meta};
use serde_json::json;

use super::json::{read, text};
use super::{INPUT_METHODS, MODERN_REVISION};

/// Path of what the client can do.
pub(super) const CAPABILITIES: [&str; 3] = ["params", "_meta", meta::CLIENT_CAPABILITIES];

/// JSON-RPC code of a revision that a server does not support, from 2026-07-28 on.
const UNSUPPORTED_REVISION: i32 = -32022;

/// Levels of log messages, from the least severe on.
const LEVELS: [&str; 8] = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

/// The error for a request that lacks what each has to say.
pub(crate) fn missing(request: &Message) -> Option<Bytes> {
    let params = request.params();
    let said = params.meta.unwrap_or_default();
    let (version, capabilities) = (said.protocol_version, said.client_capabilities.map(|json| json.get()));
    let key = match (version, capabilities) {
        (None, _) => meta::PROTOCOL_VERSION,
        (_, capabilities) if !capabilities.is_some_and(|json| json.starts_with('{')) => meta::CLIENT_CAPABILITIES,
        _ => return None,
    };
    let text = format!("params._meta lacks \"{key}\", which each request of this revision has");
    Some(mcp::error_response(request.id().as_ref(), INVALID_PARAMS, &text))
}

/// The error for a request of a revision that the translator does not speak.
pub(super) fn unsupported(request: &Message) -> Option<Bytes> {
    let id = request.id()?;
    let requested = request.params().meta?.protocol_version?.into_owned();
    if requested == MODERN_REVISION {
        return None;
    }
    let error = json!({
        "code": UNSUPPORTED_REVISION,
        "message": format!("the revision is not supported: use {MODERN_REVISION}"),
        "data": { "supported": [MODERN_REVISION], "requested": requested },
    });
    Some(format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into())
}

/// What the client of a request can be asked for, as JSON.
pub(crate) fn input_capabilities(request: &Message) -> String {
    let declared = read(request, &CAPABILITIES);
    INPUT_METHODS.iter().map(|(_, capability)| format!("{}\n", declared[*capability])).collect()
}

/// The severity of a log level, the greater the more severe.
pub(super) fn severity(message: &Message, path: &[&str]) -> Option<usize> {
    let level = text(message, path)?;
    LEVELS.iter().position(|known| *known == level)
}

/// The level of this severity.
pub(super) fn level(severity: usize) -> &'static str {
    LEVELS.get(severity).copied().unwrap_or(LEVELS[LEVELS.len() - 1])
}
