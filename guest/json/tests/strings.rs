//! Strings: written, decoded, checked; and pointers made of them.

mod support;

use lro_json::pointer::{key_of_step, last_key, push_json_step, push_step};
use lro_json::write::{self, Object};
use lro_json::{
    EscapeError, Piece, StringError, check_string, decode_string, pieces, unescape, unescape_lossy, unescaped,
    unescaped_lossy,
};
use proptest::prelude::*;
use support::inside;

fn parsed(inside: &str) -> Option<String> {
    serde_json::from_str(&format!("\"{inside}\"")).ok()
}

/// Checks and decodes in slices of this many bytes.
fn decoded(inside: &[u8], slice_bytes: usize) -> Result<Vec<u8>, StringError> {
    let (mut at, mut size) = (0, 0);
    while at < inside.len() {
        let (end, decoded) = check_string(inside, at, inside.len().min(at + slice_bytes))?;
        assert!(end > at);
        (at, size) = (end, size + decoded);
    }
    let (mut text, mut taken) = (Vec::new(), 0);
    while taken < inside.len() {
        let mut output = vec![0; slice_bytes.max(4)];
        let (read, written) = decode_string(&inside[taken..], &mut output);
        assert!(written > 0);
        text.extend_from_slice(&output[..written]);
        taken += read;
    }
    assert_eq!(text.len() as u64, size);
    Ok(text)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn strings_are_decoded(inside in inside(), slice_bytes in 1_usize..300) {
        let expected = parsed(&inside).unwrap();
        prop_assert_eq!(unescaped(inside.as_bytes()).unwrap(), expected.as_bytes());
        prop_assert_eq!(unescaped_lossy(inside.as_bytes()), expected.as_bytes());
        prop_assert_eq!(decoded(inside.as_bytes(), slice_bytes).unwrap(), expected.as_bytes());
        let pieces = pieces(&inside).map(|piece| match piece {
            Piece::Plain(text) => text.to_owned(),
            Piece::Character(character) => character.to_string(),
            Piece::Escape(escape) => panic!("{escape}"),
        });
        prop_assert_eq!(pieces.collect::<String>(), expected);
    }

    /// Whatever the bytes are, the check accepts what serde_json accepts.
    #[test]
    fn strings_are_checked(
        bytes in proptest::collection::vec(proptest::sample::select(&b"\\\\\\u0dDcC8\"nab/\x01 "[..]), 0..150),
        slice_bytes in 1_usize..200,
    ) {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let expected = parsed(&text).map(String::into_bytes);
        prop_assert_eq!(decoded(&bytes, slice_bytes).ok(), expected.clone());
        if let Some(expected) = expected {
            prop_assert_eq!(unescaped(&bytes), Ok(expected));
        }
        // None of these is text, but all of them end.
        let _ = unescaped_lossy(&bytes);
        pieces(&text).count();
    }

    #[test]
    fn written_strings_are_the_shortest(text in "(\\PC|[\0-\x1f\"\\\\/é]){0,80}") {
        prop_assert_eq!(write::string(&text), serde_json::to_string(&text).unwrap());
    }

    #[test]
    fn pointers_lead_back_to_their_keys(key in "[a/~01é\"\\\\]{0,12}", inside in inside()) {
        let (mut pointer, mut of_json) = ("/first".to_owned(), String::new());
        push_step(&mut pointer, &key);
        prop_assert_eq!(last_key(&pointer), Some(key));
        push_json_step(&mut of_json, &inside);
        let mut expected = String::new();
        push_step(&mut expected, &parsed(&inside).unwrap());
        prop_assert_eq!(of_json, expected);
    }
}

#[test]
fn an_escape_is_a_character_or_says_why_not() {
    for (escape, expected) in [
        ("\\n...", Ok(('\n', 2))),
        ("\\u00e9...", Ok(('é', 6))),
        ("\\uD83D\\uDE00...", Ok(('😀', 12))),
        ("\\ud83d\\u0041", Err(EscapeError::LoneSurrogate(0xD83D))),
        ("\\ud83d\\ude0", Err(EscapeError::LoneSurrogate(0xD83D))),
        ("\\ude00", Err(EscapeError::LoneSurrogate(0xDE00))),
        ("\\u00e", Err(EscapeError::Invalid)),
        ("\\u+123", Err(EscapeError::Invalid)),
        ("\\x", Err(EscapeError::Invalid)),
        ("\\", Err(EscapeError::Invalid)),
    ] {
        assert_eq!(unescape(escape.as_bytes()), expected, "{escape}");
    }
}

#[test]
fn an_unknown_escape_is_kept_as_far_as_possible() {
    assert_eq!(unescaped_lossy(b"\\ud800|\\x|\\ude00"), "\u{fffd}|x|\u{fffd}".as_bytes());
    assert_eq!(unescape_lossy(b"\\"), ('\u{fffd}', 1));
    let found: Vec<_> = pieces("a\\ud800é\\").collect();
    assert_eq!(found, [Piece::Plain("a"), Piece::Escape("\\ud800"), Piece::Plain("é"), Piece::Escape("\\")]);
    let mut pointer = String::new();
    push_json_step(&mut pointer, "a/\\ud800");
    assert_eq!(pointer, "/a~1\\ud800");
}

#[test]
fn an_invalid_string_has_an_index() {
    for (inside, error) in [
        ("a\"b", StringError::Invalid(1)),
        ("ab\u{1}", StringError::Invalid(2)),
        ("a\\x", StringError::Invalid(1)),
        ("abc\\ud800 ", StringError::LoneSurrogate(3)),
    ] {
        let long = format!("{}{inside}{}", "x".repeat(64), "y".repeat(64));
        assert_eq!(check_string(inside.as_bytes(), 0, inside.len()), Err(error), "{inside}");
        let shifted = match error {
            StringError::Invalid(at) => StringError::Invalid(at + 64),
            StringError::LoneSurrogate(at) => StringError::LoneSurrogate(at + 64),
        };
        assert_eq!(check_string(long.as_bytes(), 0, long.len()), Err(shifted), "{inside}");
    }
}

#[test]
fn objects_and_arrays_are_written() {
    let mut object = Object::default();
    assert!(object.is_empty());
    assert_eq!(object.finish(), "{}");
    object.member("a\"b", "1").member("c", &write::array([write::string("d"), "null".to_owned()]));
    assert_eq!(object.finish(), r#"{"a\"b":1,"c":["d",null]}"#);
    assert_eq!(write::array::<&str>([]), "[]");
}

#[test]
fn steps_are_unescaped_once() {
    assert_eq!(key_of_step("~01~1~0"), "~1/~");
    assert_eq!(last_key(""), None);
    assert_eq!(last_key("/a/"), Some(String::new()));
}
