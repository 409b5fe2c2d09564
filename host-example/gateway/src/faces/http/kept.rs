//! Sessions of revisions up to 2025-11-25 in the bucket that replicas share, so that another one goes on with them.
//!
//! What is kept is the handshake of the client. A session with a command is held by the replica that runs the command, until
//! that is gone or hands it over; one with a server over HTTP goes on at any replica, as its server knows it.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use lro_host::mcp::Message;
use lro_host::store::{Store, StoreError};
use tokio::sync::Semaphore;

use crate::tenants::rules::Rules;

/// How long a request of a client waits for the bucket.
const WAIT: Duration = Duration::from_secs(2);

/// Sessions that are handed over at the same time.
const AT_ONCE: usize = 16;

/// Threads that wait for the bucket at the same time. They go on after [`WAIT`], until the bucket answers.
const THREADS_MAX: usize = 64;

/// The sessions of this gateway as other replicas find them.
#[derive(Clone, Debug)]
pub(super) struct KeptSessions {
    rules: Arc<Rules>,
    /// Whether they are held by the gateway that began them.
    are_held: bool,
    /// Permits for [`THREADS_MAX`] threads.
    threads: Arc<Semaphore>,
}

impl KeptSessions {
    pub(super) fn new(rules: Arc<Rules>, are_held: bool) -> Self {
        Self { rules, are_held, threads: Arc::new(Semaphore::new(THREADS_MAX)) }
    }

    /// Whether the gateway that begins a session holds it.
    pub(super) const fn are_held(&self) -> bool {
        self.are_held
    }

    /// Keeps the handshake of a session.
    pub(super) async fn keep(&self, tenant: &str, id: &str, handshake: Bytes) {
        let is_held = self.are_held && !self.rules.is_draining();
        let (tenant, id) = (tenant.to_owned(), id.to_owned());
        self.run("keep a session", move |store| store.keep_session(&tenant, &id, &handshake, is_held)).await;
    }

    /// The handshake of a session that began at another replica, and that this one may go on with.
    pub(super) async fn of_another(&self, tenant: &str, id: &str) -> Option<Message> {
        let (tenant, id, are_held) = (tenant.to_owned(), id.to_owned(), self.are_held);
        let found = self.run("find a session", move |store| match are_held {
            true => store.take_session(&tenant, &id),
            false => store.find_session(&tenant, &id),
        });
        Some(Message::read(found.await??.into()))
    }

    /// Lets all replicas go on with sessions that this one holds: tenant, id and handshake.
    pub(super) async fn hand_over(&self, sessions: Vec<(String, String, Bytes)>) {
        if !self.are_held {
            return;
        }
        let keep = |(tenant, id, handshake): (String, String, Bytes)| async move {
            self.keep(&tenant, &id, handshake).await;
        };
        stream::iter(sessions).for_each_concurrent(AT_ONCE, keep).await;
    }

    /// Removes sessions that have ended: tenant and id.
    pub(super) async fn forget(&self, sessions: Vec<(String, String)>) {
        let forget = |(tenant, id): (String, String)| async {
            self.run("remove a session", move |store| store.forget_session(&tenant, &id)).await;
        };
        stream::iter(sessions).for_each_concurrent(AT_ONCE, forget).await;
    }

    /// Does something with the bucket, on a thread for blocking work. `None` if there is no bucket, or it fails or is slow.
    async fn run<T: Send + 'static>(
        &self,
        what: &'static str,
        work: impl FnOnce(&Store) -> Result<T, StoreError> + Send + 'static,
    ) -> Option<T> {
        let store = self.rules.filter.store.as_ref().ok().filter(|store| store.keeps_sessions())?.clone();
        let threads = Arc::clone(&self.threads);
        let done = async move {
            let permit = threads.acquire_owned().await.ok()?;
            let done = tokio::task::spawn_blocking(move || {
                let _permit = permit;
                let error = match work(&store) {
                    Ok(done) => return Some(done),
                    Err(error) => error,
                };
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot {what} in the bucket");
                None
            });
            done.await.ok().flatten()
        };
        match tokio::time::timeout(WAIT, done).await {
            Ok(done) => done,
            Err(_) => {
                tracing::warn!("the bucket takes longer than {} s to {what}: not waiting for it", WAIT.as_secs());
                None
            }
        }
    }
}
