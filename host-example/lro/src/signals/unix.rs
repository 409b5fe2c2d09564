use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGXFSZ};
use signal_hook::iterator;

use super::Signal;

/// Signals that no longer do what they do by default.
pub(crate) struct Signals(iterator::Signals);

impl Signals {
    /// Ctrl-C and SIGTERM.
    pub(crate) fn of_ends() -> io::Result<Self> {
        iterator::Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// Those, and SIGHUP.
    pub(crate) fn of_ends_and_reloads() -> io::Result<Self> {
        iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map(Self)
    }

    /// Waits for the next one.
    pub(crate) fn next(&mut self) -> Signal {
        match self.0.forever().next() {
            Some(SIGHUP) => Signal::Reload,
            _ => Signal::End,
        }
    }
}

/// By default, a signal kills the process when a write exceeds the system's limit on file size. With a handler, the write
/// fails instead, and the failure mode applies.
pub(crate) fn survive_limit_of_file_size() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}
