//! Subscriptions to the resources of jobs, which the gateway answers itself.

use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, INVALID_REQUEST, Id, Message, Params, ProtocolError, method};
use lro_host::store::Ulid;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::tool::{self, JOBS_URI};
use crate::session::{FromClient, Session};
use crate::tenants::jobs::{Job, RunningJob};

/// Most subscriptions of a session to jobs: as many as a list of jobs shows.
const WATCHED_MAX: usize = 100;

/// Least time between two notifications about one job that runs, as a client reads the resource after each.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// A request about subscriptions to jobs.
#[derive(Debug)]
pub(in crate::session) enum WatchCall {
    Subscribe(String),
    Unsubscribe(String),
    /// `subscriptions/listen` that names these jobs, and nothing else.
    Listen(Vec<String>),
}

/// What `subscriptions/listen` asks for.
#[derive(Deserialize)]
struct Filter {
    #[serde(default, rename = "resourceSubscriptions")]
    uris: Vec<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(in crate::session) struct Watched(Vec<Watch>);

#[derive(Debug)]
struct Watch {
    job: Ulid,
    /// The id of the `subscriptions/listen` that it belongs to.
    of: Option<Id>,
    /// [`RunningJob::changes`] that the client knows of.
    seen: u64,
    notified: Option<Instant>,
}

impl WatchCall {
    /// The request in a message; `None` if it is about anything but jobs.
    pub(in crate::session) fn of(message: &Message, params: &Params<'_>) -> Option<Self> {
        let is_job = |uri: &str| uri.starts_with(JOBS_URI);
        let uri = || Some(params.uri.as_deref().filter(|uri| is_job(uri))?.to_owned());
        match message.method().as_deref()? {
            method::SUBSCRIBE => Some(Self::Subscribe(uri()?)),
            method::UNSUBSCRIBE => Some(Self::Unsubscribe(uri()?)),
            method::LISTEN if params.is_modern() => {
                let filter: Filter = serde_json::from_slice(&message.value(&["params", "notifications"])?).ok()?;
                let is_unset = |value: &Value| value.is_null() || *value == Value::Bool(false);
                let is_own = filter.others.values().all(is_unset) && filter.uris.iter().all(|uri| is_job(uri));
                (is_own && !filter.uris.is_empty()).then_some(Self::Listen(filter.uris))
            }
            _ => None,
        }
    }

    /// Does what the request with this id asks for. Blocks.
    pub(in crate::session) fn run(&self, session: &Session, id: &Id, modern: bool) -> FromClient {
        let done = match self {
            Self::Subscribe(uri) => session.watch(uri, None, modern),
            Self::Unsubscribe(uri) => {
                session.state().watched.0.retain(|watch| uri_of(watch.job) != *uri);
                Ok(())
            }
            Self::Listen(uris) => {
                let watched: Vec<&String> =
                    uris.iter().filter(|uri| session.watch(uri, Some(id), modern).is_ok()).collect();
                return FromClient::Open(acknowledgment(id, &watched));
            }
        };
        FromClient::Answer(match done {
            Ok(()) => mcp::response(id, &mcp::with_result_type("{}".to_owned(), modern)),
            Err(error) => mcp::error_response(Some(id), error.code, &error.message),
        })
    }
}

impl Watched {
    /// Ends the subscriptions of `subscriptions/listen` with this id.
    pub(in crate::session) fn end(&mut self, listen: &Id) {
        self.0.retain(|watch| watch.of.as_ref() != Some(listen));
    }
}

impl Watch {
    /// Whether the client is to be notified now that the job is in this state; `None` when it has ended.
    fn is_due(&mut self, job: Option<&RunningJob>) -> bool {
        let Some(job) = job else { return true };
        let changes = job.changes();
        let is_due = changes != self.seen && self.notified.is_none_or(|at| at.elapsed() >= UPDATE_INTERVAL);
        if is_due {
            (self.seen, self.notified) = (changes, Some(Instant::now()));
        }
        is_due
    }

    fn notification(&self) -> Bytes {
        let mut params = json!({ "uri": uri_of(self.job) });
        self.of.iter().for_each(|of| params["_meta"] = subscription(of));
        notification("notifications/resources/updated", &params)
    }
}

impl Session {
    /// The notifications about jobs that are due. The last one about a job follows its end. To be called every now and
    /// then.
    pub(crate) fn updates(&self) -> Vec<Bytes> {
        let mut updates = Vec::new();
        self.state().watched.0.retain_mut(|watch| {
            let job = self.rules.jobs.running(self.tenant(), watch.job);
            if watch.is_due(job.as_deref()) {
                updates.push(watch.notification());
            }
            job.is_some()
        });
        updates
    }

    /// Subscribes to a job. Blocks.
    fn watch(&self, uri: &str, of: Option<&Id>, modern: bool) -> Result<(), ProtocolError> {
        let (job, found) = tool::find_resource(self, uri, modern)?;
        if matches!(found, Job::Elsewhere(_)) {
            let message = "another gateway process runs this job: read the resource now and then".to_owned();
            return Err(ProtocolError { code: INVALID_REQUEST, message });
        }
        let seen = if let Job::Running(job) = &found { job.changes() } else { 0 };
        let watched = &mut self.state().watched.0;
        if watched.iter().any(|watch| watch.job == job && watch.of.as_ref() == of) {
            return Ok(());
        }
        if watched.len() >= WATCHED_MAX {
            let message = format!("a session subscribes to at most {WATCHED_MAX} jobs at a time: unsubscribe from one");
            return Err(ProtocolError { code: INVALID_REQUEST, message });
        }
        watched.push(Watch { job, of: of.cloned(), seen, notified: None });
        Ok(())
    }
}

fn uri_of(job: Ulid) -> String {
    format!("{JOBS_URI}{job}")
}

/// The first message of a subscription.
fn acknowledgment(id: &Id, uris: &[&String]) -> Bytes {
    let params = json!({ "notifications": { "resourceSubscriptions": uris }, "_meta": subscription(id) });
    notification("notifications/subscriptions/acknowledged", &params)
}

/// Metadata that names a subscription.
fn subscription(id: &Id) -> Value {
    // The id came as JSON.
    let id: Value = serde_json::from_str(id.json()).unwrap_or_default();
    json!({ "io.modelcontextprotocol/subscriptionId": id })
}

fn notification(method: &str, params: &Value) -> Bytes {
    format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params}}}"#).into()
}
