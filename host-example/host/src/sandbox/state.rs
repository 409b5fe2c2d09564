//! State of one call: the payload, the directory, the output, the limits. It is dropped with the call's store.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lro_payload::{self as payload, PayloadReader};
use wasmtime::component::{Resource, ResourceTable};
use wasmtime_wasi::filesystem::{FsPerms, WasiFilesystemCtx};

use super::bindings::lro::filter::types;
use super::limits::{Limits, Meter};
use super::output::{OpenFile, OpenPermit, Output};
use super::streams::FileStream;
use crate::ahead::Incoming;
use crate::job;

/// Maximum number of handles of all kinds that a policy holds at a time, including the result, open files and listings.
const HANDLES_MAX: usize = 4_096;

/// The data of one call's store.
pub(super) struct CallState {
    pub(super) wasi: WasiFilesystemCtx,
    pub(super) table: ResourceTable,
    pub(super) meter: Meter,
    pub(super) clock: Clock,
    pub(super) output: Output,
    /// The preopened directories: the staging directory of the call, or published ones to read; none for an inspection.
    pub(super) directories: Vec<(File, FsPerms)>,
    /// What other threads read, until it is opened.
    pub(super) incoming: Incoming,
    /// Open files, by descriptor handle.
    pub(super) files: BTreeMap<u32, Arc<OpenFile>>,
    /// Permits of open directories and listings, by handle.
    pub(super) open_permits: BTreeMap<u32, OpenPermit>,
    /// Numbers of open preopened directories, by descriptor handle.
    pub(super) preopens: BTreeMap<u32, usize>,
    /// File streams, by handle.
    pub(super) streams: BTreeMap<u32, FileStream>,
    /// State of the fixed sequence of random numbers.
    pub(super) random: u64,
}

impl CallState {
    pub(super) fn new(
        wasi: WasiFilesystemCtx,
        limits: &Limits,
        directories: Vec<(File, FsPerms)>,
        writes_back: bool,
    ) -> Self {
        let mut table = ResourceTable::new();
        table.set_max_capacity(HANDLES_MAX);
        let clock = Clock::start();
        let deadline = clock.started + limits.wall_time;
        Self {
            wasi,
            table,
            meter: Meter::new(limits),
            clock,
            output: Output::new(limits, deadline, writes_back),
            directories,
            incoming: Incoming::default(),
            files: BTreeMap::new(),
            open_permits: BTreeMap::new(),
            preopens: BTreeMap::new(),
            streams: BTreeMap::new(),
            random: 0,
        }
    }
}

/// Time used by a call: since its start, without the time in which it waited for a thread or for a file to arrive.
#[derive(Clone)]
pub(super) struct Clock {
    started: Instant,
    /// In nanoseconds.
    paused: Arc<AtomicU64>,
}

impl Clock {
    pub(super) fn start() -> Self {
        Self { started: Instant::now(), paused: Arc::default() }
    }

    pub(super) fn used(&self) -> Duration {
        self.started.elapsed().saturating_sub(Duration::from_nanos(self.paused.load(Ordering::Relaxed)))
    }

    /// Yields. The time until the call runs again does not count.
    pub(super) async fn pause(self) {
        let left = Instant::now();
        job::pause().await;
        self.add_pause(left);
    }

    /// Waits for a file that is on its way from a bucket. That time does not count: its requests have their own limits.
    pub(super) fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        let begun = Instant::now();
        let waited = wait();
        self.add_pause(begun);
        waited
    }

    fn add_pause(&self, begun: Instant) {
        let paused = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.paused.fetch_add(paused, Ordering::Relaxed);
    }
}

impl types::Host for CallState {}

impl types::HostToolResult for CallState {
    fn parts(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<Vec<types::Part>> {
        let reader = self.table.get(&payload)?;
        Ok(reader.payload().parts().iter().map(types::Part::from).collect())
    }

    fn read_text(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<String, types::ReadError>> {
        read_result(self.table.get_mut(&payload)?.read_text(part, offset, length))
    }

    fn read_bytes(
        &mut self,
        payload: Resource<PayloadReader>,
        part: u32,
        offset: u64,
        length: u32,
    ) -> wasmtime::Result<Result<Vec<u8>, types::ReadError>> {
        read_result(self.table.get_mut(&payload)?.read_bytes(part, offset, length))
    }

    fn drop(&mut self, payload: Resource<PayloadReader>) -> wasmtime::Result<()> {
        self.table.delete(payload)?;
        Ok(())
    }
}

impl From<&payload::Part> for types::Part {
    fn from(part: &payload::Part) -> Self {
        Self {
            kind: match part.kind {
                payload::PartKind::Text => types::PartKind::Text,
                payload::PartKind::Structured => types::PartKind::Structured,
                payload::PartKind::Binary => types::PartKind::Binary,
                payload::PartKind::Block => types::PartKind::Block,
                payload::PartKind::Meta => types::PartKind::Meta,
            },
            media_type: part.media_type.clone(),
            name: part.name.clone(),
            size: part.size(),
            complete: true,
        }
    }
}

/// Converts the result of a read for the policy. A defect of the payload ends the call instead.
fn read_result<T>(read: Result<T, payload::ReadError>) -> wasmtime::Result<Result<T, types::ReadError>> {
    let error = match read {
        Ok(slice) => return Ok(Ok(slice)),
        Err(payload::ReadError::NoSuchPart) => types::ReadError::NoSuchPart,
        Err(payload::ReadError::WrongKind) => types::ReadError::WrongKind,
        Err(payload::ReadError::InsideCharacter(start)) => types::ReadError::InsideCharacter(start),
        Err(defect @ payload::ReadError::Undecodable(_)) => return Err(defect.into()),
    };
    Ok(Err(error))
}
