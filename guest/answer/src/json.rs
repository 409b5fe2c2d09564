//! Checks JSON before it leaves.

use lro_json::walk::Damaged;

/// Checks that a text is one JSON value with only white space around it.
pub(crate) fn checked(text: &[u8]) -> Result<&str, Damaged> {
    let text = std::str::from_utf8(text).map_err(|_| Damaged)?;
    lro_json::validate(text).map(|()| text).map_err(|_| Damaged)
}
