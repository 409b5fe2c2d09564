//! Changes of the tenants and their policies while the gateway runs.

use std::collections::BTreeSet;
use std::env;
use std::ffi::OsString;
use std::sync::Arc;

use parking_lot::Mutex;

use super::GatewayError;
use super::error::ReloadError;
use super::policies::{add_all, counts_fuel, in_directory, tenant_names};
use crate::settings::{Config, GatewaySettings, SHARED_KEYS, Token};
use crate::tenants::Tenants;

/// Applies changes of the configuration and of policies.
#[derive(Debug)]
pub(super) struct Reload {
    tenants: Arc<Tenants>,
    /// Whether compiled policies count instructions.
    fuel: bool,
    current: Mutex<Config>,
}

impl Reload {
    pub(super) fn new(tenants: Arc<Tenants>, config: Config) -> Self {
        Self { tenants, fuel: counts_fuel(&config), current: Mutex::new(config) }
    }

    /// Takes the tenants of a configuration, and reloads all policies.
    pub(super) fn run(&self, mut config: Config) -> Result<(), ReloadError> {
        let tokens = config.gateway_tokens(|name| env::var_os(name)).map_err(GatewayError::from)?;
        let mut current = self.current.lock();
        if config.gateway.tokens.is_empty() && !current.gateway.tokens.is_empty() {
            return Err(ReloadError::NoTokens);
        }
        if let Some(name) = exposed_token(&config, &current) {
            return Err(ReloadError::ExposedToken(name.clone()));
        }
        if counts_fuel(&config) && !self.fuel {
            return Err(ReloadError::Fuel);
        }
        let (before, now) = (restart_settings(&current), restart_settings(&config));
        let keys: BTreeSet<&str> = before.symmetric_difference(&now).map(|(key, _)| key.as_str()).collect();
        if !keys.is_empty() {
            let keys = keys.into_iter().collect::<Vec<_>>().join(", ");
            tracing::warn!("the gateway goes on as it was started with: changes of {keys} need a restart");
        }
        config.gateway = GatewaySettings { tokens: config.gateway.tokens, ..current.gateway.clone() };
        config.policy_dir.clone_from(&current.policy_dir);
        // Refused policies are logged, and the current ones stay.
        add_all(self.tenants.registry(), &config)?;
        self.tenants.replace(config.clone(), tokens);
        let is_gone = |name: &&String| in_directory(&config, name).is_none();
        for gone in tenant_names(&current).difference(&tenant_names(&config)).filter(is_gone) {
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

/// Settings that require a restart: all that are the same for all tenants, except the tenants themselves.
fn restart_settings(config: &Config) -> BTreeSet<(String, String)> {
    let entries = config.explain().into_iter().map(|entry| (entry.key, entry.value));
    let requires_restart = |key: &str| match key.split('.').next() {
        Some("tenants") => false,
        Some("gateway") => !key.starts_with("gateway.tokens"),
        first => first.is_some_and(|first| SHARED_KEYS.contains(&first)),
    };
    entries.filter(|(key, _)| requires_restart(key)).collect()
}
