//! The gateway on Streamable HTTP.
//!
//! In front of an HTTP server it is a reverse proxy: a request of the client is a request to the server, headers and status
//! included. In front of a command it is the server's HTTP end: a client of the handshake revisions gets a child process of its
//! own, all clients of one tenant that speak 2026-07-28 or later share one.

mod body;
mod bridge;
pub(super) mod guard;
mod legacy;
mod modern;
mod proxy;

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::Method;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use futures_util::StreamExt;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use self::bridge::Bridge;
use self::guard::{Guard, LISTEN, METHOD, Refusal};
use self::proxy::Proxy;
use super::rules::Rules;
use super::upstream::Upstream;
use crate::mcp::percent::decoded;

/// How often idle sessions are looked for.
const IDLE_POLL: Duration = Duration::from_secs(1);

/// How long a client may take to send the headers of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Smallest buffer of a connection that the library allows.
const BUFFER_BYTES_MIN: usize = 8 << 10;

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
    requests: Arc<Semaphore>,
    server: Behind,
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
        let requests = Arc::new(Semaphore::new(settings.requests.get() as usize));
        Ok(Self { listener, face: Arc::new(Face { rules: Arc::clone(rules), guard, requests, server }) })
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
                if let Behind::Command(bridge) = &idle.server {
                    bridge.end_idle();
                }
            }
        });
        let connections = GracefulShutdown::new();
        let http = face.connection_settings();
        let mut stop = std::pin::pin!(stop);
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    Err(error) => {
                        // Most likely there are too many open files; waiting lets some close.
                        tracing::warn!(%error, "a connection cannot be accepted");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                () = &mut stop => break,
            };
            // Small answers must not wait for more of them.
            let _ = stream.set_nodelay(true);
            let face = Arc::clone(&face);
            let service = service_fn(move |request: hyper::Request<Incoming>| {
                let face = Arc::clone(&face);
                async move { Ok::<_, Infallible>(answer(&face, request.map(Body::new)).await) }
            });
            let connection = connections.watch(http.serve_connection(TokioIo::new(stream), service));
            tokio::spawn(async move {
                if let Err(error) = connection.await {
                    tracing::debug!(%error, "a connection ended");
                }
            });
        }
        drop(listener);
        // Streams without an end would hold the shutdown up.
        match &face.server {
            Behind::Command(bridge) => bridge.end_streams(),
            Behind::Http(proxy) => proxy.end_streams(),
        }
        let patience = Duration::from_millis(face.rules.config.gateway.shutdown_ms.get());
        let _ = tokio::time::timeout(patience, connections.shutdown()).await;
        watch.abort();
        if let Behind::Command(bridge) = &face.server {
            bridge.finish().await;
        }
    }
}

impl Face {
    fn connection_settings(&self) -> http1::Builder {
        let header_bytes = self.rules.config.gateway.header_bytes.get() as usize;
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .max_buf_size(header_bytes.max(BUFFER_BYTES_MIN));
        http
    }
}

async fn answer(face: &Face, request: Request) -> Response {
    let Ok(permit) = Arc::clone(&face.requests).try_acquire_owned() else { return Refusal::Busy.response() };
    let path = request.uri().path();
    let named = path.strip_prefix(face.rules.config.gateway.path.as_str()).and_then(|rest| rest.strip_prefix('/'));
    let named = named.map(|named| decoded(named).unwrap_or_default());
    let tenant = match face.guard.check(&request, named.as_deref()) {
        Ok(tenant) => tenant,
        Err(refusal) => return refusal.response(),
    };
    let is_call = request.method() == Method::POST && guard::text(request.headers(), &METHOD) != Some(LISTEN);
    let is_endpoint = named.is_some() || path == face.rules.config.gateway.path;
    let response = match &face.server {
        Behind::Command(bridge) if is_endpoint => bridge.answer(tenant, request).await,
        Behind::Http(proxy) if is_endpoint => proxy.answer(tenant, request).await,
        Behind::Http(proxy) if path.starts_with("/.well-known/") => proxy.forward(request).await,
        _ => Refusal::NotFound.response(),
    };
    if is_call { holding(response, permit) } else { response }
}

/// A response whose stream counts as a request as long as it lasts.
fn holding(response: Response, permit: OwnedSemaphorePermit) -> Response {
    let kind = guard::text(response.headers(), &CONTENT_TYPE).unwrap_or_default();
    if !kind.to_ascii_lowercase().starts_with("text/event-stream") {
        return response;
    }
    let hold = move |piece| {
        let _held = &permit;
        piece
    };
    response.map(|body| Body::from_stream(body.into_data_stream().map(hold)))
}
