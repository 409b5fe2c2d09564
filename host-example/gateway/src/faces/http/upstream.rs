//! What of a client's request goes on to a server over HTTP.

use axum::http::header::{
    ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST,
    PROXY_AUTHENTICATE, SET_COOKIE, TRANSFER_ENCODING, USER_AGENT,
};
use axum::http::{HeaderMap, HeaderName, Uri};
use reqwest::Url;

use crate::headers::PROTOCOL_VERSION;
use crate::upstream::Endpoint;

/// Where documents about a server are, such as the metadata of its authorization.
pub(super) const WELL_KNOWN: &str = "/.well-known/";

/// Headers that go to the server, besides those of the protocol and those that the configuration names.
const REQUEST_HEADERS: [HeaderName; 8] = [
    ACCEPT,
    ACCEPT_LANGUAGE,
    CONTENT_TYPE,
    USER_AGENT,
    HeaderName::from_static("last-event-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("baggage"),
];

/// What the headers of the protocol begin with.
const PROTOCOL_PREFIX: &str = "mcp-";

/// Headers of these by which a server cannot tell one user of a tenant from another, besides those of the protocol.
const OF_NO_USER: [HeaderName; 5] =
    [ACCEPT, CONTENT_TYPE, USER_AGENT, HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Headers that go with a request for a document that is there for everybody.
const DOCUMENT_HEADERS: [HeaderName; 4] = [ACCEPT, ACCEPT_LANGUAGE, USER_AGENT, PROTOCOL_VERSION];

/// Headers of a response that stay here: of one connection (RFC 9110, section 7.6.1), those that this side makes anew, and what
/// is between the server and this client.
const NOT_RETURNED: [HeaderName; 12] = [
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

/// The headers of a request to the endpoint. `named` are those of the configuration; with tokens of the gateway's own,
/// `Authorization` is for it alone.
pub(super) fn request_headers(of_client: &HeaderMap, named: &[HeaderName], has_tokens: bool) -> HeaderMap {
    let goes_on = |name: &HeaderName| {
        REQUEST_HEADERS.contains(name)
            || name.as_str().starts_with(PROTOCOL_PREFIX)
            || (name == AUTHORIZATION && !has_tokens)
            || named.contains(name)
    };
    of_those(of_client, goes_on)
}

/// Whether the server may learn from the [`request_headers`] which user of a tenant asks.
pub(super) fn may_name_a_user(headers: &HeaderMap) -> bool {
    !headers.iter().all(|(name, value)| {
        OF_NO_USER.contains(name)
            || name.as_str().starts_with(PROTOCOL_PREFIX)
            || (name == ACCEPT_LANGUAGE && value == "*")
    })
}

/// The headers of a request for a document: neither who asks nor a session.
pub(super) fn document_headers(of_client: &HeaderMap) -> HeaderMap {
    of_those(of_client, |name| DOCUMENT_HEADERS.contains(name))
}

/// The headers of a response that are about the message and not about the connection.
pub(super) fn response_headers(of_server: &HeaderMap, named: &[HeaderName]) -> HeaderMap {
    of_those(of_server, |name| !NOT_RETURNED.contains(name) || (name == SET_COOKIE && named.contains(name)))
}

/// The headers for which that is so, without those that `Connection` says are about the connection.
fn of_those(headers: &HeaderMap, goes_on: impl Fn(&HeaderName) -> bool) -> HeaderMap {
    let listed: Vec<&str> = headers.get_all(CONNECTION).iter().filter_map(|value| value.to_str().ok()).collect();
    let is_listed = |name: &HeaderName| {
        listed.iter().flat_map(|names| names.split(',')).any(|other| other.trim().eq_ignore_ascii_case(name.as_str()))
    };
    let kept = headers.iter().filter(|(name, _)| goes_on(name) && !is_listed(name));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// The address of a document of the same server; none when the path could lead anywhere else, however it is read.
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
