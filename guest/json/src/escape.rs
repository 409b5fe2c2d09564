//! Escapes of JSON strings.

use std::convert::Infallible;
use std::iter;

/// The byte that each escape of two bytes stands for, by its second byte; 0 for `u` and what JSON does not allow.
const SIMPLE: [u8; 256] = {
    let mut table = [0; 256];
    table[b'"' as usize] = b'"';
    table[b'\\' as usize] = b'\\';
    table[b'/' as usize] = b'/';
    table[b'b' as usize] = 8;
    table[b'f' as usize] = 12;
    table[b'n' as usize] = b'\n';
    table[b'r' as usize] = b'\r';
    table[b't' as usize] = b'\t';
    table
};

/// Length of `\uXXXX` in bytes; a surrogate pair takes two.
const UNICODE_BYTES: usize = 6;

/// The reason why an escape is not a character.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EscapeError {
    /// JSON does not have this escape, or it is cut.
    Invalid,
    /// Half of a surrogate pair, which has no UTF-8 encoding: this code unit, without the other half.
    LoneSurrogate(u16),
}

/// The byte that an escape of two bytes stands for, by its second byte; 0 for any other.
#[inline(always)]
pub(crate) fn simple(byte: u8) -> u8 {
    SIMPLE[usize::from(byte)]
}

/// Decodes the escape at the beginning of `text`, from its backslash on. Returns the character and the length of the
/// escape in bytes: 2, 6, or 12 for a surrogate pair.
///
/// # Errors
///
/// [`EscapeError`].
#[inline]
pub fn unescape(text: &[u8]) -> Result<(char, usize), EscapeError> {
    match text.get(1).map_or(0, |byte| simple(*byte)) {
        0 => unescape_unicode(text),
        byte => Ok((char::from(byte), 2)),
    }
}

/// Decodes `\uXXXX`, or the surrogate pair of two of them.
fn unescape_unicode(text: &[u8]) -> Result<(char, usize), EscapeError> {
    let first = code_unit(text).ok_or(EscapeError::Invalid)?;
    if let Some(character) = char::from_u32(u32::from(first)) {
        return Ok((character, UNICODE_BYTES));
    }
    let second = text.get(UNICODE_BYTES..).and_then(code_unit);
    let mut pair = char::decode_utf16([Some(first), second].into_iter().flatten());
    match pair.next() {
        Some(Ok(character)) => Ok((character, 2 * UNICODE_BYTES)),
        _ => Err(EscapeError::LoneSurrogate(first)),
    }
}

/// The UTF-16 unit of the `\uXXXX` at the beginning of `text`.
fn code_unit(text: &[u8]) -> Option<u16> {
    let digits = text.strip_prefix(b"\\u")?.first_chunk::<4>()?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)? as u16))
}

/// As [`unescape`], for text that may not be JSON: a lone surrogate is U+FFFD, an ASCII byte after a backslash that begins
/// no escape is itself, and any other backslash is U+FFFD.
#[must_use]
pub fn unescape_lossy(text: &[u8]) -> (char, usize) {
    let unknown = || match text.get(1) {
        Some(&byte) if byte.is_ascii() => (char::from(byte), 2),
        _ => (char::REPLACEMENT_CHARACTER, text.len().min(1)),
    };
    unescape(text).unwrap_or_else(|error| match error {
        EscapeError::Invalid => unknown(),
        EscapeError::LoneSurrogate(_) => (char::REPLACEMENT_CHARACTER, UNICODE_BYTES),
    })
}

/// A piece of the inside of a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Text without escapes.
    Plain(&'a str),
    /// The character of an escape.
    Character(char),
    /// An escape that is not a character, such as a lone surrogate.
    Escape(&'a str),
}

/// The pieces of the inside of a string, in order.
pub fn pieces(inside: &str) -> impl Iterator<Item = Piece<'_>> {
    let mut rest = inside;
    iter::from_fn(move || {
        let (piece, length) = match rest.find('\\') {
            None if rest.is_empty() => return None,
            Some(0) => match unescape(rest.as_bytes()) {
                Ok((character, length)) => (Piece::Character(character), length),
                Err(_) => {
                    let length = rest.floor_char_boundary(UNICODE_BYTES);
                    (Piece::Escape(&rest[..length]), length)
                }
            },
            plain => {
                let length = plain.unwrap_or(rest.len());
                (Piece::Plain(&rest[..length]), length)
            }
        };
        rest = &rest[length..];
        Some(piece)
    })
}

/// Decodes the inside of a string.
///
/// # Errors
///
/// [`EscapeError`] of the first escape that is not a character.
pub fn unescaped(inside: &[u8]) -> Result<Vec<u8>, EscapeError> {
    replaced(inside, unescape)
}

/// As [`unescaped`], with [`unescape_lossy`].
#[must_use]
pub fn unescaped_lossy(inside: &[u8]) -> Vec<u8> {
    match replaced(inside, |escape| Ok::<_, Infallible>(unescape_lossy(escape))) {
        Ok(text) => text,
    }
}

/// The inside of a string with each escape replaced by its character.
fn replaced<E>(inside: &[u8], read: impl Fn(&[u8]) -> Result<(char, usize), E>) -> Result<Vec<u8>, E> {
    let mut text = Vec::with_capacity(inside.len());
    let mut rest = inside;
    while let Some(at) = rest.iter().position(|&byte| byte == b'\\') {
        let (plain, escape) = rest.split_at(at);
        text.extend_from_slice(plain);
        let (character, length) = read(escape)?;
        text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        rest = escape.get(length..).unwrap_or_default();
    }
    text.extend_from_slice(rest);
    Ok(text)
}
