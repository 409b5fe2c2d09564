//! What one call of a policy may use, and the record of what it did use.

use std::time::Duration;
use wasmtime::ResourceLimiter;

/// Bounds of one call into a policy. Each has an error of its own in [`CallError`](super::CallError).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest time of the call, waiting in the host included. 30 s.
    pub wall_time: Duration,
    /// Most bytes of linear memory. 64 MiB; the default policy stays under 8 MiB.
    pub memory_bytes: usize,
    /// Most elements of a table. 100,000.
    pub table_elements: usize,
    /// Most core instances, and as many memories and tables. 16.
    pub instances: usize,
    /// Most bytes written to files. 4 GiB.
    pub written_bytes: u64,
    /// Most files created. 256.
    pub files: u32,
    /// Most bytes that cross between host and policy in one step, an answer such as a descriptor included. 8 MiB.
    pub crossing_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            wall_time: Duration::from_secs(30),
            memory_bytes: 64 << 20,
            table_elements: 100_000,
            instances: 16,
            written_bytes: 4 << 30,
            files: 256,
            crossing_bytes: 8 << 20,
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
}

impl Meter {
    pub(super) fn new(limits: &Limits) -> Self {
        Self {
            memory_bytes_max: limits.memory_bytes,
            table_elements_max: limits.table_elements,
            instances_max: limits.instances,
            memory_bytes: 0,
            memory_refused: false,
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
        Ok(desired <= self.table_elements_max)
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
