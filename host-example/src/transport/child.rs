//! A server as a child process: messages on its standard input and output, one a line.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memchr;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

use super::{Line, Lines, MessageLimits, widen_pipe};

/// How often a process that should end is looked at.
const POLL: Duration = Duration::from_millis(5);

/// How long a process may live on when it was asked to end, before it is killed.
const TERMINATION_GRACE: Duration = Duration::from_secs(2);

/// Longest message that is written in one step with its line feed.
const ONE_WRITE_BYTES: usize = 64 << 10;

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The program.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
}

/// A running server. It leads a process group of its own, and all of that ends with it.
#[derive(Debug)]
pub struct ServerProcess {
    input: Mutex<Option<ChildStdin>>,
    pid: Pid,
    /// How it ended.
    ended: Mutex<Option<String>>,
}

impl ServerProcess {
    /// Starts it. Its lines go to `on_line`, on a thread of their own, and then `on_end` is told how it ended. What it
    /// writes to standard error goes to that of this process.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn start(
        launch: &Launch,
        limits: &Arc<MessageLimits>,
        mut on_line: impl FnMut(Line) + Send + 'static,
        on_end: impl FnOnce(&str) + Send + 'static,
    ) -> io::Result<Arc<Self>> {
        let mut command = Command::new(&launch.program);
        command.args(&launch.arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let Some(output) = output else { return Err(io::Error::other("no standard output")) };
        if let Some(input) = &input {
            widen_pipe(input);
        }
        widen_pipe(&output);
        let pid = Pid::from_child(&child);
        let server = Arc::new(Self { input: Mutex::new(input), pid, ended: Mutex::new(None) });
        let (process, mut lines) = (Arc::clone(&server), Lines::new(output, Arc::clone(limits)));
        thread::spawn(move || {
            loop {
                match lines.next() {
                    Ok(Some(line)) => on_line(line),
                    Ok(None) => break,
                    Err(error) => {
                        tracing::warn!(%error, "the output of the server cannot be read");
                        break;
                    }
                }
            }
            let ended = process.reap(child);
            on_end(&ended);
        });
        Ok(server)
    }

    /// Sends a message. Blocks while the server does not read.
    ///
    /// # Errors
    /// When the server has ended or closed its input.
    pub fn send(&self, message: &[u8]) -> io::Result<()> {
        let mut guard = lock(&self.input);
        let Some(input) = guard.as_mut() else { return Err(io::ErrorKind::BrokenPipe.into()) };
        let written = write_line(input, message);
        if written.is_err() {
            *guard = None;
        }
        written
    }

    /// How it ended; none while it runs.
    pub fn ended(&self) -> Option<String> {
        lock(&self.ended).clone()
    }

    /// Closes its input, which asks a server to end.
    pub fn close_input(&self) {
        // A writer that waits for a server that does not read holds the lock; the server is killed in the end.
        if let Ok(mut input) = self.input.try_lock() {
            *input = None;
        }
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

    /// Waits for the process after its output ended, and ends what is left of its group.
    fn reap(&self, mut child: Child) -> String {
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
        *lock(&self.input) = None;
        *lock(&self.ended) = Some(text.clone());
        text
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

/// Writes a message as one line. A line break between its tokens, which JSON allows, becomes a space.
///
/// # Errors
/// Those of the writer.
pub fn write_line(output: &mut impl Write, message: &[u8]) -> io::Result<()> {
    if memchr(b'\n', message).is_some() {
        for part in message.split(|byte| *byte == b'\n') {
            output.write_all(part)?;
            output.write_all(b" ")?;
        }
        output.write_all(b"\n")?;
    } else if message.len() <= ONE_WRITE_BYTES {
        let mut line = Vec::with_capacity(message.len() + 1);
        line.extend_from_slice(message);
        line.push(b'\n');
        output.write_all(&line)?;
    } else {
        output.write_all(message)?;
        output.write_all(b"\n")?;
    }
    output.flush()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
