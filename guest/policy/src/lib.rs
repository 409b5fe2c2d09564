//! The default offload policy: passes what is small, writes what is large to files, and describes it.
//!
//! | module | what it does |
//! |---|---|
//! | `inspect` | the verdict and the plan |
//! | `write` | the plan's parts to files, one after another |
//! | `records` | the files of one JSON part |
//! | `directory` | the preopened directory and the files in it |
//! | `header` | the first line of a JSONL file |
//! | `names` | file and section names |
//! | `descriptor` | what the model sees |
//! | `recipes` | commands that run on the files |
//! | `json` | writing JSON and JSON Pointers |

mod descriptor;
mod directory;
mod header;
mod inspect;
mod json;
mod names;
mod recipes;
mod records;
mod write;

mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "lro-policy", generate_all });
}

use bindings::exports::lro::filter::lro_filter::{Descriptor, Guest, Plan, PolicyError, Verdict};
use bindings::lro::filter::types::{Call, SectionShape, ToolResult};
use lro_jsonl::Shape;

struct Policy;

bindings::export!(Policy with_types_in bindings);

impl Guest for Policy {
    fn inspect_result(call: Call, payload: &ToolResult) -> Result<Verdict, PolicyError> {
        inspect::verdict(&call, payload)
    }

    fn write_sections(call: Call, payload: &ToolResult, plan: Plan) -> Result<Descriptor, PolicyError> {
        write::sections(&call, payload, &plan)
    }
}

/// Bytes asked for at a time.
const SLICE_BYTES: u32 = 256 * 1024;

/// Calls `each` with every slice of a text part, from its beginning, until it answers false.
fn read_text(
    payload: &ToolResult,
    part: u32,
    mut each: impl FnMut(&str) -> Result<bool, PolicyError>,
) -> Result<(), PolicyError> {
    let mut offset = 0;
    loop {
        let slice = payload.read_text(part, offset, SLICE_BYTES).map_err(PolicyError::Read)?;
        if slice.is_empty() || !each(&slice)? {
            return Ok(());
        }
        offset += slice.len() as u64;
    }
}

impl From<Shape> for SectionShape {
    fn from(shape: Shape) -> Self {
        match shape {
            Shape::Elements => Self::Elements,
            Shape::Members => Self::Members,
        }
    }
}

impl From<SectionShape> for Shape {
    fn from(shape: SectionShape) -> Self {
        match shape {
            SectionShape::Elements => Self::Elements,
            SectionShape::Members => Self::Members,
        }
    }
}
