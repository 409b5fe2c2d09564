//! Looks at JSON, and checks it before it leaves.

use lro_json::walk::Damaged;

/// Whether JSON is a number, or a text begins like one.
#[inline(always)]
pub(crate) fn is_number(json: &[u8]) -> bool {
    matches!(json.first(), Some(b'-' | b'0'..=b'9'))
}

/// Checks that a text is one JSON value with only white space around it.
pub(crate) fn checked(text: &[u8]) -> Result<&str, Damaged> {
    let text = std::str::from_utf8(text).map_err(|_| Damaged)?;
    lro_json::validate(text).map(|()| text).map_err(|_| Damaged)
}
