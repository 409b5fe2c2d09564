//! The command `lro`: filters results, queries offloads, runs the gateway, and manages policies and the store.

mod admin;
mod artifact;
mod audit;
mod clean;
mod clients;
mod collect;
mod compile;
mod completions;
mod compose;
mod config;
mod destination;
mod doctor;
mod enter;
mod exchange;
mod exit;
mod extract;
mod file_system;
mod flags;
mod format;
mod gateway;
mod generate;
mod handle;
mod hook;
mod host;
mod input;
mod inspect;
mod markdown;
mod offload;
mod output;
mod policy;
mod read;
mod replicas;
mod report;
mod rows;
mod search;
mod self_check;
mod serve;
mod server;
mod setup;
mod signals;
mod sql;
mod status;
mod table;
mod traces;
mod truncate;
mod welcome;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use exit::Exit;
use flags::{ColorChoice, LogFormat, SettingFlags, without_settings};
use lro_gateway::settings::Config;
use output::Terminal;
use traces::Traces;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

const ABOUT: &str = "Keeps large tool results out of a model's context.

A policy, a sandboxed WASI component, looks at a result and answers: pass it, offload it to JSONL files, truncate it, \
or reject it with advice.

Each setting can be given as a flag, as a variable MCP_LRO_*, or in a TOML file (--config, MCP_LRO_CONFIG); a flag \
wins over a variable, a variable over the file, the file over the default. `lro config` shows the \
effective values and their origin.";

const EXAMPLES: &str = "Examples:
  lro offload result.json                      a tool result, JSON, text or bytes
  curl -s https://example.org/data | lro offload --report
  lro offload --unit tokens --threshold 25000 --json - < result.json
  lro extract HANDLE --where 'score > 0.9' --select id,title
  lro extract HANDLE --format csv --output rows.csv
  lro sql HANDLE 'SELECT category, count(*) FROM records GROUP BY category'
  lro read HANDLE --from 900000 --limit 10
  lro collect --tool list_orders --output orders.jsonl -- my-server
  lro setup --dry-run
  lro policy check my-policy.wasm
  lro config";

#[derive(Parser)]
#[command(name = "lro", version, about = ABOUT, after_help = [EXAMPLES, "\n\n", exit::HELP].concat(), max_term_width = 120)]
#[command(mut_subcommands = without_settings)]
struct Arguments {
    #[command(flatten)]
    settings: SettingFlags,
    /// Log level: off, error, warn, info, debug, trace, or directives such as `lro_host=debug` [default: error; for
    /// `lro gateway` and `lro serve`: warn]
    #[arg(long, env = "LRO_LOG", value_name = "LEVEL", global = true)]
    log: Option<Targets>,
    /// Format of stderr: plain text or JSON lines
    #[arg(long, env = "LRO_LOG_FORMAT", value_name = "FORMAT", default_value = "text", global = true)]
    log_format: LogFormat,
    /// When to color messages; `auto` depends on the terminal and NO_COLOR
    #[arg(long, value_name = "WHEN", default_value = "auto", global = true)]
    color: ColorChoice,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Offload(offload::Arguments),
    Inspect(inspect::Arguments),
    Extract(Box<extract::Arguments>),
    Sql(sql::Arguments),
    Read(read::Arguments),
    Collect(Box<collect::Arguments>),
    Gateway(Box<gateway::Arguments>),
    Serve(serve::Arguments),
    Setup(setup::Arguments),
    Hook(hook::Arguments),
    Doctor(doctor::Arguments),
    Status(status::Arguments),
    Audit(audit::Arguments),
    Policy(policy::Arguments),
    Compose(compose::Arguments),
    Clients(clients::Arguments),
    SelfCheck(self_check::Arguments),
    Clean(clean::Arguments),
    Config(config::Arguments),
    Completions(completions::Arguments),
    #[command(hide = true)]
    Compile(compile::Arguments),
    #[command(hide = true)]
    Generate(generate::Arguments),
}

fn main() -> ExitCode {
    #[cfg(feature = "fail-points")]
    let _scenario = fail::FailScenario::setup();
    // Each start of a server waits for it. It executes another program, which would inherit signal dispositions.
    if enter::is_asked() {
        return enter::run().into();
    }
    if matches!(welcome::shown(), Ok(true)) {
        return ExitCode::SUCCESS;
    }
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => return hook::refused(&error).unwrap_or_else(|| collect::explained(error).exit()).into(),
    };
    let terminal = Terminal::new(arguments.color, arguments.log_format);
    let exit = traced(&arguments, &terminal).unwrap_or_else(|error| exit::report(&error, &terminal));
    exit.into()
}

/// Runs the command, whose spans go to a collector if the environment names one.
fn traced(arguments: &Arguments, terminal: &Terminal) -> anyhow::Result<Exit> {
    let traces = match &arguments.command {
        Command::Gateway(_) | Command::Serve(_) => Traces::of_environment(),
        _ => Ok(None),
    };
    log(arguments, terminal, traces.as_ref().ok().and_then(Option::as_ref));
    let _flushed_at_exit = traces?;
    run(arguments, terminal)
}

fn run(arguments: &Arguments, terminal: &Terminal) -> anyhow::Result<Exit> {
    signals::survive_limit_of_file_size()?;
    let mut flags = arguments.settings.pairs().to_vec();
    match &arguments.command {
        Command::Gateway(arguments) => flags.extend_from_slice(arguments.settings.pairs()),
        Command::Serve(arguments) => flags.extend(arguments.settings()),
        _ => {}
    }
    // Only by the commands that need it: the others work whatever the configuration says.
    let load = move || -> anyhow::Result<Config> { Ok(Config::load(std::env::vars_os(), &flags)?) };
    match &arguments.command {
        Command::Offload(arguments) => offload::run(arguments, &load()?, terminal),
        Command::Inspect(arguments) => inspect::run(arguments, &load()?, terminal),
        Command::Extract(arguments) => extract::run(arguments, &load()?, terminal),
        Command::Sql(arguments) => sql::run(arguments, &load()?, terminal),
        Command::Read(arguments) => read::run(arguments, &load()?, terminal),
        Command::Collect(arguments) => collect::run(arguments, &load()?, terminal),
        Command::Gateway(arguments) => gateway::run(arguments, &load()?, Box::new(load), terminal),
        Command::Serve(arguments) => serve::run(arguments, &load()?, Box::new(load), terminal),
        Command::Doctor(arguments) => doctor::run(arguments, &load()?, terminal),
        Command::Status(arguments) => status::run(arguments, &load()?),
        Command::Audit(arguments) => audit::run(arguments, &load()?, terminal),
        Command::Policy(arguments) => policy::run(arguments, &load()?, terminal),
        Command::Clients(arguments) => clients::run(arguments, &load()?),
        Command::SelfCheck(arguments) => self_check::run(arguments, &load()?),
        Command::Clean(arguments) => clean::run(arguments, &load()?),
        Command::Config(arguments) => config::run(arguments, &load()?),
        Command::Compile(arguments) => compile::run(arguments),
        Command::Completions(arguments) => completions::run(arguments),
        Command::Generate(arguments) => generate::run(arguments),
        Command::Compose(arguments) => compose::run(arguments, terminal),
        Command::Setup(arguments) => setup::run(arguments, terminal),
        Command::Hook(arguments) => Ok(hook::run(arguments, load)),
    }
}

/// Sets up logging, and spans if they are wanted.
fn log(arguments: &Arguments, terminal: &Terminal, traces: Option<&Traces>) {
    let default = match &arguments.command {
        Command::Gateway(_) => {
            Targets::new().with_default(LevelFilter::WARN).with_target(lro_gateway::ADMIN_LOG, LevelFilter::INFO)
        }
        // That a file is offloaded is what it is for.
        Command::Serve(_) => {
            Targets::new().with_default(LevelFilter::WARN).with_target("lro_host::filter", LevelFilter::ERROR)
        }
        // What the server says on its standard error.
        Command::Doctor(_) => {
            Targets::new().with_default(LevelFilter::ERROR).with_target("lro_transport::diagnostics", LevelFilter::WARN)
        }
        _ => Targets::new().with_default(LevelFilter::ERROR),
    };
    let filter = arguments.log.clone().unwrap_or(default);
    let format = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines: Box<dyn Layer<Registry> + Send + Sync> = match arguments.log_format {
        LogFormat::Text => format.with_ansi(terminal.colors()).boxed(),
        LogFormat::Json => format.json().flatten_event(true).boxed(),
    };
    // A span would stand before each line of its call.
    let lines = lines.with_filter(filter.with_target(lro_host::SPANS, LevelFilter::OFF)).boxed();
    let layers = [Some(lines), traces.map(Traces::layer)].into_iter().flatten().collect::<Vec<_>>();
    tracing_subscriber::registry().with(layers).init();
}
