//! A child and the processes that it starts.

#[cfg_attr(unix, path = "group/unix.rs")]
#[cfg_attr(windows, path = "group/windows.rs")]
mod system;

pub use self::system::Group;
