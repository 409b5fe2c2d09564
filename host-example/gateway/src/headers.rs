//! HTTP headers of MCP, and their text encoding.

use axum::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The protocol revision.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session id, in revisions before 2026-07-28.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The JSON-RPC method, from revision 2026-07-28 on.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// The subject of a request: see [`Params::subject`](lro_host::mcp::Params::subject).
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The id of the last event received, to resume a stream.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Whether proxies before the gateway may hold back a stream, with the value `no`.
pub(crate) const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Prefix and suffix of a base64 value.
const BASE64: (&str, &str) = ("=?base64?", "?=");

/// Encodes a text as a header value, in base64 if it is not plain ASCII.
pub(crate) fn encoded(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !(text.starts_with(BASE64.0) && text.ends_with(BASE64.1)) {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{}{}{}", BASE64.0, STANDARD.encode(text), BASE64.1)).ok()
}

/// Decodes the text of a header value.
pub(crate) fn decoded(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim();
    match text.strip_prefix(BASE64.0).and_then(|rest| rest.strip_suffix(BASE64.1)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}
