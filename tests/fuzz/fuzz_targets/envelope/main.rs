//! Reading the envelope of any bytes terminates without a panic. Where they are JSON, `serde_json` reads the same, and
//! a changed message is JSON and differs only where intended. Everything that readers find in a result was shown to the
//! policy.
#![no_main]

mod seen;
mod tree;

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use lro_mcp::{
    BATCH_MESSAGES_MAX, Id, Kind, ListedTool, MEMBERS_MAX, Message, ParseError, Replacement, RequestedOutputs,
    SchemaChange, ToolChange, ToolResult, error_response, listed_tools, looks_like_tool_result, response, shortened,
    with_capabilities, with_items, with_outputs, with_result_type, with_revision, with_tools,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tree::{Members, find, is_json, strict};

/// Paths that the gateway reads or changes.
const PATHS: [&[&str]; 6] = [
    &["result"],
    &["params", "name"],
    &["params", "_meta", "progressToken"],
    &["result", "tools"],
    &["error"],
    &["params", "arguments"],
];

/// The text in the place of some descriptions.
const DESCRIPTION: &str = "A \"short\" é.";

/// Characters of a result that some tools are to declare.
const RESULT_CHARACTERS: u64 = 100_000;

const GUIDANCE: &str = "Results are \"offloaded\".";
const TOOL: &str = r#"{"name":"lro_read","inputSchema":{"type":"object"}}"#;

/// Applies all operations on messages to any bytes.
fn use_all(message: &Message, cut: usize) {
    let bytes = message.bytes();
    let params = message.params();
    let raw = [params.arguments, params.cursor, params.request_id, params.progress_token];
    assert!(raw.into_iter().flatten().all(|value| is_json(value.get().as_bytes())));
    let _ = (message.result(), message.error_code(), looks_like_tool_result(message), message.batch());
    for path in PATHS {
        let _ = (message.is_task(path), message.fault());
        message.each_id(&mut |id| assert!(!id.json().is_empty()));
        for (span, text) in message.strings(path, |_| true) {
            // A control character makes it invalid JSON, which others detect.
            let decoded = serde_json::from_slice::<String>(&bytes[span]);
            assert!(decoded.is_ok_and(|decoded| decoded == text) || !is_json(bytes));
        }
    }
    let _ = (Message::envelope_id(&bytes[..cut]), Message::trailing_id(&bytes[cut..]));
    let _ = shortened(bytes, 2, 4000);
    if let Some(id) = message.id() {
        let _ = (response(&id, "{}"), error_response(Some(&id), -1, id.json()));
    }
}

/// Names of the members of an envelope.
const ENVELOPE: [&str; 6] = ["jsonrpc", "id", "method", "params", "result", "error"];

/// Checks the kind of a message with this text.
fn kind(text: &str, members: Option<&Members<'_>>) -> Kind {
    let Some(members) = members else {
        return if text.trim_start().starts_with('[') { Kind::Batch } else { Kind::Other };
    };
    let folded = |name: &str| name.to_uppercase().to_lowercase();
    let is_clear = ENVELOPE.iter().all(|known| {
        let mut named = members.0.iter().filter(|(name, _)| folded(name) == **known);
        named.next().is_none_or(|(name, _)| name == known) && named.next().is_none()
    });
    let there = |name| members.get(name).is_some_and(|value| value != "null");
    let has_id = there("id");
    let is_id = members
        .get("id")
        .is_none_or(|id| id == "null" || id.starts_with(['"', '-']) || id.as_bytes()[0].is_ascii_digit());
    if !is_clear || !is_id || members.0.len() > MEMBERS_MAX {
        return Kind::Other;
    }
    match [there("method"), there("result"), there("error")] {
        [true, false, false] if has_id => Kind::Request,
        [true, false, false] => Kind::Notification,
        [false, true, false] | [false, false, true] => Kind::Response,
        [false, false, false] if members.get("result").is_some() => Kind::Response,
        _ => Kind::Other,
    }
}

fn same_id(found: &Id, json: &str) -> bool {
    match (serde_json::from_str::<String>(found.json()), serde_json::from_str::<String>(json)) {
        (Ok(one), Ok(other)) => one == other,
        _ => found.json() == json,
    }
}

fn check_envelope(message: &Message, text: &str, members: Option<&Members<'_>>) {
    let get = |name| members.and_then(|members| members.get(name));
    assert_eq!(message.kind(), kind(text, members), "{text}");
    let id = get("id").filter(|id| *id != "null" && !id.starts_with(['{', '[', 't', 'f']));
    match (message.id(), id) {
        (Some(found), Some(id)) => {
            assert!(same_id(&found, id), "{text}");
            assert_eq!(found, Id::of_json(id), "{text}");
        }
        (found, expected) => assert_eq!(found.is_some(), expected.is_some(), "{text}"),
    }
    let method = get("method").and_then(|method| serde_json::from_str::<String>(method).ok());
    assert_eq!(message.method().map(String::from), method, "{text}");
    let result = get("result").filter(|_| get("error").is_none_or(|error| error == "null"));
    assert_eq!(message.result().as_deref(), result.map(str::as_bytes));

    let elements = serde_json::from_str::<Vec<&RawValue>>(text).unwrap_or_default();
    let elements: Vec<_> =
        elements.into_iter().map(|element| Bytes::copy_from_slice(element.get().as_bytes())).collect();
    let is_flat = elements.iter().all(|element| !element.starts_with(b"["));
    let expected = (is_flat && (1..=BATCH_MESSAGES_MAX).contains(&elements.len())).then_some(elements);
    assert_eq!(message.batch(), expected, "{text}");
}

/// The id found in a part of a message is that of the message.
fn check_parts(text: &str, members: Option<&Members<'_>>, cut: usize) {
    let bytes = text.as_bytes();
    let ids = members.map_or(0, |members| members.0.iter().filter(|(name, _)| name == "id").count());
    // A part with one of two ids does not show the other.
    if ids < 2 {
        let id = members.and_then(|members| members.get("id"));
        for found in [Message::envelope_id(&bytes[..cut]), Message::trailing_id(&bytes[cut..])].into_iter().flatten() {
            assert!(id.is_some_and(|id| same_id(&found, id)), "{found} in {text} cut at {cut}");
        }
    }
}

/// A message with another id or another value has that one, and everything else as before.
fn check_changes(message: &Message, text: &str) {
    let id = Id::own("\u{e9}\"");
    let changed = message.with_id(&id);
    assert_eq!(message.pieces_with_id(&id).concat(), changed);
    let changed = Message::read(changed);
    assert!(is_json(changed.bytes()), "{text}");
    assert_eq!(changed.kind(), message.kind());
    match message.id() {
        Some(before) => {
            assert_eq!(changed.id(), Some(id));
            if find(text, &["id"]) == Some(before.json()) {
                assert_eq!(changed.with_id(&before), text);
            }
        }
        None => assert_eq!(changed.bytes(), text),
    }
    for path in PATHS {
        let value = find(text, path);
        assert_eq!(message.value(path).as_deref(), value.map(str::as_bytes), "{path:?} of {text}");
        let changed = Message::read(message.with_bytes(path, b"{\"new\":[]}"));
        assert!(is_json(changed.bytes()), "{text}");
        if let Some(value) = value {
            assert_eq!(changed.value(path).as_deref(), Some(&b"{\"new\":[]}"[..]));
            assert_eq!(changed.with_bytes(path, value.as_bytes()), text, "{path:?}");
        }
    }
}

/// Expected changes to the answer to `initialize`.
fn expect_abilities(value: &mut Value) {
    let Some(result) = value.get_mut("result").and_then(Value::as_object_mut) else { return };
    let capabilities = result.entry("capabilities").or_insert(json!({}));
    if let Some(capabilities) = capabilities.as_object_mut() {
        for name in ["tools", "resources"] {
            capabilities.entry(name).or_insert(json!({}));
        }
    }
    match result.get_mut("instructions") {
        Some(Value::String(text)) => {
            let gap = if text.is_empty() { "" } else { "\n\n" };
            *text = format!("{text}{gap}{GUIDANCE}");
        }
        Some(_) => {}
        None => {
            result.insert("instructions".to_owned(), GUIDANCE.into());
        }
    }
}

fn change_of_listed(tool: &ListedTool<'_>) -> ToolChange<'static> {
    change_of(&tool.name)
}

fn change_of(tool: &str) -> ToolChange<'static> {
    let schema = match tool.len() % 3 {
        0 => SchemaChange::Widen,
        1 => SchemaChange::Keep,
        _ => SchemaChange::Remove,
    };
    let argument = tool.len().is_multiple_of(3).then_some(("question", "{}"));
    ToolChange {
        schema,
        result_characters: tool.len().is_multiple_of(2).then_some(RESULT_CHARACTERS),
        argument,
        rules: Vec::new(),
        tasks: false,
        description: (tool.len() % 4 == 1).then(|| DESCRIPTION.to_owned()),
        outputs: false,
    }
}

/// Expected changes to a list of tools, except those of schemas.
fn expect_tools(value: &mut Value) {
    let Some(tools) = value.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return };
    for tool in tools.iter_mut().filter_map(Value::as_object_mut) {
        let Some(name) = tool.get("name").and_then(Value::as_str).map(str::to_owned) else { continue };
        let name = name.as_str();
        if change_of(name).schema == SchemaChange::Remove {
            tool.remove("outputSchema");
        }
        if change_of(name).result_characters.is_some() {
            expect_size(tool);
        }
        if let (Some(description), Some(own)) = (change_of(name).description, tool.get_mut("description")) {
            *own = description.into();
        }
        if let Some((argument, _)) = change_of(name).argument {
            expect_argument(tool, argument);
        }
    }
    tools.push(serde_json::from_str(TOOL).expect("JSON"));
}

/// A tool declares results of at least so many characters, unless its metadata has no members.
fn expect_size(tool: &mut serde_json::Map<String, Value>) {
    const KEY: &str = "anthropic/maxResultSizeChars";
    let Some(metadata) = tool.entry("_meta").or_insert_with(|| json!({})).as_object_mut() else { return };
    let is_enough = metadata.get(KEY).and_then(Value::as_f64).is_some_and(|size| size >= RESULT_CHARACTERS as f64);
    if !is_enough {
        metadata.insert(KEY.to_owned(), json!(RESULT_CHARACTERS));
    }
}

/// A tool has an argument of this name, unless its input schema has no object for arguments.
fn expect_argument(tool: &mut serde_json::Map<String, Value>, argument: &str) {
    let Some(schema) = tool.get_mut("inputSchema").and_then(Value::as_object_mut) else { return };
    let Some(arguments) = schema.entry("properties").or_insert_with(|| json!({})).as_object_mut() else { return };
    arguments.entry(argument).or_insert_with(|| json!({}));
}

/// Checks the widened schemas of a changed list and replaces them with the original ones.
fn narrow(value: &mut Value, before: &Value) {
    let Some(tools) = value.pointer_mut("/result/tools").and_then(Value::as_array_mut) else { return };
    for (index, tool) in tools.iter_mut().enumerate() {
        let name = tool.get("name").and_then(Value::as_str).unwrap_or_default();
        let Some(original) = before.pointer(&format!("/result/tools/{index}/outputSchema")) else { continue };
        let is_widened =
            tool.get("name").is_some_and(Value::is_string) && change_of(name).schema == SchemaChange::Widen;
        if let (true, Some(object)) = (is_widened, original.as_object()) {
            check_widened(&tool["outputSchema"], object);
            tool["outputSchema"] = original.clone();
        }
    }
}

/// Every member of the schema is in one of the two places, except references, which may be rewritten.
fn check_widened(widened: &Value, original: &serde_json::Map<String, Value>) {
    let both = widened["anyOf"].as_array().expect("two schemas");
    assert_eq!(both.len(), 2);
    assert_eq!(both[1]["required"], json!(["offloaded"]));
    for (name, value) in original {
        let place = if matches!(name.as_str(), "$schema" | "$defs" | "definitions") { widened } else { &both[0] };
        // A schema with an id keeps its definitions.
        let found = place.get(name).or_else(|| both[0].get(name)).expect("nothing gets lost");
        let has_reference = value.to_string().contains("ef\"") || name.ends_with("ef");
        assert!(has_reference || found == value, "{name}: {found} is not {value}");
    }
}

fn check_announcements(message: &Message, text: &str) {
    let templates = with_items(message, "resourceTemplates", &[r#"{"uriTemplate":"lro://"}"#.to_owned()]);
    let (capabilities, tools) =
        (with_capabilities(message, GUIDANCE, false, None), with_tools(message, change_of_listed, &[TOOL.to_owned()]));
    for changed in [&templates, &capabilities, &tools] {
        assert!(is_json(changed), "{text} became {}", String::from_utf8_lossy(changed));
    }
    for tool in listed_tools(message) {
        assert!([tool.input_schema, tool.output_schema].into_iter().flatten().all(is_json));
    }
    let Some(before) = strict(text) else { return };
    let read =
        |changed: &Bytes| strict(std::str::from_utf8(changed).expect("UTF-8")).expect("as unambiguous as before");
    let mut expected = before.clone();
    expect_abilities(&mut expected);
    assert_eq!(read(&capabilities), expected, "{text}");
    let (mut expected, mut tools) = (before.clone(), read(&tools));
    expect_tools(&mut expected);
    narrow(&mut tools, &before);
    assert_eq!(tools, expected, "{text}");
    let mut expected = before;
    if let Some(list) = expected.pointer_mut("/result/resourceTemplates").and_then(Value::as_array_mut) {
        list.push(json!({"uriTemplate": "lro://"}));
    }
    assert_eq!(read(&templates), expected, "{text}");
}

/// A tool result is rejected as JSON exactly when it is not JSON, and every reply for it is JSON.
fn check_result(bytes: &Bytes, is_json_too: bool) {
    let result = match ToolResult::parse(bytes.clone()) {
        Err(ParseError::NotUtf8(_) | ParseError::Syntax(_)) => return assert!(!is_json_too),
        // Deeper than the other reader accepts.
        other => other,
    };
    assert!(is_json_too);
    let Ok(result) = result else { return };
    let parts = result.payload().parts().len();
    for kept in [vec![], vec![true; parts], (0..parts).map(|part| part % 2 == 0).collect()] {
        for always_structured in [false, true] {
            let replacement =
                Replacement { descriptor: "{}", kept: &kept, always_structured, ..Replacement::default() };
            let reply = result.offloaded(&replacement);
            assert!(is_json(&reply), "{}", String::from_utf8_lossy(&reply));
        }
    }
    assert!(is_json(&result.rejected("no")));
}

/// Outputs of any result, and of any tool, are JSON.
fn check_outputs(message: &Message, text: &str) {
    let all = br#"[{"audience":"assistant","format":"content"},{"audience":"programmatic","format":"structured"}]"#;
    let Ok(all) = RequestedOutputs::read(all) else { unreachable!("both are outputs") };
    let bytes = message.bytes();
    for outputs in [RequestedOutputs::default(), all] {
        assert!(is_json(&outputs.of_response(bytes, None)));
        assert!(is_json(&outputs.of_response(bytes, Some(Err("why")))));
        let of_result = outputs.of_result(bytes, Ok(bytes)).unwrap_or_default();
        assert!(of_result.is_empty() || is_json(&of_result), "{}", String::from_utf8_lossy(&of_result));
    }
    let as_outputs = |_: &ListedTool<'_>| ToolChange { outputs: true, ..change_of("") };
    for changed in [with_tools(message, as_outputs, &[]), with_revision(message, "2026-12-01")] {
        assert!(is_json(&changed), "{}", String::from_utf8_lossy(&changed));
    }
    assert!(is_json(with_outputs(text.trim()).as_bytes()));
}

fuzz_target!(|data: &[u8]| {
    let Some((cut, data)) = data.split_first_chunk() else { return };
    let cut = usize::from(u16::from_le_bytes(*cut)) % (data.len() + 1);
    let bytes = Bytes::copy_from_slice(data);
    let message = Message::read(bytes.clone());
    use_all(&message, cut);
    seen::check(&bytes);
    let is_json = is_json(data);
    check_result(&bytes, is_json);
    let Some(text) = std::str::from_utf8(data).ok().filter(|_| is_json) else {
        return;
    };
    let members = Members::of(text);
    if members.is_none() && text.trim_start().starts_with('{') {
        // A key that is half a surrogate pair.
        return;
    }
    check_envelope(&message, text, members.as_ref());
    check_parts(text, members.as_ref(), cut);
    check_changes(&message, text);
    check_announcements(&message, text);
    check_outputs(&message, text);
    if let Some(short) = shortened(data, 2, 4000) {
        assert!(tree::is_json(&short), "{}", String::from_utf8_lossy(&short));
    }
    let result = with_result_type(text.trim().to_owned(), true);
    assert!(text.trim_start().starts_with('{') || result == text.trim());
});
