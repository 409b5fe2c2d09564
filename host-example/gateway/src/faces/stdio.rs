//! Serves the gateway on standard input and output, for a client that starts it as its server.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INTERNAL_ERROR, Id, Message};
use lro_transport::{Line, Lines, write_line};
use memchr::memchr;
use parking_lot::Mutex;

use crate::listener::body;
use crate::session::{FromClient, Late, SendOwn, Session, SessionOwner, refusal_of_names};
use crate::tenants::rules::Rules;
use crate::translate::Translator;
use crate::upstream::Upstream;
use crate::upstream::connection::{Connection, Prepared};
use crate::upstream::link::{Expects, Receive, id_of_cut};

/// How often the gateway checks for calls that take long.
const LATE_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// How often the gateway checks at shutdown whether the server has exited.
const EXIT_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long a server without calls may take to exit after its input is closed. Clients wait two seconds for the gateway
/// before they kill it, which would leave the server behind.
const IDLE_SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Minimum time to write the last responses at shutdown.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_millis(500);

/// Why the gateway on standard input and output stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot be started.
    #[error("{0}")]
    Start(String),
    /// Standard input failed.
    #[error("cannot read standard input")]
    Input(#[source] io::Error),
    /// The threads for HTTP connections cannot be started.
    #[error("cannot start the threads for HTTP connections")]
    Runtime(#[source] io::Error),
}

/// A handle to stop [`serve`] before its input ends.
#[derive(Clone, Debug)]
pub struct Stop(Sender<Event>);

impl Stop {
    /// Waits for calls in flight, then stops the server.
    pub fn now(&self) {
        let _ = self.0.send(Event::Stop);
    }
}

#[derive(Debug)]
enum Event {
    /// The client has closed standard input, or reading it failed.
    InputEnded(io::Result<()>),
    /// The client has stopped reading.
    OutputFailed,
    /// The server has exited.
    ServerEnded,
    Stop,
}

struct StdioFace {
    session: Arc<Session>,
    output: Mutex<Box<dyn Write + Send>>,
    connection: Connection<Self>,
    events: Sender<Event>,
}

/// Serves one client until its input ends, writing to it fails, or [`Stop`] is used. `on_start` receives the [`Stop`]
/// handle.
///
/// # Errors
/// [`ServeError`] if the server or the threads cannot be started, or reading the input fails.
pub fn serve(
    rules: &Arc<Rules>,
    upstream: Upstream,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    on_start: impl FnOnce(Stop),
) -> Result<(), ServeError> {
    let owner = SessionOwner { tenant: rules.config.gateway.tenant.clone(), session: None, local: true };
    let session = Arc::new(Session::new(rules, owner));
    let _open = rules.metrics.session();
    let (events, received) = mpsc::channel();
    on_start(Stop(events.clone()));
    let prepared = Prepared::of(upstream).map_err(ServeError::Runtime)?;
    let face = Arc::new_cyclic(|face: &Weak<StdioFace>| StdioFace {
        connection: Connection::new(prepared, Arc::clone(&session), face.clone(), Translator::of(rules)),
        session,
        output: Mutex::new(Box::new(output)),
        events,
    });
    face.session.set_send(StdioFace::sending(&face));
    if let Connection::Child(link) = &face.connection {
        link.start().map_err(|error| ServeError::Start(error.to_string()))?;
    }
    read_client(&face, input).map_err(ServeError::Input)?;
    let timeout = Duration::from_millis(rules.config.gateway.shutdown_ms.get());
    let ended = loop {
        match received.recv_timeout(LATE_POLL_INTERVAL) {
            Ok(Event::InputEnded(result)) => break result.map_err(ServeError::Input),
            Ok(Event::OutputFailed | Event::Stop) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Ok(Event::ServerEnded) => {}
            Err(RecvTimeoutError::Timeout) => face.answer_late(),
        }
    };
    face.finish(&received, timeout);
    ended
}

/// Starts the thread that reads what the client sends.
fn read_client(face: &Arc<StdioFace>, input: impl Read + Send + 'static) -> io::Result<()> {
    let face = Arc::clone(face);
    let read = move || {
        let mut lines = Lines::new(input, face.session.rules.limits.clone());
        let ended = loop {
            match lines.next() {
                Ok(Some(Line::Whole(message))) => face.from_client(message),
                Ok(Some(Line::Partial(rest))) => {
                    tracing::warn!(bytes = rest.len(), "the client ended in the middle of a message");
                }
                Ok(Some(Line::Cut(cut))) => {
                    let id = id_of_cut(&cut);
                    face.write(&mcp::error_response(id.as_ref(), INTERNAL_ERROR, &cut.reason.to_string()));
                }
                Ok(None) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let _ = face.events.send(Event::InputEnded(ended));
    };
    thread::Builder::new().name("lro-client".into()).spawn(read).map(drop)
}

impl StdioFace {
    fn from_client(self: &Arc<Self>, bytes: Bytes) {
        let message = Message::read(bytes);
        if let Some(refusal) = refusal_of_names(&message) {
            return self.write(&refusal);
        }
        let (face, expects) = (Arc::clone(self), Expects::of(&message));
        self.session.client_message(message, Self::sending(self), move |decided| match decided {
            FromClient::Forward(message) => {
                face.send(&message, &expects);
                if let Expects::Response(id) = &expects
                    && face.session.is_due(id)
                {
                    face.answer_late();
                }
            }
            FromClient::Answer(message) | FromClient::Open(message) => face.write(&message),
            FromClient::Nothing => {}
        });
    }

    fn send(&self, message: &Bytes, expects: &Expects) {
        // An error is logged, and nobody waits for a response.
        if let Ok(Some(failure)) = self.connection.forward(&self.session, message, expects) {
            self.write(&failure.error);
        }
    }

    /// Sends messages of the gateway itself.
    fn sending(face: &Arc<Self>) -> SendOwn {
        let face = Arc::downgrade(face);
        Arc::new(move |message| {
            if let Some(face) = face.upgrade() {
                face.send_own(message);
            }
        })
    }

    /// Sends a message of the gateway itself, without waiting for the server to read.
    fn send_own(self: &Arc<Self>, message: Bytes) {
        if self.connection.try_send(&message) {
            return;
        }
        let face = Arc::clone(self);
        self.session.rules.senders.run(move |turn| {
            let expects = Expects::of(&Message::read(message.clone()));
            match (turn, &expects) {
                (Ok(()), _) => face.send(&message, &expects),
                (Err(refused), Expects::Response(id)) => drop(face.session.fail(id, &refused.to_string())),
                (Err(_), _) => {}
            }
        });
    }

    fn write(&self, message: &Bytes) {
        self.write_to(&mut *self.output.lock(), message);
    }

    fn write_to(&self, output: &mut impl Write, message: &Bytes) {
        if let Err(error) = write_line(output, message) {
            tracing::info!(%error, "the client has stopped reading");
            let _ = self.events.send(Event::OutputFailed);
        }
    }

    /// Sends the heartbeats that are due. None follows the answer to its call, which needs the output as well.
    fn send_heartbeats(&self) {
        let mut output = self.output.lock();
        for heartbeat in self.session.heartbeats() {
            self.write_to(&mut *output, &heartbeat.message);
        }
    }

    /// Removes carriage returns from a message, which JSON allows between tokens, as some clients end a line at one.
    fn on_one_line(&self, message: Bytes) -> Bytes {
        let inside = message.strip_suffix(b"\r").unwrap_or(&message);
        let is_one = !self.session.rules.changes() || memchr(b'\r', inside).is_none();
        if is_one { message } else { body::on_one_line(message) }
    }

    fn fail_all(&self, reason: &str) {
        self.session.fail_all(reason).iter().for_each(|failure| self.write(&failure.error));
    }

    fn answer_late(self: &Arc<Self>) {
        self.connection.poll();
        for Late { answer, cancellation } in self.session.late() {
            if let Some(answer) = answer {
                let face = Arc::clone(self);
                // Writing may block, and this thread must notice the end.
                self.session.rules.workers.run(move |_| face.write(&answer.message()));
            }
            if let Some(cancellation) = cancellation {
                self.connection.try_send(&cancellation);
            }
        }
        self.session.rules.jobs.wake_late();
        let (updates, is_beat_due) =
            (self.session.updates(), self.session.next_beat().is_some_and(|at| at <= Instant::now()));
        if is_beat_due || !updates.is_empty() {
            let face = Arc::clone(self);
            self.session.rules.workers.run(move |_| {
                face.send_heartbeats();
                face.session.notifications(&updates).iter().for_each(|message| face.write(message));
            });
        }
    }

    /// Waits for the server to exit after its input is closed, and forwards its last responses; then kills it.
    fn finish(self: &Arc<Self>, events: &Receiver<Event>, timeout: Duration) {
        let start = Instant::now();
        self.session.rules.jobs.wake_all();
        match &self.connection {
            Connection::Child(link) => {
                link.close_input();
                while !link.wait(Duration::ZERO) && self.should_wait(start.elapsed(), timeout) {
                    if let Ok(Event::Stop | Event::OutputFailed) = events.recv_timeout(EXIT_POLL_INTERVAL) {
                        break;
                    }
                }
                link.stop(Duration::ZERO);
            }
            Connection::Remote(remote) => remote.finish(timeout),
            Connection::None(_) => {}
        }
        let (done, finished) = mpsc::channel();
        let face = Arc::clone(self);
        // A client that does not read must not block the shutdown.
        let finish = move || {
            face.session.rules.workers.finish();
            face.session.rules.questions.finish();
            face.fail_all("the gateway is shutting down");
            face.session.rules.collectors.finish();
            let _ = done.send(());
        };
        // Where no thread can be started, pending calls get no answer.
        let _ = thread::Builder::new().name("lro-finish".into()).spawn(finish);
        let _ = finished.recv_timeout(timeout.saturating_sub(start.elapsed()).max(FINAL_WRITE_TIMEOUT));
    }

    /// Whether to keep waiting for the server after its input was closed.
    fn should_wait(&self, waited: Duration, timeout: Duration) -> bool {
        waited < if self.session.pending_count() > 0 { timeout } else { timeout.min(IDLE_SHUTDOWN_TIMEOUT) }
    }
}

impl Receive for StdioFace {
    fn message(self: &Arc<Self>, message: Bytes) {
        let face = Arc::clone(self);
        self.session.server_message(
            Message::read(message),
            || true,
            move |decided| {
                decided.into_messages().into_iter().for_each(|message| face.write(&face.on_one_line(message)));
            },
        );
    }

    fn lost(self: &Arc<Self>, id: &Id, reason: &str) {
        if let Some(failure) = self.session.fail(id, reason) {
            self.write(&failure.error);
        }
    }

    fn ended(self: &Arc<Self>, reason: &str) {
        self.fail_all(reason);
        let _ = self.events.send(Event::ServerEnded);
    }
}
