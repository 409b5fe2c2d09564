//! Bytes in a text.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE};
use lro_text::{Decoder, ENCODED_CHARACTERS_MIN, Encoded, NotBase64, encoded};
use proptest::prelude::*;

/// The bytes of a text in slices of this many characters.
fn decoded(text: &str, slice: usize) -> Result<Vec<u8>, NotBase64> {
    let (mut decoder, mut bytes) = (Decoder::default(), Vec::new());
    for slice in text.as_bytes().chunks(slice) {
        decoder.push(std::str::from_utf8(slice).expect("ASCII"), &mut bytes)?;
    }
    decoder.finish(&mut bytes).map(|()| bytes)
}

/// Bytes of all values.
fn bytes(count: usize) -> Vec<u8> {
    (0..count).map(|index| ((index * 7919) >> 3) as u8).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// What is decoded is what was encoded, however it is cut.
    #[test]
    fn bytes_come_back(bytes in proptest::collection::vec(any::<u8>(), 0..200), slice in 1_usize..50) {
        let text = STANDARD.encode(&bytes);
        prop_assert_eq!(decoded(&text, slice), Ok(bytes));
    }

    /// A text that is decoded is the one that its bytes are written as: nothing of it is lost.
    #[test]
    fn nothing_else_is_decoded(text in "[A-Da-d+/=\n-]{0,24}", slice in 1_usize..30) {
        if let Ok(bytes) = decoded(&text, slice) {
            prop_assert_eq!(STANDARD.encode(bytes), text);
        }
    }
}

#[test]
fn bytes_are_recognized() {
    let bytes = bytes(2_000);
    let text = STANDARD.encode(&bytes);
    let expected = |prefix: &str, media_type: Option<&str>| {
        Some(Encoded { prefix: prefix.to_owned(), media_type: media_type.map(str::to_owned), beginning: bytes.clone() })
    };
    assert_eq!(encoded(&text, true), expected("", None));
    for (prefix, media_type) in [
        ("data:image/png;base64,", Some("image/png")),
        ("data:Image/SVG+xml;charset=utf-8;base64,", Some("image/svg+xml")),
        ("data:;base64,", None),
    ] {
        assert_eq!(encoded(&format!("{prefix}{text}"), true), expected(prefix, media_type));
    }
    // Of a beginning, whole bytes are known.
    let beginning = encoded(&text[..ENCODED_CHARACTERS_MIN + 2], false).expect("base64").beginning;
    assert!(beginning.len() > 700 && bytes.starts_with(&beginning));
}

#[test]
fn other_texts_are_no_bytes() {
    let bytes = bytes(2_000);
    let text = STANDARD.encode(&bytes);
    let lines = text.as_bytes().chunks(76).map(String::from_utf8_lossy).collect::<Vec<_>>().join("\r\n");
    for other in [
        text[..ENCODED_CHARACTERS_MIN - 4].to_owned(),
        lines,
        URL_SAFE.encode(&bytes),
        STANDARD_NO_PAD.encode(&bytes),
        format!("{text}{text}"),
        "0123456789abcdef".repeat(100),
        "ACGT".repeat(400),
        "x".repeat(4_000),
        format!("data:image/png,{text}"),
        format!("data:{};base64,{text}", "x".repeat(200)),
        format!("data:image/png ;base64,{text}"),
        format!("data:{text}"),
        format!("déta:{text}"),
    ] {
        assert_eq!(encoded(&other, true), None, "{other:.40}");
    }
}
