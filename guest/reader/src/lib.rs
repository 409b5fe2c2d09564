//! Reads offloads, as a component of the world `lro-reader`: the tools `lro_extract` and `lro_read`, and resources.
//!
//! It is the same code as in the host in Rust: `lro-reading` has the tools, and `lro-answer` answers questions.
//!
//! | module | what it does |
//! |---|---|
//! | `offload` | the manifests and files in the preopened directories |
//! | `answer` | answers to questions |
//! | `page` | pages and resources |
#![cfg(target_arch = "wasm32")]

mod answer;
mod offload;
mod page;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Reader;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter"],
        world: "lro:adapter/lro-reader",
        generate_all,
    });

    export!(Reader);
}

use bindings::exports::lro::adapter::reading::{Caller, Guest, ProtocolError};
use lro_reading::resource::{self, ResourceUri};
use lro_reading::tool::{self, EXTRACT_TOOL, ExtractArguments, Failure, READ_TOOL};

struct Reader;

impl Guest for Reader {
    fn tools() -> Vec<String> {
        tool::definitions().iter().map(ToString::to_string).collect()
    }

    fn guidance() -> String {
        tool::guidance()
    }

    fn template() -> String {
        resource::TEMPLATE.to_owned()
    }

    fn handles(tool: String, arguments: String) -> Vec<String> {
        let given = match tool.as_str() {
            EXTRACT_TOOL => match tool::extract(&arguments) {
                Ok(ExtractArguments::One { handle, .. }) => vec![handle],
                Ok(ExtractArguments::Tables { from, .. }) => from.into_iter().map(|table| table.handle).collect(),
                Err(_) => Vec::new(),
            },
            READ_TOOL => tool::read(&arguments).map(|asked| vec![asked.handle]).unwrap_or_default(),
            _ => Vec::new(),
        };
        let mut handles: Vec<String> =
            given.iter().filter_map(|handle| tool::id(handle).ok()).map(|id| id.to_string()).collect();
        handles.sort();
        handles.dedup();
        handles
    }

    fn call(caller: Caller, tool: String, arguments: String) -> Result<String, ProtocolError> {
        let answered = match tool.as_str() {
            EXTRACT_TOOL => answer::extract(&caller, &arguments),
            READ_TOOL => page::read(&caller, &arguments),
            _ => Err(Failure::unknown_tool(&tool)),
        };
        answered.or_else(Failure::answer).map_err(of_tool)
    }

    fn resource_handle(uri: String) -> Option<String> {
        ResourceUri::parse(&uri).ok().map(|uri| uri.offload.to_string())
    }

    fn read_resource(caller: Caller, uri: String, modern: bool) -> Result<String, ProtocolError> {
        page::resource(&caller, &uri, modern)
            .map_err(|message| of_tool(tool::ProtocolError::missing_resource(message, modern)))
    }
}

fn of_tool(error: tool::ProtocolError) -> ProtocolError {
    ProtocolError { code: error.code, message: error.message }
}
