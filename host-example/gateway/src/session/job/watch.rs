//! Subscriptions to the resources of jobs and to jobs as tasks, which the gateway answers itself.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job::Job as Work;
use lro_host::mcp::{self, INVALID_REQUEST, Id, Message, Params, ProtocolError, TASKS_EXTENSION, meta, method};
use lro_host::store::Ulid;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::task;
use super::tool::{self, JOBS_URI};
use crate::session::{Call, FromClient, Session};
use crate::tenants::jobs::{Job, RunningJob};

/// Most subscriptions of a session to jobs: as many as a list of jobs shows.
const WATCHED_MAX: usize = 100;

/// Least time between two notifications about one job that runs, as a client reads the resource after each.
const UPDATE_INTERVAL: Duration = Duration::from_secs(1);

/// JSON-RPC error code for a capability that the client does not declare, from revision 2026-07-28 on.
const MISSING_CAPABILITY: i32 = -32021;

/// A request about subscriptions to jobs.
#[derive(Debug)]
pub(in crate::session) enum WatchCall {
    Subscribe(String),
    Unsubscribe(String),
    /// `subscriptions/listen` that names these resources of jobs, these tasks that are jobs, and nothing else.
    Listen {
        uris: Vec<String>,
        tasks: Vec<Ulid>,
    },
    /// `subscriptions/listen` for tasks by a client that does not say that it knows them.
    Refused,
}

/// What `subscriptions/listen` asks for.
#[derive(Deserialize)]
struct Filter {
    #[serde(default, rename = "resourceSubscriptions")]
    uris: Vec<String>,
    #[serde(default, rename = "taskIds")]
    tasks: Vec<String>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// The subscriptions of a session.
#[derive(Debug, Default)]
pub(in crate::session) struct Watched(Vec<Watch>);

/// What a client hears of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Topic {
    /// That its resource has changed.
    Resource,
    /// The task, as in revision 2025-11-25.
    Status,
    /// The task with all it has, as from revision 2026-07-28 on.
    Task,
}

#[derive(Debug)]
struct Watch {
    job: Ulid,
    topic: Topic,
    /// The id of the `subscriptions/listen` that it belongs to.
    of: Option<Id>,
    /// [`RunningJob::changes`] that the client knows of.
    seen: u64,
    notified: Option<Instant>,
}

/// News of a job for a client.
#[derive(Debug)]
pub(crate) struct Update {
    job: Ulid,
    topic: Topic,
    of: Option<Id>,
}

impl WatchCall {
    /// The request in a message; `None` if it is about anything but jobs. Blocks if it names tasks.
    pub(in crate::session) fn of(
        session: &Session,
        call: &Call,
        message: &Message,
        params: &Params<'_>,
    ) -> Option<Self> {
        let is_job = |uri: &str| uri.starts_with(JOBS_URI);
        let uri = || Some(params.uri.as_deref().filter(|uri| is_job(uri))?.to_owned());
        match message.method().as_deref()? {
            method::SUBSCRIBE => Some(Self::Subscribe(uri()?)),
            method::UNSUBSCRIBE => Some(Self::Unsubscribe(uri()?)),
            method::LISTEN if params.is_modern() => {
                let filter: Filter = serde_json::from_slice(&message.value(&["params", "notifications"])?).ok()?;
                let is_unset = |value: &Value| value.is_null() || *value == Value::Bool(false);
                let is_own = filter.others.values().all(is_unset) && filter.uris.iter().all(|uri| is_job(uri));
                let tasks =
                    filter.tasks.iter().map(|task| tool::known(session, task)).collect::<Option<Vec<Ulid>>>()?;
                match (is_own && filter.uris.len() + tasks.len() > 0, tasks.is_empty() || call.knows_tasks) {
                    (false, _) => None,
                    (true, false) => Some(Self::Refused),
                    (true, true) => Some(Self::Listen { uris: filter.uris, tasks }),
                }
            }
            _ => None,
        }
    }

    /// Does what the request with this id asks for. Blocks.
    pub(in crate::session) fn run(&self, session: &Session, id: &Id, modern: bool) -> FromClient {
        let done = match self {
            Self::Subscribe(uri) => session.watch(uri, Topic::Resource, None, modern),
            Self::Unsubscribe(uri) => {
                let is_left = |watch: &Watch| watch.topic == Topic::Resource && uri_of(watch.job) == *uri;
                session.state().watched.0.retain(|watch| !is_left(watch));
                Ok(())
            }
            Self::Listen { uris, tasks } => {
                let watch = |uri: &str, topic| session.watch(uri, topic, Some(id), modern).is_ok();
                let uris: Vec<&String> = uris.iter().filter(|uri| watch(uri, Topic::Resource)).collect();
                let tasks: Vec<&Ulid> = tasks.iter().filter(|task| watch(&uri_of(**task), Topic::Task)).collect();
                return FromClient::Open(acknowledgment(id, &uris, &tasks));
            }
            Self::Refused => return FromClient::Answer(missing_capability(id)),
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

    fn update(&self) -> Update {
        Update { job: self.job, topic: self.topic, of: self.of.clone() }
    }
}

impl Update {
    /// The notification; `None` if the job has expired meanwhile. Blocks.
    fn message(&self, session: &Session) -> Option<Bytes> {
        let mut params = match self.topic {
            Topic::Resource => json!({ "uri": uri_of(self.job) }).to_string(),
            Topic::Status => task::shown(session, self.job, false)?,
            Topic::Task => task::shown(session, self.job, true)?,
        };
        if let Some(of) = &self.of {
            params.truncate(params.len() - 1);
            params = format!(r#"{params},"_meta":{}}}"#, subscription(of));
        }
        let method = match self.topic {
            Topic::Resource => method::RESOURCE_UPDATED,
            Topic::Status => method::TASK_STATUS_2025,
            Topic::Task => method::TASK_STATUS,
        };
        Some(mcp::notification(method, &params))
    }
}

impl Session {
    /// The news about jobs that are due. The last one about a job follows its end. To be called every now and then.
    pub(crate) fn updates(&self) -> Vec<Update> {
        let mut updates = Vec::new();
        self.state().watched.0.retain_mut(|watch| {
            let job = self.rules.jobs.running(self.tenant(), watch.job);
            if watch.is_due(job.as_deref()) {
                updates.push(watch.update());
            }
            job.is_some()
        });
        updates
    }

    /// The notifications with these news. Blocks.
    pub(crate) fn notifications(&self, updates: &[Update]) -> Vec<Bytes> {
        updates.iter().filter_map(|update| update.message(self)).collect()
    }

    /// The notifications about jobs that are due.
    pub(crate) async fn due_notifications(self: &Arc<Self>) -> Vec<Bytes> {
        let (session, updates) = (Arc::clone(self), self.updates());
        if updates.is_empty() {
            return Vec::new();
        }
        let read = Work::new(async move { session.notifications(&updates) });
        self.rules.workers.run_job(read).await.unwrap_or_default()
    }

    /// Subscribes the session to the task that it has begun, as in revision 2025-11-25. Clients need not get such news, so
    /// those of the newest tasks are left out where there are many.
    pub(super) fn watch_task(&self, job: &RunningJob) {
        let (seen, notified) = (job.changes(), Some(Instant::now()));
        let watched = &mut self.state().watched.0;
        if watched.len() < WATCHED_MAX {
            watched.push(Watch { job: job.handle, topic: Topic::Status, of: None, seen, notified });
        }
    }

    /// Subscribes to a job. Blocks.
    fn watch(&self, uri: &str, topic: Topic, of: Option<&Id>, modern: bool) -> Result<(), ProtocolError> {
        let (job, found) = tool::find_resource(self, uri, modern)?;
        if matches!(found, Job::Elsewhere(_)) {
            let message = "another gateway process runs this job: read the resource now and then".to_owned();
            return Err(ProtocolError { code: INVALID_REQUEST, message });
        }
        let seen = if let Job::Running(job) = &found { job.changes() } else { 0 };
        let watched = &mut self.state().watched.0;
        if watched.iter().any(|watch| watch.job == job && watch.topic == topic && watch.of.as_ref() == of) {
            return Ok(());
        }
        if watched.len() >= WATCHED_MAX {
            let message = format!("a session subscribes to at most {WATCHED_MAX} jobs at a time: unsubscribe from one");
            return Err(ProtocolError { code: INVALID_REQUEST, message });
        }
        watched.push(Watch { job, topic, of: of.cloned(), seen, notified: None });
        Ok(())
    }
}

fn uri_of(job: Ulid) -> String {
    format!("{JOBS_URI}{job}")
}

/// The first message of a subscription.
fn acknowledgment(id: &Id, uris: &[&String], tasks: &[&Ulid]) -> Bytes {
    let mut accepted = json!({});
    if !uris.is_empty() {
        accepted["resourceSubscriptions"] = json!(uris);
    }
    if !tasks.is_empty() {
        accepted["taskIds"] = tasks.iter().map(ToString::to_string).collect();
    }
    let params = json!({ "notifications": accepted, "_meta": subscription(id) });
    mcp::notification(method::SUBSCRIPTION_ACKNOWLEDGED, &params.to_string())
}

/// The error for a client that asks for news of tasks without declaring that it knows tasks.
fn missing_capability(id: &Id) -> Bytes {
    let data = json!({ "requiredCapabilities": { "extensions": { TASKS_EXTENSION: {} } } });
    let error = json!({ "code": MISSING_CAPABILITY, "message": "Missing required client capability", "data": data });
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#).into()
}

/// Metadata that names a subscription.
fn subscription(id: &Id) -> Value {
    // The id came as JSON.
    let id: Value = serde_json::from_str(id.json()).unwrap_or_default();
    json!({ meta::SUBSCRIPTION_ID: id })
}
