//! What clients see of a job: a JSON object.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use lro_host::mcp::READ_TOOL;
use lro_host::store::{Store, Ulid, rfc3339};
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::{JOB_TOOL, WAIT_MS_DEFAULT};
use crate::tenants::jobs::{Ended, Job, Question, Record, RunningJob};

/// Why a job waits for input.
const INPUT: &str = "the server waits for input: call the tool with `input`, an object with the result of each request by \
    its key, such as {\"KEY\":{\"action\":\"decline\"}} for elicitation/create";

/// A job as clients see it.
#[derive(Debug, Default, Serialize)]
pub(super) struct Status<'a> {
    job: String,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    offloaded: Option<bool>,
    tool: &'a str,
    /// RFC 3339 in UTC.
    started: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<&'a str>,
    /// How long it has run so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    elapsed_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    progress: Option<ProgressStatus>,
    /// What the server asks for, by the keys of its requests.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    input: BTreeMap<String, QuestionStatus>,
    /// What has come of the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    partial: Option<PartialStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server_went_on: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    /// The call that began it.
    #[serde(skip_serializing_if = "Option::is_none")]
    call: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Box<RawValue>>,
    /// The call that goes on from here.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A request of the server for input.
#[derive(Debug, Serialize)]
pub(super) struct QuestionStatus {
    method: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Box<RawValue>>,
}

/// What has come of a result that is not whole.
#[derive(Debug, Serialize)]
pub(super) struct PartialStatus {
    records: u64,
    bytes: u64,
    /// Parts that the server sent and the gateway did not get, or had no room for.
    #[serde(skip_serializing_if = "Option::is_none")]
    missed: Option<u64>,
    /// The call that reads it.
    read: String,
}

impl PartialStatus {
    /// Of a job. Blocks.
    pub(super) fn find(store: &Store, tenant: &str, handle: Ulid, job: &Job) -> Option<Self> {
        let offload = store.find(tenant, handle).ok()?;
        offload.growth()?;
        let file = offload.record().files.first()?;
        let missed = match job {
            Job::Running(job) => Some(job.parts.missed()).filter(|missed| *missed > 0),
            Job::Elsewhere(_) | Job::Ended(..) | Job::Lost(..) => None,
        };
        let read = format!("{READ_TOOL} {}", json!({ "handle": handle.to_string() }));
        Some(Self { records: file.records, bytes: file.bytes - file.digest_from, missed, read })
    }
}

/// What the server said last.
#[derive(Debug, Serialize)]
struct ProgressStatus {
    progress: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<f64>,
    /// The part that is done, from 0 to 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    fraction: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// How long ago it said so.
    ago_ms: u64,
}

impl<'a> Status<'a> {
    /// What the client gets in place of the result of a call that became this job.
    pub(super) fn descriptor(job: &'a RunningJob) -> Self {
        // The schema of replaced results asks for the member.
        Self { offloaded: Some(false), ..Self::running(job) }
    }

    fn new(job: Ulid, state: &'static str, tool: &'a str) -> Self {
        Self { job: job.to_string(), state, tool, started: rfc3339(job.time()), ..Self::default() }
    }

    pub(super) fn running(job: &'a RunningJob) -> Self {
        let progress = job.progress().map(|last| ProgressStatus {
            progress: last.progress,
            total: last.total,
            fraction: last.total.map(|total| last.progress / total).filter(|part| (0.0..=1.0).contains(part)),
            message: last.message,
            ago_ms: millis(last.at.elapsed()),
        });
        let input = questions(job);
        let (state, reason) = match (job.is_canceled(), input.is_empty()) {
            (true, _) => ("cancelled", Some("the server has not answered the cancellation yet")),
            (false, true) => ("running", None),
            (false, false) => ("input_required", Some(INPUT)),
        };
        Self {
            input,
            elapsed_ms: Some(millis(job.age())),
            progress,
            reason,
            next: Some(next(job.handle)),
            ..Self::new(job.handle, state, &job.call.tool)
        }
    }

    pub(super) fn ended(job: Ulid, record: &'a Record, end: &'a Ended, result: Option<&Bytes>) -> Self {
        let result = result.and_then(|result| serde_json::from_slice(result).ok());
        Self {
            ended: Some(&end.at),
            server_went_on: end.server_went_on,
            reason: end.reason.as_deref(),
            result,
            ..Self::new(job, end.state.name(), &record.tool)
        }
    }

    /// All there is to say about a job.
    pub(super) fn of(handle: Ulid, job: &'a Job, partial: Option<PartialStatus>) -> Self {
        let status = match job {
            Job::Running(job) => Self::running(job),
            Job::Elsewhere(record) => Self {
                reason: Some("another gateway process runs it"),
                next: Some(next(handle)),
                ..Self::new(handle, "running", &record.tool)
            },
            Job::Ended(record, end, result) => Self::ended(handle, record, end, Some(result)),
            Job::Lost(record, reason) => Self {
                reason: Some(*reason),
                call: Some(format!("{} {}", record.tool, record.arguments.as_deref().unwrap_or("{…}"))),
                ..Self::new(handle, "lost", &record.tool)
            },
        };
        Self { partial, ..status }
    }

    /// The line of a job in a list.
    pub(super) fn short(handle: Ulid, job: &'a Job) -> Self {
        match job {
            Job::Ended(record, end, _) => Self::ended(handle, record, end, None),
            job => Self { call: None, next: None, ..Self::of(handle, job, None) },
        }
    }

    pub(super) fn json(&self) -> String {
        // A struct of texts and numbers always serializes.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What the server asks for, by the keys of its requests.
pub(super) fn questions(job: &RunningJob) -> BTreeMap<String, QuestionStatus> {
    let questions = job.questions().into_iter();
    let status = |Question { key, method, params, .. }| (key, QuestionStatus { method, params });
    questions.map(status).collect()
}

/// The literal call that goes on to wait for a job.
fn next(job: Ulid) -> String {
    format!("{JOB_TOOL} {}", json!({ "handle": job.to_string(), "wait_ms": WAIT_MS_DEFAULT }))
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
