use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use signal_hook::consts::{SIGINT, SIGTERM};

use super::Signal;

/// How often to look for a signal.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Signals that no longer do what they do by default.
pub(crate) struct Signals(Arc<AtomicBool>);

impl Signals {
    /// Ctrl-C and SIGTERM, which only a process itself can send.
    pub(crate) fn of_ends() -> io::Result<Self> {
        let has_come = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&has_come))?;
        }
        Ok(Self(has_come))
    }

    /// The same: no signal means to reload.
    pub(crate) fn of_ends_and_reloads() -> io::Result<Self> {
        Self::of_ends()
    }

    /// Waits for the next one.
    pub(crate) fn next(&mut self) -> Signal {
        while !self.0.swap(false, Ordering::Relaxed) {
            thread::sleep(POLL_INTERVAL);
        }
        Signal::End
    }
}

/// Does nothing: there is no such limit.
pub(crate) fn survive_limit_of_file_size() -> io::Result<()> {
    Ok(())
}
