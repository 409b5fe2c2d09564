//! Conversions of the limits to the types that enforce them.

use std::num::NonZeroU64;
use std::time::Duration;

use lro_host::extract::Budget;
use lro_host::sandbox;

use super::{Limits, QueryLimits};

impl From<&Limits> for sandbox::Limits {
    fn from(limits: &Limits) -> Self {
        let size = |amount: u64| usize::try_from(amount).unwrap_or(usize::MAX);
        Self {
            wall_time: Duration::from_millis(limits.wall_time_ms.get()),
            wait: Duration::from_millis(limits.wait_ms.get()),
            memory_bytes: size(limits.memory_bytes.get()),
            table_elements: size(limits.table_elements.get()),
            instances: size(limits.instances.get()),
            written_bytes: limits.written_bytes.get(),
            files: u32::try_from(limits.files.get()).unwrap_or(u32::MAX),
            name_bytes: size(limits.name_bytes.get()),
            open_files: u32::try_from(limits.open_files.get()).unwrap_or(u32::MAX),
            crossing_bytes: size(limits.crossing_bytes.get()),
            log_bytes: size(limits.log_bytes.get()),
            fuel: limits.fuel.map(NonZeroU64::get),
        }
    }
}

impl From<&QueryLimits> for sandbox::Limits {
    /// A query writes nothing.
    fn from(limits: &QueryLimits) -> Self {
        Self {
            wall_time: Duration::from_millis(limits.wall_time_ms.get()),
            memory_bytes: usize::try_from(limits.memory_bytes.get()).unwrap_or(usize::MAX),
            written_bytes: 0,
            files: 0,
            ..Self::default()
        }
    }
}

impl From<&QueryLimits> for Budget {
    fn from(limits: &QueryLimits) -> Self {
        Self { bytes: limits.answer_bytes.get(), tokens: limits.answer_tokens.get() }
    }
}
