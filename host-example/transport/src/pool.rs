//! Something of which there is only so much, shared so that nobody takes all of it.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The last part of a pool is for those who hold no more than such a part: 1 in this many.
const KEPT: u64 = 8;

/// Places of one kind, such as bytes or requests, and who holds how many of them.
///
/// Who holds more than an eighth of all gets none of the last eighth. So one holder alone gets seven of eight places, and
/// leaves some to whoever comes next.
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

/// Places that are held; dropped, they are free again.
#[derive(Debug)]
pub struct Place<H: Eq + Hash> {
    pool: Arc<Pool<H>>,
    holder: H,
    amount: u64,
}

impl<H: Clone + Debug + Eq + Hash> Pool<H> {
    /// That many places, all of them free.
    pub fn new(most: u64) -> Arc<Self> {
        Arc::new(Self { most, held: Mutex::new(Held { all: 0, by: HashMap::new() }) })
    }

    /// Takes places for a holder, if it may have them.
    pub fn take(self: &Arc<Self>, holder: &H, amount: u64) -> Option<Place<H>> {
        let mut held = self.lock();
        let own = held.by.get(holder).copied().unwrap_or(0).checked_add(amount)?;
        let left = self.most.checked_sub(held.all.checked_add(amount)?)?;
        let kept = self.most / KEPT;
        if left < kept && own > kept {
            return None;
        }
        held.all += amount;
        held.by.insert(holder.clone(), own);
        Some(Place { pool: Arc::clone(self), holder: holder.clone(), amount })
    }
}

impl<H> Pool<H> {
    fn lock(&self) -> MutexGuard<'_, Held<H>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<H: Eq + Hash> Place<H> {
    /// Who holds it.
    pub fn holder(&self) -> &H {
        &self.holder
    }
}

impl<H: Eq + Hash> Drop for Place<H> {
    fn drop(&mut self) {
        let mut held = self.pool.lock();
        held.all = held.all.saturating_sub(self.amount);
        let Some(own) = held.by.get_mut(&self.holder) else { return };
        *own = own.saturating_sub(self.amount);
        if *own == 0 {
            held.by.remove(&self.holder);
        }
    }
}
