//! Texts in JSON: where they are, and other texts in their place.

use std::ops::Range;

use lro_json::write::string;
use lro_json::{Member, elements, members, unescaped_lossy};

/// How deep texts are looked for in the answer of a tool.
const DEPTH_MAX: usize = 4;

/// Members that hold what a model sees of a result. Others are for people or programs, such as the text of a file before it was
/// edited, or bytes.
const TEXTS: [&str; 6] = ["stdout", "stderr", "content", "output", "result", "text"];

/// A member of an object, without escapes in its key.
pub(super) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let members = members(object).ok()?;
    members.into_iter().rev().find(|member| key_of(member) == key).map(|member| member.value)
}

/// The text of a member that is a string.
pub(super) fn text_member(object: &str, key: &str) -> Option<String> {
    member(object, key).filter(|value| value.starts_with('"')).map(text_of)
}

/// The text of a JSON string. A lone surrogate, which JavaScript writes where it has cut a text, is U+FFFD.
pub(super) fn text_of(literal: &str) -> String {
    let inside = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or_default();
    String::from_utf8(unescaped_lossy(inside.as_bytes())).unwrap_or_default()
}

/// The places of the strings in `value` that a model sees.
pub(super) fn places(value: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    find(value, "", DEPTH_MAX, &mut found);
    let start = |part: &str| part.as_ptr() as usize - value.as_ptr() as usize;
    found.into_iter().map(|part| start(part)..start(part) + part.len()).collect()
}

fn find<'a>(value: &'a str, key: &str, depth: usize, found: &mut Vec<&'a str>) {
    if depth == 0 {
        return;
    }
    match value.as_bytes().first() {
        Some(b'"') if TEXTS.contains(&key) => found.push(value),
        Some(b'{') => {
            for member in members(value).unwrap_or_default() {
                find(member.value, &key_of(&member), depth - 1, found);
            }
        }
        Some(b'[') => {
            for part in elements(value).unwrap_or_default() {
                find(part, key, depth - 1, found);
            }
        }
        _ => {}
    }
}

fn key_of(member: &Member<'_>) -> String {
    text_of(member.key)
}

/// An object without these members.
pub(super) fn without(object: &str, keys: &[&str]) -> String {
    let kept = members(object).unwrap_or_default().into_iter().filter(|member| !keys.contains(&&*key_of(member)));
    let kept: Vec<String> = kept.map(|Member { key, value }| format!("{key}:{value}")).collect();
    format!("{{{}}}", kept.join(","))
}

/// The text with other JSON strings at these places, which are in order.
pub(super) fn replaced(value: &str, places: &[(Range<usize>, String)]) -> String {
    let mut new = String::with_capacity(value.len());
    let mut at = 0;
    for (place, text) in places {
        new.push_str(value.get(at..place.start).unwrap_or_default());
        new.push_str(&string(text));
        at = place.end;
    }
    new.push_str(value.get(at..).unwrap_or_default());
    new
}

/// The texts of the content of a tool result, one after the other.
pub(super) fn text_of_result(result: &str) -> String {
    let blocks = member(result, "content").and_then(|content| elements(content).ok()).unwrap_or_default();
    blocks.into_iter().filter_map(|block| text_member(block, "text")).collect::<Vec<_>>().join("\n")
}

/// Whether a value is a list of content blocks with texts, and nothing else.
pub(super) fn is_texts(value: &str) -> bool {
    let is_text = |block: &str| text_member(block, "type").as_deref() == Some("text");
    elements(value).is_ok_and(|blocks| !blocks.is_empty() && blocks.into_iter().all(is_text))
}
