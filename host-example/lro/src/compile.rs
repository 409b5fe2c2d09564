//! `lro compile` (hidden): the child process that compiles a component for a gateway, within its own limits.

use std::io;

use clap::Args;
use lro_host::policy::compile_as_child;

use crate::exit::Exit;

/// Compile the component on standard input, and write the code to standard output
#[derive(Args)]
pub(crate) struct Arguments {
    /// Let the code count instructions
    #[arg(long)]
    fuel: bool,
    /// Maximum address space in bytes
    memory_bytes: u64,
    /// Maximum processor time in seconds
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { fuel, memory_bytes, seconds } = *arguments;
    compile_as_child(memory_bytes, seconds, fuel, io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Success)
}
