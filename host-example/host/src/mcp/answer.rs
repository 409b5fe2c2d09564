//! Replies to the client, by outcome.

use bytes::Bytes;
use lro_mcp::{Replacement, ToolResult, Truncation};

use crate::filter::{self, Outcome};

/// Builds the message for the client. A result that passes is forwarded byte for byte.
pub fn answer(result: &ToolResult, outcome: &Outcome) -> Bytes {
    match outcome {
        Outcome::Pass => result.pass(),
        Outcome::Offload(offloaded) => {
            let (descriptor, kept) = (offloaded.descriptor.as_str(), offloaded.kept.as_slice());
            result.offloaded(&Replacement { descriptor, kept, ..Replacement::default() }).into()
        }
        Outcome::Truncate { truncation, warning } => result.truncated(&of(truncation, warning.as_deref())).into(),
        Outcome::Reject(text) | Outcome::Fail(text) => result.rejected(text).into(),
    }
}

/// As [`answer`], for a tool that keeps its output schema: a truncated result conforms to it by `short`, the shortened
/// structured content, or becomes a tool error. See [`ToolResult::truncated_within_schema`].
pub fn answer_within_schema(result: &ToolResult, outcome: &Outcome, short: Option<&[u8]>) -> Bytes {
    match outcome {
        Outcome::Truncate { truncation, warning } => {
            result.truncated_within_schema(&of(truncation, warning.as_deref()), short).into()
        }
        outcome => answer(result, outcome),
    }
}

fn of<'a>(truncation: &'a filter::Truncation, warning: Option<&'a str>) -> Truncation<'a> {
    Truncation { limit: truncation.limit, suffix: &truncation.suffix, warning: warning.unwrap_or_default() }
}
