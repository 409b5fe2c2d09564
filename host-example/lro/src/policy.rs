//! `lro policy`: checks a policy, runs it on a recorded result, pulls and pushes one, manages those of a running gateway.

use std::path::PathBuf;

use anyhow::Context;
use clap::{Args, Subcommand};
use lro_gateway::parts;
use lro_gateway::settings::{Config, FailureMode};
use lro_host::filter::{Filter, Outcome};
use lro_host::policy::{INERT_IMPORTS, Policy, WORLD};
use lro_host::store::{Store, StoreConfig, rfc3339};
use tempfile::TempDir;

use crate::exit::Exit;
use crate::flags::CallArguments;
use crate::input::Input;
use crate::output::{self, Terminal};
use crate::report::Report;
use crate::{admin, artifact, host, offload};

const CHECK_EXAMPLES: &str = "Examples:
  lro policy check my-policy.wasm
  lro policy check --policy-sha256 \"$(sha256sum < my-policy.wasm | cut -d' ' -f1)\" my-policy.wasm
  lro policy check --json my-policy.wasm | jq -r '.imports[]'";

const RUN_EXAMPLES: &str = "Examples:
  lro policy run result.json
  lro policy run --policy my-policy.wasm --mode always --keep out result.json";

const EXAMPLES: &str = "Examples:
  lro policy check my-policy.wasm
  lro policy run --policy my-policy.wasm result.json
  lro policy push my-policy.wasm oci://ghcr.io/team/policy:1.4.0
  lro policy list --gateway http://127.0.0.1:9808
  lro policy load acme my-policy.wasm
  lro policy load acme oci://ghcr.io/team/policy:1.4.0
  lro policy rollback acme";

/// Check a policy component, run it on a recorded result, pull or push one, or manage the policies of a running gateway
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(CheckArguments),
    Run(RunArguments),
    Pull(artifact::PullArguments),
    Push(artifact::PushArguments),
    List(admin::ListArguments),
    Load(admin::LoadArguments),
    Swap(admin::SwapArguments),
    Rollback(admin::RollbackArguments),
    Reload(admin::ReloadArguments),
}

/// Load a component as a policy and print its properties, or the first error
#[derive(Args)]
#[command(after_help = CHECK_EXAMPLES)]
struct CheckArguments {
    /// The component: a file, or `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`
    #[arg(value_name = "FILE")]
    component: PathBuf,
    /// Print one line of JSON: {"world", "version", "imports", "sha256", "bytes", "compile_micros", "signed"}
    #[arg(long)]
    json: bool,
}

/// Run the policy on one recorded result, and print verdict, time, memory, files, and the reply
///
/// The policy writes to a temporary directory, which is removed afterwards. A failure of the policy is an error,
/// whatever the failure mode.
#[derive(Args)]
#[command(after_help = RUN_EXAMPLES)]
struct RunArguments {
    #[command(flatten)]
    call: CallArguments,
    /// Write to this directory, and keep the files
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Print one line of JSON, as `lro offload --json`
    #[arg(long)]
    json: bool,
}

/// Properties of a policy.
#[derive(serde::Serialize)]
struct Checked<'a> {
    world: &'static str,
    version: &'a str,
    imports: &'a [String],
    sha256: String,
    bytes: u64,
    compile_micros: u128,
    /// What its signature says. None without keys that check it.
    signed: Signed,
}

/// The words of a trusted comment.
#[derive(serde::Serialize)]
struct Signed {
    tenant: Option<String>,
    version: Option<String>,
    expires: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    match &arguments.command {
        Command::Check(arguments) => check(arguments, config),
        Command::Run(arguments) => run_recorded(arguments, config, terminal),
        Command::Pull(arguments) => artifact::pull(arguments, config),
        Command::Push(arguments) => artifact::push(arguments, config),
        Command::List(arguments) => admin::list(arguments, config),
        Command::Load(arguments) => admin::load(arguments, config),
        Command::Swap(arguments) => admin::swap(arguments, config),
        Command::Rollback(arguments) => admin::rollback(arguments, config),
        Command::Reload(arguments) => admin::reload(arguments, config),
    }
}

fn check(arguments: &CheckArguments, config: &Config) -> anyhow::Result<Exit> {
    // Without a cache, because the output includes the compile time.
    let source = host::source(&arguments.component.clone().try_into()?, config)?;
    let policy = Policy::load(&parts::small_sandbox(false)?, &source, &host::load_options(config, false)?)?;
    let checked = Checked {
        world: WORLD,
        version: &policy.contract().version,
        imports: &policy.contract().imports,
        sha256: policy.digest().to_string(),
        bytes: policy.bytes(),
        compile_micros: policy.compile_time().unwrap_or_default().as_micros(),
        signed: Signed {
            tenant: policy.claims().tenant.clone(),
            version: policy.claims().version.as_ref().map(ToString::to_string),
            expires: policy.claims().expires.map(rfc3339),
        },
    };
    if arguments.json {
        output::json(&checked)?;
        return Ok(Exit::Success);
    }
    let mut rows = vec![("world", format!("{} of lro:filter@{}", checked.world, checked.version))];
    rows.extend(checked.imports.iter().map(|import| ("import", described(import))));
    rows.push(("SHA-256", checked.sha256));
    rows.push(("size", format!("{} bytes", checked.bytes)));
    rows.push(("compiled", format!("in {} ms", checked.compile_micros / 1000)));
    let Signed { tenant, version, expires } = checked.signed;
    let claims = [("for tenant", tenant), ("version", version), ("expires", expires)];
    rows.extend(claims.into_iter().filter_map(|(name, value)| Some((name, output::printable(&value?).into_owned()))));
    output::text(&output::columns(&rows))?;
    Ok(Exit::Success)
}

/// Describes an import, and whether it is a stub.
fn described(import: &str) -> String {
    let name = import.split_once('@').map_or(import, |(name, _)| name);
    if INERT_IMPORTS.contains(&name) { format!("{import} (stub)") } else { import.to_owned() }
}

fn run_recorded(arguments: &RunArguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    let policy = host::policy(config, &arguments.call.tenant)?;
    let input = Input::read(&arguments.call, terminal)?;
    let temporary;
    let root = match &arguments.keep {
        Some(keep) => keep.clone(),
        None => {
            temporary = TempDir::new().context("cannot create a temporary directory")?;
            // The store makes it private, whatever the umask.
            temporary.path().join("store")
        }
    };
    let store = Store::open(StoreConfig { root, bucket: None, ..parts::store_config(config) })?;
    let filter = Filter { failure: FailureMode::Closed, ..host::filter(config, policy.clone(), Ok(store))? };
    let is_error = input.tool_result().is_some_and(|tool_result| tool_result.is_error());
    let request = host::request(&arguments.call, config, is_error);
    let mut decision = filter.apply(&request, input.payload());
    if let Some(failure) = decision.failure.take() {
        return Err(failure.into());
    }
    let mut report = Report::new(decision.outcome.name(), &input.bytes(), Some(&policy));
    report.set_decision(&decision, None);
    let reply = offload::reply(&input, &decision.outcome);
    report.set_reply(reply.as_deref());
    if arguments.keep.is_none() {
        report.remove_paths();
    }
    if arguments.json {
        output::json(&report)?;
    } else {
        output::text(&report.to_table())?;
    }
    if let Outcome::Reject(advice) = &decision.outcome {
        terminal.message(advice);
        return Ok(Exit::Rejected);
    }
    if let Some(reply) = reply.filter(|_| !arguments.json) {
        output::text("\n")?;
        output::data(reply.trim_ascii_end())?;
        output::text("\n")?;
    }
    Ok(Exit::Success)
}
