//! Who may ask, and what every request must be like.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use crate::headers::{METHOD, NAME, PROTOCOL_VERSION, decoded};
use crate::settings::GatewaySettings;
use crate::tenants::Tenants;
use lro_host::mcp::{self, Id, Kind, Message, method};

/// JSON-RPC code of headers that do not match the body, from revision 2026-07-28 on.
const HEADER_MISMATCH: i32 = -32020;

/// First revision without a handshake. Revisions are dates and in order as texts.
const MODERN: &str = "2026-07-28";

/// Names of this machine that only it can be reached by.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

/// Checks requests.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    tenants: Option<Arc<Tenants>>,
    /// The tenant of a request that names none.
    tenant: String,
    header_bytes: usize,
}

/// Why a request is not answered.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// As many as the limit of this name are in flight.
    Busy(&'static str),
    Headers,
    Host,
    Origin,
    Token,
    /// Wrong tokens came too fast.
    TooManyTokens,
    NotFound,
    Status(StatusCode, String),
    Mismatch(Option<Id>, String),
}

impl Guard {
    pub(crate) fn new(settings: &GatewaySettings, address: SocketAddr, tenants: Option<Arc<Tenants>>) -> Self {
        let own = [address.to_string(), address.ip().to_string()];
        Self {
            hosts: settings.allowed_hosts.iter().cloned().chain(own).collect(),
            origins: settings.allowed_origins.clone(),
            tenants,
            tenant: settings.tenant.clone(),
            header_bytes: settings.header_bytes.get() as usize,
        }
    }

    /// The tenant that asks: that of the bearer token, else the one that the path names. A token goes with the path of its
    /// own tenant only.
    pub(crate) fn check(&self, request: &Request, named: Option<&str>) -> Result<String, Refusal> {
        let headers = request.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > self.header_bytes {
            return Err(Refusal::Headers);
        }
        // Some clients send no host, but then they are no browsers, which the check is about. Of two hosts, what stands before
        // the gateway may have believed the other.
        let target = request.uri().authority().map(Authority::as_str);
        if !is_alone(headers, &HOST, |host| self.is_own(host)) || !target.is_none_or(|host| self.is_own(host)) {
            return Err(Refusal::Host);
        }
        if !is_alone(headers, &ORIGIN, |origin| self.is_friend(origin)) {
            return Err(Refusal::Origin);
        }
        let tenant = self.tenant_of_token(headers)?;
        let is_known = |named: &str| match &tenant {
            Some(tenant) => tenant == named,
            None => self.tenants.as_ref().is_some_and(|tenants| tenants.has(named)),
        };
        match named {
            Some(named) if is_known(named) => Ok(named.to_owned()),
            Some(_) => Err(Refusal::NotFound),
            None => Ok(tenant.unwrap_or_else(|| self.tenant.clone())),
        }
    }

    fn is_own(&self, host: &str) -> bool {
        let name = without_port(host);
        is_loopback(name)
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(host) || own.eq_ignore_ascii_case(name))
    }

    fn is_friend(&self, origin: &str) -> bool {
        let host = origin.split_once("://").map(|(_, host)| without_port(host));
        host.is_some_and(is_loopback) || self.origins.iter().any(|friend| friend.eq_ignore_ascii_case(origin))
    }

    /// The tenant of the bearer token; none where no tokens are needed.
    fn tenant_of_token(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let Some(tenants) = self.tenants.as_ref().filter(|tenants| tenants.has_tokens()) else { return Ok(None) };
        let digest = Sha256::digest(bearer(headers).ok_or(Refusal::Token)?);
        tenants.of_token(&digest).map(Some).ok_or(Refusal::Token)
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

fn is_loopback(host: &str) -> bool {
    LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Whether a header is missing, or is there once and as it should be.
fn is_alone(headers: &HeaderMap, name: &HeaderName, is_right: impl Fn(&str) -> bool) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value.to_str().is_ok_and(is_right),
        (Some(_), Some(_)) => false,
    }
}

/// A header as text; none when it is missing or no text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a request is of revision 2026-07-28 or later.
pub(crate) fn is_modern(headers: &HeaderMap, message: &Message) -> bool {
    let is_late = |revision: &str| revision >= MODERN;
    headers.get_all(PROTOCOL_VERSION).iter().filter_map(|value| value.to_str().ok()).any(is_late)
        || message.params().meta.is_some_and(|meta| meta.protocol_version.as_deref().is_some_and(is_late))
}

/// Whether a message of revision 2026-07-28 or later asks for a stream that has no end of its own.
pub(crate) fn asks_to_listen(message: &Message) -> bool {
    message.kind() == Kind::Request && message.method().as_deref() == Some(method::LISTEN)
}

/// Refuses a body that is not one message, or one batch of messages.
pub(crate) fn is_message(message: &Message) -> Result<(), Refusal> {
    let is_one = match message.kind() {
        Kind::Other => false,
        Kind::Batch => message.batch().is_some_and(|elements| elements.into_iter().all(is_single)),
        _ => true,
    };
    let refusal = || Refusal::Status(StatusCode::BAD_REQUEST, "the body is not a JSON-RPC message".to_owned());
    is_one.then_some(()).ok_or_else(refusal)
}

fn is_single(element: Bytes) -> bool {
    !matches!(Message::read(element).kind(), Kind::Other | Kind::Batch)
}

/// Compares the headers that revision 2026-07-28 repeats from the body. With `required`, they must be there.
pub(crate) fn matches_body(headers: &HeaderMap, message: &Message, required: bool) -> Result<(), Refusal> {
    let params = message.params();
    let revision = params.meta.as_ref().and_then(|meta| meta.protocol_version.as_deref());
    let method = message.method();
    let name = method.as_deref().and_then(|method| params.subject(method));
    let expected = [(PROTOCOL_VERSION, revision), (METHOD, method.as_deref()), (NAME, name)];
    for (header, value) in expected {
        let Some(value) = value else { continue };
        let mut found = headers.get_all(&header).iter().map(decoded).peekable();
        let is_missing = required && found.peek().is_none();
        let other = found.find(|found| found.as_deref() != Some(value));
        if is_missing || other.is_some() {
            let found = other.map_or("missing".to_owned(), |found| format!("`{}`", found.unwrap_or_default()));
            let text = format!("the header {header} is {found}, the body says `{value}`");
            return Err(Refusal::Mismatch(message.id(), text));
        }
    }
    Ok(())
}

impl Refusal {
    pub(crate) fn response(self) -> Response {
        let (status, code, id, message) = match self {
            Self::Busy(limit) => (
                StatusCode::SERVICE_UNAVAILABLE,
                mcp::INTERNAL_ERROR,
                None,
                format!("too many requests at a time, the limit `{limit}`"),
            ),
            Self::Headers => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                mcp::INVALID_REQUEST,
                None,
                "the headers are larger than the limit `gateway.header-bytes`".to_owned(),
            ),
            Self::Host => (
                StatusCode::FORBIDDEN,
                mcp::INVALID_REQUEST,
                None,
                "this host is not allowed: see `gateway.allowed-hosts`".to_owned(),
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                mcp::INVALID_REQUEST,
                None,
                "this origin is not allowed: see `gateway.allowed-origins`".to_owned(),
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                mcp::INVALID_REQUEST,
                None,
                "a bearer token of a tenant is needed".to_owned(),
            ),
            Self::TooManyTokens => (
                StatusCode::TOO_MANY_REQUESTS,
                mcp::INVALID_REQUEST,
                None,
                "too many wrong tokens at a time: wait before the next".to_owned(),
            ),
            Self::NotFound => (StatusCode::NOT_FOUND, mcp::INVALID_REQUEST, None, "there is nothing here".to_owned()),
            Self::Status(status, message) => (status, mcp::INVALID_REQUEST, None, message),
            Self::Mismatch(id, message) => (StatusCode::BAD_REQUEST, HEADER_MISMATCH, id, message),
        };
        let mut response = json(status, mcp::error_response(id.as_ref(), code, &message));
        let more = match status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "POST")),
            _ => None,
        };
        response.headers_mut().extend(more.map(|(name, value)| (name, HeaderValue::from_static(value))));
        response
    }
}

/// A response of one JSON document.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
