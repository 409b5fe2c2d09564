//! A connection to a server that runs as a child process, restarted on demand after it exits.

use std::io::ErrorKind;
use std::sync::{Arc, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, Kind, Message};
use lro_transport::{Cut, Launch, Line, ServerProcess};
use parking_lot::{Mutex, MutexGuard};

use crate::session::{Failure, Session};
use crate::tenants::workers::Workers;
use crate::translate::{Steps, Translator};

/// Request id of the handshake that the gateway repeats to a restarted server.
const HANDSHAKE_ID: &str = "lro-filter-handshake";

/// Minimum time between two starts of a server, so that one that exits at once does not restart in a tight loop.
const START_PAUSE: Duration = Duration::from_millis(500);

/// Time for a server that has closed its input to end.
const END_GRACE: Duration = Duration::from_secs(2);

/// Receives what the server sends.
pub(crate) trait Receive: Send + Sync + Sized {
    /// Called for each message.
    fn message(self: &Arc<Self>, message: Bytes);
    /// Called for a response that was too large to keep, with its id and the reason.
    fn lost(self: &Arc<Self>, id: &Id, reason: &str);
    /// Called when the server exits, with the reason why pending requests fail.
    fn ended(self: &Arc<Self>, reason: &str);
}

/// The responses that a client's message is to get.
#[derive(Clone, Debug)]
pub(crate) enum Expects {
    Nothing,
    /// That to the request with this id.
    Response(Id),
    /// Those to the requests of a batch.
    Responses,
}

impl Expects {
    pub(crate) fn of(message: &Message) -> Self {
        match (message.kind(), message.id()) {
            (Kind::Request, Some(id)) => Self::Response(id),
            (Kind::Request | Kind::Batch, _) => Self::Responses,
            _ => Self::Nothing,
        }
    }
}

/// A server process, and how to restart it.
pub(crate) struct Link<R> {
    launch: Launch,
    session: Arc<Session>,
    receiver: Weak<R>,
    translator: Arc<Translator>,
    running: Arc<Mutex<ProcessState>>,
    /// Held while the server starts, which takes long.
    starting: Mutex<()>,
}

#[derive(Default)]
struct ProcessState {
    process: Option<Arc<ServerProcess>>,
    started: Option<Instant>,
    /// Whether the server must not be restarted.
    stopped: bool,
}

/// Why a message did not reach the server.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LinkError {
    #[error("the server `{command}` cannot be started: {source}")]
    Start { command: String, source: std::io::Error },
    #[error("the server {0}")]
    Ended(String),
    #[error("the restarted server did not answer initialize within {} ms (gateway.start-timeout-ms)", .0.as_millis())]
    Handshake(Duration),
    #[error("cannot write to the server: {0}")]
    Send(std::io::Error),
}

impl<R: Receive + 'static> Link<R> {
    pub(crate) fn new(launch: Launch, session: Arc<Session>, receiver: Weak<R>, translator: Translator) -> Self {
        let translator = Arc::new(translator);
        Self { launch, session, receiver, translator, running: Arc::default(), starting: Mutex::default() }
    }

    pub(crate) fn translator(&self) -> &Translator {
        &self.translator
    }

    /// Starts the server.
    pub(crate) fn start(&self) -> Result<(), LinkError> {
        self.start_process().map(drop)
    }

    /// Sends a message that expects no response.
    pub(crate) fn send(&self, message: &Bytes) -> Result<(), LinkError> {
        self.send_translated(message, |message| self.process()?.send(message).map_err(LinkError::Send))
    }

    /// Sends what a message of the client becomes.
    fn send_translated(
        &self,
        message: &Bytes,
        send: impl Fn(&Bytes) -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        if self.translator.is_plain() {
            return send(message);
        }
        let Steps { to_server, to_client } = self.translator.client_message(message.clone());
        self.deliver(to_client);
        to_server.iter().try_for_each(send)
    }

    /// Delivers messages of the translator, as the server's. The caller may hold what receiving one needs.
    fn deliver(&self, messages: Vec<Bytes>) {
        if let Some(receiver) = self.receiver.upgrade().filter(|_| !messages.is_empty()) {
            let deliver = move |_| messages.into_iter().for_each(|message| receiver.message(message));
            self.session.rules.senders.run(deliver);
        }
    }

    /// Does what is due because time has passed.
    pub(crate) fn poll(&self) {
        if self.translator.is_plain() {
            return;
        }
        let Steps { to_server, to_client } = self.translator.due();
        self.deliver(to_client);
        self.send_soon(to_server);
    }

    /// Sends messages to the running server, without waiting for it to read.
    fn send_soon(&self, messages: Vec<Bytes>) {
        send_soon(&self.running, &self.session.rules.senders, messages);
    }

    /// Sends a client's message. Returns the failure of a request that cannot be sent.
    ///
    /// # Errors
    /// If a message without a response cannot be sent.
    pub(crate) fn forward(
        &self,
        session: &Session,
        message: &Bytes,
        expects: &Expects,
    ) -> Result<Option<Failure>, LinkError> {
        let sent = match expects {
            Expects::Nothing => self.send(message),
            Expects::Response(id) => {
                self.send_translated(message, |message| self.send_request(message, || session.is_pending(id)))
            }
            Expects::Responses => self.send_translated(message, |message| self.send_request(message, || true)),
        };
        let Err(error) = sent else { return Ok(None) };
        tracing::warn!(%error, "a message did not reach the server");
        match expects {
            Expects::Nothing => Err(error),
            Expects::Response(id) => Ok(session.fail(id, &error.to_string())),
            Expects::Responses => Ok(None),
        }
    }

    /// Sends a request, and starts the server first if it is not running. When a server exits, all pending requests are
    /// answered: `is_pending` returns whether this one still waits.
    fn send_request(&self, message: &Bytes, is_pending: impl Fn() -> bool) -> Result<(), LinkError> {
        if let Ok(process) = self.process() {
            match send_to(&process, message) {
                Err(LinkError::Ended(_)) => {}
                sent => return sent,
            }
        }
        if !is_pending() {
            return Ok(());
        }
        let process = self.ensure_started()?;
        send_to(&process, message)
    }

    /// Sends a message without blocking. Returns whether it was sent.
    pub(crate) fn try_send(&self, message: &Bytes) -> bool {
        if self.translator.is_plain() {
            return self.process().is_ok_and(|process| process.try_send(message).is_ok());
        }
        // A request may have to start the server first, which has not always ended when its clients learn that it has.
        if self.process().is_err() || Message::read(message.clone()).kind() == Kind::Request {
            return false;
        }
        let Steps { to_server, to_client } = self.translator.client_message(message.clone());
        self.deliver(to_client);
        self.send_soon(to_server);
        true
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

    /// Waits until the server exits by itself. Returns whether it did.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let process = self.running().process.clone();
        process.is_none_or(|process| process.wait(timeout))
    }

    /// Stops the server, and kills it after the timeout.
    pub(crate) fn stop(&self, timeout: Duration) {
        self.close_input();
        let process = self.running().process.take();
        if let Some(process) = process {
            process.stop(timeout);
        }
    }

    fn running(&self) -> MutexGuard<'_, ProcessState> {
        self.running.lock()
    }

    /// The running server.
    fn process(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let running = self.running().process.clone();
        let process = running.ok_or_else(|| LinkError::Ended("is not running".to_owned()))?;
        match process.ended() {
            None => Ok(process),
            Some(how) => Err(LinkError::Ended(how)),
        }
    }

    fn start_process(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let started = self.running().started;
        if let Some(pause) = started.and_then(|started| START_PAUSE.checked_sub(started.elapsed())) {
            thread::sleep(pause);
        }
        let (receiver, at_end) = (self.receiver.clone(), self.receiver.clone());
        let (translator, running) = (Arc::clone(&self.translator), Arc::downgrade(&self.running));
        let senders = self.session.rules.senders.clone();
        let translated = move |receiver: &Arc<R>, message: Bytes| {
            let Steps { to_server, to_client } = translator.server_message(message, None);
            to_client.into_iter().for_each(|message| receiver.message(message));
            if let Some(running) = running.upgrade() {
                send_soon(&running, &senders, to_server);
            }
        };
        let translator = Arc::clone(&self.translator);
        let on_line = move |line: Line| {
            let Some(receiver) = receiver.upgrade() else { return };
            match line {
                Line::Whole(message) if translator.is_plain() => receiver.message(message),
                Line::Whole(message) => translated(&receiver, message),
                Line::Partial(rest) => {
                    tracing::warn!(bytes = rest.len(), "the server ended in the middle of a message");
                }
                Line::Cut(cut) => {
                    tracing::warn!(bytes = cut.bytes, reason = %cut.reason, "cannot keep a message from the server");
                    match id_of_cut(&cut) {
                        Some(id) if translator.is_plain() => receiver.lost(&id, &cut.reason.to_string()),
                        Some(id) => {
                            let error = mcp::error_response(Some(&id), INTERNAL_ERROR, &cut.reason.to_string());
                            translated(&receiver, error);
                        }
                        None => {}
                    }
                }
            }
        };
        let child = self.session.rules.metrics.child();
        let translator = Arc::clone(&self.translator);
        let on_end = move |how: &str| {
            drop(child);
            translator.restarted();
            if let Some(receiver) = at_end.upgrade() {
                tracing::info!("the server {how}");
                receiver.ended(&format!("the server {how} before it answered"));
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

    /// Starts the server if it is not running. After a restart, repeats the client's handshake.
    fn ensure_started(&self) -> Result<Arc<ServerProcess>, LinkError> {
        let _starting = self.starting.lock();
        if let Ok(process) = self.process() {
            return Ok(process);
        }
        if self.running().stopped {
            return Err(LinkError::Ended("has ended".to_owned()));
        }
        let again = self.running().started.is_some();
        let process = self.start_process()?;
        if again {
            tracing::warn!("the server was restarted");
        }
        let handshake = self.translator.handshake(self.session.handshake());
        let Some((initialize, initialized)) = handshake else { return Ok(process) };
        // The message that restarts it may be the handshake itself.
        let Some(initialized) = initialized else { return Ok(process) };
        let (answer, answered) = mpsc::sync_channel(1);
        let id = Id::own(HANDSHAKE_ID);
        self.session.expect_handshake(id.clone(), answer);
        send_to(&process, &Message::read(initialize).with_id(&id))?;
        let timeout = Duration::from_millis(self.session.rules.config.gateway.start_timeout_ms.get());
        if answered.recv_timeout(timeout).is_err() {
            process.wait(END_GRACE);
            let ended = process.ended();
            return Err(ended.map_or(LinkError::Handshake(timeout), LinkError::Ended));
        }
        send_to(&process, &initialized)?;
        Ok(process)
    }
}

/// Sends a request. A server that has closed its input is about to end: how it ends says more than a broken pipe.
fn send_to(process: &ServerProcess, message: &Bytes) -> Result<(), LinkError> {
    process.send(message).map_err(|error| {
        let has_closed = error.kind() == ErrorKind::BrokenPipe && process.wait(END_GRACE);
        process.ended().filter(|_| has_closed).map_or(LinkError::Send(error), LinkError::Ended)
    })
}

/// Sends messages to the running server, without waiting for it to read.
fn send_soon(running: &Mutex<ProcessState>, senders: &Workers, messages: Vec<Bytes>) {
    let Some(process) = running.lock().process.clone() else { return };
    let sent = messages.iter().take_while(|message| process.try_send(message).is_ok()).count();
    if sent < messages.len() {
        senders.run(move |_| {
            let rest = messages.into_iter().skip(sent);
            // A server that has ended answers nothing more.
            rest.for_each(|message| drop(process.send(&message)));
        });
    }
}

/// The id of a message that was too large to keep, if its beginning or end shows it.
pub(crate) fn id_of_cut(cut: &Cut) -> Option<Id> {
    let head = Message::envelope_id(&cut.head);
    head.or_else(|| Message::trailing_id(&cut.tail))
}

#[cfg(all(test, unix))]
mod tests {
    use std::ffi::OsString;

    use super::*;

    #[test]
    fn a_request_to_a_server_that_closed_its_input_fails_with_how_the_server_ended() {
        let script = ["-c", "exec <&-; echo closed; sleep 0.2; exit 3"].map(OsString::from);
        let (closed, is_closed) = mpsc::channel();
        let on_line = move |_| closed.send(()).unwrap_or_default();
        let process = ServerProcess::start(&Launch::new("sh", script), &Arc::default(), on_line, |_| ()).unwrap();
        is_closed.recv().unwrap();
        let error = send_to(&process, &Bytes::from_static(b"{}")).unwrap_err();
        assert_eq!(error.to_string(), "the server exited with status 3");
    }
}
