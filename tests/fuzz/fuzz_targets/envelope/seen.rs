//! Everything that a lenient reader finds in a result was shown to the policy: one that takes the first or the last of
//! two members, skips byte order marks, and ignores the case of names.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use lro_mcp::{Kind, Message, ToolResult};
use lro_payload::{PartKind, PayloadReader};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::tree::Members;

/// Names and values of the protocol, which cannot carry data.
const KNOWN: [&str; 26] = [
    "content",
    "structuredContent",
    "_meta",
    "isError",
    "resultType",
    "type",
    "text",
    "data",
    "mimeType",
    "resource",
    "uri",
    "blob",
    "annotations",
    "audience",
    "priority",
    "lastModified",
    "image",
    "audio",
    "user",
    "assistant",
    "complete",
    "input_required",
    "task",
    "result",
    "id",
    "jsonrpc",
];

/// Members of results that are not tool results.
const ACKNOWLEDGEMENT: [&str; 15] = [
    "_meta",
    "resultType",
    "content",
    "task",
    "taskId",
    "status",
    "statusMessage",
    "createdAt",
    "lastUpdatedAt",
    "ttl",
    "ttlMs",
    "pollInterval",
    "pollIntervalMs",
    "inputRequests",
    "requestState",
];

/// Bytes of a part read at a time.
const SLICE_BYTES: u32 = 1 << 20;

/// Panics when a reader finds a string that the policy does not see.
pub(crate) fn check(bytes: &Bytes) {
    let message = Message::read(bytes.clone()).without_marks();
    let Ok(text) = std::str::from_utf8(message.bytes()) else { return };
    for takes_first in [true, false] {
        let Some(Value::Object(envelope)) = read(text, takes_first) else { continue };
        let there = |name: &str| envelope.iter().find(|(key, value)| folded(key) == name && !value.is_null());
        let Some((_, result)) = there("result").filter(|_| there("error").is_none()) else { continue };
        if message.fault().is_some() {
            continue;
        }
        assert_eq!(message.kind(), Kind::Response, "{text}");
        check_result(&message, result, text);
    }
}

fn check_result(message: &Message, found: &Value, text: &str) {
    let Ok(result) = ToolResult::of_message(message.clone()) else { return };
    if result.not_for_policy() {
        let members = found.as_object().expect("an object");
        assert!(members.keys().all(|key| ACKNOWLEDGEMENT.contains(&key.as_str())), "{text}");
        assert!(members.get("content").is_none_or(|content| content.as_array().is_some_and(Vec::is_empty)), "{text}");
        return;
    }
    let seen = seen(&result);
    let mut leaves = HashSet::new();
    strings(found, &mut leaves);
    for leaf in leaves {
        let is_seen = |text: &str| KNOWN.contains(&text) || seen.contains(text) || is_time(text);
        assert!(is_seen(&leaf) || is_copy(&leaf, &is_seen) || is_binary(&leaf, &seen), "{leaf:?} of {text}");
    }
}

/// All strings in the parts of a result, and the text of each part.
fn seen(result: &ToolResult) -> HashSet<String> {
    let mut seen = HashSet::new();
    let mut reader = PayloadReader::new(result.payload().clone());
    for (index, part) in (0..).zip(result.payload().parts()) {
        seen.extend(part.name.clone().into_iter().chain(part.media_type.clone()));
        if part.kind == PartKind::Binary {
            seen.insert(STANDARD.encode(reader.read_bytes(index, 0, SLICE_BYTES).expect("bytes")));
            continue;
        }
        let text = reader.read_text(index, 0, SLICE_BYTES).expect("a text");
        for takes_first in [true, false] {
            read(&text, takes_first).iter().for_each(|value| strings(value, &mut seen));
        }
        seen.insert(text);
    }
    seen
}

/// A text that only repeats the structured content has no part.
fn is_copy(leaf: &str, is_seen: &impl Fn(&str) -> bool) -> bool {
    let mut strings_of_leaf = HashSet::new();
    let Some(value) = read(leaf, true) else { return false };
    strings(&value, &mut strings_of_leaf);
    strings_of_leaf.iter().all(|text| is_seen(text))
}

fn is_binary(leaf: &str, seen: &HashSet<String>) -> bool {
    let text = leaf.trim_end_matches('=');
    seen.iter().any(|seen| seen.trim_end_matches('=') == text)
}

/// A value of `lastModified`.
fn is_time(text: &str) -> bool {
    text.len() < 40 && text.bytes().all(|byte| byte.is_ascii_digit() || b"-+:.TZ".contains(&byte))
}

/// A value as seen by a reader that uses the first of two members with one name, or the last.
fn read(text: &str, takes_first: bool) -> Option<Value> {
    match text.trim_start().as_bytes().first()? {
        b'{' => {
            let Members(members) = Members::of(text)?;
            let mut object = Map::new();
            for (name, value) in members {
                let value = read(value.get(), takes_first)?;
                if !takes_first || !object.contains_key(&name) {
                    object.insert(name, value);
                }
            }
            Some(Value::Object(object))
        }
        b'[' => {
            let elements: Vec<&RawValue> = serde_json::from_str(text).ok()?;
            elements
                .into_iter()
                .map(|element| read(element.get(), takes_first))
                .collect::<Option<_>>()
                .map(Value::Array)
        }
        _ => serde_json::from_str(text).ok(),
    }
}

/// All strings of a value, including names.
fn strings(value: &Value, found: &mut HashSet<String>) {
    match value {
        Value::String(text) => {
            found.insert(text.clone());
        }
        Value::Array(elements) => elements.iter().for_each(|element| strings(element, found)),
        Value::Object(members) => {
            for (name, value) in members {
                found.insert(name.clone());
                strings(value, found);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

fn folded(name: &str) -> String {
    name.to_uppercase().to_lowercase()
}
