//! Open connections: their number, and timeouts of their peers.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::io::{self, Write};
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use lro_system::process::open_files;
use parking_lot::Mutex;
use rustls::ServerConfig;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};
use tokio_rustls::TlsAcceptor;

use super::body;
use super::shares::RequestPermit;
use crate::settings::GatewaySettings;

/// Delay after a connection could not be accepted.
const ACCEPT_DELAY: Duration = Duration::from_millis(100);

/// How long a new connection waits for an evicted one to close.
const EVICTION_TIMEOUT: Duration = Duration::from_millis(200);

/// Minimum size of a connection buffer in hyper, in bytes.
const BUFFER_BYTES_MIN: usize = 8 << 10;

/// Bytes that a peer must read or send within each timeout interval.
pub(crate) const PROGRESS_BYTES: usize = 1 << 10;

/// Length of the IPv6 prefix that identifies a network: hosts can have any number of addresses in it.
const NETWORK_BITS: u32 = 64;

/// Response to a new connection when no other can be evicted.
const TOO_MANY_CONNECTIONS: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
    Content-Type: text/plain\r\nContent-Length: 60\r\n\r\n\
    too many open connections (gateway.connections): retry later";

/// The connections of one listener.
///
/// At the limit, a new connection evicts one without a request: of the address that has most of them, the one that has
/// been idle longest.
#[derive(Debug)]
pub(crate) struct Connections {
    http: http1::Builder,
    connections_max: usize,
    /// How long a peer may take for the handshake of TLS.
    handshake_timeout: Duration,
    write_timeout: Duration,
    tls: Option<Arc<ServerConfig>>,
    open: Arc<Table>,
    graceful: GracefulShutdown,
}

#[derive(Debug, Default)]
struct Table {
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    count: AtomicU64,
    /// Notified when a connection closes.
    closed: Notify,
    /// Whether the last connection was refused.
    is_refusing: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: Mutex<ConnectionState>,
    /// Asks the connection to close if it is idle.
    close: Notify,
}

#[derive(Debug)]
struct ConnectionState {
    /// Whether a request is being answered.
    answers: bool,
    /// Whether part of the response may not have been written.
    unwritten: bool,
    /// Permits of the request, held until its response is written.
    permits: Vec<RequestPermit>,
    /// When the connection last had a request.
    used: Instant,
}

/// The connection that sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Connection>);

impl Caller {
    /// The address of the peer; of an IPv6 address, its network.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.peer
    }

    /// Holds a permit until the response is written.
    pub(crate) fn hold(&self, permit: RequestPermit) {
        self.0.state.lock().permits.push(permit);
    }
}

impl Connections {
    /// Creates an empty set of at most `connections_max` connections, which begin with the handshake of TLS if it is given.
    pub(crate) fn new(settings: &GatewaySettings, connections_max: usize, tls: Option<Arc<ServerConfig>>) -> Self {
        let mut http = http1::Builder::new();
        let handshake_timeout = Duration::from_millis(settings.header_timeout_ms.get());
        http.timer(TokioTimer::new())
            .header_read_timeout(handshake_timeout)
            .max_buf_size((settings.header_bytes.get() as usize).max(BUFFER_BYTES_MIN));
        let write_timeout = Duration::from_millis(settings.write_timeout_ms.get());
        let (open, graceful) = (Arc::default(), GracefulShutdown::new());
        Self { http, connections_max, handshake_timeout, write_timeout, tls, open, graceful }
    }

    /// Serves connections until `stop` is ready. Requests in flight go on.
    pub(crate) async fn serve<A, F>(&self, listener: TcpListener, answer: A, stop: impl Future<Output = ()>)
    where
        A: Fn(Caller, Request) -> F + Clone + Send + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        let mut stop = std::pin::pin!(stop);
        loop {
            let (stream, address) = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok(accepted) => accepted,
                    Err(error) => {
                        // Most likely too many files are open: wait for some to close.
                        tracing::warn!(%error, "cannot accept a connection");
                        sleep(ACCEPT_DELAY).await;
                        continue;
                    }
                },
                () = &mut stop => return,
            };
            match self.open.admit(network(address.ip()), self.connections_max).await {
                Some(entry) => self.start(stream, entry, answer.clone()),
                None => self.refuse(stream),
            }
        }
    }

    /// Waits for the requests in flight, and closes all connections.
    pub(crate) async fn finish(self) {
        self.graceful.shutdown().await;
    }

    /// Refuses a connection. The response is written only if that does not block, and the peer does not expect TLS.
    fn refuse(&self, stream: TcpStream) {
        if !self.open.is_refusing.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                limit = self.connections_max,
                "refusing connections: all open ones have requests (gateway.connections)"
            );
        }
        if self.tls.is_none() {
            let _ = stream.into_std().and_then(|mut stream| stream.write_all(TOO_MANY_CONNECTIONS));
        }
    }

    fn start<A, F>(&self, stream: TcpStream, entry: TableEntry, answer: A)
    where
        A: Fn(Caller, Request) -> F + Send + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        // Small responses must not wait for more data.
        let _ = stream.set_nodelay(true);
        let connection = Arc::clone(&entry.connection);
        let caller = Caller(Arc::clone(&connection));
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let in_flight = InFlight::begin(&caller.0);
            let answered = answer(caller.clone(), request.map(Body::new));
            // The request is in flight until the body of its response is written.
            let written = async move {
                let _in_flight = in_flight;
                pending::<()>().await;
            };
            async move { Ok::<_, Infallible>(answered.await.map(|body| body::until(body, written))) }
        });
        let io = TimeoutStream {
            stream,
            connection: Arc::clone(&connection),
            write_timeout: self.write_timeout,
            stall: None,
        };
        let (http, watcher) = (self.http.clone(), self.graceful.watcher());
        let (tls, handshake_timeout) = (self.tls.clone().map(TlsAcceptor::from), self.handshake_timeout);
        let serving = async move {
            let Some(tls) = tls else {
                return watcher.watch(http.serve_connection(TokioIo::new(io), service)).await.map_err(io::Error::other);
            };
            let stream = timeout(handshake_timeout, tls.accept(io)).await.map_err(io::Error::from).flatten()?;
            watcher.watch(http.serve_connection(TokioIo::new(stream), service)).await.map_err(io::Error::other)
        };
        tokio::spawn(async move {
            let _entry = entry;
            let mut serving = std::pin::pin!(serving);
            loop {
                tokio::select! {
                    served = &mut serving => {
                        if let Err(error) = served {
                            tracing::debug!(%error, "a connection failed");
                        }
                        return;
                    }
                    () = connection.close.notified() => {
                        if connection.is_idle() {
                            return;
                        }
                    }
                }
            }
        });
    }
}

/// An entry of the table, removed on drop.
#[derive(Debug)]
struct TableEntry {
    table: Arc<Table>,
    number: u64,
    connection: Arc<Connection>,
}

impl Drop for TableEntry {
    fn drop(&mut self) {
        self.table.connections.lock().remove(&self.number);
        self.table.closed.notify_one();
    }
}

impl Table {
    /// Adds a connection; `None` if all others have requests.
    async fn admit(self: &Arc<Self>, peer: IpAddr, connections_max: usize) -> Option<TableEntry> {
        let end = Instant::now() + EVICTION_TIMEOUT;
        loop {
            let candidate = {
                let mut connections = self.connections.lock();
                if connections.len() < connections_max {
                    let number = self.count.fetch_add(1, Ordering::Relaxed);
                    let connection = Arc::new(Connection::new(peer));
                    connections.insert(number, Arc::clone(&connection));
                    self.is_refusing.store(false, Ordering::Relaxed);
                    return Some(TableEntry { table: Arc::clone(self), number, connection });
                }
                eviction_candidate(&connections)?
            };
            candidate.close.notify_one();
            timeout_at(end, self.closed.notified()).await.ok()?;
        }
    }
}

/// The connection that has been idle longest, of the address that has most idle ones.
fn eviction_candidate(connections: &HashMap<u64, Arc<Connection>>) -> Option<Arc<Connection>> {
    let mut by_peer: HashMap<IpAddr, (usize, Instant, &Arc<Connection>)> = HashMap::new();
    for connection in connections.values() {
        let Some(used) = connection.idle_since() else { continue };
        let (count, longest, found) = by_peer.entry(connection.peer).or_insert((0, used, connection));
        *count += 1;
        if used < *longest {
            (*longest, *found) = (used, connection);
        }
    }
    by_peer.into_values().max_by_key(|(count, ..)| *count).map(|(.., connection)| Arc::clone(connection))
}

impl Connection {
    fn new(peer: IpAddr) -> Self {
        let state = ConnectionState { answers: false, unwritten: false, permits: Vec::new(), used: Instant::now() };
        Self { peer, state: Mutex::new(state), close: Notify::new() }
    }

    /// When the connection became idle; `None` while it has a request.
    fn idle_since(&self) -> Option<Instant> {
        let state = self.state.lock();
        (!state.unwritten).then_some(state.used)
    }

    fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    /// Records that all responses so far are written.
    fn mark_written(&self) {
        let mut state = self.state.lock();
        if state.unwritten && !state.answers {
            state.unwritten = false;
            state.permits.clear();
            state.used = Instant::now();
        }
    }
}

/// A request in flight.
struct InFlight(Arc<Connection>);

impl InFlight {
    fn begin(connection: &Arc<Connection>) -> Self {
        let mut state = connection.state.lock();
        (state.answers, state.unwritten) = (true, true);
        drop(state);
        Self(Arc::clone(connection))
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.state.lock().answers = false;
    }
}

/// A stream that fails when its peer stops reading.
struct TimeoutStream {
    stream: TcpStream,
    connection: Arc<Connection>,
    write_timeout: Duration,
    stall: Option<Stall>,
}

/// A wait for the peer to read.
struct Stall {
    end: Pin<Box<Sleep>>,
    /// Bytes that the peer has read during the wait.
    bytes: usize,
}

impl TimeoutStream {
    /// Applies the timeout to the result of a write.
    fn written(&mut self, context: &mut Context<'_>, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        let Poll::Ready(written) = written else {
            let write_timeout = self.write_timeout;
            let stall = self.stall.get_or_insert_with(|| Stall { end: Box::pin(sleep(write_timeout)), bytes: 0 });
            ready!(stall.end.as_mut().poll(context));
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        };
        if let (Some(stall), Ok(bytes)) = (&mut self.stall, &written) {
            stall.bytes += bytes;
            if stall.bytes >= PROGRESS_BYTES {
                self.stall = None;
            }
        }
        Poll::Ready(written)
    }
}

impl AsyncRead for TimeoutStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for TimeoutStream {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// hyper flushes only when it has nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stall = None;
        self.connection.mark_written();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// The limit of connections: as configured, but at most half the limit of open files. The other half is for servers and
/// offloads.
pub(crate) fn limit(wanted: NonZeroU32) -> usize {
    let wanted = u64::from(wanted.get());
    let files = open_files().unwrap_or(u64::MAX);
    let limit = wanted.min(files / 2).max(1);
    if limit < wanted {
        tracing::warn!(limit, files, "the limit of open files allows fewer connections than gateway.connections");
    }
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The address to identify a peer by: of an IPv6 address, its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address => address,
    }
}
