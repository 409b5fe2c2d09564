//! Truncates input that is not a tool result.

use lro_host::filter::Truncation;
use lro_host::mcp;
use lro_host::settings::Size;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::input::Input;

/// Maximum UTF-8 bytes per unit of a size: a token is up to four Latin letters of two bytes each.
const BYTES_PER_UNIT_MAX: u64 = 8;

/// The structured content of a truncated tool result.
#[derive(Deserialize)]
struct Structured<'a> {
    #[serde(borrow, rename = "structuredContent")]
    value: Option<&'a RawValue>,
}

/// Truncates JSON to whole records and other text to its beginning, and replaces binary input by a note. `None` if the
/// input is within the limit.
pub(crate) fn plain(input: &Input, truncation: &Truncation, warning: &str) -> Option<String> {
    let bytes = input.bytes();
    let limit = truncation.limit;
    let Ok(text) = std::str::from_utf8(&bytes) else {
        return Some(format!("[omitted: binary content of {} bytes]\n", bytes.len()));
    };
    if !mcp::exceeds(&bytes, limit) {
        return None;
    }
    let cut = records(input, truncation, warning).filter(|records| !mcp::exceeds(records.as_bytes(), limit));
    Some(cut.unwrap_or_else(|| beginning(text, limit, &truncation.suffix)))
}

/// The first records of JSON input and the number of missing ones, as one object; `None` for other text.
fn records(input: &Input, truncation: &Truncation, warning: &str) -> Option<String> {
    let tool_result = input.as_structured()?;
    // The truncated result contains the object twice, once escaped: doubling the limit lets one copy fill it.
    let limit = Size { amount: truncation.limit.amount.saturating_mul(2), unit: truncation.limit.unit };
    let reply = tool_result.truncated(&mcp::Truncation { limit, suffix: &truncation.suffix, warning });
    let structured: Structured<'_> = serde_json::from_slice(&reply).ok()?;
    structured.value.map(|value| format!("{value}\n"))
}

/// The longest prefix that fits together with the suffix.
fn beginning(text: &str, limit: Size, suffix: &str) -> String {
    let suffix = longest(suffix, limit, "");
    format!("{}{suffix}", longest(text, limit, suffix))
}

/// The longest prefix within the limit when a suffix follows.
fn longest<'a>(text: &'a str, limit: Size, suffix: &str) -> &'a str {
    let head = |bytes: usize| text.get(..text.floor_char_boundary(bytes)).unwrap_or_default();
    let size = |text: &str| mcp::wire_size(text, limit.unit);
    let room = limit.amount.saturating_sub(size(suffix));
    let most = usize::try_from(room.saturating_mul(BYTES_PER_UNIT_MAX)).unwrap_or(usize::MAX);
    let (mut fits, mut beyond) = (0, most.min(text.len()) + 1);
    while beyond - fits > 1 {
        let middle = fits + (beyond - fits) / 2;
        if size(head(middle)) <= room {
            fits = middle;
        } else {
            beyond = middle;
        }
    }
    head(fits)
}

/// Size in bytes, characters and estimated tokens. Binary input counts the characters and tokens of its base64 form.
pub(crate) fn sizes(bytes: &[u8]) -> [u64; 3] {
    match std::str::from_utf8(bytes) {
        Ok(text) => {
            let mut measure = lro_jsonl::Measure::text();
            measure.push(text);
            [measure.bytes(), measure.characters(), measure.tokens()]
        }
        Err(_) => {
            let length = bytes.len() as u64;
            let base64 = length.div_ceil(3) * 4;
            [length, base64, base64.div_ceil(4)]
        }
    }
}
