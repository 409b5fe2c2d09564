//! The tenants of a gateway, from its configuration, at the start and at each reload.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use lro_gateway::Tenants;
use lro_gateway::settings::{Config, GatewaySettings, SHARED_KEYS, Token};
use lro_host::filter::Filter;
use lro_host::policy::{Attempt, LoadOptions, Registry, RegistrySettings, SlotSettings, TenantPolicy};
use lro_host::store::Store;
use parking_lot::Mutex;

use crate::host;

/// Reloads the configuration.
pub(crate) type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

/// Creates the registry with the policies of all tenants. A tenant whose policy is refused uses the last good one, or
/// the failure mode. It is an error if the default tenant has no policy.
pub(crate) fn registry(config: &Config) -> anyhow::Result<Arc<Registry>> {
    let fuel = counts_fuel(config);
    let options = LoadOptions {
        bytes_max: config.loading.component_bytes.get(),
        cache: host::compile_cache(),
        compiler: host::compiler(config, fuel)?,
        ..LoadOptions::default()
    };
    let slot = SlotSettings { admission: (&config.admission).into(), breaker: (&config.breaker).into() };
    let settings = RegistrySettings { options, slot, kept: config.policy_keep.clone() };
    let registry = Arc::new(Registry::new(host::sandbox(fuel)?, settings)?);
    let attempts = add_all(&registry, config)?;
    if registry.slot(&config.gateway.tenant).is_none_or(|slot| slot.current().is_none()) {
        let failed = attempts.into_iter().find(|(name, _)| *name == config.gateway.tenant);
        if let Some((_, Err(refused))) = failed {
            return Err((*refused.error).into());
        }
    }
    Ok(registry)
}

/// Creates the filter of the default tenant.
pub(crate) fn filter(config: &Config, registry: &Registry, store: Store) -> anyhow::Result<Filter> {
    let slot = registry.slot(&config.gateway.tenant).context("the default tenant has no policy")?;
    Ok(Filter { slot, store: Ok(store), limits: (&config.limits).into(), failure: config.failure })
}

/// Applies changes of the configuration and of policies.
pub(crate) struct Reload {
    load: Load,
    tenants: Arc<Tenants>,
    /// Whether compiled policies count instructions.
    fuel: bool,
    current: Mutex<Config>,
}

impl Reload {
    pub(crate) fn new(load: Load, tenants: Arc<Tenants>, config: Config) -> Self {
        Self { load, tenants, fuel: counts_fuel(&config), current: Mutex::new(config) }
    }

    /// Reloads the configuration and all policies. Logs what is invalid and keeps the previous state of it.
    pub(crate) fn run(&self) {
        match self.try_run() {
            Ok(()) => tracing::info!("reloaded the configuration and the policies"),
            Err(error) => tracing::error!(error = %format!("{error:#}"), "the configuration is not taken"),
        }
    }

    fn try_run(&self) -> anyhow::Result<()> {
        let mut config = (self.load)()?;
        let tokens = config.gateway_tokens(|name| env::var_os(name))?;
        let mut current = self.current.lock();
        // A truncated file must not open the gateway to everyone.
        if config.gateway.tokens.is_empty() && !current.gateway.tokens.is_empty() {
            bail!("there are no [gateway.tokens] any more: to serve without tokens needs a restart");
        }
        if let Some(name) = exposed_token(&config, &current) {
            bail!("the server was given the variable `{name}`: with a token in it, the gateway needs a restart");
        }
        if counts_fuel(&config) && !self.fuel {
            bail!("limits.fuel needs a restart: no policy counts instructions yet");
        }
        if restart_settings(&current) != restart_settings(&config) {
            tracing::warn!("changes of the table `gateway`, of the store and of bounds for all tenants need a restart");
        }
        config.gateway = GatewaySettings { tokens: config.gateway.tokens, ..current.gateway.clone() };
        config.policy_dir.clone_from(&current.policy_dir);
        // Refused policies are logged, and the current ones stay.
        add_all(self.tenants.registry(), &config)?;
        self.tenants.replace(config.clone(), tokens);
        let is_gone = |name: &&String| in_directory(&config, name).is_none();
        for gone in names(&current).difference(&names(&config)).filter(is_gone) {
            self.tenants.remove(gone);
            tracing::info!(tenant = gone, "tenant removed");
        }
        *current = config;
        Ok(())
    }
}

/// The variable of a token that running servers may have received.
fn exposed_token<'a>(config: &'a Config, current: &Config) -> Option<&'a String> {
    let is_given = |name: &&String| {
        let given = current.server_environment([(OsString::from(*name), OsString::new())]);
        current.gateway.upstream.is_none() && !given.variables.is_empty()
    };
    let mut variables = config.gateway.tokens.values().filter_map(|token| match token {
        Token::Variable(name) => Some(name),
        Token::File(_) | Token::Sha256(_) => None,
    });
    variables.find(is_given)
}

/// Names of the tenants in the configuration.
fn names(config: &Config) -> BTreeSet<String> {
    let named = config.gateway.tokens.keys().chain(config.tenants.keys());
    named.chain([&config.gateway.tenant]).cloned().collect()
}

/// Whether any tenant has a fuel limit.
pub(crate) fn counts_fuel(config: &Config) -> bool {
    let all = names(config).into_iter().map(|name| config.for_tenant(&name));
    all.chain([config.clone()]).any(|config| config.limits.fuel.is_some())
}

/// Loads the policies of all tenants. On an error, nothing has changed.
fn add_all(registry: &Registry, config: &Config) -> anyhow::Result<Vec<(String, Attempt)>> {
    if let Some(directory) = &config.policy_dir {
        fs::read_dir(directory).with_context(|| format!("cannot read `{}` (policy-dir)", directory.display()))?;
    }
    let known = registry.slots().into_iter().map(|(name, _)| name);
    let found = known.filter(|name| in_directory(config, name).is_some());
    let policies = names(config).into_iter().chain(found).map(|name| {
        let policy = policy_of(config, &name)?;
        Ok((name, policy))
    });
    let (policies, others) = (policies.collect::<anyhow::Result<_>>()?, policy(config)?);
    let mut attempts = registry.add_all(policies);
    if let Some(directory) = &config.policy_dir {
        attempts.extend(registry.add_directory(directory, others)?);
    }
    Ok(attempts)
}

/// Source of a tenant's policy: its own file, the policy directory, or the shared policy.
fn policy_of(config: &Config, tenant: &str) -> anyhow::Result<TenantPolicy> {
    let own = policy(&config.for_tenant(tenant))?;
    let found = in_directory(config, tenant).filter(|_| own.file == config.policy);
    Ok(TenantPolicy { file: found.or(own.file), ..own })
}

/// The file of a tenant in the policy directory, if it exists.
fn in_directory(config: &Config, tenant: &str) -> Option<PathBuf> {
    let directory = config.policy_dir.as_ref()?;
    let file = directory.join(format!("{tenant}.wasm"));
    (file.parent() == Some(directory) && file.is_file()).then_some(file)
}

/// Source of a policy according to a configuration.
fn policy(config: &Config) -> anyhow::Result<TenantPolicy> {
    Ok(TenantPolicy {
        file: config.policy.clone(),
        pin: host::pin(config)?,
        signers: host::signers(config)?,
        trial: (&config.trial).into(),
    })
}

/// Settings that require a restart: all that are the same for all tenants, except the tenants themselves.
fn restart_settings(config: &Config) -> Vec<(String, String)> {
    let entries = config.explain().into_iter().map(|entry| (entry.key, entry.value));
    let requires_restart = |key: &str| match key.split('.').next() {
        Some("tenants") => false,
        Some("gateway") => !key.starts_with("gateway.tokens"),
        first => first.is_some_and(|first| SHARED_KEYS.contains(&first)),
    };
    entries.filter(|(key, _)| requires_restart(key)).collect()
}
