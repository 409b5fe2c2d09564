//! Access control, and checks of every request.

use std::net::SocketAddr;
use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{ALLOW, AUTHORIZATION, CONTENT_TYPE, HOST, ORIGIN, WWW_AUTHENTICATE};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri};
use axum::response::Response;
use bytes::Bytes;
use lro_host::mcp::{self, Id, Kind, Message, method};

use crate::headers::{METHOD, NAME, PROTOCOL_VERSION, decoded};
use crate::malformed;
use crate::settings::{GatewaySettings, is_loopback, without_port};
use crate::tenants::Tenants;

/// JSON-RPC error code for headers that do not match the body, from revision 2026-07-28 on.
const HEADER_MISMATCH: i32 = -32020;

/// First revision without a handshake. Revisions are dates, which compare as texts.
const MODERN: &str = "2026-07-28";

/// Checks requests before they are answered.
#[derive(Debug)]
pub(crate) struct Guard {
    hosts: Vec<String>,
    origins: Vec<String>,
    tenants: Option<Arc<Tenants>>,
    /// The tenant of a request without a token and without a tenant in its path.
    tenant: String,
    header_bytes: usize,
}

/// Why a request is refused.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The limit of this name is reached.
    Busy(&'static str),
    Headers,
    Host,
    Origin,
    Token,
    /// Too many wrong tokens.
    TooManyTokens,
    NotFound,
    Status(StatusCode, String),
    /// The body is not a message; with the JSON-RPC code.
    Message(i32, String),
    Mismatch(Option<Id>, String),
}

impl Guard {
    pub(crate) fn new(settings: &GatewaySettings, address: SocketAddr, tenants: Option<Arc<Tenants>>) -> Self {
        let listening = [address.to_string(), address.ip().to_string()];
        let public = settings.public_url.iter().map(|url| url.host().to_owned());
        Self {
            hosts: settings.allowed_hosts.iter().cloned().chain(public).chain(listening).collect(),
            origins: settings.allowed_origins.clone(),
            tenants,
            tenant: settings.tenant.clone(),
            header_bytes: settings.header_bytes.get() as usize,
        }
    }

    /// Returns the tenant of a request: that of the bearer token, else the one in the path. A token is valid only on
    /// the path of its tenant.
    pub(crate) async fn check(&self, headers: &HeaderMap, uri: &Uri, named: Option<&str>) -> Result<String, Refusal> {
        self.check_source(headers, uri)?;
        let tenant = self.tenant_of_token(headers).await?;
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

    /// Checks the size of the headers, the host and the origin of a request.
    pub(crate) fn check_source(&self, headers: &HeaderMap, uri: &Uri) -> Result<(), Refusal> {
        let bytes: usize = headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        if bytes > self.header_bytes {
            return Err(Refusal::Headers);
        }
        // Clients without a `Host` header are not browsers, which this check is about. With two of them, a proxy before
        // the gateway may have used the other one.
        let target = uri.authority().map(Authority::as_str);
        if !is_absent_or_valid(headers, &HOST, |host| self.is_allowed_host(host))
            || !target.is_none_or(|host| self.is_allowed_host(host))
        {
            return Err(Refusal::Host);
        }
        if !is_absent_or_valid(headers, &ORIGIN, |origin| self.is_allowed_origin(origin)) {
            return Err(Refusal::Origin);
        }
        Ok(())
    }

    fn is_allowed_host(&self, host: &str) -> bool {
        let name = without_port(host);
        is_loopback(name)
            || self.hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(host) || allowed.eq_ignore_ascii_case(name))
    }

    fn is_allowed_origin(&self, origin: &str) -> bool {
        let host = origin.split_once("://").map(|(_, host)| without_port(host));
        host.is_some_and(is_loopback) || self.origins.iter().any(|allowed| allowed.eq_ignore_ascii_case(origin))
    }

    /// The tenant of the bearer token; `None` if no tokens are configured.
    async fn tenant_of_token(&self, headers: &HeaderMap) -> Result<Option<String>, Refusal> {
        let Some(tenants) = self.tenants.as_ref().filter(|tenants| tenants.has_tokens()) else { return Ok(None) };
        let token = bearer(headers).ok_or(Refusal::Token)?;
        tenants.of_token(token).await.map(Some).ok_or(Refusal::Token)
    }
}

/// The bearer token of a request.
pub(crate) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = text(headers, &AUTHORIZATION)?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

/// Whether a header is missing, or is there once and valid.
fn is_absent_or_valid(headers: &HeaderMap, name: &HeaderName, is_valid: impl Fn(&str) -> bool) -> bool {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => true,
        (Some(value), None) => value.to_str().is_ok_and(is_valid),
        (Some(_), Some(_)) => false,
    }
}

/// A header as text; `None` if it is missing or not text.
pub(crate) fn text<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Whether a request is of revision 2026-07-28 or later.
pub(crate) fn is_modern(headers: &HeaderMap, message: &Message) -> bool {
    headers.get_all(PROTOCOL_VERSION).iter().filter_map(|value| value.to_str().ok()).any(is_late)
        || message.params().meta.is_some_and(|meta| meta.protocol_version.is_some_and(|revision| *revision >= *MODERN))
}

/// Whether a text is the date of revision 2026-07-28 or of a later one.
pub(crate) fn is_late(revision: &str) -> bool {
    let is_of_date = |(byte, pattern): (u8, u8)| if pattern == b'-' { byte == b'-' } else { byte.is_ascii_digit() };
    revision.len() == MODERN.len() && revision.bytes().zip(MODERN.bytes()).all(is_of_date) && revision >= MODERN
}

/// Whether a message of revision 2026-07-28 or later opens a long-lived stream.
pub(crate) fn is_listen_request(message: &Message) -> bool {
    message.kind() == Kind::Request && message.method().as_deref() == Some(method::LISTEN)
}

/// Checks that a body is one message or one batch.
pub(crate) fn check_message(message: &Message) -> Result<(), Refusal> {
    let is_one = match message.kind() {
        Kind::Other => false,
        Kind::Batch => message.batch().is_some_and(|elements| elements.into_iter().all(is_single)),
        _ => true,
    };
    // What is not UTF-8 may be in a place that is not read here, and readers disagree about it.
    if is_one && str::from_utf8(message.bytes()).is_ok() {
        return Ok(());
    }
    let (code, text) = malformed::reason(message);
    Err(Refusal::Message(code, text))
}

fn is_single(element: Bytes) -> bool {
    !matches!(Message::read(element).kind(), Kind::Other | Kind::Batch)
}

/// Checks the headers that revision 2026-07-28 repeats from the body. With `required`, they must be present.
pub(crate) fn check_headers(headers: &HeaderMap, message: &Message, required: bool) -> Result<(), Refusal> {
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
            let text = format!("the header {header} is {found}, but the body says `{value}`");
            return Err(Refusal::Mismatch(message.id(), text));
        }
    }
    Ok(())
}

/// The refusal of a request with a session id that is unknown, or belongs to another tenant.
pub(crate) fn unknown_session() -> Refusal {
    let text = "the session is unknown or has expired: start again with initialize";
    Refusal::Status(StatusCode::NOT_FOUND, text.to_owned())
}

impl Refusal {
    pub(crate) fn response(self) -> Response {
        let (status, code, id, message) = match self {
            Self::Busy(limit) => (
                StatusCode::SERVICE_UNAVAILABLE,
                mcp::INTERNAL_ERROR,
                None,
                format!("too many requests at a time (limit {limit}): try again in a moment"),
            ),
            Self::Headers => (
                StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
                mcp::INVALID_REQUEST,
                None,
                "the headers are too large (limit gateway.header-bytes)".to_owned(),
            ),
            Self::Host => (
                StatusCode::FORBIDDEN,
                mcp::INVALID_REQUEST,
                None,
                "this host is not allowed: add it to gateway.allowed-hosts".to_owned(),
            ),
            Self::Origin => (
                StatusCode::FORBIDDEN,
                mcp::INVALID_REQUEST,
                None,
                "this origin is not allowed: add it to gateway.allowed-origins".to_owned(),
            ),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                mcp::INVALID_REQUEST,
                None,
                "a valid bearer token of a tenant is required".to_owned(),
            ),
            Self::TooManyTokens => (
                StatusCode::TOO_MANY_REQUESTS,
                mcp::INVALID_REQUEST,
                None,
                "too many requests with a wrong token: try again later".to_owned(),
            ),
            Self::NotFound => (
                StatusCode::NOT_FOUND,
                mcp::INVALID_REQUEST,
                None,
                "not found: check the path and the tenant".to_owned(),
            ),
            Self::Status(status, message) => (status, mcp::INVALID_REQUEST, None, message),
            Self::Message(code, message) => (StatusCode::BAD_REQUEST, code, None, message),
            Self::Mismatch(id, message) => (StatusCode::BAD_REQUEST, HEADER_MISMATCH, id, message),
        };
        let mut response = json(status, mcp::error_response(id.as_ref(), code, &message));
        let extra = match status {
            StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
            StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "POST")),
            _ => None,
        };
        response.headers_mut().extend(extra.map(|(name, value)| (name, HeaderValue::from_static(value))));
        response
    }
}

/// A response with a JSON body.
pub(crate) fn json(status: StatusCode, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
