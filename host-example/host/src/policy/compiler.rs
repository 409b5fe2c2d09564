//! Compiles components off the serving threads, a few at a time, and within limits: a hostile component can take long
//! to compile and need much memory.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Once};
use std::thread;
use std::time::{Duration, Instant};

use lro_system::process;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::gate::{Bounds, Gate, Permit};
use super::{LoadError, anonymous, code};
use crate::faults::fail_point;
use crate::sandbox::{Code, Sandbox};

/// Default of [`CompileLimits::time`]: 30 s. The default policy takes less than one.
pub const COMPILE_TIME_DEFAULT: Duration = Duration::from_secs(30);
/// Default of [`CompileLimits::memory_bytes`]: 1 GiB. The default policy needs less than an eighth of it.
pub const COMPILE_MEMORY_BYTES_DEFAULT: u64 = 1 << 30;

/// Stack of a compiling thread: as large as that of a main thread.
const STACK_BYTES: usize = 8 << 20;
/// How often to check whether a child has exited.
const CHILD_POLL_INTERVAL: Duration = Duration::from_millis(2);
/// Maximum size of a child's error message, in bytes.
const MESSAGE_BYTES_MAX: u64 = 2_000;
/// How many times its processor time a child may take by the clock: on a busy machine others go first.
const CLOCK_FACTOR: u32 = 4;

/// Limits of compiling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompileLimits {
    /// Maximum time to compile one component, and maximum time it waits for its turn. Of a child it is processor time, and
    /// by the clock four times as much. Default: 30 s.
    pub time: Duration,
    /// Maximum address space of a compiling child, and maximum size of its output, in bytes. A thread shares the
    /// address space of the process and is not limited. Default: 1 GiB.
    pub memory_bytes: u64,
    /// Maximum number of components compiled at the same time. Default: half the processors, at least one.
    pub at_once: NonZeroU32,
}

impl Default for CompileLimits {
    fn default() -> Self {
        let processors = thread::available_parallelism().map_or(1, usize::from);
        let half = u32::try_from(processors / 2).ok().and_then(NonZeroU32::new);
        Self {
            time: COMPILE_TIME_DEFAULT,
            memory_bytes: COMPILE_MEMORY_BYTES_DEFAULT,
            at_once: half.unwrap_or(NonZeroU32::MIN),
        }
    }
}

/// Where a component is compiled.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum CompilePlace {
    /// On a thread of this process. After the time limit the thread is abandoned; it still counts until it ends.
    #[default]
    Thread,
    /// In a child process with its own limits on memory and processor time, on one processor and at low priority. It is
    /// killed at the time limit.
    Child {
        /// The program. It runs with an empty environment.
        program: PathBuf,
        /// Its arguments. The memory limit in bytes, the time limit in seconds and the name of the [`Addressing`] are
        /// appended, see [`compile_as_child`].
        ///
        /// [`Addressing`]: crate::sandbox::Addressing
        arguments: Vec<OsString>,
    },
}

/// Compiles components. Clones share the limit on concurrent compilations.
#[derive(Clone, Debug, Default)]
pub struct Compiler {
    place: CompilePlace,
    limits: CompileLimits,
    gate: Arc<Gate>,
}

impl Compiler {
    /// Creates a compiler.
    pub fn new(place: CompilePlace, limits: CompileLimits) -> Self {
        Self { place, limits, gate: Arc::default() }
    }

    /// Its limits.
    pub fn limits(&self) -> &CompileLimits {
        &self.limits
    }

    /// Waits for its turn and compiles.
    pub(super) fn compile(&self, sandbox: &Sandbox, bytes: &[u8]) -> Result<Component, LoadError> {
        let time = self.limits.time;
        let bounds = Bounds { permits: self.limits.at_once.get(), weight: 1, waiters: u32::MAX, timeout: time };
        let permit = self.gate.acquire(&bounds).ok_or(LoadError::CompileQueue(time))?;
        fail_point!("policy::compile", |error: io::Error| LoadError::Compile(error.to_string()));
        match &self.place {
            CompilePlace::Thread => self.on_thread(sandbox.engine(), bytes, permit),
            CompilePlace::Child { program, arguments } => match self.in_child(sandbox, bytes, program, arguments)? {
                Some(compiled) => Ok(compiled),
                None => self.on_thread(sandbox.engine(), bytes, permit),
            },
        }
    }

    fn on_thread(&self, engine: &Engine, bytes: &[u8], permit: Permit) -> Result<Component, LoadError> {
        let (engine, bytes, (done, compiled)) = (engine.clone(), bytes.to_vec(), mpsc::sync_channel(1));
        let thread = thread::Builder::new().name("lro-compile".into()).stack_size(STACK_BYTES);
        let started = thread.spawn(move || {
            let _permit = permit;
            fail_point!("policy::compile-thread");
            // The receiver is gone after a timeout.
            let _ = done.send(Component::from_binary(&engine, &bytes));
        });
        started.map_err(|error| LoadError::Compile(format!("cannot start a thread to compile on: {error}")))?;
        match compiled.recv_timeout(self.limits.time) {
            Ok(compiled) => compiled.map_err(|error| LoadError::Compile(format!("{error:#}"))),
            Err(RecvTimeoutError::Timeout) => Err(LoadError::CompileTime(self.limits.time)),
            Err(RecvTimeoutError::Disconnected) => Err(LoadError::Compile("the compiler panicked".to_owned())),
        }
    }

    /// `None` if this system cannot execute the program.
    fn in_child(
        &self,
        sandbox: &Sandbox,
        bytes: &[u8],
        program: &Path,
        arguments: &[OsString],
    ) -> Result<Option<Component>, LoadError> {
        let failed =
            |error: io::Error| LoadError::Compile(format!("cannot run the compiler `{}`: {error}", program.display()));
        let deadline = Instant::now() + self.limits.time.saturating_mul(CLOCK_FACTOR);
        // Anonymous memory files instead of pipes: nothing waits for a child that does not read or write, no other
        // process can open them, and nothing remains when a process is killed.
        let input = anonymous::file("lro-component").and_then(|mut file| {
            file.write_all(bytes)?;
            file.rewind()?;
            anonymous::sealed(file)
        });
        let (input, output, messages) =
            (input.map_err(failed)?, anonymous::file("lro-code"), anonymous::file("lro-messages"));
        let (output, messages) = (output.map_err(failed)?, messages.map_err(failed)?);
        let child = Command::new(program)
            .args(arguments)
            .arg(self.limits.memory_bytes.to_string())
            .arg(seconds(self.limits.time).to_string())
            .arg(sandbox.code().addressing.name())
            .env_clear()
            // One compiler thread keeps the child on one processor.
            .env("RAYON_NUM_THREADS", "1")
            .stdin(input)
            .stdout(output.try_clone().map_err(failed)?)
            .stderr(messages.try_clone().map_err(failed)?)
            .spawn();
        let mut child = match child {
            Err(error) if process::is_foreign_program(&error) => {
                warn_once(program, &error);
                return Ok(None);
            }
            child => child.map_err(failed)?,
        };
        let ended = wait(&mut child, deadline, self.limits.memory_bytes).map_err(failed)?;
        fail_point!("policy::compiled-by-child", failed);
        let status = match ended {
            Ended::Itself(status) => status,
            Ended::AtDeadline => return Err(LoadError::CompileTime(self.limits.time)),
            Ended::AtMemoryLimit => return Err(LoadError::CompileMemory(self.limits.memory_bytes)),
        };
        if status.success() {
            let code = anonymous::sealed(output)
                .and_then(|code| read_from_start(code, self.limits.memory_bytes))
                .map_err(failed)?;
            let loaded = code::load(sandbox.engine(), &code);
            return loaded.map(Some).map_err(|error| LoadError::Compile(format!("{error:#}")));
        }
        let message = read_from_start(messages, MESSAGE_BYTES_MAX).map_err(failed)?;
        Err(self.explain(status, String::from_utf8_lossy(&message).trim()))
    }

    /// Maps the exit of a child to an error.
    fn explain(&self, status: ExitStatus, message: &str) -> LoadError {
        let is_memory = ["memory allocation of", "Cannot allocate memory", "out of memory", "File too large"];
        if is_memory.iter().any(|sign| message.contains(sign)) {
            return LoadError::CompileMemory(self.limits.memory_bytes);
        }
        if process::ran_out_of_time(status) {
            return LoadError::CompileTime(self.limits.time);
        }
        match process::signal(status) {
            Some(signal) => LoadError::Compile(format!("the compiler was killed by signal {signal}: {message}")),
            None => LoadError::Compile(message.to_owned()),
        }
    }
}

/// Says once in the life of the process that components are compiled without the limits of a child.
fn warn_once(program: &Path, error: &io::Error) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let program = program.display();
        tracing::warn!(%program, %error, "this system does not execute the compiler: policies are compiled in this process, \
            without a limit on memory");
    });
}

/// Reads a file from its start, at most `bytes_max` bytes.
fn read_from_start(mut file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    file.rewind()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// How a child has ended.
enum Ended {
    Itself(ExitStatus),
    AtDeadline,
    AtMemoryLimit,
}

/// Waits for a child, and kills it at the deadline, or when it uses more memory than the system itself limits.
fn wait(child: &mut Child, deadline: Instant, memory_bytes: u64) -> io::Result<Ended> {
    let killed = loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::Itself(status));
        }
        if Instant::now() >= deadline {
            break Ended::AtDeadline;
        }
        if process::unlimited_memory(child).is_some_and(|bytes| bytes > memory_bytes) {
            break Ended::AtMemoryLimit;
        }
        thread::sleep(CHILD_POLL_INTERVAL);
    };
    child.kill()?;
    child.wait()?;
    Ok(killed)
}

/// Rounds up to whole seconds, the unit of processor time limits.
fn seconds(time: Duration) -> u64 {
    time.as_secs() + u64::from(time.subsec_nanos() > 0)
}

/// Main function of the child of [`CompilePlace::Child`]: limits itself, compiles the component it reads, and writes
/// the code.
///
/// The memory limit is one of address space, where the system has such a limit. The process must not be used for anything
/// else afterwards.
///
/// # Errors
/// When a limit cannot be set, the component does not compile, or reading or writing fails. A signal may also kill the
/// process.
pub fn compile_as_child(
    memory_bytes: u64,
    seconds: u64,
    code: Code,
    mut input: impl Read,
    mut output: impl Write,
) -> Result<(), LoadError> {
    let failed = |error: io::Error| LoadError::Compile(error.to_string());
    process::limit_this_process(memory_bytes, seconds).map_err(failed)?;
    let refused = |error: wasmtime::Error| LoadError::Compile(format!("{error:#}"));
    let engine = code.compiling_engine().map_err(refused)?;
    let mut bytes = Vec::new();
    input.read_to_end(&mut bytes).map_err(failed)?;
    let code = engine.precompile_component(&bytes).map_err(refused)?;
    output.write_all(&code).and_then(|()| output.flush()).map_err(failed)
}
