//! The tools that read offloads.

use std::cell::OnceCell;

use lro_reading::tool::{EXTRACT_TOOL, READ_TOOL};
use lro_reading::{Budget, PAGE_BYTES_DEFAULT};
use serde_json::Value;

use crate::bindings::act::core::types::LocalizedString;
use crate::bindings::act::tools::types::{ToolDefinition, ToolEvent};
use crate::bindings::lro::adapter::reading::{self, Caller, Offload};
use crate::bindings::wasi::random0_3_0::random::get_random_bytes;
use crate::{INTERNAL, INVALID_ARGUMENTS, TENANT, error, events, now};

/// Code of JSON-RPC for arguments that do not fit.
const INVALID_PARAMS: i32 = -32602;

/// An offload lasts until somebody removes its directory; in a session it can be read for so many milliseconds from now on.
const LASTS: u64 = 3_600_000;

thread_local! {
    /// What signs the cursors of this instance.
    static CURSOR_KEY: OnceCell<Vec<u8>> = const { OnceCell::new() };
}

pub(crate) fn has(tool: &str) -> bool {
    tool == EXTRACT_TOOL || tool == READ_TOOL
}

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
    let now = now();
    let handles = reading::handles(tool, arguments);
    let Budget { bytes: answer_bytes, tokens: answer_tokens } = Budget::default();
    let caller = Caller {
        tenant: TENANT.to_owned(),
        offloads: handles.into_iter().map(|handle| Offload { handle, expires: now + LASTS }).collect(),
        now,
        cursor_key: CURSOR_KEY.with(|key| key.get_or_init(|| get_random_bytes(32)).clone()),
        answer_bytes,
        answer_tokens,
        page_bytes: PAGE_BYTES_DEFAULT,
    };
    match reading::call(&caller, tool, arguments) {
        Ok(result) => events::of_mcp(&result),
        Err(wrong) => {
            let kind = if wrong.code == INVALID_PARAMS { INVALID_ARGUMENTS } else { INTERNAL };
            vec![ToolEvent::Error(error(kind, wrong.message))]
        }
    }
}
