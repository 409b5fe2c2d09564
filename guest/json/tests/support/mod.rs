//! Shared by the tests: random JSON text.
#![allow(dead_code, reason = "each test binary uses a part of it")]

use proptest::prelude::*;
use proptest::sample::select;

/// Scalars as they may be written.
const SCALARS: [&str; 20] = [
    "null",
    "true",
    "false",
    "0",
    "-12",
    "1.0",
    "1E+2",
    "0.25e-7",
    "123456789012345678901234567890.5",
    "\"\"",
    "\"a\"",
    "\"\\\\\"",
    "\"\\\"\"",
    "\"a,b:[{]}\"",
    "\"\\u0061\\/\\b\\f\\n\\r\\t\"",
    "\"\\ud83d\\ude00\"",
    "\"\\ud800\"",
    "\"東京 📦\"",
    "\"\\\\\\\\\\\"]}\"",
    "\"a long text without any escape, which fills more than one block of sixty-four bytes\"",
];

const KEYS: [&str; 8] = ["\"a\"", "\"b\"", "\"\"", "\"\\u0061\"", "\"a/b~c\"", "\"é\"", "\"\\\"q\\\"\"", "\"{[:,\""];

/// A key with its quotes.
pub(crate) fn key() -> impl Strategy<Value = &'static str> {
    select(&KEYS[..])
}

/// White space between tokens.
pub(crate) fn white() -> impl Strategy<Value = &'static str> {
    let pretty = "\n                                                                      ";
    prop_oneof![6 => Just(""), 2 => Just(" "), 1 => Just("\t\r\n"), 1 => Just(pretty)]
}

/// An object of these members, and an array of these elements.
pub(crate) fn object(members: &[(&str, String)], white: &str) -> String {
    let members = members.iter().map(|(key, value)| format!("{white}{key}{white}:{white}{value}{white}"));
    format!("{{{white}{}{white}}}", members.collect::<Vec<_>>().join(","))
}

pub(crate) fn array(elements: &[String], white: &str) -> String {
    let elements = elements.iter().map(|element| format!("{white}{element}{white}"));
    format!("[{white}{}{white}]", elements.collect::<Vec<_>>().join(","))
}

/// Any value.
pub(crate) fn value() -> impl Strategy<Value = String> {
    select(&SCALARS[..]).prop_map(str::to_owned).prop_recursive(5, 40, 6, |inner| {
        let members = proptest::collection::vec((key(), inner.clone()), 0..6);
        let elements = proptest::collection::vec(inner, 0..6);
        prop_oneof![
            (members, white()).prop_map(|(members, white)| object(&members, white)),
            (elements, white()).prop_map(|(elements, white)| array(&elements, white)),
        ]
    })
}

/// The inside of a string, with escapes of every kind.
pub(crate) fn inside() -> impl Strategy<Value = String> {
    const ESCAPES: [&str; 10] =
        ["\\n", "\\\"", "\\\\", "\\/", "\\b", "\\u0041", "\\u00e9", "\\uD83D\\uDE00", "\\u0000", "\\uFFFF"];
    let piece =
        prop_oneof![3 => "[a-z é文😀]{0,20}", 3 => select(&ESCAPES[..]).prop_map(str::to_owned), 1 => "[a-z]{60,90}"];
    proptest::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}
