//! Overrides for one tenant.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};
use toml::Table;

use super::Config;
use super::layers::{Origin, flatten, key_text};

/// Keys that all tenants share: they concern the process, the store, or the readers of all offloads.
pub const SHARED_KEYS: [&str; 24] = [
    "admission",
    "breaker",
    "config",
    "dir",
    "documents-memory-bytes",
    "documents-wall-time-ms",
    "fsync",
    "gateway",
    "loading",
    "policy-dir",
    "policy-keep",
    "query",
    "quota-file",
    "quota-tenant",
    "quota-total",
    "store",
    "store-copies",
    "store-keys",
    "store-lease-seconds",
    "store-left-seconds",
    "store-retry-ms",
    "store-timeout-ms",
    "tenants",
    "ttl-seconds",
];

/// Overrides of the configuration for one tenant. Tables are merged key by key, lists are replaced.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct TenantOverride(Table);

impl<'de> Deserialize<'de> for TenantOverride {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let table = Table::deserialize(deserializer)?;
        if let Some(key) = table.keys().find(|key| SHARED_KEYS.contains(&key.as_str())) {
            return Err(D::Error::custom(format!("all tenants share `{key}`: set it at the top level")));
        }
        Config::deserialize(table.clone()).map_err(|error| D::Error::custom(error.message()))?;
        Ok(Self(table))
    }
}

impl TenantOverride {
    /// Whether settings of tools differ.
    pub(super) fn has_tools(&self) -> bool {
        self.0.contains_key("tools")
    }
}

impl Config {
    /// Returns the configuration of a tenant, with its overrides from [`Config::tenants`] applied.
    pub fn for_tenant(&self, tenant: &str) -> Self {
        let Some(TenantOverride(table)) = self.tenants.get(tenant) else { return self.clone() };
        let mut merged = self.merged.clone();
        overlay(&mut merged, table);
        // Every value was valid by itself, so all of them together are valid.
        let Ok(mut config) = Self::deserialize(merged.clone()) else { return self.clone() };
        let mut leaves = Vec::new();
        let origin = Origin::Tenant(tenant.to_owned());
        flatten(&mut Vec::new(), table.clone().into(), &origin, &mut leaves);
        config.dir.clone_from(&self.dir);
        config.gateway.clone_from(&self.gateway);
        config.merged = merged;
        config.origins.clone_from(&self.origins);
        config.origins.extend(leaves.into_iter().map(|leaf| (key_text(&leaf.path), leaf.origin)));
        config.apply_preset();
        config
    }
}

fn overlay(below: &mut Table, above: &Table) {
    for (key, value) in above {
        match (below.get_mut(key), value) {
            (Some(toml::Value::Table(below)), toml::Value::Table(above)) => overlay(below, above),
            _ => drop(below.insert(key.clone(), value.clone())),
        }
    }
}
