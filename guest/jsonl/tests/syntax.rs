//! Accepts exactly the JSON documents, and reports an error at the first invalid byte.

mod support;

use lro_json::{DEPTH_MAX, SyntaxError, SyntaxErrorKind, Validator};
use lro_jsonl::{Options, Section, Shape};
use proptest::prelude::*;
use serde_json::value::RawValue;
use support::{Json, dice, json, records, slices, split, white};

fn options() -> Options {
    let sections = vec![Section { pointer: "/a".into(), shape: Shape::Elements }];
    Options { sections, inline_bytes: 20, inline_total: 100, profile: true, ..Options::default() }
}

fn check(text: &str) -> Result<(), SyntaxError> {
    split(&[text], &options()).map(|_| ())
}

fn validate(slices: &[&str]) -> Result<(), SyntaxError> {
    let mut validator = Validator::new();
    slices.iter().try_for_each(|slice| validator.push(slice))?;
    validator.finish()
}

/// A `RawValue` is checked by the grammar alone, so lone surrogates are accepted on both sides.
fn serde_accepts(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// Accepts the text if and only if `serde_json` does; an error does not depend on the text after it, or on the slices.
fn agrees(text: &str, cuts: &[u8]) -> Result<(), TestCaseError> {
    let result = split(&slices(text, cuts), &options()).map(|_| ());
    prop_assert_eq!(result.is_ok(), serde_accepts(text), "{:?}", result);
    prop_assert_eq!(result, check(text), "cut and whole");
    prop_assert_eq!(result, validate(&slices(text, cuts)), "without a splitter");
    if let Err(error) = result {
        let offset = error.offset as usize;
        prop_assert!(offset <= text.len());
        if error.kind == SyntaxErrorKind::UnexpectedEnd {
            prop_assert_eq!(offset, text.len());
        } else if text.is_char_boundary(offset) {
            let before = check(&text[..offset]);
            let end = SyntaxError { kind: SyntaxErrorKind::UnexpectedEnd, offset: error.offset };
            prop_assert!(before.is_ok() || before == Err(end), "{:?} before {:?}", before, error);
            let with = &text[..text.ceil_char_boundary(offset + 1)];
            prop_assert_eq!(check(with), Err(error), "the byte itself");
        }
    }
    Ok(())
}

const BYTES: &[u8] = b"{}[]\",:\\ \n\t\r\0\x1f\x7fabefnrtulsxE0123456789+-./";

/// Where to insert, remove, cut or replace which byte.
fn mutations() -> impl Strategy<Value = Vec<(proptest::sample::Index, u8, u8)>> {
    let byte = proptest::sample::select(BYTES);
    proptest::collection::vec((any::<proptest::sample::Index>(), 0..4_u8, byte), 1..3)
}

fn mutated(json: &Json, dice: &[u8], mutations: Vec<(proptest::sample::Index, u8, u8)>) -> String {
    let mut bytes = json.render(&mut white(dice)).into_bytes();
    for (index, kind, byte) in mutations {
        if bytes.is_empty() {
            break;
        }
        let index = index.index(bytes.len());
        match kind {
            0 => bytes.insert(index, byte),
            1 => {
                bytes.remove(index);
            }
            2 => bytes.truncate(index),
            _ => bytes[index] = byte,
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 10_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn mutated_documents(
        json in json(),
        dice in dice(),
        cuts in dice(),
        mutations in mutations(),
    ) {
        agrees(&mutated(&json, &dice, mutations), &cuts)?;
    }

    #[test]
    fn mutated_records(records in records(), dice in dice(), cuts in dice(), mutations in mutations()) {
        let document = Json::Object(vec![("\"a\"".into(), records)]);
        agrees(&mutated(&document, &dice, mutations), &cuts)?;
    }

    #[test]
    fn strings_of_tokens(
        parts in proptest::collection::vec(proptest::sample::select(&[
            "{", "}", "[", "]", ",", ":", "\"a\"", "\"", "\\", "1", "-", "0", ".5", "e3", "true", "null", " ", "\n", "\\u00e9", "é", "x",
        ][..]), 0..12),
        cuts in dice(),
        padding in 0..130_usize,
    ) {
        agrees(&(" ".repeat(padding) + &parts.concat()), &cuts)?;
    }

    #[test]
    fn any_text(text in "\\PC{0,20}", cuts in dice()) {
        agrees(&text, &cuts)?;
    }
}

/// Every byte at every position of a small document.
#[test]
fn every_byte_everywhere() {
    let text = r#"{"a":[1,-0.5e+1,"x\n\u00e9"],"b":{"c":null,"d":[]},"e":true}"#;
    for index in 0..text.len() {
        for byte in 0..=0x7F_u8 {
            let mut bytes = text.as_bytes().to_vec();
            bytes[index] = byte;
            let text = String::from_utf8(bytes).expect("ASCII");
            assert_eq!(check(&text).is_ok(), serde_accepts(&text), "{text}");
        }
    }
}

/// A document cut anywhere is invalid.
#[test]
fn every_cut_is_an_error() {
    let text = r#"{"a": [1, 20, {"b": "\u00e9\\"}], "c": {"d": [true, -1.5e3]}} "#.trim_end();
    for end in 0..text.len() {
        let offset = end as u64;
        assert_eq!(check(&text[..end]), Err(SyntaxError { kind: SyntaxErrorKind::UnexpectedEnd, offset }), "{end}");
    }
    assert_eq!(check(text), Ok(()));
}

#[test]
fn errors_say_what_and_where() {
    use SyntaxErrorKind::*;
    let cases: &[(&str, SyntaxErrorKind, u64)] = &[
        ("", UnexpectedEnd, 0),
        (" \n", UnexpectedEnd, 2),
        ("\0", ControlCharacter, 0),
        ("[1] 2", UnexpectedToken, 4),
        ("1,2", UnexpectedToken, 1),
        ("{\"a\" 1}", UnexpectedToken, 5),
        ("{\"a\":1,}", UnexpectedToken, 7),
        ("{1:2}", UnexpectedToken, 1),
        ("[1,]", UnexpectedToken, 3),
        ("[\"a\":1]", UnexpectedToken, 4),
        ("[1 2]", UnexpectedToken, 3),
        ("{\"a\":1 \"b\":2}", UnexpectedToken, 7),
        ("[1}", MismatchedBracket, 2),
        ("]", MismatchedBracket, 0),
        ("[01]", InvalidNumber, 2),
        ("[1.]", InvalidNumber, 3),
        ("[-]", InvalidNumber, 2),
        ("[1e+]", InvalidNumber, 4),
        ("[+1]", InvalidNumber, 1),
        ("[12a]", InvalidNumber, 3),
        ("[nul]", InvalidLiteral, 4),
        ("[truex]", InvalidLiteral, 5),
        ("[NaN]", InvalidLiteral, 1),
        ("[\"\\x\"]", InvalidEscape, 3),
        ("[\"\\u12g4\"]", InvalidEscape, 6),
        ("[\"a\nb\"]", ControlCharacter, 3),
        ("[\u{a0}]", UnexpectedToken, 1),
        ("\u{feff}[]", UnexpectedToken, 0),
    ];
    for &(text, kind, offset) in cases {
        assert_eq!(check(text), Err(SyntaxError { kind, offset }), "{text:?}");
    }
}

/// The limit itself is accepted, one more is rejected by name, however many follow.
#[test]
fn depth_is_limited() {
    let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    assert_eq!(check(&nested(DEPTH_MAX)), Ok(()));
    let error = SyntaxError { kind: SyntaxErrorKind::DepthLimit, offset: DEPTH_MAX as u64 };
    assert_eq!(check(&nested(DEPTH_MAX + 1)), Err(error));
    assert_eq!(check(&nested(10_000)), Err(error));
    assert!(error.to_string().contains("1024"));
    let objects = "{\"a\":".repeat(DEPTH_MAX) + "1" + &"}".repeat(DEPTH_MAX);
    assert_eq!(check(&objects), Ok(()));
    assert!(lro_jsonl::survey(&objects, true).is_ok());
}
