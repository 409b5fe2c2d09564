//! Spans of members, elements and strings in a message, without copies.
//!
//! Validates nothing, and goes on as far as it can: a message may be cut, or not be JSON. Its spans are arbitrary then,
//! but every function terminates.

use std::borrow::Cow;
use std::ops::Range;

use bytes::{Bytes, BytesMut};
use lro_json::walk::{self, is_delimiter, skip_white};

/// Byte range in the message.
pub(super) type Span = Range<usize>;

/// Most levels that are searched for strings.
const STRINGS_LEVELS_MAX: usize = 64;

/// One member of an object.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// The key with its quotation marks.
    pub(super) key: Span,
    pub(super) value: Span,
}

/// The members of the object at `start`, at most `limit + 1`, so that the caller can reject more; and the end of the
/// object.
///
/// Calls `inside` with each key and the start of its value. It may walk the value and return its end, so that a large
/// value is not skipped a second time.
pub(super) fn members(
    text: &[u8],
    start: usize,
    limit: usize,
    mut inside: impl FnMut(&Span, usize) -> Option<usize>,
) -> (Vec<Member>, usize) {
    let mut found = Vec::new();
    let mut at = skip_white(text, start + 1);
    while byte(text, at) == b'"' {
        let key = at..skip_value(text, at);
        let colon = skip_white(text, key.end);
        if byte(text, colon) != b':' {
            break;
        }
        let start = skip_white(text, colon + 1);
        let end = inside(&key, start).unwrap_or_else(|| skip_value(text, start));
        if found.len() <= limit {
            found.push(Member { key, value: start..end });
        }
        at = after_comma(text, end);
    }
    (found, (at + 1).min(text.len()))
}

/// The elements of the array at `start`, like [`members`].
pub(super) fn elements(
    text: &[u8],
    start: usize,
    limit: usize,
    mut inside: impl FnMut(usize) -> Option<usize>,
) -> (Vec<Span>, usize) {
    let mut found = Vec::new();
    let mut at = skip_white(text, start + 1);
    while !matches!(byte(text, at), b']' | 0) {
        let end = inside(at).unwrap_or_else(|| skip_value(text, at));
        if end == at {
            break;
        }
        if found.len() <= limit {
            found.push(at..end);
        }
        at = after_comma(text, end);
    }
    (found, (at + 1).min(text.len()))
}

/// All elements of the array at `start`, one after another.
pub(super) fn each_element(text: &[u8], start: usize) -> impl Iterator<Item = Span> {
    let mut at = skip_white(text, start + 1);
    std::iter::from_fn(move || {
        let element = at..skip_value(text, at);
        if matches!(byte(text, at), b']' | 0) || element.is_empty() {
            return None;
        }
        at = after_comma(text, element.end);
        Some(element)
    })
}

/// The start of the next member or element after one that ends at `end`, or the closing bracket.
fn after_comma(text: &[u8], end: usize) -> usize {
    let at = skip_white(text, end);
    if byte(text, at) == b',' { skip_white(text, at + 1) } else { at }
}

/// The value of the only member with this key; `None` when it is missing or duplicated.
pub(super) fn member<'a>(text: &[u8], members: &'a [Member], key: &str) -> Option<&'a Span> {
    let mut matching = members.iter().filter(|member| string(text, &member.key).is_some_and(|name| name == key));
    let found = matching.next()?;
    matching.next().is_none().then_some(&found.value)
}

/// The value of the only member with this key of an object.
pub(super) fn child(text: &[u8], object: &Span, key: &str) -> Option<Span> {
    if byte(text, object.start) != b'{' {
        return None;
    }
    let (members, _) = members(text, object.start, usize::MAX, |_, _| None);
    member(text, &members, key).cloned()
}

/// The span of a member and of the comma to remove with it.
pub(super) fn removal(bytes: &[u8], object: &Span, key: &str) -> Option<Span> {
    let (members, _) = members(bytes, object.start, usize::MAX, |_, _| None);
    let index = members.iter().position(|member| string(bytes, &member.key).is_some_and(|name| name == key))?;
    let member = members.get(index)?;
    match (index.checked_sub(1).and_then(|before| members.get(before)), members.get(index + 1)) {
        (Some(before), _) => Some(before.value.end..member.value.end),
        (None, Some(next)) => Some(member.key.start..next.key.start),
        (None, None) => Some(member.key.start..member.value.end),
    }
}

/// Whether a value is an object whose member names are all in these lists and distinct.
pub(super) fn is_object_of(text: &[u8], value: &Span, names: &[&[&str]]) -> bool {
    if byte(text, value.start) != b'{' {
        return false;
    }
    let names = names.concat();
    let (members, _) = members(text, value.start, names.len(), |_, _| None);
    let mut seen = Vec::with_capacity(members.len());
    members.iter().all(|member| {
        let name = string(text, &member.key);
        let known = names.iter().find(|known| name.as_deref() == Some(**known));
        let is_new = known.is_some_and(|known| !seen.contains(known));
        seen.extend(known);
        is_new
    })
}

/// Calls `found` with every string at and below a value, except keys, up to [`STRINGS_LEVELS_MAX`] levels deep.
pub(super) fn strings<'a>(text: &'a [u8], value: &Span, found: &mut impl FnMut(Span, Cow<'a, str>)) {
    strings_within(text, value, STRINGS_LEVELS_MAX, found);
}

fn strings_within<'a>(text: &'a [u8], value: &Span, levels: usize, found: &mut impl FnMut(Span, Cow<'a, str>)) {
    match byte(text, value.start) {
        b'"' => {
            if let Some(string) = string(text, value) {
                found(value.clone(), string);
            }
        }
        b'{' if levels > 0 => {
            for member in members(text, value.start, usize::MAX, |_, _| None).0 {
                strings_within(text, &member.value, levels - 1, found);
            }
        }
        b'[' if levels > 0 => {
            for element in each_element(text, value.start) {
                strings_within(text, &element, levels - 1, found);
            }
        }
        _ => {}
    }
}

/// The text with spans replaced; they are in order and do not overlap.
pub(super) fn spliced(text: &Bytes, edits: Vec<(Span, Vec<u8>)>) -> Bytes {
    let removed: usize = edits.iter().map(|(span, _)| span.len()).sum();
    let added: usize = edits.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut result = BytesMut::with_capacity((text.len() + added).saturating_sub(removed));
    let mut at = 0;
    for (span, bytes) in edits {
        result.extend_from_slice(text.get(at..span.start).unwrap_or_default());
        result.extend_from_slice(&bytes);
        at = span.end;
    }
    result.extend_from_slice(text.get(at..).unwrap_or_default());
    result.freeze()
}

/// The inside of the string literal at `span`; `None` for any other value.
pub(super) fn literal(text: &[u8], span: &Span) -> Option<Span> {
    (byte(text, span.start) == b'"' && span.len() >= 2).then(|| span.start + 1..span.end - 1)
}

/// The decoded string at `span`; `None` for any other value, and for a string with half a surrogate pair.
pub(super) fn string<'a>(text: &'a [u8], span: &Span) -> Option<Cow<'a, str>> {
    let inside = text.get(literal(text, span)?)?;
    if inside.contains(&b'\\') {
        return serde_json::from_slice(text.get(span.clone())?).ok().map(Cow::Owned);
    }
    std::str::from_utf8(inside).ok().map(Cow::Borrowed)
}

/// A name as case-insensitive readers see it; some fold more than ASCII.
pub(super) fn folded(name: &str) -> String {
    if name.is_ascii() { name.to_ascii_lowercase() } else { name.to_uppercase().to_lowercase() }
}

/// The end of the value at `at`; `at` itself when there is no value.
pub(super) fn skip_value(text: &[u8], at: usize) -> usize {
    match byte(text, at) {
        b'"' => walk::string(text, at).map_or(text.len(), |string| string.end),
        b'{' | b'[' => walk::container_end(text, at).unwrap_or(text.len()),
        _ => {
            let rest = text.get(at..).unwrap_or_default();
            let ends = |byte: &u8| *byte == b':' || is_delimiter(*byte);
            at + rest.iter().position(ends).unwrap_or(rest.len())
        }
    }
}

fn byte(text: &[u8], at: usize) -> u8 {
    text.get(at).copied().unwrap_or_default()
}
