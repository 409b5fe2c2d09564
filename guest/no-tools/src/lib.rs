//! A component of ACT without tools, of the world `lro-no-tools`.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::NoTools;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http", "../../wit/act"],
        world: "lro:act/lro-no-tools",
        generate_all,
    });

    export!(NoTools);
}

use bindings::act::core::types::{Error, LocalizedString, Metadata};
use bindings::act::tools::types::{ListToolsResponse, ToolEvent};
use bindings::exports::act::tools::tool_provider::{Guest, ToolResult};

struct NoTools;

impl Guest for NoTools {
    async fn list_tools(_: Metadata) -> Result<ListToolsResponse, Error> {
        Ok(ListToolsResponse { metadata: Vec::new(), tools: Vec::new() })
    }

    async fn call_tool(name: String, _: Vec<u8>, _: Metadata) -> ToolResult {
        let message = LocalizedString::Plain(format!("there is no tool `{name}`"));
        let error = Error { kind: "std:not-found".to_owned(), message, metadata: Vec::new() };
        ToolResult::Immediate(vec![ToolEvent::Error(error)])
    }
}
