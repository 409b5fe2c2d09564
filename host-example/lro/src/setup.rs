//! `lro setup`: the gateway before the servers of MCP clients, and away again.

use std::collections::HashSet;
use std::env;
use std::fmt::Write as _;
use std::io::{self, BufRead, IsTerminal, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use lro_setup::{
    Client, Configuration, Home, HookClient, HookPlan, Place, Plan, Scope, SetupError, State, clients, hook_clients,
};

use crate::exit::Exit;
use crate::output::{self, Terminal};

const EXAMPLES: &str = "Examples:
  lro setup --dry-run                      what would change, in every configuration that is found
  lro setup                                asks before it changes anything
  lro setup --yes --client claude github   one server of one client
  lro setup --project .                    the configurations of a project too, which others may share
  lro setup --file servers.json            a file of any client, such as one in another place
  lro setup --undo                         byte for byte as it was before
  lro setup --hooks                        agents' own tools too: shell, files, web
  lro setup --hooks --undo

A client reads its configuration when it starts: restart it afterwards.";

/// Put the gateway before the servers of the MCP clients on this machine, or take it away again (--undo)
///
/// Finds the configurations of known clients, shows what changes, and asks. `lro gateway --` comes before the command of each
/// server that a client starts; servers at a URL stay as they are. The old text of FILE is kept in FILE.before-lro. A gateway
/// that was there before stays when --undo takes the others away. With --hooks, `lro hook` is added to the configurations of
/// agents instead, so that results of their own tools are filtered too.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Names of servers; none: all
    servers: Vec<String>,
    /// Clients whose configurations change; none: all that are found
    #[arg(long = "client", value_name = "CLIENT", value_delimiter = ',', value_parser = names())]
    clients: Vec<String>,
    /// A configuration, in place of those that are found
    #[arg(long, conflicts_with_all = ["clients", "project"])]
    file: Option<PathBuf>,
    /// A project, whose configurations change too
    #[arg(long, value_name = "DIRECTORY")]
    project: Option<PathBuf>,
    /// Take the gateway away again, from all servers before which `lro setup` has put it
    #[arg(long, conflicts_with = "servers")]
    undo: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Add hooks to agents, for their own tools: claude, codex, copilot, cursor, gemini, opencode
    #[arg(long, conflicts_with_all = ["servers", "file"])]
    hooks: bool,
    /// Do not ask
    #[arg(long, short, conflicts_with = "dry_run")]
    yes: bool,
}

fn names() -> clap::builder::PossibleValuesParser {
    clients().iter().map(|client| client.name).collect::<Vec<_>>().into()
}

/// A file that may be a client's configuration.
struct Candidate {
    title: &'static str,
    file: PathBuf,
    servers: &'static [&'static [&'static str]],
}

pub(crate) fn run(arguments: &Arguments, terminal: &Terminal) -> anyhow::Result<Exit> {
    let lro = env::current_exe()?;
    if arguments.hooks {
        return hooks(arguments, &lro, terminal);
    }
    let (mut plans, mut exit, mut found) = (Vec::new(), Exit::Success, HashSet::new());
    for Candidate { title, file, servers } in candidates(arguments)? {
        let plan = match Configuration::read(&file) {
            Ok(None) => continue,
            Ok(Some(configuration)) if arguments.undo => Plan::undo(configuration, servers, &lro),
            Ok(Some(configuration)) => {
                let wanted = |name: &str| is_chosen(&arguments.servers, name);
                Plan::set_up(configuration, servers, &lro, wanted)
            }
            Err(error) => Err(error.into()),
        };
        match plan {
            Ok(plan) => {
                found.extend(plan.servers().iter().map(|(server, _)| server.name.clone()));
                output::text(&overview(title, &plan, arguments.undo))?;
                plans.push(plan);
            }
            // The others can be set up all the same.
            Err(error) => exit = failed(&error, terminal),
        }
    }
    if let Some(name) = arguments.servers.iter().find(|name| !found.contains(*name)) {
        bail!("no configuration has a server `{name}`; `lro setup --dry-run` lists them");
    }
    if plans.is_empty() && exit == Exit::Success {
        terminal
            .message("no configuration of a known client was found: name one with --file, or a project with --project");
        return Ok(Exit::Success);
    }
    plans.retain(Plan::changes);
    for plan in &plans {
        output::text(&plan.difference())?;
    }
    if plans.is_empty() {
        terminal.message("nothing to change");
        return Ok(exit);
    }
    if arguments.dry_run || !(arguments.yes || agreed(plans.len())?) {
        terminal.message("nothing was changed");
        return Ok(exit);
    }
    for plan in &plans {
        match plan.carry_out() {
            Ok(()) => terminal.message(&done(plan.file(), "changed", plan.backup())),
            Err(error) => exit = failed(&error, terminal),
        }
    }
    terminal.message("restart the clients, which read their configurations when they start");
    Ok(exit)
}

/// The hooks of agents.
fn hooks(arguments: &Arguments, lro: &Path, terminal: &Terminal) -> anyhow::Result<Exit> {
    let home = Home::of_environment().context("this user has no home directory")?;
    let named = |name: &str| hook_clients().iter().any(|client| client.name == name);
    if let Some(name) = arguments.clients.iter().find(|name| !named(name)) {
        bail!("`{name}` has no hooks that lro knows: claude, codex, copilot, cursor, gemini and opencode have");
    }
    let (mut plans, mut exit) = (Vec::new(), Exit::Success);
    let is_meant = |client: &&HookClient| match arguments.clients.is_empty() {
        true => client.is_there(&home),
        false => arguments.clients.iter().any(|name| name == client.name),
    };
    for client in hook_clients().iter().filter(is_meant) {
        let scopes = [Some(Scope::User), arguments.project.is_some().then_some(Scope::Project)];
        let project = arguments.project.as_deref().unwrap_or(Path::new(""));
        for file in scopes.into_iter().flatten().filter_map(|scope| client.file(&home, project, scope)) {
            let plan = match arguments.undo {
                true => HookPlan::undo(client, file, lro),
                false => HookPlan::set_up(client, file, lro),
            };
            match plan {
                Ok(plan) => plans.push((client, plan)),
                // The others can be set up all the same.
                Err(error) => exit = failed(&error, terminal),
            }
        }
    }
    if plans.is_empty() && exit == Exit::Success {
        terminal.message("no agent with hooks was found: name one with --client");
        return Ok(Exit::Success);
    }
    plans.retain(|(_, plan)| plan.changes());
    for (client, plan) in &plans {
        output::text(&format!("{}:\n{}", client.title, plan.difference()))?;
    }
    if plans.is_empty() {
        terminal.message("nothing to change");
        return Ok(exit);
    }
    if arguments.dry_run || !(arguments.yes || agreed(plans.len())?) {
        terminal.message("nothing was changed");
        return Ok(exit);
    }
    for (client, plan) in &plans {
        let what = match (plan.creates(), plan.removes()) {
            (true, _) => "created",
            (_, true) => "removed",
            _ => "changed",
        };
        match plan.carry_out() {
            Ok(()) => terminal.message(&done(plan.file(), what, plan.backup())),
            Err(error) => exit = failed(&error, terminal),
        }
        if let Some(advice) = client.advice.filter(|_| !arguments.undo) {
            terminal.message(advice);
        }
    }
    terminal.message("restart the agents, which read their configurations when they start");
    Ok(exit)
}

fn is_chosen(chosen: &[String], name: &str) -> bool {
    chosen.is_empty() || chosen.iter().any(|chosen| chosen == name)
}

fn failed(error: &SetupError, terminal: &Terminal) -> Exit {
    terminal.error(&format!("{error}; it stays as it is"));
    Exit::Error
}

/// The files that may be configurations of the clients that are meant.
fn candidates(arguments: &Arguments) -> anyhow::Result<Vec<Candidate>> {
    if let Some(file) = &arguments.file {
        if !file.exists() {
            bail!("{}: there is no such file", file.display());
        }
        return Ok(vec![Candidate { title: "file", file: file.clone(), servers: lro_setup::ANY_CLIENT }]);
    }
    let home = Home::of_environment().context("this user has no home directory: name a configuration with --file")?;
    let project = arguments.project.as_deref();
    let is_meant = |client: &&Client| is_chosen(&arguments.clients, client.name);
    let of_client = |client: &'static Client| {
        let places = client.places(&home, project.unwrap_or(Path::new("")));
        let is_meant = move |place: &Place| place.scope == Scope::User || project.is_some();
        places.into_iter().filter(is_meant).map(|place| Candidate {
            title: client.title,
            file: place.file,
            servers: client.servers,
        })
    };
    Ok(clients().iter().filter(is_meant).flat_map(of_client).collect())
}

/// The servers of a configuration, a line each, and what happens to them.
fn overview(title: &str, plan: &Plan, undo: bool) -> String {
    let mut text = format!("{title}: {}\n", plan.file().display());
    let servers = plan.servers();
    let width = servers.iter().map(|(server, _)| server.name.chars().count()).max().unwrap_or(0);
    for (server, changes) in servers {
        let what = match server.state {
            State::Behind if *changes => "the gateway goes",
            State::Behind | State::Gateway if !undo => "is behind the gateway",
            State::Behind => "stays as it is: its gateway is not from `lro setup`",
            State::Gateway => "stays as it is: its gateway has no command of a server after `--`",
            State::Started if *changes => "the gateway comes before it",
            State::Started => "stays as it is",
            State::Remote => "stays as it is: at a URL",
            State::Own => "stays as it is: lro itself",
            State::Malformed("args") => "stays as it is: `args` is not a list of strings",
            State::Malformed(_) => {
                "stays as it is: `command` is neither a string nor, without `args`, a list of strings"
            }
            State::Unknown => "stays as it is: neither a command nor a URL",
        };
        let _ = writeln!(text, "  {:width$}  {what}", server.name);
    }
    if servers.is_empty() {
        text.push_str("  no servers\n");
    }
    text
}

/// What is said of a file once its plan is carried out.
fn done(file: &Path, what: &str, backup: Option<PathBuf>) -> String {
    let backup =
        backup.map_or(String::new(), |backup| format!("; its text before `lro setup` is in {}", backup.display()));
    format!("{} is {what}{backup}", file.display())
}

/// Asks on the terminal.
fn agreed(files: usize) -> anyhow::Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("there is no terminal to ask on: agree with --yes, or look with --dry-run");
    }
    let files = if files == 1 { "this file".to_owned() } else { format!("these {files} files") };
    eprint!("Change {files}? [y/N] ");
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().lock().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
