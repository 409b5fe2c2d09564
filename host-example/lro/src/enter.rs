//! `lro enter` (hidden): the launcher of an isolated server, which cannot see the gateway's files.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use lro_transport::{ServerUser, enter};

use crate::exit::Exit;

/// Hide directories and files, and execute a command
#[derive(Args)]
pub(crate) struct Arguments {
    /// Directory or file to hide
    #[arg(long)]
    hide: Vec<PathBuf>,
    /// User and group of the command: UID:GID
    #[arg(long, value_parser = user)]
    user: Option<ServerUser>,
    /// The command; without it, only test the isolation
    #[arg(last = true)]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Exit {
    let Err(error) = enter(&arguments.hide, arguments.user, &arguments.command) else { return Exit::Success };
    // The gateway includes it in its own error.
    eprintln!("{error}");
    Exit::Error
}

fn user(text: &str) -> Result<ServerUser, String> {
    let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    ids.map(|(uid, gid)| ServerUser { uid, gid }).ok_or_else(|| "expected UID:GID".to_owned())
}
