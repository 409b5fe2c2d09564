//! Fields of records whose strings are bytes in base64.

use lro_json::unescaped_lossy;
use lro_json::walk::{elements, members, skip_white, string};
use lro_text::encoded;

use crate::media::{UNKNOWN, of_bytes};

/// Levels of containers that are searched.
const DEPTH_MAX: usize = 4;

/// The fields of a record that are bytes in base64, named as in the descriptor, each with the media type of its bytes. The record may
/// be cut anywhere; of an array the first element is searched.
pub(crate) fn fields(record: &[u8]) -> Vec<(String, &'static str)> {
    let mut found = Vec::new();
    search(record, skip_white(record, 0), "", DEPTH_MAX, &mut found);
    found
}

fn search(record: &[u8], at: usize, path: &str, depth: usize, found: &mut Vec<(String, &'static str)>) {
    match record.get(at) {
        Some(b'{') if depth > 0 => {
            // Behind a damaged member nothing can be found.
            let _ = members(record, at, |key, value| {
                let key = String::from_utf8_lossy(key.bytes);
                let path = if path.is_empty() { key.into_owned() } else { format!("{path}.{key}") };
                search(record, value, &path, depth - 1, found);
                Ok(())
            });
        }
        Some(b'[') if depth > 0 => {
            let mut is_first = true;
            let _ = elements(record, at, |element| {
                if std::mem::take(&mut is_first) {
                    search(record, element, &format!("{path}[]"), depth - 1, found);
                }
                Ok(())
            });
        }
        Some(b'"') => found.extend(bytes_at(record, at).map(|media_type| (path.to_owned(), media_type))),
        _ => {}
    }
}

/// The media type of the bytes that the string at an index encodes.
fn bytes_at(record: &[u8], at: usize) -> Option<&'static str> {
    let whole = string(record, at).ok();
    let inside = whole.map_or_else(|| record.get(at + 1..), |whole| Some(whole.bytes))?;
    let text = String::from_utf8(unescaped_lossy(inside)).ok()?;
    let encoded = encoded(&text, whole.is_some())?;
    Some(of_bytes(&encoded.beginning).unwrap_or(UNKNOWN))
}
