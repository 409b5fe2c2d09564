//! Exit codes, error messages and hints.

use std::io;
use std::process::ExitCode;

use lro_gateway::settings::{Problem, SettingsError};
use lro_host::extract::{ExtractError, QuestionError};
use lro_host::filter::FilterError;
use lro_host::policy::LoadError;
use lro_host::sandbox::CallError;
use lro_host::store::StoreError;

use crate::output::Terminal;

/// Help text about the exit codes.
pub(crate) const HELP: &str = "Exit codes:
  0  passed, offloaded or truncated; success
  1  error: input or output, a query without an answer, a policy that is refused or fails (failure mode `closed`)
  2  usage or configuration
  3  rejected by the policy";

/// Hint for a full disk.
const MAKE_ROOM: &str = "make room, run `lro clean`, or choose another disk with --dir or MCP_LRO_DIR";

/// Hint for an invalid configuration.
const SETTINGS: &str = "`lro --help` lists the settings; `lro config` shows where each value comes from";

/// Beginnings of keys whose values name a file or a variable.
const ELSEWHERE: [&str; 5] =
    ["config", "gateway.tokens", "gateway.admin-token", "gateway.metrics-token", "gateway.upstream-headers"];

/// Exit code of the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The result was passed, offloaded or truncated, or another subcommand succeeded. Also if the reader of standard
    /// output closes the pipe early.
    Success = 0,
    /// Input or output failed, a query has no answer, or a policy was refused or failed and the failure mode is
    /// `closed`.
    Error = 1,
    /// The command line, a query on it, or the configuration is invalid. The argument parser uses this code too.
    Usage = 2,
    /// The policy rejected the result.
    Rejected = 3,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}

/// Prints an error with its causes, and a hint if there is one.
pub(crate) fn report(error: &anyhow::Error, terminal: &Terminal) -> Exit {
    if is_closed_pipe(error) {
        return Exit::Success;
    }
    terminal.error(&format!("{error:#}"));
    if let Some(hint) = hint(error) {
        terminal.hint(hint);
    }
    if is_usage(error) { Exit::Usage } else { Exit::Error }
}

/// Whether the command line or the configuration is invalid, whatever the data. This includes invalid queries.
fn is_usage(error: &anyhow::Error) -> bool {
    let is_question = matches!(
        error.downcast_ref(),
        Some(ExtractError::Question(
            QuestionError::Invalid(_) | QuestionError::InvalidSearch(_) | QuestionError::Syntax { .. }
        ))
    );
    is_question || error.is::<SettingsError>()
}

/// Hint on how to resolve an error.
pub(crate) fn hint(error: &anyhow::Error) -> Option<&'static str> {
    error.chain().find_map(|cause| {
        if let Some(error) = cause.downcast_ref::<SettingsError>() {
            // No list of settings helps to find a file or a variable.
            let is_of_value = |problem: &Problem| !ELSEWHERE.iter().any(|key| problem.key.starts_with(key));
            return error.problems.iter().any(is_of_value).then_some(SETTINGS);
        }
        if let Some(LoadError::Pin { .. }) = cause.downcast_ref() {
            return Some("the pin comes from --policy-sha256 or MCP_LRO_POLICY_SHA256");
        }
        if let Some(ExtractError::Question(QuestionError::Ambiguous(_))) = cause.downcast_ref() {
            return Some("--section chooses one");
        }
        match cause.downcast_ref() {
            Some(FilterError::Store(error)) => store_hint(error),
            Some(FilterError::Call(error)) if error.is_no_space() => Some(MAKE_ROOM),
            Some(FilterError::Call(CallError::Trap(_))) => Some("--log debug names the functions that it was in"),
            _ => cause.downcast_ref().and_then(store_hint),
        }
    })
}

fn store_hint(error: &StoreError) -> Option<&'static str> {
    match error {
        StoreError::NoSpace { .. } => Some(MAKE_ROOM),
        StoreError::Quota { .. } => Some("raise --quota-file, --quota-tenant or --quota-total"),
        StoreError::Io { .. } | StoreError::NotFound { .. } | StoreError::UnsafeRoot { .. } => {
            Some("choose a private directory with --dir or MCP_LRO_DIR")
        }
        _ => None,
    }
}

/// Only standard output can fail this way: everything else is files.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe))
}
