//! One call into a policy: a fresh store, an instance, an answer, and what it cost.

use super::bindings::LroPolicy;
use super::bindings::exports::lro::filter::lro_filter::{Descriptor, Plan, PolicyError, Verdict};
use super::bindings::extraction::exports::lro::filter::lro_query::{Answer, Budget, ExtractError, Question, Source};
use super::bindings::lro::filter::types::Call;
use super::engine::{CONCURRENT_CALLS_MAX, EPOCH_TICK, Prepared, PreparedExtraction, STACK_BYTES_MAX};
use super::limits::Limits;
use super::output::{Quota, WriteError};
use super::state::State;
use super::text::{one_line, plain_descriptor, plain_error, short_advice};
use super::{Payload, PayloadReader};
use crate::digest::FileDigest;
use crate::faults::fail_point;
use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use wasmtime::component::ResourceTable;
use wasmtime::{Engine, Store, Trap};
use wasmtime_wasi::filesystem::{FsPerms, WasiFilesystemCtx};

/// Why a call gave no answer, as a sentence without its subject: the policy, or the query.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// The policy ran, or the disk kept it waiting, longer than [`Limits::wall_time`].
    #[error("took longer than {} ms (limit wall-time-ms)", .0.as_millis())]
    Deadline(Duration),
    /// The policy asked for more memory than [`Limits::memory_bytes`].
    #[error("needed more than {0} bytes of memory (limit memory-bytes)")]
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
    /// There is a [`Limits::fuel`], and the sandbox was not made [with fuel](super::Sandbox::with_fuel).
    #[error("cannot be held to the limit fuel: this sandbox does not count instructions")]
    Uncounted,
    /// The policy's calls nested too deeply.
    #[error("ran out of stack (limit {STACK_BYTES_MAX} bytes)")]
    Stack,
    /// More than [`Limits::crossing_bytes`] in one step between host and policy.
    #[error("passed more than {0} bytes in one step (limit crossing-bytes)")]
    Crossing(usize),
    /// The policy wrote, created or held open more than it may.
    #[error(transparent)]
    Quota(Quota),
    /// [`CONCURRENT_CALLS_MAX`](super::CONCURRENT_CALLS_MAX) calls are running.
    #[error("found {CONCURRENT_CALLS_MAX} calls running already")]
    Busy,
    /// The policy trapped: it panicked or broke a rule of WebAssembly. One line of at most [`Limits::log_bytes`].
    #[error("failed: {0}")]
    Trap(String),
    /// The policy answered with an error. Its text is one line of at most [`Limits::log_bytes`].
    #[error("refused: {}", describe(.0))]
    Policy(PolicyError),
    /// The output directory could not be opened or written.
    #[error("has a directory that could not be opened or written: {0}")]
    Output(std::io::Error),
}

impl CallError {
    /// Whether the cause is a full disk or a used-up quota.
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

fn describe(error: &PolicyError) -> String {
    match error {
        PolicyError::Invalid(text) => format!("invalid settings or plan: {text}"),
        PolicyError::Read(error) => format!("a part could not be read: {error:?}"),
        PolicyError::NoSpace => "no space left for its output".to_owned(),
        PolicyError::Io(text) => format!("its output could not be written: {text}"),
        PolicyError::Limit(text) => format!("limit {text}"),
        PolicyError::Other(text) => text.clone(),
    }
}

/// What a call cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cost {
    /// From before the store was made until after the last byte was written.
    pub time: Duration,
    /// Linear memory at the end, which is its largest extent.
    pub memory_bytes: usize,
    /// Bytes written, an overwritten byte counted each time.
    pub written_bytes: u64,
}

/// The directory that a policy writes to.
#[derive(Clone, Copy, Debug)]
pub struct OutputDirectory<'a> {
    /// Its path.
    pub path: &'a Path,
    /// Whether data goes to the disk while the policy still writes: for a caller who then waits until it is there.
    pub write_back: bool,
}

impl<'a> From<&'a Path> for OutputDirectory<'a> {
    fn from(path: &'a Path) -> Self {
        Self { path, write_back: false }
    }
}

/// What a policy wrote.
#[derive(Debug)]
pub struct Written {
    /// Its own account.
    pub descriptor: Descriptor,
    /// The digests of the files that were written front to back, by file name.
    pub digests: BTreeMap<String, FileDigest>,
}

impl Prepared {
    /// Makes an instance and drops it: the least any call costs.
    ///
    /// # Errors
    /// As a call's.
    pub fn instantiate(&self, limits: &Limits) -> Result<(), CallError> {
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, None, false)?;
        let made = self.pre.instantiate(&mut run.store).map(drop);
        made.map_err(|error| run.explain(&error))
    }

    /// Asks what should become of a result. No directory is preopened. Advice is cut at the limit of a descriptor.
    ///
    /// # Errors
    /// When the policy fails or breaks a limit.
    pub fn inspect(&self, limits: &Limits, call: &Call, payload: &Arc<Payload>) -> Result<(Verdict, Cost), CallError> {
        let stocked = self.stock.take(limits);
        let is_stocked = stocked.is_some();
        let Inspection { mut run, policy } = match stocked {
            Some(inspection) => inspection,
            None => self.inspection(limits)?,
        };
        fail_point!("sandbox::inspect", CallError::Output);
        let answer = run.inspect(&policy, call, payload).map_err(|error| run.explain(&error))?;
        let mut verdict = answer.map_err(|error| CallError::Policy(plain_error(error, limits)))?;
        short_advice(&mut verdict, call.settings.descriptor_limit);
        let cost = run.cost();
        if is_stocked {
            self.stock.spend(run);
        }
        Ok((verdict, cost))
    }

    /// Makes the instance for the next inspection in advance, and frees that of the last one: for a caller that has sent its
    /// answer and has time. Whoever never calls it never has one in stock.
    pub fn restock(&self, limits: &Limits) {
        self.stock.fill(|| self.inspection(limits).ok());
    }

    fn inspection(&self, limits: &Limits) -> Result<Inspection, CallError> {
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, None, false)?;
        fail_point!("sandbox::instantiate", CallError::Output);
        let policy = self.pre.instantiate(&mut run.store).map_err(|error| run.explain(&error))?;
        Ok(Inspection { run, policy })
    }

    /// Lets the policy write what it planned into `directory`, which is all of the file system it sees.
    ///
    /// # Errors
    /// When the policy fails or breaks a limit, or the directory cannot be written. What was written by then stays there.
    pub fn write<'a>(
        &self,
        limits: &Limits,
        call: &Call,
        payload: &Arc<Payload>,
        plan: &Plan,
        directory: impl Into<OutputDirectory<'a>>,
    ) -> Result<(Written, Cost), CallError> {
        let OutputDirectory { path, write_back } = directory.into();
        let directory = Some((File::open(path).map_err(CallError::Output)?, FsPerms::ReadWrite));
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, directory, write_back)?;
        fail_point!("sandbox::write", CallError::Output);
        let answer = run.write(self, call, payload, plan).map_err(|error| run.explain(&error))?;
        let mut cost = run.cost();
        let over_quota = run.store.data().output.over_quota;
        let started = run.started;
        let finished = run.store.into_data().output.finish();
        cost.time = started.elapsed();
        if let Some(quota) = over_quota {
            return Err(CallError::Quota(quota));
        }
        let mut descriptor = answer.map_err(|error| CallError::Policy(plain_error(error, limits)))?;
        plain_descriptor(&mut descriptor, limits);
        let digests = finished.map_err(|error| write_error(error, limits))?;
        Ok((Written { descriptor, digests }, cost))
    }
}

impl PreparedExtraction {
    /// Asks a question about a file in `directory`, which is all of the file system the component sees, and read-only.
    ///
    /// # Errors
    /// When the component fails or breaks a limit. The error in the answer is its own.
    pub fn extract(
        &self,
        limits: &Limits,
        directory: File,
        source: &Source,
        question: &Question,
        budget: Budget,
    ) -> Result<(Result<Answer, ExtractError>, Cost), CallError> {
        let mut run = Run::new(self.pre.engine(), &self.wasi, limits, Some((directory, FsPerms::ReadOnly)), false)?;
        let answer = run.extract(self, source, question, budget).map_err(|error| match error.downcast_ref() {
            // Half of the stack lies at the beginning of the memory, and safe Rust leaves its memory in no other way.
            Some(Trap::MemoryOutOfBounds) => CallError::Stack,
            _ => run.explain(&error),
        })?;
        Ok((answer, run.cost()))
    }
}

/// An instance that was not called yet, for one inspection.
struct Inspection {
    run: Run,
    policy: LroPolicy,
}

/// At most one instance for the next inspection, and the store of the last one that came from here.
#[derive(Default)]
pub(super) struct Stock {
    fresh: Mutex<Option<Inspection>>,
    spent: Mutex<Option<Run>>,
}

impl Stock {
    /// The instance, if there is one under these limits. Its time begins now.
    fn take(&self, limits: &Limits) -> Option<Inspection> {
        let mut inspection = lock(&self.fresh).take().filter(|inspection| inspection.run.limits == *limits)?;
        inspection.run.begin();
        Some(inspection)
    }

    /// Keeps a store that is to be freed later, and nothing of the result it saw.
    fn spend(&self, mut run: Run) {
        run.store.data_mut().table = ResourceTable::new();
        *lock(&self.spent) = Some(run);
    }

    /// Frees what is spent, and puts an instance in stock when there is none.
    fn fill(&self, make: impl FnOnce() -> Option<Inspection>) {
        *lock(&self.spent) = None;
        let mut fresh = lock(&self.fresh);
        if fresh.is_none() {
            *fresh = make();
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One call under way.
struct Run {
    store: Store<State>,
    limits: Limits,
    started: Instant,
}

impl Run {
    fn new(
        engine: &Engine,
        wasi: &WasiFilesystemCtx,
        limits: &Limits,
        directory: Option<(File, FsPerms)>,
        writes_back: bool,
    ) -> Result<Self, CallError> {
        let started = Instant::now();
        let deadline = started + limits.wall_time;
        let state = State::new(wasi.clone(), limits, deadline, directory, writes_back);
        let mut store = Store::new(engine, state);
        store.limiter(|state| &mut state.meter);
        store.set_hostcall_fuel(limits.crossing_bytes);
        let counted = store.set_fuel(limits.fuel.unwrap_or(u64::MAX));
        if limits.fuel.is_some() && counted.is_err() {
            return Err(CallError::Uncounted);
        }
        let mut run = Self { store, limits: limits.clone(), started };
        run.begin();
        Ok(run)
    }

    /// Begins to count the time.
    fn begin(&mut self) {
        self.started = Instant::now();
        // One more than the quotient: the tick under way is not a whole one.
        let ticks = self.limits.wall_time.as_nanos().div_ceil(EPOCH_TICK.as_nanos()) + 1;
        self.store.set_epoch_deadline(u64::try_from(ticks).unwrap_or(u64::MAX));
    }

    fn inspect(
        &mut self,
        policy: &LroPolicy,
        call: &Call,
        payload: &Arc<Payload>,
    ) -> wasmtime::Result<Result<Verdict, PolicyError>> {
        let reader = self.store.data_mut().table.push(PayloadReader::new(Arc::clone(payload)))?;
        policy.lro_filter_lro_filter().call_inspect_result(&mut self.store, call, reader)
    }

    fn write(
        &mut self,
        prepared: &Prepared,
        call: &Call,
        payload: &Arc<Payload>,
        plan: &Plan,
    ) -> wasmtime::Result<Result<Descriptor, PolicyError>> {
        let policy = prepared.pre.instantiate(&mut self.store)?;
        let reader = self.store.data_mut().table.push(PayloadReader::new(Arc::clone(payload)))?;
        policy.lro_filter_lro_filter().call_write_sections(&mut self.store, call, reader, plan)
    }

    fn extract(
        &mut self,
        prepared: &PreparedExtraction,
        source: &Source,
        question: &Question,
        budget: Budget,
    ) -> wasmtime::Result<Result<Answer, ExtractError>> {
        let component = prepared.pre.instantiate(&mut self.store)?;
        component.lro_filter_lro_query().call_extract(&mut self.store, source, question, budget)
    }

    fn cost(&self) -> Cost {
        let state = self.store.data();
        Cost { time: self.started.elapsed(), memory_bytes: state.meter.memory_bytes, written_bytes: state.output.bytes }
    }

    fn explain(&self, error: &wasmtime::Error) -> CallError {
        let state = self.store.data();
        if error.is::<wasmtime::PoolConcurrencyLimitError>() {
            return CallError::Busy;
        }
        match error.downcast_ref::<Trap>() {
            Some(Trap::Interrupt) => CallError::Deadline(self.limits.wall_time),
            Some(Trap::StackOverflow) => CallError::Stack,
            Some(Trap::OutOfFuel) => CallError::Fuel(self.limits.fuel.unwrap_or(u64::MAX)),
            _ if state.meter.memory_refused => CallError::Memory(self.limits.memory_bytes),
            _ if state.meter.table_refused => CallError::Table(self.limits.table_elements),
            Some(trap) if state.output.over_quota.is_none() => CallError::Trap(trap.to_string()),
            _ => match state.output.over_quota {
                Some(quota) => CallError::Quota(quota),
                None => self.explain_text(&error.root_cause().to_string()),
            },
        }
    }

    /// Some refusals have no type of their own in wasmtime.
    fn explain_text(&self, error: &str) -> CallError {
        if error.contains("too much data is being copied") {
            CallError::Crossing(self.limits.crossing_bytes)
        } else if error.contains("resource limit exceeded") {
            CallError::Instances(self.limits.instances)
        } else {
            // It may quote names that the policy gave.
            CallError::Trap(one_line(error, self.limits.log_bytes))
        }
    }
}

fn write_error(error: WriteError, limits: &Limits) -> CallError {
    match error {
        WriteError::Quota(quota) => CallError::Quota(quota),
        WriteError::Deadline => CallError::Deadline(limits.wall_time),
        WriteError::Io(error) => CallError::Output(error),
    }
}
