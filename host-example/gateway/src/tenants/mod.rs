//! The tenants of a gateway: who they are, and the rules of each. They come and go while the gateway runs.

pub(crate) mod memory;
pub(crate) mod rules;
pub(crate) mod waiting;
pub(crate) mod workers;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq;

use crate::settings::Config;
use crate::tenants::rules::Rules;
use lro_host::filter::Filter;
use lro_host::policy::{Digest, Registry};

/// Tenants that share a store, tools and metrics, each with a policy and settings of its own.
#[derive(Debug)]
pub struct Tenants {
    registry: Arc<Registry>,
    known: ArcSwap<Known>,
    /// The rules of tenants that asked.
    made: Mutex<HashMap<String, Made>>,
}

/// What the configuration says of tenants.
#[derive(Debug)]
struct Known {
    config: Config,
    tokens: Vec<(String, Digest)>,
}

/// Rules, and what they were made from.
#[derive(Debug)]
struct Made {
    from: Arc<Known>,
    rules: Arc<Rules>,
}

impl Tenants {
    /// The tenants of a registry, their settings in a configuration, and the SHA-256 of the bearer token of each.
    pub fn new(registry: Arc<Registry>, config: Config, tokens: impl IntoIterator<Item = (String, Digest)>) -> Self {
        let known = ArcSwap::from_pointee(Known { config, tokens: tokens.into_iter().collect() });
        Self { registry, known, made: Mutex::default() }
    }

    /// Puts other settings and tokens in the place of those in force. Sessions that are open keep the settings they began
    /// with; requests with a token that is gone are refused.
    pub fn replace(&self, config: Config, tokens: impl IntoIterator<Item = (String, Digest)>) {
        self.known.store(Arc::new(Known { config, tokens: tokens.into_iter().collect() }));
    }

    /// Removes the policy of a tenant, and what is known of it. Sessions that are open keep both. Settings and tokens without
    /// it come first: to the end, a request of the tenant is to meet its own policy.
    pub fn remove(&self, tenant: &str) {
        self.registry.remove(tenant);
        self.lock_made().remove(tenant);
    }

    /// The policies.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether requests need a token.
    pub(crate) fn has_tokens(&self) -> bool {
        !self.known.load().tokens.is_empty()
    }

    /// Whose token this is the digest of. Every token is compared, and digests are, so that the time tells nothing.
    pub(crate) fn of_token(&self, digest: &[u8]) -> Option<String> {
        let known = self.known.load();
        let mut found = None;
        for (tenant, expected) in &known.tokens {
            if bool::from(expected.0.as_slice().ct_eq(digest)) {
                found = Some(tenant.clone());
            }
        }
        found
    }

    /// Whether requests can be of this tenant: it has a token where tokens are needed, else a policy.
    pub(crate) fn has(&self, tenant: &str) -> bool {
        let known = self.known.load();
        match known.tokens.is_empty() {
            true => self.registry.slot(tenant).is_some(),
            false => known.tokens.iter().any(|(name, _)| name == tenant),
        }
    }

    /// The rules of a tenant, made from those for all. A tenant without a policy of its own has that of the others.
    pub(crate) fn rules(&self, base: &Rules, tenant: &str) -> Option<Arc<Rules>> {
        let slot = self.registry.slot(tenant)?;
        let known = self.known.load_full();
        let mut all = self.lock_made();
        let before = all.get(tenant).filter(|made| Arc::ptr_eq(&made.rules.filter.slot, &slot));
        if let Some(made) = before.filter(|made| Arc::ptr_eq(&made.from, &known)) {
            return Some(Arc::clone(&made.rules));
        }
        let config = known.config.for_tenant(tenant);
        let filter =
            Filter { slot, store: base.filter.store.clone(), limits: (&config.limits).into(), failure: config.failure };
        let rules = Arc::new(base.with(tenant, config, filter, before.map(|made| made.rules.as_ref())));
        all.insert(tenant.to_owned(), Made { from: known, rules: Arc::clone(&rules) });
        Some(rules)
    }

    fn lock_made(&self) -> MutexGuard<'_, HashMap<String, Made>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
