//! Creates policies, stores, filters and requests from the configuration.

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

/// Settings of the store.
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

/// Returns the shared sandbox of the process, with or without fuel.
pub(crate) fn sandbox(fuel: bool) -> anyhow::Result<Sandbox> {
    static PLAIN: OnceLock<Sandbox> = OnceLock::new();
    static COUNTING: OnceLock<Sandbox> = OnceLock::new();
    let cell = if fuel { &COUNTING } else { &PLAIN };
    if let Some(sandbox) = cell.get() {
        return Ok(sandbox.clone());
    }
    let made = if fuel { Sandbox::with_fuel() } else { Sandbox::new() };
    let sandbox = made.map_err(|error| anyhow::anyhow!("this system cannot run compiled code: {error:#}"))?;
    Ok(cell.get_or_init(|| sandbox).clone())
}

/// Creates a compiler that uses child processes; `fuel` selects the sandbox.
pub(crate) fn compiler(config: &Config, fuel: bool) -> anyhow::Result<Compiler> {
    let mut arguments = vec![OsString::from("compile")];
    arguments.extend(fuel.then(|| "--fuel".into()));
    let place = CompilePlace::Child { program: env::current_exe()?, arguments };
    Ok(Compiler::new(place, (&config.loading).into()))
}

/// The pinned digest of the policy.
pub(crate) fn pin(config: &Config) -> anyhow::Result<Option<Digest>> {
    Ok(config.policy_sha256.as_deref().map(str::parse).transpose()?)
}

/// The keys, one of which must have signed a policy.
pub(crate) fn signers(config: &Config) -> anyhow::Result<Vec<PublicKey>> {
    let keys = config.policy_keys.iter().map(|key| PublicKey::from_base64(key));
    keys.collect::<Result<_, _>>().map_err(|error| anyhow::anyhow!("policy-keys: {error}"))
}

/// Options for loading a policy; `fuel` selects the sandbox.
pub(crate) fn load_options(config: &Config, fuel: bool) -> anyhow::Result<LoadOptions> {
    Ok(LoadOptions {
        pin: pin(config)?,
        signers: signers(config)?,
        bytes_max: config.loading.component_bytes.get(),
        cache: None,
        compiler: compiler(config, fuel)?,
    })
}

/// Loads the configured policy, or else the built-in one.
pub(crate) fn policy(config: &Config) -> anyhow::Result<Policy> {
    let fuel = config.limits.fuel.is_some();
    let (sandbox, options) = (sandbox(fuel)?, LoadOptions { cache: compile_cache(), ..load_options(config, fuel)? });
    Ok(match &config.policy {
        Some(path) => Policy::from_file(&sandbox, path, &options)?,
        // The built-in policy needs no signature.
        None => Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions { signers: Vec::new(), ..options })?,
    })
}

/// Loads the built-in component that answers queries.
pub(crate) fn extractor(config: &Config) -> anyhow::Result<Extractor> {
    let options = LoadOptions { cache: compile_cache(), ..LoadOptions::default() };
    Ok(Extractor::from_bytes(&sandbox(false)?, EXTRACT_COMPONENT, &options, (&config.query).into())?)
}

/// Compiled code is beside the default store, not in it, because its subdirectories are tenants.
pub(crate) fn cache_directory() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")))?;
    Some(cache.join("lro-filter-compiled"))
}

/// Opens the cache. Without it, every start compiles.
pub(crate) fn compile_cache() -> Option<CompileCache> {
    let opened = CompileCache::open(cache_directory()?);
    opened.inspect_err(|error| tracing::warn!(%error, "cannot cache compiled policies")).ok()
}

/// Creates the request for a result.
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

/// Creates a filter. An error of the store only matters when a result is to be written.
pub(crate) fn filter(config: &Config, policy: Policy, store: Result<Store, StoreError>) -> Filter {
    Filter {
        slot: policy.into(),
        store: store.map_err(Arc::new),
        limits: (&config.limits).into(),
        failure: config.failure,
    }
}

/// Opens the configured store.
pub(crate) fn store(config: &Config) -> Result<Store, StoreError> {
    Store::open(store_config(config))
}
