//! Servers as child processes: messages on standard input and output, one per line.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io::{self, PipeReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};
use std::{env, fmt, thread};

use bytes::{Buf, Bytes, BytesMut};
use lro_system::process::{found_program, signal};
use lro_system::{Group, NonBlockingPipe, Readiness};
use memchr::memchr;
use parking_lot::{Condvar, Mutex, MutexGuard};

use super::diagnostics::Diagnostics;
use super::{Isolation, Line, Lines, MessageLimits, widen_pipe};

/// How often to check whether a process has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Time from asking a process to end to killing it.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Time for which orphans of a server may hold its output open.
const ORPHANS_GRACE: Duration = Duration::from_secs(1);

/// Maximum time that a message waits for a server that does not read.
const SEND_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of queued message pieces before senders have to wait. A large message is usually one piece.
const BACKLOG_PIECES_MAX: usize = 64;

/// Timeout of one wait for room in the pipe to a server.
const WRITE_TIMEOUT: Duration = Duration::from_millis(100);

/// Maximum size of a message that is written together with its line feed, in bytes.
const ONE_WRITE_BYTES: usize = 64 << 10;

/// Default of [`Launch::log_bytes`]: 64 KiB.
pub const LOG_BYTES_DEFAULT: u64 = 64 << 10;

/// Maximum number of variables listed in a message.
const WITHHELD_MAX: usize = 30;

/// A command and its environment. `Debug` does not show the values of variables, which may be secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All environment variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Names of variables that are not passed on. They are listed in the message if the server ends before it writes
    /// anything.
    pub withheld: Vec<String>,
    /// Isolation of the server. `None`: not isolated.
    pub isolation: Option<Isolation>,
    /// Maximum bytes per minute of its standard error in the log. The rest is dropped and counted.
    pub log_bytes: u64,
}

impl fmt::Debug for Launch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { program, arguments, environment, isolation, .. } = self;
        let variables: Vec<&OsString> = environment.iter().map(|(name, _)| name).collect();
        let mut shown = formatter.debug_struct("Launch");
        shown.field("program", program).field("arguments", arguments).field("variables", &variables);
        shown.field("isolation", isolation).finish_non_exhaustive()
    }
}

impl Launch {
    /// Creates a command with all variables of this process, not isolated.
    pub fn new(program: impl Into<OsString>, arguments: impl IntoIterator<Item = OsString>) -> Self {
        Self {
            program: program.into(),
            arguments: arguments.into_iter().collect(),
            environment: env::vars_os().collect(),
            withheld: Vec::new(),
            isolation: None,
            log_bytes: LOG_BYTES_DEFAULT,
        }
    }

    /// Starts the command with `input` as standard input, and pipes for output and errors.
    fn spawn(&self, input: PipeReader) -> io::Result<Child> {
        let prepare = |command: &mut Command| {
            command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
            Group::prepare(command);
        };
        if let Some(isolation) = &self.isolation {
            return isolation.spawn(self, &input, prepare);
        }
        let path = self.environment.iter().find(|(name, _)| name.eq_ignore_ascii_case("PATH"));
        let path = path.map(|(_, path)| path.as_os_str()).unwrap_or_default();
        let mut command = Command::new(found_program(&self.program, path));
        command.args(&self.arguments);
        prepare(&mut command);
        command.stdin(input).spawn()
    }

    /// Possible reason why a server ended before it wrote anything. `None` if it got all variables.
    fn hint(&self) -> Option<String> {
        let names: Vec<&str> = self.withheld.iter().take(WITHHELD_MAX).map(String::as_str).collect();
        let more = match self.withheld.len() - names.len() {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let hint = || format!("(it did not get the variables {}{more}: see `gateway.env`)", names.join(", "));
        (!names.is_empty()).then(hint)
    }
}

/// A running server. What it has started is killed when it ends.
#[derive(Debug)]
pub struct ServerProcess {
    input: Mutex<Input>,
    /// Notified when the backlog changes.
    changed: Condvar,
    /// Process id.
    pid: u32,
    group: Group,
    /// Message if it ends before it writes anything.
    hint: Option<String>,
    is_isolated: bool,
    has_written: AtomicBool,
    /// How it ended, once it has.
    ended: Mutex<Option<String>>,
}

/// Input of a server that is still to be written.
#[derive(Debug, Default)]
struct Input {
    pipe: Option<NonBlockingPipe>,
    /// Messages with their line feeds, in pieces. The first may be partly written.
    backlog: VecDeque<Bytes>,
    /// Whether to close the pipe when the backlog is empty.
    closing: bool,
}

impl ServerProcess {
    /// Starts a server. A separate thread passes its lines to `on_line`, and in the end calls `on_end` with how it
    /// ended. Its standard error is logged, up to the limit of the launch.
    ///
    /// # Errors
    /// When the program cannot be started or isolated.
    pub fn start(
        launch: &Launch,
        limits: &Arc<MessageLimits>,
        mut on_line: impl FnMut(Line) + Send + 'static,
        on_end: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let (input, pipe) = io::pipe()?;
        let mut child = launch.spawn(input)?;
        let group = Group::of(&child).inspect_err(|_| drop(child.kill()))?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (Some(output), Some(errors)) = (output, errors) else { return Err(io::Error::other("no pipes")) };
        widen_pipe(&pipe);
        widen_pipe(&output);
        let (pipe, readiness) = NonBlockingPipe::new(pipe)?;
        let input = Mutex::new(Input { pipe: Some(pipe), ..Input::default() });
        let (changed, pid) = (Condvar::new(), child.id());
        let (hint, is_isolated) = (launch.hint(), launch.isolation.is_some());
        let (has_written, ended) = (AtomicBool::new(false), Mutex::new(None));
        let server = Arc::new(Self { input, changed, pid, group, hint, is_isolated, has_written, ended });
        let (mut diagnostics, (logged, logging)) = (Diagnostics::new(pid, launch.log_bytes), mpsc::channel::<()>());
        let log = move || {
            diagnostics.log(errors);
            drop(logged);
        };
        let (writer, watcher, process) = (Arc::clone(&server), Arc::clone(&server), Arc::clone(&server));
        let mut lines = Lines::new(output, Arc::clone(limits));
        let (give, given) = mpsc::sync_channel(1);
        let read = move || {
            let Ok(child) = given.recv() else { return };
            loop {
                match lines.next() {
                    Ok(Some(line)) => {
                        process.has_written.store(true, Ordering::Relaxed);
                        on_line(line);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the output of the server");
                        break;
                    }
                }
            }
            let ended = process.reap(child, &logging);
            // Fail pending calls before anyone may restart the server.
            on_end(&ended);
            *process.ended.lock() = Some(ended);
        };
        let started = spawn(log)
            .and_then(|()| spawn(move || writer.write_backlog(&readiness)))
            .and_then(|()| spawn(move || watcher.watch()))
            .and_then(|()| spawn(read));
        if let Err(error) = started {
            server.group.kill();
            let _ = child.wait();
            server.close_input();
            return Err(error);
        }
        // It waits for the child.
        let _ = give.send(child);
        Ok(server)
    }

    /// Sends a message. Waits up to 5 s while the server does not read.
    ///
    /// # Errors
    /// When the server has ended or closed its input, or does not read earlier messages.
    pub fn send(&self, message: &Bytes) -> io::Result<()> {
        let mut input = self.input.lock();
        let is_full = |input: &mut Input| input.backlog.len() > BACKLOG_PIECES_MAX && input.pipe.is_some();
        self.changed.wait_while_for(&mut input, is_full, SEND_TIMEOUT);
        if is_full(&mut input) {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read its input"));
        }
        self.push(input, message)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// As for [`send`](Self::send), and [`WouldBlock`](io::ErrorKind::WouldBlock) when it would have to wait.
    pub fn try_send(&self, message: &Bytes) -> io::Result<()> {
        let input = self.input.lock();
        if input.backlog.len() > BACKLOG_PIECES_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.push(input, message)
    }

    /// Writes what fits into the pipe; the writing thread does the rest.
    fn push(&self, mut input: MutexGuard<'_, Input>, message: &Bytes) -> io::Result<()> {
        if input.pipe.is_none() || input.closing {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let was_empty = input.backlog.is_empty();
        input.backlog.extend(line(message));
        if was_empty && let Err(error) = input.write() {
            *input = Input::default();
            return Err(error);
        }
        if !input.backlog.is_empty() {
            self.changed.notify_all();
        }
        Ok(())
    }

    /// Writes the backlog, until the pipe is closed.
    fn write_backlog(&self, readiness: &Readiness) {
        loop {
            let mut input = self.input.lock();
            while input.backlog.is_empty() && !input.closing && input.pipe.is_some() {
                self.changed.wait(&mut input);
            }
            if input.pipe.is_none() || input.write().is_err() || (input.closing && input.backlog.is_empty()) {
                *input = Input::default();
                self.changed.notify_all();
                return;
            }
            let waits = !input.backlog.is_empty();
            drop(input);
            self.changed.notify_all();
            if waits {
                readiness.wait(WRITE_TIMEOUT);
            }
        }
    }

    /// How the server ended; `None` while it runs.
    pub fn ended(&self) -> Option<String> {
        self.ended.lock().clone()
    }

    /// Closes the server's input after the messages sent so far, which asks it to end.
    pub fn close_input(&self) {
        self.input.lock().closing = true;
        self.changed.notify_all();
    }

    /// Stops the server: closes its input, and kills it if it still runs after `timeout`. Blocks until it has ended.
    pub fn stop(&self, timeout: Duration) {
        self.close_input();
        if self.wait(timeout) {
            return;
        }
        self.group.ask_to_end();
        if !self.wait(TERMINATION_GRACE) {
            self.group.kill();
            self.wait(TERMINATION_GRACE);
        }
    }

    /// Waits for the server to end. Returns whether it did before the timeout.
    pub fn wait(&self, timeout: Duration) -> bool {
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() >= timeout {
                return false;
            }
            thread::sleep(POLL_INTERVAL);
        }
        true
    }

    /// Waits for the process itself, and then kills orphans that hold its output open.
    fn watch(&self) {
        self.group.wait();
        if !self.wait(ORPHANS_GRACE) {
            self.group.kill();
        }
    }

    /// Waits for the process after its output ended, kills the rest of its group, and waits for its last log lines.
    fn reap(&self, mut child: Child, logging: &Receiver<()>) -> String {
        let start = Instant::now();
        let (mut asked, mut killed) = (false, false);
        // Do not reap the process yet: as a zombie it keeps its process group id from being reused.
        while !self.group.has_ended() {
            if !killed && start.elapsed() > 2 * TERMINATION_GRACE {
                self.group.kill();
                killed = true;
            } else if !asked && start.elapsed() > TERMINATION_GRACE {
                self.group.ask_to_end();
                asked = true;
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.group.kill();
        let text = match child.wait() {
            Ok(_) if asked => "closed its output".to_owned(),
            Ok(status) => describe(status),
            Err(error) => format!("was lost: {error}"),
        };
        *self.input.lock() = Input::default();
        self.changed.notify_all();
        // Nothing is sent: this waits for the channel to close.
        let _ = logging.recv_timeout(ORPHANS_GRACE);
        if self.has_written.load(Ordering::Relaxed) {
            return text;
        }
        let text = self.hint.as_ref().map_or_else(|| text.clone(), |hint| format!("{text} {hint}"));
        tracing::warn!(server = self.pid, isolated = self.is_isolated, "the server {text}");
        text
    }
}

impl Input {
    /// Writes until the backlog is empty or the pipe is full.
    fn write(&mut self) -> io::Result<()> {
        let Some(pipe) = &mut self.pipe else { return Err(io::ErrorKind::BrokenPipe.into()) };
        while let Some(first) = self.backlog.front_mut() {
            match pipe.write(first) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) if written < first.len() => first.advance(written),
                Ok(_) => drop(self.backlog.pop_front()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Starts a thread for a server.
fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name("lro-server".into()).spawn(work).map(drop)
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), signal(status)) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// Converts a message to one line, in pieces. Line feeds between JSON tokens become spaces.
fn line(message: &Bytes) -> Vec<Bytes> {
    if message.len() <= ONE_WRITE_BYTES {
        let mut line = BytesMut::with_capacity(message.len() + 1);
        line.extend_from_slice(message);
        line.iter_mut().filter(|byte| **byte == b'\n').for_each(|byte| *byte = b' ');
        line.extend_from_slice(b"\n");
        return vec![line.freeze()];
    }
    let mut pieces = Vec::new();
    let mut rest = message.clone();
    while let Some(end) = memchr(b'\n', &rest) {
        pieces.extend([rest.split_to(end), Bytes::from_static(b" ")]);
        rest.advance(1);
    }
    pieces.extend([rest, Bytes::from_static(b"\n")]);
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// Writes a message as one line, and flushes it.
///
/// # Errors
/// Errors of the writer.
pub fn write_line(output: &mut impl Write, message: &Bytes) -> io::Result<()> {
    for piece in line(message) {
        output.write_all(&piece)?;
    }
    output.flush()
}
