//! A component with tools for ACT. Its tool `records` gives as many records as the argument `count` says, in one JSON array, and with
//! `stream` as a stream of one event; the tool `fail` gives an error.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Tools;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http", "../../wit/act"],
        world: "lro:act/lro-no-tools",
        generate_all,
    });

    export!(Tools);
}

use bindings::act::core::types::{Error, LocalizedString, Metadata};
use bindings::act::tools::types::{ContentPart, ListToolsResponse, ToolDefinition, ToolEvent};
use bindings::exports::act::tools::tool_provider::{Guest, ToolResult};
use bindings::wit_stream;
use serde_json::{Value, json};

struct Tools;

impl Guest for Tools {
    async fn list_tools(_: Metadata) -> Result<ListToolsResponse, Error> {
        let tools = ["records", "fail"].map(|name| ToolDefinition {
            name: name.to_owned(),
            description: LocalizedString::Plain("A tool of a test".to_owned()),
            parameters_schema: json!({ "type": "object" }).to_string(),
            metadata: Vec::new(),
        });
        Ok(ListToolsResponse { metadata: Vec::new(), tools: tools.into() })
    }

    async fn call_tool(name: String, arguments: Vec<u8>, _: Metadata) -> ToolResult {
        let arguments: Value = ciborium::from_reader(arguments.as_slice()).unwrap_or_default();
        if name != "records" {
            let message = LocalizedString::Plain("it failed".to_owned());
            let error = Error { kind: "std:internal".to_owned(), message, metadata: Vec::new() };
            return ToolResult::Immediate(vec![ToolEvent::Error(error)]);
        }
        let count = arguments["count"].as_u64().unwrap_or_default();
        let records: Vec<Value> =
            (0..count).map(|id| json!({ "id": id, "name": format!("record {id}"), "even": id % 2 == 0 })).collect();
        let data = json!({ "items": records }).to_string().into_bytes();
        let event = ToolEvent::Content(ContentPart {
            data,
            mime_type: Some("application/json".to_owned()),
            metadata: Vec::new(),
        });
        if arguments["stream"] != true {
            return ToolResult::Immediate(vec![event]);
        }
        let (mut writer, reader) = wit_stream::new();
        wit_bindgen::spawn_local(async move {
            writer.write_all(vec![event]).await;
        });
        ToolResult::Streaming(reader)
    }
}
