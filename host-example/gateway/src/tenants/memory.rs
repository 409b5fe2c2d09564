//! What is remembered of each tenant beyond one request, in bounded memory: how much of its budget a client has used, the
//! output schemas of tools, and replies that identical calls get again.
//!
//! Over HTTP a client of revision 2026-07-28 has no session, so it is known by what it says it is and the address it comes
//! from. Several clients that are the same in both share a budget. Whatever has not been used for longest is forgotten
//! first: a budget then begins anew, a schema is learned again from the next `tools/list`, a call is made again.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::store::Ulid;
use lru::LruCache;

/// What two identical calls have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key(pub(crate) [u8; 32]);

/// A reply that may be given again.
#[derive(Debug)]
pub(crate) struct Reusable {
    pub(crate) offload: Ulid,
    pub(crate) result: Bytes,
    pub(crate) since: Instant,
}

impl Reusable {
    pub(crate) fn bytes(&self) -> usize {
        self.result.len()
    }
}

/// Most tenants that are remembered.
pub(crate) const TENANTS_MAX: usize = 1_024;

/// Most clients of a tenant whose budgets are remembered.
pub(crate) const CLIENTS_MAX: usize = 1_024;

/// Longest name and longest version of a client that are told apart, in bytes.
const CLIENT_BYTES_MAX: usize = 128;

/// Most bytes of the output schemas of a tenant's tools: 4 MiB.
pub(crate) const SCHEMAS_BYTES_MAX: usize = 4 << 20;

/// Most bytes of the replies of a tenant that may be given again: 4 MiB.
pub(crate) const REPLIES_BYTES_MAX: usize = 4 << 20;

/// Bytes that an entry takes up besides its name and value.
const ENTRY_BYTES: usize = 128;

/// Estimated tokens of results that went on to a client as they were.
#[derive(Debug, Default)]
pub(crate) struct Spent(AtomicU64);

impl Spent {
    /// Adds to it; returns what was spent before.
    pub(crate) fn add(&self, tokens: u64) -> u64 {
        self.0.fetch_add(tokens, Ordering::Relaxed)
    }

    /// What was spent so far.
    pub(crate) fn tokens(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A client without a session.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Client {
    name: String,
    version: String,
    address: IpAddr,
}

impl Client {
    pub(crate) fn new(name: &str, version: &str, address: IpAddr) -> Self {
        let short = |text: &str| text.get(..text.floor_char_boundary(CLIENT_BYTES_MAX)).unwrap_or_default().to_owned();
        Self { name: short(name), version: short(version), address }
    }
}

/// What is remembered of all tenants.
#[derive(Debug)]
pub(crate) struct Memory(Mutex<LruCache<String, Tenant>>);

#[derive(Debug)]
struct Tenant {
    clients: LruCache<Client, (Arc<Spent>, Instant)>,
    schemas: Shelf<String, Bytes>,
    replies: Shelf<Key, Arc<Reusable>>,
}

impl Default for Memory {
    fn default() -> Self {
        Self(Mutex::new(LruCache::new(at_most(TENANTS_MAX))))
    }
}

impl Default for Tenant {
    fn default() -> Self {
        Self {
            clients: LruCache::new(at_most(CLIENTS_MAX)),
            schemas: Shelf::new(SCHEMAS_BYTES_MAX),
            replies: Shelf::new(REPLIES_BYTES_MAX),
        }
    }
}

impl Memory {
    /// What a client has spent; nothing, after it has asked for nothing for as long as `idle`.
    pub(crate) fn spent(&self, tenant: &str, client: Client, idle: Duration) -> Arc<Spent> {
        let now = Instant::now();
        self.with(tenant, |tenant| {
            let (spent, last) = tenant.clients.get_or_insert_mut(client, || (Arc::default(), now));
            if now.duration_since(*last) > idle {
                *spent = Arc::default();
            }
            *last = now;
            Arc::clone(spent)
        })
    }

    /// Learns the output schemas of tools.
    pub(crate) fn learn<'a>(&self, tenant: &str, schemas: impl Iterator<Item = (&'a str, &'a [u8])>) {
        let schemas: BTreeMap<_, _> = schemas.collect();
        if schemas.is_empty() {
            return;
        }
        self.with(tenant, |tenant| {
            for (tool, schema) in schemas {
                let bytes = tool.len() + schema.len();
                tenant.schemas.put(tool.to_owned(), Bytes::copy_from_slice(schema), bytes);
            }
        });
    }

    /// The output schema of a tool, once it was listed.
    pub(crate) fn schema(&self, tenant: &str, tool: &str) -> Option<Bytes> {
        self.with(tenant, |tenant| tenant.schemas.get(tool).cloned())
    }

    /// The reply that a call got before.
    pub(crate) fn reply(&self, tenant: &str, key: &Key) -> Option<Arc<Reusable>> {
        self.with(tenant, |tenant| tenant.replies.get(key).cloned())
    }

    /// Keeps a reply for calls that are identical.
    pub(crate) fn keep_reply(&self, tenant: &str, key: Key, reply: Reusable) {
        let bytes = reply.bytes();
        self.with(tenant, |tenant| tenant.replies.put(key, Arc::new(reply), bytes));
    }

    fn with<T>(&self, tenant: &str, use_it: impl FnOnce(&mut Tenant) -> T) -> T {
        let mut tenants: MutexGuard<'_, _> = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        use_it(tenants.get_or_insert_mut_ref(tenant, Tenant::default))
    }
}

/// Entries that together have no more than a number of bytes.
#[derive(Debug)]
struct Shelf<K: Hash + Eq, V> {
    entries: LruCache<K, (V, usize)>,
    bytes: usize,
    bytes_max: usize,
}

impl<K: Hash + Eq, V> Shelf<K, V> {
    fn new(bytes_max: usize) -> Self {
        Self { entries: LruCache::unbounded(), bytes: 0, bytes_max }
    }

    fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: std::borrow::Borrow<Q>,
    {
        self.entries.get(key).map(|(value, _)| value)
    }

    /// Puts an entry in the place of the one with this key. One that is larger than all of the room is not kept.
    fn put(&mut self, key: K, value: V, bytes: usize) {
        let bytes = bytes.saturating_add(ENTRY_BYTES);
        if let Some((_, before)) = self.entries.pop(&key) {
            self.bytes -= before;
        }
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
