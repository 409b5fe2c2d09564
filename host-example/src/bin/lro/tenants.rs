//! The tenants of a gateway from its configuration, at the start and whenever it is read again.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use lro_host::filter::Filter;
use lro_host::gateway::Tenants;
use lro_host::policy::{
    Attempt, CompilePlace, Compiler, LoadOptions, PublicKey, Registry, RegistrySettings, SlotSettings, TenantPolicy,
};
use lro_host::settings::Config;

use crate::host;

/// Reads the configuration again.
pub(crate) type Load = Box<dyn Fn() -> anyhow::Result<Config> + Send + Sync>;

/// The registry with the policies of all tenants. One that is refused leaves its tenant to the last good policy or the failure
/// mode; without a policy for clients that name no tenant there is no gateway.
pub(crate) fn registry(config: &Config) -> anyhow::Result<Arc<Registry>> {
    let all = names(config).into_iter().map(|name| config.for_tenant(&name));
    let fuel = all.chain([config.clone()]).any(|config| config.limits.fuel.is_some());
    let mut arguments = vec![OsString::from("compile")];
    arguments.extend(fuel.then(|| "--fuel".into()));
    let place = CompilePlace::Child { program: env::current_exe()?, arguments };
    let options = LoadOptions {
        bytes_max: config.loading.component_bytes.get(),
        cache: host::compile_cache(),
        compiler: Compiler::new(place, (&config.loading).into()),
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

/// The filter for clients that name no tenant.
pub(crate) fn filter(config: &Config, registry: &Registry) -> anyhow::Result<Filter> {
    let slot = registry.slot(&config.gateway.tenant).context("there is no policy")?;
    let store = host::store(config).map_err(Arc::new);
    Ok(Filter { slot, store, limits: (&config.limits).into(), failure: config.failure })
}

/// Takes up changes of the configuration and of policies.
pub(crate) struct Reload {
    load: Load,
    tenants: Arc<Tenants>,
    in_force: Mutex<Config>,
}

impl Reload {
    pub(crate) fn new(load: Load, tenants: Arc<Tenants>, config: Config) -> Self {
        Self { load, tenants, in_force: Mutex::new(config) }
    }

    /// Reads the configuration and all policies again. What cannot be used is logged, and what was in force before stays.
    pub(crate) fn run(&self) {
        match self.try_run() {
            Ok(()) => tracing::info!("the configuration and the policies were read again"),
            Err(error) => tracing::error!(error = %format!("{error:#}"), "the configuration is not taken"),
        }
    }

    fn try_run(&self) -> anyhow::Result<()> {
        let config = (self.load)()?;
        let tokens = config.gateway_tokens(|name| env::var_os(name))?;
        let mut in_force = self.in_force.lock().unwrap_or_else(PoisonError::into_inner);
        let registry = self.tenants.registry();
        for gone in names(&in_force).difference(&names(&config)) {
            registry.remove(gone);
            tracing::info!(tenant = gone, "tenant removed");
        }
        // Refusals are logged, and what served goes on serving.
        add_all(registry, &config)?;
        let named = names(&config);
        for (found, _) in registry.slots().iter().filter(|(tenant, _)| !named.contains(tenant)) {
            let _ = registry.reload_tenant(found);
        }
        if fixed(&in_force) != fixed(&config) {
            tracing::warn!("changes of the table `gateway`, of the store and of bounds for all tenants need a restart");
        }
        self.tenants.replace(config.clone(), tokens);
        *in_force = config;
        Ok(())
    }
}

/// The tenants that the configuration names.
fn names(config: &Config) -> BTreeSet<String> {
    let named = config.gateway.tokens.keys().chain(config.tenants.keys());
    named.chain([&config.gateway.tenant]).cloned().collect()
}

/// Loads the policies of all tenants, those of the directory of policies last.
fn add_all(registry: &Registry, config: &Config) -> anyhow::Result<Vec<(String, Attempt)>> {
    let policies = names(config).into_iter().map(|name| {
        let policy = policy(&config.for_tenant(&name))?;
        Ok((name, policy))
    });
    let mut attempts = registry.add_all(policies.collect::<anyhow::Result<_>>()?);
    if let Some(directory) = &config.policy_dir {
        attempts.extend(registry.add_directory(directory, policy(config)?)?);
    }
    Ok(attempts)
}

/// Where a tenant's policy comes from, by its own configuration.
fn policy(config: &Config) -> anyhow::Result<TenantPolicy> {
    let keys = config.policy_keys.iter().map(|key| PublicKey::from_base64(key));
    Ok(TenantPolicy {
        file: config.policy.clone(),
        pin: host::load_options(config)?.pin,
        signers: keys.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!("policy-keys: {error}"))?,
        trial: (&config.trial).into(),
    })
}

/// What cannot change while a gateway runs.
fn fixed(config: &Config) -> Vec<(String, String)> {
    const TABLES: [&str; 10] = [
        "admission.",
        "breaker.",
        "dir",
        "fsync",
        "gateway.",
        "loading.",
        "policy-keep",
        "query.",
        "quota-",
        "ttl-seconds",
    ];
    let entries = config.explain().into_iter().map(|entry| (entry.key, entry.value));
    let is_fixed = |key: &str| TABLES.iter().any(|table| key.starts_with(table)) && !key.starts_with("gateway.tokens");
    entries.filter(|(key, _)| is_fixed(key)).collect()
}
