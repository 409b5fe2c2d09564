//! `lro offload`: filters one result and prints the reply.

use anyhow::anyhow;
use bytes::Bytes;
use clap::Args;
use lro_gateway::settings::Config;
use lro_host::filter::{Decision, Filter, Outcome};
use lro_host::mcp;

use crate::exit::{self, Exit};
use crate::flags::CallArguments;
use crate::input::Input;
use crate::output::{self, Terminal};
use crate::report::Report;
use crate::{host, truncate};

const EXAMPLES: &str = "Examples:
  lro offload result.json                      print the reply, or the descriptor of plain input
  lro offload --report < rows.json             also print a report to stderr
  lro extract $(lro offload --handle --mode always rows.json) --limit 5
  lro offload --json --mode always rows.json | jq -r '.files[].path'
  lro offload --as text --reader shell,extract build.log
  lro offload --action truncate --unit bytes --threshold 4096 rows.json";

/// Filter one result with the policy, and print the reply
///
/// For a tool result, prints the reply to the client. For other input, prints the input itself, the descriptor, or the
/// truncated text. The advice of a rejection goes to stderr.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    call: CallArguments,
    /// Print a report as one line of JSON; its member `reply` is the reply, or null if the input passes unchanged
    #[arg(long)]
    json: bool,
    /// Print only the handle, for the other subcommands; an error if the result is not offloaded
    #[arg(long, conflicts_with = "json")]
    handle: bool,
    /// Also print a report to stderr: verdict, tokens, files, time
    #[arg(long)]
    report: bool,
}

impl Arguments {
    /// Prints the reply or, with `handle`, the handle alone.
    pub(crate) fn new(call: CallArguments, handle: bool) -> Self {
        Self { call, json: false, handle, report: false }
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    // If disabled, do not even load the policy.
    let policy = if config.enabled { Some(host::policy(config, &arguments.call.tenant)?) } else { None };
    let input = Input::read(&arguments.call, terminal)?;
    let is_error = input.tool_result().is_some_and(|tool_result| tool_result.is_error());
    let active =
        policy.as_ref().filter(|_| !input.tool_result().is_some_and(|tool_result| tool_result.not_for_policy()));
    let mut decision = match active {
        Some(policy) => {
            let request = host::request(&arguments.call, config, is_error);
            let _progress = input.policy_progress();
            let own = config.gateway_tool(&request.tool);
            let filter = host::filter(config, policy.clone(), host::store(config))?;
            let filter = Filter { failure: own.failure, ..filter.for_documents(own.documents) };
            filter.apply(&request, input.payload())
        }
        None => Decision { outcome: Outcome::Pass, inspect: None, write: None, policy: None, failure: None },
    };
    let mut failure =
        decision.failure.take().map(|error| anyhow::Error::new(error).context(describe(&decision.outcome)));
    let reply = reply(&input, &decision.outcome);
    let mut report = None;
    if arguments.json || arguments.report {
        let mut facts = Report::new(decision.outcome.name(), &input.bytes(), policy.as_ref());
        facts.set_decision(&decision, failure.as_ref().map(|failure| format!("{failure:#}")));
        if !matches!(decision.outcome, Outcome::Fail(_)) {
            facts.set_reply(reply.as_deref());
        }
        report = Some(facts);
    }
    if let Some(report) = report.as_ref().filter(|_| arguments.report) {
        terminal.message(report.to_table().trim_end());
    }
    match report.filter(|_| arguments.json) {
        Some(report) => output::json(&report)?,
        None if arguments.handle => print_handle(&decision.outcome, &mut failure)?,
        None => print(&input, &decision.outcome, reply.as_deref())?,
    }
    finish(&input, &decision.outcome, failure, terminal)
}

/// The reply; `None` if the input passes unchanged.
pub(crate) fn reply(input: &Input, outcome: &Outcome) -> Option<Bytes> {
    let Some(tool_result) = input.tool_result() else { return plain_reply(input, outcome).map(Bytes::from) };
    match outcome {
        Outcome::Pass | Outcome::Fail(_) => None,
        _ => Some(mcp::answer(tool_result, outcome)),
    }
}

fn plain_reply(input: &Input, outcome: &Outcome) -> Option<String> {
    match outcome {
        Outcome::Pass | Outcome::Fail(_) => None,
        Outcome::Offload(offloaded) => Some(format!("{}\n", offloaded.descriptor)),
        Outcome::Truncate { truncation, warning } => {
            truncate::plain(input, truncation, warning.as_deref().unwrap_or_default())
        }
        Outcome::Reject(advice) => Some(advice.clone()),
    }
}

fn print(input: &Input, outcome: &Outcome, reply: Option<&[u8]>) -> std::io::Result<()> {
    match (outcome, reply) {
        (Outcome::Fail(_), _) => Ok(()),
        (Outcome::Reject(_), _) if input.tool_result().is_none() => Ok(()),
        (_, Some(reply)) => output::data(reply),
        (_, None) => output::data(&input.bytes()),
    }
}

/// Prints the handle. An outcome that is an error of its own prints nothing; any other without a handle fails, because of
/// `failure` if there was one.
fn print_handle(outcome: &Outcome, failure: &mut Option<anyhow::Error>) -> anyhow::Result<()> {
    let reason = match outcome {
        Outcome::Offload(offloaded) => return Ok(output::data(format!("{}\n", offloaded.offload.id()).as_bytes())?),
        Outcome::Reject(_) | Outcome::Fail(_) => return Ok(()),
        Outcome::Pass => "the result has no handle, because it passed; --mode always offloads any result",
        Outcome::Truncate { .. } => "the result has no handle, because it was truncated",
    };
    Err(failure.take().unwrap_or_else(|| anyhow!(reason)))
}

/// Prints messages, and returns the exit code.
fn finish(
    input: &Input,
    outcome: &Outcome,
    failure: Option<anyhow::Error>,
    terminal: &Terminal,
) -> anyhow::Result<Exit> {
    match (outcome, failure) {
        (Outcome::Fail(text), failure) => Err(failure.unwrap_or_else(|| anyhow::Error::msg(text.clone()))),
        (Outcome::Reject(advice), _) => {
            if input.tool_result().is_none() {
                terminal.message(advice);
            }
            Ok(Exit::Rejected)
        }
        (_, Some(failure)) => {
            terminal.warning(&format!("{failure:#}"));
            if let Some(hint) = exit::hint(&failure) {
                terminal.hint(hint);
            }
            Ok(Exit::Success)
        }
        (_, None) => Ok(Exit::Success),
    }
}

/// Effect of the failure mode.
fn describe(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Truncate { .. } => "the result was truncated because it could not be written to files",
        Outcome::Pass => "the result passed unchanged because it could not be filtered",
        _ => "the result could not be filtered",
    }
}
