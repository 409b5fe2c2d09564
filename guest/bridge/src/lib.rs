//! A policy of the contract 0.1.0 as one of the newest version: hands calls on, and converts what they say.
//!
//! The policy reads another handle of the same result: there is one result at a time.
#![cfg(target_arch = "wasm32")]

#[expect(unsafe_code, reason = "generated")]
mod bindings {
    use super::Bridge;

    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter"],
        world: "lro:adapter/lro-bridge",
        generate_all,
    });

    export!(Bridge);
}

use bindings::exports::lro::filter0_2_0::lro_filter::{
    Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict,
};
use bindings::lro::adapter::held_v01::handle;
use bindings::lro::filter0_1_0::lro_filter;

lro_contract::conversions_v0_1!(crate::bindings::lro::filter0_2_0::types, crate::bindings::lro::filter0_1_0::types);

struct Bridge;

impl Guest for Bridge {
    fn inspect_result(call: Call, _: &ToolResult) -> Result<Verdict, PolicyError> {
        lro_filter::inspect_result(&call.to(), &handle()).map(To::to).map_err(To::to)
    }

    fn write_sections(call: Call, _: &ToolResult, of_newest: Plan) -> Result<Descriptor, PolicyError> {
        lro_filter::write_sections(&call.to(), &handle(), &plan(&of_newest)?).map(To::to).map_err(To::to)
    }
}
