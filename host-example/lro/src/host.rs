//! Creates policies, stores, filters and requests from the configuration.

use std::env;
use std::sync::Arc;

use lro_gateway::settings::{Config, PolicyPlace};
use lro_gateway::{PolicyRegistries, parts};
use lro_host::extract::Extractor;
use lro_host::filter::{Filter, Request};
use lro_host::policy::{DEFAULT_POLICY, LoadError, LoadOptions, Policy, Source};
use lro_host::store::{Store, StoreError};

use crate::flags::CallArguments;

/// Options for loading a policy; `fuel` selects the sandbox.
pub(crate) fn load_options(config: &Config, fuel: bool) -> anyhow::Result<LoadOptions> {
    Ok(parts::load_options(config, Some(&env::current_exe()?), fuel)?)
}

/// Loads the configured policy for a tenant, or else the built-in one.
pub(crate) fn policy(config: &Config, tenant: &str) -> anyhow::Result<Policy> {
    let fuel = config.limits.fuel.is_some();
    let (sandbox, options) = (
        parts::small_sandbox(fuel)?,
        LoadOptions {
            cache: parts::compile_cache(config),
            tenant: Some(tenant.to_owned()),
            ..load_options(config, fuel)?
        },
    );
    Ok(match &config.policy {
        Some(place) => Policy::load(&sandbox, &source(place, config)?, &options)?,
        // The built-in policy needs no signature.
        None => Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions { signers: Vec::new(), ..options })?,
    })
}

/// What answers questions. It is loaded while the offload is opened.
pub(crate) fn extractor(config: &Config) -> anyhow::Result<Extractor> {
    parts::small_sandbox(false)?;
    let extractor = parts::extractor(config)?;
    extractor.load_in_background();
    Ok(extractor)
}

/// Reads a component and its signature, from a file or a registry.
pub(crate) fn source(place: &PolicyPlace, config: &Config) -> Result<Source, LoadError> {
    match place {
        PolicyPlace::File(path) => Source::read(path, config.loading.component_bytes.get()),
        PolicyPlace::Registry(reference) => PolicyRegistries::new(config).source(reference),
    }
}

/// Creates the request for a result.
pub(crate) fn request(arguments: &CallArguments, config: &Config, is_error: bool) -> Request {
    Request {
        tenant: arguments.tenant.clone(),
        session: arguments.session.clone(),
        tool: arguments.tool.clone(),
        query: arguments.query.clone(),
        is_error: is_error || arguments.error,
        input_schema: None,
        abilities: arguments.abilities(),
        reader_limit: None,
        descriptor_room: None,
        settings: Arc::new(config.for_tool(&arguments.tool)),
        time_to_live: config.gateway_tool(&arguments.tool).time_to_live(),
        handle: None,
    }
}

/// Creates a filter. An error of the store only matters when a result is to be written.
pub(crate) fn filter(config: &Config, policy: Policy, store: Result<Store, StoreError>) -> anyhow::Result<Filter> {
    Ok(Filter {
        slot: policy.into(),
        store: store.map_err(Arc::new),
        limits: config.limits.clone(),
        failure: config.failure,
        documents: Some(parts::documents(config)?),
    })
}

/// Opens the configured store.
pub(crate) fn store(config: &Config) -> Result<Store, StoreError> {
    Store::open(parts::store_config(config))
}
