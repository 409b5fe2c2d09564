//! Requests of the gateway itself to a server: for pages, tasks and resources, and for calls that go on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use lro_host::mcp::{Id, Message};
use tokio::sync::mpsc;

use super::Session;
use super::pending::cancellation;

/// Sends a message of the gateway itself to the server, without blocking; the response to a request arrives like any other.
pub(crate) type SendOwn = Arc<dyn Fn(Bytes) + Send + Sync>;

/// Makes the ids of requests unique in this process.
static REQUESTS: AtomicU64 = AtomicU64::new(0);

/// Whether the id is that of a request of the gateway itself.
pub(crate) fn is_own_request(id: &Id) -> bool {
    id.json().starts_with("\"lro-own-")
}

/// An id for a request of the gateway itself.
pub(super) fn own_id() -> Id {
    Id::own(&format!("lro-own-{:x}-{}", std::process::id(), REQUESTS.fetch_add(1, Ordering::Relaxed)))
}

/// A request that waits for its answer. Dropping it cancels it, unless it is answered.
struct PendingOwn {
    session: Arc<Session>,
    send: SendOwn,
    id: Id,
}

impl Drop for PendingOwn {
    fn drop(&mut self) {
        if self.session.take(&self.id).is_some() {
            (self.send)(cancellation(&self.id, "the answer is not needed any more"));
        }
    }
}

impl Session {
    /// Sends a request of the gateway itself with this id. Gives the answer of the server, or why there is none. Dropping
    /// the future cancels the request.
    pub(super) fn ask_own(
        self: &Arc<Self>,
        send: &SendOwn,
        id: Id,
        request: Bytes,
    ) -> impl Future<Output = Result<Message, String>> + Send + use<> {
        let (answer, mut answered) = mpsc::channel(1);
        self.expect_own(id.clone(), answer);
        let pending = PendingOwn { session: Arc::clone(self), send: Arc::clone(send), id };
        send(request);
        async move {
            let _pending = pending;
            answered.recv().await.ok_or_else(|| "the call has ended".to_owned())
        }
    }
}
