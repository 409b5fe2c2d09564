//! Runs one tool result through one policy: inspects it, writes and publishes an offload, or falls back to the failure
//! mode.

mod convert;
mod documents;
mod error;
mod trial;

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use lro_contract::manifest::{check_origins, with_integrity};
use serde_json::value::RawValue;
use tracing::field::Empty;
use tracing::{Instrument as _, Span};

use self::convert::check_plan;
pub use self::error::FilterError;
use crate::SPANS;
use crate::documents::Documents;
use crate::faults::{caught, caught_while};
use crate::job::{self, INLINE_BYTES, Job};
use crate::policy::{Admitted, Policy, Slot, SlotError};
use crate::sandbox::types::{self, Abilities, PlannedPart};
use crate::sandbox::{Change, Cost, Limits, OutputDirectory, Payload, Plan, Verdict, Watch, Written};
use crate::settings::{AfterFailure, DocumentMode, FailureMode, PolicySettings, Size};
use crate::store::{
    Digest, Early, FileRecord, Fsync, Offload, OffloadRecord, Staging, Store, StoreError, Ulid, rfc3339,
};

/// Added to the time limits of both calls before an asynchronous caller stops waiting for them.
const GRACE: Duration = Duration::from_secs(5);

/// Length at which names in the log are truncated, in bytes.
const LOGGED_NAME_BYTES_MAX: usize = 128;

/// The tool call whose result is to be filtered.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tenant that owns the offload.
    pub tenant: String,
    /// Session of the client, any text.
    pub session: Option<String>,
    /// Name of the tool.
    pub tool: String,
    /// The query of the call; by convention its arguments as compact JSON.
    pub query: Option<String>,
    /// Whether the tool reported an error.
    pub is_error: bool,
    /// JSON Schema of the tool's arguments as JSON text, if known.
    pub input_schema: Option<String>,
    /// Tools available to the reader of the descriptor.
    pub abilities: Abilities,
    /// The largest reply that the reader accepts, if known. The policy gets it; the caller enforces it.
    pub reader_limit: Option<Size>,
    /// The longest descriptor that the reader surely shows, in characters, if known. The policy gets it as its limit if that
    /// is higher; one that is longer all the same is left to the caller.
    pub descriptor_room: Option<u32>,
    /// The effective settings of this tool.
    pub settings: Arc<PolicySettings>,
    /// Age at which the offload expires, in whole seconds. `None`: that of the store.
    pub time_to_live: Option<Duration>,
    /// Id of the offload. `None`: a new one.
    pub handle: Option<Ulid>,
}

impl Request {
    /// Creates a request with the default settings, for a reader with a shell on this machine.
    pub fn new(tenant: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            settings: Arc::default(),
            tenant: tenant.into(),
            session: None,
            tool: tool.into(),
            query: None,
            is_error: false,
            input_schema: None,
            abilities: Abilities::SHELL,
            time_to_live: None,
            handle: None,
            reader_limit: None,
            descriptor_room: None,
        }
    }
}

/// What to do with the result.
#[derive(Debug)]
pub enum Outcome {
    /// Forward it unchanged.
    Pass,
    /// It is offloaded: forward the descriptor.
    Offload(Box<Offloaded>),
    /// Truncate it.
    Truncate {
        /// Size and suffix.
        truncation: Truncation,
        /// The reason, if the policy decided otherwise.
        warning: Option<String>,
    },
    /// Forward the advice as a tool error.
    Reject(String),
    /// Forward only this error: the failure mode is `closed`.
    Fail(String),
}

/// How to truncate a result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Maximum size of the reply.
    pub limit: Size,
    /// Text appended to the reply.
    pub suffix: String,
}

/// A result that was offloaded and published.
#[derive(Debug)]
pub struct Offloaded {
    /// The published directory and its files.
    pub offload: Offload,
    /// The descriptor that the model sees: a JSON object.
    pub descriptor: String,
    /// Whether each part stays in the reply.
    pub kept: Vec<bool>,
    /// Estimated tokens of the offloaded parts.
    pub offloaded_tokens: u64,
    /// Notes of the policy.
    pub notes: Vec<String>,
}

/// An outcome, what it cost and what failed.
#[derive(Debug)]
pub struct Decision {
    /// What to do with the result.
    pub outcome: Outcome,
    /// Cost of `inspect-result`, if it returned.
    pub inspect: Option<Cost>,
    /// Cost of `write-sections`, if it was called and returned.
    pub write: Option<Cost>,
    /// SHA-256 of the policy that decided; `None` if there was none to ask.
    pub policy: Option<Digest>,
    /// The failure, if the failure mode determined the outcome.
    pub failure: Option<FilterError>,
}

impl Decision {
    /// Adds the cost of an earlier decision about the same result.
    pub fn add_costs_of(&mut self, earlier: &Self) {
        for (cost, more) in [(&mut self.inspect, &earlier.inspect), (&mut self.write, &earlier.write)] {
            let Some(more) = more else { continue };
            let cost = cost.get_or_insert_default();
            cost.time += more.time;
            cost.memory_bytes = cost.memory_bytes.max(more.memory_bytes);
            cost.written_bytes += more.written_bytes;
        }
    }
}

impl Outcome {
    /// Its name in logs, metrics and reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Offload(_) => "offload",
            Self::Truncate { .. } => "truncate",
            Self::Reject(_) => "reject",
            Self::Fail(_) => "fail",
        }
    }

    /// What becomes of a result after a failure.
    pub fn after_failure(after: AfterFailure, settings: &PolicySettings) -> Self {
        match after {
            AfterFailure::Pass => Self::Pass,
            AfterFailure::Fail(text) => Self::Fail(text),
            AfterFailure::Truncate(warning) => {
                let truncation =
                    Truncation { limit: settings.truncate_limit, suffix: settings.truncate_suffix.clone() };
                Self::Truncate { truncation, warning: Some(warning) }
            }
        }
    }
}

/// The name of a verdict in metrics and reports: that of the [`Outcome`] it asks for.
pub const fn verdict_name(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Pass => "pass",
        Verdict::Offload(_) => "offload",
        Verdict::Truncate(_) => "truncate",
        Verdict::Reject(_) => "reject",
    }
}

/// The slot of a policy, the store it writes to, and the limits of its calls. Clones share their state.
#[derive(Clone, Debug)]
pub struct Filter {
    /// The slot with the policy; `Policy` converts into one.
    pub slot: Arc<Slot>,
    /// Where offloads are written, or why the store cannot be used. The error only matters when a result is to be
    /// written: the failure mode then decides.
    pub store: Result<Store, Arc<StoreError>>,
    /// Limits of each call.
    pub limits: Limits,
    /// What to do when the policy fails.
    pub failure: FailureMode,
    /// Reads documents of results that are offloaded, so that their texts are written beside their bytes. `None`: only their
    /// bytes are.
    pub documents: Option<Documents>,
}

/// The output of a policy, not yet published.
struct Output {
    staging: Staging,
    record: OffloadRecord,
    offloaded_tokens: u64,
    notes: Vec<String>,
    cost: Cost,
}

/// A policy at work on a result: `call` is what it is told about the request, and `id` that of the offload.
#[derive(Clone, Copy)]
struct Running<'a> {
    filter: &'a Filter,
    policy: &'a Policy,
    request: &'a Request,
    call: &'a types::Call,
    id: Ulid,
}

/// Why a result was not filtered, and whether the policy had decided to offload it by then.
struct Failed {
    wrote: bool,
    error: FilterError,
}

impl From<FilterError> for Failed {
    fn from(error: FilterError) -> Self {
        Self { wrote: false, error }
    }
}

impl Filter {
    /// The filter for a tool with this setting.
    #[must_use]
    pub fn for_documents(self, mode: DocumentMode) -> Self {
        match mode {
            DocumentMode::Text => self,
            DocumentMode::Keep => Self { documents: None, ..self },
        }
    }

    /// Runs the policy on a result and carries out its verdict. Blocks; asynchronous callers use
    /// [`Filter::apply_async`], callers with their own threads [`Filter::job`]. A panic of the host is reported as
    /// [`FilterError::Panic`].
    pub fn apply(&self, request: &Request, payload: &Arc<Payload>) -> Decision {
        job::finish(self.apply_in_job(request, payload))
    }

    /// As [`Filter::apply`], for tokio. A small result that passes stays on this thread; anything else, and a policy
    /// that runs longer than a tick, moves to a blocking thread. After the time limits of all calls the call is
    /// abandoned, and the failure mode decides. Dropping the future stops the policy.
    pub async fn apply_async(&self, request: Request, payload: Arc<Payload>) -> Decision {
        let mut job = self.job(request.clone(), Arc::clone(&payload));
        if payload.size() <= INLINE_BYTES as u64
            && let Some(decision) = job.begin()
        {
            return decision;
        }
        let Limits { wall_time, wait, .. } = self.limits;
        // To inspect and to write, and once more with the texts of documents.
        let two_calls = (wait + wall_time) * 2;
        let documents = self.documents.as_ref().map(|documents| documents.time_max() + two_calls);
        let timeout = self.slot.wait() + two_calls + documents.unwrap_or_default() + GRACE;
        let done = tokio::time::timeout(timeout, job.finish_on_tokio()).await;
        done.ok().flatten().unwrap_or_else(|| {
            let error = FilterError::Lost(timeout);
            let outcome = self.fail(&request, false, &error);
            Decision { outcome, inspect: None, write: None, policy: None, failure: Some(error) }
        })
    }

    /// As [`Filter::apply`], as a job.
    pub fn job(&self, request: Request, payload: Arc<Payload>) -> Job<Decision> {
        let filter = self.clone();
        Job::new(async move { filter.apply_in_job(&request, &payload).await })
    }

    /// As [`Filter::apply`], for use inside a [`Job`].
    pub async fn apply_in_job(&self, request: &Request, payload: &Arc<Payload>) -> Decision {
        let mut decision = Decision { outcome: Outcome::Pass, inspect: None, write: None, policy: None, failure: None };
        if let Err(Failed { wrote, error }) = self.decide(request, payload, &mut decision).await {
            let (tenant, tool, kind) = (&request.tenant, &request.tool, error.kind());
            match wrote {
                // Logged once, when it was parked.
                _ if matches!(error, FilterError::Slot(SlotError::Parked(_))) => {
                    tracing::debug!(tenant, tool, kind, %error, "policy not called");
                }
                true => tracing::warn!(tenant, tool, kind, %error, "write failed"),
                false => tracing::warn!(tenant, tool, kind, %error, "policy failed"),
            }
            decision.outcome = self.fail(request, wrote, &error);
            decision.failure = Some(error);
        }
        log(request, payload, &decision);
        decision
    }

    /// Prepares an instance for the next result, so that a small one need not wait for it. Call it after sending an
    /// answer. Neither blocks nor takes longer than a tick.
    pub fn restock(&self) {
        if let Some(version) = self.slot.current() {
            // After a panic nothing is in stock, and the next call creates its own instance.
            let _ = caught(|| version.policy.prepared().restock(&self.limits));
        }
    }

    /// Returns the policy's verdict without carrying it out. Blocks.
    ///
    /// # Errors
    /// When the policy fails.
    pub fn inspect(&self, request: &Request, payload: &Arc<Payload>) -> Result<(Verdict, Cost), FilterError> {
        job::finish(self.inspect_in_job(request, payload))
    }

    /// As [`Filter::inspect`], for use inside a [`Job`].
    pub async fn inspect_in_job(
        &self,
        request: &Request,
        payload: &Arc<Payload>,
    ) -> Result<(Verdict, Cost), FilterError> {
        let call = self.call(request, Ulid::generate().map_err(FilterError::Random)?);
        let admitted = self.slot.admit().await?;
        let inspecting = admitted.policy().prepared().inspect_async(&self.limits, &call, payload);
        let inspected = unless_panic(async { Ok(inspecting.await?) }).await;
        settle(&admitted, &request.tenant, inspected.as_ref().err());
        inspected
    }

    /// Has the policy decide, and carries that out with the same version of it.
    async fn decide(&self, request: &Request, payload: &Arc<Payload>, decision: &mut Decision) -> Result<(), Failed> {
        let id = request.handle.map_or_else(Ulid::generate, Ok);
        let id = id.map_err(FilterError::Random)?;
        let admitted = self.slot.admit().await.map_err(FilterError::from)?;
        decision.policy = Some(*admitted.policy().digest());
        let call = self.call(request, id);
        let (own_parts, mut payload) = (payload.parts().len(), Arc::clone(payload));
        let running = Running { filter: self, policy: admitted.policy(), request, call: &call, id };
        let done = running.carry_out(&mut payload, decision).await;
        let failure = done.as_ref().err().map(|failed| &failed.error);
        settle(&admitted, &request.tenant, failure);
        if let Some(trial) = self.slot.trial().as_ref()
            && let Some(decided) = trial::decided(&decision.outcome, failure)
        {
            let (filter, request, tool) = (self.clone(), request.clone(), request.tool.clone());
            trial.offer(&tool, move |policy| {
                let running = Running { filter: &filter, policy, request: &request, call: &call, id };
                trial::compare(&running, (&payload, own_parts), &decided)
            });
        }
        done
    }

    fn call(&self, request: &Request, id: Ulid) -> types::Call {
        let shown_path = self.store.as_ref().map(|store| store.shown_path(&request.tenant, id)).unwrap_or_default();
        let mut settings: types::Settings = request.settings.as_ref().into();
        settings.descriptor_limit = settings.descriptor_limit.min(request.descriptor_room.unwrap_or(u32::MAX));
        types::Call {
            id: id.to_string(),
            time: rfc3339(request.handle.map_or_else(|| id.time(), |_| SystemTime::now())),
            tenant: request.tenant.clone(),
            session: request.session.clone(),
            tool: request.tool.clone(),
            query: request.query.clone(),
            input_schema: request.input_schema.clone(),
            is_error: request.is_error,
            shown_path: shown_path.to_string_lossy().into_owned(),
            reader: types::Reader { abilities: request.abilities, limit: request.reader_limit.map(Into::into) },
            settings,
        }
    }

    fn fail(&self, request: &Request, wrote: bool, error: &FilterError) -> Outcome {
        let after = self.failure.after(&error.for_client(), wrote, error.is_busy());
        Outcome::after_failure(after, &request.settings)
    }
}

impl Running<'_> {
    /// Asks the policy for its verdict and carries it out. `payload` gets the texts of documents if the result is offloaded.
    async fn carry_out(&self, payload: &mut Arc<Payload>, decision: &mut Decision) -> Result<(), Failed> {
        let Self { filter, policy, call, id, .. } = *self;
        let span = tracing::info_span!(target: SPANS, "policy", "lro.policy" = %policy.digest(), "error.type" = Empty, "otel.status_code" = Empty);
        let inspecting = policy.prepared().inspect_async(&filter.limits, call, payload);
        let inspected = in_span(span, pin!(unless_panic(async { Ok(inspecting.await?) }))).await;
        let (verdict, cost) = inspected?;
        decision.inspect = Some(cost);
        decision.outcome = match verdict {
            Verdict::Pass => Outcome::Pass,
            Verdict::Truncate(truncation) => Outcome::Truncate { truncation: truncation.into(), warning: None },
            Verdict::Reject(advice) => Outcome::Reject(advice),
            Verdict::Offload(plan) => {
                job::pause().await;
                let span = tracing::info_span!(target: SPANS, "write", "lro.handle" = %id, "error.type" = Empty, "otel.status_code" = Empty);
                let offloading = self.offload_with_documents(payload, &plan);
                let offloaded = in_span(span, pin!(unless_panic(offloading))).await;
                let (offloaded, cost) = offloaded.map_err(|error| Failed { wrote: true, error })?;
                decision.write = Some(cost);
                Outcome::Offload(Box::new(offloaded))
            }
        };
        Ok(())
    }

    async fn offload(&self, payload: &Arc<Payload>, plan: &Plan) -> Result<(Offloaded, Cost), FilterError> {
        let Self { filter, request, call, id, .. } = *self;
        check_plan(plan).map_err(FilterError::Answer)?;
        let staging = filter.store.as_ref().map_err(Arc::clone)?.stage(&request.tenant, id)?;
        let staging = match request.handle {
            Some(_) => staging.with_time_to_live_from_now(request.time_to_live),
            None => staging.with_time_to_live(request.time_to_live),
        };
        let Output { staging, record, offloaded_tokens, notes, cost } =
            self.write(payload, plan, staging.with_early_uploads()).await?;
        let shown = record.descriptor.clone();
        let offload = staging.publish(record)?;
        let descriptor = match call.settings.level {
            types::DescriptorLevel::Full => with_integrity(shown.get(), &offload.record().files),
            _ => shown.get().to_owned(),
        };
        let kept = plan.parts.iter().map(|part| matches!(part, PlannedPart::Keep)).collect();
        Ok((Offloaded { offload, descriptor, kept, offloaded_tokens, notes }, cost))
    }

    /// Calls `write-sections` on a staging directory and validates the answer.
    async fn write(&self, payload: &Arc<Payload>, plan: &Plan, staging: Staging) -> Result<Output, FilterError> {
        let Self { filter, policy, request, call, .. } = *self;
        let directory = OutputDirectory { path: staging.path(), write_back: staging.fsync() != Fsync::Never };
        let watch = staging.early().map(uploading);
        let writing = policy.prepared().write_async(&filter.limits, call, payload, plan, directory, watch);
        let (written, cost) = writing.await?;
        let Written { descriptor, digests } = written;
        let (offloaded_tokens, notes) = (descriptor.offloaded_tokens, descriptor.notes);
        if descriptor.content.chars().count() > request.settings.descriptor_limit as usize {
            return Err(FilterError::Answer("a descriptor over its limit".to_owned()));
        }
        let files = records(descriptor.files)?;
        let descriptor = RawValue::from_string(descriptor.content)
            .ok()
            // Also checks the nesting depth.
            .filter(|json| lro_json::members(json.get()).is_ok())
            .ok_or_else(|| FilterError::Answer("a descriptor that is not a JSON object".to_owned()))?;
        let record = OffloadRecord {
            tool: request.tool.clone(),
            session: request.session.clone(),
            created: call.time.clone(),
            descriptor,
            files,
        };
        Ok(Output { staging: staging.with_digests(digests), record, offloaded_tokens, notes, cost })
    }
}

/// Runs a step of a call, and turns a panic into an error.
async fn unless_panic<T>(step: impl Future<Output = Result<T, FilterError>>) -> Result<T, FilterError> {
    caught_while(step).await.unwrap_or_else(|panic| Err(FilterError::Panic(panic)))
}

/// Runs a step in its span, which notes the kind of an error. The step stays in place, as it is large.
async fn in_span<T>(
    span: Span,
    step: Pin<&mut impl Future<Output = Result<T, FilterError>>>,
) -> Result<T, FilterError> {
    let ended = step.instrument(span.clone()).await;
    ended.inspect_err(|error| {
        span.record("error.type", error.kind());
        span.record("otel.status_code", "error");
    })
}

/// Reports the result of a call to the breaker. Failures that are not the policy's fault do not count.
fn settle(admitted: &Admitted, tenant: &str, failure: Option<&FilterError>) {
    match failure {
        None => admitted.succeeded(tenant),
        Some(error) if error.is_fault_of_policy() => admitted.failed(tenant),
        Some(_) => {}
    }
}

/// Has files uploaded while they are written.
fn uploading(early: Arc<Early>) -> Watch {
    Arc::new(move |change| match change {
        Change::Written { name, offset, bytes } => early.written(name, offset, bytes),
        Change::Replaced => early.give_up(),
    })
}

/// Converts the file list of a policy into records of the store.
fn records(files: Vec<types::File>) -> Result<Vec<FileRecord>, FilterError> {
    let record = |file: types::File| {
        let name = file.name.clone();
        FileRecord::try_from(file).map_err(|error| FilterError::Answer(format!("`{name}`: {error}")))
    };
    let records: Vec<FileRecord> = files.into_iter().map(record).collect::<Result<_, _>>()?;
    check_origins(&records).map_err(FilterError::Answer)?;
    Ok(records)
}

/// Truncates a name for the log to [`LOGGED_NAME_BYTES_MAX`].
fn shortened(name: &str) -> &str {
    name.get(..name.floor_char_boundary(LOGGED_NAME_BYTES_MAX)).unwrap_or_default()
}

/// Logs one line for each result that did not pass: tool, size, limit, and the handle of an offload.
fn log(request: &Request, payload: &Payload, decision: &Decision) {
    let handle = match &decision.outcome {
        Outcome::Pass => return,
        Outcome::Offload(offloaded) => Some(tracing::field::display(offloaded.offload.id())),
        _ => None,
    };
    tracing::warn!(
        tenant = shortened(&request.tenant),
        tool = shortened(&request.tool),
        bytes = payload.size(),
        limit = request.settings.threshold.amount,
        unit = request.settings.threshold.unit.name(),
        verdict = decision.outcome.name(),
        handle,
        "large tool result"
    );
}
