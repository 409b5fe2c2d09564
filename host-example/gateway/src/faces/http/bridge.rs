//! The HTTP end of a server that is a command.

use std::collections::HashMap;
use std::io::Read;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;
use tokio::task::JoinHandle;

use super::legacy::LegacySession;
use super::modern::Shared;
use super::streams::empty;
use crate::headers::SESSION_ID;
use crate::listener::guard::{self, Refusal};
use crate::listener::lock;
use crate::listener::shares::Holder;
use crate::tenants::rules::Rules;
use lro_host::mcp::Message;
use lro_host::mcp::method;
use lro_transport::{Launch, Permit, Pool};

/// Random bytes of a session id.
const SESSION_ID_BYTES: usize = 16;

/// Sessions with children of their own, and the child that the others share.
#[derive(Debug)]
pub(super) struct Bridge {
    pub(super) rules: Arc<Rules>,
    launch: Launch,
    sessions: Mutex<HashMap<String, Open>>,
    places: Arc<Pool<Holder>>,
    shared: Mutex<HashMap<String, Arc<Shared>>>,
}

/// A session, and its place among them.
#[derive(Debug)]
struct Open {
    session: Arc<LegacySession>,
    _place: Permit<Holder>,
}

impl Bridge {
    pub(super) fn new(rules: Arc<Rules>, launch: Launch) -> Self {
        let places = Pool::new(u64::from(rules.config.gateway.sessions.get()));
        Self { rules, launch, sessions: Mutex::default(), places, shared: Mutex::default() }
    }

    /// Answers a request, with its message if it is a POST.
    pub(super) async fn answer(
        &self,
        holder: &Holder,
        address: IpAddr,
        parts: &Parts,
        message: Option<Message>,
    ) -> Result<Response, Refusal> {
        let (tenant, headers) = (holder.tenant.as_str(), &parts.headers);
        match (&parts.method, message) {
            (_, Some(message)) => self.post(holder, address, headers, message).await,
            (&Method::GET, None) => self.get(tenant, headers),
            (&Method::DELETE, None) => self.delete(tenant, headers).await,
            _ => Err(not_allowed()),
        }
    }

    async fn post(
        &self,
        holder: &Holder,
        address: IpAddr,
        headers: &HeaderMap,
        message: Message,
    ) -> Result<Response, Refusal> {
        if guard::is_modern(headers, &message) {
            guard::matches_body(headers, &message, true)?;
            let shared = self.shared(&holder.tenant);
            return Shared::answer(&shared, message, address).await;
        }
        let session = match guard::text(headers, &SESSION_ID) {
            Some(id) => self.session(&holder.tenant, id)?,
            None if message.method().as_deref() == Some(method::INITIALIZE) => self.open(holder)?,
            None if message.method().as_deref() == Some(method::DISCOVER) => {
                let text = "the header mcp-protocol-version is missing";
                return Err(Refusal::Mismatch(message.id(), text.to_owned()));
            }
            None => {
                let text = "the header mcp-session-id is missing: begin with initialize";
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
        lock(&self.sessions).remove(id);
        let _ = end(vec![session], self.patience()).await;
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// The session of an id, which another tenant does not find.
    fn session(&self, tenant: &str, id: &str) -> Result<Arc<LegacySession>, Refusal> {
        let found = lock(&self.sessions).get(id).map(|open| Arc::clone(&open.session));
        let found = found.filter(|session| session.tenant() == tenant);
        found.ok_or_else(|| {
            let text = "there is no such session: it may have ended; begin again with initialize";
            Refusal::Status(StatusCode::NOT_FOUND, text.to_owned())
        })
    }

    fn open(&self, holder: &Holder) -> Result<Arc<LegacySession>, Refusal> {
        let mut random = [0; SESSION_ID_BYTES];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut source| source.read_exact(&mut random))
            .map_err(|error| Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
        let id: String = random.iter().map(|byte| format!("{byte:02x}")).collect();
        let place = self.places.take(holder, 1).or_else(|| {
            end(self.remove(|session| session.is_abandoned()), self.patience());
            self.places.take(holder, 1)
        });
        let place = place.ok_or_else(|| {
            let text = "too many sessions at a time, the limit `gateway.sessions`";
            Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        })?;
        let (rules, launch) = (Arc::clone(&self.rules), self.launch.clone());
        let session = LegacySession::new(id.clone(), holder.tenant.clone(), rules, launch);
        lock(&self.sessions).insert(id, Open { session: Arc::clone(&session), _place: place });
        Ok(session)
    }

    /// Takes out the sessions for which that is so.
    fn remove(&self, is_over: impl Fn(&LegacySession) -> bool) -> Vec<Arc<LegacySession>> {
        let removed = |(_, open): (String, Open)| open.session;
        lock(&self.sessions).extract_if(|_, open| is_over(&open.session)).map(removed).collect()
    }

    fn all_sessions(&self) -> Vec<Arc<LegacySession>> {
        lock(&self.sessions).values().map(|open| Arc::clone(&open.session)).collect()
    }

    fn shared(&self, tenant: &str) -> Arc<Shared> {
        let new = || Shared::new(tenant.to_owned(), Arc::clone(&self.rules), self.launch.clone());
        Arc::clone(lock(&self.shared).entry(tenant.to_owned()).or_insert_with(new))
    }

    /// Ends sessions that nobody uses, servers of tenants that are gone, and calls that take too long.
    pub(super) fn end_idle(&self) {
        let patience = Duration::from_secs(self.rules.config.gateway.session_idle_seconds.get());
        self.all_sessions().iter().for_each(|session| session.end_overdue());
        for shared in self.all_shared() {
            shared.end_overdue();
        }
        let over = self.remove(|session| {
            session.is_abandoned() || session.is_idle(patience) || self.rules.is_gone(session.tenant())
        });
        if !over.is_empty() {
            // A server may take its time to end, and the other sessions go on.
            end(over, self.patience());
        }
        let gone: Vec<Arc<Shared>> =
            lock(&self.shared).extract_if(|tenant, _| self.rules.is_gone(tenant)).map(|(_, shared)| shared).collect();
        if !gone.is_empty() {
            let patience = self.patience();
            tokio::task::spawn_blocking(move || gone.iter().for_each(|shared| shared.stop(patience)));
        }
    }

    fn all_shared(&self) -> Vec<Arc<Shared>> {
        lock(&self.shared).values().cloned().collect()
    }

    /// How long a server may take to end.
    fn patience(&self) -> Duration {
        Duration::from_millis(self.rules.config.gateway.shutdown_ms.get())
    }

    /// Ends the streams that have no end of their own.
    pub(super) fn end_streams(&self) {
        self.all_sessions().iter().for_each(|session| session.end_stream());
        for shared in self.all_shared() {
            shared.end_streams();
        }
    }

    /// Ends all children.
    pub(super) async fn finish(&self) {
        let patience = self.patience();
        let sessions = self.remove(|_| true);
        let shared: Vec<Arc<Shared>> = lock(&self.shared).drain().map(|(_, shared)| shared).collect();
        let _ = end(sessions, patience).await;
        let stop = move || shared.iter().for_each(|shared| shared.stop(patience));
        let _ = tokio::task::spawn_blocking(stop).await;
    }
}

/// Ends sessions, on a thread for blocking work.
fn end(sessions: Vec<Arc<LegacySession>>, patience: Duration) -> JoinHandle<()> {
    // Each child may take its time, so all are asked at once.
    let stop = move || {
        std::thread::scope(|scope| {
            for session in &sessions {
                scope.spawn(move || session.stop(patience));
            }
        });
    };
    tokio::task::spawn_blocking(stop)
}

fn not_allowed() -> Refusal {
    Refusal::Status(StatusCode::METHOD_NOT_ALLOWED, "this method is not for this revision or session".to_owned())
}
