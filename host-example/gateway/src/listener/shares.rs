//! Fair shares of requests and streams between tenants.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use lro_transport::{Permit, Pool};
use parking_lot::Mutex;
use tokio::sync::watch;

use super::guard::Refusal;
use crate::tenants::rules::Rules;

/// The holder of permits: a tenant, or without tokens, a tenant and a client address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) tenant: String,
    pub(crate) address: Option<IpAddr>,
}

/// The permit of a request or of a stream.
pub(crate) type RequestPermit = Permit<Holder>;

/// The concurrent requests and streams of a listener.
#[derive(Debug)]
pub(crate) struct Shares {
    requests: Arc<Pool<Holder>>,
    streams: Arc<Pool<Holder>>,
}

impl Shares {
    /// Creates the pools with the configured limits, capped at half of the connections for requests and a quarter for
    /// streams. The other connections have no request.
    pub(crate) fn new(rules: &Rules, connections: usize) -> Self {
        let settings = &rules.config.gateway;
        let (half, quarter) = ((connections as u64 / 2).max(1), (connections as u64 / 4).max(1));
        Self {
            requests: Pool::new(u64::from(settings.requests.get()).min(half)),
            streams: Pool::new(u64::from(settings.streams.get()).min(quarter)),
        }
    }

    /// A permit for `count` requests that are answered together.
    pub(crate) fn requests(&self, holder: &Holder, count: usize) -> Result<RequestPermit, Refusal> {
        self.requests.take(holder, count as u64).ok_or(Refusal::Busy("gateway.requests"))
    }

    /// A permit for a long-lived stream.
    pub(crate) fn stream(&self, holder: &Holder) -> Result<RequestPermit, Refusal> {
        self.streams.take(holder, 1).ok_or(Refusal::Busy("gateway.streams"))
    }
}

/// Tenants with requests in flight, to end these when the tenant is removed.
#[derive(Debug, Default)]
pub(crate) struct ActiveTenants(Mutex<HashMap<String, watch::Sender<()>>>);

impl ActiveTenants {
    /// A receiver that closes when the tenant is removed.
    pub(crate) fn watch(&self, tenant: &str) -> watch::Receiver<()> {
        let mut active = self.0.lock();
        match active.get(tenant) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(());
                active.insert(tenant.to_owned(), sender);
                receiver
            }
        }
    }

    /// Ends the requests of tenants that are removed.
    pub(crate) fn end_removed(&self, rules: &Rules) {
        self.0.lock().retain(|tenant, sender| sender.receiver_count() > 0 && !rules.is_removed(tenant));
    }
}

/// Waits until the tenant is removed.
pub(crate) async fn removed(mut active: watch::Receiver<()>) {
    while active.changed().await.is_ok() {}
}
