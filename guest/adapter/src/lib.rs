//! What a host does around a policy, as a component of the world `lro-adapter`.
//!
//! It is the same code as the host in Rust: `lro-contract` has settings, conversions and the manifest. Results are taken apart where
//! they are, in the component that owns them: see `lro-results`.
//!
//! | module | what it does |
//! |---|---|
//! | `filter` | one result through the policy |
//! | `record` | checks the files of an offload, and writes its manifest |
#![cfg(target_arch = "wasm32")]

mod filter;
mod record;

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Adapter;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter"],
        world: "lro:adapter/lro-adapter",
        generate_all,
    });

    export!(Adapter);
}

use bindings::exports::lro::adapter::filter::{Error, Guest, Reply, Request, SizeUnit as Unit};
use lro_contract::settings::FilterSettings;
use lro_mcp::SchemaChange;
use lro_payload::SizeUnit;

/// The conversions between types of the contract and those of this component.
mod convert {
    lro_contract::conversions!(crate::bindings::lro::filter0_2_0::types);
}

/// What sanitizes a policy's texts.
mod sanitize {
    lro_contract::sanitizing!(crate::bindings::lro::filter0_2_0::types);
}

struct Adapter;

/// The settings of a request, from JSON.
fn settings(json: &str) -> Result<FilterSettings, Error> {
    FilterSettings::parse(json).map_err(Error::Settings)
}

impl Guest for Adapter {
    fn check(settings: String) -> Result<(), Error> {
        crate::settings(&settings).map(drop)
    }

    fn filter(request: Request, tool_result: u32) -> Result<Reply, Error> {
        filter::filter(request, tool_result, true)
    }

    fn filter_undigested(request: Request, tool_result: u32) -> Result<Reply, Error> {
        filter::filter(request, tool_result, false)
    }

    fn digested(sha256: Vec<Vec<u8>>) -> Result<Reply, Error> {
        filter::digested(sha256)
    }

    fn failed(request: Request, tool_result: u32, reason: String, wrote: bool) -> Result<Reply, Error> {
        filter::failed(&request, tool_result, &reason, wrote)
    }

    fn truncate(settings: String, tool_result: u32, warning: String) -> Result<String, Error> {
        filter::truncate(&settings, tool_result, &warning)
    }

    fn size(text: String, unit: Unit) -> u64 {
        let unit = match unit {
            Unit::Bytes => SizeUnit::Bytes,
            Unit::Characters => SizeUnit::Characters,
            Unit::Tokens => SizeUnit::Tokens,
        };
        lro_mcp::wire_size(&text, unit)
    }

    fn tools_list(settings: String, tool_result: String, more: Vec<String>) -> Result<String, Error> {
        let settings = crate::settings(&settings)?;
        let schema = if settings.strips_schemas { SchemaChange::Remove } else { SchemaChange::Widen };
        let changed = lro_mcp::with_tools_of_result(&tool_result, schema, &more);
        let wrong = || Error::ToolResult("not a result of `tools/list`: an object with the list `tools`".to_owned());
        changed.map(|changed| text(&changed)).ok_or_else(wrong)
    }
}

/// Text of a message, which is UTF-8.
fn text(message: &[u8]) -> String {
    String::from_utf8_lossy(message).into_owned()
}
