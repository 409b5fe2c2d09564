//! Signals that end the command, or have it load its configuration again.

#[cfg_attr(unix, path = "signals/unix.rs")]
#[cfg_attr(windows, path = "signals/windows.rs")]
mod system;

pub(crate) use self::system::{Signals, survive_limit_of_file_size};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    End,
    Reload,
}
