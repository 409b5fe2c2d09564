//! Tags and text.

use std::borrow::Cow;
use std::collections::HashSet;

use crate::readers::error::Fault;
use crate::readers::tags::{REFERENCE_BYTES_MAX, text_length};

/// A piece of markup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Token<'a> {
    Open {
        name: &'a str,
        attributes: &'a str,
        is_empty: bool,
    },
    Close(&'a str),
    /// Text with references to characters.
    Text(&'a str),
    /// Text as it is.
    Data(&'a str),
    /// A comment, a processing instruction, or a document type.
    Nothing,
}

/// The token at the beginning of a text and its length; `None` when it is cut.
pub(crate) fn next(text: &str) -> Result<Option<(Token<'_>, usize)>, Fault> {
    if text.is_empty() {
        return Ok(None);
    }
    if !text.starts_with('<') {
        return Ok(plain(text));
    }
    for (start, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>")] {
        if let Some(inside) = text.strip_prefix(start) {
            let Some(length) = inside.find(end) else { return Ok(None) };
            let token = if start == "<![CDATA[" { Token::Data(&inside[..length]) } else { Token::Nothing };
            return Ok(Some((token, start.len() + length + end.len())));
        }
        if start.starts_with(text) {
            return Ok(None);
        }
    }
    let Some(end) = tag_end(text) else { return Ok(None) };
    let inside = &text[1..end];
    let token = match inside.as_bytes().first() {
        Some(b'!') if inside.contains('[') => return Err(Fault::Markup),
        Some(b'!') => Token::Nothing,
        Some(b'/') => Token::Close(inside[1..].trim_end()),
        _ => {
            let (inside, is_empty) = inside.strip_suffix('/').map_or((inside, false), |inside| (inside, true));
            let (name, attributes) = inside.split_once(|c: char| c.is_ascii_whitespace()).unwrap_or((inside, ""));
            let is_name = name.starts_with(|first: char| first.is_alphabetic() || matches!(first, '_' | ':'));
            if !is_name || name.contains(['<', '"', '\'', '=', '&', '/']) {
                return Err(Fault::Markup);
            }
            Token::Open { name, attributes, is_empty }
        }
    };
    Ok(Some((token, end + 1)))
}

/// The index of the `>` that ends a tag.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'>' if quote.is_none() => return Some(at),
            b'"' | b'\'' if quote.is_none() => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            _ => {}
        }
    }
    None
}

/// Text up to the next tag.
fn plain(text: &str) -> Option<(Token<'_>, usize)> {
    let length = text_length(text);
    (length > 0).then(|| (Token::Text(&text[..length]), length))
}

/// The attributes of a tag, in order.
pub(super) fn attributes(text: &str) -> Result<Vec<(String, String)>, Fault> {
    let mut attributes: Vec<(String, String)> = Vec::new();
    let mut names = HashSet::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let (name, value) = rest.split_once('=').ok_or(Fault::Markup)?;
        let name = name.trim_end();
        let value = value.trim_start();
        let quote = value.chars().next().filter(|quote| matches!(quote, '"' | '\'')).ok_or(Fault::Markup)?;
        let (value, after) = value[1..].split_once(quote).ok_or(Fault::Markup)?;
        if name.is_empty() || name.contains(char::is_whitespace) || value.contains('<') || !names.insert(name) {
            return Err(Fault::Markup);
        }
        attributes.push((name.to_owned(), decode(value)?.into_owned()));
        rest = after.trim_start();
        if !rest.is_empty() && rest.len() == after.len() {
            return Err(Fault::Markup);
        }
    }
    Ok(attributes)
}

/// Text with its references replaced; XML has five names, all others would need a document type.
pub(super) fn decode(text: &str) -> Result<Cow<'_, str>, Fault> {
    if !text.contains('&') {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('&') {
        decoded.push_str(plain);
        let (name, after) = after.split_once(';').ok_or(Fault::Markup)?;
        decoded.push(reference(name).ok_or(Fault::Markup)?);
        rest = after;
    }
    decoded.push_str(rest);
    Ok(Cow::Owned(decoded))
}

fn reference(name: &str) -> Option<char> {
    match name {
        "amp" => Some('&'),
        "lt" => Some('<'),
        "gt" => Some('>'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ if name.len() > REFERENCE_BYTES_MAX => None,
        _ => {
            let digits = name.strip_prefix('#')?;
            let code = match digits.strip_prefix('x') {
                Some(digits) => u32::from_str_radix(digits, 16),
                None => digits.parse(),
            };
            char::from_u32(code.ok().filter(|_| !digits.contains('+'))?)
        }
    }
}
