//! Shortens structured content within its schema, for clients that need its shape more than its data.

use lro_host::mcp::{self, OutputSchema, SchemaError};

/// Numbers of array elements to keep, tried in this order: a schema may require a minimum.
const ELEMENTS: [usize; 3] = [3, 1, 0];

/// Maximum size of shortened structured content, in bytes.
pub(crate) const SHAPE_BYTES_MAX: usize = 20_000;

/// Shortens arrays and strings; `None` if the result is still too long or the schema does not allow it.
///
/// # Errors
/// [`SchemaError`] if the content cannot be checked against the schema.
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
