//! `lro gateway`: a proxy in front of an MCP server.

use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::{env, thread};

use anyhow::{Context, anyhow, ensure};
use clap::Args;
use lro_gateway::settings::Config;
use lro_gateway::{Control, Gateway, GatewayError, counts_fuel, parts};
use lro_system::process::{hide_from_others, is_program, raise_open_files};

use crate::exit::Exit;
use crate::flags::GatewayFlags;
use crate::output::Terminal;
use crate::signals::{Signal, Signals};

const EXAMPLES: &str = "Examples:
  lro gateway -- npx -y @modelcontextprotocol/server-filesystem /data
  lro gateway --upstream https://mcp.example.com/mcp
  lro gateway --listen 127.0.0.1:8808 -- my-server --verbose
  lro gateway --config lro.toml --check-config

In a client's configuration, put `lro gateway --` before the command of the server:
  { \"mcpServers\": { \"files\": { \"command\": \"lro\", \"args\": [\"gateway\", \"--\", \"npx\", \"-y\", \"SERVER\", \"/data\"] } } }";

/// What people see who start it by hand.
const WAITING: &str = "waiting for an MCP client on standard input. A client starts this command itself: `lro setup` sets \
    that up. Ctrl-C ends it; --listen serves HTTP instead; `lro doctor` tries a server out";

/// File descriptors of a gateway, besides those of connections and sessions.
const BASE_FILES: u64 = 1024;

/// File descriptors of a connection: its own, and one to an HTTP server.
const FILES_PER_CONNECTION: u64 = 2;

/// File descriptors of a legacy session: the pipes of its server.
const FILES_PER_SESSION: u64 = 4;

/// Run a proxy in front of an MCP server: filter large tool results, and forward everything else byte for byte
///
/// The server is a command after `--` that uses standard input and output, or a Streamable HTTP endpoint (--upstream).
/// The gateway itself serves on standard input and output, or on Streamable HTTP (--listen).
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) settings: GatewayFlags,
    /// Check the configuration, its files, the policies with their settings and the store, and exit; needs no server
    #[arg(long)]
    check_config: bool,
    /// Command and arguments of a server that uses standard input and output; options of the gateway go before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Loads the configuration again.
pub(crate) type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send>;

pub(crate) fn run(arguments: &Arguments, config: &Config, load: Load, terminal: &Terminal) -> anyhow::Result<Exit> {
    make_undumpable(config)?;
    let helper = env::current_exe()?;
    let gateway = match Gateway::new(config, &arguments.command, Some(&helper)) {
        Err(GatewayError::NoServer) if arguments.check_config => Gateway::without_server(config, Some(&helper)),
        gateway => gateway,
    };
    let gateway = gateway.map_err(plain)?;
    if arguments.check_config {
        gateway.check()?;
        terminal.message("the configuration is valid");
        return Ok(Exit::Success);
    }
    // On standard input and output it is started at once, and says so itself.
    if config.gateway.listen.is_some() {
        check_program(&arguments.command)?;
    }
    serve(gateway, config, load, terminal, WAITING)
}

/// Checks that the server can be found, which is started with the first request.
fn check_program(command: &[OsString]) -> anyhow::Result<()> {
    let (Some(program), Some(path)) = (command.first(), env::var_os("PATH")) else { return Ok(()) };
    ensure!(
        is_program(program, &path),
        "the server `{}` cannot be found: give its path, or add its folder to PATH",
        program.display()
    );
    Ok(())
}

/// Serves until the client or a signal ends it. `waiting` is for people who start it by hand.
pub(crate) fn serve(
    gateway: Gateway,
    config: &Config,
    load: Load,
    terminal: &Terminal,
    waiting: &str,
) -> anyhow::Result<Exit> {
    if config.gateway.listen.is_none() && io::stdin().is_terminal() {
        terminal.message(waiting);
    }
    warn_about_exposure(config, terminal);
    raise_file_limit(config);
    // Install the handlers first: by default the signals kill the process.
    let signals = Signals::of_ends_and_reloads()?;
    let served = gateway.run(|control| {
        if let Some(url) = control.metrics_url() {
            terminal.message(&format!("metrics on {url}"));
        }
        if let Some(url) = control.url() {
            terminal.message(&format!("listening on {url}"));
        }
        thread::spawn(move || follow_signals(signals, &control, load));
    });
    served.map_err(plain)?;
    Ok(Exit::Success)
}

/// The error inside, where exit code and hint depend on it.
pub(crate) fn plain(error: GatewayError) -> anyhow::Error {
    match error {
        GatewayError::NoServer => anyhow!("no server given: add its command after `--`, or use --upstream URL"),
        GatewayError::Settings(error) => error.into(),
        GatewayError::Policy(error) => error.into(),
        error => error.into(),
    }
}

/// Reloads and stops at signals.
fn follow_signals(mut signals: Signals, control: &Control, load: Load) {
    let (hangups, received) = mpsc::channel();
    let reloading = control.clone();
    // A reload may take long, and must not delay the end.
    thread::spawn(move || received.iter().for_each(|()| reload(&reloading, &load)));
    while signals.next() == Signal::Reload {
        let _ = hangups.send(());
    }
    control.stop();
}

/// Reloads the configuration and all policies. Logs what is invalid; the previous state of it stays.
fn reload(control: &Control, load: &Load) {
    match load().and_then(|config| Ok(control.reload(config)?)) {
        Ok(()) => tracing::info!("reloaded the configuration and the policies"),
        Err(error) => tracing::error!(error = %format!("{error:#}"), "the configuration is not taken"),
    }
}

/// Warns about settings that may expose the gateway unintentionally.
fn warn_about_exposure(config: &Config, terminal: &Terminal) {
    let gateway = &config.gateway;
    let (has_tokens, has_admin) = (!gateway.tokens.is_empty(), gateway.admin_token.is_some());
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(address) = gateway.listen.filter(is_open).filter(|_| !has_tokens) {
        terminal.warning(&format!("{address} can be reached from elsewhere without a token: set [gateway.tokens]"));
    }
    if gateway.listen.is_some() && !has_tokens && (config.policy_dir.is_some() || !config.tenants.is_empty()) {
        let text = "any client can act as the tenant that the path names: set [gateway.tokens]";
        terminal.warning(text);
    }
    match gateway.metrics_listen {
        None if has_admin => {
            terminal.warning("gateway.admin-token has no effect without gateway.metrics-listen");
        }
        Some(address) if is_open(&address) && has_admin => terminal.warning(&format!(
            "policies can be changed at {address}, which can be reached from elsewhere and has no TLS"
        )),
        Some(address) if is_open(&address) => terminal.warning(&format!(
            "metrics can be read at {address}, which can be reached from elsewhere; names of tenants require a token"
        )),
        _ => {}
    }
}

/// Raises the limit of open files to what HTTP connections and servers need, as far as permitted.
fn raise_file_limit(config: &Config) {
    let gateway = &config.gateway;
    if gateway.listen.is_none() {
        return;
    }
    let wanted = BASE_FILES
        + FILES_PER_CONNECTION * u64::from(gateway.connections.get())
        + FILES_PER_SESSION * u64::from(gateway.sessions.get());
    // With fewer files there are fewer connections, which is logged where they are counted.
    let _ =
        raise_open_files(wanted).inspect_err(|error| tracing::debug!(%error, "cannot raise the limit of open files"));
}

/// Makes the process undumpable, so that other processes of this user, such as servers, cannot trace it or read tokens
/// from its memory. The engines are created first: afterwards only root could open the page map that they use.
pub(crate) fn make_undumpable(config: &Config) -> anyhow::Result<()> {
    parts::sandbox(false)?;
    if counts_fuel(config) {
        parts::sandbox(true)?;
    }
    hide_from_others().context("cannot make the process undumpable")
}
