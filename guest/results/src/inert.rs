//! The interfaces that language runtimes import whether a policy uses them or not: no environment, no arguments, empty standard
//! input, discarded standard output, clocks that stand still, the same random numbers in every call. Calls stay deterministic.

use crate::bindings::exports::wasi::cli::{
    environment, exit, stderr, stdin, stdout, terminal_input, terminal_output, terminal_stderr, terminal_stdin,
    terminal_stdout,
};
use crate::bindings::exports::wasi::clocks::{monotonic_clock, wall_clock};
use crate::bindings::exports::wasi::io::streams;
use crate::bindings::exports::wasi::random::{insecure, insecure_seed, random};
use crate::filesystem::EPOCH;
use crate::streams::{InputStream, OutputStream, Ready};
use crate::{Results, State, Storage};

/// Maximum random bytes per request.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

/// A terminal, of which there is none.
pub enum Terminal {}

impl<S: Storage> State<S> {
    /// The next number of a fixed sequence (SplitMix64).
    fn random(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

fn number<S: Storage>() -> u64 {
    S::with(State::random)
}

fn bytes<S: Storage>(length: u64) -> Vec<u8> {
    if length > RANDOM_BYTES_MAX {
        end();
    }
    (0..length).map(|_| number::<S>().to_le_bytes()[0]).collect()
}

/// Ends the instance, as a call of `exit` asks, and a request beyond all bounds.
fn end() -> ! {
    std::process::abort()
}

impl<S: Storage> environment::Guest for Results<S> {
    fn get_environment() -> Vec<(String, String)> {
        Vec::new()
    }

    fn get_arguments() -> Vec<String> {
        Vec::new()
    }

    fn initial_cwd() -> Option<String> {
        None
    }
}

impl<S: Storage> exit::Guest for Results<S> {
    fn exit(_: Result<(), ()>) {
        end()
    }

    fn exit_with_code(_: u8) {
        end()
    }
}

impl<S: Storage> stdin::Guest for Results<S> {
    fn get_stdin() -> streams::InputStream {
        streams::InputStream::new(InputStream::<S>::empty())
    }
}

impl<S: Storage> stdout::Guest for Results<S> {
    fn get_stdout() -> streams::OutputStream {
        streams::OutputStream::new(OutputStream::<S>::sink())
    }
}

impl<S: Storage> stderr::Guest for Results<S> {
    fn get_stderr() -> streams::OutputStream {
        streams::OutputStream::new(OutputStream::<S>::sink())
    }
}

impl terminal_input::GuestTerminalInput for Terminal {}

impl terminal_output::GuestTerminalOutput for Terminal {}

impl<S: Storage> terminal_input::Guest for Results<S> {
    type TerminalInput = Terminal;
}

impl<S: Storage> terminal_output::Guest for Results<S> {
    type TerminalOutput = Terminal;
}

impl<S: Storage> terminal_stdin::Guest for Results<S> {
    fn get_terminal_stdin() -> Option<terminal_input::TerminalInput> {
        None
    }
}

impl<S: Storage> terminal_stdout::Guest for Results<S> {
    fn get_terminal_stdout() -> Option<terminal_output::TerminalOutput> {
        None
    }
}

impl<S: Storage> terminal_stderr::Guest for Results<S> {
    fn get_terminal_stderr() -> Option<terminal_output::TerminalOutput> {
        None
    }
}

impl<S: Storage> wall_clock::Guest for Results<S> {
    fn now() -> wall_clock::Datetime {
        EPOCH
    }

    fn resolution() -> wall_clock::Datetime {
        wall_clock::Datetime { seconds: 1, nanoseconds: 0 }
    }
}

impl<S: Storage> monotonic_clock::Guest for Results<S> {
    fn now() -> monotonic_clock::Instant {
        0
    }

    fn resolution() -> monotonic_clock::Duration {
        1
    }

    fn subscribe_instant(_: monotonic_clock::Instant) -> streams::Pollable {
        streams::Pollable::new(Ready)
    }

    fn subscribe_duration(_: monotonic_clock::Duration) -> streams::Pollable {
        streams::Pollable::new(Ready)
    }
}

impl<S: Storage> random::Guest for Results<S> {
    fn get_random_bytes(length: u64) -> Vec<u8> {
        bytes::<S>(length)
    }

    fn get_random_u64() -> u64 {
        number::<S>()
    }
}

impl<S: Storage> insecure::Guest for Results<S> {
    fn get_insecure_random_bytes(length: u64) -> Vec<u8> {
        bytes::<S>(length)
    }

    fn get_insecure_random_u64() -> u64 {
        number::<S>()
    }
}

impl<S: Storage> insecure_seed::Guest for Results<S> {
    fn insecure_seed() -> (u64, u64) {
        (number::<S>(), number::<S>())
    }
}
