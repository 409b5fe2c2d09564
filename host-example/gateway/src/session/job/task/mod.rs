//! Jobs as tasks of the protocol: the form in which a client that knows tasks begins, follows and cancels them.

mod status;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job::{Job as Work, pause};
use lro_host::mcp::{
    self, INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, Message, ProtocolError, TASKS_EXTENSION, meta, method,
};
use lro_host::store::Ulid;
use serde_json::json;
use serde_json::value::RawValue;

use self::status::Task;
use super::tool;
use super::wait::{Awaited, runs_elsewhere};
use crate::session::Session;
use crate::session::decision::{Filtering, FromServer};
use crate::session::pending::Call;
use crate::tenants::jobs::{Job, RunningJob};

/// How long the server may take to create a task itself before a call that becomes a task at once is one of the gateway.
pub(super) const SERVER_TASK_WAIT: Duration = Duration::from_millis(500);

/// How long a cancellation waits for the server to say whether it went on: most servers say nothing.
const CANCEL_WAIT: Duration = Duration::from_secs(1);

/// Where a client says that it knows tasks, from revision 2026-07-28 on.
const ACCEPTS_TASKS: [&str; 5] = ["params", "_meta", meta::CLIENT_CAPABILITIES, "extensions", TASKS_EXTENSION];

/// Where a client of 2025-11-25 says so, in `initialize`.
const DECLARED: [&str; 3] = ["params", "capabilities", "tasks"];

/// The revision in which tasks are a part of the protocol.
const REVISION_WITH_TASKS: &str = "2025-11-25";

/// With this in the parameters, a client of 2025-11-25 asks for a task.
const TASK: [&str; 2] = ["params", "task"];

/// Where a client of 2026-07-28 gives input to a task.
const INPUT_RESPONSES: [&str; 2] = ["params", "inputResponses"];

/// In which form a client hears of the job that its call becomes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::session) enum JobForm {
    /// A tool result that describes the job.
    #[default]
    Descriptor,
    /// The task that the client asked for, as in revision 2025-11-25.
    AskedTask,
    /// A task where the client accepts one, as from revision 2026-07-28 on.
    Task,
}

impl JobForm {
    /// The form for a call.
    pub(in crate::session) fn of(message: &Message, call: &Call) -> Self {
        match call.modern {
            true if call.knows_tasks => Self::Task,
            false if message.value(&TASK).is_some() => Self::AskedTask,
            _ => Self::Descriptor,
        }
    }
}

/// Whether the client says with a request that it knows tasks, as from revision 2026-07-28 on.
pub(in crate::session) fn is_accepted(request: &Message) -> bool {
    request.value(&ACCEPTS_TASKS).is_some_and(|settings| settings.starts_with(b"{"))
}

/// Whether the client says in `initialize` that it knows tasks, as in revision 2025-11-25.
pub(in crate::session) fn is_declared(initialize: &Message) -> bool {
    asks_for_revision(initialize) && initialize.value(&DECLARED).is_some_and(|tasks| tasks.starts_with(b"{"))
}

/// Whether `initialize` asks for the revision in which tasks are a part of the protocol.
pub(in crate::session) fn asks_for_revision(initialize: &Message) -> bool {
    initialize.params().protocol_version.as_deref() == Some(REVISION_WITH_TASKS)
}

/// The call for a server that is not to know of the task.
pub(in crate::session) fn without_task(message: &Message) -> Message {
    Message::read(message.without(&TASK))
}

/// The request of a client that is not to get a task, as from revision 2026-07-28 on.
pub(in crate::session) fn without_support(request: Message) -> Message {
    if is_accepted(&request) { Message::read(request.without(&ACCEPTS_TASKS)) } else { request }
}

/// A request about a task that is a job.
#[derive(Debug)]
pub(in crate::session) struct TaskRequest {
    job: Ulid,
    kind: TaskRequestKind,
    /// The job, if it runs here.
    running: Option<Arc<RunningJob>>,
    /// The input that the client gives.
    input: Result<BTreeMap<String, Box<RawValue>>, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskRequestKind {
    Get,
    Result,
    Cancel,
    Update,
}

impl TaskRequest {
    /// The request in a message; `None` if it is about no job of the tenant. Blocks.
    pub(in crate::session) fn read(session: &Session, message: &Message, task: Option<&str>) -> Option<Self> {
        let kind = match message.method().as_deref()? {
            method::TASKS_GET => TaskRequestKind::Get,
            method::TASKS_RESULT => TaskRequestKind::Result,
            method::TASKS_CANCEL => TaskRequestKind::Cancel,
            method::TASKS_UPDATE => TaskRequestKind::Update,
            _ => return None,
        };
        let job = tool::known(session, task?)?;
        let running = session.rules.jobs.running(session.tenant(), job);
        let input = match kind {
            TaskRequestKind::Update => tool::input_of(message.value(&INPUT_RESPONSES)),
            _ => Ok(BTreeMap::new()),
        };
        Some(Self { job, kind, running, input })
    }

    /// Cancels the job if that is asked for. Returns the job to wait for, and until when. Reads the record of a job that does
    /// not run here.
    pub(in crate::session) fn begin(&self, session: &Session) -> Option<(Awaited, Instant)> {
        let longest = Duration::from_secs(session.rules.config.gateway.job_seconds_max.get());
        let Some(job) = self.running.clone() else {
            let store = session.rules.filter.store.as_ref().ok()?;
            let waits = self.kind == TaskRequestKind::Result && runs_elsewhere(store, session.tenant(), self.job);
            return Some((Awaited::Elsewhere(self.job), Instant::now().checked_add(longest)?)).filter(|_| waits);
        };
        match self.kind {
            TaskRequestKind::Get => None,
            TaskRequestKind::Update => {
                self.input.iter().for_each(|input| job.give_known(input));
                None
            }
            TaskRequestKind::Result if job.is_canceled() => None,
            TaskRequestKind::Result => Some((Awaited::End(job), Instant::now().checked_add(longest)?)),
            TaskRequestKind::Cancel => {
                job.cancel(false);
                Some((Awaited::Here(job), Instant::now() + CANCEL_WAIT))
            }
        }
    }

    /// The answer: a result, as JSON. Blocks.
    ///
    /// # Errors
    /// When the job has no result, or cannot be canceled.
    pub(in crate::session) fn answer(&self, session: &Session, modern: bool) -> Result<String, ProtocolError> {
        let failed = |code, message: String| Err(ProtocolError { code, message });
        let Ok(store) = &session.rules.filter.store else {
            return failed(INTERNAL_ERROR, "the gateway has no store, see its log".to_owned());
        };
        let (id, job) = match tool::find(session, store, &self.job.to_string()) {
            Ok(found) => found,
            Err(reason) => return failed(INVALID_PARAMS, reason),
        };
        let task = Task::of(session, id, &job, modern);
        match self.kind {
            TaskRequestKind::Get if modern => Ok(task.with_outcome(&job).json()),
            TaskRequestKind::Get => Ok(task.json()),
            TaskRequestKind::Result => match &job {
                Job::Ended(_, _, result) if !result.is_empty() => {
                    let related = json!({ "taskId": id.to_string() }).to_string();
                    Ok(String::from_utf8_lossy(&mcp::with_metadata(result, meta::RELATED_TASK, &related)).into_owned())
                }
                _ => failed(INTERNAL_ERROR, format!("the task has no result: {}", task.reason())),
            },
            TaskRequestKind::Cancel if modern && !matches!(job, Job::Elsewhere(_)) => Ok("{}".to_owned()),
            TaskRequestKind::Cancel if self.running.is_some() && task.is_canceled() => Ok(task.json()),
            TaskRequestKind::Cancel => failed(INVALID_PARAMS, format!("cannot cancel the task: {}", task.reason())),
            TaskRequestKind::Update => match &self.input {
                Ok(_) => Ok("{}".to_owned()),
                Err(reason) => failed(INVALID_PARAMS, reason.clone()),
            },
        }
    }
}

/// A task as a notification shows it, a JSON object; `None` if it has expired. Blocks.
pub(super) fn shown(session: &Session, job: Ulid, modern: bool) -> Option<String> {
    let store = session.rules.filter.store.as_ref().ok()?;
    let (id, job) = tool::find(session, store, &job.to_string()).ok()?;
    let task = Task::of(session, id, &job, modern);
    Some(if modern { task.with_outcome(&job).json() } else { task.json() })
}

/// What a client that knows tasks gets in place of the result: a result, as JSON.
pub(super) fn created(session: &Session, call: &Call, job: &Arc<RunningJob>) -> String {
    let task = Task::of(session, job.handle, &Job::Running(Arc::clone(job)), call.modern).json();
    match (call.modern, task.strip_prefix('{')) {
        (true, Some(members)) => format!(r#"{{"resultType":"task",{members}"#),
        _ => format!(r#"{{"task":{task}}}"#),
    }
}

/// The answer to `tasks/list`, with the jobs of the tenant on the first page.
pub(in crate::session) fn list_answer(session: &Arc<Session>, message: Message, first_page: bool) -> Filtering {
    let (session, bytes) = (Arc::clone(session), message.bytes().clone());
    let job = Work::new(async move {
        // Reading the records blocks.
        pause().await;
        FromServer::Pass(if first_page { with_jobs(&session, &message) } else { message.bytes().clone() })
    });
    Filtering { message: bytes, job, is_answered: false }
}

fn with_jobs(session: &Session, message: &Message) -> Bytes {
    let listed = session.rules.filter.store.as_ref().map(|store| tool::newest(session, store));
    let (jobs, _) = listed.ok().and_then(Result::ok).unwrap_or_default();
    let tasks: Vec<String> = jobs.iter().map(|(id, job)| Task::of(session, *id, job, false).json()).collect();
    match message.id().filter(|_| is_unknown_method(message)) {
        Some(id) => mcp::response(&id, &format!(r#"{{"tasks":[{}]}}"#, tasks.join(","))),
        None => mcp::with_items(message, "tasks", &tasks),
    }
}

/// The answer about a task that neither the gateway nor the server knows.
pub(in crate::session) fn unknown_answer(message: &Message) -> Option<Bytes> {
    let id = message.id().filter(|_| is_unknown_method(message))?;
    Some(mcp::error_response(Some(&id), INVALID_PARAMS, "the task is unknown or has expired: call the tool again"))
}

/// Whether the server knows no tasks.
fn is_unknown_method(answer: &Message) -> bool {
    answer.error_code() == Some(i64::from(METHOD_NOT_FOUND))
}
