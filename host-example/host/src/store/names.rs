//! Safe file and directory names for arbitrary text.

use sha2::{Digest, Sha256};

/// Name for an empty text.
const EMPTY: &str = "none";
/// Number of digest digits at the end of a changed name.
const DIGEST_DIGITS: usize = 8;

/// Returns a safe name for any text: only `[A-Za-z0-9_-]`, 1 to `bytes_max` bytes; a smaller `bytes_max` than 16 counts
/// as 16.
///
/// Other characters become `_`. A changed or truncated text gets a suffix of `-` and 8 hexadecimal digits of its
/// SHA-256, and so does a text that already ends like that, so that different texts have different names. The name of
/// the empty text is `none`.
///
/// ```
/// # use lro_host::store::safe_name;
/// assert_eq!(safe_name("team-a", 64), "team-a");
/// assert_eq!(safe_name("../etc", 64), "___etc-f7f9121f");
/// ```
pub fn safe_name(text: &str, bytes_max: usize) -> String {
    if text.is_empty() {
        return EMPTY.to_owned();
    }
    let safe = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-');
    let bytes_max = bytes_max.max(2 * DIGEST_DIGITS);
    if text.len() <= bytes_max && text.chars().all(safe) && text != EMPTY && !ends_in_digest(text) {
        return text.to_owned();
    }
    let kept = bytes_max - DIGEST_DIGITS - 1;
    let mut name: String = text.chars().take(kept).map(|c| if safe(c) { c } else { '_' }).collect();
    name.push('-');
    for byte in Sha256::digest(text).iter().take(DIGEST_DIGITS / 2) {
        name.push_str(&format!("{byte:02x}"));
    }
    name
}

/// Whether a text ends in a suffix like that of a changed name.
fn ends_in_digest(text: &str) -> bool {
    text.rsplit_once('-').is_some_and(|(_, end)| {
        end.len() == DIGEST_DIGITS && end.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    })
}
