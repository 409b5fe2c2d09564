//! A client's connection to a server that is a child process: started again when it is needed after it ended.

use std::io::ErrorKind;
use std::sync::mpsc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::session::Session;
use lro_host::mcp::{Id, Kind, Message};
use lro_transport::{Cut, Launch, Line, ServerProcess};

/// Id of the handshake that the gateway repeats to a server that it started again.
const HANDSHAKE_ID: &str = "lro-filter-handshake";

/// Least time between two starts of the same server: one that ends at once is not to be started without a pause.
const START_PAUSE: Duration = Duration::from_millis(500);

/// Takes what the server sends.
pub(crate) trait Receive: Send + Sync + Sized {
    /// A message.
    fn message(self: &Arc<Self>, message: Bytes);
    /// A line that could not be kept.
    fn cut(self: &Arc<Self>, cut: &Cut);
    /// The server has ended, and how.
    fn ended(self: &Arc<Self>, how: &str);
}

/// A server process, and what is needed to start it again.
pub(crate) struct Link<R> {
    launch: Launch,
    session: Arc<Session>,
    receiver: Weak<R>,
    running: Mutex<Running>,
    /// Held while the server is started, which takes long.
    starting: Mutex<()>,
}

#[derive(Default)]
struct Running {
    process: Option<Arc<ServerProcess>>,
    started: Option<Instant>,
    /// Whether it is to be started no more.
    stopped: bool,
}

/// Why a message did not reach the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the server `{command}` cannot be started: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("the server {0}")]
    Ended(String),
    #[error("the server did not answer the handshake within {} ms after it was started again", .0.as_millis())]
    Handshake(Duration),
    #[error("the server does not take messages: {0}")]
    Send(std::io::Error),
}

impl<R: Receive + 'static> Link<R> {
    pub(crate) fn new(launch: Launch, session: Arc<Session>, receiver: Weak<R>) -> Self {
        Self { launch, session, receiver, running: Mutex::default(), starting: Mutex::default() }
    }

    /// Starts the server.
    pub(crate) fn start(&self) -> Result<(), LinkError> {
        self.started().map(drop)
    }

    /// Sends a message that nobody waits for an answer to.
    pub(crate) fn send(&self, message: &Bytes) -> Result<(), LinkError> {
        self.process()?.send(message).map_err(LinkError::Send)
    }

    /// Sends a request, to a server that is started once more when it has ended. `waits` tells whether the request has not
    /// been answered meanwhile, as all are when a server ends.
    pub(crate) fn ask(&self, message: &Bytes, waits: impl Fn() -> bool) -> Result<(), LinkError> {
        if let Ok(process) = self.process() {
            match process.send(message) {
                Err(error) if error.kind() == ErrorKind::BrokenPipe && process.wait(START_PAUSE) => {}
                sent => return sent.map_err(LinkError::Send),
            }
        }
        if waits() { self.restarted()?.send(message).map_err(LinkError::Send) } else { Ok(()) }
    }

    /// Sends a message if that is possible without waiting, and tells whether it was.
    pub(crate) fn try_send(&self, message: &Bytes) -> bool {
        self.process().is_ok_and(|process| process.try_send(message).is_ok())
    }

    pub(crate) fn close_input(&self) {
        let process = {
            let mut running = self.running();
            running.stopped = true;
            running.process.clone()
        };
        if let Some(process) = process {
            process.close_input();
        }
    }

    /// Waits until the server has ended by itself.
    pub(crate) fn wait(&self, patience: Duration) -> bool {
        let process = self.running().process.clone();
        process.is_none_or(|process| process.wait(patience))
    }

    /// Ends the server.
    pub(crate) fn stop(&self, patience: Duration) {
        self.close_input();
        let process = self.running().process.take();
        if let Some(process) = process {
            process.stop(patience);
        }
    }

    fn running(&self) -> MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server that runs.
    fn process(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let running = self.running().process.clone();
        let process = running.ok_or_else(|| LinkError::Ended("is not running".to_owned()))?;
        match process.ended() {
            None => Ok(process),
            Some(how) => Err(LinkError::Ended(how)),
        }
    }

    fn started(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let started = self.running().started;
        if let Some(pause) = started.and_then(|started| START_PAUSE.checked_sub(started.elapsed())) {
            std::thread::sleep(pause);
        }
        let (receiver, at_end) = (self.receiver.clone(), self.receiver.clone());
        let on_line = move |line: Line| {
            let Some(receiver) = receiver.upgrade() else { return };
            match line {
                Line::Whole(message) => receiver.message(message),
                Line::Partial(rest) => {
                    tracing::warn!(bytes = rest.len(), "the server ended in the middle of a message");
                }
                Line::Cut(cut) => receiver.cut(&cut),
            }
        };
        let child = self.session.rules.metrics.child();
        let on_end = move |how: &str| {
            drop(child);
            if let Some(receiver) = at_end.upgrade() {
                receiver.ended(how);
            }
        };
        let limits = &self.session.rules.limits;
        let process = ServerProcess::start(&self.launch, limits, on_line, on_end).map_err(|source| {
            LinkError::Start { command: self.launch.program.to_string_lossy().into_owned(), source }
        })?;
        let mut running = self.running();
        running.started = Some(Instant::now());
        running.process = Some(Arc::clone(&process));
        if running.stopped {
            process.close_input();
        }
        Ok(process)
    }

    /// Starts a server that has ended, and shakes hands with it as the client did.
    fn restarted(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let _starting = self.starting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(process) = self.process() {
            return Ok(process);
        }
        if self.running().stopped {
            return Err(LinkError::Ended("has ended".to_owned()));
        }
        let again = self.running().started.is_some();
        let process = self.started()?;
        if again {
            tracing::warn!("the server was started again");
        }
        let Some((initialize, initialized)) = self.session.handshake() else { return Ok(process) };
        // The message that starts it may be the handshake itself.
        let Some(initialized) = initialized else { return Ok(process) };
        let (answer, answered) = mpsc::sync_channel(1);
        let id = Id::own(HANDSHAKE_ID);
        self.session.expect(id.clone(), answer);
        process.send(&Message::read(initialize).with_id(&id)).map_err(LinkError::Send)?;
        let patience = Duration::from_millis(self.session.rules.config.gateway.start_timeout_ms.get());
        if answered.recv_timeout(patience).is_err() {
            process.wait(START_PAUSE);
            let ended = process.ended();
            return Err(ended.map_or(LinkError::Handshake(patience), LinkError::Ended));
        }
        process.send(&initialized).map_err(LinkError::Send)?;
        Ok(process)
    }
}

/// The id of an answer that was too large to keep, if it can be found in its beginning or its end.
pub(crate) fn id_of_cut(cut: &Cut) -> Option<Id> {
    let head = Message::envelope_id(&cut.head);
    head.or_else(|| Message::trailing_id(&cut.tail))
}

/// Whether a message of the client asks for something.
pub(crate) fn is_request(message: &Message) -> bool {
    matches!(message.kind(), Kind::Request | Kind::Batch)
}

/// What a line is that [`is_chatter`].
pub(crate) const CHATTER: &str = "it answers nothing";

/// Whether a line is no message but something that a server wrote for people.
pub(crate) fn is_chatter(message: &Message) -> bool {
    message.kind() == Kind::Response && message.id().is_none() && message.value(&["jsonrpc"]).is_none()
}
