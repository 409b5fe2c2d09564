//! Open connections: how many there may be, and how long a peer may take with one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::io::Write;
use std::net::{IpAddr, Ipv6Addr};
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use rustix::process::{Resource, getrlimit};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, timeout_at};

use super::lock;
use super::shares::RequestPlace;
use crate::settings::GatewaySettings;

/// Pause after a connection that could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How long a new connection waits for the end of one that makes room for it.
const ROOM_PATIENCE: Duration = Duration::from_millis(200);

/// Smallest buffer of a connection that the library allows.
const BUFFER_BYTES_MIN: usize = 8 << 10;

/// Bytes that a peer has to read, or to send, within each interval that it is waited for.
pub(crate) const PROGRESS_BYTES: usize = 1 << 10;

/// Bits of an IPv6 address that tell one network from another: its hosts have as many addresses as they like.
const NETWORK_BITS: u32 = 64;

/// What a new connection gets when there is no room for it.
const NO_ROOM: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 1\r\n\
    Content-Type: text/plain\r\nContent-Length: 74\r\n\r\n\
    too many connections are in use at a time, the limit `gateway.connections`";

/// The connections of one listener.
///
/// When there are as many as there may be, a new one takes the place of one without a request: of the address that has
/// most of them, the one that has waited longest.
#[derive(Debug)]
pub(crate) struct Connections {
    http: http1::Builder,
    most: usize,
    write_timeout: Duration,
    open: Arc<Table>,
    graceful: GracefulShutdown,
}

#[derive(Debug, Default)]
struct Table {
    connections: Mutex<HashMap<u64, Arc<Connection>>>,
    count: AtomicU64,
    /// Told when one is closed.
    closed: Notify,
    /// Whether the last one was refused.
    refuses: AtomicBool,
}

#[derive(Debug)]
struct Connection {
    peer: IpAddr,
    state: Mutex<State>,
    /// Asks it to make room for another.
    close: Notify,
}

#[derive(Debug)]
struct State {
    /// Whether a request is being answered.
    answers: bool,
    /// Whether some of the answer may not be written.
    unwritten: bool,
    /// What the request takes up until its answer is written.
    places: Vec<RequestPlace>,
    /// When it last had a request.
    used: Instant,
}

/// Who sent a request.
#[derive(Clone, Debug)]
pub(crate) struct Caller(Arc<Connection>);

impl Caller {
    /// Its address; of IPv6, its network.
    pub(crate) fn address(&self) -> IpAddr {
        self.0.peer
    }

    /// Holds a place until the answer is written.
    pub(crate) fn hold(&self, place: RequestPlace) {
        lock(&self.0.state).places.push(place);
    }
}

impl Connections {
    /// No connections so far, and at most that many.
    pub(crate) fn new(settings: &GatewaySettings, most: usize) -> Self {
        let mut http = http1::Builder::new();
        http.timer(TokioTimer::new())
            .header_read_timeout(Duration::from_millis(settings.header_timeout_ms.get()))
            .max_buf_size((settings.header_bytes.get() as usize).max(BUFFER_BYTES_MIN));
        let write_timeout = Duration::from_millis(settings.write_timeout_ms.get());
        Self { http, most, write_timeout, open: Arc::default(), graceful: GracefulShutdown::new() }
    }

    /// Answers the requests of all connections until `stop` is ready. Those in flight go on.
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
                        // Most likely there are too many open files; waiting lets some close.
                        tracing::warn!(%error, "a connection cannot be accepted");
                        sleep(ACCEPT_PAUSE).await;
                        continue;
                    }
                },
                () = &mut stop => return,
            };
            match self.open.admit(network(address.ip()), self.most).await {
                Some(admitted) => self.start(stream, admitted, answer.clone()),
                None => self.refuse(stream),
            }
        }
    }

    /// Waits until the requests in flight are answered, and closes all connections.
    pub(crate) async fn finish(self) {
        self.graceful.shutdown().await;
    }

    /// Says why there is no room, if that is possible without waiting.
    fn refuse(&self, stream: TcpStream) {
        if !self.open.refuses.swap(true, Ordering::Relaxed) {
            tracing::warn!(most = self.most, "connections are refused, as all have requests");
        }
        let _ = stream.into_std().and_then(|mut stream| stream.write_all(NO_ROOM));
    }

    fn start<A, F>(&self, stream: TcpStream, admitted: Admitted, answer: A)
    where
        A: Fn(Caller, Request) -> F + Send + 'static,
        F: Future<Output = Response> + Send + 'static,
    {
        // Small answers must not wait for more of them.
        let _ = stream.set_nodelay(true);
        let connection = Arc::clone(&admitted.connection);
        let caller = Caller(Arc::clone(&connection));
        let service = service_fn(move |request: hyper::Request<Incoming>| {
            let in_service = InService::begin(&caller.0);
            let answered = answer(caller.clone(), request.map(Body::new));
            async move { Ok::<_, Infallible>(answered.await.map(|body| Answer { body, _in_service: in_service })) }
        });
        let io = Patient { stream, connection: Arc::clone(&connection), patience: self.write_timeout, stall: None };
        let serving = self.graceful.watch(self.http.serve_connection(TokioIo::new(io), service));
        tokio::spawn(async move {
            let _admitted = admitted;
            let mut serving = std::pin::pin!(serving);
            loop {
                tokio::select! {
                    served = &mut serving => {
                        if let Err(error) = served {
                            tracing::debug!(%error, "a connection ended");
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

/// A connection in its table, for as long as this lives.
#[derive(Debug)]
struct Admitted {
    table: Arc<Table>,
    number: u64,
    connection: Arc<Connection>,
}

impl Drop for Admitted {
    fn drop(&mut self) {
        lock(&self.table.connections).remove(&self.number);
        self.table.closed.notify_one();
    }
}

impl Table {
    /// A place for a new connection; none when all others have requests.
    async fn admit(self: &Arc<Self>, peer: IpAddr, most: usize) -> Option<Admitted> {
        let end = Instant::now() + ROOM_PATIENCE;
        loop {
            let victim = {
                let mut connections = lock(&self.connections);
                if connections.len() < most {
                    let number = self.count.fetch_add(1, Ordering::Relaxed);
                    let connection = Arc::new(Connection::new(peer));
                    connections.insert(number, Arc::clone(&connection));
                    self.refuses.store(false, Ordering::Relaxed);
                    return Some(Admitted { table: Arc::clone(self), number, connection });
                }
                dispensable(&connections)?
            };
            victim.close.notify_one();
            timeout_at(end, self.closed.notified()).await.ok()?;
        }
    }
}

/// The connection that has waited longest for a request, of the address that has most of those.
fn dispensable(connections: &HashMap<u64, Arc<Connection>>) -> Option<Arc<Connection>> {
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
        let state = State { answers: false, unwritten: false, places: Vec::new(), used: Instant::now() };
        Self { peer, state: Mutex::new(state), close: Notify::new() }
    }

    /// Since when it has had no request; none while it has one.
    fn idle_since(&self) -> Option<Instant> {
        let state = lock(&self.state);
        (!state.unwritten).then_some(state.used)
    }

    fn is_idle(&self) -> bool {
        self.idle_since().is_some()
    }

    /// All that was answered so far is written.
    fn has_written(&self) {
        let mut state = lock(&self.state);
        if state.unwritten && !state.answers {
            state.unwritten = false;
            state.places.clear();
            state.used = Instant::now();
        }
    }
}

/// A request that is being answered.
struct InService(Arc<Connection>);

impl InService {
    fn begin(connection: &Arc<Connection>) -> Self {
        let mut state = lock(&connection.state);
        (state.answers, state.unwritten) = (true, true);
        drop(state);
        Self(Arc::clone(connection))
    }
}

impl Drop for InService {
    fn drop(&mut self) {
        lock(&self.0.state).answers = false;
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    _in_service: InService,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that fails when its peer does not read what is written.
struct Patient {
    stream: TcpStream,
    connection: Arc<Connection>,
    patience: Duration,
    stall: Option<Stall>,
}

/// A wait for the peer.
struct Stall {
    end: Pin<Box<Sleep>>,
    /// What it has read meanwhile.
    bytes: usize,
}

impl Patient {
    /// What comes of a write.
    fn written(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<std::io::Result<usize>>,
    ) -> Poll<std::io::Result<usize>> {
        let Poll::Ready(written) = written else {
            let patience = self.patience;
            let stall = self.stall.get_or_insert_with(|| Stall { end: Box::pin(sleep(patience)), bytes: 0 });
            ready!(stall.end.as_mut().poll(context));
            return Poll::Ready(Err(std::io::ErrorKind::TimedOut.into()));
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

impl AsyncRead for Patient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Patient {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Asked only when there is nothing left to write.
    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        self.stall = None;
        self.connection.has_written();
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Most connections of a listener. It is fewer than wanted where the process may not open twice as many files: the others are
/// for servers and offloads.
pub(crate) fn most(wanted: NonZeroU32) -> usize {
    let wanted = u64::from(wanted.get());
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = wanted.min(files / 2).max(1);
    if most < wanted {
        tracing::warn!(most, files, "fewer connections than `gateway.connections`, as the limit of open files is low");
    }
    usize::try_from(most).unwrap_or(usize::MAX)
}

/// What tells peers apart: an address, of IPv6 its network.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let mask = u128::MAX << (u128::BITS - NETWORK_BITS);
            Ipv6Addr::from_bits(address.to_bits() & mask).into()
        }
        address => address,
    }
}
