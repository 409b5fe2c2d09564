//! `lro offload`: one result through the policy in force, and what goes on in its place.

use bytes::Bytes;
use clap::Args;
use lro_gateway::settings::Config;
use lro_host::filter::{Decision, Outcome};
use lro_host::mcp;

use crate::exit::{self, Exit};
use crate::flags::CallArguments;
use crate::input::Input;
use crate::output::{self, Terminal};
use crate::report::Report;
use crate::{host, truncate};

const EXAMPLES: &str = "Examples:
  lro offload result.json                      the reply, or the descriptor of plain input, goes to stdout
  lro offload --report < rows.json             and what happened to stderr
  lro offload --json --mode always rows.json | jq -r '.files[].path'
  lro offload --as text --reader shell,extract build.log
  lro offload --action truncate --unit bytes --threshold 4096 rows.json";

/// Put one result through the policy, and print what goes on in its place
///
/// For a tool result that is the reply. For other input it is the input itself, the descriptor, or the truncated text;
/// the advice of a rejection goes to stderr.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    call: CallArguments,
    /// Print one line of JSON about what happened; the reply is its member `reply`, null when the input goes on unchanged
    #[arg(long)]
    json: bool,
    /// Also tell what happened on stderr: verdict, tokens, files, time
    #[arg(long)]
    report: bool,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    // Switched off, no policy is even loaded.
    let policy = if config.enabled { Some(host::policy(config)?) } else { None };
    let input = Input::read(&arguments.call)?;
    let is_error = input.tool_result().is_some_and(|tool_result| tool_result.is_error());
    let asked =
        policy.as_ref().filter(|_| !input.tool_result().is_some_and(|tool_result| tool_result.not_for_policy()));
    let mut decision = match asked {
        Some(policy) => {
            let request = host::request(&arguments.call, config, is_error);
            let _progress = input.policy_progress();
            host::filter(config, policy.clone(), host::store(config)).apply(&request, input.payload())
        }
        None => Decision { outcome: Outcome::Pass, inspect: None, write: None, failure: None },
    };
    let failure = decision.failure.take().map(|error| anyhow::Error::new(error).context(describe(&decision.outcome)));
    let reply = reply(&input, &decision.outcome);
    let mut report = None;
    if arguments.json || arguments.report {
        let mut facts = Report::new(verdict(&decision.outcome), &input.bytes(), policy.as_ref());
        facts.decided(&decision, failure.as_ref().map(|failure| format!("{failure:#}")));
        if !matches!(decision.outcome, Outcome::Fail(_)) {
            facts.replied(reply.as_deref());
        }
        report = Some(facts);
    }
    if let Some(report) = report.as_ref().filter(|_| arguments.report) {
        terminal.message(report.for_people().trim_end());
    }
    match report.filter(|_| arguments.json) {
        Some(report) => output::json(&report)?,
        None => print(&input, &decision.outcome, reply.as_deref())?,
    }
    finish(&input, &decision.outcome, failure, terminal)
}

/// What goes on in the place of the input; `None` when the input does.
fn reply(input: &Input, outcome: &Outcome) -> Option<Bytes> {
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

/// Says what people should know, and how it ended.
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

/// The outcome in one word.
pub(crate) fn verdict(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Pass => "pass",
        Outcome::Offload(_) => "offload",
        Outcome::Truncate { .. } => "truncate",
        Outcome::Reject(_) => "reject",
        Outcome::Fail(_) => "fail",
    }
}

/// What the failure mode made of a failure.
fn describe(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Truncate { .. } => "the result was truncated, because it could not be written to files",
        Outcome::Pass => "the result passed unchanged, because it could not be filtered",
        _ => "the result could not be filtered",
    }
}
