//! Members of JSON objects, added without reading the rest.

use bytes::Bytes;
use lro_host::mcp::Message;
use serde_json::Value;

/// An object with these members before its own. They are JSON without the braces, and may be empty.
pub(super) fn with_members(object: &[u8], members: &str) -> Vec<u8> {
    let Some(rest) = object.strip_prefix(b"{").filter(|_| !members.is_empty()) else { return object.to_vec() };
    let is_empty = rest.trim_ascii_start().starts_with(b"}");
    let comma = if is_empty { "" } else { "," };
    [b"{", members.as_bytes(), comma.as_bytes(), rest].concat()
}

/// The message with members in its parameters, and members in their metadata.
pub(super) fn with_params(message: &Message, members: &str, metadata: &str) -> Message {
    let Some(params) = message.value(&["params"]).filter(|params| params.starts_with(b"{")) else {
        let message = Message::read(message.without(&["params"]));
        let comma = if members.is_empty() { "" } else { "," };
        let params = format!(r#""params":{{{members}{comma}"_meta":{{{metadata}}}}}"#);
        return Message::read(with_members(message.bytes(), &params).into());
    };
    let params = match message.value(&["params", "_meta"]).filter(|own| own.starts_with(b"{")) {
        Some(own) => {
            let changed = Message::read(message.with_bytes(&["params", "_meta"], &with_members(&own, metadata)));
            changed.value(&["params"]).unwrap_or_default()
        }
        None => with_members(&params, &format!(r#""_meta":{{{metadata}}}"#)).into(),
    };
    Message::read(message.with_bytes(&["params"], &with_members(&params, members)))
}

/// The message with members before those of its result.
pub(super) fn with_result(message: &Message, members: &str) -> Bytes {
    match message.value(&["result"]) {
        Some(result) => message.with_bytes(&["result"], &with_members(&result, members)),
        None => message.bytes().clone(),
    }
}

/// The message without these members of its result.
pub(super) fn without_result_members(message: Message, names: &[&str]) -> Message {
    names.iter().fold(message, |message, name| match message.value(&["result", name]) {
        Some(_) => Message::read(message.without(&["result", name])),
        None => message,
    })
}

/// The value at a path of keys, read; `null` if there is none.
pub(super) fn read(message: &Message, path: &[&str]) -> Value {
    message.value(path).and_then(|json| serde_json::from_slice(&json).ok()).unwrap_or_default()
}

/// The string at a path of keys.
pub(super) fn text(message: &Message, path: &[&str]) -> Option<String> {
    serde_json::from_slice(&message.value(path)?).ok()
}
