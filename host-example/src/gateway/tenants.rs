//! The tenants of a gateway: who they are, and the rules of each. They come and go while the gateway runs.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use arc_swap::ArcSwap;
use subtle::ConstantTimeEq;

use super::rules::Rules;
use crate::filter::Filter;
use crate::policy::{Digest, Registry};
use crate::settings::Config;

/// Tenants that share a store, tools and metrics, each with a policy and settings of its own.
#[derive(Debug)]
pub struct Tenants {
    registry: Arc<Registry>,
    known: ArcSwap<Known>,
    /// Rules that were asked for since the settings last changed.
    rules: Mutex<HashMap<String, Arc<Rules>>>,
}

/// What the configuration says of tenants.
#[derive(Debug)]
struct Known {
    config: Config,
    tokens: Vec<(String, Digest)>,
}

impl Tenants {
    /// The tenants of a registry, their settings in a configuration, and the SHA-256 of the bearer token of each.
    pub fn new(registry: Arc<Registry>, config: Config, tokens: impl IntoIterator<Item = (String, Digest)>) -> Self {
        let known = ArcSwap::from_pointee(Known { config, tokens: tokens.into_iter().collect() });
        Self { registry, known, rules: Mutex::default() }
    }

    /// Puts other settings and tokens in the place of those in force. Sessions that are open keep the settings they began
    /// with; requests with a token that is gone are refused.
    pub fn replace(&self, config: Config, tokens: impl IntoIterator<Item = (String, Digest)>) {
        self.known.store(Arc::new(Known { config, tokens: tokens.into_iter().collect() }));
        self.rules.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// The policies.
    pub fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Whether requests need a token.
    pub(super) fn has_tokens(&self) -> bool {
        !self.known.load().tokens.is_empty()
    }

    /// Whose token this is the digest of. Every token is compared, and digests are, so that the time tells nothing.
    pub(super) fn of_token(&self, digest: &[u8]) -> Option<String> {
        let known = self.known.load();
        let mut found = None;
        for (tenant, expected) in &known.tokens {
            if bool::from(expected.0.as_slice().ct_eq(digest)) {
                found = Some(tenant.clone());
            }
        }
        found
    }

    /// Whether there is a tenant of this name: one with a token, or with a policy of its own.
    pub(super) fn has(&self, tenant: &str) -> bool {
        self.known.load().tokens.iter().any(|(name, _)| name == tenant) || self.registry.slot(tenant).is_some()
    }

    /// The rules of a tenant, made from those for all. A tenant without a policy of its own has that of the others.
    pub(super) fn rules(&self, base: &Rules, tenant: &str) -> Option<Arc<Rules>> {
        let slot = self.registry.slot(tenant)?;
        let mut rules = self.rules.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = rules.get(tenant).filter(|rules| Arc::ptr_eq(&rules.filter.slot, &slot)) {
            return Some(Arc::clone(found));
        }
        let config = self.known.load().config.for_tenant(tenant);
        let filter =
            Filter { slot, store: base.filter.store.clone(), limits: (&config.limits).into(), failure: config.failure };
        let made = Arc::new(base.with(config, filter));
        rules.insert(tenant.to_owned(), Arc::clone(&made));
        Some(made)
    }
}
