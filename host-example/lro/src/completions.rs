//! `lro completions`: the script with which a shell completes the command.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro completions bash > ~/.local/share/bash-completion/completions/lro
  lro completions fish > ~/.config/fish/completions/lro.fish
  lro completions zsh > ~/.zfunc/_lro        # a folder of fpath
  lro completions powershell >> $PROFILE";

/// Print the script with which a shell completes this command
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    output::raw(&script(arguments.shell))?;
    Ok(Exit::Success)
}

/// The script for a shell.
pub(crate) fn script(shell: Shell) -> Vec<u8> {
    let (mut command, mut script) = (crate::Arguments::command(), Vec::new());
    clap_complete::generate(shell, &mut command, "lro", &mut script);
    script
}
