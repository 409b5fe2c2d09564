//! `lro compose`: a policy and what a host does around it, as one component.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use lro_handler::act::{Limits, TOOLS, act};
use lro_handler::{FORWARD, HANDLER, middleware};
use lro_host::compose::{self, FILES, FILTER, MESSAGES, compose};
use lro_host::settings::FilterSettings;
use lro_meter::{Ending, Endings, MeterError, answering, metered};

use crate::exit::Exit;
use crate::output::{self, Terminal};

const EXAMPLES: &str = "Examples:
  lro compose my-policy.wasm -o filter.wasm
  lro compose my-policy.wasm -o filter.wasm --files directory
  lro compose my-policy.wasm -o filter.wasm --fuel 4000000000
  lro compose my-policy.wasm -o edge.wasm --http edge
  lro compose my-policy.wasm -o served.wasm --http my-server.wasm
  lro compose my-policy.wasm -o tools.wasm --act my-tools.wasm --act-dir /var/lib/lro
  lro compose my-policy.wasm -o reader.wasm --act reader --act-dir /var/lib/lro";

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
    /// limit of their own. None: not counted. With --http, a policy that needs more or panics is an error, about which `failure`
    /// decides; else it traps
    #[arg(long, value_name = "INSTRUCTIONS")]
    fuel: Option<NonZeroU64>,
    /// Make it a component that handles HTTP, before what it says: `middleware` for what its host puts behind it, `edge` for the
    /// URL in its variable LRO_UPSTREAM, or the file of a component that exports wasi:http/handler@0.3.0
    #[arg(long, value_name = "middleware|edge|FILE")]
    http: Option<PathBuf>,
    /// Make it a component with tools for ACT: those of a component whose results it filters, and those that read the offloads, or
    /// with `reader` the latter alone
    #[arg(long, value_name = "reader|FILE", requires = "act_dir", conflicts_with_all = ["http", "files"])]
    act: Option<PathBuf>,
    /// With --act: the directory of the offloads, an absolute path
    #[arg(long, value_name = "DIR", requires = "act")]
    act_dir: Option<PathBuf>,
    /// With --act: the settings of the policy, a JSON object
    #[arg(long, value_name = "JSON", requires = "act", default_value = "{}", value_parser = settings)]
    act_settings: String,
    /// With --act: most bytes of a result that comes as a stream
    #[arg(long, value_name = "BYTES", requires = "act", default_value_t = Limits::default().result_bytes)]
    act_result_bytes: NonZeroU64,
    /// With --act: most bytes of the files in the directory; the oldest offloads go first
    #[arg(long, value_name = "BYTES", requires = "act", default_value_t = Limits::default().store_bytes)]
    act_store_bytes: NonZeroU64,
    /// With --act: most offloads in the directory; the oldest go first
    #[arg(long, value_name = "COUNT", requires = "act", default_value_t = Limits::default().store_offloads)]
    act_store_offloads: NonZeroU32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Files {
    /// In memory; it imports nothing
    Memory,
    /// In the directory that its host preopens
    Directory,
}

/// Settings that the component will understand.
fn settings(json: &str) -> Result<String, String> {
    FilterSettings::parse(json).map(|_| json.to_owned())
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> anyhow::Result<Exit> {
    let Arguments { file, output, files, fuel, http, act, act_dir, .. } = arguments;
    let files = match files {
        Files::Memory if act.is_none() => compose::Files::Memory,
        _ => compose::Files::Directory,
    };
    let mut bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    if let Some(fuel) = *fuel {
        let bounded = if http.is_some() { answered(&bytes, fuel, terminal) } else { metered(&bytes, fuel) };
        bytes = bounded.with_context(|| format!("cannot meter {}", file.display()))?;
    }
    let mut composed = compose(&bytes, files).with_context(|| format!("cannot compose {}", file.display()))?;
    let mut exports = [FILTER, MESSAGES, FILES].join(", ");
    if let Some(server) = http {
        composed = handler(&composed, files, server)?;
        exports = HANDLER.to_owned();
    }
    if let (Some(tools), Some(directory)) = (act, act_dir) {
        composed = with_tools(&composed, tools, directory, arguments)?;
        exports = TOOLS.to_owned();
    }
    let imports = compose::imports(&composed)?;
    std::fs::write(output, &composed).with_context(|| format!("cannot write {}", output.display()))?;
    let imports = if imports.is_empty() { "nothing".to_owned() } else { imports.join(", ") };
    let size = composed.len();
    let text = format!("{}: {size} bytes\nimports  {imports}\nexports  {exports}\n", output.display());
    output::data(text.as_bytes())?;
    Ok(Exit::Success)
}

/// The policy, which answers where its fuel is used up or it panics, if it can.
fn answered(policy: &[u8], fuel: NonZeroU64, terminal: &Terminal) -> Result<Vec<u8>, MeterError> {
    let exhausted = format!("the policy executed more than {fuel} instructions (limit fuel)");
    let endings = Endings {
        exhausted: Ending { case: "limit", text: &exhausted },
        unreachable: Ending { case: "other", text: "the policy panicked" },
    };
    match answering(policy, fuel, &endings) {
        Err(error @ MeterError::Answer(_)) => {
            let advice = "the runtime answers a call of a policy that needs more with status 500";
            terminal.warning(&format!("{error}: {advice}"));
            metered(policy, fuel)
        }
        answered => answered,
    }
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

/// The component with the tools of a file, or with `reader` those that read offloads alone.
fn with_tools(filter: &[u8], tools: &Path, directory: &Path, arguments: &Arguments) -> anyhow::Result<Vec<u8>> {
    let of_file = match tools.to_str() {
        Some("reader") => None,
        _ => Some(std::fs::read(tools).with_context(|| format!("cannot read {}", tools.display()))?),
    };
    let limits = Limits {
        result_bytes: arguments.act_result_bytes,
        store_bytes: arguments.act_store_bytes,
        store_offloads: arguments.act_store_offloads,
    };
    act(filter, of_file.as_deref(), directory, &arguments.act_settings, &limits)
        .with_context(|| format!("cannot compose with {}", tools.display()))
}
