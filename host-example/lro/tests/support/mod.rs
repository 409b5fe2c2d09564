//! Where tests of the command run it.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

/// A home of its own for each test. Compiled policies are shared, so that they are compiled once.
pub(crate) struct Home(pub(crate) TempDir);

impl Home {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("MCP_LRO_DIR", self.path("out")).env("XDG_CACHE_HOME", env!("CARGO_TARGET_TMPDIR"));
        command.env("LRO_LOG", "off").current_dir(self.0.path());
        command
    }

    pub(crate) fn lro(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_lro"));
        command.args(arguments);
        command
    }
}

/// What a command printed on standard error.
#[allow(dead_code, reason = "not every suite reads it")]
pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}
