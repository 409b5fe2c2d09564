//! Limits of questions about offloads.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use lro_host::extract::{Budget, INSTANCES_DEFAULT};
use lro_host::sandbox::Limits;
use serde::{Deserialize, Serialize};

use super::at_least_one;

/// Default of [`QueryLimits::wall_time_ms`].
const WALL_TIME_MS_DEFAULT: u64 = 30_000;
/// Default of [`QueryLimits::memory_bytes`]: jq keeps all records at once as values, several times their size.
const MEMORY_BYTES_DEFAULT: u64 = 256 << 20;
/// Default of [`QueryLimits::waiting`]. At least two questions run at a time, and most take less than a second.
const WAITING_DEFAULT: u32 = 64;

/// Limits of one query over an offload, each at least 1; and how many of one tenant may wait.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueryLimits {
    /// Wall time in milliseconds. Default: 30,000.
    pub wall_time_ms: NonZeroU64,
    /// Linear memory in bytes. Default: 256 MiB; only a jq program over all records at once uses more than 64 MiB.
    pub memory_bytes: NonZeroU64,
    /// Bytes of an answer. Default: 20,000.
    pub answer_bytes: NonZeroU32,
    /// Estimated tokens of an answer. Default: 8,000.
    pub answer_tokens: NonZeroU32,
    /// Questions of one tenant that may wait for their turn. Further ones are refused. Default: 64.
    pub waiting: u32,
    /// Instances that answer one question about a large file together, each within these limits and on a processor that has nothing
    /// else to run. Default: 4.
    pub instances: NonZeroU32,
}

impl Default for QueryLimits {
    fn default() -> Self {
        let Budget { bytes, tokens } = Budget::default();
        Self {
            wall_time_ms: at_least_one(WALL_TIME_MS_DEFAULT),
            memory_bytes: at_least_one(MEMORY_BYTES_DEFAULT),
            answer_bytes: NonZeroU32::new(bytes).unwrap_or(NonZeroU32::MIN),
            answer_tokens: NonZeroU32::new(tokens).unwrap_or(NonZeroU32::MIN),
            waiting: WAITING_DEFAULT,
            instances: NonZeroU32::new(INSTANCES_DEFAULT).unwrap_or(NonZeroU32::MIN),
        }
    }
}

impl From<&QueryLimits> for Limits {
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
