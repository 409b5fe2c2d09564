//! The configuration of the gateway: the table `gateway`.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Ipv6Addr, SocketAddr};
use std::num::{NonZeroU16, NonZeroU32, NonZeroU64};
use std::ops::Deref;
use std::path::PathBuf;

use lro_transport::{DISK_BYTES_DEFAULT, LOG_BYTES_DEFAULT, MEMORY_BYTES_DEFAULT, MESSAGE_BYTES_DEFAULT};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::at_least_one;
use super::credentials::{Token, UpstreamHeader, header_name};
use super::public_url::PublicUrl;

/// Default of [`GatewaySettings::tenant`].
pub const TENANT_DEFAULT: &str = "default";
/// Replaces text that may hold a secret.
pub(super) const HIDDEN: &str = "…";
/// The key of [`GatewaySettings::tokens`].
pub(super) const TOKENS_KEY: &str = "tokens";
/// The key of [`GatewaySettings::upstream_headers`].
pub(super) const HEADERS_KEY: &str = "upstream-headers";

/// Settings of the MCP gateway. Numbers are at least 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct GatewaySettings {
    /// Address and port to serve Streamable HTTP on. Default: none, the gateway is served on stdio.
    #[serde(deserialize_with = "address")]
    pub listen: Option<SocketAddr>,
    /// File with the certificate of `listen` and those that issued it, in PEM: clients connect with TLS. Default: none.
    pub tls_certificate: Option<PathBuf>,
    /// File with the private key of the certificate, in PEM. Both files are read again when they change. Default: none.
    pub tls_key: Option<PathBuf>,
    /// URL of the Streamable HTTP server behind the gateway. Default: none, the gateway starts a server.
    pub upstream: Option<UpstreamUrl>,
    /// Headers to add to each request to the server, by name; only in the file. Default: none.
    #[serde(deserialize_with = "headers")]
    pub upstream_headers: BTreeMap<String, UpstreamHeader>,
    /// Variables to pass to the server that the gateway starts, besides [`SERVER_VARIABLES`](super::SERVER_VARIABLES);
    /// `*` matches any characters. Variables with secrets of the gateway are never passed. Default: none.
    #[serde(deserialize_with = "super::server::env")]
    pub env: Vec<String>,
    /// Whether the server gets all variables except the gateway's own. Default: true on stdio, as clients put the
    /// server's variables there; false with `listen`.
    pub env_all: Option<bool>,
    /// Whether to hide the directories and files of the gateway from the server, where the system allows that. Default:
    /// true.
    pub isolate: bool,
    /// User that the server runs as, a name of `/etc/passwd` or `UID:GID`; requires root. Default: the user of the
    /// gateway.
    #[serde(deserialize_with = "super::server::user")]
    pub user: Option<String>,
    /// Maximum bytes per minute that the standard error of one server takes in the log. Default: 64 KiB.
    pub server_log_bytes: NonZeroU64,
    /// Path of the MCP endpoint over HTTP. Default: `/mcp`.
    #[serde(deserialize_with = "url_path")]
    pub path: String,
    /// Hosts to accept requests for, each with or without a port, besides the loopback names and the address listened
    /// on. Default: none.
    #[serde(deserialize_with = "hosts")]
    pub allowed_hosts: Vec<String>,
    /// Origins to accept requests from, each a scheme, a host and optionally a port, besides those with a loopback
    /// name. Default: none.
    #[serde(deserialize_with = "origins")]
    pub allowed_origins: Vec<String>,
    /// Whether the gateway answers `interceptors/list` and `interceptor/invoke` with its policy as a mutator of tool
    /// results: the proposal SEP-2624. Default: false.
    pub interceptor: bool,
    /// Whether clients of revision 2026-12-01 are served, with results by audience: the proposal SEP-3279. Default: false.
    pub output_variants: bool,
    /// Whether clients that declare the capability `files` get the files of an offload as file values, and addresses to
    /// download them from: the proposal SEP-2631. Requires `listen`. Default: false.
    pub file_transfer: bool,
    /// URL under which clients reach the address listened on, such as that of a proxy with TLS. Addresses of downloads
    /// begin with it. Default: none, the address itself, if that is of this machine alone.
    pub public_url: Option<PublicUrl>,
    /// Seconds for which an address of a download is valid, or until the offload expires. Default: 300.
    pub download_seconds: NonZeroU64,
    /// Tenant of clients without a token, such as on stdio. Default: `default`.
    #[serde(deserialize_with = "tenant")]
    pub tenant: String,
    /// Bearer token that allows changing policies at `metrics-listen`; only in the file. Default: none, changing them
    /// is disabled.
    #[serde(deserialize_with = "operator_token")]
    pub admin_token: Option<Token>,
    /// Bearer tokens by name of the tenant; only in the file. Default: none, no token is required.
    #[serde(deserialize_with = "tokens")]
    pub tokens: BTreeMap<String, Token>,
    /// Authorization server whose tokens are taken, JSON Web Tokens, as they name it in `iss`. Default: none.
    pub jwt_issuer: Option<String>,
    /// What tokens for this gateway name in `aud`; one of these is enough. Default: none.
    pub jwt_audience: Vec<String>,
    /// URL or file of the issuer's public keys, a JSON Web Key Set. Default: none.
    pub jwt_keys: Option<String>,
    /// Seconds after which the keys are read again. A token with an unknown key has them read at once. Default: 3,600.
    pub jwt_keys_seconds: NonZeroU64,
    /// The claim that names the tenant. Default: `tenant`.
    pub jwt_tenant_claim: String,
    /// Address and port to serve `/metrics`, `/healthz` and `/readyz` on. Default: none, none is served.
    #[serde(deserialize_with = "address")]
    pub metrics_listen: Option<SocketAddr>,
    /// Bearer token that allows reading names of tenants at `metrics-listen` from other machines; only in the file. The
    /// admin token does too. Default: none.
    #[serde(deserialize_with = "operator_token")]
    pub metrics_token: Option<Token>,
    /// Maximum size of one message in either direction, in bytes. Default: 1 GiB.
    pub message_bytes: NonZeroU64,
    /// Size in bytes above which a message is kept in a file. Default: 4 MiB.
    pub message_memory: NonZeroU64,
    /// Maximum bytes that the messages of one tenant take in files at a time, including data for `lro://` arguments.
    /// Default: 4 GiB.
    pub message_disk: NonZeroU64,
    /// Milliseconds without a response or progress after which a call fails. Default: 600,000.
    pub call_timeout_ms: NonZeroU64,
    /// Milliseconds that a restarted server may take to answer the handshake. Default: 30,000.
    pub start_timeout_ms: NonZeroU64,
    /// Maximum size of the headers of one HTTP request, in bytes. Default: 64 KiB.
    pub header_bytes: NonZeroU32,
    /// Headers of clients to forward to a server over HTTP, besides those of MCP, `Accept`, `Accept-Language`,
    /// `Content-Type`, `User-Agent`, the headers of traces, and `Authorization` if no tokens are configured. Default:
    /// none.
    #[serde(deserialize_with = "forward_headers")]
    pub forward_headers: Vec<String>,
    /// Maximum number of open HTTP connections. At the limit, a new one closes the one that has been idle longest.
    /// Default: 4,096.
    pub connections: NonZeroU32,
    /// Maximum number of open connections at `metrics-listen`. Default: 64.
    pub metrics_connections: NonZeroU32,
    /// Maximum number of concurrent HTTP requests, at most half of `connections`. Of requests, streams and sessions,
    /// the last eighth is reserved for tenants that hold at most an eighth; without tokens, for client addresses.
    /// Default: 1,024.
    pub requests: NonZeroU32,
    /// Maximum number of concurrent HTTP streams without an end, at most a quarter of `connections`. Default: 1,024.
    pub streams: NonZeroU32,
    /// Maximum number of concurrent legacy HTTP sessions, each with its own server process, and of connections to the server
    /// whose messages are translated for clients without a session. Default: 256.
    pub sessions: NonZeroU32,
    /// Maximum bytes of messages in memory. The last eighth is reserved for tenants that hold at most an eighth. A
    /// message of more than 64 KiB that does not fit is kept in a file. Default: 128 MiB.
    pub memory_bytes: NonZeroU64,
    /// Days of the history for `lro status --days`, today included. Default: 90.
    pub history_days: NonZeroU32,
    /// Milliseconds that an HTTP connection may take to send the head of a request. Default: 10,000.
    pub header_timeout_ms: NonZeroU64,
    /// Milliseconds in which a client must send 1 KiB of the body of a request, or the rest of it. Default: 10,000.
    pub body_timeout_ms: NonZeroU64,
    /// Milliseconds in which a client must read 1 KiB of a response, or the rest of it. Default: 30,000.
    pub write_timeout_ms: NonZeroU64,
    /// Seconds without a request after which a legacy HTTP session ends, and the budget of a client without a session
    /// restarts. Default: 1,800.
    pub session_idle_seconds: NonZeroU64,
    /// Milliseconds for which a gateway that is told to end still accepts HTTP connections, while `/readyz` says that it is
    /// about to end. Default: 0.
    pub drain_ms: u64,
    /// Milliseconds that calls in flight may take to finish at shutdown. Default: 10,000.
    pub shutdown_ms: NonZeroU64,
    /// Maximum number of items in one page of the lists of tools, resources, templates and prompts, if the server does not
    /// page them itself. Default: none, they pass whole.
    pub list_page_size: Option<NonZeroU32>,
    /// When the gateway translates between the generations of the protocol, for a client and a server that have no
    /// revision in common. Default: `auto`.
    pub translate: TranslateMode,
    /// Milliseconds that a server may take to answer a request of the generation that it may not know, before it is taken
    /// for one of the other generation. Default: 5,000.
    pub translate_timeout_ms: NonZeroU64,
    /// Maximum number of messages of a connection that wait until its generation is known. Further requests are refused, and
    /// other messages dropped. Default: 1,000.
    pub translate_held: NonZeroU32,
    /// Maximum number of translated calls of a connection that wait for input from their clients, and of requests for input
    /// of one such call. Beyond it, the server gets an error for its request. Default: 100.
    pub translate_waiting: NonZeroU32,
    /// Whether decisions are only recorded, and every message passes unchanged. Default: false.
    pub audit: bool,
    /// Estimated tokens of results that one session receives inline; over HTTP, where clients have no session, one
    /// client of a tenant, identified by name, version and address. Beyond it, only results of at most `session-floor`
    /// tokens pass. Default: none, unlimited.
    pub session_budget: Option<NonZeroU64>,
    /// Estimated tokens of a result that still passes when the budget of the session is used up. Default: 1,000.
    pub session_floor: NonZeroU64,
    /// Maximum number of jobs of one tenant that run. Beyond it, calls wait for their results as without jobs. Default:
    /// 1,000.
    pub jobs_max: NonZeroU32,
    /// Maximum number of jobs of one tenant that are kept after their end. The oldest is removed first. Default: 1,000.
    pub jobs_kept: NonZeroU32,
    /// Seconds after which a job is canceled. Default: 3,600.
    pub job_seconds_max: NonZeroU64,
    /// Seconds that input which the server of a job asks for is waited for while no client can be reached. Then the server
    /// gets an error. Default: 600.
    pub job_input_seconds: NonZeroU64,
    /// Maximum number of times that a server may ask for input in one job, or in one call that is translated. Default: 16.
    pub input_rounds: NonZeroU32,
    /// Maximum number of requests for input of one job that wait for a client at a time. Default: 16.
    pub job_inputs: NonZeroU32,
    /// Maximum size in bytes of one such request. Default: 64 KiB.
    pub job_input_bytes: NonZeroU64,
    /// Maximum size in bytes of a call that is kept while its job runs, to be sent again with input. Default: 64 KiB.
    pub job_call_bytes: NonZeroU64,
    /// Maximum size in bytes of the reply that is kept of a job; a larger one is offloaded, whatever its tool's
    /// threshold. Default: 4 MiB.
    pub job_result_bytes: NonZeroU64,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        let count = |value| NonZeroU32::new(value).unwrap_or(NonZeroU32::MIN);
        Self {
            listen: None,
            tls_certificate: None,
            tls_key: None,
            upstream: None,
            upstream_headers: BTreeMap::new(),
            env: Vec::new(),
            env_all: None,
            isolate: true,
            user: None,
            server_log_bytes: at_least_one(LOG_BYTES_DEFAULT),
            path: "/mcp".to_owned(),
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            interceptor: false,
            output_variants: false,
            file_transfer: false,
            public_url: None,
            download_seconds: at_least_one(300),
            tenant: TENANT_DEFAULT.to_owned(),
            admin_token: None,
            tokens: BTreeMap::new(),
            jwt_issuer: None,
            jwt_audience: Vec::new(),
            jwt_keys: None,
            jwt_keys_seconds: at_least_one(3600),
            jwt_tenant_claim: "tenant".to_owned(),
            metrics_listen: None,
            metrics_token: None,
            message_bytes: at_least_one(MESSAGE_BYTES_DEFAULT),
            message_memory: at_least_one(MEMORY_BYTES_DEFAULT as u64),
            message_disk: at_least_one(DISK_BYTES_DEFAULT),
            call_timeout_ms: at_least_one(600_000),
            start_timeout_ms: at_least_one(30_000),
            header_bytes: count(64 << 10),
            forward_headers: Vec::new(),
            connections: count(4096),
            metrics_connections: count(64),
            requests: count(1024),
            streams: count(1024),
            sessions: count(256),
            memory_bytes: at_least_one(128 << 20),
            history_days: count(90),
            header_timeout_ms: at_least_one(10_000),
            body_timeout_ms: at_least_one(10_000),
            write_timeout_ms: at_least_one(30_000),
            session_idle_seconds: at_least_one(1800),
            drain_ms: 0,
            shutdown_ms: at_least_one(10_000),
            list_page_size: None,
            translate: TranslateMode::Auto,
            translate_timeout_ms: at_least_one(5_000),
            translate_held: count(1000),
            translate_waiting: count(100),
            audit: false,
            session_budget: None,
            session_floor: at_least_one(1000),
            jobs_max: count(1000),
            jobs_kept: count(1000),
            job_seconds_max: at_least_one(3600),
            job_input_seconds: at_least_one(600),
            input_rounds: count(16),
            job_inputs: count(16),
            job_input_bytes: at_least_one(64 << 10),
            job_call_bytes: at_least_one(64 << 10),
            job_result_bytes: at_least_one(4 << 20),
        }
    }
}

/// When the gateway translates between the generations of the protocol: those up to 2025-11-25 begin with a handshake, and from
/// 2026-07-28 on each request stands for itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TranslateMode {
    /// For clients whose handshake the server refuses. Clients that know both generations begin with the handshake where a
    /// server does not know `server/discover`, and need no translation.
    #[default]
    Auto,
    /// For clients without a handshake before servers that begin with one, too: for clients that know 2026-07-28 alone. The
    /// gateway asks the server first which it is.
    Always,
    /// Never.
    Never,
}

/// What the gateway does with the `outputSchema` of a tool whose results it may replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SchemaStrategy {
    /// Wraps it in an `anyOf` with the schema of a descriptor.
    #[default]
    Rewrite,
    /// Removes it.
    Strip,
    /// Keeps it, and shortens the structured content of a large result to fit it.
    Shape,
    /// Keeps it, and turns a large result into a tool error that holds the descriptor.
    Block,
}

/// An `http://` or `https://` URL. Its displayed form omits the query, which may hold a key.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct UpstreamUrl(String);

impl UpstreamUrl {
    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for UpstreamUrl {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Debug for UpstreamUrl {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&shown_url(self), formatter)
    }
}

impl Serialize for UpstreamUrl {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&shown_url(self))
    }
}

impl TryFrom<String> for UpstreamUrl {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, &'static str> {
        let rest = without_scheme(&url).ok_or("expected http:// or https:// at the beginning")?;
        if url.chars().any(|character| character.is_whitespace() || character.is_control()) {
            return Err("expected a URL without white space");
        }
        if url.contains('#') {
            return Err("expected a URL without a fragment, `#`");
        }
        check_authority(authority(rest))?;
        Ok(Self(url))
    }
}

/// Returns what follows `http://` or `https://`.
pub(super) fn without_scheme(url: &str) -> Option<&str> {
    let (scheme, rest) = url.split_once("://")?;
    ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)).then_some(rest)
}

/// Returns the authority, before the path and the query.
pub(super) fn authority(rest: &str) -> &str {
    rest.split(['/', '?', '#']).next().unwrap_or_default()
}

/// Validates a host and an optional port.
pub(super) fn check_authority(authority: &str) -> Result<(), &'static str> {
    if authority.contains('@') {
        return Err("expected a URL without a user and a password: put them in gateway.upstream-headers");
    }
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    if host.is_empty() {
        return Err("expected a host after `://`");
    }
    let is_address = |inner: &str| inner.parse::<Ipv6Addr>().is_ok();
    let is_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte));
    if !is_name && !host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).is_some_and(is_address) {
        return Err("expected a host of letters, digits, `-`, `.` and `_`, or an IPv6 address in brackets");
    }
    match port.map(str::parse::<NonZeroU16>) {
        Some(Err(_)) => Err("expected a port from 1 to 65535"),
        _ => Ok(()),
    }
}

/// Removes possible secrets from a URL: user, password and query. The text need not be a valid URL.
pub(crate) fn shown_url(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").map_or(("", url), |(_, rest)| url.split_at(url.len() - rest.len()));
    let (authority, path) = rest.split_at(authority(rest).len());
    let host = authority.rsplit_once('@').map_or_else(|| authority.to_owned(), |(_, host)| format!("{HIDDEN}@{host}"));
    match path.split_once(['?', '#']) {
        Some((path, _)) => format!("{scheme}{host}{path}?{HIDDEN}"),
        None => format!("{scheme}{host}{path}"),
    }
}

fn address<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let expected = "expected an IP address and a port from 0 to 65535, such as 127.0.0.1:8080 or [::1]:8080";
    text.parse().map(Some).map_err(|_| D::Error::custom(expected))
}

fn url_path<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let path = String::deserialize(deserializer)?;
    if !path.starts_with('/') {
        Err(D::Error::custom("expected a path that begins with `/`"))
    } else if !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#{}".contains(&byte)) {
        Err(D::Error::custom("expected a path of visible ASCII characters without `?`, `#`, `{` and `}`"))
    } else {
        Ok(path)
    }
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    match hosts.iter().find(|host| check_authority(host).is_err()) {
        Some(host) => Err(D::Error::custom(format!("expected a host, or a host and a port, not `{host}`"))),
        None => Ok(hosts),
    }
}

fn origins<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let origins = Vec::<String>::deserialize(deserializer)?;
    let is_origin = |origin: &str| {
        let (scheme, host) = origin.split_once("://").unwrap_or_default();
        let is_scheme = scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        !scheme.is_empty() && is_scheme && check_authority(host).is_ok()
    };
    match origins.iter().find(|origin| !is_origin(origin)) {
        Some(origin) => {
            Err(D::Error::custom(format!("expected an origin such as https://example.org, not `{origin}`")))
        }
        None => Ok(origins),
    }
}

fn headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, UpstreamHeader>, D::Error> {
    let headers = BTreeMap::<String, UpstreamHeader>::deserialize(deserializer)?;
    headers.keys().try_for_each(|name| header_name(name).map(|_| ())).map_err(D::Error::custom)?;
    Ok(headers)
}

/// Headers to forward, except those for the gateway and those of its connection.
fn forward_headers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    const NOT_FORWARDED: [&str; 14] = [
        "accept-encoding",
        "authorization",
        "connection",
        "content-encoding",
        "content-length",
        "expect",
        "host",
        "keep-alive",
        "origin",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    ];
    let names = Vec::<String>::deserialize(deserializer)?;
    for name in &names {
        let name = header_name(name).map_err(D::Error::custom)?;
        if NOT_FORWARDED.contains(&name.as_str()) {
            return Err(D::Error::custom(format!(
                "`{name}` is for the gateway or its connection and cannot be forwarded: remove it"
            )));
        }
    }
    Ok(names)
}

fn tenant<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    let name = String::deserialize(deserializer)?;
    if name.is_empty() { Err(D::Error::custom("expected the name of a tenant")) } else { Ok(name) }
}

/// A value of another type is not repeated in the error, as it may be the token.
fn operator_token<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Token>, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::String(text) => Token::try_from(text).map(Some).map_err(D::Error::custom),
        _ => Err(D::Error::custom("expected a string")),
    }
}

fn tokens<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, Token>, D::Error> {
    let tokens = BTreeMap::<String, Token>::deserialize(deserializer)?;
    if tokens.contains_key("") { Err(D::Error::custom("expected the name of a tenant")) } else { Ok(tokens) }
}
