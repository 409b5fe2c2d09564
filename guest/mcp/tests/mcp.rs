//! The public interface of tool results: parts, replies and truncation.

#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::sync::Arc;

use bytes::Bytes;
use lro_mcp::{
    BATCH_MESSAGES_MAX, BLOCK_EXTRA_BYTES_MAX, BLOCKS_MAX, Fault, Id, Kind, MEMBERS_MAX, Message, OTHERS_BYTES_MAX,
    ParseError, Replacement, ToolResult, Truncation, exceeds, wire_size,
};
use lro_payload::{Part, PartError, PartKind, Payload, PayloadReader, ReadError, Size, SizeUnit};
use proptest::prelude::*;
use serde_json::{Value, json};

const UNITS: [SizeUnit; 3] = [SizeUnit::Bytes, SizeUnit::Characters, SizeUnit::Tokens];

fn cases(count: u32) -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(count) }
}

fn parse(result: &Value) -> ToolResult {
    ToolResult::parse(Bytes::from(result.to_string())).unwrap()
}

fn replacement<'a>(descriptor: &'a str, kept: &'a [bool], always_structured: bool) -> Replacement<'a> {
    Replacement { descriptor, kept, always_structured, ..Replacement::default() }
}

fn value(reply: &[u8]) -> Value {
    serde_json::from_slice(reply).unwrap()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn truncated(result: &ToolResult, amount: u64, unit: SizeUnit) -> Vec<u8> {
    result.truncated(&Truncation { limit: Size { amount, unit }, suffix: "\n[cut]", warning: "disk full" })
}

/// A whole text part, read in slices of `length`.
fn read_all(payload: &Arc<Payload>, part: u32, length: u32) -> String {
    let mut reader = PayloadReader::new(Arc::clone(payload));
    let mut text = String::new();
    loop {
        let slice = reader.read_text(part, text.len() as u64, length).unwrap();
        if slice.is_empty() {
            return text;
        }
        assert!(slice.len() <= length as usize || slice.chars().count() == 1);
        text.push_str(&slice);
    }
}

fn kinds(result: &ToolResult) -> Vec<PartKind> {
    result.payload().parts().iter().map(|part| part.kind).collect()
}

fn any_text() -> impl Strategy<Value = String> {
    text_up_to(400)
}

fn text_up_to(characters: usize) -> impl Strategy<Value = String> {
    let character = prop_oneof![
        6 => prop::char::range(' ', '~'),
        2 => prop::sample::select(vec!['"', '\\', '/', '\n', '\t', '\u{8}', '\u{c}', '\r']),
        1 => prop::char::range('\0', '\u{1f}'),
        1 => any::<char>(),
        1 => prop::sample::select(vec!['é', 'ж', '中', 'あ', '😀', '\u{7f}', '\u{2028}']),
    ];
    prop::collection::vec(character, 0..characters).prop_map(|characters| characters.into_iter().collect())
}

/// The text as the inside of a JSON string; `spell` chooses the escaping of each character.
fn spelled(text: &str, spell: u64) -> String {
    let mut escaped = String::new();
    for (index, character) in text.chars().enumerate() {
        match spell.rotate_left(index as u32 * 7) % 5 {
            0 => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    escaped.push_str(&format!("\\u{unit:04x}"));
                }
            }
            1 if character == '/' => escaped.push_str("\\/"),
            _ => escaped.push_str(Value::from(character.to_string()).to_string().trim_matches('"')),
        }
        if character == '"' && escaped.ends_with('\\') {
            escaped.push('"');
        }
    }
    escaped
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn decodes_as_serde_json_does(text in any_text(), spell: u64, length in 0_u32..200) {
        let escaped = spelled(&text, spell);
        let expected: String = serde_json::from_str(&format!("\"{escaped}\"")).unwrap();
        let part = Part::json_string(PartKind::Text, Bytes::from(escaped)).unwrap();
        prop_assert_eq!(part.size(), expected.len() as u64);
        let payload = Arc::new(Payload::new(vec![part]));
        prop_assert_eq!(&read_all(&payload, 0, length), &expected);
        prop_assert_eq!(&read_all(&payload, 0, 1 << 20), &expected);
    }

    #[test]
    fn accepts_what_serde_json_accepts_inside_a_string(bytes in prop::collection::vec(
        prop::sample::select(b"\\\\\\u0dDcC8\"nab/\x01 \xc3\xa9".to_vec()), 0..150)) {
        let literal = [b"\"", bytes.as_slice(), b"\""].concat();
        let expected: Option<String> = serde_json::from_slice(&literal).ok();
        let part = Part::json_string(PartKind::Text, Bytes::from(bytes));
        prop_assert_eq!(part.is_ok(), expected.is_some());
    }

    #[test]
    fn reads_anywhere(text in any_text(), spell: u64, jumps in prop::collection::vec((0_usize..700, 0_u32..90), 1..20)) {
        let part = Part::json_string(PartKind::Text, Bytes::from(spelled(&text, spell))).unwrap();
        let plain = Part::text(PartKind::Text, Bytes::from(text.clone())).unwrap();
        let mut reader = PayloadReader::new(Arc::new(Payload::new(vec![part, plain])));
        for (offset, length) in jumps {
            let slice = reader.read_text(0, offset as u64, length);
            prop_assert_eq!(&slice, &reader.read_text(1, offset as u64, length));
            match slice {
                Ok(slice) => {
                    prop_assert!(text.get(offset..).unwrap_or_default().starts_with(&slice));
                    prop_assert_eq!(slice.is_empty(), offset >= text.len());
                }
                Err(error) => prop_assert_eq!(error, ReadError::InsideCharacter(text.floor_char_boundary(offset) as u64)),
            }
        }
    }

    #[test]
    fn reads_base64_anywhere(bytes in prop::collection::vec(any::<u8>(), 0..9000), offset in 0_u64..9000, length in 0_u32..9000, padded: bool) {
        use base64::Engine as _;
        let engine = if padded { &base64::engine::general_purpose::STANDARD } else { &base64::engine::general_purpose::STANDARD_NO_PAD };
        let part = Part::base64(Bytes::from(engine.encode(&bytes))).unwrap();
        prop_assert_eq!(part.size(), bytes.len() as u64);
        let mut reader = PayloadReader::new(Arc::new(Payload::new(vec![part])));
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        prop_assert_eq!(reader.read_bytes(0, offset, length).unwrap(), &rest[..rest.len().min(length as usize)]);
    }
}

proptest! {
    #![proptest_config(cases(30))]

    /// Whether the text is decoded in slices, ahead of its reader, or as a whole, beside another one.
    #[test]
    fn reads_ahead_what_it_reads_anywhere(
        unit in any_text(),
        spell: u64,
        bytes in prop::sample::select(vec![70_000, 400_000, 2_000_000]),
        runs in prop::collection::vec((0_usize..2_000_000, 30_000_u32..90_000, 1_usize..8), 1..8),
    ) {
        let units = [format!("{unit}\n"), format!("{unit}\n").to_uppercase()];
        let texts = units.clone().map(|unit| unit.repeat(bytes / unit.len()));
        let parts = units.map(|unit| {
            let escaped = spelled(&unit, spell).repeat(bytes / unit.len());
            Part::json_string(PartKind::Text, Bytes::from(escaped)).unwrap()
        });
        let plain = texts.clone().map(|text| Part::text(PartKind::Text, Bytes::from(text)).unwrap());
        let mut reader = PayloadReader::new(Arc::new(Payload::new([parts, plain].concat())));
        for (index, (start, length, reads)) in (0..).zip(runs) {
            let part = index % 2;
            let mut offset = texts[part as usize].floor_char_boundary(start) as u64;
            for _ in 0..reads {
                let slice = reader.read_text(part, offset, length).unwrap();
                prop_assert!(slice == reader.read_text(part + 2, offset, length).unwrap());
                offset += slice.len() as u64;
            }
            let inside = offset.saturating_sub(1);
            prop_assert!(reader.read_text(part, inside, 9) == reader.read_text(part + 2, inside, 9));
        }
    }
}

#[test]
fn going_back_in_a_long_text_gives_the_same() {
    let line = "{\"id\": 1, \"name\": \"naïve 😀 \\ text\"}\n";
    let text = line.repeat(80_000);
    let escaped = Value::from(text.as_str()).to_string();
    let part = Part::json_string(PartKind::Text, Bytes::from(escaped[1..escaped.len() - 1].to_owned())).unwrap();
    let mut reader = PayloadReader::new(Arc::new(Payload::new(vec![part])));
    for start in [3_100_000, 5, 1_900_000, 0, 3_000_000, 2_999_990].map(|near| text.floor_char_boundary(near)) {
        let slice = reader.read_text(0, start as u64, u32::MAX).unwrap();
        assert!(text[start..].starts_with(&slice));
        assert!(slice.len() > (1 << 20) - 4 && slice.len() <= 1 << 20 || start + slice.len() == text.len());
    }
}

#[test]
fn a_part_of_the_wrong_kind_or_index_is_refused() {
    let parts =
        vec![Part::text(PartKind::Text, Bytes::from_static(b"a")).unwrap(), Part::binary(Bytes::from_static(b"b"))];
    let mut reader = PayloadReader::new(Arc::new(Payload::new(parts)));
    assert_eq!(reader.read_text(1, 0, 1), Err(ReadError::WrongKind));
    assert_eq!(reader.read_bytes(0, 0, 1), Err(ReadError::WrongKind));
    assert_eq!(reader.read_text(2, 0, 1), Err(ReadError::NoSuchPart));
    assert_eq!(reader.read_bytes(2, 0, 1), Err(ReadError::NoSuchPart));
    assert_eq!(reader.read_bytes(1, u64::MAX, u32::MAX), Ok(Vec::new()));
    assert_eq!(reader.read_text(0, u64::MAX, u32::MAX), Ok(String::new()));
}

#[test]
fn bad_base64_is_refused() {
    for bad in ["a", "ab=c", "ab c", "ab\n", "a-b_", "====", "YR=="] {
        assert!(matches!(Part::base64(Bytes::from(bad)), Err(PartError::NotBase64(_))), "{bad}");
    }
    let inner_padding = format!("{}{}", "YQ==".repeat(1024), "YQ==");
    assert!(Part::base64(Bytes::from(inner_padding)).is_err());
}

#[test]
fn every_kind_of_block_becomes_a_part() {
    let result = parse(&json!({"content": [
        text("hello"),
        {"type": "image", "data": "AQID", "mimeType": "image/png"},
        {"type": "audio", "data": "AQIDBA", "mimeType": "audio/wav"},
        {"type": "resource", "resource": {"uri": "file:///a.csv", "mimeType": "text/csv", "text": "a,b"}},
        {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "AAAA"}},
        {"type": "resource_link", "uri": "file:///x", "name": "x"},
        {"type": "hologram", "data": [1, 2]},
        {"type": "image", "data": "not base64!", "mimeType": "image/png"},
        {"type": "text"},
        17
    ], "_meta": {"a": 1}}));
    use PartKind::{Binary, Block, Meta, Text};
    assert_eq!(kinds(&result), [Text, Binary, Binary, Text, Binary, Block, Block, Block, Block, Block, Meta]);
    let parts = result.payload().parts();
    assert_eq!((parts[1].size(), parts[1].media_type.as_deref()), (3, Some("image/png")));
    assert_eq!((parts[2].size(), parts[2].media_type.as_deref()), (4, Some("audio/wav")));
    assert_eq!((parts[3].name.as_deref(), parts[3].media_type.as_deref()), (Some("file:///a.csv"), Some("text/csv")));
    assert_eq!(PayloadReader::new(result.payload().clone()).read_bytes(1, 0, 9), Ok(vec![1, 2, 3]));
    assert_eq!(read_all(result.payload(), 9, 100), "17");
}

#[test]
fn half_a_surrogate_pair_makes_a_block() {
    let message = r#"{"content":[{"type":"text","text":"a\ud800b"}]}"#;
    let result = ToolResult::parse(Bytes::from(message)).unwrap();
    assert_eq!(kinds(&result), [PartKind::Block]);
    assert_eq!(read_all(result.payload(), 0, 7), r#"{"type":"text","text":"a\ud800b"}"#);
    assert_eq!(result.pass(), message);
    assert_eq!(
        result.offloaded(&replacement("{}", &[true], false)),
        br#"{"content":[{"type":"text","text":"a\ud800b"},{"type":"text","text":"{}"}]}"#
    );
}

#[test]
fn escaped_slashes_in_base64_are_read() {
    let message = r#"{"content":[{"type":"image","data":"\/\/\/\/","mimeType":"image\/png"}]}"#;
    let result = ToolResult::parse(Bytes::from(message)).unwrap();
    assert_eq!(kinds(&result), [PartKind::Binary]);
    assert_eq!(result.payload().parts()[0].media_type.as_deref(), Some("image/png"));
    assert_eq!(PayloadReader::new(result.payload().clone()).read_bytes(0, 0, 9), Ok(vec![255; 3]));
}

#[test]
fn texts_that_are_the_elements_of_the_structured_content_are_no_parts() {
    let elements = [json!("a \"b\"\n"), json!({"n": 1, "é": [1.5, null]}), json!(7), json!("{}")];
    let texts: Vec<String> =
        elements.iter().map(|element| element.as_str().map_or_else(|| format!("{element:#}"), str::to_owned)).collect();
    let message = |texts: &[String], structured: &Value| {
        let blocks: Vec<Value> = texts.iter().map(|block| text(block)).collect();
        Bytes::from(json!({"content": blocks, "structuredContent": structured}).to_string())
    };
    for structured in [json!({"result": elements}), json!(elements)] {
        let result = ToolResult::parse(message(&texts, &structured)).unwrap();
        assert_eq!(kinds(&result), [PartKind::Structured]);
        let reply = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[false], false)));
        assert_eq!(reply["content"], json!([text(r#"{"d":1}"#)]));
        let kept = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[true], false)));
        assert_eq!(kept["content"].as_array().unwrap().len(), texts.len() + 1);
    }
    let mut others = vec![texts[1..].to_vec(), [texts.clone(), vec!["8".to_owned()]].concat()];
    others.push(texts.iter().rev().cloned().collect());
    others.push(texts.iter().map(|text| text.replace('7', "7.0")).collect());
    for other in others {
        let result = ToolResult::parse(message(&other, &json!({"result": elements}))).unwrap();
        assert_eq!(kinds(&result).len(), other.len() + 1, "{other:?}");
    }
}

// Each text is compared, but the structured content is not read again for each: that would take minutes.
#[test]
fn many_texts_stand_beside_large_structured_content() {
    const TEXTS: usize = 20_000;
    for value in [json!("x".repeat(4 << 20)), json!(["x".repeat(4 << 20)])] {
        let blocks: Vec<Value> = (0..TEXTS).map(|number| text(&number.to_string())).collect();
        let message = json!({"content": blocks, "structuredContent": {"result": value}}).to_string();
        let result = ToolResult::parse(Bytes::from(message)).unwrap();
        assert_eq!(kinds(&result).len(), TEXTS + 1);
    }
}

#[test]
fn a_text_that_repeats_the_structured_content_is_no_part() {
    let structured = r#"{"rows":[{"n":"é/😀","v":1.0},{"n":"","v":1e2}],"k":null}"#;
    let spellings = [
        structured.to_owned(),
        structured.replace(',', ", ").replace(':', ": "),
        structured.replace('é', "\\u00E9").replace('/', "\\/").replace('😀', "\\ud83d\\ude00"),
        format!(" \n{}\t ", structured.replace('{', "{\n  ")),
    ];
    for copy in spellings {
        let message = format!(r#"{{"content":[{}],"structuredContent":{structured}}}"#, text(&copy));
        let result = ToolResult::parse(Bytes::from(message)).unwrap();
        assert_eq!(kinds(&result), [PartKind::Structured], "{copy}");
        // The copy is offloaded or kept with the structured content.
        let reply = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[false], false)));
        assert_eq!(reply, json!({"content": [text(r#"{"d":1}"#)], "structuredContent": {"d": 1}}));
        let reply = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[true], false)));
        assert_eq!(reply["content"], json!([text(&copy), text(r#"{"d":1}"#)]));
        assert_eq!(reply["structuredContent"], serde_json::from_str::<Value>(structured).unwrap());
    }
    for other in [
        structured.replace("1.0", "1"),
        structured.replace("null", "nul"),
        structured.replace('é', "e"),
        format!("{structured} 1"),
        structured.replace("1e2", "1 e2"),
        structured[1..].to_owned(),
    ] {
        let message = format!(r#"{{"content":[{}],"structuredContent":{structured}}}"#, text(&other));
        let result = ToolResult::parse(Bytes::from(message)).unwrap();
        assert_eq!(kinds(&result), [PartKind::Text, PartKind::Structured], "{other}");
    }
}

#[test]
fn a_wrapped_value_repeats_too() {
    for name in ["result", "entities"] {
        let list = json!({"content": [text("[1, 2,\n 3]")], "structuredContent": {name: [1, 2, 3]}});
        assert_eq!(kinds(&parse(&list)), [PartKind::Structured], "{name}");
    }
    // The only member, under any name, is the text, and both are replaced together.
    for name in ["result", "content"] {
        let bare = parse(&json!({"content": [text("a \"b\" \\ é")], "structuredContent": {name: "a \"b\" \\ é"}}));
        assert_eq!(kinds(&bare), [PartKind::Text]);
        let reply = value(&bare.offloaded(&replacement(r#"{"d":1}"#, &[false], false)));
        assert_eq!(reply, json!({"content": [text(r#"{"d":1}"#)], "structuredContent": {"d": 1}}));
    }
    let other = json!({"content": [text("a")], "structuredContent": {"content": "b"}});
    assert_eq!(kinds(&parse(&other)), [PartKind::Text, PartKind::Structured]);
    let two = json!({"content": [text("[1]")], "structuredContent": {"result": [1], "more": 1}});
    assert_eq!(kinds(&parse(&two)), [PartKind::Text, PartKind::Structured]);
}

#[test]
fn an_envelope_and_unknown_members_stay_byte_for_byte() {
    let message = concat!(
        "{ \"jsonrpc\": \"2.0\",\"id\" : 12345678901234567890, \"result\": { \"x-new\": [1.0, 1e2 ],\"isError\":true,",
        "\"content\": [ {\"type\":\"text\",\"text\":\"big\"} , {\"type\":\"hologram\", \"q\":1 } ],\"_meta\" : {\"a\":1 }} , \"extra\":0}\n"
    );
    let result = ToolResult::parse(Bytes::from(message)).unwrap();
    assert!(result.is_error());
    assert_eq!(result.pass(), message);
    let reply =
        String::from_utf8(result.offloaded(&replacement(r#"{"d":1}"#, &[false, true, true, true], false))).unwrap();
    assert_eq!(
        reply,
        concat!(
            "{ \"jsonrpc\": \"2.0\",\"id\" : 12345678901234567890, \"result\": {\"x-new\":[1.0, 1e2 ],\"isError\":true,",
            "\"content\":[{\"type\":\"text\",\"text\":\"{\\\"d\\\":1}\"},{\"type\":\"hologram\", \"q\":1 }],\"_meta\":{\"a\":1 }} , \"extra\":0}\n"
        )
    );
}

#[test]
fn the_descriptor_stands_where_the_first_block_is_missing() {
    let image = json!({"type": "image", "data": "AQID", "mimeType": "image/png"});
    let result = parse(&json!({"content": [text("a"), text("b"), image, text("c")], "_meta": {"a": 1}}));
    let reply = value(&result.offloaded(&replacement("{}", &[true, false, true, false, false], true)));
    assert_eq!(reply, json!({"content": [text("a"), text("{}"), image], "structuredContent": {}}));
}

#[test]
fn other_results_and_errors_pass() {
    for message in [
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{},"requestState":"x"}}"#,
        r#"{"resultType":"task", "taskId":"t","content":[]}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"task":{"taskId":"t"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"no"}}"#,
    ] {
        let result = ToolResult::parse(Bytes::from(message)).unwrap();
        assert!(result.not_for_policy(), "{message}");
        assert!(result.payload().parts().is_empty());
        assert_eq!(result.pass(), message);
    }
    let result = ToolResult::parse(Bytes::from(r#"{"resultType":"complete","content":[]}"#)).unwrap();
    assert!(!result.not_for_policy());
}

#[test]
fn what_is_no_tool_result_is_an_error_that_says_so() {
    use ParseError::{Duplicate, NotAToolResult, NotUtf8, Syntax};
    let parse = |message: &str| ToolResult::parse(Bytes::from(message.to_owned())).unwrap_err();
    assert!(matches!(parse("{\"content\":[}"), Syntax(_)));
    assert!(matches!(parse("{\"content\":[],}"), Syntax(_)));
    assert!(matches!(parse(""), Syntax(_)));
    assert!(matches!(parse("[1]"), NotAToolResult(_)));
    assert!(matches!(parse("{\"items\":[]}"), NotAToolResult(_)));
    assert!(matches!(parse("{\"content\":\"text\"}"), NotAToolResult(_)));
    assert!(matches!(parse("{\"jsonrpc\":\"2.0\",\"method\":\"x\"}"), NotAToolResult(_)));
    assert!(matches!(parse("{\"content\":[],\"cont\\u0065nt\":[]}"), Duplicate("content")));
    assert!(matches!(ToolResult::parse(Bytes::from_static(b"{\"a\":\"\xff\"}")), Err(NotUtf8(6))));
    assert!(parse("{\"items\":[]}").to_string().contains("expected"));
}

#[test]
fn more_blocks_than_parts_are_one_part() {
    for (more, parts) in [(0, BLOCKS_MAX), (1, 1)] {
        let blocks = vec![text("a"); BLOCKS_MAX + more];
        let result = parse(&json!({"content": blocks, "isError": true}));
        assert_eq!((result.payload().parts().len(), result.is_error()), (parts, true));
        let whole = result.payload().parts()[0].clone().into_text().unwrap();
        assert_eq!(whole.matches("\"text\":\"a\"").count(), more * (BLOCKS_MAX + 1));
        let reply: Value = serde_json::from_slice(
            &result.offloaded(&Replacement { descriptor: "{\"offloaded\":true}", ..Replacement::default() }),
        )
        .unwrap();
        assert_eq!(reply["content"], json!([text("{\"offloaded\":true}")]));
    }
}

#[test]
fn more_blocks_than_parts_that_are_elements_of_the_structured_content_are_no_parts() {
    let numbers: Vec<String> = (0..=BLOCKS_MAX).map(|number| number.to_string()).collect();
    let blocks: Vec<Value> = numbers.iter().map(|number| text(number)).collect();
    let structured = json!({"result": numbers});
    let mut message = json!({"content": blocks, "structuredContent": structured});
    let result = parse(&message);
    assert_eq!(kinds(&result), [PartKind::Structured]);
    let reply = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[false], false)));
    assert_eq!(reply["content"], json!([text(r#"{"d":1}"#)]));
    let kept = value(&result.offloaded(&replacement(r#"{"d":1}"#, &[true], false)));
    assert_eq!(kept["content"].as_array().unwrap()[..blocks.len()], blocks);
    for changed in [text("another"), json!({"type": "image", "data": "", "mimeType": "image/png"}), json!(1)] {
        message["content"][BLOCKS_MAX] = changed;
        assert_eq!(read_all(parse(&message).payload(), 0, 1 << 20), message.to_string());
    }
}

#[test]
fn nothing_hides_in_the_margin_of_a_block() {
    let mut block = text("small");
    block["_meta"] = json!({"x": "y".repeat(BLOCK_EXTRA_BYTES_MAX)});
    let result = parse(&json!({"content": [block]}));
    assert_eq!(kinds(&result), [PartKind::Block]);
    assert!(result.payload().size() > BLOCK_EXTRA_BYTES_MAX as u64);
}

#[test]
fn a_block_with_many_members_is_one_part() {
    let mut many = text("small");
    many["_meta"] = json!((0..3000).map(|index| (index.to_string(), json!(index))).collect::<serde_json::Map<_, _>>());
    let mut wide = text("small");
    for index in 0..3000 {
        wide[index.to_string()] = json!({"i": [index]});
    }
    let result = parse(&json!({"content": [many, wide, text("last")]}));
    assert_eq!(kinds(&result), [PartKind::Block, PartKind::Block, PartKind::Text]);
    assert_eq!(read_all(result.payload(), 1, 1 << 20), wide.to_string());
}

#[test]
fn what_is_not_json_is_refused_wherever_it_hides() {
    let texts = [r"\q", r"\ud83dx", "\u{1}", "\\"];
    for inside in texts {
        let message = format!(r#"{{"content":[{{"type":"text","text":"{inside}"}}]}}"#);
        let expected = serde_json::from_str::<serde::de::IgnoredAny>(&message).is_ok();
        assert_eq!(ToolResult::parse(Bytes::from(message)).is_ok(), expected, "{inside:?}");
    }
    for bad in [
        r#"{"content":[{"type":"text","text":"a",}]}"#,
        r#"{"content":[{"type":"text" "text":"a"}]}"#,
        r#"{"content":[{"type":"text","text":"a"}}}"#,
        r#"{"content":[{"type":"text","text":"a"},]}"#,
        r#"{"content":[{"type":"image","data":"AA==","text":"\q"}]}"#,
        r#"{"content":[],"structuredContent":{"a":01}}"#,
        r#"{"content":[],"_meta":{"a":tru}}"#,
        r#"{"content":[]} x"#,
        r#"{"content":[]"#,
        r#"{"content":[{"type":"text","text":"a"#,
    ] {
        let error = ToolResult::parse(Bytes::from(bad)).unwrap_err();
        assert!(matches!(error, ParseError::Syntax(_)), "{bad}: {error}");
    }
    let long = "x".repeat(1000);
    let message = format!(r#"{{"content":[{{"type":"text","text":"{long}"}}],"a":!}}"#);
    let Err(ParseError::Syntax(error)) = ToolResult::parse(Bytes::from(message.clone())) else { unreachable!() };
    assert_eq!(Some(error.offset as usize), message.find('!'));
}

#[test]
fn a_refusal_is_an_error_with_the_advice() {
    let result = parse(&json!({"resultType": "complete", "content": [text("big")], "structuredContent": {"a": 1}}));
    let reply = value(&result.rejected("ask with \"limit\""));
    assert_eq!(reply, json!({"resultType": "complete", "content": [text("ask with \"limit\"")], "isError": true}));
}

#[test]
fn the_last_check_counts_the_bytes_on_the_wire() {
    let message = text("\"\n中").to_string();
    assert_eq!(wire_size(&message, SizeUnit::Bytes), message.len() as u64);
    assert_eq!(wire_size(&message, SizeUnit::Characters), message.chars().count() as u64);
    for unit in UNITS {
        let amount = wire_size(&message, unit);
        assert!(!exceeds(message.as_bytes(), Size { amount, unit }));
        assert!(exceeds(message.as_bytes(), Size { amount: amount - 1, unit }));
    }
}

fn records(count: usize) -> Value {
    let rows: Vec<Value> = (0..count).map(|id| json!({"id": id, "name": format!("row \"{id}\"\n中")})).collect();
    json!({"total": count, "query": "x", "rows": rows})
}

#[test]
fn json_is_cut_to_whole_records() {
    let all = records(2000);
    for unit in UNITS {
        let reply = truncated(&parse(&json!({"content": [text(&all.to_string())]})), 2000, unit);
        assert!(!exceeds(&reply, Size { amount: 2000, unit }));
        assert!(exceeds(&reply, Size { amount: 1500, unit }), "{unit:?} leaves room unused");
        let object = value(value(&reply)["content"][0]["text"].as_str().unwrap().as_bytes());
        assert_eq!((&object["offloaded"], &object["warning"]), (&json!(false), &json!("disk full")));
        assert_eq!((&object["/total"], &object["/query"]), (&json!(2000), &json!("x")));
        let kept = object["/rows"].as_array().unwrap();
        assert!(!kept.is_empty());
        assert_eq!(kept[..], all["rows"].as_array().unwrap()[..kept.len()]);
        assert_eq!(object["omitted"]["/rows"], json!(2000 - kept.len()));
    }
}

#[test]
fn structured_content_is_cut_like_its_text() {
    let all = records(2000);
    let result = parse(&json!({"content": [text(&all.to_string())], "structuredContent": all}));
    let reply = truncated(&result, 8000, SizeUnit::Characters);
    assert!(!exceeds(&reply, Size { amount: 8000, unit: SizeUnit::Characters }));
    let reply = value(&reply);
    assert_eq!(value(reply["content"][0]["text"].as_str().unwrap().as_bytes()), reply["structuredContent"]);
    assert!(reply["structuredContent"]["/rows"].as_array().unwrap().len() > 20);
    let reply = String::from_utf8(truncated(&result, 150, SizeUnit::Bytes)).unwrap();
    assert!(reply.len() <= 150 && reply.contains(r#""structuredContent":{"offloaded":false}"#), "{reply}");
}

#[test]
fn a_long_text_in_json_keeps_its_beginning() {
    let page = "héllo \"world\" \u{1}\n".repeat(5000);
    for result in [json!({"title": "t", "markdown": page}), json!({"rows": [1], "markdown": page})] {
        let reply = truncated(&parse(&json!({"content": [text(&result.to_string())]})), 1000, SizeUnit::Characters);
        assert!(!exceeds(&reply, Size { amount: 1000, unit: SizeUnit::Characters }));
        let object = value(value(&reply)["content"][0]["text"].as_str().unwrap().as_bytes());
        let head = object["/markdown"].as_str().unwrap();
        assert!(head.len() > 100 && page.starts_with(head));
    }
}

#[test]
fn plain_text_is_cut_between_characters() {
    let long = "zażółć \"gęślą\" 中文 😀\n".repeat(1000);
    let result = parse(&json!({"content": [text(&long)]}));
    for unit in UNITS {
        for amount in [60, 61, 62, 63, 100, 1001, 5000] {
            let reply = truncated(&result, amount, unit);
            assert!(!exceeds(&reply, Size { amount, unit }), "{amount} {unit:?}");
            let reply = value(&reply);
            if amount >= 1001 {
                let cut = reply["content"][0]["text"].as_str().unwrap();
                assert!(long.starts_with(cut.strip_suffix("\n[cut]").unwrap()));
            }
        }
    }
}

#[test]
fn the_suffix_is_cut_when_the_limit_is_smaller() {
    let result = parse(&json!({"content": [text(&"x".repeat(500))]}));
    let limit = Size { amount: 60, unit: SizeUnit::Bytes };
    let suffix = "\"a suffix that is longer than all there is\"";
    let reply = result.truncated(&Truncation { limit, suffix, warning: "" });
    assert!(!exceeds(&reply, limit));
    let reply = value(&reply);
    let cut = reply["content"][0]["text"].as_str().unwrap();
    assert!(!cut.is_empty() && suffix.starts_with(cut));
}

#[test]
fn an_error_stays_an_error_and_keeps_both_ends() {
    let long = format!("FIRST {} LAST", "x".repeat(5000));
    let result = parse(&json!({"content": [text(&long)], "isError": true, "structuredContent": records(500)}));
    let reply = value(&truncated(&result, 1000, SizeUnit::Characters));
    assert_eq!(reply["isError"], json!(true));
    assert_eq!(reply.get("structuredContent"), None);
    let cut = reply["content"][0]["text"].as_str().unwrap();
    assert!(cut.starts_with("FIRST") && cut.ends_with("LAST") && cut.contains("\n[cut]\nx"), "{cut}");
    assert!(reply["content"][1]["text"].as_str().unwrap().contains("structured content was left out"));
}

#[test]
fn blocks_keep_their_order_and_none_is_lost() {
    let small = json!({"type": "image", "data": "AQID", "mimeType": "image/png"});
    let large = json!({"type": "image", "data": "AQID".repeat(1000), "mimeType": "image/jpeg"});
    let link = json!({"type": "resource_link", "uri": "file:///x", "name": "x"});
    let result =
        parse(&json!({"content": [text("first"), small, text(&"long ".repeat(1000)), large, link, text("last")]}));
    let reply = value(&truncated(&result, 2500, SizeUnit::Bytes));
    let content = reply["content"].as_array().unwrap();
    assert_eq!((&content[0], &content[1], &content[4], &content[5]), (&text("first"), &small, &link, &text("last")));
    assert!(content[2]["text"].as_str().unwrap().starts_with("long long"));
    let named = content[3]["text"].as_str().unwrap();
    assert!(named.contains("image/jpeg") && named.contains("3000 bytes"), "{named}");
}

#[test]
fn metadata_is_kept_when_small_and_cannot_break_the_limit() {
    let small = parse(&json!({"content": [text(&"x".repeat(5000))], "_meta": {"a": 1}}));
    assert_eq!(value(&truncated(&small, 1000, SizeUnit::Bytes))["_meta"], json!({"a": 1}));
    let huge =
        parse(&json!({"content": [text("short")], "_meta": {"a": "m".repeat(100_000)}, "other": "o".repeat(100_000)}));
    assert_eq!(kinds(&huge), [PartKind::Text, PartKind::Meta, PartKind::Block]);
    assert!(huge.payload().size() > 100_000);
    let reply = truncated(&huge, 1000, SizeUnit::Bytes);
    assert!(reply.len() <= 1000);
    assert_eq!(value(&reply)["content"][0], text("short"));
}

/// The members of a result whose text is cut to 1,000 bytes.
fn members_cut_to_1000(members: &Value) -> Value {
    let mut result = json!({"content": [text(&"x".repeat(5000))]});
    result.as_object_mut().unwrap().append(&mut members.as_object().unwrap().clone());
    let reply = truncated(&parse(&result), 1000, SizeUnit::Bytes);
    assert!(reply.len() <= 1000, "{}", reply.len());
    value(&reply)
}

#[test]
fn other_members_stay_up_to_an_eighth_of_the_limit_and_structured_content_to_a_half() {
    // With a comma, its key and its punctuation: `,"other":"…"`.
    let other = |bytes: usize| json!({"other": "o".repeat(bytes - 11)});
    assert_eq!(members_cut_to_1000(&other(125))["other"], other(125)["other"]);
    assert_eq!(members_cut_to_1000(&other(126)).get("other"), None);
    // Each has an eighth.
    let two = json!({"_meta": {"a": "m".repeat(90)}, "other": "o".repeat(100)});
    let reply = members_cut_to_1000(&two);
    assert_eq!((&reply["_meta"], &reply["other"]), (&two["_meta"], &two["other"]));
    // `,"structuredContent":{"a":"…"}`
    let structured = |bytes: usize| json!({"structuredContent": {"a": "s".repeat(bytes - 29)}});
    assert_eq!(members_cut_to_1000(&structured(500))["structuredContent"], structured(500)["structuredContent"]);
    assert_ne!(members_cut_to_1000(&structured(501))["structuredContent"], structured(501)["structuredContent"]);
    assert_eq!(members_cut_to_1000(&json!({"isError": false}))["isError"], json!(false));
    assert_eq!(members_cut_to_1000(&json!({"isError": true}))["isError"], json!(true));
}

#[test]
fn structured_content_that_has_a_schema_is_shortened_or_the_result_is_an_error() {
    let result = parse(&json!({"content": [text("first")], "structuredContent": records(2000)}));
    let limit = Size { amount: 1000, unit: SizeUnit::Bytes };
    let truncation = Truncation { limit, suffix: "\n[cut]", warning: "disk full" };
    let cut = |short: Option<&[u8]>| {
        let reply = result.truncated_within_schema(&truncation, short);
        assert!(!exceeds(&reply, limit));
        value(&reply)
    };
    let short = |bytes: usize| json!({"rows": ["r".repeat(bytes - 34)]}).to_string();
    let reply = cut(Some(short(500).as_bytes()));
    assert_eq!((&reply["structuredContent"], reply.get("isError")), (&value(short(500).as_bytes()), None));
    assert_eq!(reply["content"][0], text("first"));
    // What is too long for half of the limit is left out.
    for short in [None, Some(short(501))] {
        let reply = cut(short.as_deref().map(str::as_bytes));
        assert_eq!((reply.get("structuredContent"), &reply["isError"]), (None, &json!(true)));
        assert!(reply["content"].to_string().contains("structured content was left out"), "{reply}");
    }
    // What fits is left as it is.
    let small = parse(&json!({"content": [text(&"x".repeat(5000))], "structuredContent": {"rows": ["r"]}}));
    let reply = value(&small.truncated_within_schema(&truncation, None));
    assert_eq!((&reply["structuredContent"], reply.get("isError")), (&json!({"rows": ["r"]}), None));
}

proptest! {
    #![proptest_config(cases(50))]

    #[test]
    fn a_copy_is_found_whatever_its_spelling(content in any_text(), spell: u64, times in 1_usize..60, other: char) {
        let values = vec![format!("\"{}\"", spelled(&content, spell)); times];
        let structured = json!({"n": -1, "rows": vec![content.clone(); times]});
        for separator in [",", ", ", " ,\n\t "] {
            let copy = format!("{{\"n\": -1 , \"rows\":\n[{}]}}\n", values.join(separator));
            let result = parse(&json!({"content": [text(&copy)], "structuredContent": structured}));
            prop_assert_eq!(kinds(&result), [PartKind::Structured]);
            let place = copy.floor_char_boundary(copy.len() / 2);
            let changed = format!("{}{other}{}", &copy[..place], &copy[place..]);
            if serde_json::from_str::<Value>(&changed).ok() != Some(structured.clone()) {
                let result = parse(&json!({"content": [text(&changed)], "structuredContent": structured}));
                prop_assert_eq!(kinds(&result), [PartKind::Text, PartKind::Structured]);
            }
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn accepts_exactly_json(place in 0_usize..400, byte in prop::sample::select(b"{}[]\",:\\ \n0ae".to_vec()), remove: bool) {
        let mut message = concat!(
            r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\"b\\"},{"type":"image","data":"AQID","#,
            r#""mimeType":"image/png"},{"type":"resource","resource":{"uri":"u","text":"{\"k\":[1]}"}},7],"#,
            r#""structuredContent":{"a":[1,{"b":"}"}]},"isError":false,"_meta":{"m":[]}}}"#
        ).as_bytes().to_vec();
        let place = place % message.len();
        if remove { message.remove(place); } else { message[place] = byte; }
        let expected = serde_json::from_slice::<serde::de::IgnoredAny>(&message).is_ok();
        let parsed = ToolResult::parse(Bytes::from(message.clone()));
        prop_assert_eq!(!matches!(parsed, Err(ParseError::Syntax(_))), expected, "{}", String::from_utf8_lossy(&message));
        if let Ok(result) = parsed {
            for (part, found) in result.payload().parts().iter().enumerate() {
                if found.kind != PartKind::Binary {
                    prop_assert_eq!(read_all(result.payload(), part as u32, 5).len() as u64, found.size());
                }
            }
            let kept = vec![false; result.payload().parts().len()];
            value(&result.offloaded(&replacement("{}", &kept, true)));
        }
    }
}

fn any_block() -> impl Strategy<Value = Value> {
    let short = || text_up_to(60);
    let record = (any::<i64>(), short()).prop_map(|(id, text)| json!({"id": id, "text": text}));
    let list = (prop::collection::vec(record, 1..5), 0_usize..40, short());
    let list = list.prop_map(|(rows, times, other)| {
        let rows: Vec<&Value> = rows.iter().cycle().take(rows.len() * times).collect();
        text(&json!({"data": {"rows": rows}, "a~/\"": other}).to_string())
    });
    prop_oneof![
        3 => short().prop_map(|content| text(&content)),
        3 => list,
        1 => (short(), 1_usize..400).prop_map(|(content, times)| text(&content.repeat(times))),
        1 => (short(), 1_usize..400).prop_map(|(page, times)| text(&json!({"page": page.repeat(times)}).to_string())),
        1 => (0_usize..2000).prop_map(|size| json!({"type": "image", "data": "AQID".repeat(size), "mimeType": "image/png"})),
        1 => short().prop_map(|name| json!({"type": "resource_link", "uri": name, "name": "n"})),
        1 => short().prop_map(|name| json!({"type": "resource", "resource": {"uri": name, "text": name}})),
    ]
}

proptest! {
    #![proptest_config(cases(150))]

    #[test]
    fn a_truncated_result_is_valid_and_within_the_limit(
        blocks in prop::collection::vec(any_block(), 0..6),
        structured in prop::option::of(any_block()),
        more in prop::option::of(text_up_to(60)),
        is_error: bool, envelope: bool, copy: bool,
        suffix in text_up_to(60), warning in text_up_to(60),
        amount in prop_oneof![0_u64..300, 200_u64..4000], unit in prop::sample::select(UNITS.to_vec()),
    ) {
        let mut result = json!({"content": blocks, "isError": is_error});
        if let Some(structured) = &structured {
            let inner = structured["text"].as_str().and_then(|text| serde_json::from_str(text).ok());
            result["structuredContent"] = inner.filter(Value::is_object).unwrap_or_else(|| structured.clone());
            if copy {
                let copy = result["structuredContent"].to_string();
                result["content"].as_array_mut().unwrap().push(text(&copy));
            }
        }
        if let Some(more) = more {
            result["_meta"] = json!({"m": more});
            result["x"] = json!(more);
        }
        let message = if envelope { json!({"jsonrpc": "2.0", "id": 7, "result": result}) } else { result };
        let parsed = parse(&message);
        prop_assert_eq!(parsed.pass(), message.to_string());
        let limit = Size { amount, unit };
        let reply = parsed.truncated(&Truncation { limit, suffix: &suffix, warning: &warning });
        let smallest =
            r#"{"content":[],"isError":true,"structuredContent":{"offloaded":false}}{"jsonrpc":"2.0","id":7,"result":}"#;
        let smallest = smallest.len() as u64;
        prop_assert!(!exceeds(&reply, Size { amount: amount.max(smallest), unit }), "{}", String::from_utf8_lossy(&reply));
        let reply = value(&reply);
        let reply = if envelope { &reply["result"] } else { &reply };
        prop_assert!(reply["content"].is_array());
        prop_assert_eq!(reply["isError"] == json!(true), is_error);
    }

    #[test]
    fn a_reply_with_a_descriptor_keeps_what_is_kept(blocks in prop::collection::vec(any_block(), 0..6), mask: u8) {
        let parsed = parse(&json!({"content": blocks}));
        let kept: Vec<bool> = (0..blocks.len()).map(|index| mask >> index & 1 == 1).collect();
        let mut expected: Vec<Value> = blocks.iter().zip(&kept).filter(|(_, kept)| **kept).map(|(block, _)| block.clone()).collect();
        let place = kept.iter().position(|kept| !kept).unwrap_or(blocks.len());
        expected.insert(place, text("{\"d\":1}"));
        prop_assert_eq!(value(&parsed.offloaded(&replacement("{\"d\":1}", &kept, false))), json!({"content": expected}));
    }
}

#[test]
fn ids_are_the_same_when_their_values_are() {
    let same = |one: &str, other: &str| Id::of_json(one) == Id::of_json(other);
    let integer = "1234567890123456789012345678901234567890";
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("1", "10E-1"),
        ("1", "0.1e+1"),
        ("0", "-0"),
        ("0", "-0.0e7"),
        ("1200", "1.2e3"),
        ("-15", "-1.5e1"),
        ("0.5", "5e-1"),
        ("\"a\"", "\"\\u0061\""),
        ("\"/\"", "\"\\/\""),
        (integer, format!("{integer}.000").as_str()),
    ] {
        assert!(same(one, other) && same(other, one), "{one} {other}");
        assert_eq!(Id::of_json(one).json(), one, "it stays as it was spelled");
    }
    for (one, other) in [
        ("1", "\"1\""),
        ("1", "-1"),
        ("1", "10"),
        ("9007199254740993", "9007199254740992"),
        ("1e400", "1e401"),
        ("0.5", "0.50001"),
        ("\"a\"", "\"A\""),
        ("1e99999999999999999999", "1e99999999999999999998"),
    ] {
        assert!(!same(one, other), "{one} {other}");
    }
    let other_type = |json: &str| Id::of_json(json).of_other_type();
    for (one, other) in [("1.0", "\"1\""), ("\" 1 \"", "1"), ("\"+1\"", "1"), ("\"\\u0031\"", "1"), ("\"1e0\"", "1")] {
        assert_eq!(other_type(one), Some(Id::of_json(other)), "{one}");
    }
    assert_eq!(other_type("\"a\""), None);
}

#[test]
fn what_readers_disagree_about_is_no_message() {
    let fault = |message: &str| Message::read(Bytes::from(message.to_owned())).fault();
    let many = format!("{{{}\"result\":1}}", "\"x\":1,".repeat(MEMBERS_MAX));
    let batch = |count: usize| format!("[{}]", vec!["{}"; count].join(","));
    for (message, expected) in [
        (r#"{"id":1,"result":{},"result":{}}"#, Fault::Duplicate("result")),
        (r#"{"id":1,"result":{},"\u0072esult":{}}"#, Fault::Duplicate("result")),
        (r#"{"id":1,"id":1,"result":{}}"#, Fault::Duplicate("id")),
        (r#"{"id":1,"Result":{}}"#, Fault::CaseVariant("result")),
        (r#"{"id":1,"reſult":{},"method":"x"}"#, Fault::CaseVariant("result")),
        (r#"{"id":1,"result":{},"error":{}}"#, Fault::Both("result", "error")),
        (r#"{"id":1,"result":{},"method":"x"}"#, Fault::Both("method", "result")),
        (r#"{"id":1,"error":{},"method":"x"}"#, Fault::Both("method", "error")),
        (r#"{"id":1}"#, Fault::NoKind),
        (r#"{"id":[1],"result":{}}"#, Fault::Id),
        (r#"{"id":1,"result":{}} {}"#, Fault::NotOne),
        ("42", Fault::NotOne),
        (many.as_str(), Fault::TooMany),
        (batch(0).as_str(), Fault::Batch),
        (batch(BATCH_MESSAGES_MAX + 1).as_str(), Fault::Batch),
        ("[[{}]]", Fault::Batch),
        ("[{}", Fault::Batch),
    ] {
        assert_eq!(fault(message), Some(expected), "{message:.200}");
    }
    for message in [
        r#"{"id":1,"result":{},"error":null}"#,
        r#"{"id":1,"result":null,"error":{}}"#,
        r#"{"id":1,"result":null}"#,
        r#"{"id":1,"method":null,"result":7}"#,
        "\u{feff} {\"id\":1,\"result\":{}}",
    ] {
        let message = Message::read(Bytes::from(message.to_owned()));
        assert_eq!((message.kind(), message.fault()), (Kind::Response, None), "{message:?}");
    }
    assert_eq!(fault(&batch(BATCH_MESSAGES_MAX)), None);
    let object = Message::read(Bytes::from_static(br#"{"id":{"a":1},"result":{}}"#));
    assert_eq!((object.id(), object.with_id(&Id::own("a"))), (None, object.bytes().clone()));
}

/// The parts of the result of a response, as text.
fn parts_of(result: &str) -> Vec<(PartKind, String)> {
    let message = Message::read(Bytes::from(format!(r#"{{"jsonrpc":"2.0","id":1,"result":{result}}}"#)));
    let result = ToolResult::of_message(message).unwrap();
    let kinds = kinds(&result).into_iter().enumerate();
    kinds.map(|(part, kind)| (kind, read_all(result.payload(), part as u32, 1 << 20))).collect()
}

#[test]
fn whatever_a_result_is_it_has_parts() {
    let structured = |text: &str| vec![(PartKind::Structured, text.to_owned())];
    for whole in [r#""a""#, "7", "null", "[1]", r#"{"toolResult":[1]}"#, r#"{"content":"a"}"#, r#"{"a":1,"a":2}"#] {
        assert_eq!(parts_of(whole), structured(whole));
    }
    let others = parts_of(r#"{"content":[{"type":"text","text":"a"}], "x" : 1 ,"isError":"b","Content":[]}"#);
    let expected = r#"{"x":1,"isError":"b","Content":[]}"#;
    assert_eq!(others, [(PartKind::Text, "a".to_owned()), (PartKind::Block, expected.to_owned())]);
    let block = r#"{"type":"text","text":"a","more":"b"}"#;
    assert_eq!(parts_of(&format!(r#"{{"content":[{block}]}}"#)), [(PartKind::Block, block.to_owned())]);
    assert!(parts_of("{}").is_empty());
    let long = format!(r#"{{"content":[],"x":"{}"}}"#, "x".repeat(OTHERS_BYTES_MAX));
    let error = ToolResult::parse(Bytes::from(long)).unwrap_err();
    assert!(matches!(error, ParseError::TooMany { limit: OTHERS_BYTES_MAX, .. }), "{error}");
}

#[test]
fn what_is_not_of_the_protocol_goes_when_it_is_not_kept() {
    let message = r#"{"jsonrpc":"2.0","more":"b","id":1.0,"result":{"content":[{"type":"text","text":"a"}],"x":"c"}}"#;
    let result = ToolResult::of_message(Message::read(Bytes::from(message))).unwrap();
    assert_eq!(read_all(result.payload(), 1, 1 << 20), r#"{"more":"b","x":"c"}"#);
    let reply = |kept: &[bool]| String::from_utf8(result.offloaded(&replacement("{}", kept, false))).unwrap();
    let expected =
        r#"{"jsonrpc":"2.0","id":1.0,"result":{"content":[{"type":"text","text":"a"},{"type":"text","text":"{}"}]}}"#;
    assert_eq!(reply(&[true, false]), expected);
    assert!(reply(&[false, true]).starts_with(r#"{"jsonrpc":"2.0","more":"b","id":1.0,"#), "{}", reply(&[false, true]));
    assert!(!String::from_utf8(result.rejected("no")).unwrap().contains("more"));
}
