//! One call into a component: a fresh store and instance, the answer, and its cost.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lro_contract::digest::FileDigest;
use lro_system::files::open_directory;
use parking_lot::Mutex;
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, FrameInfo, Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::filesystem::{FsPerms, WasiFilesystemCtx};

use super::bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
use super::bindings::lro::filter::types::Call;
use super::engine::{Prepared, STACK_BYTES_MAX};
use super::limits::Limits;
use super::output::{Quota, Watch, WriteError};
use super::permits::PoolPermit;
use super::state::{CallState, Clock};
use super::text::{describe, sanitize_descriptor, sanitize_error, truncate_advice};
use super::versions::PolicyInstance;
use super::{Payload, PayloadReader, one_line};
use crate::faults::fail_point;
use crate::job;

/// Why a call returned no answer. The message is a sentence without its subject, which is the policy or the query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The policy ran, or waited for the disk, longer than [`Limits::wall_time`].
    #[error("{}", took_longer(*.0, ""))]
    Deadline(Duration),
    /// The policy asked for more memory than [`Limits::memory_bytes`].
    #[error("{}", needed_more(*.0, ""))]
    Memory(usize),
    /// The policy asked for a table of more elements than [`Limits::table_elements`].
    #[error("needed a table of more than {0} elements (limit table-elements)")]
    Table(usize),
    /// The policy has more instances, memories or tables than [`Limits::instances`].
    #[error("has more than {0} instances, memories or tables (limit instances)")]
    Instances(usize),
    /// The policy executed more than [`Limits::fuel`].
    #[error("executed more than {0} instructions (limit fuel)")]
    Fuel(u64),
    /// [`Limits::fuel`] is set, but the sandbox was not created [with fuel](super::Sandbox::with_fuel).
    #[error("cannot run with the limit fuel: this sandbox does not count instructions")]
    FuelDisabled,
    /// The policy ran out of stack.
    #[error("ran out of stack (limit {STACK_BYTES_MAX} bytes)")]
    Stack,
    /// More than [`Limits::crossing_bytes`] were passed between host and policy in one step.
    #[error("passed more than {0} bytes in one step (limit crossing-bytes)")]
    Crossing(usize),
    /// The policy exceeded a limit on writing, creating or opening files.
    #[error(transparent)]
    Quota(Quota),
    /// This many calls or queries are running, and none ended within [`Limits::wait`].
    #[error("had to wait too long for {0} others that are running (limit wait-ms): try again in a moment")]
    Busy(u32),
    /// The policy trapped, for instance by a panic. The text names the function of the contract that was called; it is one line
    /// of at most [`Limits::log_bytes`].
    #[error("failed: {0}")]
    Trap(String),
    /// The policy returned an error. Its text is one line of at most [`Limits::log_bytes`].
    #[error("refused: {}", describe(.0))]
    Policy(PolicyError),
    /// The output directory could not be opened or written.
    #[error("cannot use its directory: {0}")]
    Output(std::io::Error),
}

/// Settings of queries and of documents have another beginning of their keys than those of policies.
fn took_longer(limit: Duration, keys: &str) -> String {
    format!("took longer than {} ms (limit {keys}wall-time-ms)", limit.as_millis())
}

fn needed_more(limit: usize, keys: &str) -> String {
    format!("needed more than {limit} bytes of memory (limit {keys}memory-bytes)")
}

impl CallError {
    /// The message about a call whose limits are set by keys that begin like this.
    pub(crate) fn with_keys(&self, beginning: &str) -> String {
        match self {
            Self::Deadline(limit) => took_longer(*limit, beginning),
            Self::Memory(limit) => needed_more(*limit, beginning),
            error => error.to_string(),
        }
    }

    /// Whether the cause is a full disk or an exhausted quota.
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::Quota(_) | Self::Policy(PolicyError::NoSpace) => true,
            Self::Output(error) => matches!(
                error.kind(),
                std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded | std::io::ErrorKind::FileTooLarge
            ),
            _ => false,
        }
    }
}

/// The cost of a call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// Time from creating the store to writing the last byte.
    pub time: Duration,
    /// Linear memory at the end of the call, which is its peak; of several instances together.
    pub memory_bytes: usize,
    /// Bytes written, including overwrites.
    pub written_bytes: u64,
}

/// The directory that a policy writes to.
#[derive(Clone, Copy, Debug)]
pub struct OutputDirectory<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Whether to start flushing data to disk while the policy still writes. Set it if the directory is synchronized
    /// afterwards.
    pub write_back: bool,
}

impl<'a> From<&'a Path> for OutputDirectory<'a> {
    fn from(path: &'a Path) -> Self {
        Self { path, write_back: false }
    }
}

/// The output of a policy.
#[derive(Debug)]
pub struct Written {
    /// The descriptor that the policy returned.
    pub descriptor: Descriptor,
    /// Digests of the files that were written sequentially, by file name.
    pub digests: BTreeMap<String, FileDigest>,
}

impl Prepared {
    /// Creates an instance and drops it, the minimum cost of any call. Blocks.
    ///
    /// # Errors
    /// As for a call.
    pub fn instantiate(&self, limits: &Limits) -> Result<(), CallError> {
        job::finish(async {
            let permit = self.permits.call(limits.wait).await?;
            let mut run = Run::new(self.pre.engine(), &self.wasi, limits, Vec::new(), false, permit)?;
            let made = self.pre.instantiate_async(&mut run.store).await.map(drop);
            made.map_err(|error| run.explain(&error))
        })
    }

    /// Calls `inspect-result`. No directory is preopened. Advice is truncated to the descriptor limit. Blocks.
    ///
    /// # Errors
    /// When the policy fails or exceeds a limit.
    pub fn inspect(&self, limits: &Limits, call: &Call, payload: &Arc<Payload>) -> Result<(Verdict, Cost), CallError> {
        job::finish(self.inspect_async(limits, call, payload))
    }

    /// As [`Prepared::inspect`]. Yields once a tick, and before it waits for a permit, which blocks.
    pub(crate) async fn inspect_async(
        &self,
        limits: &Limits,
        call: &Call,
        payload: &Arc<Payload>,
    ) -> Result<(Verdict, Cost), CallError> {
        let permit = self.permits.call(limits.wait).await?;
        let stocked = self.stock.take(limits);
        let is_stocked = stocked.is_some();
        let Inspection { mut run, policy } = match stocked {
            Some(stocked) => stocked.started(permit),
            None => self.inspection(limits, permit).await?,
        };
        fail_point!("sandbox::inspect", CallError::Output);
        let answer = run.inspect(&policy, call, payload).await.map_err(|error| run.explain(&error))?;
        let mut verdict = answer.map_err(|error| CallError::Policy(sanitize_error(error, limits.log_bytes)))?;
        truncate_advice(&mut verdict, call.settings.descriptor_limit);
        let cost = run.cost();
        if is_stocked && let Some(permit) = self.permits.stock() {
            self.stock.spend(run, permit);
        }
        Ok((verdict, cost))
    }

    /// Creates the instance for the next inspection in advance, and frees the last one. Call it after sending an
    /// answer. Neither blocks nor runs longer than a tick. Creates nothing while all policies together have
    /// [`STOCK_MAX`](super::STOCK_MAX) instances in stock, or if instantiation takes longer than a tick.
    pub fn restock(&self, limits: &Limits) {
        self.stock.fill(|| {
            let permit = self.permits.stock()?;
            let _running = self.permits.run();
            job::now_or_never(self.inspection(limits, permit))?.ok()
        });
    }

    async fn inspection(&self, limits: &Limits, permit: PoolPermit) -> Result<Inspection, CallError> {
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, Vec::new(), false, permit)?;
        fail_point!("sandbox::instantiate", CallError::Output);
        let made = self.pre.instantiate_async(&mut run.store).await;
        let policy = made.map_err(|error| run.explain(&error))?;
        Ok(Inspection { run, policy })
    }

    /// Calls `write-sections` with a plan. The policy writes to `directory` and sees no other part of the file system.
    /// Blocks.
    ///
    /// # Errors
    /// When the policy fails or exceeds a limit, or the directory cannot be written. Files written so far remain.
    pub fn write<'a>(
        &self,
        limits: &Limits,
        call: &Call,
        payload: &Arc<Payload>,
        plan: &Plan,
        directory: impl Into<OutputDirectory<'a>>,
    ) -> Result<(Written, Cost), CallError> {
        job::finish(self.write_async(limits, call, payload, plan, directory.into(), None))
    }

    /// As [`Prepared::write`], with all changes of files watched. Blocks from the start, and yields once a tick.
    pub(crate) async fn write_async(
        &self,
        limits: &Limits,
        call: &Call,
        payload: &Arc<Payload>,
        plan: &Plan,
        directory: OutputDirectory<'_>,
        watch: Option<Watch>,
    ) -> Result<(Written, Cost), CallError> {
        let OutputDirectory { path, write_back } = directory;
        let directories = vec![(open_directory(path).map_err(CallError::Output)?, FsPerms::ReadWrite)];
        let permit = self.permits.call(limits.wait).await?;
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, directories, write_back, permit)?;
        if let Some(watch) = watch {
            run.store.data_mut().output.watch(watch);
        }
        fail_point!("sandbox::write", CallError::Output);
        let answer = run.write(self, call, payload, plan).await.map_err(|error| run.explain(&error))?;
        let mut cost = run.cost();
        let exceeded = run.store.data().output.exceeded;
        let state = run.store.into_data();
        let finished = state.output.finish();
        cost.time = state.clock.used();
        if let Some(quota) = exceeded {
            return Err(CallError::Quota(quota));
        }
        let mut descriptor = answer.map_err(|error| CallError::Policy(sanitize_error(error, limits.log_bytes)))?;
        sanitize_descriptor(&mut descriptor, limits.log_bytes);
        let digests = finished.map_err(|error| write_error(error, limits))?;
        Ok((Written { descriptor, digests }, cost))
    }
}

/// An unused instance for one inspection.
struct Inspection {
    run: Run,
    policy: PolicyInstance,
}

impl Inspection {
    /// Starts its clock, and replaces the stock permit by that of a call.
    fn started(mut self, permit: PoolPermit) -> Self {
        self.run.permit = permit;
        self.run.begin();
        self
    }
}

/// At most one instance for the next inspection, and the store of the last one taken from here.
#[derive(Default)]
pub(super) struct Stock {
    fresh: Mutex<Option<Inspection>>,
    spent: Mutex<Option<Run>>,
}

impl Stock {
    /// Takes the instance, if there is one with these limits.
    fn take(&self, limits: &Limits) -> Option<Inspection> {
        let inspection = self.fresh.lock().take();
        inspection.filter(|inspection| inspection.run.limits == *limits)
    }

    /// Keeps a store to free later, without the result it saw.
    fn spend(&self, mut run: Run, permit: PoolPermit) {
        run.store.data_mut().table = ResourceTable::new();
        run.permit = permit;
        let before = self.spent.lock().replace(run);
        drop(before);
    }

    /// Frees the last store, and creates an instance if there is none. Locks are not held meanwhile.
    fn fill(&self, make: impl FnOnce() -> Option<Inspection>) {
        let spent = self.spent.lock().take();
        drop(spent);
        if self.fresh.lock().is_none()
            && let Some(made) = make()
        {
            let other = self.fresh.lock().replace(made);
            drop(other);
        }
    }
}

/// A running call.
pub(super) struct Run {
    pub(super) store: Store<CallState>,
    /// The function of the contract that runs.
    function: Option<&'static str>,
    limits: Limits,
    /// Released after the store, which occupies it.
    permit: PoolPermit,
}

impl Run {
    pub(super) fn new(
        engine: &Engine,
        wasi: &WasiFilesystemCtx,
        limits: &Limits,
        directories: Vec<(File, FsPerms)>,
        writes_back: bool,
        permit: PoolPermit,
    ) -> Result<Self, CallError> {
        let mut store = Store::new(engine, CallState::new(wasi.clone(), limits, directories, writes_back));
        store.limiter(|state| &mut state.meter);
        let wall_time = limits.wall_time;
        store.epoch_deadline_callback(move |context| {
            let clock = &context.data().clock;
            Ok(match clock.used() < wall_time {
                true => UpdateDeadline::YieldCustom(1, Box::pin(clock.clone().pause())),
                false => UpdateDeadline::Interrupt,
            })
        });
        store.set_hostcall_fuel(limits.crossing_bytes);
        let counted = store.set_fuel(limits.fuel.unwrap_or(u64::MAX));
        if limits.fuel.is_some() && counted.is_err() {
            return Err(CallError::FuelDisabled);
        }
        let mut run = Self { store, function: None, limits: limits.clone(), permit };
        run.begin();
        Ok(run)
    }

    /// Starts the clock, and lets the policy run until the next tick.
    fn begin(&mut self) {
        self.store.data_mut().clock = Clock::start();
        self.store.set_epoch_deadline(1);
    }

    async fn inspect(
        &mut self,
        policy: &PolicyInstance,
        call: &Call,
        payload: &Arc<Payload>,
    ) -> wasmtime::Result<Result<Verdict, PolicyError>> {
        let reader = self.store.data_mut().table.push(PayloadReader::new(Arc::clone(payload)))?;
        self.function = Some("inspect-result");
        policy.inspect_result(&mut self.store, call, reader).await
    }

    async fn write(
        &mut self,
        prepared: &Prepared,
        call: &Call,
        payload: &Arc<Payload>,
        plan: &Plan,
    ) -> wasmtime::Result<Result<Descriptor, PolicyError>> {
        let policy = prepared.pre.instantiate_async(&mut self.store).await?;
        let reader = self.store.data_mut().table.push(PayloadReader::new(Arc::clone(payload)))?;
        self.function = Some("write-sections");
        policy.write_sections(&mut self.store, call, reader, plan).await
    }

    pub(super) fn cost(&self) -> Cost {
        let state = self.store.data();
        Cost { time: state.clock.used(), memory_bytes: state.meter.memory_bytes, written_bytes: state.output.bytes }
    }

    pub(super) fn explain(&self, error: &wasmtime::Error) -> CallError {
        let state = self.store.data();
        if let Some(backtrace) = error.downcast_ref::<WasmBacktrace>() {
            tracing::debug!(
                frames = one_line(&frames(backtrace), self.limits.log_bytes),
                "the component did not return"
            );
        }
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            return CallError::Busy(self.permit.calls());
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => CallError::Deadline(self.limits.wall_time),
            Some(Trap::StackOverflow) => CallError::Stack,
            Some(Trap::OutOfFuel) => CallError::Fuel(self.limits.fuel.unwrap_or(u64::MAX)),
            _ if state.meter.memory_refused => CallError::Memory(self.limits.memory_bytes),
            _ if state.meter.table_refused => CallError::Table(self.limits.table_elements),
            Some(Trap::UnreachableCodeReached) if state.output.exceeded.is_none() => {
                self.trapped(&format!("{}, which is how a panic ends", Trap::UnreachableCodeReached))
            }
            Some(trap) if state.output.exceeded.is_none() => self.trapped(&trap.to_string()),
            _ => match state.output.exceeded {
                Some(quota) => CallError::Quota(quota),
                None => self.explain_text(&error.root_cause().to_string()),
            },
        }
    }

    /// Recognizes wasmtime errors that have no type.
    fn explain_text(&self, error: &str) -> CallError {
        if error.contains("too much data is being copied") {
            CallError::Crossing(self.limits.crossing_bytes)
        } else if error.contains("resource limit exceeded") {
            CallError::Instances(self.limits.instances)
        } else {
            self.trapped(error)
        }
    }

    /// The message may quote names that the policy chose.
    fn trapped(&self, message: &str) -> CallError {
        let text = self.function.map_or_else(|| message.to_owned(), |function| format!("in `{function}`: {message}"));
        CallError::Trap(one_line(&text, self.limits.log_bytes))
    }
}

/// The functions that were called, the last one first.
fn frames(backtrace: &WasmBacktrace) -> String {
    let name =
        |frame: &FrameInfo| frame.func_name().map_or_else(|| format!("function {}", frame.func_index()), str::to_owned);
    backtrace.frames().iter().map(name).collect::<Vec<_>>().join(", ")
}

fn write_error(error: WriteError, limits: &Limits) -> CallError {
    match error {
        WriteError::Quota(quota) => CallError::Quota(quota),
        WriteError::Deadline => CallError::Deadline(limits.wall_time),
        WriteError::Io(error) => CallError::Output(error),
    }
}
