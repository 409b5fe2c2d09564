//! The parts of a host, from the configuration.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use lro_host::documents::Documents;
use lro_host::extract::Extractor;
use lro_host::policy::{CompileCache, CompilePlace, Compiler, Digest, LoadOptions, PublicKey};
use lro_host::sandbox::{Sandbox, SandboxSettings};
use lro_host::store::{BucketConfig, StoreConfig};
use lro_system::files;

use super::GatewayError;
use crate::settings::{Config, StorePlace};

/// Directory of compiled code.
pub(super) const CODE: &str = "lro-filter-compiled";

/// Directory of fetched components.
pub(super) const COMPONENTS: &str = "lro-filter-components";

/// Number of concurrent calls of a process that runs a few.
const FEW_CALLS: u32 = 8;

/// Settings of the store.
pub fn store_config(config: &Config) -> StoreConfig {
    let bucket = match &config.store {
        Some(StorePlace::Bucket(url)) => Some(BucketConfig {
            copies_bytes_max: config.store_copies.get(),
            request_time: Duration::from_millis(config.store_timeout_ms.get()),
            retry_time: Duration::from_millis(config.store_retry_ms),
            left_age: Duration::from_secs(config.store_left_seconds.get()),
            keys: config.store_keys.clone(),
            lease_time: Duration::from_secs(config.store_lease_seconds.get()),
            ..BucketConfig::new(url)
        }),
        Some(StorePlace::Directory(_)) | None => None,
    };
    StoreConfig {
        root: config.dir.clone(),
        time_to_live: Duration::from_secs(config.ttl_seconds.get()),
        fsync: config.fsync,
        file_bytes_max: config.quota_file.get(),
        tenant_bytes_max: config.quota_tenant.get(),
        total_bytes_max: config.quota_total.get(),
        bucket,
    }
}

/// Returns the shared sandbox of the process, one that counts instructions if `fuel` is set. It has room for as many calls
/// as a gateway may run, unless [`small_sandbox`] has made it.
///
/// # Errors
/// [`GatewayError::Sandbox`] if the system cannot run compiled code.
pub fn sandbox(fuel: bool) -> Result<Sandbox, GatewayError> {
    shared(SandboxSettings { fuel, ..SandboxSettings::default() })
}

/// As [`sandbox`], for a process that runs a few calls at a time: it starts faster.
///
/// # Errors
/// As [`sandbox`].
pub fn small_sandbox(fuel: bool) -> Result<Sandbox, GatewayError> {
    shared(SandboxSettings { fuel, calls: FEW_CALLS })
}

fn shared(settings: SandboxSettings) -> Result<Sandbox, GatewayError> {
    static PLAIN: OnceLock<Sandbox> = OnceLock::new();
    static COUNTING: OnceLock<Sandbox> = OnceLock::new();
    let cell = if settings.fuel { &COUNTING } else { &PLAIN };
    if let Some(sandbox) = cell.get() {
        return Ok(sandbox.clone());
    }
    let sandbox = Sandbox::with(settings).map_err(|error| GatewayError::Sandbox(format!("{error:#}")))?;
    Ok(cell.get_or_init(|| sandbox).clone())
}

/// Options for loading the policy of a configuration, without a cache. `helper` compiles it, for the sandbox of `fuel`:
/// see [`Gateway::new`](crate::Gateway::new).
///
/// # Errors
/// [`GatewayError::Setting`] if the digest or a key is invalid.
pub fn load_options(config: &Config, helper: Option<&Path>, fuel: bool) -> Result<LoadOptions, GatewayError> {
    Ok(LoadOptions {
        pin: pin(config)?,
        signers: signers(config)?,
        tenant: None,
        bytes_max: config.loading.component_bytes.get(),
        cache: None,
        compiler: compiler(config, helper, fuel),
    })
}

/// What answers questions. Its component is loaded at the first one, or before by [`Extractor::load_in_background`]; that for SQL at
/// the first query.
///
/// # Errors
/// [`GatewayError::Sandbox`] if the system cannot run compiled code.
pub fn extractor(config: &Config) -> Result<Extractor, GatewayError> {
    let extractor = Extractor::unloaded(&sandbox(false)?, compile_cache(config), (&config.query).into());
    Ok(extractor.with_instances(config.query.instances.get()))
}

/// The reader of documents, which is loaded at the first one.
///
/// # Errors
/// [`GatewayError::Sandbox`] if the system cannot run compiled code.
pub fn documents(config: &Config) -> Result<Documents, GatewayError> {
    let time = Duration::from_millis(config.documents_wall_time_ms.get());
    let memory_bytes = usize::try_from(config.documents_memory_bytes.get()).unwrap_or(usize::MAX);
    Ok(Documents::new(&sandbox(false)?, compile_cache(config), time, memory_bytes))
}

/// Opens the cache of compiled code. Without it, which is logged, every start compiles.
pub fn compile_cache(config: &Config) -> Option<CompileCache> {
    let opened = CompileCache::open(cache_directory(CODE)?);
    let cache = opened.inspect_err(|error| tracing::warn!(%error, "cannot cache compiled policies")).ok()?;
    Some(cache.with_bytes_max(config.loading.compile_cache_bytes.get()))
}

/// What is cached is beside the default store, not in it, because its subdirectories are tenants.
pub(super) fn cache_directory(name: &str) -> Option<PathBuf> {
    Some(files::cache_directory(|name| env::var_os(name))?.join(name))
}

/// The compiler: child processes of the helper, or without one, threads.
pub(super) fn compiler(config: &Config, helper: Option<&Path>, fuel: bool) -> Compiler {
    let place = helper.map_or(CompilePlace::Thread, |program| {
        let arguments = [Some("compile"), fuel.then_some("--fuel")].into_iter().flatten().map(OsString::from);
        CompilePlace::Child { program: program.to_owned(), arguments: arguments.collect() }
    });
    Compiler::new(place, (&config.loading).into())
}

/// The pinned digest of the policy.
pub(super) fn pin(config: &Config) -> Result<Option<Digest>, GatewayError> {
    let pin = config.policy_sha256.as_deref().map(str::parse::<Digest>).transpose();
    pin.map_err(|error| GatewayError::Setting { key: "policy-sha256", reason: error.to_string() })
}

/// The keys, one of which must have signed a policy.
pub(super) fn signers(config: &Config) -> Result<Vec<PublicKey>, GatewayError> {
    let keys = config.policy_keys.iter().map(|key| PublicKey::from_base64(key)).collect::<Result<_, _>>();
    keys.map_err(|error| GatewayError::Setting { key: "policy-keys", reason: error.to_string() })
}
