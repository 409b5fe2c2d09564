//! Keys: bytes that are equal exactly where JSON values are equal, and that order like sorted values.
//!
//! A missing value is 0, and no key is a prefix of another: keys may be concatenated, and all bytes of one may be
//! inverted for a descending order.

use lro_json::walk::{self, Damaged, Raw};

use crate::number::Decimal;

const MISSING: u8 = 0;
const NULL: u8 = 1;
const FALSE: u8 = 2;
const TRUE: u8 = 3;
const NUMBER: u8 = 4;
const STRING: u8 = 5;
const ARRAY: u8 = 6;
const OBJECT: u8 = 7;

/// Whether strings are compared with or without case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Case {
    Sensitive,
    Insensitive,
}

/// Appends the key of the value at the beginning of `text`, or of a missing value.
pub(crate) fn push(key: &mut Vec<u8>, text: Option<&[u8]>, case: Case) -> Result<(), Damaged> {
    match text {
        Some(text) => push_value(key, text, 0, case, lro_json::DEPTH_MAX).map(|_| ()),
        None => {
            key.push(MISSING);
            Ok(())
        }
    }
}

/// Appends the key of the value at `at`; returns the index after it.
fn push_value(key: &mut Vec<u8>, text: &[u8], at: usize, case: Case, depth: usize) -> Result<usize, Damaged> {
    let rest = text.get(at..).unwrap_or_default();
    let mut literal = |word: &[u8], tag| {
        key.push(tag);
        if rest.starts_with(word) { Ok(at + word.len()) } else { Err(Damaged) }
    };
    match rest.first() {
        Some(b'n') => literal(b"null", NULL),
        Some(b'f') => literal(b"false", FALSE),
        Some(b't') => literal(b"true", TRUE),
        Some(b'-' | b'0'..=b'9') => {
            let number = Decimal::read(text, at)?;
            key.push(NUMBER);
            number.push_key(key);
            Ok(number.end)
        }
        Some(b'"') => {
            let string = walk::string(text, at)?;
            push_string(key, string, case)?;
            Ok(string.end)
        }
        Some(b'[') => push_array(key, text, at, case, depth.checked_sub(1).ok_or(Damaged)?),
        Some(b'{') => push_object(key, text, at, case, depth.checked_sub(1).ok_or(Damaged)?),
        _ => Err(Damaged),
    }
}

fn push_string(key: &mut Vec<u8>, string: Raw<'_>, case: Case) -> Result<(), Damaged> {
    key.push(STRING);
    if !string.has_escapes && case == Case::Sensitive {
        // Without escapes, a string contains no zero byte.
        key.extend_from_slice(string.bytes);
    } else {
        let text = string.unescaped();
        push_text(key, &if case == Case::Insensitive { folded(&text)?.into() } else { text });
    }
    key.extend_from_slice(&[0, 1]);
    Ok(())
}

fn push_text(key: &mut Vec<u8>, text: &[u8]) {
    for &byte in text {
        key.push(byte);
        if byte == 0 {
            key.push(0xFF);
        }
    }
}

/// Folds the case of a text.
pub(crate) fn folded(text: &[u8]) -> Result<Vec<u8>, Damaged> {
    if text.is_ascii() {
        return Ok(text.to_ascii_lowercase());
    }
    let text = std::str::from_utf8(text).map_err(|_| Damaged)?;
    // Through upper case, which unites characters with several lower-case forms, such as the two small sigmas.
    Ok(text.chars().flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect::<String>().into_bytes())
}

fn push_array(key: &mut Vec<u8>, text: &[u8], at: usize, case: Case, depth: usize) -> Result<usize, Damaged> {
    key.push(ARRAY);
    let end = walk::elements(text, at, |element| push_value(key, text, element, case, depth).map(|_| ()))?;
    key.push(MISSING);
    Ok(end)
}

/// Sorted keys first, then their values, as `jq` orders objects.
fn push_object(key: &mut Vec<u8>, text: &[u8], at: usize, case: Case, depth: usize) -> Result<usize, Damaged> {
    key.push(OBJECT);
    let mut members = Vec::new();
    let end = walk::members(text, at, |name, value| {
        members.push((name.unescaped(), value));
        Ok(())
    })?;
    members.sort_by(|left, right| left.0.cmp(&right.0));
    let is_last =
        |index: usize| members.get(index).map(|(name, _)| name) != members.get(index + 1).map(|(name, _)| name);
    let members: Vec<_> =
        members.iter().enumerate().filter(|(index, _)| is_last(*index)).map(|(_, member)| member).collect();
    for (name, _) in &members {
        key.push(STRING);
        push_text(key, name);
        key.extend_from_slice(&[0, 1]);
    }
    key.push(MISSING);
    for (_, value) in members {
        push_value(key, text, *value, case, depth)?;
    }
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Vec<u8> {
        let mut key = Vec::new();
        push(&mut key, Some(text.as_bytes()), Case::Sensitive).unwrap();
        key
    }

    #[test]
    fn keys_are_in_the_order_of_values() {
        let ascending = [
            "null",
            "false",
            "true",
            "-1",
            "0",
            "1",
            "\"\"",
            "\"\\u0000\"",
            "\"\\u0001\"",
            "\"a\"",
            "\"a\\u0000\"",
            "\"ab\"",
            "\"b\"",
            "\"é\"",
            "\"東\"",
            "\"😀\"",
            "[]",
            "[null]",
            "[1]",
            "[1,2]",
            "[2]",
            "[[]]",
            "{}",
            "{\"a\":1}",
            "{\"a\":2}",
            "{\"a\":0,\"b\":0}",
            "{\"b\":0}",
        ];
        for (index, left) in ascending.iter().enumerate() {
            for (other, right) in ascending.iter().enumerate() {
                assert_eq!(key(left).cmp(&key(right)), index.cmp(&other), "{left} and {right}");
            }
        }
    }

    #[test]
    fn equal_values_have_equal_keys() {
        let equal = [
            ("{\"a\":1,\"b\":[2]}", "{ \"b\" : [ 2.0 ] , \"a\" : 1e0 }"),
            ("\"\\u0061\\/\"", "\"a/\""),
            ("{\"a\":1,\"a\":2}", "{\"a\":2}"),
            ("\"\\ud83d\\ude00\"", "\"😀\""),
        ];
        for (left, right) in equal {
            assert_eq!(key(left), key(right));
        }
    }

    #[test]
    fn case_folds_beyond_ascii() {
        for (left, right) in [("ΟΔΟΣ", "οδος"), ("STRASSE", "straße"), ("İ", "i̇")] {
            assert_eq!(folded(left.as_bytes()), folded(right.as_bytes()), "{left} and {right}");
        }
    }
}
