//! The tools that read offloads.

use lro_reading::{Budget, PAGE_BYTES_DEFAULT};
use serde_json::Value;

use crate::bindings::act::core::types::LocalizedString;
use crate::bindings::act::tools::types::{ToolDefinition, ToolEvent};
use crate::bindings::lro::adapter::reading::{self, Caller, Offload};
use crate::bindings::lro::http::store;
use crate::{INTERNAL, INVALID_ARGUMENTS, TENANT, error, events, now};

/// Code of JSON-RPC for arguments that do not fit.
const INVALID_PARAMS: i32 = -32602;

/// An offload lasts until somebody removes its directory; in a session it can be read for so many milliseconds from now on.
const LASTS: u64 = 3_600_000;

/// The definitions of both tools.
pub(crate) fn definitions() -> Vec<ToolDefinition> {
    let yes = || [("std:read-only", vec![CBOR_TRUE]), ("std:idempotent", vec![CBOR_TRUE])];
    let definition = |json: &String| {
        let tool: Value = serde_json::from_str(json).unwrap_or_default();
        let text = |name: &str| tool[name].as_str().unwrap_or_default().to_owned();
        ToolDefinition {
            name: text("name"),
            description: LocalizedString::Plain(text("description")),
            parameters_schema: tool["inputSchema"].to_string(),
            metadata: yes().map(|(name, value)| (name.to_owned(), value)).to_vec(),
        }
    };
    reading::tools().iter().map(definition).collect()
}

/// `true` in CBOR.
const CBOR_TRUE: u8 = 0xf5;

/// Calls one of the tools.
pub(crate) fn call(tool: &str, arguments: &str) -> Vec<ToolEvent> {
    let cursor_key = match store::cursor_key() {
        Ok(key) => key,
        Err(reason) => return vec![ToolEvent::Error(error(INTERNAL, reason))],
    };
    let now = now();
    let lent = store::lend(TENANT, &reading::handles(tool, arguments));
    let Budget { bytes: answer_bytes, tokens: answer_tokens } = Budget::default();
    let caller = Caller {
        tenant: TENANT.to_owned(),
        offloads: lent.into_iter().map(|handle| Offload { handle, expires: now + LASTS, intact: false }).collect(),
        now,
        cursor_key,
        answer_bytes,
        answer_tokens,
        page_bytes: PAGE_BYTES_DEFAULT,
    };
    let answered = reading::call(&caller, tool, arguments);
    store::discard();
    match answered {
        Ok(result) => events::of_mcp(&result),
        Err(wrong) => {
            let kind = if wrong.code == INVALID_PARAMS { INVALID_ARGUMENTS } else { INTERNAL };
            vec![ToolEvent::Error(error(kind, wrong.message))]
        }
    }
}
