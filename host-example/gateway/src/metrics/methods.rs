//! Messages of servers other than tool results, by method and tenant.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use lro_transport::{Permit, Pool};
use metrics::counter;

use super::LABELS_MAX;
use super::snapshot::{Sizes, Snapshot};

/// The label `method` of JSON-RPC errors, whatever request they answer.
pub(crate) const ERROR: &str = "error";

/// The label `method` of all pairs beyond [`LABELS_MAX`].
const OTHER: &str = "other";

/// Sizes of messages by tenant and method.
pub(super) struct Methods {
    tenants: HashMap<String, HashMap<&'static str, Series>>,
    pairs: Arc<Pool<String>>,
}

/// The messages of one method and tenant.
struct Series {
    sizes: Sizes,
    /// The permit for the pair; `None` for the method `other`.
    _pair: Option<Permit<String>>,
}

impl Default for Methods {
    fn default() -> Self {
        Self { tenants: HashMap::new(), pairs: Pool::new(LABELS_MAX as u64) }
    }
}

impl fmt::Debug for Methods {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Methods").field("pairs", &self.pairs).finish_non_exhaustive()
    }
}

impl Methods {
    pub(super) fn observe(&mut self, method: &'static str, tenant: &str, bytes: u64, tokens: u64) {
        let methods = self.tenants.entry(tenant.to_owned()).or_default();
        if !methods.contains_key(method) {
            let pair = self.pairs.take(&tenant.to_owned(), 1);
            let method = if pair.is_some() { method } else { OTHER };
            methods.entry(method).or_insert_with(|| Series { sizes: Sizes::default(), _pair: pair });
        }
        let method = if methods.contains_key(method) { method } else { OTHER };
        if let Some(Series { sizes, .. }) = methods.get_mut(method) {
            sizes.messages += 1;
            sizes.bytes += bytes;
            sizes.tokens += tokens;
        }
    }

    /// Adds the sizes to the totals.
    pub(super) fn add_to(&self, totals: &mut Snapshot) {
        for (method, series) in self.tenants.values().flatten() {
            let total = totals.methods.entry((*method).to_owned()).or_default();
            *total = &*total + &series.sizes;
        }
    }

    /// Sets the counters of the global recorder.
    pub(super) fn export(&self) {
        for (tenant, methods) in &self.tenants {
            for (method, Series { sizes, .. }) in methods {
                let labels = [("method", (*method).to_owned()), ("tenant", tenant.clone())];
                counter!("lro_method_messages_total", &labels).absolute(sizes.messages);
                counter!("lro_method_bytes_total", &labels).absolute(sizes.bytes);
                counter!("lro_method_tokens_total", &labels).absolute(sizes.tokens);
            }
        }
    }
}
