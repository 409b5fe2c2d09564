//! The gateway on Streamable HTTP.
//!
//! In front of an HTTP server it is a reverse proxy: a request of the client is a request to the server, headers and status
//! included. In front of a command it is the server's HTTP end: a client of the handshake revisions gets a child process of its
//! own, all clients of one tenant that speak 2026-07-28 or later share one.
//!
//! Whoever takes all that it can get leaves enough for the others. A connection without a request gives way to a new one. A
//! request counts from its head on until the last byte of its answer is written, for its tenant; where tenants need no token,
//! for the address that asks as one. Bodies and answers have to make progress. What waits for clients takes up memory to a
//! bound, and files beyond it.

mod bridge;
mod legacy;
mod modern;
mod proxy;
mod streams;
mod upstream;

use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tokio::net::TcpListener;

use self::bridge::Bridge;
use self::proxy::Proxy;
use crate::listener::attempts::{Attempts, Slowed};
use crate::listener::body;
use crate::listener::connections::{self, Caller, Connections};
use crate::listener::guard::{self, Guard, Refusal};
use crate::listener::shares::{Holder, Present, RequestPlace, Shares, gone};
use crate::tenants::rules::Rules;
use crate::upstream::Upstream;
use lro_host::mcp::percent_decoded as decoded;
use lro_host::mcp::{Kind, Message};

/// How often it is looked for idle sessions and for tenants that are gone.
const IDLE_POLL: Duration = Duration::from_millis(500);

/// A gateway that listens.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    face: Arc<Face>,
}

#[derive(Debug)]
struct Face {
    rules: Arc<Rules>,
    guard: Guard,
    attempts: Attempts,
    /// Most open connections.
    connections: usize,
    shares: Shares,
    present: Present,
    server: Behind,
}

/// A request that may be answered.
struct Asked {
    holder: Holder,
    place: RequestPlace,
    /// Whether it is for the endpoint, and not for a document.
    is_endpoint: bool,
}

#[derive(Debug)]
enum Behind {
    Command(Arc<Bridge>),
    Http(Box<Proxy>),
}

impl Server {
    /// Listens at the address of the configuration.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(rules: &Arc<Rules>, upstream: Upstream, address: SocketAddr) -> std::io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let settings = &rules.config.gateway;
        let guard = Guard::new(settings, listener.local_addr()?, rules.tenants.clone());
        let server = match upstream {
            Upstream::Command(launch) => Behind::Command(Arc::new(Bridge::new(Arc::clone(rules), launch))),
            Upstream::Http(endpoint) => Behind::Http(Box::new(Proxy::new(Arc::clone(rules), endpoint))),
        };
        let connections = connections::most(settings.connections);
        let face = Face {
            rules: Arc::clone(rules),
            guard,
            attempts: Attempts::default(),
            connections,
            shares: Shares::new(rules, connections),
            present: Present::default(),
            server,
        };
        Ok(Self { listener, face: Arc::new(face) })
    }

    /// Where it listens, path included.
    ///
    /// # Errors
    /// When the system does not tell.
    pub fn url(&self) -> std::io::Result<String> {
        Ok(format!("http://{}{}", self.listener.local_addr()?, self.face.rules.config.gateway.path))
    }

    /// Serves until `stop` is ready; then lets requests in flight end within the time of the configuration.
    pub async fn serve(self, stop: impl Future<Output = ()>) {
        let Self { listener, face } = self;
        let idle = Arc::clone(&face);
        let watch = tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE_POLL).await;
                idle.present.end_gone(&idle.rules);
                if let Behind::Command(bridge) = &idle.server {
                    bridge.end_idle();
                }
            }
        });
        let connections = Connections::new(&face.rules.config.gateway, face.connections);
        let asked = Arc::clone(&face);
        let answer = move |caller, request| {
            let face = Arc::clone(&asked);
            async move { face.answer(caller, request).await }
        };
        connections.serve(listener, answer, stop).await;
        // Streams without an end would hold the shutdown up.
        match &face.server {
            Behind::Command(bridge) => bridge.end_streams(),
            Behind::Http(proxy) => proxy.end_streams(),
        }
        let patience = Duration::from_millis(face.rules.config.gateway.shutdown_ms.get());
        let _ = tokio::time::timeout(patience, connections.finish()).await;
        watch.abort();
        if let Behind::Command(bridge) = &face.server {
            bridge.finish().await;
        }
    }
}

impl Face {
    async fn answer(&self, caller: Caller, request: Request) -> Response {
        let asked = match self.asked(&caller, &request) {
            Ok(asked) => asked,
            // Who has no token asks where to get one, and tries none.
            Err(Refusal::Token) if request.headers().contains_key(AUTHORIZATION) => {
                match self.attempts.failed(caller.address()).await {
                    Slowed::Refused => return Refusal::Token.response(),
                    Slowed::TooMany => return Refusal::TooManyTokens.response(),
                }
            }
            Err(refusal) => return refusal.response(),
        };
        let present = self.present.watch(&asked.holder.tenant);
        let response = tokio::select! {
            response = self.respond(asked, &caller, request) => response.unwrap_or_else(Refusal::response),
            () = gone(present.clone()) => return Refusal::NotFound.response(),
        };
        response.map(|body| Body::new(WhilePresent { body, gone: Box::pin(gone(present)) }))
    }

    /// Who asks, and a place for the request.
    fn asked(&self, caller: &Caller, request: &Request) -> Result<Asked, Refusal> {
        let path = request.uri().path();
        let settings = &self.rules.config.gateway;
        let named = path.strip_prefix(settings.path.as_str()).and_then(|rest| rest.strip_prefix('/'));
        let named = named.map(|named| decoded(named).unwrap_or_default());
        let tenant = self.guard.check(request, named.as_deref())?;
        let is_endpoint = named.is_some() || path == settings.path;
        // Without tokens anybody can be any tenant, but not at any address.
        let address = (!self.rules.has_tokens()).then(|| caller.address());
        let holder = Holder { tenant, address };
        let place = match *request.method() {
            Method::GET if is_endpoint => self.shares.stream(&holder)?,
            _ => self.shares.requests(&holder, 1)?,
        };
        Ok(Asked { holder, place, is_endpoint })
    }

    async fn respond(&self, asked: Asked, caller: &Caller, request: Request) -> Result<Response, Refusal> {
        let Asked { holder, place, is_endpoint } = asked;
        let (parts, body) = request.into_parts();
        if !is_endpoint {
            caller.hold(place);
            return match &self.server {
                Behind::Http(proxy) => proxy.document(&parts).await,
                Behind::Command(_) => Err(Refusal::NotFound),
            };
        }
        let (message, place) = match parts.method {
            Method::POST => {
                let (message, place) = self.message(&holder, place, &parts, body).await?;
                (Some(message), place)
            }
            _ => (None, place),
        };
        caller.hold(place);
        match &self.server {
            Behind::Command(bridge) => bridge.answer(&holder, caller.address(), &parts, message).await,
            Behind::Http(proxy) => proxy.answer(&holder, caller.address(), &parts, message).await,
        }
    }

    /// The message of a request, and a place for what it turns out to be.
    async fn message(
        &self,
        holder: &Holder,
        place: RequestPlace,
        parts: &Parts,
        body: Body,
    ) -> Result<(Message, RequestPlace), Refusal> {
        let rules = self.rules.of(&holder.tenant);
        let message = Message::read(body::of_request(body, &rules).await?);
        guard::is_message(&message)?;
        if guard::is_modern(&parts.headers, &message) && guard::asks_to_listen(&message) {
            return Ok((message, self.shares.stream(holder)?));
        }
        let count = message.batch().filter(|_| message.kind() == Kind::Batch).map_or(1, |batch| batch.len());
        if count > 1 {
            drop(place);
            return Ok((message, self.shares.requests(holder, count)?));
        }
        Ok((message, place))
    }
}

/// The body of a response, which ends with its tenant.
struct WhilePresent {
    body: Body,
    gone: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for WhilePresent {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.gone.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
