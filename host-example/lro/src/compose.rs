//! `lro compose`: a policy and what a host does around it, as one component.

use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use lro_handler::{FORWARD, HANDLER, middleware};
use lro_host::compose::{self, FILES, FILTER, compose};
use lro_meter::metered;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro compose my-policy.wasm -o filter.wasm
  lro compose my-policy.wasm -o filter.wasm --files directory
  lro compose my-policy.wasm -o filter.wasm --fuel 4000000000
  lro compose my-policy.wasm -o edge.wasm --http edge
  lro compose my-policy.wasm -o served.wasm --http my-server.wasm";

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
    /// Make it a component that handles HTTP, before what it says: `middleware` for what its host puts behind it, `edge` for the
    /// URL in its variable LRO_UPSTREAM, or the file of a component that exports wasi:http/handler@0.3.0
    #[arg(long, value_name = "middleware|edge|FILE")]
    http: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Files {
    /// In memory; it imports nothing
    Memory,
    /// In the directory that its host preopens
    Directory,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Exit> {
    let Arguments { file, output, files, fuel, http } = arguments;
    let files = match files {
        Files::Memory => compose::Files::Memory,
        Files::Directory => compose::Files::Directory,
    };
    let mut bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if let Some(fuel) = fuel {
        bytes = metered(&bytes, *fuel).with_context(|| format!("cannot meter {}", file.display()))?;
    }
    let mut composed = compose(&bytes, files).with_context(|| format!("cannot compose {}", file.display()))?;
    let mut exports = format!("{FILTER}, {FILES}");
    if let Some(server) = http {
        composed = handler(&composed, files, server)?;
        exports = HANDLER.to_owned();
    }
    let imports = compose::imports(&composed)?;
    std::fs::write(output, &composed).with_context(|| format!("cannot write {}", output.display()))?;
    let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
    let size = composed.len();
    let text = format!("{}: {size} bytes\nimports  {imports}\nexports  {exports}\n", output.display());
    output::data(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The component that handles HTTP, before `middleware`, `edge`, or a file.
fn handler(filter: &[u8], files: compose::Files, server: &Path) -> anyhow::Result<Vec<u8>> {
    let of_file;
    let behind = match server.to_str() {
        Some("middleware") => None,
        Some("edge") => Some(FORWARD),
        _ => {
            of_file = std::fs::read(server).with_context(|| format!("cannot read {}", server.display()))?;
            Some(of_file.as_slice())
        }
    };
    middleware(filter, files, behind).with_context(|| format!("cannot compose with {}", server.display()))
}
