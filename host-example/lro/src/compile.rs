//! `lro compile`, hidden: the child process that compiles a component for a gateway, within limits of its own.

use std::io;

use clap::Args;
use lro_host::policy::compile_as_child;

use crate::exit::Exit;

/// Compile the component on the standard input to code on the standard output
#[derive(Args)]
pub(crate) struct Arguments {
    /// Whether the code counts instructions
    #[arg(long)]
    fuel: bool,
    /// Most bytes of address space
    memory_bytes: u64,
    /// Most seconds of processor time
    seconds: u64,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { fuel, memory_bytes, seconds } = *arguments;
    compile_as_child(memory_bytes, seconds, fuel, io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Success)
}
