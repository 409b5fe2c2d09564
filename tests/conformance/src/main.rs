//! An MCP server with everything that the official conformance suite requires.
//!
//! It is the upstream server when the suite runs against a gateway: every check that passes against this server must
//! also pass through the gateway. It serves both eras of the protocol: sessions that begin with `initialize`, and
//! requests without a session. The suite prescribes the names, texts and answers of tools, resources and prompts.
#![expect(deprecated, reason = "the suite still wants sampling and log messages")]

mod call;
mod changes;
mod generation;
mod logging;
mod media;
mod prompts;
mod questions;
mod resources;
mod rounds;
mod server;
mod sessions;
mod tasks;
mod tools;

use std::error::Error;
use std::future::IntoFuture;
use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, middleware};
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::generation::Generation;
use crate::server::{Server, Shared};
use crate::sessions::Sessions;

/// Origins of web pages that may access the server. Other hosts are rejected by default.
const ORIGINS: [&str; 3] = ["http://localhost:*", "http://127.0.0.1:*", "http://[::1]:*"];

/// Delay before a client that lost its stream reconnects.
const RETRY: Duration = Duration::from_millis(500);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let Options { port, only } = options(std::env::args().skip(1))?;
    let shared = Arc::new(Shared::new()?);
    let configuration = StreamableHttpServerConfig::default().with_allowed_origins(ORIGINS).with_sse_retry(Some(RETRY));
    let sessions = Arc::new(Sessions::new(RETRY));
    let service = StreamableHttpService::new(move || Ok(Server::new(Arc::clone(&shared))), sessions, configuration);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("listening on http://{}/mcp", listener.local_addr()?);
    let router = Router::new()
        .route_service("/mcp", service)
        .layer(middleware::from_fn(move |request, next| generation::keep_to(only, request, next)));
    tokio::select! {
        served = axum::serve(listener, router).into_future() => Ok(served?),
        asked = asked_to_end() => Ok(asked?),
    }
}

/// What the arguments say.
#[derive(Default)]
struct Options {
    /// With 0 the system chooses.
    port: u16,
    /// The generation of the protocol that is served; both by default.
    only: Option<Generation>,
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let usage = || "usage: lro-conformance [--port NUMBER] [--only legacy|modern]".to_owned();
    let mut options = Options::default();
    while let Some(name) = arguments.next() {
        let value = arguments.next().ok_or_else(usage)?;
        match (name.as_str(), value.as_str()) {
            ("--port", number) => options.port = number.parse().map_err(|_| usage())?,
            ("--only", "legacy") => options.only = Some(Generation::Legacy),
            ("--only", "modern") => options.only = Some(Generation::Modern),
            _ => return Err(usage()),
        }
    }
    Ok(options)
}

/// Waits for a signal to end, or for the end of standard input.
async fn asked_to_end() -> io::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, closed) = oneshot::channel();
    // A separate thread: one of the runtime would keep the process alive until standard input closes.
    std::thread::spawn(move || sender.send(io::copy(&mut io::stdin().lock(), &mut io::sink())));
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = closed => {}
    }
    Ok(())
}
