//! The library of offload policies: the verdict on a result, its files and its descriptor.
//!
//! [`inspect`] and [`write`] are the default policy. They read through [`Source`], so a policy that changes what it
//! reads changes files, summaries and descriptor together.
//!
//! | module | what it does |
//! |---|---|
//! | `inspect` | the verdict |
//! | `images` | images and sounds: what stays in the reply, and what it costs |
//! | `plan` | what becomes of each part, and which parts share files |
//! | `write` | writes the parts of a plan to files, one after another |
//! | `records` | the files of one JSON part |
//! | `text` | the files of one text: itself, its records or its outline |
//! | `form` | the form of a text with records |
//! | `strings` | the strings of a JSON part that are texts of their own |
//! | `array` | many values as records of one file |
//! | `rows` | the rows of a table as records of one file |
//! | `joined` | the files that many parts share |
//! | `media` | the media type of bytes |
//! | `directory` | the preopened directory and the files in it |
//! | `header` | the first line of a JSONL file |
//! | `names` | file and section names |
//! | `entry` | one written file |
//! | `encoded` | fields of records that are bytes in base64 |
//! | `sample` | a record with its values shortened |
//! | `descriptor` | what the model sees |
//! | `summary` | what the descriptor says of values |
//! | `fields` | names of fields, and those that recipes use |
//! | `recipes` | commands that run on the files |
//! | `arguments` | calls of `lro_extract` that ask about them |

mod arguments;
mod array;
mod descriptor;
mod directory;
mod encoded;
mod entry;
mod fields;
mod form;
mod header;
mod images;
mod inspect;
mod joined;
mod media;
mod names;
mod plan;
mod recipes;
mod records;
mod rows;
mod sample;
mod strings;
mod summary;
mod text;
mod tokens;
mod write;

/// Rust types of the WIT files, and the macro that exports a policy.
#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "lro-policy",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "lro_offload::bindings",
    });
}

pub use bindings::exports::lro::filter::lro_filter::{Call, Descriptor, Guest, Plan, PolicyError, ToolResult, Verdict};
use bindings::lro::filter::types::SectionShape;
pub use bindings::lro::filter::types::{Part, PartKind, PlannedPart};
pub use inspect::inspect;
use lro_jsonl::Shape;
pub use plan::{Wish, plan};
pub use write::write;

/// Names of members with the cursor of the tool's next page, which clients follow by themselves: they are written beside the
/// data, and the descriptor has no member of these names.
const CURSORS: [&str; 2] = ["nextCursor", "next_cursor"];

/// Bytes read at a time.
const SLICE_BYTES: u32 = 256 * 1024;

/// The input of a policy: a tool result, or a policy's transformation of one. Every read returns the same.
pub trait Source {
    /// The parts, in the order of the result.
    fn parts(&self) -> Vec<Part>;

    /// Calls `each` with every slice of a part that is not binary, from its beginning, until it returns false. A slice
    /// is not empty, and the first one is shorter than 4 KiB only when it is the whole part.
    ///
    /// # Errors
    /// The errors of `each`, and [`PolicyError::Read`].
    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError>;

    /// The next bytes of a binary part from an offset; empty only at its end.
    ///
    /// # Errors
    /// [`PolicyError::Read`].
    fn read_bytes(&self, part: u32, offset: u64) -> Result<Vec<u8>, PolicyError>;
}

impl Source for ToolResult {
    fn parts(&self) -> Vec<Part> {
        Self::parts(self)
    }

    fn read_text(&self, part: u32, each: &mut dyn FnMut(&str) -> Result<bool, PolicyError>) -> Result<(), PolicyError> {
        let mut offset = 0;
        loop {
            let slice = Self::read_text(self, part, offset, SLICE_BYTES).map_err(PolicyError::Read)?;
            if slice.is_empty() || !each(&slice)? {
                return Ok(());
            }
            offset += slice.len() as u64;
        }
    }

    fn read_bytes(&self, part: u32, offset: u64) -> Result<Vec<u8>, PolicyError> {
        Self::read_bytes(self, part, offset, SLICE_BYTES).map_err(PolicyError::Read)
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
            // A single value is written as an element of an array.
            SectionShape::Elements | SectionShape::Value => Self::Elements,
            SectionShape::Members => Self::Members,
        }
    }
}
