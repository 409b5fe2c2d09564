//! The default offload policy: passes small results, writes large ones to files, and describes them.

use lro_offload::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict, bindings, inspect, write};

struct Policy;

bindings::export!(Policy with_types_in bindings);

impl Guest for Policy {
    fn inspect_result(call: Call, payload: &ToolResult) -> Result<Verdict, PolicyError> {
        inspect(&call, payload)
    }

    fn write_sections(call: Call, payload: &ToolResult, plan: Plan) -> Result<Descriptor, PolicyError> {
        write(&call, payload, &plan)
    }
}
