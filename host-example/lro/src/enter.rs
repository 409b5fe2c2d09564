//! `lro enter` (hidden): the launcher of an isolated server, which cannot see the gateway's files.
//!
//! It reads its arguments itself, as to make ready for those of all subcommands takes longer than the launch.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use lro_transport::{ServerUser, enter};

use crate::exit::Exit;

const NAME: &str = "enter";

/// Hide directories and files, and execute a command
#[derive(Parser)]
#[command(name = NAME)]
struct Arguments {
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

/// Whether the command line asks for it.
pub(crate) fn is_asked() -> bool {
    env::args_os().nth(1).is_some_and(|first| first == NAME)
}

pub(crate) fn run() -> Exit {
    let arguments = Arguments::parse_from(env::args_os().skip(1));
    let Err(error) = enter(&arguments.hide, arguments.user, &arguments.command) else { return Exit::Success };
    // The gateway includes it in its own error.
    eprintln!("{error}");
    Exit::Error
}

fn user(text: &str) -> Result<ServerUser, String> {
    let ids = text.split_once(':').and_then(|(uid, gid)| Some((uid.parse().ok()?, gid.parse().ok()?)));
    ids.map(|(uid, gid)| ServerUser { uid, gid }).ok_or_else(|| "expected UID:GID".to_owned())
}
