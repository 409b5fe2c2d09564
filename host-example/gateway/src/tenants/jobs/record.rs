//! The record of a job in the store: one line of JSON, and below it the result, if it has one.

use std::time::SystemTime;

use bytes::Bytes;
use lro_host::store::rfc3339;
use memchr::memchr;
use serde::{Deserialize, Serialize};

use super::running::{JobCall, RunningJob};

/// How the call of a job ended.
#[derive(Clone, Debug)]
pub(crate) enum Outcome {
    /// With a tool result, as the client would have got it: a JSON object.
    Done(Bytes),
    /// With an error of the server.
    Failed(String),
    /// Without an answer of the server, for this reason.
    Unanswered(String),
}

/// A job and, after its end, how it ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(crate) tenant: String,
    pub(crate) tool: String,
    /// The arguments as JSON, if they were kept.
    pub(crate) arguments: Option<String>,
    pub(crate) end: Option<Ended>,
}

/// The end of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ended {
    pub(crate) state: EndState,
    /// RFC 3339 in UTC.
    pub(crate) at: String,
    /// Why it has no result.
    pub(crate) reason: Option<String>,
    /// Of a canceled job: whether the server answered with a result all the same. `None` if it did not answer.
    pub(crate) server_went_on: Option<bool>,
    /// Whether the result is an error of the tool.
    #[serde(default)]
    pub(crate) is_error: bool,
}

/// The state after the end, spelled as the protocol spells states of tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum EndState {
    Done,
    Failed,
    Cancelled,
}

impl EndState {
    /// The name, for clients.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

impl Record {
    pub(super) fn begun(call: &JobCall) -> Self {
        let JobCall { tenant, tool, arguments } = call.clone();
        Self { tenant, tool, arguments, end: None }
    }

    /// The record of a job that has ended, and its result. The result of a canceled job is dropped.
    pub(super) fn ended(job: &RunningJob, outcome: &Outcome) -> (Self, Bytes) {
        let (state, reason, server_went_on, result) = match (outcome, job.is_canceled()) {
            (Outcome::Done(result), false) => (EndState::Done, None, None, result.clone()),
            (Outcome::Failed(reason) | Outcome::Unanswered(reason), false) => {
                (EndState::Failed, Some(reason.clone()), None, Bytes::new())
            }
            (Outcome::Done(_), true) => {
                let reason = "the server went on: it answered after it was told to stop".to_owned();
                (EndState::Cancelled, Some(reason), Some(true), Bytes::new())
            }
            (Outcome::Failed(reason), true) => (EndState::Cancelled, Some(reason.clone()), Some(false), Bytes::new()),
            (Outcome::Unanswered(reason), true) => (EndState::Cancelled, Some(reason.clone()), None, Bytes::new()),
        };
        let is_error = is_error(&result);
        let end = Ended { state, at: rfc3339(SystemTime::now()), reason, server_went_on, is_error };
        (Self { end: Some(end), ..Self::begun(&job.call) }, result)
    }

    /// The bytes to keep.
    pub(super) fn written(&self, result: &[u8]) -> Vec<u8> {
        // A struct of strings always serializes.
        let mut bytes = serde_json::to_vec(self).unwrap_or_default();
        bytes.push(b'\n');
        bytes.extend_from_slice(result);
        bytes
    }

    /// Reads a record and its result; `None` if it is not one.
    pub(super) fn read(bytes: Vec<u8>) -> Option<(Self, Bytes)> {
        let bytes = Bytes::from(bytes);
        let end = memchr(b'\n', &bytes)?;
        let record = serde_json::from_slice(bytes.get(..end)?).ok()?;
        Some((record, bytes.slice(end + 1..)))
    }
}

/// Whether a tool result is an error.
fn is_error(result: &[u8]) -> bool {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct ToolResult {
        is_error: Option<bool>,
    }
    serde_json::from_slice(result).is_ok_and(|result: ToolResult| result.is_error == Some(true))
}
