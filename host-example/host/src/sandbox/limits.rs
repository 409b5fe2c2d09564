//! Limits of one call into a policy, and the meter that enforces them.

use std::time::Duration;

use lro_contract::settings::{Bounds, LOG_BYTES_DEFAULT};
use serde::{Deserialize, Serialize};
use wasmtime::ResourceLimiter;

use crate::units::{in_milliseconds, positive, positive_milliseconds, some_positive};

/// Limits of one call into a policy. Each has its own error in [`CallError`](super::CallError). In a configuration they
/// are at least 1, times in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Limits {
    /// Maximum time of the call, including waits in the host, but not the time without a free thread. Default: 30 s.
    #[serde(rename = "wall-time-ms", serialize_with = "in_milliseconds", deserialize_with = "positive_milliseconds")]
    pub wall_time: Duration,
    /// Maximum time that the call waits for one of the [`CONCURRENT_CALLS_MAX`](super::CONCURRENT_CALLS_MAX) permits.
    /// Default: 10 s.
    #[serde(rename = "wait-ms", serialize_with = "in_milliseconds", deserialize_with = "positive_milliseconds")]
    pub wait: Duration,
    /// Maximum linear memory in bytes. Default: 64 MiB; the built-in policy stays below 8 MiB.
    #[serde(deserialize_with = "positive")]
    pub memory_bytes: usize,
    /// Maximum elements of a table. Default: 100,000, which is also the maximum of the pool.
    #[serde(deserialize_with = "positive")]
    pub table_elements: usize,
    /// Maximum core instances, and also memories and tables. Default: 16. A component with more, or with more than 8
    /// tables or 4 memories, is not loaded.
    #[serde(deserialize_with = "positive")]
    pub instances: usize,
    /// Maximum bytes written to files. Gaps count as written, so no file is longer. Default: 4 GiB.
    #[serde(deserialize_with = "positive")]
    pub written_bytes: u64,
    /// Maximum files created. Default: 256.
    #[serde(deserialize_with = "positive")]
    pub files: u32,
    /// Maximum length of the name of a new file, in bytes. A longer name is rejected with `name-too-long`, and the
    /// policy continues. Default: 128, the maximum of the contract.
    #[serde(deserialize_with = "positive")]
    pub name_bytes: usize,
    /// Maximum files and directory listings open at the same time, including the preopened directory. Default: 64.
    #[serde(deserialize_with = "positive")]
    pub open_files: u32,
    /// Maximum bytes passed between host and policy in one step, including answers such as a descriptor. Default: 8
    /// MiB.
    #[serde(deserialize_with = "positive")]
    pub crossing_bytes: usize,
    /// Maximum bytes of text for the log: of an error, or of all notes of a descriptor. The rest is truncated. Default:
    /// 4 KiB.
    #[serde(deserialize_with = "positive")]
    pub log_bytes: usize,
    /// Maximum instructions, about one unit of fuel each: a limit that is the same on every machine and in every run.
    /// Default: `None`. Requires a sandbox created by [`Sandbox::with_fuel`](super::Sandbox::with_fuel).
    #[serde(deserialize_with = "some_positive")]
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
            written_bytes: Bounds::default().written_bytes,
            files: Bounds::default().files,
            name_bytes: Bounds::default().name_bytes as usize,
            open_files: Bounds::default().open_files,
            crossing_bytes: 8 << 20,
            log_bytes: LOG_BYTES_DEFAULT,
            fuel: None,
        }
    }
}

/// Enforces the memory and table limits and records rejected allocations, which otherwise reach the host as a plain
/// `unreachable` trap.
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
