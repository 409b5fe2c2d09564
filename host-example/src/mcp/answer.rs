//! The reply that an outcome asks for.

use super::{Replacement, ToolResult, Truncation};
use crate::filter::Outcome;
use bytes::Bytes;

impl ToolResult {
    /// The message that goes on to the client. What passes goes on byte for byte.
    pub fn answer(&self, outcome: &Outcome) -> Bytes {
        match outcome {
            Outcome::Pass => self.pass(),
            Outcome::Offload(offloaded) => {
                let (descriptor, kept) = (offloaded.descriptor.as_str(), offloaded.kept.as_slice());
                self.offloaded(&Replacement { descriptor, kept, ..Replacement::default() }).into()
            }
            Outcome::Truncate { truncation, warning } => self
                .truncated(&Truncation {
                    limit: truncation.limit,
                    suffix: &truncation.suffix,
                    warning: warning.as_deref().unwrap_or_default(),
                })
                .into(),
            Outcome::Reject(text) | Outcome::Fail(text) => self.rejected(text).into(),
        }
    }
}
