//! `lro hook`: the results of an agent's own tools, filtered.
//!
//! An agent runs it after each call of a tool, with an event on standard input, and takes what it prints. Most results are
//! small: they are judged by their size, before anything is loaded.

mod agent;
mod event;
mod said;
mod texts;

use std::env;
use std::io::{self, Read, Write};
use std::sync::Arc;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use lro_gateway::settings::{ClientProfile, Config, DecisionMode, FailureMode, PolicySettings, Size};
use lro_gateway::{ToolDay, history};
use lro_host::faults;
use lro_host::filter::{Filter, Outcome, Request};
use lro_host::mcp::{self, ToolResult};
use lro_host::settings::SizeUnit;

use self::agent::{Agent, Answer};
use self::event::{Event, Output};
use crate::exit::Exit;
use crate::flags::{Ability, abilities};
use crate::host;

const EXAMPLES: &str = "Examples:
  lro setup --hooks --dry-run        what would be added to the configurations of the agents on this machine
  lro setup --hooks                  adds the hooks; --undo takes them away again
  lro hook claude <event.json        what the agent would get

It always ends with code 0: a result that cannot be filtered reaches the model as it is, and the first failure of a session \
is told to the user. With the failure mode `closed` the model gets the error in its place.";

/// Most bytes of an event, and of a file in which an agent has put a large result: 256 MiB. A larger one passes.
pub(super) const EVENT_BYTES_MAX: u64 = 256 << 20;

/// Filter the result of an agent's own tool: the command of its hook
///
/// Reads one event of the agent's hook for finished calls from standard input, and prints the answer in the agent's protocol:
/// `{}` for a result that passes, otherwise the result with the descriptor in place of its text.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// The agent
    agent: Agent,
    /// Tenant that owns the offloads
    #[arg(long, value_name = "NAME", default_value = "default")]
    tenant: String,
    /// Tools available to the agent's model, for the recipes of a descriptor
    #[arg(long, value_name = "ABILITIES", value_delimiter = ',', default_value = "shell")]
    reader: Vec<Ability>,
}

/// What is printed if the command line cannot be understood, so that the agent goes on: by an exit code that says so, some agents
/// would withhold the result. `None` if the command line is not that of a hook, or asks for help.
pub(crate) fn refused(error: &clap::Error) -> Option<Exit> {
    let mut words = env::args_os().skip(1).skip_while(|word| word.to_string_lossy().starts_with('-'));
    if !error.use_stderr() || words.next()? != "hook" {
        return None;
    }
    let agent = words.next().and_then(|word| Agent::named(&word.to_string_lossy()));
    drop(io::copy(&mut io::stdin().lock(), &mut io::sink()));
    let note = |agent: Agent| agent.noted(Answer::default(), &first_lines(&error.to_string()));
    print(&agent.map_or_else(Answer::default, note));
    drop(writeln!(io::stderr(), "{error}"));
    Some(Exit::Success)
}

/// Runs the hook. `load` reads the configuration.
pub(crate) fn run(arguments: &Arguments, load: impl FnOnce() -> anyhow::Result<Config>) -> Exit {
    let agent = arguments.agent;
    let mut session = String::new();
    let answered = faults::caught(|| answered(arguments, load, &mut session));
    let (answer, failure) = match answered {
        Ok(Ok(answered)) => answered,
        Ok(Err(error)) => (None, Some(format!("{error:#}"))),
        Err(panic) => (None, Some(format!("lro failed: {panic}"))),
    };
    let mut answer = answer.unwrap_or_default();
    if let Some(failure) = failure.filter(|_| said::is_first(agent.name(), &session)) {
        let text = format!("lro hook: {failure}; this is said once for each session");
        drop(writeln!(io::stderr(), "{text}"));
        answer = agent.noted(answer, &text);
    }
    print(&answer);
    Exit::Success
}

/// Prints an answer. An agent that does not read it any more has no use for it.
fn print(answer: &Answer) {
    drop(writeln!(io::stdout(), "{answer}"));
}

fn first_lines(text: &str) -> String {
    text.lines().take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The answer, `None` if the result passes, and what failed.
fn answered(
    arguments: &Arguments,
    load: impl FnOnce() -> anyhow::Result<Config>,
    session: &mut String,
) -> anyhow::Result<(Option<Answer>, Option<String>)> {
    let text = read()?;
    let Some(event) = Event::read(arguments.agent, &text)? else { return Ok((None, None)) };
    event.session.clone_into(session);
    let config = load()?;
    if !config.enabled || event.reads_offloads(&config.dir) {
        return Ok((None, None));
    }
    let mut filtering = Filtering::new(arguments, &config, &event);
    let answer = event.answer(|output| filtering.filtered(output))?;
    Ok((answer, filtering.failure))
}

/// The event, to its end, so that the agent does not write to a closed pipe.
fn read() -> anyhow::Result<String> {
    let mut text = Vec::new();
    let mut input = io::stdin().lock();
    input.by_ref().take(EVENT_BYTES_MAX + 1).read_to_end(&mut text).context("cannot read the event")?;
    if text.len() as u64 > EVENT_BYTES_MAX {
        drop(io::copy(&mut input, &mut io::sink()));
        anyhow::bail!("the event has more than {EVENT_BYTES_MAX} bytes");
    }
    String::from_utf8(text).context("the event is not UTF-8")
}

/// The results of one event, filtered.
struct Filtering<'a> {
    config: &'a Config,
    settings: PolicySettings,
    failure_mode: FailureMode,
    request: Request,
    /// Loaded for the first large result.
    filter: Option<Filter>,
    /// The first failure.
    failure: Option<String>,
}

impl<'a> Filtering<'a> {
    fn new(arguments: &Arguments, config: &'a Config, event: &Event<'_>) -> Self {
        let client: ClientProfile = config.for_client(arguments.agent.client(), "");
        let settings = config.for_tool_and_client(&event.tool, &client);
        let own = config.gateway_tool(&event.tool);
        let request = Request {
            session: Some(event.session.clone()),
            query: event.query(),
            abilities: abilities(&arguments.reader),
            time_to_live: own.time_to_live(),
            ..Request::new(&arguments.tenant, &event.tool)
        };
        Self { config, settings, failure_mode: own.failure, request, filter: None, failure: None }
    }

    /// A tool result in place of this one; `None` if it passes.
    fn filtered(&mut self, output: &Output) -> Option<Bytes> {
        let mut settings = self.settings.clone();
        if output.is_cut && settings.mode == DecisionMode::BySize {
            settings.mode = DecisionMode::Always;
        }
        let is_built_in = self.config.policy.is_none() && self.config.policy_dir.is_none();
        let passes = match settings.mode {
            DecisionMode::Never => true,
            DecisionMode::Always => false,
            DecisionMode::BySize => output.is_within(settings.threshold),
        };
        // Another policy may act on small results too.
        if passes && is_built_in {
            return None;
        }
        let result = match ToolResult::parse(output.result.clone()) {
            Ok(result) if !result.not_for_policy() => result,
            Ok(_) => return None,
            Err(error) => {
                self.failed(format!("cannot read the result of `{}`: {error}", self.request.tool));
                return None;
            }
        };
        let is_error = result.is_error();
        let request = Request { settings: Arc::new(settings), is_error, ..self.request.clone() };
        let outcome = self.outcome(&request, &result);
        if matches!(outcome, Outcome::Pass) {
            return None;
        }
        let reply = mcp::answer(&result, &outcome);
        self.count(ToolDay::of(&self.request.tool, output.result.len() as u64, &reply, &outcome));
        Some(reply)
    }

    /// Counts a result for `lro status --days`. Without that, the agent goes on.
    fn count(&self, result: ToolDay) {
        let Some(store) = self.filter.as_ref().and_then(|filter| filter.store.as_ref().ok()) else { return };
        if let Err(error) = history::append(store, &[result]) {
            tracing::debug!(%error, "cannot write the history of `lro status --days`");
        }
    }

    fn outcome(&mut self, request: &Request, result: &ToolResult) -> Outcome {
        match self.loaded() {
            Ok(filter) => {
                let decision = filter.apply(request, result.payload());
                let Some(failure) = decision.failure else { return decision.outcome };
                self.failed(format!("the result of `{}` passed as it is: {failure}", request.tool));
                match (self.failure_mode, decision.outcome) {
                    // What cannot be written is cut by the agent, if it is too large.
                    (FailureMode::Open, _) => Outcome::Pass,
                    (_, outcome) => outcome,
                }
            }
            Err(error) => {
                let reason = format!("{error:#}");
                let after = self.failure_mode.after(&reason, false, false);
                let outcome = Outcome::after_failure(after, &request.settings);
                self.failed(reason);
                outcome
            }
        }
    }

    fn loaded(&mut self) -> anyhow::Result<Filter> {
        if let Some(filter) = &self.filter {
            return Ok(filter.clone());
        }
        let own = self.config.gateway_tool(&self.request.tool);
        let policy = host::policy(self.config, &self.request.tenant)?;
        let filter = host::filter(self.config, policy, host::store(self.config))?;
        let filter = Filter { failure: own.failure, ..filter.for_documents(own.documents) };
        Ok(self.filter.insert(filter).clone())
    }

    fn failed(&mut self, text: String) {
        self.failure.get_or_insert(text);
    }
}

/// Whether a text in a JSON string is within a size.
fn is_within(literal: &str, size: Size) -> bool {
    // Escapes only make it longer, and no character or token is shorter than a byte.
    if literal.len() as u64 <= size.amount {
        return true;
    }
    let text = texts::text_of(literal);
    let mut measure = lro_jsonl::Measure::text();
    measure.push(&text);
    let measured = match size.unit {
        SizeUnit::Bytes => measure.bytes(),
        SizeUnit::Characters => measure.characters(),
        SizeUnit::Tokens => measure.tokens(),
    };
    measured <= size.amount
}
