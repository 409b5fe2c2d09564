//! A limited resource, shared so that no holder can take all of it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Fraction of a pool, 1 in this many, that is reserved for holders with at most that much.
const RESERVED_FRACTION: u64 = 8;

/// A pool of permits, such as for bytes or requests, and how many each holder has.
///
/// A holder with more than an eighth of all permits gets none of the last eighth. So one holder alone gets at most
/// seven eighths, and leaves some to others.
#[derive(Debug)]
pub struct Pool<H> {
    most: u64,
    held: Mutex<Held<H>>,
}

#[derive(Debug)]
struct Held<H> {
    all: u64,
    by: HashMap<H, u64>,
}

/// Permits of a holder, released when dropped.
#[derive(Debug)]
pub struct Permit<H: Eq + Hash> {
    pool: Arc<Pool<H>>,
    holder: H,
    amount: u64,
}

impl<H: Clone + Debug + Eq + Hash> Pool<H> {
    /// Creates a pool of `most` permits.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::new(Held { all: 0, by: HashMap::new() }) })
    }

    /// Takes permits for a holder, if available to it.
    pub fn take(self: &Arc<Self>, holder: &H, amount: u64) -> Option<Permit<H>> {
        let mut held = self.held.lock();
        let own = held.by.get(holder).copied().unwrap_or(0).checked_add(amount)?;
        let left = self.most.checked_sub(held.all.checked_add(amount)?)?;
        let reserved = self.most / RESERVED_FRACTION;
        if left < reserved && own > reserved {
            return None;
        }
        held.all += amount;
        held.by.insert(holder.clone(), own);
        Some(Permit { pool: Arc::clone(self), holder: holder.clone(), amount })
    }
}

impl<H: Eq + Hash> Permit<H> {
    /// The holder.
    pub fn holder(&self) -> &H {
        &self.holder
    }
}

impl<H: Eq + Hash> Drop for Permit<H> {
    fn drop(&mut self) {
        let mut held = self.pool.held.lock();
        held.all = held.all.saturating_sub(self.amount);
        let Some(own) = held.by.get_mut(&self.holder) else { return };
        *own = own.saturating_sub(self.amount);
        if *own == 0 {
            held.by.remove(&self.holder);
        }
    }
}
