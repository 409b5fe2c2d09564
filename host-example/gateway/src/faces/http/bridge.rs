//! Connections of the gateway to servers on behalf of HTTP clients: to a command, or to a server over HTTP that speaks
//! another generation of the protocol.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::to_bytes;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{self, Message, method};
use lro_transport::{Permit, Pool};
use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};
use tokio::task::JoinHandle;

use super::RequestHead;
use super::kept::KeptSessions;
use super::legacy::LegacySession;
use super::modern::SharedServer;
use super::streams::empty;
use crate::headers::{PROTOCOL_VERSION, SESSION_ID};
use crate::listener::guard::{self, Refusal};
use crate::listener::shares::Holder;
use crate::random::{HEX_DIGITS, random_hex};
use crate::settings::TranslateMode;
use crate::tenants::rules::Rules;
use crate::translate::{LEGACY_REVISIONS, Translator, input_capabilities};
use crate::upstream::Upstream;
use crate::upstream::connection::Prepared;

/// Beginning of the ids of translated sessions, which tells them from those of an HTTP server.
const TRANSLATED: &str = "lro-translated-";

/// Sessions, each with its connection, and the connections that clients without a session share.
#[derive(Debug)]
pub(super) struct Bridge {
    rules: Arc<Rules>,
    upstream: Upstream,
    sessions: Mutex<HashMap<String, OpenSession>>,
    kept: KeptSessions,
    /// The sessions of other replicas that requests wait for, by id.
    resuming: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
    pool: Arc<Pool<Holder>>,
    shared: Mutex<HashMap<SharedKey, OpenShared>>,
}

/// What an HTTP server gets in the name of a client.
#[derive(Clone, Default)]
pub(super) struct Credentials {
    pub(super) headers: HeaderMap,
    /// Whether they may identify a user of the tenant.
    pub(super) are_personal: bool,
}

impl Credentials {
    /// The same for the same credentials.
    fn digest(&self) -> [u8; 32] {
        let mut headers: Vec<(&str, &[u8])> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        headers.sort_unstable();
        let digest = headers.iter().fold(Sha256::new(), |digest, (name, value)| {
            let lengths = [name.len(), value.len()].map(|length| (length as u64).to_le_bytes());
            digest.chain_update(lengths.concat()).chain_update(name).chain_update(value)
        });
        digest.finalize().into()
    }
}

/// Who shares a connection: the clients of a tenant that have the same credentials for the server, and if a handshake may
/// tell it so for all of them, that can be asked for the same input.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct SharedKey {
    tenant: String,
    credentials: [u8; 32],
    input: Option<[u8; 32]>,
}

/// A shared connection, with its permit if there may be several for a tenant.
#[derive(Debug)]
struct OpenShared {
    shared: Arc<SharedServer>,
    permit: Option<Permit<Holder>>,
}

/// The request whose turn it is to go on with a session of another replica.
struct Resuming<'a> {
    bridge: &'a Bridge,
    id: &'a str,
}

impl Drop for Resuming<'_> {
    fn drop(&mut self) {
        self.bridge.resuming.lock().remove(self.id);
    }
}

/// An open session, and its permit.
#[derive(Debug)]
struct OpenSession {
    session: Arc<LegacySession>,
    _permit: Permit<Holder>,
}

impl Bridge {
    pub(super) fn new(rules: Arc<Rules>, upstream: Upstream) -> Self {
        let pool = Pool::new(u64::from(rules.config.gateway.sessions.get()));
        let kept = KeptSessions::new(Arc::clone(&rules), matches!(upstream, Upstream::Command(_)));
        let (sessions, resuming, shared) = (Mutex::default(), Mutex::default(), Mutex::default());
        Self { rules, upstream, sessions, kept, resuming, pool, shared }
    }

    /// The sessions as other replicas find them.
    pub(super) const fn kept(&self) -> &KeptSessions {
        &self.kept
    }

    /// The permits for sessions.
    pub(super) const fn pool(&self) -> &Arc<Pool<Holder>> {
        &self.pool
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(&self, head: &RequestHead, message: Option<Message>) -> Result<Response, Refusal> {
        let (tenant, headers) = (head.holder.tenant.as_str(), &head.parts.headers);
        if headers.contains_key(SESSION_ID) {
            check_revision(headers)?;
        }
        match (&head.parts.method, message) {
            (_, Some(message)) => self.post(head, message).await,
            (&Method::GET, None) => self.get(&head.holder, headers).await,
            (&Method::DELETE, None) => self.delete(tenant, headers).await,
            _ => Err(not_allowed()),
        }
    }

    async fn post(&self, head: &RequestHead, message: Message) -> Result<Response, Refusal> {
        let (holder, headers) = (&head.holder, &head.parts.headers);
        if guard::is_modern(headers, &message) {
            guard::check_headers(headers, &message, true)?;
            let shared = self.shared(holder, Credentials::default(), &message)?;
            return shared.answer(message, head.address).await;
        }
        let session = match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(holder, id, Credentials::default()).await?,
            None if message.method().as_deref() == Some(method::INITIALIZE) => self.open(holder)?,
            None if message.method().as_deref() == Some(method::DISCOVER) => {
                let text = "the header mcp-protocol-version is missing: set it to the revision of the request";
                return Err(Refusal::Mismatch(message.id(), text.to_owned()));
            }
            None => {
                let text = "the header mcp-session-id is missing: start with initialize";
                return Err(Refusal::Status(StatusCode::BAD_REQUEST, text.to_owned()));
            }
        };
        let is_first = message.method().as_deref() == Some(method::INITIALIZE);
        let response = session.answer(message).await?;
        Ok(if is_first { self.begun(&session, response).await } else { response })
    }

    /// Begins a session whose messages are translated; `None` if the server does not speak the other generation either.
    pub(super) async fn begin_translated(
        &self,
        holder: &Holder,
        credentials: Credentials,
        message: Message,
    ) -> Result<Option<Response>, Refusal> {
        let session = self.open(holder)?;
        session.use_credentials(credentials);
        let response = session.answer(message).await?;
        if session.is_translated() {
            return Ok(Some(self.begun(&session, response).await));
        }
        self.sessions.lock().remove(session.id());
        self.end(vec![session]);
        Ok(None)
    }

    /// The translated session that a request names; `None` if it names none. Those with an id that `is_of_server` accepts
    /// are sessions of a gateway behind this one.
    pub(super) async fn translated(
        &self,
        head: &RequestHead,
        credentials: Credentials,
        is_of_server: impl FnOnce(&str) -> bool,
    ) -> Result<Option<Arc<LegacySession>>, Refusal> {
        let id = guard::text(&head.parts.headers, &SESSION_ID).filter(|id| id.starts_with(TRANSLATED));
        let Some(id) = id.filter(|id| !is_of_server(id)) else { return Ok(None) };
        let session = self.session(&head.holder, id, credentials.clone()).await?;
        session.use_credentials(credentials);
        Ok(Some(session))
    }

    async fn get(&self, holder: &Holder, headers: &HeaderMap) -> Result<Response, Refusal> {
        match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(holder, id, Credentials::default()).await?.listen(),
            None => Err(not_allowed()),
        }
    }

    async fn delete(&self, tenant: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        let Some(id) = guard::text(headers, &SESSION_ID) else { return Err(not_allowed()) };
        let Some(session) = self.own(tenant, id) else {
            self.kept.of_another(tenant, id).await.ok_or_else(guard::unknown_session)?;
            self.kept.forget(vec![(tenant.to_owned(), id.to_owned())]).await;
            return Ok(empty(StatusCode::NO_CONTENT));
        };
        self.kept.forget(vec![(tenant.to_owned(), id.to_owned())]).await;
        if session.close_for_jobs() {
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        self.sessions.lock().remove(id);
        let _ = self.end(vec![session]).await;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session with this id of this gateway, if it belongs to the tenant.
    fn own(&self, tenant: &str, id: &str) -> Option<Arc<LegacySession>> {
        let found = self.sessions.lock().get(id).map(|open| Arc::clone(&open.session));
        found.filter(|session| session.tenant() == tenant && session.is_initialized() && !session.is_closed())
    }

    /// The session with this id, if it belongs to the tenant: that of another replica goes on here, with these
    /// credentials for the server.
    async fn session(
        &self,
        holder: &Holder,
        id: &str,
        credentials: Credentials,
    ) -> Result<Arc<LegacySession>, Refusal> {
        if let Some(session) = self.own(&holder.tenant, id) {
            return Ok(session);
        }
        if !self.is_id(id) {
            return Err(guard::unknown_session());
        }
        let turn = Arc::clone(self.resuming.lock().entry(id.to_owned()).or_default());
        let _turn = (turn.lock().await, Resuming { bridge: self, id });
        // Another request may have done it meanwhile.
        match self.own(&holder.tenant, id) {
            Some(session) => Ok(session),
            // It has ended, and its jobs have not.
            None if self.sessions.lock().contains_key(id) => Err(guard::unknown_session()),
            None => self.resume(holder, id, credentials).await,
        }
    }

    /// Goes on with a session of another replica: connects to the server, and makes the handshake that its client made.
    async fn resume(&self, holder: &Holder, id: &str, credentials: Credentials) -> Result<Arc<LegacySession>, Refusal> {
        let handshake = self.kept.of_another(&holder.tenant, id).await.ok_or_else(guard::unknown_session)?;
        let session = self.connected(holder, id)?;
        session.use_credentials(credentials);
        let response = session.answer(handshake).await?;
        // The server may say more before it answers.
        let _ = to_bytes(response.into_body(), INLINE_BYTES).await;
        if !session.is_initialized() {
            tracing::warn!("a session of another replica ends, as the server refuses its handshake");
            self.sessions.lock().remove(id);
            self.end(vec![session]);
            self.kept.forget(vec![(holder.tenant.clone(), id.to_owned())]).await;
            return Err(guard::unknown_session());
        }
        session.answer(Message::read(mcp::notification(method::INITIALIZED, "{}"))).await?;
        Ok(session)
    }

    /// Whether a text has the form of the ids of sessions.
    fn is_id(&self, text: &str) -> bool {
        let random = text.strip_prefix(self.prefix()).unwrap_or_default();
        random.len() == HEX_DIGITS && random.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    }

    /// How the ids of sessions begin.
    const fn prefix(&self) -> &'static str {
        match &self.upstream {
            Upstream::Command(_) | Upstream::None => "",
            Upstream::Http(_) => TRANSLATED,
        }
    }

    /// Keeps a session that begins for other replicas, unless it failed, and tells the client its id.
    async fn begun(&self, session: &LegacySession, mut response: Response) -> Response {
        if session.is_abandoned() {
            return response;
        }
        if let Some(handshake) = session.handshake() {
            self.kept.keep(session.tenant(), session.id(), handshake).await;
        }
        if let Ok(id) = HeaderValue::from_str(session.id()) {
            response.headers_mut().insert(SESSION_ID, id);
        }
        response
    }

    /// Lets other replicas go on with all sessions.
    pub(super) async fn hand_over(&self) {
        let session = |session: Arc<LegacySession>| {
            let handshake = session.handshake().filter(|_| !session.is_closed())?;
            Some((session.tenant().to_owned(), session.id().to_owned(), handshake))
        };
        self.kept.hand_over(self.all_sessions().into_iter().filter_map(session).collect()).await;
    }

    fn open(&self, holder: &Holder) -> Result<Arc<LegacySession>, Refusal> {
        let random =
            random_hex().map_err(|error| Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let id = format!("{}{random}", self.prefix());
        self.connected(holder, &id)
    }

    /// Opens a session with its own connection to the server.
    fn connected(&self, holder: &Holder, id: &str) -> Result<Arc<LegacySession>, Refusal> {
        let permit = self.pool.take(holder, 1).or_else(|| {
            self.end(self.remove(|session| session.is_abandoned()));
            self.pool.take(holder, 1)
        });
        let permit = permit.ok_or_else(too_many)?;
        let (rules, prepared) = (Arc::clone(&self.rules), self.prepared()?);
        let session = LegacySession::new(id.to_owned(), holder.tenant.clone(), rules, prepared);
        let open = OpenSession { session: Arc::clone(&session), _permit: permit };
        self.sessions.lock().insert(id.to_owned(), open);
        Ok(session)
    }

    /// Removes and returns the sessions that are over.
    fn remove(&self, is_over: impl Fn(&LegacySession) -> bool) -> Vec<Arc<LegacySession>> {
        let removed = |(_, open): (String, OpenSession)| open.session;
        self.sessions.lock().extract_if(|_, open| is_over(&open.session)).map(removed).collect()
    }

    fn all_sessions(&self) -> Vec<Arc<LegacySession>> {
        self.sessions.lock().values().map(|open| Arc::clone(&open.session)).collect()
    }

    /// What a new connection needs.
    fn prepared(&self) -> Result<Prepared, Refusal> {
        let failed = |error: String| {
            tracing::warn!(%error, "refused a request: the gateway cannot open another connection to the server");
            let text = "the gateway cannot open another connection to the server: its log has the cause";
            Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
        };
        let upstream = match &self.upstream {
            Upstream::Http(endpoint) => {
                Upstream::Http(endpoint.with_own_connections().map_err(|error| failed(error.to_string()))?)
            }
            other @ (Upstream::Command(_) | Upstream::None) => other.clone(),
        };
        Prepared::of(upstream).map_err(|error| failed(error.to_string()))
    }

    /// Whether a handshake may be made in the name of the clients that share a connection.
    fn may_shake_hands(&self) -> bool {
        Translator::mode(&self.rules) == TranslateMode::Always
    }

    /// The connection that the client of this request shares, which has these credentials for the server.
    pub(super) fn shared(
        &self,
        holder: &Holder,
        credentials: Credentials,
        request: &Message,
    ) -> Result<Arc<SharedServer>, Refusal> {
        let input = self.may_shake_hands().then(|| Sha256::digest(input_capabilities(request)).into());
        let key = SharedKey { tenant: holder.tenant.clone(), credentials: credentials.digest(), input };
        let mut all = self.shared.lock();
        let is_remote = matches!(self.upstream, Upstream::Http(_));
        let is_of_use = |open: &&OpenShared| !is_remote || !open.shared.has_failed();
        if let Some(open) = all.get(&key).filter(is_of_use) {
            return Ok(Arc::clone(&open.shared));
        }
        all.remove(&key);
        let permit = self.permit_of_shared(holder, &mut all)?;
        let shared = SharedServer::new(holder.tenant.clone(), Arc::clone(&self.rules), self.prepared()?, credentials);
        all.insert(key, OpenShared { shared: Arc::clone(&shared), permit });
        Ok(shared)
    }

    /// The permit for another shared connection, if there may be several for a tenant. At the limit, those that nobody uses
    /// end.
    fn permit_of_shared(
        &self,
        holder: &Holder,
        all: &mut HashMap<SharedKey, OpenShared>,
    ) -> Result<Option<Permit<Holder>>, Refusal> {
        if !self.may_shake_hands() {
            return Ok(None);
        }
        let permit = self.pool.take(holder, 1).or_else(|| {
            let is_unused = |open: &OpenShared| open.shared.is_idle(Duration::ZERO);
            let unused = all.extract_if(|_, open| is_unused(open)).map(|(_, open)| open.shared).collect();
            self.end_shared(unused);
            self.pool.take(holder, 1)
        });
        permit.ok_or_else(too_many).map(Some)
    }

    /// Ends idle sessions and servers of removed tenants, and answers calls that take long.
    pub(super) fn end_idle(&self) {
        let idle_timeout = Duration::from_secs(self.rules.config.gateway.session_idle_seconds.get());
        self.all_sessions().iter().for_each(|session| session.answer_late());
        for shared in self.all_shared() {
            shared.answer_late();
        }
        let over = self.remove(|session| {
            session.is_abandoned() || session.is_over(idle_timeout) || self.rules.is_removed(session.tenant())
        });
        if !over.is_empty() {
            // Others may use those that this replica does not hold.
            let ended = over.iter().filter(|session| self.kept.are_held() && session.is_initialized());
            let ended = ended.map(|session| (session.tenant().to_owned(), session.id().to_owned())).collect();
            let kept = self.kept.clone();
            tokio::spawn(async move { kept.forget(ended).await });
            self.end(over);
        }
        let is_over = |key: &SharedKey, open: &OpenShared| {
            self.rules.is_removed(&key.tenant) || (open.permit.is_some() && open.shared.is_idle(idle_timeout))
        };
        let removed: Vec<Arc<SharedServer>> =
            self.shared.lock().extract_if(|key, open| is_over(key, open)).map(|(_, open)| open.shared).collect();
        if !removed.is_empty() {
            self.end_shared(removed);
        }
    }

    fn all_shared(&self) -> Vec<Arc<SharedServer>> {
        self.shared.lock().values().map(|open| Arc::clone(&open.shared)).collect()
    }

    /// Ends sessions, in the background: a server may be slow to exit.
    fn end(&self, sessions: Vec<Arc<LegacySession>>) -> JoinHandle<()> {
        let timeout = self.shutdown_timeout();
        stop_all(sessions, move |session| session.stop(timeout))
    }

    /// As [`Self::end`], for shared connections.
    fn end_shared(&self, shared: Vec<Arc<SharedServer>>) -> JoinHandle<()> {
        let timeout = self.shutdown_timeout();
        stop_all(shared, move |shared| shared.stop(timeout))
    }

    /// How long a server may take to exit.
    fn shutdown_timeout(&self) -> Duration {
        Duration::from_millis(self.rules.config.gateway.shutdown_ms.get())
    }

    /// Ends the long-lived streams.
    pub(super) fn end_streams(&self) {
        self.all_sessions().iter().for_each(|session| session.end_stream());
        for shared in self.all_shared() {
            shared.end_streams();
        }
    }

    /// Stops all servers.
    pub(super) async fn finish(&self) {
        let sessions = self.remove(|_| true);
        let shared: Vec<Arc<SharedServer>> = self.shared.lock().drain().map(|(_, open)| open.shared).collect();
        for ended in [self.end(sessions), self.end_shared(shared)] {
            let _ = ended.await;
        }
    }
}

/// Stops all of these at the same time, on threads for blocking work.
fn stop_all<T: Send + Sync + 'static>(all: Vec<Arc<T>>, stop: impl Fn(&T) + Send + Sync + 'static) -> JoinHandle<()> {
    tokio::task::spawn_blocking(move || {
        std::thread::scope(|scope| {
            for one in &all {
                let stop = || stop(one);
                // Without a thread of its own, it is stopped in turn.
                if std::thread::Builder::new().spawn_scoped(scope, stop).is_err() {
                    stop();
                }
            }
        });
    })
}

fn too_many() -> Refusal {
    let text = "too many sessions at a time (limit gateway.sessions): end one or try again later";
    Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
}

fn not_allowed() -> Refusal {
    Refusal::Status(
        StatusCode::METHOD_NOT_ALLOWED,
        "this HTTP method is not allowed for this protocol revision or session".to_owned(),
    )
}

/// Checks the revision in a header of a request within a session, which no revision up to 2025-03-26 needs.
fn check_revision(headers: &HeaderMap) -> Result<(), Refusal> {
    let is_known = |value: &HeaderValue| {
        value.to_str().is_ok_and(|revision| LEGACY_REVISIONS.contains(&revision) || guard::is_late(revision))
    };
    if headers.get_all(PROTOCOL_VERSION).iter().all(is_known) {
        return Ok(());
    }
    let known = LEGACY_REVISIONS.join(", ");
    let text = format!(
        "the header mcp-protocol-version names a revision that is not supported: send the one that initialize agreed \
         on, of {known}"
    );
    Err(Refusal::Status(StatusCode::BAD_REQUEST, text))
}
