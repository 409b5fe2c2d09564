//! The HTTP endpoint of a server that is a command.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use lro_host::mcp::{Message, method};
use lro_transport::{Launch, Permit, Pool};
use parking_lot::Mutex;
use tokio::task::JoinHandle;

use super::RequestHead;
use super::legacy::LegacySession;
use super::modern::SharedServer;
use super::streams::empty;
use crate::headers::SESSION_ID;
use crate::listener::guard::{self, Refusal};
use crate::listener::shares::Holder;
use crate::tenants::rules::Rules;

/// Number of random bytes in a session id.
const SESSION_ID_BYTES: usize = 16;

/// Sessions with their own child processes, and the child processes that clients without a session share.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) rules: Arc<Rules>,
    launch: Launch,
    sessions: Mutex<HashMap<String, OpenSession>>,
    pool: Arc<Pool<Holder>>,
    shared: Mutex<HashMap<String, Arc<SharedServer>>>,
}

/// An open session, and its permit.
#[derive(Debug)]
struct OpenSession {
    session: Arc<LegacySession>,
    _permit: Permit<Holder>,
}

impl Bridge {
    pub(super) fn new(rules: Arc<Rules>, launch: Launch) -> Self {
        let pool = Pool::new(u64::from(rules.config.gateway.sessions.get()));
        Self { rules, launch, sessions: Mutex::default(), pool, shared: Mutex::default() }
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(&self, head: &RequestHead, message: Option<Message>) -> Result<Response, Refusal> {
        let (tenant, headers) = (head.holder.tenant.as_str(), &head.parts.headers);
        match (&head.parts.method, message) {
            (_, Some(message)) => self.post(head, message).await,
            (&Method::GET, None) => self.get(tenant, headers),
            (&Method::DELETE, None) => self.delete(tenant, headers).await,
            _ => Err(not_allowed()),
        }
    }

    async fn post(&self, head: &RequestHead, message: Message) -> Result<Response, Refusal> {
        let (holder, headers) = (&head.holder, &head.parts.headers);
        if guard::is_modern(headers, &message) {
            guard::check_headers(headers, &message, true)?;
            let shared = self.shared(&holder.tenant);
            return SharedServer::answer(&shared, message, head.address).await;
        }
        let session = match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(&holder.tenant, id)?,
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
        let mut response = LegacySession::answer(&session, message).await?;
        if is_first
            && !session.is_abandoned()
            && let Ok(id) = HeaderValue::from_str(session.id())
        {
            response.headers_mut().insert(SESSION_ID, id);
        }
        Ok(response)
    }

    fn get(&self, tenant: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(tenant, id)?.listen(),
            None => Err(not_allowed()),
        }
    }

    async fn delete(&self, tenant: &str, headers: &HeaderMap) -> Result<Response, Refusal> {
        let Some(id) = guard::text(headers, &SESSION_ID) else { return Err(not_allowed()) };
        let session = self.session(tenant, id)?;
        if session.close_for_jobs() {
            return Ok(empty(StatusCode::NO_CONTENT));
        }
        self.sessions.lock().remove(id);
        let _ = end(vec![session], self.shutdown_timeout()).await;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session with this id, if it belongs to the tenant.
    fn session(&self, tenant: &str, id: &str) -> Result<Arc<LegacySession>, Refusal> {
        let found = self.sessions.lock().get(id).map(|open| Arc::clone(&open.session));
        let found = found.filter(|session| session.tenant() == tenant && !session.is_closed());
        found.ok_or_else(guard::unknown_session)
    }

    fn open(&self, holder: &Holder) -> Result<Arc<LegacySession>, Refusal> {
        let mut random = [0; SESSION_ID_BYTES];
        getrandom::fill(&mut random)
            .map_err(|error| Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let permit = self.pool.take(holder, 1).or_else(|| {
            end(self.remove(|session| session.is_abandoned()), self.shutdown_timeout());
            self.pool.take(holder, 1)
        });
        let permit = permit.ok_or_else(|| {
            let text = "too many sessions at a time (limit gateway.sessions): end one or try again later";
            Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        })?;
        let (rules, launch) = (Arc::clone(&self.rules), self.launch.clone());
        let session = LegacySession::new(id.clone(), holder.tenant.clone(), rules, launch);
        self.sessions.lock().insert(id, OpenSession { session: Arc::clone(&session), _permit: permit });
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

    fn shared(&self, tenant: &str) -> Arc<SharedServer> {
        let new = || SharedServer::new(tenant.to_owned(), Arc::clone(&self.rules), self.launch.clone());
        Arc::clone(self.shared.lock().entry(tenant.to_owned()).or_insert_with(new))
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
            // Runs in the background, as a server may be slow to exit.
            end(over, self.shutdown_timeout());
        }
        let removed: Vec<Arc<SharedServer>> = self
            .shared
            .lock()
            .extract_if(|tenant, _| self.rules.is_removed(tenant))
            .map(|(_, shared)| shared)
            .collect();
        if !removed.is_empty() {
            let timeout = self.shutdown_timeout();
            tokio::task::spawn_blocking(move || removed.iter().for_each(|shared| shared.stop(timeout)));
        }
    }

    fn all_shared(&self) -> Vec<Arc<SharedServer>> {
        self.shared.lock().values().cloned().collect()
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

    /// Stops all child processes.
    pub(super) async fn finish(&self) {
        let timeout = self.shutdown_timeout();
        let sessions = self.remove(|_| true);
        let shared: Vec<Arc<SharedServer>> = self.shared.lock().drain().map(|(_, shared)| shared).collect();
        let _ = end(sessions, timeout).await;
        let stop = move || shared.iter().for_each(|shared| shared.stop(timeout));
        let _ = tokio::task::spawn_blocking(stop).await;
    }
}

/// Ends sessions, on a thread for blocking work.
fn end(sessions: Vec<Arc<LegacySession>>, timeout: Duration) -> JoinHandle<()> {
    // A child may be slow to exit, so all are stopped at once.
    let stop = move || {
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || session.stop(timeout));
            }
        });
    };
    tokio::task::spawn_blocking(stop)
}

fn not_allowed() -> Refusal {
    Refusal::Status(
        StatusCode::METHOD_NOT_ALLOWED,
        "this HTTP method is not allowed for this protocol revision or session".to_owned(),
    )
}
