//! The engine that all policies of a process share.

use std::sync::Arc;
use std::time::Duration;

use lro_system::process::address_space;
use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Engine};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::sync::filesystem;

use super::bindings::document::LroDocumentPre;
use super::bindings::extraction::LroExtractPre;
use super::call::Stock;
use super::document::PreparedDocumentReader;
use super::epoch::Epoch;
use super::extraction::PreparedExtraction;
use super::filesystem::{Filesystem, View};
use super::permits::PoolPermits;
use super::room::{Addressing, MEMORIES_MAX, Room, TABLES_MAX};
use super::state::CallState;
use super::versions::{self, PolicyPre};

/// Interval of the epoch: 10 ms. It is the resolution of [`Limits::wall_time`](super::Limits::wall_time), and the
/// maximum time that a policy runs before it yields.
pub const EPOCH_TICK: Duration = Duration::from_millis(10);

/// Maximum number of concurrent calls, where there is address space for as many; see [`Sandbox::concurrent_calls`].
/// Another one waits for [`Limits::wait`](super::Limits::wait), and then fails with
/// [`CallError::Busy`](super::CallError::Busy). A call of a component with several memories counts as that many.
pub const CONCURRENT_CALLS_MAX: u32 = 256;

/// Maximum stack of a policy, in bytes.
pub(super) const STACK_BYTES_MAX: usize = 512 << 10;

/// Stack for host functions, in addition to that of the policy.
pub(super) const HOST_STACK_BYTES: usize = 1 << 20;

/// Features of the processors that code is compiled for ahead of time: those made since 2013, but some of the smallest, have
/// them. With less, vectors of the scanner of JSON take several instructions.
const X86_64_LEVEL: &str = "x86-64-v3";

/// Compiles policies and runs each call in its own store and instance.
///
/// Cheap to clone: clones share the engine. Create one per process, because policies compiled by one engine do not run
/// in another.
#[derive(Clone)]
pub struct Sandbox {
    engine: Engine,
    linker: Arc<Linker<CallState>>,
    wasi: WasiFilesystemCtx,
    code: Code,
    permits: PoolPermits,
}

/// What a sandbox is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SandboxSettings {
    /// Whether to count instructions, see [`Sandbox::with_fuel`]. Default: no.
    pub fuel: bool,
    /// How many calls may run at the same time, from 4 to [`CONCURRENT_CALLS_MAX`], which is the default. Fewer need less
    /// address space, and less time to start.
    pub calls: u32,
}

impl Default for SandboxSettings {
    fn default() -> Self {
        Self { fuel: false, calls: CONCURRENT_CALLS_MAX }
    }
}

/// A kind of compiled code. An engine runs one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Whether it counts instructions.
    pub fuel: bool,
    /// How it stays within its memory.
    pub addressing: Addressing,
}

impl Code {
    /// Creates an engine that compiles it, and has no room for instances.
    pub(crate) fn compiling_engine(self) -> wasmtime::Result<Engine> {
        Engine::new(&self.config())
    }

    fn config(self) -> Config {
        let mut config = Config::new();
        config.wasm_component_model(true).epoch_interruption(true).max_wasm_stack(STACK_BYTES_MAX);
        config.async_stack_size(STACK_BYTES_MAX + HOST_STACK_BYTES).async_stack_zeroing(true);
        config.consume_fuel(self.fuel);
        // Errors name functions, not places in them, and stacks are walked by frame pointers: without the tables for both, code
        // is loaded faster. Windows requires the second.
        config.generate_address_map(false);
        config.native_unwind_info(cfg!(windows));
        self.addressing.configure(&mut config);
        config
    }
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Creates an engine with a pool of instances for [`CONCURRENT_CALLS_MAX`] calls, which reserves 1.1 TiB of address
    /// space. Where there is less, calls are fewer, or map new memory each, which is logged. Starts a thread that advances
    /// the epoch while calls run; it ends with the last clone and the last policy.
    ///
    /// # Errors
    /// When this processor or system cannot run compiled code.
    pub fn new() -> wasmtime::Result<Self> {
        Self::with(SandboxSettings::default())
    }

    /// As [`Sandbox::new`], but counts instructions, for [`Limits::fuel`](super::Limits::fuel). Policies run about a
    /// fifth slower, with or without a limit (20 % for `write-sections` of 53 MB of records). Code compiled for one
    /// kind of sandbox does not run in the other.
    ///
    /// # Errors
    /// As [`Sandbox::new`].
    pub fn with_fuel() -> wasmtime::Result<Self> {
        Self::with(SandboxSettings { fuel: true, ..SandboxSettings::default() })
    }

    /// As [`Sandbox::new`], with other settings.
    ///
    /// # Errors
    /// As [`Sandbox::new`].
    pub fn with(settings: SandboxSettings) -> wasmtime::Result<Self> {
        let (engine, room) = engine_with_room(settings)?;
        let epoch = Epoch::start(engine.clone())?;
        let wasi = WasiCtx::builder().allow_blocking_current_thread(true).build().filesystem().clone();
        let linker = Arc::new(linker(&engine)?);
        let code = Code { fuel: settings.fuel, addressing: room.addressing() };
        Ok(Self { linker, engine, wasi, code, permits: PoolPermits::new(room, epoch) })
    }

    /// How many calls run at the same time.
    pub fn concurrent_calls(&self) -> u32 {
        self.permits.calls()
    }

    /// The kind of code that it runs.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The engine, to compile components and to load compiled code.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Resolves the imports and exports of a component in advance.
    ///
    /// # Errors
    /// When the component has an import that policies may not use, or exports `lro-filter` in no version of the contract
    /// that this host runs.
    pub fn prepare(&self, component: &Component) -> wasmtime::Result<Prepared> {
        let pre = PolicyPre::new(component, self.linker.instantiate_pre(component)?)?;
        Ok(Prepared { pre, wasi: self.wasi.clone(), permits: self.permits_for(component)?, stock: Arc::default() })
    }

    /// As [`Sandbox::prepare`], for a component that exports `lro-query`.
    ///
    /// # Errors
    /// As [`Sandbox::prepare`].
    pub fn prepare_extraction(&self, component: &Component) -> wasmtime::Result<PreparedExtraction> {
        let pre = LroExtractPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(PreparedExtraction { pre, wasi: self.wasi.clone(), permits: self.permits_for(component)? })
    }

    /// As [`Sandbox::prepare`], for a component that exports `reader` of `lro:document`.
    ///
    /// # Errors
    /// As [`Sandbox::prepare`].
    pub fn prepare_document_reader(&self, component: &Component) -> wasmtime::Result<PreparedDocumentReader> {
        let pre = LroDocumentPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(PreparedDocumentReader { pre, wasi: self.wasi.clone(), permits: self.permits_for(component)? })
    }
}

impl Sandbox {
    /// The permits of calls of a component, which take one for each of its memories.
    fn permits_for(&self, component: &Component) -> wasmtime::Result<PoolPermits> {
        Ok(self.permits.weighing(memories(component)?))
    }
}

/// A compiled policy with its imports resolved.
#[derive(Clone)]
pub struct Prepared {
    pub(super) pre: PolicyPre,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) permits: PoolPermits,
    pub(super) stock: Arc<Stock>,
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Prepared").finish_non_exhaustive()
    }
}

/// Creates an engine with the most room that the system grants.
fn engine_with_room(settings: SandboxSettings) -> wasmtime::Result<(Engine, Room)> {
    let candidates = Room::candidates(settings.calls, address_space());
    let mut refused = None;
    for room in candidates {
        let code = Code { fuel: settings.fuel, addressing: room.addressing() };
        match Engine::new(code.config().allocation_strategy(room.allocation())) {
            Ok(engine) => {
                if !room.is_pooled || room.calls < settings.calls.min(CONCURRENT_CALLS_MAX) {
                    let Room { calls, is_pooled, .. } = room;
                    tracing::warn!(
                        calls,
                        pooled = is_pooled,
                        "little address space: fewer calls run at the same time, and \
                        without a pool of instances each takes longer"
                    );
                }
                return Ok((engine, room));
            }
            Err(error) => refused = Some(error),
        }
    }
    Err(refused.unwrap_or_else(|| wasmtime::Error::msg("no room for instances")))
}

/// An engine that compiles for machines of a target, where there is room for a pool and nothing counts instructions. It runs
/// nothing, and of this machine's processor it knows nothing.
pub(crate) fn engine_for(target: &str) -> wasmtime::Result<Engine> {
    let mut config = Code { fuel: false, addressing: Addressing::Guarded }.config();
    config.target(target)?;
    config.native_unwind_info(target.contains("windows"));
    if target.starts_with("x86_64-") {
        // SAFETY: the flag only names features of the processor. This engine runs nothing, and an engine that loads the code
        // checks that its processor has them.
        #[expect(unsafe_code, reason = "wasmtime has no other way to name the features of another machine's processor")]
        unsafe {
            config.cranelift_flag_enable(X86_64_LEVEL);
        }
    }
    Engine::new(&config)
}

/// The number of memories of a component. Without a pool, which refuses them before, refuses components that have more
/// memories or tables than a call may have.
fn memories(component: &Component) -> wasmtime::Result<u32> {
    // What instantiates modules that it imports does not say what it needs.
    let Some(required) = component.resources_required() else { return Ok(MEMORIES_MAX) };
    let checks = [("memories", required.num_memories, MEMORIES_MAX), ("tables", required.num_tables, TABLES_MAX)];
    for (what, number, limit) in checks {
        wasmtime::ensure!(number <= limit, "it has {number} {what}; the limit is {limit}");
    }
    Ok(required.num_memories)
}

/// Links only the imports of the world and the inert stubs, so that any other import is rejected by name.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<CallState>> {
    let mut linker = Linker::<CallState>::new(engine);
    versions::add_types(&mut linker)?;
    filesystem::types::add_to_linker::<_, Filesystem>(&mut linker, |state| View(state))?;
    preopens::add_to_linker::<_, Filesystem>(&mut linker, |state| View(state))?;
    super::inert::add_to_linker(&mut linker)?;
    Ok(linker)
}
