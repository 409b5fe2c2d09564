//! One client's view of one server: matches responses to requests, and decides what happens to each message.

mod advice;
mod allowed;
mod arguments;
mod ask;
mod ceiling;
mod client;
mod collect;
mod collected;
mod decision;
mod description;
mod failure;
mod filtering;
mod handles;
mod input;
mod intercept;
mod job;
mod list_pages;
mod lists;
mod measure;
mod names;
mod outputs;
mod own;
mod own_request;
mod pending;
mod resource;
mod reuse;
mod server;
mod shape;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use lro_host::mcp::Id;
use parking_lot::{Mutex, MutexGuard};

pub(crate) use self::ask::Asked;
pub(crate) use self::decision::{ClientDecision, ErrorPage, batch_of};
pub use self::decision::{Failure, FromClient, FromServer, Refused};
pub(crate) use self::job::beat::Heartbeat;
use self::job::beat::WaitingCall;
pub(crate) use self::job::parts::PARTS_TOKEN;
use self::job::watch::Watched;
pub(crate) use self::job::{Late, LateAnswer};
pub(crate) use self::list_pages::KnownLists;
pub(crate) use self::names::{NAME_BYTES_MAX, refusal as refusal_of_names};
pub(crate) use self::outputs::is_of_outputs_revision;
pub(crate) use self::own_request::{SendOwn, is_own_request};
pub(crate) use self::pending::{Call, RequestKind, ToolCall, cancellation, end_of_subscription};
use crate::settings::{ClientProfile, Size};
use crate::tenants::caches::TokenUsage;
use crate::tenants::rules::Rules;

/// Maximum size in bytes of the arguments of a call that the header line of its files shows.
pub const QUERY_BYTES_MAX: usize = 16 << 10;

/// The owner of a session.
#[derive(Clone, Debug)]
pub struct SessionOwner {
    /// The tenant, whose directory the files are written to.
    pub tenant: String,
    /// The client's session id, any text.
    pub session: Option<String>,
    /// Whether the client runs on this machine, as one on stdio does.
    pub local: bool,
}

/// One client's view of one server. Shared by the threads that move its messages.
pub struct Session {
    pub(crate) rules: Arc<Rules>,
    pub(crate) owner: SessionOwner,
    usage: Arc<TokenUsage>,
    /// The address of the client, for a session of a single request; `None` for a session that lasts.
    request_from: Option<IpAddr>,
    /// Whether replies to identical calls may be reused.
    reuses: AtomicBool,
    state: Mutex<SessionState>,
}

struct SessionState {
    client: Arc<ClientProfile>,
    /// Name and version of the client.
    client_info: (String, String),
    calls: HashMap<Id, VecDeque<Call>>,
    pending: usize,
    handshake: Option<Bytes>,
    /// Whether the handshake says that the client knows tasks.
    knows_tasks: bool,
    initialized: Option<Bytes>,
    /// The revision that the handshake agreed on, for spans.
    revision: Option<String>,
    /// Calls of the tool for jobs that wait and whose clients asked for progress.
    waiting: HashMap<Id, WaitingCall>,
    watched: Watched,
    /// Sends requests of the gateway itself that outlive the request they belong to.
    send: Option<SendOwn>,
}

impl SessionState {
    /// The id of a pending request that equals this one, or that some parsers take for the same.
    fn pending_id(&self, id: &Id) -> Option<Id> {
        if let Some((pending_id, _)) = self.calls.get_key_value(id) {
            return Some(pending_id.clone());
        }
        self.calls.get_key_value(&id.of_other_type()?).map(|(pending_id, _)| pending_id.clone())
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("owner", &self.owner).finish_non_exhaustive()
    }
}

impl Session {
    /// Creates a session whose client has not introduced itself yet.
    pub fn new(rules: &Arc<Rules>, owner: SessionOwner) -> Self {
        let rules = rules.of(&owner.tenant);
        let state = SessionState {
            client: Arc::new(rules.config.for_client_and_model("", "", "")),
            client_info: Default::default(),
            calls: HashMap::new(),
            pending: 0,
            handshake: None,
            knows_tasks: false,
            initialized: None,
            revision: None,
            waiting: HashMap::new(),
            watched: Watched::default(),
            send: None,
        };
        Self {
            rules,
            owner,
            usage: Arc::default(),
            request_from: None,
            reuses: AtomicBool::new(true),
            state: Mutex::new(state),
        }
    }

    /// Creates a session for a single request from this address. What outlives the request is kept per client.
    pub(crate) fn of_request(rules: &Arc<Rules>, owner: SessionOwner, address: IpAddr) -> Self {
        let mut session = Self::new(rules, owner);
        session.request_from = Some(address);
        session
    }

    /// Stops reusing replies in this session.
    pub(crate) fn never_reuse(&self) {
        self.reuses.store(false, Ordering::Relaxed);
    }

    /// Whether replies may be reused.
    pub(crate) fn reuses(&self) -> bool {
        self.reuses.load(Ordering::Relaxed)
    }

    /// The handshake so far, in revisions up to 2025-11-25: the request `initialize`, and the notification that
    /// completed it.
    pub fn handshake(&self) -> Option<(Bytes, Option<Bytes>)> {
        let state = self.state();
        Some((state.handshake.clone()?, state.initialized.clone()))
    }

    /// Sets how requests of the gateway itself reach the server when no request of the client is open any more.
    pub(crate) fn set_send(&self, send: SendOwn) {
        self.state().send = Some(send);
    }

    fn send(&self) -> Option<SendOwn> {
        self.state().send.clone()
    }

    /// A limit of the settings in their unit; `None` without one, or where the gateway may change nothing.
    fn limit(&self, amount: Option<NonZeroU64>) -> Option<Size> {
        let amount = amount.filter(|_| self.rules.changes())?;
        Some(Size { amount: amount.get(), unit: self.rules.config.unit })
    }

    /// The profile of the client.
    pub(crate) fn client(&self) -> Arc<ClientProfile> {
        Arc::clone(&self.state().client)
    }

    /// The tenant of the session.
    pub(crate) fn tenant(&self) -> &str {
        &self.owner.tenant
    }

    fn state(&self) -> MutexGuard<'_, SessionState> {
        self.state.lock()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Jobs end with their connection to the server, whoever gives it up.
        drop(self.fail_all("the connection to the server ended"));
    }
}
