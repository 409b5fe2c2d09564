//! What one call of a policy may use, and the record of what it did use.

use std::time::Duration;
use wasmtime::ResourceLimiter;

/// Longest name of a file that the contract allows, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 128;

/// Bounds of one call into a policy. Each has an error of its own in [`CallError`](super::CallError).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time of the call, waiting in the host included; not the time in which no thread was free for it. 30 s.
    pub wall_time: Duration,
    /// Longest time for which the call waits for one of the
    /// [`CONCURRENT_CALLS_MAX`](super::CONCURRENT_CALLS_MAX) places. 10 s.
    pub wait: Duration,
    /// Most bytes of linear memory. 64 MiB; the default policy stays under 8 MiB.
    pub memory_bytes: usize,
    /// Most elements of a table. 100,000, which is also all there is room for.
    pub table_elements: usize,
    /// Most core instances, and as many memories and tables. 16; a component of more, or of more than 8 tables or 4
    /// memories, is not loaded at all.
    pub instances: usize,
    /// Most bytes written to files. A gap that a write leaves counts as written, so that no file is longer. 4 GiB.
    pub written_bytes: u64,
    /// Most files created. 256.
    pub files: u32,
    /// Most bytes of the name of a file that is created. A longer one is refused with `name-too-long`, and the policy goes
    /// on. 128, which is all that the contract allows.
    pub name_bytes: usize,
    /// Most files and directory listings held open at the same time, the preopened directory included. 64.
    pub open_files: u32,
    /// Most bytes that cross between host and policy in one step, an answer such as a descriptor included. 8 MiB.
    pub crossing_bytes: usize,
    /// Most bytes of text that a call leaves for the log: of an error, or of all notes of a descriptor. The rest is cut
    /// off. 4 KiB.
    pub log_bytes: usize,
    /// Most instructions, about one unit of fuel each: a bound that is the same on every machine and every run. None by
    /// default; only a sandbox made by [`Sandbox::with_fuel`](super::Sandbox::with_fuel) can keep it.
    pub fuel: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_time: Duration::from_secs(30),
            wait: Duration::from_secs(10),
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            instances: 16,
            written_bytes: 4 << 30,
            files: 256,
            name_bytes: NAME_BYTES_MAX,
            open_files: 64,
            crossing_bytes: 8 << 20,
            log_bytes: 4 << 10,
            fuel: None,
        }
    }
}

/// Enforces the memory and table limits and remembers what was refused, because a refused allocation otherwise reaches
/// the host as a mere `unreachable`.
#[derive(Debug)]
pub(super) struct Meter {
    memory_bytes_max: usize,
    table_elements_max: usize,
    instances_max: usize,
    pub(super) memory_bytes: usize,
    pub(super) memory_refused: bool,
    pub(super) table_refused: bool,
}

impl Meter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes,
            table_elements_max: limits.table_elements,
            instances_max: limits.instances,
            memory_bytes: 0,
            memory_refused: false,
            table_refused: false,
        }
    }
}

impl ResourceLimiter for Meter {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let total = self.memory_bytes.saturating_add(desired.saturating_sub(current));
        let granted = total <= self.memory_bytes_max;
        if granted {
            self.memory_bytes = total;
        } else {
            self.memory_refused = true;
        }
        Ok(granted)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let granted = desired <= self.table_elements_max;
        self.table_refused |= !granted;
        Ok(granted)
    }

    fn instances(&self) -> usize {
        self.instances_max
    }

    fn tables(&self) -> usize {
        self.instances_max
    }

    fn memories(&self) -> usize {
        self.instances_max
    }
}
