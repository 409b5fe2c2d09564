//! A store that keeps nothing, a component of the world `lro-store-memory`: the files of a call are in the memory of the filter, and
//! gone with its next call. What reads them has no tools, and is never asked.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Memory;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter", "../../wit/http"],
        world: "lro:http/lro-store-memory",
        generate_all,
    });

    export!(Memory);
}

use bindings::exports::lro::adapter::reading::{self, Caller, ProtocolError};
use bindings::exports::lro::http::store;

/// JSON-RPC code of a method that does not exist.
const METHOD_NOT_FOUND: i32 = -32601;

struct Memory;

impl store::Guest for Memory {
    fn publish(_: String, _: String, _: store::Bounds) -> Result<(), String> {
        Ok(())
    }

    fn discard() {}

    fn lend(_: String, _: Vec<String>) -> Vec<String> {
        Vec::new()
    }

    fn cursor_key() -> Result<Vec<u8>, String> {
        Err("nothing is kept".to_owned())
    }
}

impl reading::Guest for Memory {
    fn tools() -> Vec<String> {
        Vec::new()
    }

    fn guidance() -> String {
        String::new()
    }

    fn template() -> String {
        String::new()
    }

    fn handles(_: String, _: String) -> Vec<String> {
        Vec::new()
    }

    fn call(_: Caller, _: String, _: String) -> Result<String, ProtocolError> {
        Err(nothing_kept())
    }

    fn resource_handle(_: String) -> Option<String> {
        None
    }

    fn read_resource(_: Caller, _: String, _: bool) -> Result<String, ProtocolError> {
        Err(nothing_kept())
    }
}

fn nothing_kept() -> ProtocolError {
    ProtocolError { code: METHOD_NOT_FOUND, message: "nothing is kept".to_owned() }
}
