//! `Validator`, `members`, `elements`, and `walk`, which moves through the same documents without validating them.

mod support;

use lro_json::walk::{self, Damaged};
use lro_json::{Member, SyntaxErrorKind, Validator, elements, members, validate};
use proptest::prelude::*;
use serde_json::value::RawValue;
use support::{array, key, object, value, white};

const BYTES: &[u8] = b"{}[]\",:\\ \n\t\0\x1fabefnrtulsxE0123456789+-./";

/// A `RawValue` is checked by the grammar alone, so lone surrogates are accepted on both sides.
fn serde_accepts(text: &str) -> bool {
    serde_json::from_str::<&RawValue>(text).is_ok()
}

/// The spans of members and elements that a walk finds.
fn walked(text: &str) -> Result<(Vec<Member<'_>>, Vec<&str>), Damaged> {
    let (bytes, mut members, mut elements) = (text.as_bytes(), Vec::new(), Vec::new());
    let start = walk::skip_white(bytes, 0);
    let end = match bytes.get(start) {
        Some(b'{') => walk::members(bytes, start, |key, at| {
            let key_start = key.end - key.bytes.len() - 2;
            members.push(Member { key: &text[key_start..key.end], value: &text[at..walk::value_end(bytes, at)?] });
            Ok(())
        }),
        Some(b'[') => walk::elements(bytes, start, |at| {
            elements.push(&text[at..walk::value_end(bytes, at)?]);
            Ok(())
        }),
        _ => walk::value_end(bytes, start),
    }?;
    assert_eq!(walk::value_end(bytes, start), Ok(end));
    assert_eq!(walk::skip_white(bytes, end), text.len(), "only white space follows");
    Ok((members, elements))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn parts_of_an_object_are_spans(
        parts in proptest::collection::vec((key(), value()), 0..8),
        white in white(),
    ) {
        let text = format!("{white}{}{white}", object(&parts, white));
        let expected: Vec<_> = parts.iter().map(|(key, value)| Member { key, value }).collect();
        prop_assert_eq!(members(&text).unwrap(), expected.clone());
        prop_assert_eq!(walked(&text), Ok((expected, Vec::new())));
        prop_assert_eq!(elements(&text).map_err(|error| error.kind), Err(SyntaxErrorKind::NotAnArray));
    }

    #[test]
    fn parts_of_an_array_are_spans(parts in proptest::collection::vec(value(), 0..8), white in white()) {
        let text = format!("{white}{}{white}", array(&parts, white));
        prop_assert_eq!(elements(&text).unwrap(), parts.iter().map(String::as_str).collect::<Vec<_>>());
        prop_assert_eq!(walked(&text), Ok((Vec::new(), parts.iter().map(String::as_str).collect())));
        prop_assert_eq!(members(&text).map_err(|error| error.kind), Err(SyntaxErrorKind::NotAnObject));
    }

    /// Accepts what serde_json accepts, however the text is cut.
    #[test]
    fn documents_are_validated(
        value in value(),
        edits in proptest::collection::vec((any::<prop::sample::Index>(), proptest::sample::select(BYTES)), 0..3),
        slice_bytes in 1_usize..100,
    ) {
        let mut bytes = value.into_bytes();
        for (index, byte) in edits {
            let index = index.index(bytes.len());
            if bytes[index].is_ascii() {
                bytes[index] = byte;
            }
        }
        let text = String::from_utf8(bytes).unwrap();
        prop_assert_eq!(validate(&text).is_ok(), serde_accepts(&text), "{:?}", validate(&text));
        let (mut validator, mut rest, mut result) = (Validator::new(), text.as_str(), Ok(()));
        while !rest.is_empty() && result.is_ok() {
            let (slice, after) = rest.split_at(rest.ceil_char_boundary(slice_bytes));
            result = validator.push(slice);
            rest = after;
        }
        prop_assert_eq!(result.and_then(|()| validator.finish()), validate(&text));
        prop_assert!(validate(&text).is_err() || walked(&text).is_ok(), "a walk moves through every document");
    }

    /// A walk ends in any text.
    #[test]
    fn a_walk_ends(text in proptest::collection::vec(proptest::sample::select(BYTES), 0..300), at in 0_usize..300) {
        for end in [walk::value_end(&text, at), walk::container_end(&text, at)] {
            prop_assert!(end.is_err() || end.is_ok_and(|end| at < end && end <= text.len()));
        }
        prop_assert!(walk::skip_white(&text, at) <= text.len().max(at));
    }
}

#[test]
fn parts_are_validated() {
    assert_eq!(members("").map_err(|error| error.kind), Err(SyntaxErrorKind::UnexpectedEnd));
    assert_eq!(members("{\"a\":[1,{\"b\":tru}]}").map_err(|error| error.offset), Err(16));
    assert_eq!(elements("[1] x").map_err(|error| error.offset), Err(4));
    let found = members("{\"a\": 1 , \"a\" :{\"b\": [ ]} }").unwrap();
    let found: Vec<_> = found.iter().map(|member| (member.key, member.value)).collect();
    assert_eq!(found, [("\"a\"", "1"), ("\"a\"", "{\"b\": [ ]}")]);
}

#[test]
fn a_walk_says_what_is_cut() {
    for text in ["", "{", "[[]", "\"a", "\"a\\\"", "}", ",", "{\"a\":[1,2}", "[\"]"] {
        assert_eq!(walk::value(text.as_bytes()), Err(Damaged), "{text}");
    }
    assert_eq!(walk::value(b"12 "), Ok(b"12".as_slice()));
    assert!(walk::members(b"{\"a\" 1}", 0, |_, _| Ok(())).is_err());
    assert!(walk::elements(b"[1 2]", 0, |_| Ok(())).is_err());
}
