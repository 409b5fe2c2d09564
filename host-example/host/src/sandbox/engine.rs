//! The engine that all policies of a process share, and its epoch clock.

use std::sync::Arc;
use std::time::Duration;

use wasmtime::component::{Component, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::sync::filesystem;

use super::bindings::document::LroDocumentPre;
use super::bindings::extraction::LroExtractPre;
use super::call::Stock;
use super::document::PreparedDocumentReader;
use super::filesystem::{Filesystem, View};
use super::permits::PoolPermits;
use super::state::CallState;
use super::versions::{self, PolicyPre};

/// Interval of the epoch: 10 ms. It is the resolution of [`Limits::wall_time`](super::Limits::wall_time), and the
/// maximum time that a policy runs before it yields.
pub const EPOCH_TICK: Duration = Duration::from_millis(10);

/// Maximum number of concurrent calls. Another one waits for [`Limits::wait`](super::Limits::wait), and then fails with
/// [`CallError::Busy`](super::CallError::Busy).
pub const CONCURRENT_CALLS_MAX: u32 = 256;

/// Maximum stack of a policy, in bytes.
pub(super) const STACK_BYTES_MAX: usize = 512 << 10;

/// Stack for host functions, in addition to that of the policy.
const HOST_STACK_BYTES: usize = 1 << 20;

/// Part of a finished call's stack that is zeroed in place; the rest, which few calls touch, is returned to the system.
const RESIDENT_STACK_BYTES: usize = 32 << 10;

/// Maximum linear memory of a pooled instance, in bytes, whatever the limits of the call.
const POOLED_MEMORY_BYTES_MAX: usize = 1 << 30;

/// Maximum elements of a pooled table.
const POOLED_TABLE_ELEMENTS_MAX: usize = 100_000;

/// Maximum core instances, tables and linear memories of one component. The pool reserves as many for every concurrent
/// call, so that no policy can use up those of others. This takes only address space: 4.5 TiB.
const POOLED_INSTANCES_MAX: u32 = 16;
const POOLED_TABLES_MAX: u32 = 8;
const POOLED_MEMORIES_MAX: u32 = 4;

/// Memory of a finished call that is reset and reused, in bytes, instead of being returned to the system and faulted in
/// again. It halves the cost of a small result where the system reports which pages were written (Linux 6.7 and later);
/// elsewhere resetting all of it would cost more than it saves.
const RESIDENT_BYTES: usize = 4 << 20;

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
    permits: PoolPermits,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// Creates an engine with pooled instances, or without a pool if the address space is limited. Starts a thread that
    /// advances the epoch; it ends with the last clone and the last policy.
    ///
    /// # Errors
    /// When this processor or system cannot run compiled code.
    pub fn new() -> wasmtime::Result<Self> {
        Self::of(&config())
    }

    /// As [`Sandbox::new`], but counts instructions, for [`Limits::fuel`](super::Limits::fuel). Policies run about a
    /// fifth slower, with or without a limit (20 % for `write-sections` of 53 MB of records). Code compiled for one
    /// kind of sandbox does not run in the other.
    ///
    /// # Errors
    /// As [`Sandbox::new`].
    pub fn with_fuel() -> wasmtime::Result<Self> {
        Self::of(config().consume_fuel(true))
    }

    fn of(config: &Config) -> wasmtime::Result<Self> {
        let engine = Engine::new(config.clone().allocation_strategy(pool())).or_else(|error| {
            tracing::warn!(%error, "cannot pool instances: every call maps new memory");
            Engine::new(config)
        })?;
        start_clock(&engine)?;
        let wasi = WasiCtx::builder().allow_blocking_current_thread(true).build().filesystem().clone();
        Ok(Self { linker: Arc::new(linker(&engine)?), engine, wasi, permits: PoolPermits::default() })
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
        Ok(Prepared { pre, wasi: self.wasi.clone(), permits: self.permits.clone(), stock: Arc::default() })
    }

    /// As [`Sandbox::prepare`], for a component that exports `lro-query`.
    ///
    /// # Errors
    /// As [`Sandbox::prepare`].
    pub fn prepare_extraction(&self, component: &Component) -> wasmtime::Result<PreparedExtraction> {
        let pre = LroExtractPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(PreparedExtraction { pre, wasi: self.wasi.clone(), permits: self.permits.clone() })
    }

    /// As [`Sandbox::prepare`], for a component that exports `reader` of `lro:document`.
    ///
    /// # Errors
    /// As [`Sandbox::prepare`].
    pub fn prepare_document_reader(&self, component: &Component) -> wasmtime::Result<PreparedDocumentReader> {
        let pre = LroDocumentPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(PreparedDocumentReader { pre, wasi: self.wasi.clone(), permits: self.permits.clone() })
    }
}

/// A compiled component that answers queries, with its imports resolved.
#[derive(Clone)]
pub struct PreparedExtraction {
    pub(super) pre: LroExtractPre<CallState>,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) permits: PoolPermits,
}

impl std::fmt::Debug for PreparedExtraction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PreparedExtraction").finish_non_exhaustive()
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

fn config() -> Config {
    let mut config = Config::new();
    config.wasm_component_model(true).epoch_interruption(true).max_wasm_stack(STACK_BYTES_MAX);
    config.async_stack_size(STACK_BYTES_MAX + HOST_STACK_BYTES).async_stack_zeroing(true);
    config
}

/// An engine that compiles for machines of a target, and runs nothing: of this machine's processor it knows nothing.
pub(crate) fn engine_for(target: &str) -> wasmtime::Result<Engine> {
    let mut config = config();
    config.target(target)?;
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

fn pool() -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(PoolPermits::ALL)
        .total_stacks(PoolPermits::ALL)
        .async_stack_keep_resident(RESIDENT_STACK_BYTES)
        .max_core_instances_per_component(POOLED_INSTANCES_MAX)
        .total_core_instances(PoolPermits::ALL * POOLED_INSTANCES_MAX)
        .max_memories_per_component(POOLED_MEMORIES_MAX)
        .total_memories(PoolPermits::ALL * POOLED_MEMORIES_MAX)
        .max_tables_per_component(POOLED_TABLES_MAX)
        .total_tables(PoolPermits::ALL * POOLED_TABLES_MAX)
        .max_memory_size(POOLED_MEMORY_BYTES_MAX)
        .table_elements(POOLED_TABLE_ELEMENTS_MAX);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(RESIDENT_BYTES).table_keep_resident(RESIDENT_BYTES);
    }
    pool.into()
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

fn start_clock(engine: &Engine) -> wasmtime::Result<()> {
    let engine = engine.weak();
    std::thread::Builder::new().name("lro-epoch".into()).spawn(move || {
        loop {
            std::thread::sleep(EPOCH_TICK);
            match engine.upgrade() {
                Some(engine) => engine.increment_epoch(),
                None => break,
            }
        }
    })?;
    Ok(())
}
