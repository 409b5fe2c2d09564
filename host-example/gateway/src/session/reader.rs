//! What a client shows its model of a reply.

use bytes::Bytes;
use lro_host::mcp;
use lro_host::store::Offload;
use serde_json::json;

use super::Session;
use crate::settings::{ClientProfile, Sees, bytes_of};

/// Room for what stands around a tool result in a message, in bytes: an id of usual length, and the type of the result.
const ENVELOPE_BYTES: u64 = 128;

impl Session {
    /// Whether the client would cut a response with a tool result, or hide it from its model.
    pub(super) fn is_cut(&self, response: &Bytes, client: &ClientProfile) -> bool {
        let unseen = match client.sees {
            Sees::Structured => Some("content"),
            Sees::Text => Some("structuredContent"),
            Sees::Both => None,
        };
        client.text_limit.is_some_and(|limit| mcp::text_exceeds(response, unseen, limit))
    }

    /// Room for a tool result of the gateway's own, in bytes; `None` if it has no limit.
    pub(super) fn room(&self, client: &ClientProfile) -> Option<u64> {
        let own = if client.inline { client.result_limit } else { client.reply_bytes() };
        let least = own.into_iter().chain(self.rules.ceiling().map(bytes_of)).min();
        least.map(|bytes| bytes.saturating_sub(ENVELOPE_BYTES))
    }
}

/// A descriptor that says no more than where the result is, for a reader that has no room for the one of the policy.
pub(super) fn pointer(offload: &Offload) -> String {
    let guidance = format!(
        "The result was too large and is offloaded; its descriptor is too large for this client too. Ask with {} or page with {}.",
        mcp::EXTRACT_TOOL,
        mcp::READ_TOOL
    );
    json!({ "offloaded": true, "handle": offload.id().to_string(), "guidance": guidance }).to_string()
}
