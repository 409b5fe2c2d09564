//! Structured content shortened within its own schema, for clients that need its shape more than its data.

use lro_host::mcp::{self, OutputSchema, SchemaError};

/// How many elements of each array are kept, tried in this order: a schema may ask for a least number.
const ELEMENTS: [usize; 3] = [3, 1, 0];

/// Longest shortened structured content, in bytes. A longer one is no help.
pub(crate) const SHAPE_BYTES_MAX: usize = 20_000;

/// The structured content with short arrays and strings; none when it is still long, or its schema does not allow it.
///
/// # Errors
/// When it is not known whether the schema allows it.
pub(crate) fn shortened(structured: &[u8], schema: &[u8]) -> Result<Option<Vec<u8>>, SchemaError> {
    let schema = OutputSchema::read(schema)?;
    for elements in ELEMENTS {
        let Some(short) = mcp::shortened(structured, elements, SHAPE_BYTES_MAX) else { continue };
        let Ok(value) = serde_json::from_slice(&short) else { continue };
        if schema.allows(&value)? {
            return Ok(Some(short));
        }
    }
    Ok(None)
}
