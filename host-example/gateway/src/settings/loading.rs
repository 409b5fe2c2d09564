//! Limits of loading a policy.

use std::num::NonZeroU64;
use std::time::Duration;

use lro_host::policy::{COMPILE_CACHE_BYTES_DEFAULT, CompileLimits, POLICY_BYTES_MAX};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize};

use super::at_least_one;

/// Limits of loading a policy, each at least 1, and registries without TLS.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Loading {
    /// Maximum size of a component, in bytes. Default: 64 MiB.
    pub component_bytes: NonZeroU64,
    /// Milliseconds of processor time that compiling a component may take, four times as many by the clock, and that it may
    /// wait for its turn. Default: 30,000.
    pub compile_ms: NonZeroU64,
    /// Address space of the compiling process, in bytes. Default: 1 GiB.
    pub compile_memory_bytes: NonZeroU64,
    /// Disk usage of the cache of compiled code, in bytes. Default: 1 GiB.
    pub compile_cache_bytes: NonZeroU64,
    /// Milliseconds that pulling a component from a registry may take. Default: 60,000.
    pub fetch_ms: NonZeroU64,
    /// Registries, as `HOST` or `HOST:PORT`, that are spoken to without TLS. Those on this machine always are. Default:
    /// none.
    #[serde(deserialize_with = "hosts")]
    pub plain_http: Vec<String>,
}

fn hosts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    let hosts = Vec::<String>::deserialize(deserializer)?;
    match hosts.iter().find(|host| host.is_empty() || host.contains(['/', '@', ' '])) {
        Some(host) => Err(D::Error::custom(format!("`{host}` is not HOST or HOST:PORT"))),
        None => Ok(hosts),
    }
}

impl Default for Loading {
    fn default() -> Self {
        let CompileLimits { time, memory_bytes, .. } = CompileLimits::default();
        Self {
            component_bytes: at_least_one(POLICY_BYTES_MAX),
            compile_ms: at_least_one(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            compile_memory_bytes: at_least_one(memory_bytes),
            compile_cache_bytes: at_least_one(COMPILE_CACHE_BYTES_DEFAULT),
            fetch_ms: at_least_one(60_000),
            plain_http: Vec::new(),
        }
    }
}

impl From<&Loading> for CompileLimits {
    fn from(loading: &Loading) -> Self {
        Self {
            time: Duration::from_millis(loading.compile_ms.get()),
            memory_bytes: loading.compile_memory_bytes.get(),
            ..Self::default()
        }
    }
}
