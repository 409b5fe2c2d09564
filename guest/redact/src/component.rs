//! The component: the two exports.

use dlmalloc::GlobalDlmalloc;
use lro_offload::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict, bindings};

use crate::Rules;
use crate::policy::{Redacted, describe, verdict};

/// Begins with the memory that an instance has from its start: a small result needs no more.
#[global_allocator]
static ALLOCATOR: GlobalDlmalloc = GlobalDlmalloc;

struct Redact;

bindings::export!(Redact with_types_in bindings);

impl Guest for Redact {
    fn inspect_result(call: Call, payload: &ToolResult) -> Result<Verdict, PolicyError> {
        verdict(&call, &Redacted::new(payload, &rules(&call)?))
    }

    fn write_sections(call: Call, payload: &ToolResult, plan: Plan) -> Result<Descriptor, PolicyError> {
        let rules = rules(&call)?;
        describe(call, &Redacted::new(payload, &rules), plan)
    }
}

fn rules(call: &Call) -> Result<Rules, PolicyError> {
    let custom = call.settings.custom.as_deref();
    let rules = custom.map_or_else(|| Ok(Rules::default()), Rules::read);
    rules.map_err(|wrong| PolicyError::Invalid(format!("custom: {wrong}")))
}
