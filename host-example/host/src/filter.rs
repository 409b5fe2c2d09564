//! One tool result through one policy: inspect, write, publish, or what the failure mode says.

mod convert;
mod trial;

use crate::faults::{caught, caught_while};
use crate::job::{self, INLINE_BYTES, Job};
use crate::policy::{Admitted, Policy, Slot, SlotError};
use crate::sandbox::types::{self, Abilities, PlannedPart};
use crate::sandbox::{CallError, Cost, Limits, OutputDirectory, Payload, Plan, Verdict, Written, one_line};
use crate::settings::{FailureMode, PolicySettings, Size, SizeUnit};
use crate::store::{FileRecord, Offload, OffloadRecord, Staging, Store, StoreError, Ulid, rfc3339};
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;

/// What is added to the time limits of both calls before a caller that waits asynchronously is answered without them.
const GRACE: Duration = Duration::from_secs(5);

/// Most bytes of what an error tells of a panic.
const PANIC_BYTES_MAX: usize = 500;

/// The call of a tool whose result is to be filtered.
#[derive(Clone, Debug)]
pub struct Request {
    /// Whose directory the files go to.
    pub tenant: String,
    /// The client's session, any text.
    pub session: Option<String>,
    /// Name of the tool.
    pub tool: String,
    /// What was asked; by convention the arguments as compact JSON.
    pub query: Option<String>,
    /// Whether the tool reported an error.
    pub is_error: bool,
    /// What the reader of the descriptor can use.
    pub abilities: Abilities,
    /// The settings in force for this tool.
    pub settings: Arc<PolicySettings>,
}

impl Request {
    /// A call with the default settings, for a reader with a shell on this machine.
    pub fn new(tenant: impl Into<String>, tool: impl Into<String>) -> Self {
        Self {
            settings: Arc::default(),
            tenant: tenant.into(),
            session: None,
            tool: tool.into(),
            query: None,
            is_error: false,
            abilities: Abilities::SHELL,
        }
    }
}

/// What becomes of the result.
#[derive(Debug)]
pub enum Outcome {
    /// It goes on unchanged.
    Pass,
    /// It is in files; the descriptor goes on.
    Offload(Box<Offloaded>),
    /// It is to be cut.
    Truncate {
        /// Size and suffix.
        truncation: Truncation,
        /// Why, when the policy had decided otherwise.
        warning: Option<String>,
    },
    /// The advice goes on as an error of the tool.
    Reject(String),
    /// The failure mode is `closed`: nothing goes on but this error.
    Fail(String),
}

/// How a result is cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Truncation {
    /// Size of the reply.
    pub limit: Size,
    /// Text after the cut.
    pub suffix: String,
}

/// A published result.
#[derive(Debug)]
pub struct Offloaded {
    /// The directory and its files.
    pub offload: Offload,
    /// What the model sees: a JSON object.
    pub descriptor: String,
    /// For each part, whether it stays in the reply.
    pub kept: Vec<bool>,
    /// Estimated tokens of what was written.
    pub offloaded_tokens: u64,
    /// The policy's notes.
    pub notes: Vec<String>,
}

/// An outcome and how it came about.
#[derive(Debug)]
pub struct Decision {
    /// What becomes of the result.
    pub outcome: Outcome,
    /// Cost of the first call, when it answered.
    pub inspect: Option<Cost>,
    /// Cost of the second call, when there was one and it answered.
    pub write: Option<Cost>,
    /// What failed, when the failure mode decided.
    pub failure: Option<FilterError>,
}

impl Decision {
    /// Adds what an earlier decision about the same result cost.
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

/// Why a policy's decision was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A call into the policy.
    #[error("the policy {0}")]
    Call(CallError),
    /// Opening the store, staging or publishing.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The policy's account of what it wrote makes no sense.
    #[error("the policy answered with {0}")]
    Answer(String),
    /// The system gave no random numbers for an id.
    #[error("no random numbers for an id")]
    Random(#[source] std::io::Error),
    /// The call was not let through to the policy.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The call did not come back.
    #[error("the policy did not come back within {} ms", .0.as_millis())]
    Lost(Duration),
    /// The host panicked during the call. It is over, with its instance, its place and its directory; other calls go on.
    #[error("the host panicked: {}", one_line(.0, PANIC_BYTES_MAX))]
    Panic(String),
}

impl FilterError {
    /// Its kind in one word, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Call(CallError::Deadline(_)) => "deadline",
            Self::Call(CallError::Memory(_)) => "memory",
            Self::Call(CallError::Table(_)) => "table",
            Self::Call(CallError::Instances(_)) => "instances",
            Self::Call(CallError::Fuel(_) | CallError::Uncounted) => "fuel",
            Self::Call(CallError::Stack) => "stack",
            Self::Call(CallError::Crossing(_)) => "crossing",
            Self::Call(CallError::Quota { .. }) => "quota",
            Self::Call(CallError::Busy(_)) => "busy",
            Self::Call(CallError::Trap(_)) => "trap",
            Self::Call(CallError::Policy(_)) => "refused",
            Self::Call(CallError::Output(_)) => "output",
            Self::Store(_) => "store",
            Self::Answer(_) => "answer",
            Self::Random(_) => "random",
            Self::Slot(SlotError::Absent(_)) => "absent",
            Self::Slot(SlotError::Busy(_)) => "busy",
            Self::Slot(SlotError::Parked(_)) => "parked",
            Self::Lost(_) => "lost",
            Self::Panic(_) => "panic",
        }
    }

    /// Whether the policy was not asked because too many calls run. That says nothing about the result, so it does not pass.
    fn is_busy(&self) -> bool {
        matches!(self, Self::Call(CallError::Busy(_)) | Self::Slot(SlotError::Busy(_)))
    }

    /// The error as clients are told it: nothing of where files lie on this machine, and nothing of the inside of the host.
    /// Its whole text is in the log.
    pub fn for_client(&self) -> String {
        match self {
            Self::Store(error) => error.for_client(),
            Self::Panic(_) => "the host panicked".to_owned(),
            error => error.to_string(),
        }
    }

    /// Whether the policy is to blame, whatever the result, its settings and the disk. Repeated, such a failure parks it.
    pub fn is_fault_of_policy(&self) -> bool {
        let is_call_at_fault = |error: &CallError| {
            use CallError::{Crossing, Deadline, Fuel, Instances, Memory, Stack, Table, Trap};
            matches!(error, Crossing(_) | Deadline(_) | Fuel(_) | Instances(_) | Memory(_) | Stack | Table(_) | Trap(_))
        };
        match self {
            Self::Call(error) => is_call_at_fault(error),
            Self::Answer(_) => true,
            _ => false,
        }
    }
}

impl From<StoreError> for FilterError {
    fn from(error: StoreError) -> Self {
        match error {
            // What lies in the directory is the policy's doing.
            StoreError::Unexpected { path, reason } => {
                // Where it lies concerns no client.
                let name = path.file_name().unwrap_or_default();
                Self::Answer(format!("a false account of its files: {name:?}: {reason}"))
            }
            error => Self::Store(Arc::new(error)),
        }
    }
}

impl From<CallError> for FilterError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

/// The slot of a policy, the store it writes to, and the bounds of its calls. A clone shares everything with its original.
#[derive(Clone, Debug)]
pub struct Filter {
    /// What decides; a policy alone becomes one by `into`.
    pub slot: Arc<Slot>,
    /// Where offloads go, or why there is no such place: that matters only once a result is to be written, and the
    /// failure mode decides then.
    pub store: Result<Store, Arc<StoreError>>,
    /// Bounds of each call.
    pub limits: Limits,
    /// What happens when the policy fails.
    pub failure: FailureMode,
}

/// What a policy wrote, not yet published.
struct Output {
    staging: Staging,
    record: OffloadRecord,
    offloaded_tokens: u64,
    notes: Vec<String>,
    cost: Cost,
}

impl Filter {
    /// Decides and carries out. Blocks: for asynchronous callers there is [`Filter::apply_async`], for those with threads of
    /// their own [`Filter::job`]. A panic of the host is a failure like others, [`FilterError::Panic`].
    pub fn apply(&self, request: &Request, payload: &Arc<Payload>) -> Decision {
        job::finish(self.applied(request, payload))
    }

    /// As [`Filter::apply`], for tokio. A small result that passes does not change threads; all else, and a policy that takes
    /// longer than a tick, goes to the threads for blocking work. A call that does not come back is given up after twice the
    /// times of a call, and the failure mode decides. Dropped, it ends the policy.
    pub async fn apply_async(&self, request: Request, payload: Arc<Payload>) -> Decision {
        let mut job = self.job(request.clone(), Arc::clone(&payload));
        if payload.size() <= INLINE_BYTES as u64
            && let Some(decision) = job.begin()
        {
            return decision;
        }
        let Limits { wall_time, wait, .. } = self.limits;
        let patience = self.slot.wait() + (wait + wall_time) * 2 + GRACE;
        let done = tokio::time::timeout(patience, job.finish_on_tokio()).await;
        done.ok().flatten().unwrap_or_else(|| {
            let error = FilterError::Lost(patience);
            let outcome = self.fail(&request, false, &error);
            Decision { outcome, inspect: None, write: None, failure: Some(error) }
        })
    }

    /// As [`Filter::apply`], as a job.
    pub fn job(&self, request: Request, payload: Arc<Payload>) -> Job<Decision> {
        let filter = self.clone();
        Job::new(async move { filter.applied(&request, &payload).await })
    }

    /// As [`Filter::apply`]. Keeps the contract of a [`Job`].
    pub async fn applied(&self, request: &Request, payload: &Arc<Payload>) -> Decision {
        let mut decision = Decision { outcome: Outcome::Pass, inspect: None, write: None, failure: None };
        if let Err((wrote, error)) = self.decide(request, payload, &mut decision).await {
            let (tenant, tool, kind) = (&request.tenant, &request.tool, error.kind());
            match wrote {
                // Told once, when it was parked.
                _ if matches!(error, FilterError::Slot(SlotError::Parked(_))) => {
                    tracing::debug!(tenant, tool, kind, %error, "policy not asked");
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

    /// Makes ready for the next result, after an answer was sent: a small one then waits for no instance. Neither blocks nor
    /// takes longer than a tick.
    pub fn restock(&self) {
        if let Some(version) = self.slot.current() {
            // After a panic there is nothing in stock, and the next call makes an instance of its own.
            let _ = caught(|| version.policy.prepared().restock(&self.limits));
        }
    }

    /// Asks for the verdict and does nothing about it. Blocks.
    ///
    /// # Errors
    /// When the policy fails.
    pub fn inspect(&self, request: &Request, payload: &Arc<Payload>) -> Result<(Verdict, Cost), FilterError> {
        job::finish(self.inspected(request, payload))
    }

    /// As [`Filter::inspect`]. Keeps the contract of a [`Job`].
    pub async fn inspected(&self, request: &Request, payload: &Arc<Payload>) -> Result<(Verdict, Cost), FilterError> {
        let call = self.call(request, Ulid::generate().map_err(FilterError::Random)?);
        let admitted = self.slot.admit().await?;
        let inspecting = admitted.policy().prepared().inspect_async(&self.limits, &call, payload);
        let inspected = unless_panic(async { Ok(inspecting.await?) }).await;
        settle(&admitted, &request.tenant, inspected.as_ref().err());
        inspected
    }

    /// Errors carry whether the policy had already decided to offload. Both calls go to the same version of the policy.
    async fn decide(
        &self,
        request: &Request,
        payload: &Arc<Payload>,
        decision: &mut Decision,
    ) -> Result<(), (bool, FilterError)> {
        let id = Ulid::generate().map_err(|error| (false, FilterError::Random(error)))?;
        let admitted = self.slot.admit().await.map_err(|error| (false, error.into()))?;
        let call = self.call(request, id);
        let done = self.carry_out(admitted.policy(), request, &call, id, payload, decision).await;
        let failure = done.as_ref().err().map(|(_, error)| error);
        settle(&admitted, &request.tenant, failure);
        if let Some(running) = self.slot.trial().as_ref()
            && let Some(decided) = trial::decided(&decision.outcome, failure)
        {
            let (filter, request, payload) = (self.clone(), request.clone(), Arc::clone(payload));
            let tool = request.tool.clone();
            running.offer(&tool, move |policy| trial::compare(&filter, policy, &request, &call, &payload, &decided));
        }
        done
    }

    async fn carry_out(
        &self,
        policy: &Policy,
        request: &Request,
        call: &types::Call,
        id: Ulid,
        payload: &Arc<Payload>,
        decision: &mut Decision,
    ) -> Result<(), (bool, FilterError)> {
        let inspecting = policy.prepared().inspect_async(&self.limits, call, payload);
        let inspected = unless_panic(async { Ok(inspecting.await?) }).await;
        let (verdict, cost) = inspected.map_err(|error| (false, error))?;
        decision.inspect = Some(cost);
        decision.outcome = match verdict {
            Verdict::Pass => Outcome::Pass,
            Verdict::Truncate(truncation) => Outcome::Truncate { truncation: truncation.into(), warning: None },
            Verdict::Reject(advice) => Outcome::Reject(advice),
            Verdict::Offload(plan) => {
                job::pause().await;
                let offloaded = unless_panic(self.offload(policy, request, call, id, payload, &plan)).await;
                let (offloaded, cost) = offloaded.map_err(|error| (true, error))?;
                decision.write = Some(cost);
                Outcome::Offload(Box::new(offloaded))
            }
        };
        Ok(())
    }

    async fn offload(
        &self,
        policy: &Policy,
        request: &Request,
        call: &types::Call,
        id: Ulid,
        payload: &Arc<Payload>,
        plan: &Plan,
    ) -> Result<(Offloaded, Cost), FilterError> {
        let staging = self.store.as_ref().map_err(Arc::clone)?.stage(&request.tenant, id)?;
        let Output { staging, record, offloaded_tokens, notes, cost } =
            self.write(policy, request, call, payload, plan, staging).await?;
        let shown = record.descriptor.clone();
        let offload = staging.publish(record)?;
        let descriptor = match call.settings.level {
            types::DescriptorLevel::Full => with_integrity(shown.get(), &offload.record().files),
            _ => shown.get().to_owned(),
        };
        let kept = plan.parts.iter().map(|part| matches!(part, PlannedPart::Keep)).collect();
        Ok((Offloaded { offload, descriptor, kept, offloaded_tokens, notes }, cost))
    }

    /// Has a policy write to a directory, and takes its account of it.
    async fn write(
        &self,
        policy: &Policy,
        request: &Request,
        call: &types::Call,
        payload: &Arc<Payload>,
        plan: &Plan,
        staging: Staging,
    ) -> Result<Output, FilterError> {
        let directory = OutputDirectory { path: staging.path(), write_back: staging.is_durable() };
        let (written, cost) = policy.prepared().write_async(&self.limits, call, payload, plan, directory).await?;
        let Written { descriptor, digests } = written;
        let (offloaded_tokens, notes) = (descriptor.offloaded_tokens, descriptor.notes);
        if descriptor.content.chars().count() > call.settings.descriptor_limit as usize {
            return Err(FilterError::Answer("a descriptor over its limit".to_owned()));
        }
        let files = records(descriptor.files)?;
        let descriptor = RawValue::from_string(descriptor.content)
            .ok()
            // Not nested more deeply than a result may be.
            .filter(|json| lro_jsonl::members(json.get()).is_ok())
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

    fn call(&self, request: &Request, id: Ulid) -> types::Call {
        let shown_path = self.store.as_ref().map(|store| store.shown_path(&request.tenant, id)).unwrap_or_default();
        types::Call {
            id: id.to_string(),
            time: rfc3339(id.time()),
            tenant: request.tenant.clone(),
            session: request.session.clone(),
            tool: request.tool.clone(),
            query: request.query.clone(),
            is_error: request.is_error,
            shown_path: shown_path.to_string_lossy().into_owned(),
            abilities: request.abilities,
            settings: request.settings.as_ref().into(),
        }
    }

    fn fail(&self, request: &Request, wrote: bool, error: &FilterError) -> Outcome {
        match self.failure {
            FailureMode::Closed => Outcome::Fail(format!("the result could not be filtered: {}", error.for_client())),
            FailureMode::Open if !wrote && !error.is_busy() => Outcome::Pass,
            FailureMode::Open | FailureMode::Truncate => {
                let missing = if error.is_busy() { "looked at" } else { "written to files" };
                let error = error.for_client();
                Outcome::Truncate {
                    truncation: Truncation {
                        limit: request.settings.truncate_limit,
                        suffix: request.settings.truncate_suffix.clone(),
                    },
                    warning: Some(format!("The result could not be {missing} ({error}), so a part of it follows.")),
                }
            }
        }
    }
}

/// What a step of a call gives, a panic being one of its failures.
async fn unless_panic<T>(step: impl Future<Output = Result<T, FilterError>>) -> Result<T, FilterError> {
    caught_while(step).await.unwrap_or_else(|panic| Err(FilterError::Panic(panic)))
}

/// Tells the breaker how a call went. What is nobody's fault tells nothing about the policy.
fn settle(admitted: &Admitted, tenant: &str, failure: Option<&FilterError>) {
    match failure {
        None => admitted.succeeded(tenant),
        Some(error) if error.is_fault_of_policy() => admitted.failed(tenant),
        Some(_) => {}
    }
}

/// The policy's account of its files, in the terms of the store.
fn records(files: Vec<types::File>) -> Result<Vec<FileRecord>, FilterError> {
    let record = |file: types::File| {
        let name = file.name.clone();
        FileRecord::try_from(file).map_err(|wrong| FilterError::Answer(format!("`{name}`: {wrong}")))
    };
    files.into_iter().map(record).collect()
}

/// A descriptor with size and digest of each file as its last member.
fn with_integrity(descriptor: &str, files: &[FileRecord]) -> String {
    let entry = |file: &FileRecord| {
        let value = serde_json::json!({ "bytes": file.bytes, "sha256": file.sha256, "digest_from": file.digest_from });
        (file.name.clone(), value)
    };
    let integrity: serde_json::Map<String, serde_json::Value> = files.iter().map(entry).collect();
    let members = descriptor.trim_end().strip_suffix('}').unwrap_or(descriptor);
    format!("{members},\"integrity\":{}}}", serde_json::Value::Object(integrity))
}

/// One line for each result that did not pass: tool, size and limit, and the handle of an offload.
fn log(request: &Request, payload: &Payload, decision: &Decision) {
    let verdict = match &decision.outcome {
        Outcome::Pass => return,
        Outcome::Offload(_) => "offload",
        Outcome::Truncate { .. } => "truncate",
        Outcome::Reject(_) => "reject",
        Outcome::Fail(_) => "fail",
    };
    let unit = match request.settings.threshold.unit {
        SizeUnit::Bytes => "bytes",
        SizeUnit::Characters => "characters",
        SizeUnit::Tokens => "tokens",
    };
    let handle = match &decision.outcome {
        Outcome::Offload(offloaded) => Some(tracing::field::display(offloaded.offload.id())),
        _ => None,
    };
    tracing::warn!(
        tenant = request.tenant,
        tool = request.tool,
        bytes = payload.size(),
        limit = request.settings.threshold.amount,
        unit,
        verdict,
        handle,
        "large tool result"
    );
}
