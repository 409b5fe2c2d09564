//! `lro generate` (hidden): what packages of the command bring beside it, and what it is built with for them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, CommandFactory, Subcommand};
use clap_complete::Shell;
use lro_host::documents::DOCUMENT_COMPONENT;
use lro_host::extract::{EXTRACT_COMPONENT, SQL_COMPONENT};
use lro_host::policy::{DEFAULT_POLICY, compile_ahead};

use crate::completions;
use crate::exit::Exit;

/// The components that the command runs, by the names of their files.
const COMPONENTS: [(&str, &[u8]); 4] = [
    ("lro_policy", DEFAULT_POLICY),
    ("lro_extract", EXTRACT_COMPONENT),
    ("lro_extract_sql", SQL_COMPONENT),
    ("lro_document_text", DOCUMENT_COMPONENT),
];

/// Shells that packages bring completions for.
const SHELLS: [Shell; 3] = [Shell::Bash, Shell::Fish, Shell::Zsh];

/// Write files that packages of this command are made of
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    files: Files,
}

#[derive(Subcommand)]
enum Files {
    /// Pages of the manual, one for each subcommand
    Man {
        /// Where to write them
        directory: PathBuf,
    },
    /// Completions of shells, each named as its shell looks for it
    Completions {
        /// Where to write them
        directory: PathBuf,
    },
    /// The components compiled for a target: the directory that LRO_COMPILED names when the command is built for it
    Compiled {
        /// The target, such as x86_64-unknown-linux-musl
        target: String,
        /// Where to write them
        directory: PathBuf,
    },
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    match &arguments.files {
        Files::Man { directory } => {
            make(directory)?;
            clap_mangen::generate_to(crate::Arguments::command(), directory)
                .with_context(|| format!("cannot write to `{}`", directory.display()))?;
        }
        Files::Completions { directory } => {
            make(directory)?;
            for shell in SHELLS {
                let name = match shell {
                    Shell::Fish => "lro.fish",
                    Shell::Zsh => "_lro",
                    _ => "lro",
                };
                write(&directory.join(name), &completions::script(shell))?;
            }
        }
        Files::Compiled { target, directory } => {
            make(directory)?;
            for (name, component) in COMPONENTS {
                write(&directory.join(name).with_extension("cwasm"), &compile_ahead(component, target)?)?;
            }
        }
    }
    Ok(Exit::Success)
}

fn make(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("cannot create `{}`", directory.display()))
}

fn write(file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(file, bytes).with_context(|| format!("cannot write `{}`", file.display()))
}
