//! `lro compile` (hidden): the child process that compiles a component for a gateway, within its own limits.

use std::io;

use clap::Args;
use lro_host::policy::compile_as_child;
use lro_host::sandbox::{Addressing, Code};

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
    /// How the code stays within its memory
    #[arg(value_parser = addressing)]
    addressing: Addressing,
}

fn addressing(name: &str) -> Result<Addressing, &'static str> {
    Addressing::ALL.into_iter().find(|addressing| addressing.name() == name).ok_or("no such kind of code")
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { fuel, memory_bytes, seconds, addressing } = *arguments;
    compile_as_child(memory_bytes, seconds, Code { fuel, addressing }, io::stdin().lock(), io::stdout().lock())?;
    Ok(Exit::Success)
}
