//! The parts of one document in memory, as spans of it.

use crate::scan::Scanner;
use crate::{SyntaxError, SyntaxErrorKind};

/// One member of an object, as it stands in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member<'a> {
    /// The key with its quotes and escapes.
    pub key: &'a str,
    /// The value, without the white space around it; white space inside is untouched.
    pub value: &'a str,
}

/// The direct members of an object in document order, duplicate keys included.
///
/// Validates the whole text, nested values too. To descend into a value, call this again on [`Member::value`]: only
/// that value is read again.
///
/// # Errors
///
/// [`SyntaxErrorKind::NotAnObject`] for any other value, and every other kind for a text that is not JSON.
pub fn members(document: &str) -> Result<Vec<Member<'_>>, SyntaxError> {
    let mut members = Vec::new();
    let (mut key_start, mut key_end) = (0, 0);
    walk(document, b'{', SyntaxErrorKind::NotAnObject, |token, index| match token {
        b'"' => {
            key_start = index;
            Ok(())
        }
        b':' => {
            key_end = index;
            Ok(())
        }
        _ if key_start < key_end => {
            let (key, value) = (trimmed(document, key_start, key_end)?, trimmed(document, key_end + 1, index)?);
            members.push(Member { key, value });
            Ok(())
        }
        _ => Ok(()),
    })?;
    Ok(members)
}

/// The elements of an array in order, without the white space around them. Validates like [`members`].
///
/// # Errors
///
/// [`SyntaxErrorKind::NotAnArray`] for any other value, and every other kind for a text that is not JSON.
pub fn elements(document: &str) -> Result<Vec<&str>, SyntaxError> {
    let mut elements = Vec::new();
    let mut start = document.find('[').unwrap_or_default() + 1;
    walk(document, b'[', SyntaxErrorKind::NotAnArray, |_, index| {
        let element = trimmed(document, start, index)?;
        // Only between the brackets of an empty array.
        if !element.is_empty() {
            elements.push(element);
        }
        start = index + 1;
        Ok(())
    })?;
    Ok(elements)
}

/// A span of the document, trimmed. An invalid span would be a bug in this module; it is reported as an error because a
/// host must not panic on input.
fn trimmed(document: &str, start: usize, end: usize) -> Result<&str, SyntaxError> {
    let part = document.get(start..end).map(|part| part.trim_matches([' ', '\t', '\n', '\r']));
    part.ok_or(SyntaxError { kind: SyntaxErrorKind::UnexpectedToken, offset: start as u64 })
}

/// Validates a document and calls `token` for the keys, colons and commas of the root container and for its closing
/// bracket.
fn walk(
    document: &str,
    root: u8,
    otherwise: SyntaxErrorKind,
    mut token: impl FnMut(u8, usize) -> Result<(), SyntaxError>,
) -> Result<(), SyntaxError> {
    let text = document.as_bytes();
    if let Some(first) = text.iter().position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        && text.get(first) != Some(&root)
    {
        return Err(SyntaxError { kind: otherwise, offset: first as u64 });
    }
    let mut scanner = Scanner::new();
    let (mut depth, mut start) = (0, 0);
    while start < text.len() {
        let block = scanner.block(text, start)?;
        let mut brackets = block.open | block.close;
        let mut done = 0;
        loop {
            let bracket = brackets & brackets.wrapping_neg();
            let below = bracket.wrapping_sub(1);
            let closes = if depth == 1 { block.close & bracket } else { 0 };
            if depth == 1 {
                let mut tokens = (block.comma | block.colon | block.key) & below & !done | closes;
                while tokens != 0 {
                    let index = start + tokens.trailing_zeros() as usize;
                    token(text[index], index)?;
                    tokens &= tokens - 1;
                }
            }
            if bracket == 0 {
                break;
            }
            depth = if block.open & bracket != 0 { depth + 1 } else { depth - 1 };
            done = below | bracket;
            brackets &= brackets - 1;
        }
        start += block.length;
    }
    scanner.end(text);
    scanner.finish().map(|_| ())
}
