//! The library put together from the configuration: policy, store, one call.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use lro_gateway::settings::Config;
use lro_host::extract::{EXTRACT_COMPONENT, Extractor};
use lro_host::filter::{Filter, Request};
use lro_host::policy::{CompileCache, CompilePlace, Compiler, DEFAULT_POLICY, Digest, LoadOptions, Policy, PublicKey};
use lro_host::sandbox::Sandbox;
use lro_host::store::{Store, StoreConfig, StoreError};

use crate::flags::CallArguments;

/// The store's part of the configuration.
pub(crate) fn store_config(config: &Config) -> StoreConfig {
    StoreConfig {
        root: config.dir.clone(),
        time_to_live: Duration::from_secs(config.ttl_seconds.get()),
        fsync: config.fsync,
        file_bytes_max: config.quota_file.get(),
        tenant_bytes_max: config.quota_tenant.get(),
        total_bytes_max: config.quota_total.get(),
    }
}

/// The one engine of the process that counts instructions, or the one that does not.
pub(crate) fn sandbox(fuel: bool) -> anyhow::Result<Sandbox> {
    static PLAIN: OnceLock<Sandbox> = OnceLock::new();
    static COUNTING: OnceLock<Sandbox> = OnceLock::new();
    let place = if fuel { &COUNTING } else { &PLAIN };
    if let Some(sandbox) = place.get() {
        return Ok(sandbox.clone());
    }
    let made = if fuel { Sandbox::with_fuel() } else { Sandbox::new() };
    let sandbox = made.map_err(|error| anyhow::anyhow!("compiled code cannot run here: {error:#}"))?;
    Ok(place.get_or_init(|| sandbox).clone())
}

/// What compiles policies, in a process of its own; `fuel` tells for which sandbox.
pub(crate) fn compiler(config: &Config, fuel: bool) -> anyhow::Result<Compiler> {
    let mut arguments = vec![OsString::from("compile")];
    arguments.extend(fuel.then(|| "--fuel".into()));
    let place = CompilePlace::Child { program: env::current_exe()?, arguments };
    Ok(Compiler::new(place, (&config.loading).into()))
}

/// The digest that a policy must have.
pub(crate) fn pin(config: &Config) -> anyhow::Result<Option<Digest>> {
    Ok(config.policy_sha256.as_deref().map(str::parse).transpose()?)
}

/// The keys of which one must have signed a policy.
pub(crate) fn signers(config: &Config) -> anyhow::Result<Vec<PublicKey>> {
    let keys = config.policy_keys.iter().map(|key| PublicKey::from_base64(key));
    keys.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!("policy-keys: {error}"))
}

/// How the configuration wants a policy to be loaded into the sandbox that counts instructions, or the one that does not.
pub(crate) fn load_options(config: &Config, fuel: bool) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        pin: pin(config)?,
        signers: signers(config)?,
        bytes_max: config.loading.component_bytes.get(),
        cache: None,
        compiler: compiler(config, fuel)?,
    })
}

/// The policy in force: the configured one, else the built-in one.
pub(crate) fn policy(config: &Config) -> anyhow::Result<Policy> {
    let fuel = config.limits.fuel.is_some();
    let (sandbox, options) = (sandbox(fuel)?, LoadOptions { cache: compile_cache(), ..load_options(config, fuel)? });
    Ok(match &config.policy {
        Some(path) => Policy::from_file(&sandbox, path, &options)?,
        // The built-in policy needs no signature.
        None => Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions { signers: Vec::new(), ..options })?,
    })
}

/// The built-in component that answers questions.
pub(crate) fn extractor(config: &Config) -> anyhow::Result<Extractor> {
    let options = LoadOptions { cache: compile_cache(), ..LoadOptions::default() };
    Ok(Extractor::from_bytes(&sandbox(false)?, EXTRACT_COMPONENT, &options, (&config.query).into())?)
}

/// Compiled code lies beside the default store, not in it: the directories there are tenants.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("lro-filter-compiled"))
}

/// Goes on without a cache, and then every start compiles.
pub(crate) fn compile_cache() -> Option<CompileCache> {
    let opened = CompileCache::open(cache_directory()?);
    opened.inspect_err(|error| tracing::warn!(%error, "compiled policies are not kept")).ok()
}

/// The call whose result is looked at.
pub(crate) fn request(arguments: &CallArguments, config: &Config, is_error: bool) -> Request {
    Request {
        tenant: arguments.tenant.clone(),
        session: arguments.session.clone(),
        tool: arguments.tool.clone(),
        query: arguments.query.clone(),
        is_error: is_error || arguments.error,
        abilities: arguments.abilities(),
        settings: Arc::new(config.for_tool(&arguments.tool)),
    }
}

/// A policy with a store, which need not have opened: that only matters for a result that is to be written.
pub(crate) fn filter(config: &Config, policy: Policy, store: Result<Store, StoreError>) -> Filter {
    Filter {
        slot: policy.into(),
        store: store.map_err(Arc::new),
        limits: (&config.limits).into(),
        failure: config.failure,
    }
}

/// Opens the store of the configuration.
pub(crate) fn store(config: &Config) -> Result<Store, StoreError> {
    Store::open(store_config(config))
}
