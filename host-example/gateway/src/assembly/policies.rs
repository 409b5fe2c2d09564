//! The policies of the tenants of a configuration.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use lro_host::policy::{Attempt, LoadOptions, Location, Registry, RegistrySettings, SlotSettings, TenantPolicy};

use super::registries::PolicyRegistries;
use super::{GatewayError, parts};
use crate::settings::{Config, PolicyPlace};

/// Creates the registry with the policies of all tenants. A tenant whose policy is refused uses the last good one, or
/// the failure mode. It is an error if the default tenant has no policy.
pub(super) fn registry(config: &Config, helper: Option<&Path>) -> Result<Registry, GatewayError> {
    let fuel = counts_fuel(config);
    let options = LoadOptions {
        bytes_max: config.loading.component_bytes.get(),
        cache: parts::compile_cache(config),
        compiler: parts::compiler(config, helper, fuel),
        ..LoadOptions::default()
    };
    let slot = SlotSettings { admission: config.admission, breaker: config.breaker };
    let settings = RegistrySettings {
        options,
        slot,
        kept: config.policy_keep.clone(),
        fetch: Some(PolicyRegistries::new(config).into_fetch()),
    };
    let registry = Registry::new(parts::sandbox(fuel)?, settings)?;
    let attempts = add_all(&registry, config)?;
    if registry.slot(&config.gateway.tenant).is_none_or(|slot| slot.current().is_none()) {
        let failed = attempts.into_iter().find(|(name, _)| *name == config.gateway.tenant);
        if let Some((_, Err(refused))) = failed {
            return Err(GatewayError::Policy(*refused.error));
        }
    }
    Ok(registry)
}

/// Names of the tenants in the configuration.
pub(super) fn tenant_names(config: &Config) -> BTreeSet<String> {
    let named = config.gateway.tokens.keys().chain(config.tenants.keys());
    named.chain([&config.gateway.tenant]).cloned().collect()
}

/// Whether any tenant has a fuel limit, so that policies must be compiled to count instructions.
pub fn counts_fuel(config: &Config) -> bool {
    let all = tenant_names(config).into_iter().map(|name| config.for_tenant(&name));
    all.chain([config.clone()]).any(|config| config.limits.fuel.is_some())
}

/// Loads the policies of all tenants. On an error, nothing has changed.
pub(super) fn add_all(registry: &Registry, config: &Config) -> Result<Vec<(String, Attempt)>, GatewayError> {
    if let Some(directory) = &config.policy_dir {
        let failed = |source| GatewayError::PolicyDirectory { path: directory.clone(), source };
        fs::read_dir(directory).map_err(failed)?;
    }
    let known = registry.slots().into_iter().map(|(name, _)| name);
    let found = known.filter(|name| in_directory(config, name).is_some());
    let policies = tenant_names(config).into_iter().chain(found).map(|name| {
        let policy = policy_of(config, &name)?;
        Ok((name, policy))
    });
    let (policies, others) = (policies.collect::<Result<_, GatewayError>>()?, policy(config)?);
    let mut attempts = registry.add_all(policies);
    if let Some(directory) = &config.policy_dir {
        attempts.extend(registry.add_directory(directory, others)?);
    }
    Ok(attempts)
}

/// Source of a tenant's policy: its own file, the policy directory, or the shared policy.
fn policy_of(config: &Config, tenant: &str) -> Result<TenantPolicy, GatewayError> {
    let own = policy(&config.for_tenant(tenant))?;
    let found = in_directory(config, tenant).filter(|_| own.location == location(config));
    Ok(TenantPolicy { location: found.map_or(own.location, Location::File), ..own })
}

/// The file of a tenant in the policy directory, if it exists.
pub(super) fn in_directory(config: &Config, tenant: &str) -> Option<PathBuf> {
    let directory = config.policy_dir.as_ref()?;
    let file = directory.join(format!("{tenant}.wasm"));
    (file.parent() == Some(directory) && file.is_file()).then_some(file)
}

/// Where the policy of a configuration is.
fn location(config: &Config) -> Location {
    match &config.policy {
        None => Location::BuiltIn,
        Some(PolicyPlace::File(path)) => Location::File(path.clone()),
        Some(PolicyPlace::Registry(reference)) => Location::Remote(reference.to_string()),
    }
}

/// Source of a policy according to a configuration.
fn policy(config: &Config) -> Result<TenantPolicy, GatewayError> {
    Ok(TenantPolicy {
        location: location(config),
        pin: parts::pin(config)?,
        signers: parts::signers(config)?,
        trial: config.trial.if_limited(),
    })
}
