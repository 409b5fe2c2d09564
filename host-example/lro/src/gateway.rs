//! `lro gateway`: a proxy in front of an MCP server.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;

use anyhow::Context;
use clap::Args;
use lro_gateway::settings::Config;
use lro_gateway::status::About;
use lro_gateway::{Endpoint, Operations, OperatorTokens, Rules, Snapshot, Tenants, Upkeep, Upstream, http, stdio};
use lro_host::extract::Budget;
use lro_host::mcp::Tools;
use lro_host::policy::{Registry, Watch};
use lro_host::store::Store;
use rustix::process::{DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::exit::Exit;
use crate::flags::GatewayFlags;
use crate::host;
use crate::output::Terminal;
use crate::server;
use crate::tenants::{self, Load, Reload};

const EXAMPLES: &str = "Examples:
  lro gateway -- npx -y @modelcontextprotocol/server-filesystem /data
  lro gateway --upstream https://mcp.example.com/mcp
  lro gateway --listen 127.0.0.1:8808 -- my-server --verbose
  lro gateway --config lro.toml --check-config

In a client's configuration, put `lro gateway --` before the command of the server:
  { \"mcpServers\": { \"files\": { \"command\": \"lro\", \"args\": [\"gateway\", \"--\", \"npx\", \"-y\", \"SERVER\", \"/data\"] } } }";

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
    /// Check the configuration, the policy and the store, and exit
    #[arg(long)]
    check_config: bool,
    /// Command and arguments of a server that uses standard input and output; options of the gateway go before it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, load: Load, terminal: &Terminal) -> anyhow::Result<Exit> {
    make_undumpable(config)?;
    let tokens = config.gateway_tokens(|name| env::var_os(name))?;
    let upstream = upstream(arguments, config)?;
    let operators = OperatorTokens {
        admin: config.admin_token(|name| env::var_os(name))?,
        metrics: config.metrics_token(|name| env::var_os(name))?,
    };
    let registry = tenants::registry(config)?;
    let tenants = Arc::new(Tenants::new(Arc::clone(&registry), config.clone(), tokens));
    let mut rules = rules(config, &registry)?;
    rules.tenants = Some(Arc::clone(&tenants));
    let rules = Arc::new(rules);
    let upstream = match upstream {
        Upstream::Command(launch) => Upstream::Command(server::isolated(launch, config)?),
        other => other,
    };
    if arguments.check_config {
        let checked = rules.filter.store.as_ref().map_or(Ok(()), Store::check);
        checked.context("results cannot be offloaded")?;
        terminal.message("the configuration is valid");
        return Ok(Exit::Success);
    }
    warn_about_exposure(config, operators, terminal);
    let operations =
        config.gateway.metrics_listen.map(|address| Operations::start(&rules, address, operators)).transpose()?;
    let metrics = operations.as_ref().map(Operations::url);
    if let Some(url) = &metrics {
        terminal.message(&format!("metrics on {url}"));
    }
    let watch = Watch::start(registry);
    let _watch = watch.inspect_err(|error| tracing::warn!(%error, "cannot watch policy files"));
    let reload = Arc::new(Reload::new(load, tenants, config.clone()));
    let about = About { metrics, ..About::new(&upstream) };
    let served = match config.gateway.listen {
        Some(address) => serve_http(&rules, upstream, about, address, &reload, terminal),
        None => serve_stdio(&rules, upstream, about, reload),
    };
    let Snapshot { calls, own_calls, tokens_saved, .. } = rules.metrics.snapshot();
    tracing::info!(calls, own_calls, tokens_saved, "the gateway has stopped");
    served
}

/// Warns about settings that may expose the gateway unintentionally.
fn warn_about_exposure(config: &Config, operators: OperatorTokens, terminal: &Terminal) {
    let gateway = &config.gateway;
    let has_tokens = !gateway.tokens.is_empty();
    let is_open = |address: &SocketAddr| !address.ip().is_loopback();
    if let Some(address) = gateway.listen.filter(is_open).filter(|_| !has_tokens) {
        terminal.warning(&format!("{address} can be reached from elsewhere without a token: set [gateway.tokens]"));
    }
    if gateway.listen.is_some() && !has_tokens && (config.policy_dir.is_some() || !config.tenants.is_empty()) {
        let text = "any client can act as the tenant that the path names: set [gateway.tokens]";
        terminal.warning(text);
    }
    match gateway.metrics_listen {
        None if operators.admin.is_some() => {
            terminal.warning("gateway.admin-token has no effect without gateway.metrics-listen");
        }
        Some(address) if is_open(&address) && operators.admin.is_some() => terminal.warning(&format!(
            "policies can be changed at {address}, which can be reached from elsewhere and has no TLS"
        )),
        Some(address) if is_open(&address) => terminal.warning(&format!(
            "metrics can be read at {address}, which can be reached from elsewhere; names of tenants require a token"
        )),
        _ => {}
    }
}

/// Raises the limit of open files to what connections and servers need, as far as permitted.
fn raise_file_limit(config: &Config) {
    let gateway = &config.gateway;
    let wanted = BASE_FILES
        + FILES_PER_CONNECTION * u64::from(gateway.connections.get())
        + FILES_PER_SESSION * u64::from(gateway.sessions.get());
    let limits = getrlimit(Resource::Nofile);
    let current = wanted.min(limits.maximum.unwrap_or(u64::MAX));
    if limits.current.is_some_and(|now| now < current) {
        let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(current), ..limits });
        // With fewer files there are fewer connections, which is logged where they are counted.
        let _ = raised.inspect_err(|error| tracing::debug!(%error, "cannot raise the limit of open files"));
    }
}

/// Makes the process undumpable, so that other processes of this user, such as servers, cannot trace it or read tokens
/// from its memory. The engines are created first: afterwards only root could open the page map that they use.
fn make_undumpable(config: &Config) -> anyhow::Result<()> {
    host::sandbox(false)?;
    if tenants::counts_fuel(config) {
        host::sandbox(true)?;
    }
    set_dumpable_behavior(DumpableBehavior::NotDumpable).context("cannot make the process undumpable")
}

fn serve_http(
    rules: &Arc<Rules>,
    upstream: Upstream,
    about: About,
    address: SocketAddr,
    reload: &Arc<Reload>,
    terminal: &Terminal,
) -> anyhow::Result<Exit> {
    raise_file_limit(&rules.config);
    // Half of the processors, because policies and servers use their own threads: with more, messages switch threads
    // more often.
    let threads = thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?;
    runtime.block_on(async {
        // Install the handler first: by default the signal kills the process.
        let hangups = signal(SignalKind::hangup())?;
        let server = http::Server::bind(rules, upstream, address).await;
        let server = server.with_context(|| format!("cannot listen at {address}"))?;
        let url = server.url()?;
        terminal.message(&format!("listening on {url}"));
        let _upkeep = Upkeep::start(rules, About { listen: Some(url), ..about });
        tokio::spawn(reload_on_hangup(hangups, Arc::clone(reload)));
        server.serve(shutdown_signal()).await;
        Ok(Exit::Success)
    })
}

fn serve_stdio(rules: &Arc<Rules>, upstream: Upstream, about: About, reload: Arc<Reload>) -> anyhow::Result<Exit> {
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let _upkeep = Upkeep::start(rules, about);
    // Bypass the small, locked buffers of the standard library.
    let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    stdio::serve(rules, upstream, input, output, move |stop| {
        thread::spawn(move || {
            for signal in signals.forever() {
                match signal {
                    SIGHUP => reload.run(),
                    _ => return stop.now(),
                }
            }
        });
    })?;
    Ok(Exit::Success)
}

/// Reloads configuration and policies on each SIGHUP.
async fn reload_on_hangup(mut hangups: Signal, reload: Arc<Reload>) {
    while hangups.recv().await.is_some() {
        let reload = Arc::clone(&reload);
        // The panic hook reports a panic.
        let _ = tokio::task::spawn_blocking(move || reload.run()).await;
    }
}

/// Completes on SIGINT or SIGTERM.
async fn shutdown_signal() {
    let (interrupt, terminate) = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    match (interrupt, terminate) {
        (Ok(mut interrupt), Ok(mut terminate)) => {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        }
        _ => std::future::pending().await,
    }
}

fn upstream(arguments: &Arguments, config: &Config) -> anyhow::Result<Upstream> {
    match (arguments.command.split_first(), config.gateway.upstream.as_deref()) {
        (Some((program, rest)), None) => Ok(Upstream::Command(server::launch(program, rest, config))),
        (None, Some(url)) => {
            let headers = config.gateway_headers(|name| env::var_os(name))?;
            Ok(Upstream::Http(Endpoint::new(url, headers)?))
        }
        (Some(_), Some(_)) => anyhow::bail!("two servers given: use either a command or --upstream URL"),
        (None, None) => anyhow::bail!("no server given: add its command after `--`, or use --upstream URL"),
    }
}

/// Continues if the store cannot be opened: each use tries again, and the failure mode applies until then.
fn rules(config: &Config, registry: &Registry) -> anyhow::Result<Rules> {
    let (store, error) = Store::open_or_retry(host::store_config(config));
    if let Some(error) = error {
        tracing::error!(error = %format!("{:#}", anyhow::Error::new(error)), "results cannot be offloaded yet");
    }
    let tools = Tools::new(store.clone(), host::extractor(config)?, Budget::from(&config.query));
    Ok(Rules::new(config.clone(), tenants::filter(config, registry, store)?, Some(tools)))
}
