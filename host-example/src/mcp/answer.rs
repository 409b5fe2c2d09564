//! The reply that an outcome asks for.

use super::{Replacement, ToolResult, Truncation};
use crate::filter::Outcome;
use crate::sandbox::types;
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
            Outcome::Truncate { truncation, warning } => {
                self.truncated(&Truncation::of(truncation, warning.as_deref())).into()
            }
            Outcome::Reject(text) | Outcome::Fail(text) => self.rejected(text).into(),
        }
    }

    /// As [`ToolResult::answer`], for a tool whose output schema stays: what is truncated keeps to it with `short`, the
    /// shortened structured content, or becomes an error of the tool. See [`ToolResult::truncated_within_schema`].
    pub fn answer_within_schema(&self, outcome: &Outcome, short: Option<&[u8]>) -> Bytes {
        match outcome {
            Outcome::Truncate { truncation, warning } => {
                self.truncated_within_schema(&Truncation::of(truncation, warning.as_deref()), short).into()
            }
            outcome => self.answer(outcome),
        }
    }
}

impl<'a> Truncation<'a> {
    fn of(settings: &'a types::Truncation, warning: Option<&'a str>) -> Self {
        Self { limit: settings.limit, suffix: &settings.suffix, warning: warning.unwrap_or_default() }
    }
}
