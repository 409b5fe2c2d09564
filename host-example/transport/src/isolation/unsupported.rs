//! No isolation: this system has no mount namespaces.

use std::ffi::OsString;
use std::io::{self, ErrorKind, PipeReader};
use std::path::PathBuf;
use std::process::{Child, Command};

use super::{Isolation, ServerUser};
use crate::Launch;

fn unsupported() -> io::Error {
    io::Error::new(ErrorKind::Unsupported, "this system has no namespaces to isolate a server in")
}

impl Isolation {
    /// Tests the isolation with a process that exits at once.
    ///
    /// # Errors
    /// Always: a server cannot be isolated here.
    pub fn probe(&self) -> io::Result<()> {
        Err(unsupported())
    }

    pub(crate) fn spawn(&self, _: &Launch, _: &PipeReader, _: impl FnOnce(&mut Command)) -> io::Result<Child> {
        Err(unsupported())
    }
}

/// Main function of the launcher of an [`Isolation`].
///
/// # Errors
/// Always: a process cannot be isolated here.
pub fn enter(_hidden: &[PathBuf], _user: Option<ServerUser>, _command: &[OsString]) -> io::Result<()> {
    Err(unsupported())
}
