//! `lro inspect`: prints the verdict only.

use clap::Args;
use lro_gateway::settings::Config;
use lro_host::filter::verdict_name;
use lro_host::sandbox::Verdict;
use lro_host::store::StoreError;

use crate::exit::Exit;
use crate::flags::CallArguments;
use crate::host;
use crate::input::Input;
use crate::output::{self, Terminal};
use crate::report::Report;

const EXAMPLES: &str = "Examples:
  lro inspect result.json
  lro inspect --preset 25k --tool search result.json
  lro inspect --json - < rows.json | jq .size";

/// Print the verdict on one result: pass, offload, truncate or reject. Writes no files
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    call: CallArguments,
    /// Print one line of JSON, as `lro offload --json`
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    let policy = if config.enabled { Some(host::policy(config, &arguments.call.tenant)?) } else { None };
    let input = Input::read(&arguments.call, terminal)?;
    let tool_result = input.tool_result();
    let asked = policy.as_ref().filter(|_| !tool_result.is_some_and(|tool_result| tool_result.not_for_policy()));
    let is_error = tool_result.is_some_and(|tool_result| tool_result.is_error());
    let (verdict, cost) = match asked {
        Some(policy) => {
            let request = host::request(&arguments.call, config, is_error);
            let _progress = input.policy_progress();
            // Nothing is written, so no store is needed.
            let no_store = Err(StoreError::NotFound { path: config.dir.clone() });
            let (verdict, cost) = host::filter(config, policy.clone(), no_store)?.inspect(&request, input.payload())?;
            (verdict, Some(cost))
        }
        None => (Verdict::Pass, None),
    };
    let word = verdict_name(&verdict);
    if arguments.json {
        let mut report = Report::new(word, &input.bytes(), policy.as_ref());
        if let Some(cost) = cost {
            report.set_inspect_cost(cost);
        }
        output::json(&report)?;
    } else {
        output::text(&format!("{word}\n"))?;
    }
    let Verdict::Reject(advice) = verdict else { return Ok(Exit::Success) };
    terminal.message(&advice);
    Ok(Exit::Rejected)
}
