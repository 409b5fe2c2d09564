//! Tags, text and references of HTML.

use std::borrow::Cow;

use crate::readers::error::Fault;
use crate::readers::tags::{REFERENCE_BYTES_MAX, text_length};

/// A piece of HTML.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    Open {
        name: &'a str,
        attributes: &'a str,
    },
    Close(&'a str),
    /// Text with references to characters.
    Text(&'a str),
    /// A comment, a document type, or an instruction.
    Nothing,
}

/// The token at the beginning of a text and its length; `None` when it is cut. In the element `raw`, its closing tag is
/// the only tag.
pub(super) fn next<'a>(text: &'a str, raw: Option<&str>) -> Option<(Token<'a>, usize)> {
    let mut characters = text.chars();
    if characters.next()? != '<' {
        return plain(text);
    }
    let less = Some((Token::Text("<"), 1));
    if let Some(raw) = raw {
        let name = text.get(2..2 + raw.len());
        let closes = text.starts_with("</") && name.is_some_and(|name| name.eq_ignore_ascii_case(raw));
        let is_cut = text.len() < 2 + raw.len();
        if !closes {
            return if is_cut { None } else { less };
        }
    }
    match characters.next()? {
        '!' | '?' => comment(text),
        '/' => {
            let length = tag_end(text)? + 1;
            let name = text[2..length - 1].split(|c: char| c.is_ascii_whitespace()).next().unwrap_or_default();
            Some((Token::Close(name), length))
        }
        first if first.is_ascii_alphabetic() => {
            let length = tag_end(text)? + 1;
            let inside = text[1..length - 1].trim_end_matches('/');
            let (name, attributes) =
                inside.split_once(|c: char| c.is_ascii_whitespace() || c == '/').unwrap_or((inside, ""));
            Some((Token::Open { name, attributes }, length))
        }
        _ => less,
    }
}

/// A comment or a declaration.
fn comment(text: &str) -> Option<(Token<'_>, usize)> {
    let (start, end) = match text.strip_prefix("<!--") {
        Some(_) => (4, "-->"),
        None if "<!--".starts_with(text) => return None,
        None => (2, ">"),
    };
    Some((Token::Nothing, start + text[start..].find(end)? + end.len()))
}

/// The index of the `>` that ends a tag.
fn tag_end(text: &str) -> Option<usize> {
    let (mut quote, mut before) = (None, b' ');
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'>' if quote.is_none() => return Some(at),
            // A quote elsewhere is part of a name or of a value without quotes.
            b'"' | b'\'' if quote.is_none() && before == b'=' => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    None
}

/// Text up to the next tag.
fn plain(text: &str) -> Option<(Token<'_>, usize)> {
    let length = text_length(text);
    (length > 0).then(|| (Token::Text(&text[..length]), length))
}

/// Whether attributes make a cell stand in several rows or columns.
pub(super) fn is_span(attributes: &str) -> bool {
    let lower = attributes.to_ascii_lowercase();
    ["colspan", "rowspan"].into_iter().any(|name| {
        let values = lower.match_indices(name).map(|(at, _)| lower[at + name.len()..].trim_start());
        let mut values = values.filter_map(|rest| rest.strip_prefix('='));
        values.any(|value| {
            let value = value.trim_start().trim_start_matches(['"', '\'']);
            let digits = value.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            digits != "1"
        })
    })
}

/// Text of HTML with the characters that its references stand for. An ampersand that begins none stands for itself.
///
/// # Errors
///
/// [`Fault::Reference`] for a name that is not a common one, and for a number that is not a character.
pub fn without_references(text: &str) -> Result<Cow<'_, str>, Fault> {
    if !text.contains('&') {
        return Ok(Cow::Borrowed(text));
    }
    let mut decoded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, after)) = rest.split_once('&') {
        decoded.push_str(plain);
        let name = after.split(|c: char| !c.is_ascii_alphanumeric() && c != '#').next().unwrap_or_default();
        let is_name = !name.is_empty() && name.len() + 2 <= REFERENCE_BYTES_MAX;
        if !is_name || after.as_bytes().get(name.len()) != Some(&b';') {
            decoded.push('&');
            rest = after;
            continue;
        }
        decoded.push(reference(name).ok_or(Fault::Reference)?);
        rest = &after[name.len() + 1..];
    }
    decoded.push_str(rest);
    Ok(Cow::Owned(decoded))
}

/// The names of U+00A0 to U+00FF, in order.
const LATIN_1: &str = "\
    nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn sup2 sup3 acute micro \
    para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave Aacute Acirc Atilde Auml Aring AElig Ccedil \
    Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave \
    Uacute Ucirc Uuml Yacute THORN szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml \
    igrave iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute ucirc uuml yacute \
    thorn yuml";

/// Other names that are common.
const NAMES: [(&str, char); 34] = [
    ("amp", '&'),
    ("lt", '<'),
    ("gt", '>'),
    ("quot", '"'),
    ("apos", '\''),
    ("ndash", '–'),
    ("mdash", '—'),
    ("lsquo", '‘'),
    ("rsquo", '’'),
    ("sbquo", '‚'),
    ("ldquo", '“'),
    ("rdquo", '”'),
    ("bdquo", '„'),
    ("hellip", '…'),
    ("bull", '•'),
    ("dagger", '†'),
    ("trade", '™'),
    ("euro", '€'),
    ("minus", '−'),
    ("larr", '←'),
    ("uarr", '↑'),
    ("rarr", '→'),
    ("darr", '↓'),
    ("le", '≤'),
    ("ge", '≥'),
    ("ne", '≠'),
    ("asymp", '≈'),
    ("infin", '∞'),
    ("check", '✓'),
    ("ensp", '\u{2002}'),
    ("emsp", '\u{2003}'),
    ("thinsp", '\u{2009}'),
    ("zwnj", '\u{200c}'),
    ("zwj", '\u{200d}'),
];

fn reference(name: &str) -> Option<char> {
    let Some(digits) = name.strip_prefix('#') else {
        let latin = || LATIN_1.split(' ').zip('\u{a0}'..).find(|(known, _)| *known == name);
        return NAMES.into_iter().find(|(known, _)| *known == name).or_else(latin).map(|(_, character)| character);
    };
    let code = match digits.strip_prefix(['x', 'X']) {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    // HTML reads the control characters of Windows-1252 in their places.
    char::from_u32(code.ok().filter(|code| *code != 0 && !(0x80..0xA0).contains(code))?)
}
