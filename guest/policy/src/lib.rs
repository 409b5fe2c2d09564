//! The default offload policy: passes small results, writes large ones to files, and describes them.

use dlmalloc::GlobalDlmalloc;
use lro_offload::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict, bindings, inspect, write};

/// Begins with the memory that an instance has from its start: a small result needs no more.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

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
