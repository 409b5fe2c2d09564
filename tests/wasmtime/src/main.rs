//! The command `wasmtime serve`, as its crate has it.

use clap::Parser;
use wasmtime_cli::commands::ServeCommand;

fn main() -> wasmtime::Result<()> {
    ServeCommand::parse().execute()
}
