//! The sessions of older revisions that the server has opened.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use lro_transport::{Permit, Pool};
use parking_lot::Mutex;

use crate::listener::shares::Holder;
use crate::metrics::{CountGuard, Metrics};
use crate::session::Session;

/// Sessions by their id from the server. At the limit, the oldest session of the tenant is evicted first.
pub(super) struct Sessions {
    pool: Arc<Pool<Holder>>,
    metrics: Arc<Metrics>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    by_id: HashMap<String, KnownSession>,
    order: VecDeque<String>,
}

struct KnownSession {
    session: Arc<Session>,
    permit: Permit<Holder>,
    _open: CountGuard,
}

impl Sessions {
    /// `pool` has a permit for each session.
    pub(super) fn new(pool: &Arc<Pool<Holder>>, metrics: &Arc<Metrics>) -> Self {
        Self { pool: Arc::clone(pool), metrics: Arc::clone(metrics), known: Mutex::default() }
    }

    /// The session with this id, if it is the tenant's.
    pub(super) fn find(&self, id: &str, tenant: &str) -> Option<Arc<Session>> {
        let known = self.known.lock();
        known.by_id.get(id).map(|known| &known.session).filter(|session| session.tenant() == tenant).cloned()
    }

    /// Returns the tenant and id of the sessions that were evicted for it.
    pub(super) fn remember(&self, id: &str, holder: &Holder, session: &Arc<Session>) -> Vec<(String, String)> {
        let (mut known, mut evicted) = (self.known.lock(), Vec::new());
        if known.by_id.get(id).is_some_and(|known| known.session.tenant() != session.tenant()) {
            tracing::warn!("the server assigned the session id of one tenant to another, which cannot use it");
            return evicted;
        }
        known.forget(id);
        let permit = loop {
            match self.pool.take(holder, 1) {
                Some(permit) => break permit,
                None => match known.evict_one(holder) {
                    Some(one) => evicted.push(one),
                    None => return evicted,
                },
            }
        };
        let entry = KnownSession { session: Arc::clone(session), permit, _open: self.metrics.session() };
        known.by_id.insert(id.to_owned(), entry);
        known.order.push_back(id.to_owned());
        evicted
    }

    pub(super) fn forget(&self, id: &str) {
        self.known.lock().forget(id);
    }
}

impl Known {
    fn forget(&mut self, id: &str) {
        if self.by_id.remove(id).is_some() {
            self.order.retain(|known| known != id);
        }
    }

    /// Evicts the oldest session of the holder, or the oldest of all if the holder has none. Returns its tenant and id.
    fn evict_one(&mut self, holder: &Holder) -> Option<(String, String)> {
        let is_own = |id: &&String| self.by_id.get(*id).is_some_and(|known| known.permit.holder() == holder);
        let oldest = self.order.iter().find(is_own).or(self.order.front()).cloned()?;
        let tenant = self.by_id.get(&oldest).map(|known| known.session.tenant().to_owned());
        self.forget(&oldest);
        Some((tenant?, oldest))
    }
}
