//! A server as a child process: messages on its standard input and output, one a line.

use std::collections::VecDeque;
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::diagnostics::Diagnostics;
use super::{Isolation, Line, Lines, MessageLimits, widen_pipe};

/// How often a process that should end is looked at.
const POLL: Duration = Duration::from_millis(5);

/// How long a process may live on when it was asked to end, before it is killed.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// How long what a server left behind may hold its output open.
const ORPHANS_GRACE: Duration = Duration::from_secs(1);

/// How long a message waits for a server that does not read.
const SEND_PATIENCE: Duration = Duration::from_secs(5);

/// Pieces of messages that wait for a server to read before senders have to wait. A large message is mostly one piece.
const BACKLOG_PIECES_MAX: usize = 64;

/// How long the pipe to a server is waited for at a time.
const WRITE_POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Longest message that is written in one step with its line feed.
const ONE_WRITE_BYTES: usize = 64 << 10;

/// Default of [`Launch::log_bytes`]: 64 KiB.
pub const LOG_BYTES_DEFAULT: u64 = 64 << 10;

/// Variables that a message about a server names at most.
const WITHHELD_MAX: usize = 30;

/// A command, and what it is given. The values of its variables may be secrets: they are not shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// All its variables.
    pub environment: Vec<(OsString, OsString)>,
    /// Names of variables that were kept from it: when it ends before it writes anything, the message says so.
    pub withheld: Vec<String>,
    /// What it is kept away from; none for nothing.
    pub isolation: Option<Isolation>,
    /// Bytes a minute that what it writes to its standard error takes in the log, at most. The rest is left out and counted.
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
    /// A command that gets all variables of this process, and is kept away from nothing.
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

    /// Starts it with pipes for output and errors, and `input` to read from.
    fn spawn(&self, input: PipeReader) -> io::Result<Child> {
        let prepare = |command: &mut Command| {
            command.env_clear().envs(self.environment.iter().map(|(name, value)| (name, value)));
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        };
        if let Some(isolation) = &self.isolation {
            return isolation.spawn(self, &input, prepare);
        }
        let mut command = Command::new(&self.program);
        command.args(&self.arguments);
        prepare(&mut command);
        command.stdin(input).spawn()
    }

    /// What may be why a server ended before it wrote anything; none when it got all variables.
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

/// A running server. It leads a process group of its own, and all of that ends with it.
#[derive(Debug)]
pub struct ServerProcess {
    input: Mutex<Input>,
    /// Told whenever there is more or less to write.
    changed: Condvar,
    pid: Pid,
    /// What is said when it ends before it wrote anything.
    hint: Option<String>,
    is_isolated: bool,
    has_written: AtomicBool,
    /// How it ended.
    ended: Mutex<Option<String>>,
}

/// What is still to be written to a server.
#[derive(Debug, Default)]
struct Input {
    /// Does not block.
    pipe: Option<PipeWriter>,
    /// Messages with their line feeds, in pieces; of the first, what is left.
    backlog: VecDeque<Bytes>,
    /// Whether the pipe is to be closed when nothing is left.
    closing: bool,
}

impl ServerProcess {
    /// Starts it. Its lines go to `on_line`, on a thread of their own, and then `on_end` is told how it ended. What it
    /// writes to standard error is logged, within the bound of the launch.
    ///
    /// # Errors
    /// When the program cannot be started, or not be isolated.
    pub fn start(
        launch: &Launch,
        limits: &Arc<MessageLimits>,
        mut on_line: impl FnMut(Line) + Send + 'static,
        on_end: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let (input, pipe) = io::pipe()?;
        let mut child = launch.spawn(input)?;
        let (output, errors) = (child.stdout.take(), child.stderr.take());
        let (Some(output), Some(errors)) = (output, errors) else { return Err(io::Error::other("no pipes")) };
        widen_pipe(&pipe);
        widen_pipe(&output);
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let writable = pipe.as_fd().try_clone_to_owned()?;
        let input = Mutex::new(Input { pipe: Some(pipe), ..Input::default() });
        let (changed, pid) = (Condvar::new(), Pid::from_child(&child));
        let (hint, is_isolated) = (launch.hint(), launch.isolation.is_some());
        let (has_written, ended) = (AtomicBool::new(false), Mutex::new(None));
        let server = Arc::new(Self { input, changed, pid, hint, is_isolated, has_written, ended });
        let (mut diagnostics, (logged, logging)) = (Diagnostics::new(pid, launch.log_bytes), mpsc::channel::<()>());
        thread::spawn(move || {
            diagnostics.log(errors);
            drop(logged);
        });
        let writer = Arc::clone(&server);
        thread::spawn(move || writer.write_backlog(&writable));
        let watcher = Arc::clone(&server);
        thread::spawn(move || watcher.watch());
        let (process, mut lines) = (Arc::clone(&server), Lines::new(output, Arc::clone(limits)));
        thread::spawn(move || {
            loop {
                match lines.next() {
                    Ok(Some(line)) => {
                        process.has_written.store(true, Ordering::Relaxed);
                        on_line(line);
                    }
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the output of the server cannot be read");
                        break;
                    }
                }
            }
            let ended = process.reap(child, &logging);
            // Whoever waits for an answer is told before anybody may start the server again.
            on_end(&ended);
            *lock(&process.ended) = Some(ended);
        });
        Ok(server)
    }

    /// Sends a message. Waits for a moment while the server does not read.
    ///
    /// # Errors
    /// When the server has ended or closed its input, or does not read what it was sent before.
    pub fn send(&self, message: &Bytes) -> io::Result<()> {
        let input = lock(&self.input);
        let is_full = |input: &mut Input| input.backlog.len() > BACKLOG_PIECES_MAX && input.pipe.is_some();
        let waited = self.changed.wait_timeout_while(input, SEND_PATIENCE, is_full);
        let (input, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it does not read what it is sent"));
        }
        self.push(input, message)
    }

    /// As [`send`](Self::send), without waiting.
    ///
    /// # Errors
    /// As of [`send`](Self::send).
    pub fn try_send(&self, message: &Bytes) -> io::Result<()> {
        let input = lock(&self.input);
        if input.backlog.len() > BACKLOG_PIECES_MAX {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.push(input, message)
    }

    /// Writes what can be written at once; the rest is for the thread that writes.
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

    /// Writes what did not fit into the pipe, until the pipe is closed.
    fn write_backlog(&self, writable: &OwnedFd) {
        loop {
            let mut input = lock(&self.input);
            while input.backlog.is_empty() && !input.closing && input.pipe.is_some() {
                input = self.changed.wait(input).unwrap_or_else(PoisonError::into_inner);
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
                let mut ready = [PollFd::new(writable, PollFlags::OUT)];
                let _ = poll(&mut ready, Some(&WRITE_POLL));
            }
        }
    }

    /// How it ended; none while it runs.
    pub fn ended(&self) -> Option<String> {
        lock(&self.ended).clone()
    }

    /// Closes its input behind what was sent, which asks a server to end.
    pub fn close_input(&self) {
        lock(&self.input).closing = true;
        self.changed.notify_all();
    }

    /// Ends it: closes its input, and kills it when it still runs after `patience`. Blocks until it has ended.
    pub fn stop(&self, patience: Duration) {
        self.close_input();
        if self.wait(patience) {
            return;
        }
        let _ = kill_process_group(self.pid, Signal::TERM);
        if !self.wait(TERMINATION_GRACE) {
            let _ = kill_process_group(self.pid, Signal::KILL);
            self.wait(TERMINATION_GRACE);
        }
    }

    /// Waits for the end. Tells whether it came.
    pub fn wait(&self, patience: Duration) -> bool {
        let start = Instant::now();
        while self.ended().is_none() {
            if start.elapsed() >= patience {
                return false;
            }
            thread::sleep(POLL);
        }
        true
    }

    /// Waits for the process itself. What it leaves behind may hold its output open, and is ended then.
    fn watch(&self) {
        let _ = waitid(WaitId::Pid(self.pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        if !self.wait(ORPHANS_GRACE) {
            let _ = kill_process_group(self.pid, Signal::KILL);
        }
    }

    /// Waits for the process after its output ended, and ends what is left of its group. What it said last is logged then.
    fn reap(&self, mut child: Child, logging: &Receiver<()>) -> String {
        let start = Instant::now();
        let (mut asked, mut killed) = (false, false);
        // The process stays a zombie here, so that its group is surely the one that is killed.
        while matches!(waitid(WaitId::Pid(self.pid), peek()), Ok(None)) {
            if !killed && start.elapsed() > 2 * TERMINATION_GRACE {
                let _ = kill_process_group(self.pid, Signal::KILL);
                killed = true;
            } else if !asked && start.elapsed() > TERMINATION_GRACE {
                let _ = kill_process_group(self.pid, Signal::TERM);
                asked = true;
            }
            thread::sleep(POLL);
        }
        let _ = kill_process_group(self.pid, Signal::KILL);
        let text = match child.wait() {
            Ok(_) if asked => "closed its output".to_owned(),
            Ok(status) => describe(status),
            Err(error) => format!("was lost: {error}"),
        };
        *lock(&self.input) = Input::default();
        self.changed.notify_all();
        // Nothing is sent: the end of the channel is waited for.
        let _ = logging.recv_timeout(ORPHANS_GRACE);
        if self.has_written.load(Ordering::Relaxed) {
            return text;
        }
        let text = self.hint.as_ref().map_or_else(|| text.clone(), |hint| format!("{text} {hint}"));
        tracing::warn!(server = self.pid.as_raw_nonzero(), isolated = self.is_isolated, "the server {text}");
        text
    }
}

impl Input {
    /// Writes until nothing is left or the pipe is full.
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

fn peek() -> WaitIdOptions {
    WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG
}

fn describe(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exited with status {code}"),
        (None, Some(signal)) => format!("was killed by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

/// A message as one line, in pieces. A line break between its tokens, which JSON allows, becomes a space.
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

/// Writes a message as one line, and waits until it is written.
///
/// # Errors
/// Those of the writer.
pub fn write_line(output: &mut impl Write, message: &Bytes) -> io::Result<()> {
    for piece in line(message) {
        output.write_all(&piece)?;
    }
    output.flush()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
