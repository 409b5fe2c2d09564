//! The gateway on standard input and output, for a client that starts it as its server.

use std::io::{self, Read, Write};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use memchr::memchr;
use tokio::runtime::Builder;

use crate::listener::body;
use crate::session::own::Produced;
use crate::session::{FromClient, FromServer, Session, Who};
use crate::tenants::rules::Rules;
use crate::upstream::Upstream;
use crate::upstream::link::{Link, LinkError, Receive, id_of_cut, is_request};
use crate::upstream::remote::Remote;
use lro_host::mcp::{self, INTERNAL_ERROR, Message};
use lro_transport::{Cut, Line, Lines, write_line};

/// How often it is looked for calls that take too long.
const OVERDUE_POLL: Duration = Duration::from_millis(250);

/// How often it is looked whether the server has ended.
const END_POLL: Duration = Duration::from_millis(5);

/// How long a server without calls may take to end when its input was closed. Clients wait two seconds for the gateway before
/// they kill it, which would leave the server behind.
const IDLE_PATIENCE: Duration = Duration::from_millis(1_500);

/// How long the last answers may take at least.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a gateway on standard input and output could not go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The server cannot be started.
    #[error("{0}")]
    Start(String),
    /// Standard input failed.
    #[error("standard input cannot be read")]
    Input(#[source] io::Error),
    /// The threads for connections cannot be started.
    #[error("no threads for connections")]
    Runtime(#[source] io::Error),
}

/// What ends it, besides the end of its input.
#[derive(Clone, Debug)]
pub struct Stop(Sender<Event>);

impl Stop {
    /// Lets calls in flight end, then ends the server.
    pub fn now(&self) {
        let _ = self.0.send(Event::Stop);
    }
}

#[derive(Debug)]
enum Event {
    /// The client has closed its end.
    InputEnded(io::Result<()>),
    /// The client reads no more.
    OutputFailed,
    /// The server has ended.
    ServerEnded,
    Stop,
}

struct Face {
    session: Arc<Session>,
    output: Mutex<Box<dyn Write + Send>>,
    connection: Connection,
    events: Sender<Event>,
}

enum Connection {
    Child(Link<Face>),
    Remote(Remote<Face>),
}

/// Serves one client until it or the server is gone. `on_start` gets what ends it early.
///
/// # Errors
/// [`ServeError`].
pub fn serve(
    rules: &Arc<Rules>,
    upstream: Upstream,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    on_start: impl FnOnce(Stop),
) -> Result<(), ServeError> {
    let who = Who { tenant: rules.config.gateway.tenant.clone(), session: None, local: true };
    let session = Arc::new(Session::new(rules, who));
    let _open = rules.metrics.session();
    let (events, received) = mpsc::channel();
    on_start(Stop(events.clone()));
    let connect: Box<dyn FnOnce(Weak<Face>) -> Connection> = match upstream {
        Upstream::Command(launch) => {
            let session = Arc::clone(&session);
            Box::new(move |face| Connection::Child(Link::new(launch, session, face)))
        }
        Upstream::Http(endpoint) => {
            let runtime = Builder::new_multi_thread().worker_threads(2).enable_all().build();
            let (runtime, session) = (runtime.map_err(ServeError::Runtime)?, Arc::clone(&session));
            Box::new(move |face| Connection::Remote(Remote::new(runtime, endpoint, session, face)))
        }
    };
    let face = Arc::new_cyclic(|face: &Weak<Face>| Face {
        connection: connect(face.clone()),
        session,
        output: Mutex::new(Box::new(output)),
        events,
    });
    if let Connection::Child(link) = &face.connection {
        link.start().map_err(|error| ServeError::Start(error.to_string()))?;
    }
    read_client(&face, input);
    let patience = Duration::from_millis(rules.config.gateway.shutdown_ms.get());
    let ended = loop {
        match received.recv_timeout(OVERDUE_POLL) {
            Ok(Event::InputEnded(result)) => break result.map_err(ServeError::Input),
            Ok(Event::OutputFailed | Event::Stop) | Err(RecvTimeoutError::Disconnected) => break Ok(()),
            Ok(Event::ServerEnded) => {}
            Err(RecvTimeoutError::Timeout) => face.end_overdue(),
        }
    };
    face.finish(&received, patience);
    ended
}

fn read_client(face: &Arc<Face>, input: impl Read + Send + 'static) {
    let face = Arc::clone(face);
    thread::spawn(move || {
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
    });
}

impl Face {
    fn from_client(self: &Arc<Self>, bytes: Bytes) {
        let message = Message::read(bytes);
        let (id, asks) = (message.id(), is_request(&message));
        match self.session.from_client(message) {
            FromClient::Forward(message) => self.send(message, id, asks),
            FromClient::Answer(answer) => self.write(&answer),
            FromClient::Work(work) => {
                let face = Arc::clone(self);
                self.session.carry_out(*work, move |produced| match produced {
                    Produced::Answer(answer) => face.write(&answer),
                    Produced::Forward(message) => face.send(message, id, true),
                });
            }
        }
    }

    fn send(&self, message: Bytes, id: Option<mcp::Id>, asks: bool) {
        let sent = match &self.connection {
            Connection::Child(link) if asks => {
                link.ask(&message, || id.as_ref().is_none_or(|id| self.session.waits_for(id)))
            }
            Connection::Child(link) => link.send(&message),
            Connection::Remote(remote) => {
                remote.send(message);
                Ok(())
            }
        };
        let Err(error) = sent else { return };
        tracing::warn!(%error, "a message did not reach the server");
        if let Some(answer) = id.filter(|_| asks).and_then(|id| self.session.fail(&id, &reason(&error))) {
            self.write(&answer);
        }
    }

    fn write(&self, message: &Bytes) {
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = write_line(&mut *output, message) {
            tracing::info!(%error, "the client reads no more");
            let _ = self.events.send(Event::OutputFailed);
        }
    }

    /// A message that no client finds two lines in: some end one at a carriage return, which JSON allows between tokens.
    fn on_one_line(&self, message: Bytes) -> Bytes {
        let inside = message.strip_suffix(b"\r").unwrap_or(&message);
        let is_one = !self.session.rules.changes() || memchr(b'\r', inside).is_none();
        if is_one { message } else { body::on_one_line(message) }
    }

    fn end_overdue(self: &Arc<Self>) {
        for (answer, cancellation) in self.session.overdue() {
            let face = Arc::clone(self);
            // The client may not read, and this thread has to see the end.
            self.session.rules.workers.run(move |_| face.write(&answer));
            match &self.connection {
                Connection::Child(link) => drop(link.try_send(&cancellation)),
                Connection::Remote(remote) => remote.send(cancellation),
            }
        }
    }

    /// Lets the server end by itself, as it does when its input ends, with the answers it still has; then ends it.
    fn finish(self: &Arc<Self>, events: &Receiver<Event>, patience: Duration) {
        let start = Instant::now();
        match &self.connection {
            Connection::Child(link) => {
                link.close_input();
                while !link.wait(Duration::ZERO) && self.may_wait(start.elapsed(), patience) {
                    if let Ok(Event::Stop | Event::OutputFailed) = events.recv_timeout(END_POLL) {
                        break;
                    }
                }
                link.stop(Duration::ZERO);
            }
            Connection::Remote(remote) => remote.finish(patience),
        }
        let (done, finished) = mpsc::channel();
        let face = Arc::clone(self);
        // A client that does not read must not keep the gateway from ending.
        thread::spawn(move || {
            face.session.rules.workers.finish();
            face.session.rules.questions.finish();
            for answer in face.session.fail_all("the gateway is shutting down") {
                face.write(&answer);
            }
            let _ = done.send(());
        });
        let _ = finished.recv_timeout(patience.saturating_sub(start.elapsed()).max(LAST_WORDS));
    }

    /// Whether a server may go on after its input was closed.
    fn may_wait(&self, waited: Duration, patience: Duration) -> bool {
        waited < if self.session.waiting() > 0 { patience } else { patience.min(IDLE_PATIENCE) }
    }
}

impl Receive for Face {
    fn message(self: &Arc<Self>, message: Bytes) {
        match self.session.from_server(Message::read(message)) {
            FromServer::Pass(message) => self.write(&self.on_one_line(message)),
            FromServer::Filter(filtering) => {
                let face = Arc::clone(self);
                self.session.settle(filtering, || true, move |answer| face.write(&answer));
            }
            FromServer::Refuse(refused) => refused.errors.iter().for_each(|error| self.write(error)),
            FromServer::Nothing => {}
        }
    }

    fn cut(self: &Arc<Self>, cut: &Cut) {
        tracing::warn!(bytes = cut.bytes, reason = %cut.reason, "a message of the server cannot be kept");
        let answer = id_of_cut(cut).and_then(|id| self.session.fail(&id, &cut.reason.to_string()));
        if let Some(answer) = answer {
            self.write(&answer);
        }
    }

    fn ended(self: &Arc<Self>, how: &str) {
        tracing::info!("the server {how}");
        for answer in self.session.fail_all(&format!("the server {how} before it answered")) {
            self.write(&answer);
        }
        let _ = self.events.send(Event::ServerEnded);
    }
}

fn reason(error: &LinkError) -> String {
    error.to_string()
}
