//! A whole gateway, assembled from its configuration.

mod checks;
mod error;
pub mod parts;
mod policies;
mod registries;
mod reload;
mod server;

use std::ffi::OsString;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::{env, fmt, thread};

use lro_host::extract::Budget;
use lro_host::filter::{Filter, Request};
use lro_host::mcp::Tools;
use lro_host::policy::{Registry, RegistryError, Watch};
use lro_host::sandbox::Payload;
use lro_host::store::Store;
use lro_system::process::{standard_input, standard_output};
use tokio::sync::Notify;

pub use self::error::{GatewayError, ReloadError};
pub use self::policies::counts_fuel;
pub use self::registries::{PolicyRegistries, RegistriesError};
use self::reload::Reload;
use crate::faces::http::BindError;
use crate::faces::{http, stdio};
use crate::files::Files;
use crate::listener::tls::Certificate;
use crate::metrics::Snapshot;
use crate::operations::status::About;
use crate::operations::upkeep::Upkeep;
use crate::operations::{Operations, OperatorTokens};
use crate::settings::Config;
use crate::tenants::Tenants;
use crate::tenants::jwt::Jwt;
use crate::tenants::rules::Rules;
use crate::upstream::{Endpoint, Upstream};

/// A gateway, ready to serve.
#[derive(Debug)]
pub struct Gateway {
    rules: Arc<Rules>,
    tenants: Arc<Tenants>,
    operators: OperatorTokens,
    upstream: Upstream,
}

/// Stops and reloads a gateway while it runs. Clones control the same gateway.
#[derive(Clone)]
pub struct Control {
    url: Option<String>,
    metrics_url: Option<String>,
    stop: Arc<dyn Fn() + Send + Sync>,
    reload: Arc<Reload>,
}

impl Gateway {
    /// Loads the policies of all tenants and opens the store. Variables that the configuration names are those of this
    /// process. If the store cannot be opened, which is logged, each use tries again, and the failure mode applies until
    /// then.
    ///
    /// `command` is the server's program and its arguments; empty if `gateway.upstream` is set. `helper` is a program
    /// `lro`, which compiles policies and isolates the server in child processes. Without it, policies are compiled on
    /// threads of this process, whose memory is not limited, and the server is not isolated.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration cannot be used.
    pub fn new(config: &Config, command: &[OsString], helper: Option<&Path>) -> Result<Self, GatewayError> {
        Self::before(upstream(config, command)?, config, helper)
    }

    /// A gateway without a server: clients read offloads, and ask about files. Filters nothing, and has no jobs, whatever the
    /// configuration says; other keys mean what they do for [`Gateway::new`].
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration cannot be used.
    pub fn reading(files: Option<Files>, config: &Config, helper: Option<&Path>) -> Result<Self, GatewayError> {
        let mut gateway = Self::before(Upstream::None, &config.clone().for_reading(), helper)?;
        if let Some(rules) = Arc::get_mut(&mut gateway.rules) {
            rules.only_read(files);
        }
        // Questions are why it runs.
        gateway.rules.tools.iter().for_each(Tools::expect_questions);
        Ok(gateway)
    }

    /// A gateway that filters, for a server that is not there: to check a configuration, or to try it out.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration cannot be used.
    pub fn without_server(config: &Config, helper: Option<&Path>) -> Result<Self, GatewayError> {
        Self::before(Upstream::None, config, helper)
    }

    fn before(upstream: Upstream, config: &Config, helper: Option<&Path>) -> Result<Self, GatewayError> {
        checks::check(&config.gateway)?;
        let tokens = config.gateway_tokens(|name| env::var_os(name))?;
        let operators = OperatorTokens {
            admin: config.admin_token(|name| env::var_os(name))?,
            metrics: config.metrics_token(|name| env::var_os(name))?,
        };
        let registry = Arc::new(policies::registry(config, helper)?);
        let jwt = Jwt::new(&config.gateway)?;
        let tenants = Arc::new(Tenants::new(Arc::clone(&registry), config.clone(), tokens, jwt));
        let mut rules = rules(config, &registry)?;
        rules.tenants = Some(Arc::clone(&tenants));
        // The paths to hide from the server exist now.
        let upstream = match upstream {
            Upstream::Command(launch) => Upstream::Command(server::isolated(launch, config, helper)?),
            other => other,
        };
        Ok(Self { rules: Arc::new(rules), tenants, operators, upstream })
    }

    /// What its sessions share, such as the metrics.
    pub fn rules(&self) -> &Arc<Rules> {
        &self.rules
    }

    /// Checks what else fails only when it is needed: reads the certificate and the key of the listener, opens the store, looks for
    /// the keys of its tenants, and has the policy of each tenant inspect an empty result with the settings of each tool. Sends
    /// no request to a bucket or a server.
    ///
    /// # Errors
    /// [`GatewayError::Tls`], [`GatewayError::Store`] and [`GatewayError::Filter`].
    pub fn check(&self) -> Result<(), GatewayError> {
        let gateway = &self.rules.config.gateway;
        if let (Some(certificate), Some(key)) = (&gateway.tls_certificate, &gateway.tls_key) {
            Certificate::read(certificate, key)?.config()?;
        }
        let store = self.rules.filter.store.as_ref().ok();
        store.map_or(Ok(()), Store::check)?;
        for tenant in self.known_tenants() {
            store.map_or(Ok(()), |store| store.check_tenant(&tenant))?;
            check_policy(&self.rules.of(&tenant), &tenant)?;
        }
        Ok(())
    }

    /// The tenants that clients can be of, as far as they have names here.
    fn known_tenants(&self) -> Vec<String> {
        let config = &self.rules.config;
        let slots = self.tenants.registry().slots().into_iter().map(|(name, _)| name);
        // Tokens that an authorization server signs may name others than the default tenant.
        let is_named = |name: &String| {
            *name != config.gateway.tenant || config.gateway.jwt_issuer.is_none() || config.tenants.contains_key(name)
        };
        slots.filter(|name| self.tenants.has(name) && is_named(name)).collect()
    }

    /// Serves Streamable HTTP at `gateway.listen` until [`Control::stop`], or else one client on standard input and
    /// output until the input ends. Calls `on_start` once it can be stopped, with HTTP once clients can connect. Blocks, so
    /// an async program calls it on a thread for blocking work.
    ///
    /// # Errors
    /// [`GatewayError`] if an address cannot be bound, the server cannot be started, or reading the input fails.
    pub fn run(self, on_start: impl FnOnce(Control)) -> Result<(), GatewayError> {
        let Self { rules, tenants, operators, upstream } = self;
        let gateway = &rules.config.gateway;
        let operations = gateway.metrics_listen.map(|address| Operations::start(&rules, address, operators));
        let operations = operations.transpose()?;
        let metrics_url = operations.as_ref().map(Operations::url);
        let watch = Watch::start(Arc::clone(tenants.registry()));
        let _watch = watch.inspect_err(|error| tracing::warn!(%error, "cannot watch policy files"));
        let about = About { metrics: metrics_url.clone(), ..About::new(&upstream) };
        let reload = Arc::new(Reload::new(tenants, rules.config.clone()));
        let start = |url, stop| on_start(Control { url, metrics_url, stop, reload });
        let served = match gateway.listen {
            Some(address) => serve_http(&rules, upstream, about, address, start),
            None => serve_stdio(&rules, upstream, about, start),
        };
        let Snapshot { calls, own_calls, tokens_saved, .. } = rules.metrics.snapshot();
        tracing::info!(calls, own_calls, tokens_saved, "the gateway has stopped");
        served
    }

    /// Serves one client of this process, which writes to `input` and reads `output`, until the input ends. Blocks.
    ///
    /// # Errors
    /// [`GatewayError`] if the server cannot be started, or reading fails.
    pub fn serve(
        self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> Result<(), GatewayError> {
        Ok(stdio::serve(&self.rules, self.upstream, input, output, |_| {})?)
    }
}

impl Control {
    /// The URL of the MCP endpoint; `None` on standard input and output.
    pub fn url(&self) -> Option<&str> {
        self.url.as_deref()
    }

    /// The URL of the metrics, if `gateway.metrics-listen` is set.
    pub fn metrics_url(&self) -> Option<&str> {
        self.metrics_url.as_deref()
    }

    /// Ends the gateway: over HTTP, after `gateway.drain-ms`; then after the calls in flight, or `gateway.shutdown-ms`. Does not
    /// wait for that.
    pub fn stop(&self) {
        (self.stop)();
    }

    /// Takes the tenants of a new configuration, with their tokens, settings and policies, and reloads all policies.
    /// Changes of other keys need a restart, which is logged. Blocks while policies are compiled. Open sessions keep the
    /// settings they started with.
    ///
    /// # Errors
    /// [`ReloadError`] if the configuration is not taken. A refused policy is logged instead, and the current one stays.
    pub fn reload(&self, config: Config) -> Result<(), ReloadError> {
        self.reload.run(config)
    }
}

impl fmt::Debug for Control {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Control").field("url", &self.url).finish_non_exhaustive()
    }
}

/// Has the policy of a tenant inspect an empty result with the settings of each tool: it refuses those that it cannot read.
fn check_policy(rules: &Rules, tenant: &str) -> Result<(), GatewayError> {
    let config = &rules.config;
    if !rules.enabled() {
        return Ok(());
    }
    let empty = Arc::new(Payload::new(Vec::new()));
    // A pattern is the name of a tool that it matches; no tool has the empty name.
    for tool in config.tools.keys().map(String::as_str).chain([""]) {
        let settings = Arc::new(config.for_tool(tool));
        let request = Request { settings, ..Request::new(tenant, tool) };
        let inspected = rules.filter.inspect(&request, &empty);
        inspected.map_err(|source| GatewayError::Filter { tenant: tenant.to_owned(), source })?;
    }
    Ok(())
}

fn upstream(config: &Config, command: &[OsString]) -> Result<Upstream, GatewayError> {
    match (command.split_first(), config.gateway.upstream.as_deref()) {
        (Some((program, arguments)), None) => Ok(Upstream::Command(server::launch(program, arguments, config))),
        (None, Some(url)) => {
            let headers = config.gateway_headers(|name| env::var_os(name))?;
            Ok(Upstream::Http(Endpoint::new(url, headers)?))
        }
        (Some(_), Some(_)) => Err(GatewayError::TwoServers),
        (None, None) => Err(GatewayError::NoServer),
    }
}

fn rules(config: &Config, registry: &Registry) -> Result<Rules, GatewayError> {
    let (store, error) = Store::open_or_retry(parts::store_config(config));
    if let Some(error) = error {
        tracing::error!(error = &error as &dyn std::error::Error, "results cannot be offloaded yet");
    }
    let tools = Tools::new(store.clone(), parts::extractor(config)?, Budget::from(&config.query));
    let tenant = &config.gateway.tenant;
    let slot = registry.slot(tenant).ok_or_else(|| RegistryError::Unknown(tenant.clone()))?;
    let filter = Filter {
        slot,
        store: Ok(store),
        limits: config.limits.clone(),
        failure: config.failure,
        documents: Some(parts::documents(config)?),
    };
    Ok(Rules::new(config.clone(), filter, Some(tools)))
}

fn serve_http(
    rules: &Arc<Rules>,
    upstream: Upstream,
    about: About,
    address: SocketAddr,
    start: impl FnOnce(Option<String>, Arc<dyn Fn() + Send + Sync>),
) -> Result<(), GatewayError> {
    // Half of the processors, because policies and servers use their own threads: with more, messages switch threads
    // more often.
    let threads = thread::available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build();
    runtime.map_err(GatewayError::System)?.block_on(async {
        let failed = |source| GatewayError::Listen { address, source };
        let server = http::Server::bind(rules, upstream, address).await.map_err(|error| match error {
            BindError::Address(source) => failed(source),
            BindError::Tls(error) => error.into(),
        })?;
        let url = server.url().map_err(failed)?;
        let _upkeep = Upkeep::start(rules, About { listen: Some(url.clone()), ..about });
        let ending = Arc::new(Notify::new());
        let end = Arc::clone(&ending);
        start(Some(url), Arc::new(move || end.notify_one()));
        server.serve(ending.notified()).await;
        Ok(())
    })
}

fn serve_stdio(
    rules: &Arc<Rules>,
    upstream: Upstream,
    about: About,
    start: impl FnOnce(Option<String>, Arc<dyn Fn() + Send + Sync>),
) -> Result<(), GatewayError> {
    let _upkeep = Upkeep::start(rules, about);
    let input = standard_input().map_err(GatewayError::System)?;
    let output = standard_output().map_err(GatewayError::System)?;
    stdio::serve(rules, upstream, input, output, |stop| start(None, Arc::new(move || stop.now())))?;
    Ok(())
}
