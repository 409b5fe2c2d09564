//! How clients fetch jobs: the tool `lro_job` and the resources `lro://jobs/`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{self, ProtocolError};
use lro_host::store::{Store, StoreError, Ulid};
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::status::{PartialStatus, Status};
use super::wait::{Awaited, runs_elsewhere};
use super::{JOB_TOOL, WAIT_MS_DEFAULT};
use crate::session::Session;
use crate::session::resource::text_resource;
use crate::tenants::jobs::{Job, RunningJob};

/// Beginning of the URIs of jobs.
pub(crate) const JOBS_URI: &str = "lro://jobs/";

/// Template of these URIs.
pub(crate) const JOBS_TEMPLATE: &str = r#"{"uriTemplate":"lro://jobs/{job}","name":"lro-job","title":"A call that goes on in the background","description":"State of a job, and its result once it has ended","mimeType":"application/json"}"#;

/// Most milliseconds that a call of the tool waits: clients give up after 60 seconds.
const WAIT_MS_MAX: u64 = 50_000;

/// Milliseconds that a cancellation waits for an answer of the server, unless it says otherwise: most servers send none.
const CANCEL_WAIT_MS_DEFAULT: u64 = 1_000;

/// Most jobs in a list.
const LISTED_MAX: usize = 100;

/// Bytes of a record that are read for a list: more than a record has without its result.
const LISTED_BYTES_MAX: u64 = 256 << 10;

/// What input has to be.
const RESULT_EXPECTED: &str = "expected the result of the request";

/// Metadata key of a fetched result, for its job.
const JOB_KEY: &str = "io.github.lro-filter/job";

/// The definition of the tool, as JSON.
pub(crate) fn definition() -> String {
    json!({
        "name": JOB_TOOL,
        "title": "Fetch the result of a job",
        "description": "Some tools take long: their calls answer with a `job` and go on in the background. This tool waits for \
            the end of a job and gives its result, or says how far it is. Without `handle` it lists all jobs.",
        "inputSchema": {"type": "object", "additionalProperties": false, "properties": {
            "handle": {"type": "string", "description": "member `job` of the answer of the slow tool"},
            "wait_ms": {"type": "integer", "minimum": 0, "description": format!(
                "most milliseconds to wait for the end, {WAIT_MS_DEFAULT} by default, at most {WAIT_MS_MAX}")},
            "cancel": {"type": "boolean", "description": "stop the job"},
            "input": {"type": "object", "description": "for a job in the state input_required: the result of each request \
                in its member `input`, by the same key"},
        }},
    })
    .to_string()
}

/// A sentence about jobs for the model.
pub(crate) fn guidance() -> String {
    format!(
        " A tool that takes long may answer with a `job` instead of its result: fetch the result with `{JOB_TOOL}`; do not \
         call the tool again."
    )
}

/// The arguments of the tool.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Arguments {
    handle: Option<String>,
    wait_ms: Option<u64>,
    cancel: bool,
    input: BTreeMap<String, Box<RawValue>>,
}

impl Arguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// Why they cannot be read, for the model.
    pub(crate) fn read(json: &str) -> Result<Self, String> {
        let arguments: Self = serde_json::from_str(json).map_err(|error| {
            format!("invalid arguments: {error}: expected {{\"handle\", \"wait_ms\", \"cancel\", \"input\"}}")
        })?;
        let needs_handle = arguments.cancel || !arguments.input.is_empty();
        if needs_handle && arguments.handle.is_none() {
            return Err("`handle` is missing: name the job to cancel, or to give input".to_owned());
        }
        check_input(&arguments.input).map_err(|key| format!("`input.{key}` is not an object: {RESULT_EXPECTED}"))?;
        Ok(arguments)
    }

    /// Gives the job its input.
    ///
    /// # Errors
    /// Why it cannot, for the model.
    pub(crate) fn give(&self, session: &Session) -> Result<(), String> {
        match self.running(session) {
            _ if self.input.is_empty() => Ok(()),
            Some(job) => job.give(&self.input),
            None => Err("no job with this handle runs here, so none waits for input".to_owned()),
        }
    }

    fn running(&self, session: &Session) -> Option<Arc<RunningJob>> {
        session.rules.jobs.running(session.tenant(), self.handle.as_ref()?.parse().ok()?)
    }

    /// The job, if it runs in another gateway.
    fn elsewhere(&self, session: &Session) -> Option<Ulid> {
        let (job, store) = (self.handle.as_ref()?.parse().ok()?, session.rules.filter.store.as_ref().ok()?);
        runs_elsewhere(store, session.tenant(), job).then_some(job)
    }

    /// Cancels the job if that is asked for. Returns the job to wait for, and until when. Reads the record of a job that
    /// does not run here.
    pub(in crate::session) fn begin(&self, session: &Session) -> Option<(Awaited, Instant)> {
        let job = match self.running(session) {
            Some(job) => Awaited::Here(job),
            None => Awaited::Elsewhere(self.elsewhere(session)?),
        };
        match &job {
            Awaited::Here(job) if self.cancel => job.cancel(false),
            Awaited::Elsewhere(_) if self.cancel => return None,
            Awaited::Here(_) | Awaited::End(_) | Awaited::Elsewhere(_) => {}
        }
        let default = if self.cancel { CANCEL_WAIT_MS_DEFAULT } else { WAIT_MS_DEFAULT };
        let wait = Duration::from_millis(self.wait_ms.unwrap_or(default).min(WAIT_MS_MAX));
        (!wait.is_zero()).then(|| (job, Instant::now() + wait))
    }
}

/// The input that a client gives to a task: a JSON object of results by the keys of their requests.
///
/// # Errors
/// Why it cannot be read.
pub(super) fn input_of(json: Option<Bytes>) -> Result<BTreeMap<String, Box<RawValue>>, String> {
    let input: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&json.unwrap_or_default())
        .map_err(|error| format!("invalid `inputResponses`: {error}: expected an object"))?;
    check_input(&input).map_err(|key| format!("`inputResponses.{key}` is not an object: {RESULT_EXPECTED}"))?;
    Ok(input)
}

/// # Errors
/// The key of a result that is none.
fn check_input(input: &BTreeMap<String, Box<RawValue>>) -> Result<(), &str> {
    match input.iter().find(|(_, result)| !result.get().starts_with('{')) {
        Some((key, _)) => Err(key),
        None => Ok(()),
    }
}

/// Whether the arguments of a call name a job of this gateway. Blocks.
pub(crate) fn knows(session: &Session, arguments: &str) -> bool {
    let handle = Arguments::read(arguments).ok().and_then(|arguments| arguments.handle);
    handle.is_some_and(|handle| known(session, &handle).is_some())
}

/// The job with this handle, if this gateway has one of the tenant. Blocks.
pub(super) fn known(session: &Session, handle: &str) -> Option<Ulid> {
    let (id, store) = (handle.parse().ok()?, session.rules.filter.store.as_ref().ok()?);
    let is_known =
        session.rules.jobs.running(session.tenant(), id).is_some() || store.job(session.tenant(), id, 0).is_ok();
    is_known.then_some(id)
}

/// The answer of the tool: a tool result, as JSON. Blocks.
pub(crate) fn answer(session: &Session, arguments: &Arguments) -> String {
    let Ok(store) = &session.rules.filter.store else {
        return mcp::tool_error("the gateway has no store, see its log");
    };
    let Some(handle) = &arguments.handle else { return list(session, store) };
    match find(session, store, handle) {
        Ok((handle, Job::Ended(record, end, result))) if !result.is_empty() => {
            let status = Status::ended(handle, &record, &end, None).json();
            String::from_utf8_lossy(&mcp::with_metadata(&result, JOB_KEY, &status)).into_owned()
        }
        Ok((handle, Job::Elsewhere(_))) if arguments.cancel => mcp::tool_error(&format!(
            "the job {handle} runs in another gateway process, and only a client of that one can cancel it"
        )),
        Ok((handle, job)) => {
            let is_error = matches!(job, Job::Lost(..) | Job::Ended(..)) && !arguments.cancel;
            let partial = PartialStatus::find(store, session.tenant(), handle, &job);
            let status = Status::of(handle, &job, partial).json();
            let text = mcp::text_block(&status);
            format!(r#"{{"content":[{text}],"structuredContent":{status},"isError":{is_error}}}"#)
        }
        Err(error) => mcp::tool_error(&error),
    }
}

/// The content of the resource of a job: the result of `resources/read`, as JSON. Blocks.
///
/// # Errors
/// When there is no such job.
pub(crate) fn resource(session: &Session, uri: &str, modern: bool) -> Result<String, ProtocolError> {
    let (handle, job) = find_resource(session, uri, modern)?;
    let store = session.rules.filter.store.as_ref().ok();
    let partial = store.and_then(|store| PartialStatus::find(store, session.tenant(), handle, &job));
    let status = Status::of(handle, &job, partial).json();
    Ok(text_resource(uri, "application/json", &status, modern))
}

/// The job with this URI. Blocks.
pub(super) fn find_resource(session: &Session, uri: &str, modern: bool) -> Result<(Ulid, Job), ProtocolError> {
    let failed = |message: String| ProtocolError::missing_resource(message, modern);
    let store = session.rules.filter.store.as_ref().map_err(|_| failed("the gateway has no store".to_owned()))?;
    find(session, store, uri.strip_prefix(JOBS_URI).unwrap_or_default()).map_err(failed)
}

/// Finds a job by its handle. Blocks.
///
/// # Errors
/// Why there is none, for clients.
pub(super) fn find(session: &Session, store: &Store, handle: &str) -> Result<(Ulid, Job), String> {
    // A job of another tenant is as unknown as one that never was.
    let unknown = || format!("there is no job `{handle}`: it never was, has expired or made room for others");
    let id: Ulid = handle.parse().map_err(|_| unknown())?;
    let found = session.rules.jobs.find(store, session.tenant(), id, u64::MAX);
    found.map(|job| (id, job)).map_err(|error| match error {
        StoreError::NotFound { .. } => unknown(),
        error => {
            let tenant = session.tenant();
            tracing::warn!(tenant, error = &error as &dyn std::error::Error, "cannot read the record of a job");
            error.for_client()
        }
    })
}

fn list(session: &Session, store: &Store) -> String {
    let (jobs, more) = match newest(session, store) {
        Ok(found) => found,
        Err(error) => return mcp::tool_error(&error.for_client()),
    };
    let jobs: Vec<String> = jobs.iter().map(|(handle, job)| Status::short(*handle, job).json()).collect();
    let list = format!(r#"{{"jobs":[{}],"more":{more}}}"#, jobs.join(","));
    format!(r#"{{"content":[{}],"structuredContent":{list}}}"#, mcp::text_block(&list))
}

/// The newest jobs of the tenant, the last that began first, and how many more there are. Blocks.
///
/// # Errors
/// When the directory of the tenant cannot be read.
pub(super) fn newest(session: &Session, store: &Store) -> Result<(Vec<(Ulid, Job)>, usize), StoreError> {
    let tenant = session.tenant();
    let mut handles = store.jobs(tenant)?;
    // The record of one that has just begun may not be written yet.
    handles.extend(session.rules.jobs.all_running(tenant).iter().map(|job| job.handle));
    handles.sort_unstable_by(|one, other| other.cmp(one));
    handles.dedup();
    let more = handles.len().saturating_sub(LISTED_MAX);
    // One that cannot be read has just expired.
    let found = handles
        .iter()
        .take(LISTED_MAX)
        .filter_map(|handle| Some((*handle, session.rules.jobs.find(store, tenant, *handle, LISTED_BYTES_MAX).ok()?)));
    Ok((found.collect(), more))
}
