//! Why a result was not filtered.

use std::sync::Arc;
use std::time::Duration;

use crate::policy::SlotError;
use crate::sandbox::{CallError, one_line};
use crate::store::StoreError;

/// Maximum length in bytes of a panic message in an error.
const PANIC_MESSAGE_BYTES_MAX: usize = 500;

/// Why a policy's decision was not carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// A call into the policy failed.
    #[error("the policy {0}")]
    Call(CallError),
    /// Opening the store, staging or publishing failed.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
    /// The policy's answer is invalid or does not match what it wrote.
    #[error("the policy answered with {0}")]
    Answer(String),
    /// The system provided no random numbers for an id.
    #[error("cannot generate an id: no random numbers available")]
    Random(#[source] std::io::Error),
    /// The call was not admitted.
    #[error(transparent)]
    Slot(#[from] SlotError),
    /// The call did not return in time.
    #[error("the policy did not come back within {} ms", .0.as_millis())]
    Lost(Duration),
    /// The host panicked during the call. Its instance, permit and directory are released; other calls are not
    /// affected.
    #[error("the host panicked: {}", one_line(.0, PANIC_MESSAGE_BYTES_MAX))]
    Panic(String),
}

impl FilterError {
    /// Kind of the error in one word, for logs and metrics.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Call(CallError::Deadline(_)) => "deadline",
            Self::Call(CallError::Memory(_)) => "memory",
            Self::Call(CallError::Table(_)) => "table",
            Self::Call(CallError::Instances(_)) => "instances",
            Self::Call(CallError::Fuel(_) | CallError::FuelDisabled) => "fuel",
            Self::Call(CallError::Stack) => "stack",
            Self::Call(CallError::Crossing(_)) => "crossing",
            Self::Call(CallError::Quota { .. }) => "quota",
            Self::Call(CallError::Busy(_)) => "busy",
            Self::Call(CallError::Trap(_)) => "trap",
            Self::Call(CallError::Policy(_)) => "refused",
            Self::Call(CallError::Output(_)) => "output",
            Self::Store(_) => "store",
            Self::Answer(_) => "answer",
            Self::Random(_) => "random",
            Self::Slot(SlotError::Absent(_)) => "absent",
            Self::Slot(SlotError::Busy(_)) => "busy",
            Self::Slot(SlotError::Parked(_)) => "parked",
            Self::Lost(_) => "lost",
            Self::Panic(_) => "panic",
        }
    }

    /// Whether the policy was not called because too many calls are running. Such a result has not been inspected,
    /// so it must not pass.
    pub(super) fn is_busy(&self) -> bool {
        matches!(self, Self::Call(CallError::Busy(_)) | Self::Slot(SlotError::Busy(_)))
    }

    /// Error message for clients, without paths of this machine and internals of the host. The full message is in the
    /// log.
    pub fn for_client(&self) -> String {
        match self {
            Self::Store(error) => error.for_client(),
            Self::Panic(_) => "the host panicked".to_owned(),
            error => error.to_string(),
        }
    }

    /// Whether the policy is at fault, and not the result, its settings or the disk. Repeated failures of this kind
    /// park the policy.
    pub fn is_fault_of_policy(&self) -> bool {
        let is_call_at_fault = |error: &CallError| {
            use CallError::{Crossing, Deadline, Fuel, Instances, Memory, Stack, Table, Trap};
            matches!(error, Crossing(_) | Deadline(_) | Fuel(_) | Instances(_) | Memory(_) | Stack | Table(_) | Trap(_))
        };
        match self {
            Self::Call(error) => is_call_at_fault(error),
            Self::Answer(_) => true,
            _ => false,
        }
    }
}

impl From<StoreError> for FilterError {
    fn from(error: StoreError) -> Self {
        match error {
            // The policy wrote the directory.
            StoreError::Unexpected { path, reason } => {
                // Clients do not see the path.
                let name = path.file_name().unwrap_or_default();
                Self::Answer(format!("a false account of its files: {name:?}: {reason}"))
            }
            error => Self::Store(Arc::new(error)),
        }
    }
}

impl From<CallError> for FilterError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}
