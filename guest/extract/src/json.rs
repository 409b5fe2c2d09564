//! Navigates JSON text without parsing it: a value is the index of its first byte.

use crate::masks::{self, BLOCK, Strings};
use std::borrow::Cow;
use std::fmt::Write;

/// A text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Damaged;

/// Index of the first byte from `at` on that is not white space.
#[inline(always)]
pub(crate) fn skip_white(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// The text between the quotes of a string.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Raw<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) has_escapes: bool,
    /// Index of the byte after the last quote.
    pub(crate) end: usize,
}

impl<'a> Raw<'a> {
    pub(crate) fn unescaped(self) -> Cow<'a, [u8]> {
        if self.has_escapes { Cow::Owned(unescape(self.bytes)) } else { Cow::Borrowed(self.bytes) }
    }
}

/// Reads the string whose first quote is at `at`.
#[inline(always)]
pub(crate) fn string(text: &[u8], at: usize) -> Result<Raw<'_>, Damaged> {
    let (start, mut from, mut has_escapes) = (at + 1, at + 1, false);
    loop {
        let found = masks::find_either(text, from, b'"', b'\\').ok_or(Damaged)?;
        if text.get(found) == Some(&b'"') {
            return Ok(Raw { bytes: text.get(start..found).ok_or(Damaged)?, has_escapes, end: found + 1 });
        }
        (from, has_escapes) = (found + 2, true);
    }
}

/// Whether a byte ends a number or a literal.
#[inline(always)]
pub(crate) fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')
}

/// Index of the byte after the value at `at`.
#[inline(always)]
pub(crate) fn value_end(text: &[u8], at: usize) -> Result<usize, Damaged> {
    match text.get(at) {
        Some(b'"') => Ok(string(text, at)?.end),
        Some(b'{' | b'[') => container_end(text, at),
        Some(b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => {
            let rest = text.get(at..).unwrap_or_default();
            Ok(rest.iter().position(|&byte| is_delimiter(byte)).map_or(text.len(), |length| at + length))
        }
        _ => Err(Damaged),
    }
}

/// The value at the beginning of `text`.
pub(crate) fn value(text: &[u8]) -> Result<&[u8], Damaged> {
    text.get(..value_end(text, 0)?).ok_or(Damaged)
}

fn container_end(text: &[u8], at: usize) -> Result<usize, Damaged> {
    let (mut start, mut depth, mut strings) = (at, 0_u32, Strings::default());
    while start < text.len() {
        let masks = masks::classify_at(text, start);
        let mut structure = masks.structure & !strings.next(&masks);
        while structure != 0 {
            let index = start + structure.trailing_zeros() as usize;
            match text.get(index) {
                Some(b'\n') => {}
                Some(bracket) if opens(*bracket) => depth += 1,
                _ if depth == 1 => return Ok(index + 1),
                _ => depth -= 1,
            }
            structure &= structure - 1;
        }
        start += BLOCK;
    }
    Err(Damaged)
}

/// Whether a bracket opens.
#[inline(always)]
pub(crate) fn opens(bracket: u8) -> bool {
    bracket & 2 != 0
}

/// Whether two texts are equal. They are short: comparing them here is faster than a call.
#[inline(always)]
pub(crate) fn same(left: &[u8], right: &[u8]) -> bool {
    let ((left_words, left_rest), (right_words, right_rest)) = (left.as_chunks::<8>(), right.as_chunks::<8>());
    left.len() == right.len()
        && left_words
            .iter()
            .zip(right_words)
            .all(|(left, right)| u64::from_le_bytes(*left) == u64::from_le_bytes(*right))
        && left_rest.iter().zip(right_rest).all(|(left, right)| left == right)
}

/// Calls `each` with the key and the value of every member of the object at `at`; returns the index after the object.
pub(crate) fn members<'a>(
    text: &'a [u8],
    at: usize,
    mut each: impl FnMut(Raw<'a>, usize) -> Result<(), Damaged>,
) -> Result<usize, Damaged> {
    let mut at = skip_white(text, at + 1);
    if text.get(at) == Some(&b'}') {
        return Ok(at + 1);
    }
    loop {
        let key = match text.get(at) {
            Some(b'"') => string(text, at)?,
            _ => return Err(Damaged),
        };
        let colon = skip_white(text, key.end);
        if text.get(colon) != Some(&b':') {
            return Err(Damaged);
        }
        let value = skip_white(text, colon + 1);
        each(key, value)?;
        let end = skip_white(text, value_end(text, value)?);
        match text.get(end) {
            Some(b',') => at = skip_white(text, end + 1),
            Some(b'}') => return Ok(end + 1),
            _ => return Err(Damaged),
        }
    }
}

/// Calls `each` with every element of the array at `at`; returns the index after the array.
pub(crate) fn elements(
    text: &[u8],
    at: usize,
    mut each: impl FnMut(usize) -> Result<(), Damaged>,
) -> Result<usize, Damaged> {
    let mut at = skip_white(text, at + 1);
    if text.get(at) == Some(&b']') {
        return Ok(at + 1);
    }
    loop {
        each(at)?;
        let end = skip_white(text, value_end(text, at)?);
        match text.get(end) {
            Some(b',') => at = skip_white(text, end + 1),
            Some(b']') => return Ok(end + 1),
            _ => return Err(Damaged),
        }
    }
}

/// Decodes a string with escapes. A lone surrogate, which UTF-8 cannot encode, becomes U+FFFD.
pub(crate) fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        out.extend_from_slice(plain);
        let (character, length) = lro_jsonl::unescape(escape);
        out.extend_from_slice(character.unwrap_or(char::REPLACEMENT_CHARACTER).encode_utf8(&mut [0; 4]).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// Checks that a text is one JSON value with only white space around it.
pub(crate) fn checked(text: &[u8]) -> Result<&str, Damaged> {
    let text = std::str::from_utf8(text).map_err(|_| Damaged)?;
    let valid = match text.as_bytes().first() {
        Some(b'{') => lro_jsonl::members(text).is_ok(),
        Some(b'[') => lro_jsonl::elements(text).is_ok(),
        // A text is one value when it is the only element of an array.
        _ => lro_jsonl::elements(&format!("[{text}]")).is_ok_and(|elements| elements.len() == 1),
    };
    if valid { Ok(text) } else { Err(Damaged) }
}

/// A JSON string.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
