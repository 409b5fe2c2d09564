//! The tenants of a gateway, and their rules. Tenants can be added and removed while the gateway runs.

pub(crate) mod caches;
pub(crate) mod jobs;
pub(crate) mod jwt;
pub(crate) mod pending_limits;
pub(crate) mod rules;
mod spawn;
pub(crate) mod tasks;
pub(crate) mod workers;

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;
use lro_host::filter::Filter;
use lro_host::policy::{Digest, Registry};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq;

use self::jwt::Jwt;
use crate::settings::Config;
use crate::tenants::rules::Rules;

/// Tenants that share a store, tools and metrics, each with its own policy and settings.
#[derive(Debug)]
pub struct Tenants {
    registry: Arc<Registry>,
    current: ArcSwap<TenantConfig>,
    jwt: Option<Jwt>,
    /// The rules of the tenants that have sent a request.
    rules: Mutex<HashMap<String, TenantRules>>,
}

/// The part of the configuration that concerns tenants.
#[derive(Debug)]
struct TenantConfig {
    config: Config,
    tokens: Vec<(String, Digest)>,
}

/// Rules, and the configuration they were made from.
#[derive(Debug)]
struct TenantRules {
    from: Arc<TenantConfig>,
    rules: Arc<Rules>,
}

impl Tenants {
    /// Creates the tenants of a registry, with their configuration and the SHA-256 of the bearer token of each. With `jwt`,
    /// tokens that it finds valid belong to the tenant that they name, whichever that is.
    pub fn new(
        registry: Arc<Registry>,
        config: Config,
        tokens: impl IntoIterator<Item = (String, Digest)>,
        jwt: Option<Jwt>,
    ) -> Self {
        let current = ArcSwap::from_pointee(TenantConfig { config, tokens: tokens.into_iter().collect() });
        Self { registry, current, jwt, rules: Mutex::default() }
    }

    /// Replaces the configuration and the tokens. Open sessions keep the settings they started with; requests with a
    /// removed token are refused.
    pub fn replace(&self, config: Config, tokens: impl IntoIterator<Item = (String, Digest)>) {
        self.current.store(Arc::new(TenantConfig { config, tokens: tokens.into_iter().collect() }));
    }

    /// Removes the policy and the rules of a tenant; open sessions keep both. [`replace`](Self::replace) its settings
    /// and token first, so that no request of the tenant runs with the default policy.
    pub fn remove(&self, tenant: &str) {
        self.registry.remove(tenant);
        self.rules.lock().remove(tenant);
    }

    /// The registry of policies.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether requests need a bearer token.
    pub(crate) fn has_tokens(&self) -> bool {
        self.jwt.is_some() || !self.current.load().tokens.is_empty()
    }

    /// The tenant whose token has this digest. All digests are compared, each in constant time.
    fn by_token(&self, digest: &[u8]) -> Option<String> {
        let current = self.current.load();
        let mut found = None;
        for (tenant, expected) in &current.tokens {
            if bool::from(expected.0.as_slice().ct_eq(digest)) {
                found = Some(tenant.clone());
            }
        }
        found
    }

    /// The tenant of a bearer token.
    pub(crate) async fn of_token(&self, token: &str) -> Option<String> {
        let known = self.by_token(&Sha256::digest(token));
        match &self.jwt {
            Some(jwt) if known.is_none() => jwt
                .tenant(token)
                .await
                .inspect_err(|error| tracing::debug!(error = error as &dyn std::error::Error, "token refused"))
                .ok(),
            _ => known,
        }
    }

    /// The authorization server whose tokens are taken.
    pub(crate) fn issuer(&self) -> Option<&str> {
        self.jwt.as_ref().map(Jwt::issuer)
    }

    /// Whether a tenant exists: if tokens are configured, whether it has one, else whether it has a policy. Tokens that an
    /// authorization server signs can name any.
    pub(crate) fn has(&self, tenant: &str) -> bool {
        let current = self.current.load();
        let is_known = || match current.tokens.is_empty() {
            true => self.registry.slot(tenant).is_some(),
            false => current.tokens.iter().any(|(name, _)| name == tenant),
        };
        self.jwt.is_some() || is_known()
    }

    /// The rules of a tenant, derived from `base`; `None` if the tenant has no policy and uses the default one.
    pub(crate) fn rules(&self, base: &Rules, tenant: &str) -> Option<Arc<Rules>> {
        let slot = self.registry.slot(tenant)?;
        let current = self.current.load_full();
        let mut all = self.rules.lock();
        let before = all.get(tenant).filter(|cached| Arc::ptr_eq(&cached.rules.filter.slot, &slot));
        if let Some(cached) = before.filter(|cached| Arc::ptr_eq(&cached.from, &current)) {
            return Some(Arc::clone(&cached.rules));
        }
        let config = current.config.for_tenant(tenant);
        let filter = Filter { slot, limits: config.limits.clone(), failure: config.failure, ..base.filter.clone() };
        let rules = Arc::new(base.with(tenant, config, filter, before.map(|cached| cached.rules.as_ref())));
        all.insert(tenant.to_owned(), TenantRules { from: current, rules: Arc::clone(&rules) });
        Some(rules)
    }
}
