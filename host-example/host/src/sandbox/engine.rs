//! The engine all policies of a process share, with its clock.

use super::bindings::LroPolicyPre;
use super::bindings::extraction::LroExtractPre;
use super::call::Stock;
use super::filesystem::{Filesystem, View};
use super::places::Places;
use super::state::State;
use std::sync::Arc;
use std::time::Duration;
use wasmtime::component::{Component, HasSelf, Linker};
use wasmtime::{Config, Enabled, Engine, InstanceAllocationStrategy, PoolingAllocationConfig};
use wasmtime_wasi::WasiCtx;
use wasmtime_wasi::filesystem::WasiFilesystemCtx;
use wasmtime_wasi::p2::bindings::filesystem::preopens;
use wasmtime_wasi::p2::bindings::sync::filesystem;

/// How often the epoch advances: the coarseness of [`Limits::wall_time`](super::Limits::wall_time), and the longest time that
/// a policy runs on a thread before it gives others a turn.
pub const EPOCH_TICK: Duration = Duration::from_millis(10);

/// Calls that may run at the same time. One more waits for [`Limits::wait`](super::Limits::wait), and is then refused with
/// [`CallError::Busy`](super::CallError::Busy).
pub const CONCURRENT_CALLS_MAX: u32 = 256;

/// Deepest stack of a policy.
pub(super) const STACK_BYTES_MAX: usize = 512 << 10;

/// Stack of the host beside that of the policy that calls it.
const HOST_STACK_BYTES: usize = 1 << 20;

/// As much of the stack of a finished call is wiped where it lies; the rest, which few calls touch, is given back to the system.
const RESIDENT_STACK_BYTES: usize = 32 << 10;

/// Most linear memory of one instance in the pool, whatever a call's limits allow.
const POOLED_MEMORY_BYTES_MAX: usize = 1 << 30;

/// Most elements of one table in the pool.
const POOLED_TABLE_ELEMENTS_MAX: usize = 100_000;

/// Most core instances, tables and linear memories of one component. The pool has as many for every call that may run, so
/// that no policy can use up those of the others: only address space, of which 4.5 TiB are set aside.
const POOLED_INSTANCES_MAX: u32 = 16;
const POOLED_TABLES_MAX: u32 = 8;
const POOLED_MEMORIES_MAX: u32 = 4;

/// Memory of a finished call that is reset and kept for the next one, instead of being given back to the system and faulted
/// in again. It halves the cost of a small result, where the system can tell which pages were written (Linux from 6.7 on);
/// elsewhere resetting all of it would cost more than it saves.
const RESIDENT_BYTES: usize = 4 << 20;

/// Compiles policies and runs them, each call in a store and instance of its own.
///
/// Cheap to clone: clones share the engine. One for a process is enough, and the right number, because policies
/// compiled by one engine do not run in another.
#[derive(Clone)]
pub struct Sandbox {
    engine: Engine,
    linker: Arc<Linker<State>>,
    wasi: WasiFilesystemCtx,
    places: Places,
}

impl std::fmt::Debug for Sandbox {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Sandbox").finish_non_exhaustive()
    }
}

impl Sandbox {
    /// An engine with pooled instances, or without a pool where the address space is limited. Starts the thread that
    /// advances the epoch; it ends with the last clone and the last policy.
    ///
    /// # Errors
    /// When this processor or system cannot run compiled code at all.
    pub fn new() -> wasmtime::Result<Self> {
        Self::of(&config())
    }

    /// As [`Sandbox::new`], and counts instructions, for [`Limits::fuel`](super::Limits::fuel). Policies run about a
    /// fifth slower in it, limit or not (20 % for `write-sections` of 53 MB of records), and compiled code of the one does not
    /// run in the other.
    ///
    /// # Errors
    /// As [`Sandbox::new`].
    pub fn with_fuel() -> wasmtime::Result<Self> {
        Self::of(config().consume_fuel(true))
    }

    fn of(config: &Config) -> wasmtime::Result<Self> {
        let engine = Engine::new(config.clone().allocation_strategy(pool())).or_else(|error| {
            tracing::warn!(%error, "no pool of instances: every call maps memory of its own");
            Engine::new(config)
        })?;
        start_clock(&engine)?;
        let wasi = WasiCtx::builder().allow_blocking_current_thread(true).build().filesystem().clone();
        Ok(Self { linker: Arc::new(linker(&engine)?), engine, wasi, places: Places::default() })
    }

    /// The engine, for compiling and for loading compiled code.
    pub fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Resolves a component's imports and looks up its exports, so that a call need not.
    ///
    /// # Errors
    /// When the component imports what no policy gets, or does not export `lro-filter`.
    pub fn prepare(&self, component: &Component) -> wasmtime::Result<Prepared> {
        let pre = LroPolicyPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(Prepared { pre, wasi: self.wasi.clone(), places: self.places.clone(), stock: Arc::default() })
    }

    /// As [`Sandbox::prepare`], for a component that exports `lro-query`.
    ///
    /// # Errors
    /// As [`Sandbox::prepare`].
    pub fn prepare_extraction(&self, component: &Component) -> wasmtime::Result<PreparedExtraction> {
        let pre = LroExtractPre::new(self.linker.instantiate_pre(component)?)?;
        Ok(PreparedExtraction { pre, wasi: self.wasi.clone(), places: self.places.clone() })
    }
}

/// A compiled component that answers questions, with its imports resolved.
#[derive(Clone)]
pub struct PreparedExtraction {
    pub(super) pre: LroExtractPre<State>,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) places: Places,
}

impl std::fmt::Debug for PreparedExtraction {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("PreparedExtraction").finish_non_exhaustive()
    }
}

/// A compiled policy with its imports resolved.
#[derive(Clone)]
pub struct Prepared {
    pub(super) pre: LroPolicyPre<State>,
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) places: Places,
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

fn pool() -> InstanceAllocationStrategy {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(Places::ALL)
        .total_stacks(Places::ALL)
        .async_stack_keep_resident(RESIDENT_STACK_BYTES)
        .max_core_instances_per_component(POOLED_INSTANCES_MAX)
        .total_core_instances(Places::ALL * POOLED_INSTANCES_MAX)
        .max_memories_per_component(POOLED_MEMORIES_MAX)
        .total_memories(Places::ALL * POOLED_MEMORIES_MAX)
        .max_tables_per_component(POOLED_TABLES_MAX)
        .total_tables(Places::ALL * POOLED_TABLES_MAX)
        .max_memory_size(POOLED_MEMORY_BYTES_MAX)
        .table_elements(POOLED_TABLE_ELEMENTS_MAX);
    if PoolingAllocationConfig::is_pagemap_scan_available() {
        pool.pagemap_scan(Enabled::Yes).linear_memory_keep_resident(RESIDENT_BYTES).table_keep_resident(RESIDENT_BYTES);
    }
    pool.into()
}

/// Only what the world lists is linked, and what gives nothing, so a component that wants more is refused by name.
fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::<State>::new(engine);
    super::bindings::lro::filter::types::add_to_linker::<_, HasSelf<State>>(&mut linker, |state| state)?;
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
