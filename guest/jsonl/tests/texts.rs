//! The strings of a document that are texts of their own: found, and read without their escapes.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod support;

use lro_jsonl::{
    ONLY_TEXT_BYTES_MIN, Section, Shape, StringError, StringReader, Survey, Surveyed, TEXT_BYTES_MIN,
    WRAPPER_ELEMENTS_MAX, survey,
};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{dice, slices};

/// What is found in a document, which does not depend on how it is cut into slices.
fn found(text: &str, complete: bool) -> Surveyed {
    let of = |slice_bytes: usize| {
        let (mut survey, mut rest) = (Survey::new(), text);
        while !rest.is_empty() {
            let (slice, after) = rest.split_at(rest.ceil_char_boundary(slice_bytes.min(rest.len())));
            survey.push(slice).expect("valid");
            rest = after;
        }
        survey.finish_with_texts(complete).expect("valid")
    };
    let found = of(text.len());
    for slice_bytes in [1, 7, 64, 1000] {
        assert_eq!(of(slice_bytes), found, "slices of {slice_bytes} bytes");
    }
    found
}

/// The pointers of the sections and of the texts.
fn pointers(value: &Value) -> (Vec<String>, Vec<String>) {
    let Surveyed { sections, texts } = found(&value.to_string(), true);
    for text in &texts {
        let string = value.pointer(&text.pointer).expect("a value");
        assert!(string.is_string(), "{}", text.pointer);
        assert_eq!(text.bytes, string.to_string().len());
    }
    let pointers = |pointer: &Section| pointer.pointer.clone();
    (sections.iter().map(pointers).collect(), texts.into_iter().map(|text| text.pointer).collect())
}

fn long() -> String {
    "\"line\" é\n".repeat(TEXT_BYTES_MIN / 8)
}

fn rows(count: usize) -> Value {
    (0..count).map(|id| json!({"id": id, "name": format!("row number {id}")})).collect()
}

#[test]
fn texts_are_found_in_the_wrappers_of_tools() {
    let only = "x".repeat(ONLY_TEXT_BYTES_MIN);
    let block = json!({"type": "text", "text": long()});
    let cases: [(Value, &[&str], &[&str]); 13] = [
        (json!({"result": long()}), &[], &["/result"]),
        (json!({"status": 200, "body": only}), &[], &["/body"]),
        (json!({"stdout": long(), "stderr": "", "exit_code": 0}), &[], &["/stdout"]),
        (json!({"a": {"b": [{"c/d": {"é": long()}}]}}), &[], &["/a/b/0/c~1d/é"]),
        (json!([long()]), &[], &["/0"]),
        (json!([block]), &[], &["/0/text"]),
        (json!({"content": [{"type": "text", "text": "Found:"}, block], "isError": false}), &[], &["/content/1/text"]),
        // The records stay, and the text beside them is one.
        (json!({"items": rows(400), "log": long()}), &["/items"], &["/log"]),
        // Not a text: it is short, and most is something else.
        (json!({"items": rows(400), "log": only}), &["/items"], &[]),
        (json!({"body": "x".repeat(ONLY_TEXT_BYTES_MIN - 3)}), &[], &[]),
        // Records, with all their strings.
        (json!([block, block, block, block]), &[""], &[]),
        (json!([block, block, {"type": "text", "text": "short"}]), &[""], &[]),
        (json!({"pages": (0..40).map(|id| json!({"id": id, "html": long()})).collect::<Vec<_>>()}), &["/pages"], &[]),
    ];
    for (value, sections, texts) in cases {
        let (found_sections, found_texts) = pointers(&value);
        assert_eq!(
            (found_sections, found_texts),
            (sections.iter().map(|at| (*at).to_owned()).collect(), {
                texts.iter().map(|at| (*at).to_owned()).collect::<Vec<_>>()
            }),
            "{value:.80}"
        );
    }
}

#[test]
fn limits_of_texts_are_exact() {
    let texts = |text: &str| found(text, true).texts.into_iter().map(|text| text.pointer).collect::<Vec<_>>();
    let string = |bytes: usize| format!("\"{}\"", "x".repeat(bytes - 2));
    let beside = |bytes: usize| format!("{{\"rows\":{},\"a\":{}}}", rows(2_000), string(bytes));
    assert_eq!(texts(&beside(TEXT_BYTES_MIN)), ["/a"]);
    assert_eq!(texts(&beside(TEXT_BYTES_MIN - 1)), Vec::<String>::new());
    // A shorter one that is half of the document.
    let document = |bytes: usize, all: usize| format!("{{\"a\":{}}}{}", string(bytes), " ".repeat(all - bytes - 6));
    assert_eq!(document(2_000, 4_000).len(), 4_000);
    assert_eq!(texts(&document(2_000, 4_000)), ["/a"]);
    assert_eq!(texts(&document(2_000, 4_001)), Vec::<String>::new());
    assert_eq!(texts(&document(ONLY_TEXT_BYTES_MIN, ONLY_TEXT_BYTES_MIN + 6)), ["/a"]);
    assert_eq!(texts(&document(ONLY_TEXT_BYTES_MIN - 1, ONLY_TEXT_BYTES_MIN + 5)), Vec::<String>::new());
    // Also in what is too short for a section.
    assert_eq!(texts(&format!("{{\"a\":[{{\"b\":{}}}]}}", string(2_000))), ["/a/0/b"]);
    // Few elements around one, of which it is half.
    let wrapper = |elements: usize, beside: usize| {
        format!("[{}{},{}]", "0,".repeat(elements - 2), string(2 * TEXT_BYTES_MIN), string(beside))
    };
    assert_eq!(texts(&wrapper(WRAPPER_ELEMENTS_MAX, 2 * TEXT_BYTES_MIN - 5)), ["/1", "/2"]);
    assert_eq!(texts(&wrapper(WRAPPER_ELEMENTS_MAX, 2 * TEXT_BYTES_MIN - 4)), Vec::<String>::new());
    assert_eq!(texts(&wrapper(WRAPPER_ELEMENTS_MAX + 1, 10)), Vec::<String>::new());
}

/// A wrapper is an array with elements like any other for those who look for sections alone.
#[test]
fn sections_alone_are_found_as_if_strings_were_short() {
    let text = json!([{"type": "text", "text": long()}]).to_string();
    let section = Section { pointer: String::new(), shape: Shape::Elements };
    assert_eq!(survey(&text, true).expect("valid"), [section]);
}

/// A view that ends in a string finds it.
#[test]
fn a_cut_text_is_found() {
    let text = format!(r#"[{{"status":200,"body":"{}"#, "x".repeat(3 * TEXT_BYTES_MIN));
    for length in [ONLY_TEXT_BYTES_MIN + 60, TEXT_BYTES_MIN, text.len()] {
        let Surveyed { sections, texts } = found(&text[..length], false);
        let texts: Vec<&str> = texts.iter().map(|text| text.pointer.as_str()).collect();
        assert_eq!((sections.len(), texts), (0, vec!["/0/body"]), "{length}");
    }
}

/// The string at a pointer, read from slices.
fn read(slices: &[&str], pointer: &str) -> Result<String, StringError> {
    let (mut reader, mut text) = (StringReader::new(pointer), String::new());
    for slice in slices {
        if !reader.push(slice, &mut text)? {
            return Ok(text);
        }
    }
    reader.finish(&mut text).map(|()| text)
}

fn value() -> impl Strategy<Value = Value> {
    let string = proptest::collection::vec(
        proptest::sample::select(
            &["a", "\"", "\\", "\n", "\u{1}", "é", "漢", "🦀", "/", "plain text of some length "][..],
        ),
        0..200,
    );
    let leaf = prop_oneof![string.prop_map(|pieces| Value::from(pieces.concat())), Just(json!(1.5)), Just(Value::Null)];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let keys = proptest::sample::select(&["a", "b", "c/d", "\"q\"", "~"][..]).prop_map(String::from);
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            proptest::collection::btree_map(keys, inner, 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// The pointers of all values.
fn all(value: &Value, pointer: &str, pointers: &mut Vec<String>) {
    pointers.push(pointer.to_owned());
    match value {
        Value::Array(elements) => {
            elements
                .iter()
                .enumerate()
                .for_each(|(index, element)| all(element, &format!("{pointer}/{index}"), pointers));
        }
        Value::Object(members) => {
            for (key, member) in members {
                let mut pointer = pointer.to_owned();
                lro_json::pointer::push_step(&mut pointer, key);
                all(member, &pointer, pointers);
            }
        }
        _ => {}
    }
}

/// JSON with every character of a string that is not ASCII as an escape, in pairs where it has to.
fn ascii(text: &str) -> String {
    let mut units = [0; 2];
    let escaped = |character: char| match character {
        ' '..='~' | '\n' => character.to_string(),
        _ => character.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04X}")).collect(),
    };
    text.chars().map(escaped).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is read is what serde_json reads, however the document is written and cut.
    #[test]
    fn strings_are_read(value in value(), cuts in dice(), pretty in any::<bool>(), escapes in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = text.expect("JSON");
        let text = if escapes { ascii(&text) } else { text };
        let mut pointers = Vec::new();
        all(&value, "", &mut pointers);
        for pointer in pointers {
            let expected = value.pointer(&pointer).and_then(Value::as_str).map(str::to_owned);
            prop_assert_eq!(read(&slices(&text, &cuts), &pointer).ok(), expected, "{}", pointer);
        }
        prop_assert_eq!(read(&[&text], "/none"), Err(StringError::Missing));
    }
}

/// A string is given while it is read: what waits does not grow with it.
#[test]
fn a_long_string_is_read_in_pieces() {
    let expected = "plain \"text\"\n".repeat(200_000);
    let text = json!({"before": "x".repeat(9000), "text": expected, "then": rows(3)}).to_string();
    let (mut reader, mut found, mut read) = (StringReader::new("/text"), String::new(), 0);
    for slice in text.as_bytes().chunks(64 * 1024) {
        read += slice.len();
        if !reader.push(std::str::from_utf8(slice).expect("ASCII"), &mut found).expect("a string") {
            break;
        }
        let escapes = found.len() / 13 * 3;
        assert!(found.len() + escapes + 512 * 1024 > read, "{} of {read}", found.len());
    }
    assert_eq!(found, expected);
}

#[test]
fn what_is_no_text_is_refused() {
    let lone = r#"{"a": "before \ud83d after"}"#;
    assert_eq!(read(&[lone], "/a"), Err(StringError::LoneSurrogate));
    assert_eq!(read(&[r#"{"a": "\udc00"}"#], "/a"), Err(StringError::LoneSurrogate));
    assert_eq!(read(&[r#"{"a": "\ud83d"}"#], "/a"), Err(StringError::LoneSurrogate));
    // An array of one string is not that string, and of two values with a key the first counts.
    assert_eq!(read(&[r#"{"a": ["x"]}"#], "/a"), Err(StringError::Missing));
    assert_eq!(read(&[r#"{"a": ["x"], "a": "y"}"#], "/a"), Err(StringError::Missing));
    assert_eq!(read(&[r#"{"a": "x", "a": "y"}"#], "/a"), Ok("x".to_owned()));
    assert!(matches!(read(&[r#"{"b": tru, "a": "x"}"#], "/a"), Err(StringError::Syntax(_))));
    assert!(matches!(read(&[r#"{"a": "x"#], "/a"), Err(StringError::Syntax(_))));
}
