//! Loading, admission, parking and trial of policies. All tenants share the first three tables.

use std::num::{NonZeroU32, NonZeroU64};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::at_least_one;
use lro_host::policy;

/// Limits of loading a policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Loading {
    /// Maximum size of a component, in bytes. Default: 64 MiB.
    pub component_bytes: NonZeroU64,
    /// Milliseconds that compiling a component may take, and may wait for its turn. Default: 30,000.
    pub compile_ms: NonZeroU64,
    /// Address space of the compiling process, in bytes. Default: 1 GiB.
    pub compile_memory_bytes: NonZeroU64,
}

impl Default for Loading {
    fn default() -> Self {
        let policy::CompileLimits { time, memory_bytes, .. } = policy::CompileLimits::default();
        Self {
            component_bytes: at_least_one(policy::POLICY_BYTES_MAX),
            compile_ms: milliseconds(time),
            compile_memory_bytes: at_least_one(memory_bytes),
        }
    }
}

impl From<&Loading> for policy::CompileLimits {
    fn from(loading: &Loading) -> Self {
        Self {
            time: Duration::from_millis(loading.compile_ms.get()),
            memory_bytes: loading.compile_memory_bytes.get(),
            ..Self::default()
        }
    }
}

/// How many calls of one tenant run at the same time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Admission {
    /// Calls that run at the same time. Default: 128.
    pub calls: NonZeroU32,
    /// Calls that may wait for their turn. Default: 1,024. While as many results wait for a thread, the gateway stops
    /// reading from the server.
    pub waiting: u32,
    /// Milliseconds that a call may wait. Default: 1,000.
    pub wait_ms: u64,
    /// Questions about offloads that may wait for their turn. Further ones are refused. Default: 64.
    pub questions: u32,
}

/// Default of [`Admission::questions`]. At least two questions run at a time, and most take less than a second.
const QUESTIONS_WAITING_DEFAULT: u32 = 64;

impl Default for Admission {
    fn default() -> Self {
        let policy::Admission { calls, waiting, wait } = policy::Admission::default();
        let calls = NonZeroU32::new(calls).unwrap_or(NonZeroU32::MIN);
        Self { calls, waiting, wait_ms: milliseconds(wait).get(), questions: QUESTIONS_WAITING_DEFAULT }
    }
}

impl From<&Admission> for policy::Admission {
    fn from(admission: &Admission) -> Self {
        let Admission { calls, waiting, wait_ms, .. } = *admission;
        Self { calls: calls.get(), waiting, wait: Duration::from_millis(wait_ms) }
    }
}

/// When a failing policy is parked: its calls then get the result of the failure mode at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Breaker {
    /// Consecutive failures that park a policy. Default: 5.
    pub failures: NonZeroU32,
    /// Milliseconds until a parked policy is tried again; doubled after each failure. Default: 1,000.
    pub pause_ms: NonZeroU64,
    /// Maximum of these milliseconds. Default: 60,000.
    pub pause_max_ms: NonZeroU64,
}

impl Default for Breaker {
    fn default() -> Self {
        let policy::BreakerSettings { failures, pause, pause_max } = policy::BreakerSettings::default();
        let failures = NonZeroU32::new(failures).unwrap_or(NonZeroU32::MIN);
        Self { failures, pause_ms: milliseconds(pause), pause_max_ms: milliseconds(pause_max) }
    }
}

impl From<&Breaker> for policy::BreakerSettings {
    fn from(breaker: &Breaker) -> Self {
        Self {
            failures: breaker.failures.get(),
            pause: Duration::from_millis(breaker.pause_ms.get()),
            pause_max: Duration::from_millis(breaker.pause_max_ms.get()),
        }
    }
}

/// How a new version of a policy runs beside the current one before it replaces it. Without `calls` and `seconds` it
/// replaces it at once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Trial {
    /// Number of results to compare. Default: unlimited.
    pub calls: Option<NonZeroU64>,
    /// Maximum duration in seconds. Default: unlimited.
    pub seconds: Option<NonZeroU64>,
    /// Whether the new version replaces the current one if all decisions agreed. Default: false, it is dropped, and the
    /// report shows the differences.
    pub promote: bool,
}

impl From<&Trial> for Option<policy::Trial> {
    fn from(trial: &Trial) -> Self {
        let Trial { calls, seconds, promote } = *trial;
        let time = seconds.map(|seconds| Duration::from_secs(seconds.get()));
        (calls.is_some() || seconds.is_some()).then(|| policy::Trial {
            calls: calls.map(NonZeroU64::get),
            time,
            promote,
        })
    }
}

fn milliseconds(time: Duration) -> NonZeroU64 {
    at_least_one(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}
