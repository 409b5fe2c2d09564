//! Moves through JSON text without parsing it: a value is the index of its first byte.
//!
//! Validates nothing. In text that is not JSON the indices are arbitrary, but every function ends.

use std::borrow::Cow;

use crate::escape::unescaped_lossy;
use crate::masks::{BLOCK, Masks, Strings, closing, escaped, find_either};

/// A text that is not JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

/// Index of the first byte from `at` on that is not white space.
#[inline(always)]
#[must_use]
pub fn skip_white(text: &[u8], mut at: usize) -> usize {
    while matches!(text.get(at), Some(b' ' | b'\t' | b'\r' | b'\n')) {
        at += 1;
    }
    at
}

/// The text between the quotes of a string.
#[derive(Clone, Copy, Debug)]
pub struct Raw<'a> {
    /// The text, with its escapes.
    pub bytes: &'a [u8],
    /// Whether it has escapes.
    pub has_escapes: bool,
    /// Index of the byte after the last quote.
    pub end: usize,
}

impl<'a> Raw<'a> {
    /// The text without escapes, see [`unescaped_lossy`].
    #[must_use]
    pub fn unescaped(self) -> Cow<'a, [u8]> {
        if self.has_escapes { Cow::Owned(unescaped_lossy(self.bytes)) } else { Cow::Borrowed(self.bytes) }
    }
}

/// Reads the string whose first quote is at `at`.
///
/// # Errors
///
/// [`Damaged`] when the string does not end.
#[inline(always)]
pub fn string(text: &[u8], at: usize) -> Result<Raw<'_>, Damaged> {
    let start = at + 1;
    let found = find_either(text, start, b'"', b'\\').ok_or(Damaged)?;
    let has_escapes = text.get(found) == Some(&b'\\');
    let last = if has_escapes { last_quote(text, found).ok_or(Damaged)? } else { found };
    Ok(Raw { bytes: text.get(start..last).ok_or(Damaged)?, has_escapes, end: last + 1 })
}

/// Index of the first quote from `start` on that no backslash escapes.
fn last_quote(text: &[u8], mut start: usize) -> Option<usize> {
    let mut is_escaped = false;
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let Masks { backslash, quote, .. } = Masks::of(rest);
        let escaped = escaped(backslash, is_escaped);
        is_escaped = (backslash & !escaped) >> (BLOCK - 1) == 1;
        let quotes = quote & !escaped;
        if quotes != 0 {
            return Some(start + quotes.trailing_zeros() as usize);
        }
        start += BLOCK;
    }
    None
}

/// Whether a byte ends a number or a literal.
#[inline(always)]
#[must_use]
pub fn is_delimiter(byte: u8) -> bool {
    matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\r' | b'\n')
}

/// Index of the byte after the value at `at`.
///
/// # Errors
///
/// [`Damaged`] when no value begins there, or it does not end.
#[inline(always)]
pub fn value_end(text: &[u8], at: usize) -> Result<usize, Damaged> {
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
///
/// # Errors
///
/// As [`value_end`].
pub fn value(text: &[u8]) -> Result<&[u8], Damaged> {
    text.get(..value_end(text, 0)?).ok_or(Damaged)
}

/// Index of the byte after the container whose first bracket is at `at`.
///
/// # Errors
///
/// [`Damaged`] when the container does not end.
pub fn container_end(text: &[u8], at: usize) -> Result<usize, Damaged> {
    let (mut start, mut inside, mut strings) = (at + 1, 0, Strings::default());
    while let Some(rest) = text.get(start..).filter(|rest| !rest.is_empty()) {
        let masks = Masks::of(rest);
        let outside = !strings.next(&masks, BLOCK - 1).inside;
        if let Some(bit) = closing(masks.open & outside, masks.close & outside, &mut inside) {
            return Ok(start + bit + 1);
        }
        start += BLOCK;
    }
    Err(Damaged)
}

/// Calls `each` with the key and the value of every member of the object at `at`; returns the index after the object.
///
/// # Errors
///
/// [`Damaged`] when what is there is not an object, and errors of `each`.
pub fn members<'a>(
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
///
/// # Errors
///
/// [`Damaged`] when what is there is not an array, and errors of `each`.
pub fn elements(text: &[u8], at: usize, mut each: impl FnMut(usize) -> Result<(), Damaged>) -> Result<usize, Damaged> {
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
