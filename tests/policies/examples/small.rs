//! The smallest policy, as `host-example/docs/how-to/policies.md` shows it.
#![allow(missing_docs, unsafe_code, reason = "generated")]

wit_bindgen::generate!({ path: "../../wit", world: "lro-policy", generate_all });
use exports::lro::filter::lro_filter::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict};

struct Small;
export!(Small);

impl Guest for Small {
    fn inspect_result(call: Call, result: &ToolResult) -> Result<Verdict, PolicyError> {
        let bytes: u64 = result.parts().iter().map(|part| part.size).sum();
        Ok(if bytes > 100_000 { Verdict::Reject(format!("ask `{}` for less", call.tool)) } else { Verdict::Pass })
    }

    fn write_sections(_: Call, _: &ToolResult, _: Plan) -> Result<Descriptor, PolicyError> {
        Err(PolicyError::Other("nothing is ever offloaded".to_owned()))
    }
}
