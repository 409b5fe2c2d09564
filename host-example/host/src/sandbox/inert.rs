//! Stubs for the interfaces that language runtimes import whether a policy uses them or not, so that such policies
//! load: no environment, no arguments, empty standard input, discarded standard output, clocks that stand still, the
//! same random numbers in every call. Calls stay deterministic.

use wasmtime::component::{HasData, Linker, Resource};
use wasmtime_wasi::p2::bindings::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use wasmtime_wasi::p2::bindings::clocks::{monotonic_clock, wall_clock};
use wasmtime_wasi::p2::bindings::random::{insecure, insecure_seed, random};
use wasmtime_wasi::p2::bindings::sync::io::{error, poll, streams};
use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
use wasmtime_wasi::p2::{DynPollable, Pollable, subscribe};

use super::state::CallState;

/// Maximum random bytes per request.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

type InputStream = Resource<streams::InputStream>;
type OutputStream = Resource<streams::OutputStream>;

/// Ties [`View`] to the linker.
struct Inert;

impl HasData for Inert {
    type Data<'a> = View<'a>;
}

/// The interfaces of one call.
pub(super) struct View<'a>(pub(super) &'a mut CallState);

/// Adds the interfaces to a linker.
pub(super) fn add_to_linker(linker: &mut Linker<CallState>) -> wasmtime::Result<()> {
    environment::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    exit::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    stdin::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    stdout::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    stderr::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    terminal_input::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    terminal_output::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    terminal_stdin::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    terminal_stdout::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    terminal_stderr::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    wall_clock::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    monotonic_clock::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    random::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    insecure::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    insecure_seed::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    error::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    poll::add_to_linker::<_, Inert>(linker, |state| View(state))?;
    streams::add_to_linker::<_, Inert>(linker, |state| View(state))
}

/// A pollable that is always ready.
struct Ready;

#[wasmtime_wasi::async_trait]
impl Pollable for Ready {
    async fn ready(&mut self) {}
}

impl View<'_> {
    /// Creates a pollable that is always ready.
    pub(super) fn ready(&mut self) -> wasmtime::Result<Resource<DynPollable>> {
        let ready = self.0.table.push(Ready)?;
        subscribe(&mut self.0.table, ready)
    }

    fn sink(&mut self) -> wasmtime::Result<OutputStream> {
        let sink: streams::OutputStream = Box::new(SinkOutputStream);
        Ok(self.0.table.push(sink)?)
    }

    /// The next number of a fixed sequence (SplitMix64).
    fn random(&mut self) -> u64 {
        self.0.random = self.0.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        if length > RANDOM_BYTES_MAX {
            wasmtime::bail!("asked for {length} random bytes at a time; the limit is {RANDOM_BYTES_MAX}");
        }
        Ok((0..length).map(|_| self.random().to_le_bytes()[0]).collect())
    }
}

impl environment::Host for View<'_> {
    fn get_environment(&mut self) -> wasmtime::Result<Vec<(String, String)>> {
        Ok(Vec::new())
    }

    fn get_arguments(&mut self) -> wasmtime::Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn initial_cwd(&mut self) -> wasmtime::Result<Option<String>> {
        Ok(None)
    }
}

impl exit::Host for View<'_> {
    fn exit(&mut self, _: Result<(), ()>) -> wasmtime::Result<()> {
        wasmtime::bail!("called exit")
    }

    fn exit_with_code(&mut self, _: u8) -> wasmtime::Result<()> {
        wasmtime::bail!("called exit")
    }
}

impl stdin::Host for View<'_> {
    fn get_stdin(&mut self) -> wasmtime::Result<InputStream> {
        let closed: streams::InputStream = Box::new(ClosedInputStream);
        Ok(self.0.table.push(closed)?)
    }
}

impl stdout::Host for View<'_> {
    fn get_stdout(&mut self) -> wasmtime::Result<OutputStream> {
        self.sink()
    }
}

impl stderr::Host for View<'_> {
    fn get_stderr(&mut self) -> wasmtime::Result<OutputStream> {
        self.sink()
    }
}

impl terminal_input::Host for View<'_> {}

impl terminal_input::HostTerminalInput for View<'_> {
    fn drop(&mut self, terminal: Resource<terminal_input::TerminalInput>) -> wasmtime::Result<()> {
        self.0.table.delete(terminal)?;
        Ok(())
    }
}

impl terminal_output::Host for View<'_> {}

impl terminal_output::HostTerminalOutput for View<'_> {
    fn drop(&mut self, terminal: Resource<terminal_output::TerminalOutput>) -> wasmtime::Result<()> {
        self.0.table.delete(terminal)?;
        Ok(())
    }
}

impl terminal_stdin::Host for View<'_> {
    fn get_terminal_stdin(&mut self) -> wasmtime::Result<Option<Resource<terminal_input::TerminalInput>>> {
        Ok(None)
    }
}

impl terminal_stdout::Host for View<'_> {
    fn get_terminal_stdout(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl terminal_stderr::Host for View<'_> {
    fn get_terminal_stderr(&mut self) -> wasmtime::Result<Option<Resource<terminal_output::TerminalOutput>>> {
        Ok(None)
    }
}

impl wall_clock::Host for View<'_> {
    fn now(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 0, nanoseconds: 0 })
    }

    fn resolution(&mut self) -> wasmtime::Result<wall_clock::Datetime> {
        Ok(wall_clock::Datetime { seconds: 1, nanoseconds: 0 })
    }
}

impl monotonic_clock::Host for View<'_> {
    fn now(&mut self) -> wasmtime::Result<monotonic_clock::Instant> {
        Ok(0)
    }

    fn resolution(&mut self) -> wasmtime::Result<monotonic_clock::Duration> {
        Ok(1)
    }

    fn subscribe_instant(&mut self, _: monotonic_clock::Instant) -> wasmtime::Result<Resource<DynPollable>> {
        self.ready()
    }

    fn subscribe_duration(&mut self, _: monotonic_clock::Duration) -> wasmtime::Result<Resource<DynPollable>> {
        self.ready()
    }
}

impl random::Host for View<'_> {
    fn get_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random())
    }
}

impl insecure::Host for View<'_> {
    fn get_insecure_random_bytes(&mut self, length: u64) -> wasmtime::Result<Vec<u8>> {
        self.random_bytes(length)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.random())
    }
}

impl insecure_seed::Host for View<'_> {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.random(), self.random()))
    }
}

impl error::Host for View<'_> {}

impl error::HostError for View<'_> {
    fn to_debug_string(&mut self, error: Resource<error::Error>) -> wasmtime::Result<String> {
        Ok(format!("{:#}", self.0.table.get(&error)?))
    }

    fn drop(&mut self, error: Resource<error::Error>) -> wasmtime::Result<()> {
        self.0.table.delete(error)?;
        Ok(())
    }
}

impl poll::Host for View<'_> {
    fn poll(&mut self, pollables: Vec<Resource<DynPollable>>) -> wasmtime::Result<Vec<u32>> {
        Ok((0..).zip(pollables).map(|(index, _)| index).collect())
    }
}

impl poll::HostPollable for View<'_> {
    fn ready(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<bool> {
        Ok(true)
    }

    fn block(&mut self, _: Resource<DynPollable>) -> wasmtime::Result<()> {
        Ok(())
    }

    fn drop(&mut self, pollable: Resource<DynPollable>) -> wasmtime::Result<()> {
        self.0.table.delete(pollable)?;
        Ok(())
    }
}
