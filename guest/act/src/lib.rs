//! Tools for ACT, a component of the world `lro-act`: the tools of the component behind it, whose results it filters, and the tools
//! `lro_extract` and `lro_read`, which read what was offloaded.
//!
//! | module | what it does |
//! |---|---|
//! | `events` | results as ACT and as MCP have them |
//! | `filtered` | the result of a tool through the filter |
//! | `own` | the tools that read offloads |
#![cfg(target_arch = "wasm32")]

mod events;
mod filtered;
mod own;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Act;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http", "../../wit/act"],
        world: "lro:act/lro-act",
        generate_all,
    });

    export!(Act);
}

use bindings::act::core::types::{Cbor, Error, LocalizedString, Metadata};
use bindings::act::tools::tool_provider as behind;
use bindings::act::tools::types::{ListToolsResponse, ToolEvent};
use bindings::exports::act::tools::tool_provider::{Guest, ToolResult};
use bindings::wasi::clocks0_3_0::system_clock;
use lro_reading::tool::reads_offloads;
use serde_json::Value;

/// Whose offloads these are. An ACT host has one user.
const TENANT: &str = "default";

/// Kinds of errors that ACT knows.
const INVALID_ARGUMENTS: &str = "std:invalid-args";
const INTERNAL: &str = "std:internal";

struct Act;

impl Guest for Act {
    async fn list_tools(metadata: Metadata) -> Result<ListToolsResponse, Error> {
        let mut listed = behind::list_tools(metadata).await?;
        listed.tools.retain(|tool| !reads_offloads(&tool.name));
        listed.tools.extend(own::definitions());
        Ok(listed)
    }

    async fn call_tool(name: String, arguments: Cbor, metadata: Metadata) -> ToolResult {
        let events = match json_of(&arguments) {
            Ok(json) if reads_offloads(&name) => own::call(&name, &json),
            Ok(json) => {
                let result = behind::call_tool(name.clone(), arguments, metadata).await;
                match filtered::collected(result).await {
                    Ok(events) => filtered::of(events, &name, json),
                    Err(error) => vec![ToolEvent::Error(error)],
                }
            }
            Err(error) => vec![ToolEvent::Error(error)],
        };
        ToolResult::Immediate(events)
    }
}

fn error(kind: &str, message: String) -> Error {
    Error { kind: kind.to_owned(), message: LocalizedString::Plain(message), metadata: Vec::new() }
}

/// Arguments as JSON. Bytes and tags have no form in it.
fn json_of(arguments: &[u8]) -> Result<String, Error> {
    let value: Result<Value, _> = ciborium::from_reader(arguments);
    let value =
        value.map_err(|wrong| error(INVALID_ARGUMENTS, format!("the arguments are not JSON in CBOR: {wrong}")))?;
    Ok(value.to_string())
}

/// Now, in milliseconds since 1970.
fn now() -> u64 {
    let now = system_clock::now();
    u64::try_from(now.seconds).unwrap_or_default() * 1_000 + u64::from(now.nanoseconds / 1_000_000)
}
