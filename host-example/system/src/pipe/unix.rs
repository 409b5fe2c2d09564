use std::io::{self, PipeWriter, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 1 << 20;

/// The end of a pipe to write to, which never waits for the reader.
#[derive(Debug)]
pub struct NonBlockingPipe(PipeWriter);

/// Waits until such a pipe has room.
#[derive(Debug)]
pub struct Readiness(OwnedFd);

impl NonBlockingPipe {
    /// Takes a pipe. Windows: and writes to it on a thread.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn new(pipe: PipeWriter) -> io::Result<(Self, Readiness)> {
        fcntl_setfl(&pipe, fcntl_getfl(&pipe)? | OFlags::NONBLOCK)?;
        let readiness = Readiness(pipe.as_fd().try_clone_to_owned()?);
        Ok((Self(pipe), readiness))
    }

    /// Writes as much as there is room for, and returns how much that is.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) when there is no room; [`BrokenPipe`](io::ErrorKind::BrokenPipe) when the
    /// reader is gone.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes)
    }
}

impl Readiness {
    /// Waits until there may be room, at most so long.
    pub fn wait(&self, timeout: Duration) {
        let mut ready = [PollFd::new(&self.0, PollFlags::OUT)];
        let _ = poll(&mut ready, Timespec::try_from(timeout).ok().as_ref());
    }
}

/// Enlarges a pipe to 1 MiB, so that a large message needs fewer context switches. Does nothing if it is not a pipe or
/// the system refuses. macOS: does nothing, as the system sizes pipes by what goes through them; Windows: does nothing.
pub fn widen_pipe(pipe: impl AsFd) {
    #[cfg(target_os = "linux")]
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
    #[cfg(not(target_os = "linux"))]
    let _ = pipe;
}
