//! Pipes to other processes.

#[cfg_attr(unix, path = "pipe/unix.rs")]
#[cfg_attr(windows, path = "pipe/windows.rs")]
mod system;

pub use self::system::{NonBlockingPipe, Readiness, widen_pipe};
