//! Starts servers isolated: with hidden directories and files, or as another user.
//!
//! The embedding program provides a single-threaded launcher, which calls [`enter`] and then executes the server. It
//! creates a mount namespace; without root, also a user namespace that contains only this user. An empty directory is
//! mounted over each hidden directory, and `/dev/null` over each hidden file. The server cannot undo that: it gets no
//! capability to do so, not even through programs that it runs (`no_new_privs`), and mounts that a namespace inherits
//! are locked.
//!
//! Other systems than Linux have no mount namespaces: every attempt is an error there.

use std::ffi::OsString;
use std::path::PathBuf;

pub use self::system::enter;

#[cfg_attr(target_os = "linux", path = "linux.rs")]
#[cfg_attr(not(target_os = "linux"), path = "unsupported.rs")]
mod system;

/// How a server is isolated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Isolation {
    /// The launcher, a program that calls [`enter`].
    pub program: PathBuf,
    /// Its first arguments. `--hide PATH` for each of `hidden`, `--user UID:GID`, `--` and the command of the server
    /// are appended.
    pub arguments: Vec<OsString>,
    /// Absolute paths of directories and files to hide. Missing ones are ignored.
    pub hidden: Vec<PathBuf>,
    /// User of the server. `None`: that of this process. Requires root.
    pub user: Option<ServerUser>,
}

/// A user and a group, the only one of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerUser {
    /// User id.
    pub uid: u32,
    /// Group id.
    pub gid: u32,
}
