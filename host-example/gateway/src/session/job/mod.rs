//! Calls that become jobs: the client gets a short descriptor in place of the result, and the call goes on.

pub(super) mod beat;
mod continued;
pub(super) mod growing;
mod input;
pub(super) mod parts;
pub(super) mod server_task;
mod status;
pub(super) mod task;
pub(super) mod tool;
pub(super) mod wait;
pub(super) mod watch;

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::job::{Job, pause};
use lro_host::mcp::{self, Id, Message};

use self::server_task::ServerTask;
use self::status::Status;
pub(super) use self::task::JobForm;
use crate::session::Session;
use crate::session::decision::{Failure, Filtering, FromServer};
use crate::session::pending::{Call, Detachment, RequestKind, cancellation};
use crate::settings::{JobMode, SchemaStrategy};
use crate::tenants::jobs::{JobCall, Outcome, RunningJob};

/// Name of the tool that fetches results of jobs.
pub(super) const JOB_TOOL: &str = "lro_job";

/// Milliseconds that a call of the tool waits for the end of the job, unless it says otherwise.
const WAIT_MS_DEFAULT: u64 = 20_000;

/// Length at which the name of a tool is cut in the record of a job, in bytes: the server may know no such tool.
const TOOL_BYTES_MAX: usize = 256;

/// Path of the type of a result in a response.
const RESULT_TYPE: [&str; 2] = ["result", "resultType"];

/// The type of a whole result, as JSON.
const COMPLETE: &str = r#""complete""#;

/// The type of a result that asks the client for input, as JSON.
const INPUT_REQUIRED: &str = r#""input_required""#;

/// How the JSON of an id begins that the gateway has given a request.
const OWN_ID: &str = r#""lro-"#;

/// What becomes of a call that takes long.
#[derive(Debug)]
pub(crate) struct Late {
    /// What the client gets, if it still waits.
    pub(crate) answer: Option<LateAnswer>,
    /// What the server gets, if the call is to end.
    pub(crate) cancellation: Option<Bytes>,
}

/// The answer to a call that takes long.
#[derive(Debug)]
pub(crate) struct LateAnswer {
    /// The id of the request, as the client sent it.
    pub(crate) id: Id,
    message: Bytes,
    /// The job whose begin is recorded first, and how the client hears of it.
    begun: Option<(Arc<Session>, Arc<RunningJob>, JobForm)>,
}

impl LateAnswer {
    /// The message for the client. Writes the record of a job, so it blocks.
    pub(crate) fn message(self) -> Bytes {
        if let Some((session, job, form)) = self.begun
            && let Ok(store) = &session.rules.filter.store
        {
            session.rules.jobs.record_begin(store, &job);
            if form == JobForm::AskedTask {
                session.watch_task(&job);
            }
        }
        self.message
    }
}

impl Session {
    /// Ends and detaches the calls that take too long. To be called every now and then.
    pub(crate) fn late(self: &Arc<Self>) -> Vec<Late> {
        let failed = |(failure, cancellation): (Failure, Bytes)| Late {
            answer: Some(LateAnswer { id: failure.id, message: failure.error, begun: None }),
            cancellation: Some(cancellation),
        };
        let mut late: Vec<Late> = self.overdue().into_iter().map(failed).collect();
        late.extend(self.detached().into_iter().map(|answer| Late { answer: Some(answer), cancellation: None }));
        let canceled = |cancellation| Late { answer: None, cancellation: Some(cancellation) };
        late.extend(self.cancellations().into_iter().map(canceled));
        late
    }

    /// Whether the client of a request may follow jobs as tasks.
    pub(super) fn has_tasks(&self, call: &Call) -> bool {
        let config = &self.rules.config;
        self.rules.announces() && (config.has_jobs() || (call.knows_tasks && config.has_tasks()))
    }

    /// Whether jobs wait for the server.
    pub(crate) fn has_jobs(&self) -> bool {
        self.state().calls.values().flatten().any(|call| call.job.is_some())
    }

    /// How a call becomes a job; `None` if it does not.
    pub(super) fn detachment(&self, call: &Call, message: &Message) -> Option<Detachment> {
        let RequestKind::Tool(tool) = &call.kind else { return None };
        let tool_settings = self.rules.config.gateway_tool(&tool.name);
        // What is fetched from a job has no outputs for programs.
        let is_for_model = call.outputs.as_ref().is_none_or(|outputs| outputs.is_fallback());
        if tool_settings.job == Some(JobMode::Never) || !self.rules.announces() || !is_for_model {
            return None;
        }
        let form = JobForm::of(message, call);
        let of_server = || self.rules.caches.runs_tasks(&self.owner.tenant, &tool.name);
        let after = match (tool_settings.job, form) {
            // Where the server runs tasks, the task is the server's.
            (_, JobForm::AskedTask) if of_server() == Some(true) => return None,
            // Nobody chose this, so it is only for clients that can use it, and for tools known to run no tasks.
            (None, JobForm::AskedTask) if !call.knows_tasks || of_server().is_none() => return None,
            (None, JobForm::Descriptor) => return None,
            (_, JobForm::AskedTask) | (Some(JobMode::Always), JobForm::Descriptor) => Duration::ZERO,
            (Some(JobMode::Always), JobForm::Task) => task::SERVER_TASK_WAIT,
            // Without its tool, a model cannot follow a job.
            (_, JobForm::Descriptor) if self.rules.has_name_conflict() => return None,
            (_, JobForm::Descriptor | JobForm::Task) => tool_settings.wait(),
        };
        let parts = self.parts_of(tool, call.begun)?;
        let growing = self.growing_of(tool, message);
        Some(Detachment { after, form, asks_task: false, parts, parts_token: None, growing, message: None })
    }

    /// The message of a call for the server: where the call may become a job, it asks for a task, or for progress and parts of
    /// the result.
    pub(super) fn detachable(&self, message: Message, id: &Id, call: &mut Call) -> Message {
        let Some(form) = call.detachment.as_ref().map(|detachment| detachment.form) else { return message };
        let message = if form == JobForm::AskedTask { task::without_task(&message) } else { message };
        let asks_task = form == JobForm::Descriptor && self.asks_task(call, &message);
        let asking = if asks_task { server_task::asking(&message, call.modern) } else { None };
        let is_task = asking.is_some();
        let message = asking.unwrap_or(message);
        let asks_progress = self.collects(call, &message).is_none();
        let message = if asks_progress { with_progress(message, id, call) } else { message };
        let Some(detachment) = &mut call.detachment else { return message };
        detachment.asks_task = is_task;
        if asks_progress { parts::with_parts(message, id, detachment) } else { message }
    }

    /// Whether the gateway asks the server for a task, for a client that cannot use one.
    fn asks_task(&self, call: &Call, message: &Message) -> bool {
        let RequestKind::Tool(tool) = &call.kind else { return false };
        let tenant = &self.owner.tenant;
        let is_offered = || call.modern || self.rules.caches.requires_tasks(tenant, &tool.name);
        // A task of the server is a job at once, so there has to be room for one.
        let has_room = || self.rules.jobs.all_running(tenant).len() < self.rules.config.gateway.jobs_max.get() as usize;
        self.collects(call, message).is_none() && is_offered() && has_room()
    }

    /// When the call with this id becomes a job; `None` if it does not.
    pub(crate) fn detaches_at(&self, id: &Id) -> Option<Instant> {
        let state = self.state();
        let call = state.calls.get(id)?.front()?;
        Some(call.begun + call.detachment.as_ref()?.after)
    }

    /// Whether the call with this id is to become a job at once.
    pub(crate) fn is_due(&self, id: &Id) -> bool {
        self.detaches_at(id).is_some_and(|at| at <= Instant::now())
    }

    /// Makes a job of the call with this id, if its time has come.
    pub(crate) fn detach(self: &Arc<Self>, id: &Id) -> Option<LateAnswer> {
        let mut state = self.state();
        let answer = self.detached_call(id, state.calls.get_mut(id)?.front_mut()?)?;
        state.pending = state.pending.saturating_sub(1);
        Some(answer)
    }

    /// Makes jobs of the calls whose time has come.
    fn detached(self: &Arc<Self>) -> Vec<LateAnswer> {
        let mut state = self.state();
        let calls = state.calls.iter_mut().flat_map(|(id, calls)| calls.iter_mut().map(move |call| (id, call)));
        let detached: Vec<LateAnswer> = calls.filter_map(|(id, call)| self.detached_call(id, call)).collect();
        // Nobody waits for these requests any more.
        state.pending = state.pending.saturating_sub(detached.len());
        detached
    }

    fn detached_call(self: &Arc<Self>, id: &Id, call: &mut Call) -> Option<LateAnswer> {
        if !call.is_due() {
            return None;
        }
        let form = call.detachment.as_ref()?.form;
        let job = self.begin_job(call, self.rules.config.gateway.jobs_max)?;
        let message = self.begun(id, call, &job);
        call.job = Some(Arc::clone(&job));
        Some(LateAnswer { id: id.clone(), message, begun: Some((Arc::clone(self), job, form)) })
    }

    /// Cancels jobs, and ends those that take too long. Returns the cancellations for the server.
    pub(crate) fn cancellations(&self) -> Vec<Bytes> {
        let job = |(id, call): (&Id, &Call)| Some((id.clone(), call.cancelable()?));
        let jobs: Vec<(Id, Arc<RunningJob>)> = {
            let state = self.state();
            let calls = state.calls.iter().flat_map(|(id, calls)| calls.iter().map(move |call| (id, call)));
            calls.filter_map(job).collect()
        };
        jobs.iter().filter_map(|(id, job)| self.cancel_if_due(id, job)).collect()
    }

    /// As [`Session::cancellations`], for the job of one call.
    pub(crate) fn cancellation_of(&self, id: &Id) -> Option<Bytes> {
        let (id, job) = {
            let state = self.state();
            let id = state.pending_id(id)?;
            let job = state.calls.get(&id)?.front()?.cancelable()?;
            (id, job)
        };
        self.cancel_if_due(&id, &job)
    }

    fn cancel_if_due(&self, id: &Id, job: &RunningJob) -> Option<Bytes> {
        if job.take_cancellation() {
            return Some(cancellation(id, "the client canceled the job"));
        }
        let seconds = self.rules.config.gateway.job_seconds_max.get();
        // The failure of a job is not for the client.
        if job.is_given_up() {
            drop(self.fail(id, "the server has not answered the cancellation"));
        } else if !job.is_canceled() && job.age() > Duration::from_secs(seconds) {
            let reason = format!("it took longer than {seconds} seconds (gateway.job-seconds-max)");
            drop(self.fail(id, &reason));
            return Some(cancellation(id, &reason));
        }
        None
    }

    /// Whether a job runs under this id.
    pub(crate) fn job_of(&self, id: &Id) -> Option<Arc<RunningJob>> {
        let state = self.state();
        state.calls.get(&state.pending_id(id)?)?.front()?.job.clone()
    }

    /// Begins the job of a call that the server has answered, if the call is to be one.
    pub(super) fn begin_answered(self: &Arc<Self>, call: &Call, answer: &Message) -> Option<Arc<RunningJob>> {
        let Detachment { after, form, asks_task, .. } = call.detachment.as_ref()?;
        let is_task = *asks_task && ServerTask::created(answer, call).is_some();
        if !after.is_zero() && !is_task {
            return None;
        }
        // A client that asked for a task reads nothing else, and this job ends at once; the task of the server is there.
        let is_needed = is_task || *form == JobForm::AskedTask;
        let max = if is_needed { NonZeroU32::MAX } else { self.rules.config.gateway.jobs_max };
        self.begin_job(call, max)
    }

    /// Begins the job of a call; `None` if the tenant has `max` of them.
    fn begin_job(self: &Arc<Self>, call: &Call, max: NonZeroU32) -> Option<Arc<RunningJob>> {
        let RequestKind::Tool(tool) = &call.kind else { return None };
        let name = name_of(&tool.name).to_owned();
        let job = JobCall { tenant: self.owner.tenant.clone(), tool: name, arguments: tool.query.clone() };
        let job = self.rules.jobs.begin(job, Arc::clone(&call.detachment.as_ref()?.parts), max)?;
        let collected = || call.collect.as_ref().and_then(|collection| collection.progress());
        if let Some(progress) = call.reported.clone().or_else(collected) {
            job.report(progress);
        }
        self.follow_resource(call, &job);
        Some(job)
    }

    /// The response that the client gets in place of the result.
    fn begun(&self, id: &Id, call: &Call, job: &Arc<RunningJob>) -> Bytes {
        let form = call.detachment.as_ref().map(|detachment| detachment.form).unwrap_or_default();
        call.shaped(mcp::response(
            id,
            &match form {
                JobForm::Descriptor => self.descriptor(call, job),
                JobForm::AskedTask | JobForm::Task => task::created(self, call, job),
            },
        ))
    }

    /// A tool result that describes a job, as JSON.
    fn descriptor(&self, call: &Call, job: &RunningJob) -> String {
        let descriptor = Status::descriptor(job).json();
        let (tenant, tool) = (&job.call.tenant, &job.call.tool);
        let more = match self.rules.config.gateway_tool(tool).schema {
            SchemaStrategy::Rewrite | SchemaStrategy::Strip => format!(r#","structuredContent":{descriptor}"#),
            SchemaStrategy::Shape if self.rules.caches.output_schema(tenant, tool).is_none() => String::new(),
            // A result without the structured content that the schema asks for has to be an error.
            SchemaStrategy::Shape | SchemaStrategy::Block => r#","isError":true"#.to_owned(),
        };
        let result = format!(r#"{{"content":[{}]{more}}}"#, mcp::text_block(&descriptor));
        mcp::with_result_type(result, call.modern)
    }

    /// Keeps the answer of the server to a job. If the call has not been answered yet, its client gets the descriptor.
    pub(super) fn job_answer(
        self: &Arc<Self>,
        message: Message,
        call: Call,
        running: Arc<RunningJob>,
        is_answered: bool,
    ) -> Filtering {
        if !running.is_canceled() && continued::goes_on(&message, &call) {
            return self.continue_job(message, call, running, is_answered);
        }
        let (session, bytes, id) = (Arc::clone(self), message.bytes().clone(), message.id());
        let guard = EndGuard { session: Arc::clone(self), job: Arc::clone(&running), has_ended: false };
        let job = Job::new(async move {
            let outcome = match message.result() {
                Some(_) if running.is_canceled() => Outcome::Done(Bytes::new()),
                Some(_) => outcome_of(&Message::read(session.filter(message, &call).await)),
                None => outcome_of(&message),
            };
            // Writing the record blocks.
            pause().await;
            guard.end(outcome);
            match id.filter(|_| !is_answered) {
                Some(id) => FromServer::Pass(session.begun(&id, &call, &running)),
                None => FromServer::Nothing,
            }
        });
        Filtering { message: bytes, job, is_answered }
    }

    /// Ends a job, on a thread that may block.
    pub(super) fn end_job(&self, job: &Arc<RunningJob>, outcome: Outcome) {
        let (rules, job) = (Arc::clone(&self.rules), Arc::clone(job));
        self.rules.workers.run(move |_| {
            if let Ok(store) = &rules.filter.store {
                rules.jobs.end(store, &job, outcome, rules.config.gateway.jobs_kept);
            }
        });
    }
}

/// The name of a tool as the record of a job has it.
fn name_of(tool: &str) -> &str {
    tool.get(..tool.floor_char_boundary(TOOL_BYTES_MAX)).unwrap_or_default()
}

/// Asks the server for progress in place of the client, if that has not asked.
pub(super) fn with_progress(message: Message, id: &Id, call: &mut Call) -> Message {
    let Some(params) = message.value(&["params"]).filter(|_| call.progress.is_none()) else { return message };
    let token = progress_token(id);
    let params = mcp::with_metadata(&params, "progressToken", token.json());
    (call.progress, call.has_own_token) = (Some(token), true);
    Message::read(message.with_bytes(&["params"], &params))
}

/// The gateway's progress token for a request. Where the id is the gateway's own, messages are matched by that.
fn progress_token(id: &Id) -> Id {
    if id.json().starts_with(OWN_ID) { id.clone() } else { Id::own(&format!("lro-{}", id.json())) }
}

/// Ends a job whose answer is being filtered, also when that fails.
struct EndGuard {
    session: Arc<Session>,
    job: Arc<RunningJob>,
    has_ended: bool,
}

impl EndGuard {
    /// Ends the job. Blocks.
    fn end(mut self, outcome: Outcome) {
        self.has_ended = true;
        let rules = &self.session.rules;
        if let Ok(store) = &rules.filter.store {
            rules.jobs.end(store, &self.job, outcome, rules.config.gateway.jobs_kept);
        }
    }
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        if !self.has_ended {
            let reason = "its result could not be filtered, see the log of the gateway";
            self.session.end_job(&self.job, Outcome::Failed(reason.to_owned()));
        }
    }
}

/// Whether a response asks the client for input, as from 2026-07-28 on.
pub(in crate::session) fn asks_for_input(response: &Message) -> bool {
    response.value(&RESULT_TYPE).is_some_and(|kind| kind == INPUT_REQUIRED)
}

/// How a call ended whose response is this.
fn outcome_of(response: &Message) -> Outcome {
    match response.result() {
        Some(result) => {
            // The one who fetches it may speak another revision.
            let result = match response.value(&RESULT_TYPE).is_some_and(|kind| kind == COMPLETE) {
                true => Message::read(response.without(&RESULT_TYPE)).result().unwrap_or(result),
                false => result,
            };
            // Copied, so that the rest of the message is freed.
            Outcome::Done(Bytes::copy_from_slice(&result))
        }
        None => {
            let text = response.value(&["error", "message"]);
            let text = text.and_then(|text| serde_json::from_slice::<String>(&text).ok()).unwrap_or_default();
            let code = response.error_code().map(|code| format!(" {code}")).unwrap_or_default();
            Outcome::Failed(format!("the server answered with the error{code}: {text}"))
        }
    }
}
