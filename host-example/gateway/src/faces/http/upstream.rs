//! The headers and documents that are forwarded between a client and an HTTP server.

use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    PROXY_AUTHENTICATE, SET_COOKIE, TRANSFER_ENCODING, USER_AGENT,
};
use axum::http::{HeaderMap, HeaderName, Uri};
use reqwest::Url;

use crate::headers::{LAST_EVENT_ID, PROTOCOL_VERSION};
use crate::upstream::Endpoint;

/// Path prefix of documents about a server, such as the metadata of its authorization.
pub(super) const WELL_KNOWN: &str = "/.well-known/";

/// Headers forwarded to the server that say what a client is, besides those of the configuration.
const CLIENT_HEADERS: [HeaderName; 2] = [ACCEPT_LANGUAGE, USER_AGENT];

/// Headers forwarded to the server that belong to one message, besides those of MCP.
const MESSAGE_HEADERS: [HeaderName; 6] = [
    ACCEPT,
    CONTENT_TYPE,
    LAST_EVENT_ID,
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// Prefix of the headers of MCP.
const PROTOCOL_PREFIX: &str = "mcp-";

/// Headers that do not identify a user of a tenant, besides those of MCP.
const ANONYMOUS_HEADERS: [HeaderName; 5] =
    [ACCEPT, CONTENT_TYPE, USER_AGENT, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Headers forwarded with a request for a public document.
const DOCUMENT_HEADERS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, PROTOCOL_VERSION];

/// Response headers that are not forwarded: those of the connection (RFC 9110, section 7.6.1), those that the gateway
/// sets, and those between the server and one client.
const RESPONSE_HEADERS_DROPPED: [HeaderName; 12] = [
    CONNECTION,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
    HeaderName::from_static("te"),
    HeaderName::from_static("trailer"),
    HeaderName::from_static("upgrade"),
    TRANSFER_ENCODING,
    CONTENT_LENGTH,
    HOST,
    ACCEPT_ENCODING,
    PROXY_AUTHENTICATE,
    SET_COOKIE,
];

/// The headers to forward to the endpoint. `named` are those of the configuration; if the gateway checks tokens,
/// `Authorization` is not forwarded.
pub(super) fn request_headers(client_headers: &HeaderMap, named: &[HeaderName], has_tokens: bool) -> HeaderMap {
    let is_forwarded = |name: &HeaderName| {
        CLIENT_HEADERS.contains(name)
            || belongs_to_message(name)
            || (name == AUTHORIZATION && !has_tokens)
            || named.contains(name)
    };
    selected(client_headers, is_forwarded)
}

/// Whether [`request_headers`] may identify a user of a tenant to the server.
pub(super) fn may_identify_user(headers: &HeaderMap) -> bool {
    !headers.iter().all(|(name, value)| {
        ANONYMOUS_HEADERS.contains(name)
            || name.as_str().starts_with(PROTOCOL_PREFIX)
            || (name == ACCEPT_LANGUAGE && value == "*")
    })
}

/// The headers among these of [`request_headers`] that are the same for each message of a client.
pub(super) fn without_message_headers(headers: &HeaderMap) -> HeaderMap {
    selected(headers, |name| !belongs_to_message(name))
}

fn belongs_to_message(name: &HeaderName) -> bool {
    MESSAGE_HEADERS.contains(name) || name.as_str().starts_with(PROTOCOL_PREFIX)
}

/// The headers to forward with a request for a document: no credentials and no session.
pub(super) fn document_headers(client_headers: &HeaderMap) -> HeaderMap {
    selected(client_headers, |name| DOCUMENT_HEADERS.contains(name))
}

/// The response headers to forward.
pub(super) fn response_headers(server_headers: &HeaderMap, named: &[HeaderName]) -> HeaderMap {
    selected(server_headers, |name| {
        !RESPONSE_HEADERS_DROPPED.contains(name) || (name == SET_COOKIE && named.contains(name))
    })
}

/// The headers that `is_forwarded` accepts, without those that `Connection` lists.
fn selected(headers: &HeaderMap, is_forwarded: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let listed: Vec<&str> = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).collect();
    let is_listed = |name: &HeaderName| {
        listed.iter().flat_map(|names| names.split(',')).any(|other| other.trim().eq_ignore_ascii_case(name.as_str()))
    };
    let kept = headers.iter().filter(|(name, _)| is_forwarded(name) && !is_listed(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The URL of a document of the same server; `None` if some parser could resolve the path elsewhere.
pub(super) fn document(endpoint: &Endpoint, uri: &Uri) -> Option<Url> {
    let rest = uri.path().strip_prefix(WELL_KNOWN)?;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,=:@".contains(&byte);
    let is_name = |segment: &str| !matches!(segment, "" | "." | "..") && segment.bytes().all(is_plain);
    if !rest.strip_suffix('/').unwrap_or(rest).split('/').all(is_name) {
        return None;
    }
    let mut url = endpoint.url();
    url.set_path(uri.path());
    url.set_query(uri.query());
    (url.path() == uri.path()).then_some(url)
}
