//! `lro compose`: a policy and what a host does around it, as one component.

use std::num::NonZeroU64;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, ValueEnum};
use lro_host::compose::{self, FILES, FILTER, compose};
use lro_meter::metered;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro compose my-policy.wasm -o filter.wasm
  lro compose my-policy.wasm -o filter.wasm --files directory
  lro compose my-policy.wasm -o filter.wasm --fuel 4000000000";

/// Compose a policy with what a host does around it, into one component for any runtime of components
///
/// The component takes results apart, asks the policy, and puts replies together. Prints what it imports and exports.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The policy, a component
    file: PathBuf,
    /// Where to write the composed component
    #[arg(long, short)]
    output: PathBuf,
    /// Where the component keeps the files of an offload
    #[arg(long, value_enum, default_value = "memory")]
    files: Files,
    /// Instructions that the policy may execute in a call, counted by instructions put into it: for runtimes that have no
    /// limit of their own. None: not counted
    #[arg(long, value_name = "INSTRUCTIONS")]
    fuel: Option<NonZeroU64>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Files {
    /// In memory; it imports nothing
    Memory,
    /// In the directory that its host preopens
    Directory,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { file, output, files, fuel } = arguments;
    let files = match files {
        Files::Memory => compose::Files::Memory,
        Files::Directory => compose::Files::Directory,
    };
    let mut bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if let Some(fuel) = fuel {
        bytes = metered(&bytes, *fuel).with_context(|| format!("cannot meter {}", file.display()))?;
    }
    let composed = compose(&bytes, files).with_context(|| format!("cannot compose {}", file.display()))?;
    let imports = compose::imports(&composed)?;
    std::fs::write(output, &composed).with_context(|| format!("cannot write {}", output.display()))?;
    let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
    let size = composed.len();
    let text = format!("{}: {size} bytes\nimports  {imports}\nexports  {FILTER}, {FILES}\n", output.display());
    output::data(text.as_bytes())?;
    Ok(Exit::Success)
}
