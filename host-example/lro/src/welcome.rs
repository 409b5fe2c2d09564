//! What `lro` alone says on a terminal.

use std::io::{self, IsTerminal};

use crate::output;

const WELCOME: &str = "lro keeps large tool results out of a model's context. What to do first:

  lro setup              put the gateway before the MCP servers of the clients on this machine
  lro doctor -- SERVER   see what it saves with one server
  lro serve DIRECTORY    let a client ask about the files in a directory
  lro offload FILE       try it on a file
  lro self-check         see what works on this machine

`lro --help` lists all there is.
";

/// Shows what to do first, if there is nobody but a person to read it. Returns whether it did.
pub(crate) fn shown() -> io::Result<bool> {
    let is_for_person = std::env::args_os().len() <= 1 && io::stdout().is_terminal() && io::stderr().is_terminal();
    if is_for_person {
        output::text(WELCOME)?;
    }
    Ok(is_for_person)
}
