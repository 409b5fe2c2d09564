//! Structured content shortened within its own schema, for clients that need its shape more than its data.

use jsonschema::Validator;

use crate::mcp;

/// How many elements of each array are kept, tried in this order: a schema may ask for a least number.
const ELEMENTS: [usize; 3] = [3, 1, 0];

/// Longest shortened structured content, in bytes. A longer one is no help.
pub(super) const SHAPE_BYTES_MAX: usize = 20_000;

/// The structured content with short arrays and strings; none when it is still long, or its schema does not allow it.
pub(super) fn shortened(structured: &[u8], schema: &Validator) -> Option<Vec<u8>> {
    ELEMENTS.into_iter().find_map(|elements| {
        let short = mcp::shortened(structured, elements, SHAPE_BYTES_MAX)?;
        let value = serde_json::from_slice(&short).ok()?;
        schema.is_valid(&value).then_some(short)
    })
}
