//! Headers of the protocol over HTTP, and texts in them.

use axum::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// The revision of a request.
pub(crate) const PROTOCOL_VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
/// The session of a request, in revisions before 2026-07-28.
pub(crate) const SESSION_ID: HeaderName = HeaderName::from_static("mcp-session-id");
/// The method of a request, from revision 2026-07-28 on.
pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
/// What a request is about: see [`Params::subject`](lro_host::mcp::Params::subject).
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
/// The last event that came of a stream.
pub(crate) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What stands around a value in base64.
const BASE64: (&str, &str) = ("=?base64?", "?=");

/// A text as the value of a header: in base64 when it would not survive as it is.
pub(crate) fn encoded(text: &str) -> Option<HeaderValue> {
    let is_plain = text.bytes().all(|byte| matches!(byte, b' '..=b'~')) && text.trim() == text;
    if is_plain && !(text.starts_with(BASE64.0) && text.ends_with(BASE64.1)) {
        return HeaderValue::from_str(text).ok();
    }
    HeaderValue::from_str(&format!("{}{}{}", BASE64.0, STANDARD.encode(text), BASE64.1)).ok()
}

/// The text that the value of a header stands for.
pub(crate) fn decoded(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim();
    match text.strip_prefix(BASE64.0).and_then(|rest| rest.strip_suffix(BASE64.1)) {
        Some(encoded) => String::from_utf8(STANDARD.decode(encoded).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}
