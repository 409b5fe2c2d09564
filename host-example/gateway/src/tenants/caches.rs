//! Bounded caches of each tenant: token budgets of clients, what is known of tools, and replies to reuse for identical
//! calls.
//!
//! Over HTTP a client of revision 2026-07-28 has no session, so it is identified by its name, version and address;
//! clients that agree in all three share a budget. The least recently used entry is evicted first: a budget then
//! restarts, a tool is known again from the next `tools/list`, and a call goes to the server again.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::store::Ulid;
use lru::LruCache;
use parking_lot::Mutex;

/// The key of identical calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct CallKey(pub(crate) [u8; 32]);

/// A reply that can be reused.
#[derive(Debug)]
pub(crate) struct CachedReply {
    pub(crate) offload: Ulid,
    pub(crate) result: Bytes,
    pub(crate) created: Instant,
}

impl CachedReply {
    pub(crate) fn bytes(&self) -> usize {
        self.result.len()
    }
}

/// Maximum number of tenants.
pub(crate) const TENANTS_MAX: usize = 1_024;

/// Maximum number of clients of a tenant.
pub(crate) const CLIENTS_MAX: usize = 1_024;

/// Length at which the name and the version of a client are truncated, in bytes.
const CLIENT_BYTES_MAX: usize = 128;

/// Maximum size of what is known of a tenant's tools, such as their schemas: 4 MiB.
const TOOLS_BYTES_MAX: usize = 4 << 20;

/// Maximum size of an input schema that is kept: 64 KiB. A policy gets it with each result of the tool.
const INPUT_SCHEMA_BYTES_MAX: usize = 64 << 10;

/// Maximum size of the reusable replies of a tenant: 4 MiB.
pub(crate) const REPLIES_BYTES_MAX: usize = 4 << 20;

/// Overhead of an entry besides its name and value, in bytes.
const ENTRY_BYTES: usize = 128;

/// What is known of a tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum ToolFact {
    /// JSON Schema of its arguments.
    InputSchema,
    /// JSON Schema of its structured content.
    OutputSchema,
    /// The whole description of a tool that was listed with a shorter one, as text.
    Description,
    /// Whether the server runs calls as tasks, as JSON, or [`TASKS_REQUIRED`].
    RunsTasks,
    /// Whether the tool declares structured content, as JSON.
    HasOutput,
}

/// The value of [`ToolFact::RunsTasks`] of a tool whose calls have to be tasks.
pub(crate) const TASKS_REQUIRED: &[u8] = b"\"required\"";

/// Estimated tokens of results that a client received inline.
#[derive(Debug, Default)]
pub(crate) struct TokenUsage(AtomicU64);

impl TokenUsage {
    /// Adds tokens; returns the sum before.
    pub(crate) fn add(&self, tokens: u64) -> u64 {
        self.0.fetch_add(tokens, Ordering::Relaxed)
    }

    /// The tokens so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Identifies a client without a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    name: String,
    version: String,
    address: IpAddr,
}

impl ClientKey {
    pub(crate) fn new(name: &str, version: &str, address: IpAddr) -> Self {
        let short = |text: &str| text.get(..text.floor_char_boundary(CLIENT_BYTES_MAX)).unwrap_or_default().to_owned();
        Self { name: short(name), version: short(version), address }
    }
}

/// The caches of all tenants.
#[derive(Debug)]
pub(crate) struct TenantCaches(Mutex<LruCache<String, TenantCache>>);

#[derive(Debug)]
struct TenantCache {
    clients: LruCache<ClientKey, (Arc<TokenUsage>, Instant)>,
    tools: SizedLruCache<(ToolFact, String), Bytes>,
    replies: SizedLruCache<CallKey, Arc<CachedReply>>,
}

impl Default for TenantCaches {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(at_most(TENANTS_MAX))))
    }
}

impl Default for TenantCache {
    fn default() -> Self {
        Self {
            clients: LruCache::new(at_most(CLIENTS_MAX)),
            tools: SizedLruCache::new(TOOLS_BYTES_MAX),
            replies: SizedLruCache::new(REPLIES_BYTES_MAX),
        }
    }
}

impl TenantCaches {
    /// The token usage of a client, which restarts after the client was idle for longer than `idle`.
    pub(crate) fn usage(&self, tenant: &str, client: ClientKey, idle: Duration) -> Arc<TokenUsage> {
        let now = Instant::now();
        self.with(tenant, |tenant| {
            let (usage, last) = tenant.clients.get_or_insert_mut(client, || (Arc::default(), now));
            if now.duration_since(*last) > idle {
                *usage = Arc::default();
            }
            *last = now;
            Arc::clone(usage)
        })
    }

    /// Stores what is known of tools.
    pub(crate) fn learn<'a>(&self, tenant: &str, facts: impl Iterator<Item = ((ToolFact, String), &'a [u8])>) {
        let facts: BTreeMap<_, _> = facts.collect();
        if facts.is_empty() {
            return;
        }
        self.with(tenant, |tenant| {
            for (key, fact) in facts {
                if key.0 == ToolFact::InputSchema && fact.len() > INPUT_SCHEMA_BYTES_MAX {
                    // An older one is wrong now.
                    tenant.tools.remove(&key);
                    continue;
                }
                let bytes = key.1.len() + fact.len();
                tenant.tools.put(key, Bytes::copy_from_slice(fact), bytes);
            }
        });
    }

    /// The input schema of a tool, if it has been listed.
    pub(crate) fn input_schema(&self, tenant: &str, tool: &str) -> Option<Bytes> {
        self.fact(tenant, (ToolFact::InputSchema, tool.to_owned()))
    }

    /// The output schema of a tool that keeps its shape, if it has been listed.
    pub(crate) fn output_schema(&self, tenant: &str, tool: &str) -> Option<Bytes> {
        self.fact(tenant, (ToolFact::OutputSchema, tool.to_owned()))
    }

    /// The whole description of a tool that was listed with a shorter one.
    pub(crate) fn description(&self, tenant: &str, tool: &str) -> Option<Bytes> {
        self.fact(tenant, (ToolFact::Description, tool.to_owned()))
    }

    /// Whether the server runs calls of a tool as tasks, if the tool has been listed.
    pub(crate) fn runs_tasks(&self, tenant: &str, tool: &str) -> Option<bool> {
        self.fact(tenant, (ToolFact::RunsTasks, tool.to_owned())).map(|runs| runs != "false")
    }

    /// Whether the server runs calls of a tool as tasks alone.
    pub(crate) fn requires_tasks(&self, tenant: &str, tool: &str) -> bool {
        self.fact(tenant, (ToolFact::RunsTasks, tool.to_owned())).is_some_and(|runs| runs == TASKS_REQUIRED)
    }

    /// Whether a tool declares structured content, if it has been listed while the gateway gives outputs.
    pub(crate) fn is_structured(&self, tenant: &str, tool: &str) -> Option<bool> {
        self.fact(tenant, (ToolFact::HasOutput, tool.to_owned())).map(|structured| structured == "true")
    }

    fn fact(&self, tenant: &str, key: (ToolFact, String)) -> Option<Bytes> {
        self.with(tenant, |tenant| tenant.tools.get(&key).cloned())
    }

    /// The reply to an earlier identical call.
    pub(crate) fn reply(&self, tenant: &str, key: &CallKey) -> Option<Arc<CachedReply>> {
        self.with(tenant, |tenant| tenant.replies.get(key).cloned())
    }

    /// Stores a reply for identical calls.
    pub(crate) fn keep_reply(&self, tenant: &str, key: CallKey, reply: CachedReply) {
        let bytes = reply.bytes();
        self.with(tenant, |tenant| tenant.replies.put(key, Arc::new(reply), bytes));
    }

    fn with<T>(&self, tenant: &str, act: impl FnOnce(&mut TenantCache) -> T) -> T {
        act(self.0.lock().get_or_insert_mut_ref(tenant, TenantCache::default))
    }
}

/// An LRU cache bounded by the total size of its entries in bytes.
#[derive(Debug)]
struct SizedLruCache<K: Hash + Eq, V> {
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq, V> SizedLruCache<K, V> {
    fn new(bytes_max: usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, bytes_max }
    }

    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    fn remove(&mut self, key: &K) {
        if let Some((_, bytes)) = self.entries.pop(key) {
            self.bytes -= bytes;
        }
    }

    /// Inserts or replaces an entry. One that is larger than the whole cache is not kept.
    fn put(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        self.remove(&key);
        if bytes > self.bytes_max {
            return;
        }
        while self.bytes + bytes > self.bytes_max
            && let Some((_, (_, oldest))) = self.entries.pop_lru()
        {
            self.bytes -= oldest;
        }
        self.bytes += bytes;
        self.entries.put(key, (value, bytes));
    }
}

fn at_most(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN)
}
