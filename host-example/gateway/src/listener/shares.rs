//! What tenants share: requests, streams without an end, sessions.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;

use super::guard::Refusal;
use super::lock;
use crate::tenants::rules::Rules;
use lro_transport::{Permit, Pool};

/// Who holds places: a tenant, or where tenants need no token, an address that asks as one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) tenant: String,
    pub(crate) address: Option<IpAddr>,
}

/// A place of a request or of a stream.
pub(crate) type RequestPlace = Permit<Holder>;

/// Requests and streams at a time.
#[derive(Debug)]
pub(crate) struct Shares {
    requests: Arc<Pool<Holder>>,
    streams: Arc<Pool<Holder>>,
}

impl Shares {
    /// Those of the configuration, of which a listener with that many connections has no more than half and a quarter: the
    /// rest is for connections without a request.
    pub(crate) fn new(rules: &Rules, connections: usize) -> Self {
        let settings = &rules.config.gateway;
        let (half, quarter) = ((connections as u64 / 2).max(1), (connections as u64 / 4).max(1));
        Self {
            requests: Pool::new(u64::from(settings.requests.get()).min(half)),
            streams: Pool::new(u64::from(settings.streams.get()).min(quarter)),
        }
    }

    /// Places for so many requests that are answered together.
    pub(crate) fn requests(&self, holder: &Holder, count: usize) -> Result<RequestPlace, Refusal> {
        self.requests.take(holder, count as u64).ok_or(Refusal::Busy("gateway.requests"))
    }

    /// A place for a stream that has no end of its own.
    pub(crate) fn stream(&self, holder: &Holder) -> Result<RequestPlace, Refusal> {
        self.streams.take(holder, 1).ok_or(Refusal::Busy("gateway.streams"))
    }
}

/// Tenants with requests in flight, to tell these when their tenant is removed.
#[derive(Debug, Default)]
pub(crate) struct Present(Mutex<HashMap<String, watch::Sender<()>>>);

impl Present {
    /// Fails to change once the tenant is gone.
    pub(crate) fn watch(&self, tenant: &str) -> watch::Receiver<()> {
        let mut present = lock(&self.0);
        match present.get(tenant) {
            Some(sender) => sender.subscribe(),
            None => {
                let (sender, receiver) = watch::channel(());
                present.insert(tenant.to_owned(), sender);
                receiver
            }
        }
    }

    /// Ends what is in flight of the tenants that are gone.
    pub(crate) fn end_gone(&self, rules: &Rules) {
        lock(&self.0).retain(|tenant, sender| sender.receiver_count() > 0 && !rules.is_gone(tenant));
    }
}

/// Waits until the tenant is gone.
pub(crate) async fn gone(mut present: watch::Receiver<()>) {
    while present.changed().await.is_ok() {}
}
