//! `lro compile`, hidden: the child process that compiles a component for a gateway, within limits of its own.

use std::io;

use clap::Args;
use lro_host::policy::compile_as_child;

use crate::exit::Exit;

/// Compile the component on the standard input to code on the standard output
#[derive(Args)]
pub(crate) struct Arguments {
    /// Most bytes of address space
    memory_bytes: u64,
    /// Most seconds of processor time
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    compile_as_child(arguments.memory_bytes, arguments.seconds, io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Success)
}
