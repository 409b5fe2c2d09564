//! What clients see of a task: a JSON object.

use std::collections::BTreeMap;
use std::time::SystemTime;

use lro_host::mcp::{self, INTERNAL_ERROR};
use lro_host::store::{Ulid, rfc3339};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::session::Session;
use crate::session::job::status::{QuestionStatus, questions};
use crate::tenants::jobs::{EndState, Ended, Job, Progress};

/// The status of a task that waits for input.
const INPUT_REQUIRED: &str = "input_required";

/// What a task that waits for input says.
const INPUT: &str = "the server waits for input";

/// How often clients are asked to poll, in milliseconds.
const POLL_INTERVAL_MS: u64 = 1_000;

/// A task as clients see it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Task {
    task_id: String,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_message: Option<String>,
    /// RFC 3339 in UTC, as the next.
    created_at: String,
    last_updated_at: String,
    #[serde(flatten)]
    times: Times,
    /// What the server asks for, by the keys of its requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    input_requests: BTreeMap<String, QuestionStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<TaskError>,
}

/// How long a task is kept after its end, and how often to poll it, in milliseconds.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum Times {
    /// As in revision 2025-11-25.
    #[serde(rename_all = "camelCase")]
    Plain { ttl: u64, poll_interval: u64 },
    /// As from revision 2026-07-28 on.
    #[serde(rename_all = "camelCase")]
    WithUnit { ttl_ms: u64, poll_interval_ms: u64 },
}

/// Why a task has failed: a JSON-RPC error.
#[derive(Debug, Serialize)]
struct TaskError {
    code: i32,
    message: String,
}

impl Task {
    /// The task of a job. `modern` says whether for revision 2026-07-28 or later.
    pub(super) fn of(session: &Session, id: Ulid, job: &Job, modern: bool) -> Self {
        let created_at = rfc3339(id.time());
        let (status, status_message, last_updated_at) = match job {
            Job::Running(job) if job.is_canceled() => {
                ("cancelled", Some("the server has not answered the cancellation yet".to_owned()), now())
            }
            Job::Running(job) if !job.questions().is_empty() => (INPUT_REQUIRED, Some(INPUT.to_owned()), now()),
            Job::Running(job) => match job.progress() {
                Some(progress) => ("working", Some(progress_text(&progress)), time_of(&progress)),
                None => ("working", None, created_at.clone()),
            },
            Job::Elsewhere(_) => ("working", Some("another gateway process runs it".to_owned()), created_at.clone()),
            Job::Ended(_, end, _) => (status_of(end, modern), end.reason.clone(), end.at.clone()),
            Job::Lost(record, reason) => {
                let call = format!("{} {}", record.tool, record.arguments.as_deref().unwrap_or("{…}"));
                ("failed", Some(format!("lost: {reason}; the call was {call}")), now())
            }
        };
        let ttl = session.rules.config.ttl_seconds.get().saturating_mul(1_000);
        let times = match modern {
            true => Times::WithUnit { ttl_ms: ttl, poll_interval_ms: POLL_INTERVAL_MS },
            false => Times::Plain { ttl, poll_interval: POLL_INTERVAL_MS },
        };
        let task_id = id.to_string();
        let (input_requests, result, error) = (BTreeMap::new(), None, None);
        Self { task_id, status, status_message, created_at, last_updated_at, times, input_requests, result, error }
    }

    /// With the result or the error of the job, or what it asks for, as from revision 2026-07-28 on.
    pub(super) fn with_outcome(mut self, job: &Job) -> Self {
        match job {
            Job::Running(job) if self.status == INPUT_REQUIRED => self.input_requests = questions(job),
            Job::Ended(_, _, result) if self.status == "completed" => {
                let result = mcp::with_result_type(String::from_utf8_lossy(result).into_owned(), true);
                self.result = RawValue::from_string(result).ok();
            }
            _ if self.status == "failed" => {
                self.error = Some(TaskError { code: INTERNAL_ERROR, message: self.reason() });
            }
            _ => {}
        }
        self
    }

    pub(super) fn is_canceled(&self) -> bool {
        self.status == "cancelled"
    }

    /// Why there is no result.
    pub(super) fn reason(&self) -> String {
        match &self.status_message {
            Some(message) => format!("it is {}: {message}", self.status),
            None => format!("it is {}", self.status),
        }
    }

    pub(super) fn json(&self) -> String {
        // A struct of texts and numbers always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// The status after the end. An error of the tool is a failure in revision 2025-11-25 alone.
fn status_of(end: &Ended, modern: bool) -> &'static str {
    match end.state {
        EndState::Done if end.is_error && !modern => "failed",
        EndState::Done => "completed",
        EndState::Failed => "failed",
        EndState::Cancelled => "cancelled",
    }
}

fn progress_text(progress: &Progress) -> String {
    let done = match progress.total {
        Some(total) => format!("{} of {total}", progress.progress),
        None => progress.progress.to_string(),
    };
    progress.message.as_ref().map_or_else(|| done.clone(), |message| format!("{done}: {message}"))
}

fn time_of(progress: &Progress) -> String {
    let now = SystemTime::now();
    rfc3339(now.checked_sub(progress.at.elapsed()).unwrap_or(now))
}

fn now() -> String {
    rfc3339(SystemTime::now())
}
