//! Serves the gateway on Streamable HTTP.
//!
//! In front of an HTTP server it is a reverse proxy: each request of a client becomes one request to the server, and
//! headers and status are forwarded. For clients of another generation of the protocol than the server, the gateway
//! translates and opens the connections itself. In front of a command it is the server's HTTP endpoint: a client of the handshake
//! revisions gets its own child process, and all clients of a tenant that speak 2026-07-28 or later share one.
//!
//! Limits keep one client from starving others. An idle connection is closed for a new one. A request counts against
//! its tenant from its head until the last byte of its response is written; without tokens, against its tenant and
//! address. Bodies and responses must make progress. Messages that wait for clients are kept in bounded memory, and in
//! files beyond that.

mod bridge;
mod download;
mod filter;
mod forwarding;
mod kept;
mod legacy;
mod modern;
mod proxy;
mod resource;
mod streams;
mod table;
mod upstream;

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{AUTHORIZATION, CONNECTION, WWW_AUTHENTICATE};
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use lro_host::mcp::{Kind, Message, percent_decoded as decoded};
use rustls::ServerConfig;
use tokio::net::TcpListener;

use self::bridge::Bridge;
pub(crate) use self::download::is_download;
use self::proxy::Proxy;
use self::resource::ProtectedResource;
use crate::listener::attempts::{AttemptOutcome, Attempts};
use crate::listener::body;
use crate::listener::connections::{self, Caller, Connections};
use crate::listener::guard::{self, Guard, Refusal};
use crate::listener::shares::{ActiveTenants, Holder, RequestPermit, Shares, removed};
use crate::listener::tls::{Certificate, TlsError};
use crate::session::refusal_of_names;
use crate::tenants::rules::Rules;
use crate::trace;
use crate::upstream::Upstream;

/// How often the gateway checks for idle sessions and removed tenants.
const IDLE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Why a gateway cannot listen for HTTP connections.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// The address cannot be bound.
    #[error(transparent)]
    Address(#[from] io::Error),
    /// The certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
}

/// A gateway that listens for HTTP connections.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    tls: Option<(Arc<Certificate>, Arc<ServerConfig>)>,
    face: Arc<HttpFace>,
}

#[derive(Debug)]
struct HttpFace {
    rules: Arc<Rules>,
    guard: Guard,
    /// What clients learn who need a token of an authorization server.
    resource: Option<ProtectedResource>,
    attempts: Attempts,
    /// Maximum number of open connections.
    connections: usize,
    shares: Shares,
    active: ActiveTenants,
    server: Backend,
}

/// A request that has passed the checks, with its permit.
struct AdmittedRequest {
    holder: Holder,
    permit: RequestPermit,
    /// Whether the request is for the MCP endpoint, not for a well-known document.
    is_endpoint: bool,
}

/// The head of a request for the MCP endpoint, and who sent it.
struct RequestHead {
    holder: Holder,
    /// The address of the client; of an IPv6 address, its network.
    address: IpAddr,
    parts: Parts,
}

#[derive(Debug)]
enum Backend {
    Command(Arc<Bridge>),
    Http(Arc<Proxy>),
}

impl Backend {
    fn bridge(&self) -> &Bridge {
        match self {
            Self::Command(bridge) => bridge,
            Self::Http(proxy) => proxy.bridge(),
        }
    }
}

impl Server {
    /// Binds the address.
    ///
    /// # Errors
    /// [`BindError`] if the address cannot be bound, or the certificate cannot be used.
    pub async fn bind(rules: &Arc<Rules>, upstream: Upstream, address: SocketAddr) -> Result<Self, BindError> {
        let settings = &rules.config.gateway;
        let tls = match (&settings.tls_certificate, &settings.tls_key) {
            (Some(certificate), Some(key)) => {
                let certificate = Certificate::read(certificate, key)?;
                let config = certificate.config()?;
                Some((certificate, config))
            }
            _ => None,
        };
        let listener = TcpListener::bind(address).await?;
        let guard = Guard::new(settings, listener.local_addr()?, rules.tenants.clone());
        let base = match &settings.public_url {
            Some(url) => url.as_str().to_owned(),
            None => format!("{}://{}", scheme(tls.is_some()), listener.local_addr()?),
        };
        let _ = rules.downloads.set(format!("{base}{}", download::PATH));
        let issuer = rules.tenants.as_ref().and_then(|tenants| tenants.issuer());
        let resource = issuer.map(|issuer| ProtectedResource::new(&base, &settings.path, issuer));
        let server = match upstream {
            Upstream::Command(_) | Upstream::None => {
                Backend::Command(Arc::new(Bridge::new(Arc::clone(rules), upstream)))
            }
            Upstream::Http(endpoint) => Backend::Http(Arc::new(Proxy::new(Arc::clone(rules), endpoint))),
        };
        let connections = connections::limit(settings.connections);
        let face = HttpFace {
            rules: Arc::clone(rules),
            guard,
            resource,
            attempts: Attempts::default(),
            connections,
            shares: Shares::new(rules, connections),
            active: ActiveTenants::default(),
            server,
        };
        Ok(Self { listener, tls, face: Arc::new(face) })
    }

    /// The URL of the MCP endpoint.
    ///
    /// # Errors
    /// If the system cannot report the address.
    pub fn url(&self) -> io::Result<String> {
        let scheme = scheme(self.tls.is_some());
        Ok(format!("{scheme}://{}{}", self.listener.local_addr()?, self.face.rules.config.gateway.path))
    }

    /// Serves until `stop` is ready and for `gateway.drain-ms` after that, then waits for requests in flight up to
    /// `gateway.shutdown-ms`.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, tls, face } = self;
        let (certificate, tls) = tls.unzip();
        let idle = Arc::clone(&face);
        let watch = tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_POLL_INTERVAL).await;
                idle.active.end_removed(&idle.rules);
                idle.rules.jobs.wake_late();
                idle.server.bridge().end_idle();
            }
        });
        let certificate = certificate.map(|certificate| tokio::spawn(certificate.watch()));
        let connections = Connections::new(&face.rules.config.gateway, face.connections, tls);
        let timeout = Duration::from_millis(face.rules.config.gateway.shutdown_ms.get());
        let has_handed_over = Arc::new(AtomicBool::new(false));
        let (serving, closes) = (Arc::clone(&face), Arc::clone(&has_handed_over));
        let answer = move |caller, request| {
            let (face, closes) = (Arc::clone(&serving), Arc::clone(&closes));
            async move {
                let mut response = face.answer(caller, request).await;
                if closes.load(Ordering::Relaxed) {
                    // A connection that stays would be closed while its client sends the next request.
                    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
                }
                response
            }
        };
        let drained = async {
            stop.await;
            face.rules.drain();
            let drain = tokio::time::sleep(Duration::from_millis(face.rules.config.gateway.drain_ms));
            // Clients find their sessions where they connect next.
            let _ = tokio::time::timeout(timeout, face.server.bridge().hand_over()).await;
            has_handed_over.store(true, Ordering::Relaxed);
            drain.await;
        };
        connections.serve(listener, answer, drained).await;
        // Open streams and calls that wait for jobs would hold up the shutdown.
        face.rules.jobs.wake_all();
        face.server.bridge().end_streams();
        if let Backend::Http(proxy) = &face.server {
            proxy.end_streams();
        }
        let _ = tokio::time::timeout(timeout, connections.finish()).await;
        watch.abort();
        certificate.inspect(|watch| watch.abort());
        face.server.bridge().finish().await;
    }
}

fn scheme(is_tls: bool) -> &'static str {
    if is_tls { "https" } else { "http" }
}

impl HttpFace {
    async fn answer(&self, caller: Caller, request: Request) -> Response {
        let (parts, body) = request.into_parts();
        if self.rules.transfers_files() && is_download(parts.uri.path()) {
            return self.download(&caller, &parts).await;
        }
        if let Some(metadata) = self.resource.as_ref().and_then(|resource| resource.metadata(&parts)) {
            let checked = self.guard.check_source(&parts.headers, &parts.uri);
            return checked.map_or_else(Refusal::response, |()| metadata);
        }
        let admitted = match self.admit(&caller, &parts).await {
            Ok(admitted) => admitted,
            // A request without a token does not count as a wrong token: its client needs the response to learn where
            // to get one.
            Err(Refusal::Token) if parts.headers.contains_key(AUTHORIZATION) => {
                match self.attempts.failed(caller.address()).await {
                    AttemptOutcome::Refused => return self.demanded(Refusal::Token.response(), true),
                    AttemptOutcome::TooMany => return Refusal::TooManyTokens.response(),
                }
            }
            Err(refusal @ Refusal::Token) => return self.demanded(refusal.response(), false),
            Err(refusal) => return refusal.response(),
        };
        let active = self.active.watch(&admitted.holder.tenant);
        let response = tokio::select! {
            response = self.respond(admitted, &caller, parts, body) => response.unwrap_or_else(Refusal::response),
            () = removed(active.clone()) => return Refusal::NotFound.response(),
        };
        response.map(|body| body::until(body, removed(active)))
    }

    /// A demand for a token that says where clients get one.
    fn demanded(&self, mut response: Response, is_invalid: bool) -> Response {
        if let Some(resource) = &self.resource {
            response.headers_mut().insert(WWW_AUTHENTICATE, resource.demand(is_invalid));
        }
        response
    }

    /// Checks a request, and acquires its permit.
    async fn admit(&self, caller: &Caller, parts: &Parts) -> Result<AdmittedRequest, Refusal> {
        let path = parts.uri.path();
        let settings = &self.rules.config.gateway;
        let named = path.strip_prefix(settings.path.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let named = named.map(|named| decoded(named).unwrap_or_default());
        let tenant = self.guard.check(&parts.headers, &parts.uri, named.as_deref()).await?;
        let is_endpoint = named.is_some() || path == settings.path;
        let holder = self.holder(tenant, caller);
        let permit = match parts.method {
            Method::GET if is_endpoint => self.shares.stream(&holder)?,
            _ => self.shares.requests(&holder, 1)?,
        };
        Ok(AdmittedRequest { holder, permit, is_endpoint })
    }

    /// Whom a request counts against. Without tokens a client can claim any tenant, but not any address.
    fn holder(&self, tenant: String, caller: &Caller) -> Holder {
        let address = (!self.rules.has_tokens()).then(|| caller.address());
        Holder { tenant, address }
    }

    async fn respond(
        &self,
        admitted: AdmittedRequest,
        caller: &Caller,
        parts: Parts,
        body: Body,
    ) -> Result<Response, Refusal> {
        let AdmittedRequest { holder, permit, is_endpoint } = admitted;
        if !is_endpoint {
            caller.hold(permit);
            if parts.uri.path() == filter::PATH {
                return self.filter(&holder, &parts, body).await;
            }
            return match &self.server {
                Backend::Http(proxy) => proxy.document(&parts).await,
                Backend::Command(_) => Err(Refusal::NotFound),
            };
        }
        let (message, permit) = match parts.method {
            Method::POST => {
                let (message, permit) = self.message(&holder, permit, &parts, body).await?;
                if let Some(refusal) = refusal_of_names(&message) {
                    return Ok(guard::json(StatusCode::BAD_REQUEST, refusal));
                }
                (Some(trace::with_headers(message, &parts.headers)), permit)
            }
            _ => (None, permit),
        };
        caller.hold(permit);
        let head = RequestHead { holder, address: caller.address(), parts };
        match &self.server {
            Backend::Command(bridge) => bridge.answer(&head, message).await,
            Backend::Http(proxy) => proxy.answer(&head, message).await,
        }
    }

    /// Reads the message of a request, and exchanges its permit for one that fits the message.
    async fn message(
        &self,
        holder: &Holder,
        permit: RequestPermit,
        parts: &Parts,
        body: Body,
    ) -> Result<(Message, RequestPermit), Refusal> {
        let rules = self.rules.of(&holder.tenant);
        let message = Message::read(body::of_request(body, &rules).await?);
        guard::check_message(&message)?;
        if guard::is_modern(&parts.headers, &message) && guard::is_listen_request(&message) {
            return Ok((message, self.shares.stream(holder)?));
        }
        let count = message.batch().filter(|_| message.kind() == Kind::Batch).map_or(1, |batch| batch.len());
        if count > 1 {
            drop(permit);
            return Ok((message, self.shares.requests(holder, count)?));
        }
        Ok((message, permit))
    }
}
