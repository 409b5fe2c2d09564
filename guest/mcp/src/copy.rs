//! Detects text that is only a serialized copy of the structured content, whatever its white space and escapes.

use std::sync::Arc;

use bytes::Bytes;
use lro_json::masks::{BLOCK, equal, escaped};
use lro_json::{EscapeError, unescape};

use super::span::{self, Span};
use lro_payload::{Part, PartKind, Payload, PayloadReader};

/// Bytes decoded at a time.
const SLICE_BYTES: u32 = 64 << 10;

/// Which of the two becomes the part when a text and the structured content hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    /// The text is the structured content as JSON, or the value of its only member `result`, with which servers wrap
    /// values that are not objects. The structured form carries more information.
    Structured,
    /// The structured content is an object whose only member is the text as a string: the text is the whole content.
    Text,
}

/// Compares a text part with the structured content.
///
/// Ignores white space between tokens and the escaping of characters in strings; compares numbers as text, and members
/// in their order. Memory does not grow with the text.
pub(super) fn same(part: &Part, message: &Bytes, structured: &Span) -> Option<Same> {
    if part.kind != PartKind::Text || part.name.is_some() {
        return None;
    }
    if same_json(part, message.slice(structured.clone())) {
        return Some(Same::Structured);
    }
    if message.get(structured.start) != Some(&b'{') {
        return None;
    }
    let members = span::members(message, structured.start, 1, |_, _| None).0;
    let [lone] = members.as_slice() else { return None };
    let bare = span::literal(message, &lone.value)
        .and_then(|literal| Part::json_string(PartKind::Text, message.slice(literal)).ok())
        .is_some_and(|literal| literal.size() == part.size() && same_text(part, &literal));
    if bare {
        return Some(Same::Text);
    }
    let wrapped = span::member(message, &members, "result")?;
    same_json(part, message.slice(wrapped.clone())).then_some(Same::Structured)
}

/// Whether the texts are the elements of the structured content, a list or the only member `result` of an object, in their
/// order: some SDKs send one text block for each element. Strings stand in the text as they are, other values as JSON.
pub(super) fn are_elements(parts: &[&Part], message: &Bytes, structured: &Span) -> bool {
    let list = match message.get(structured.start) {
        Some(b'[') => structured.clone(),
        _ => match span::child(message, structured, "result") {
            Some(list) if message.get(list.start) == Some(&b'[') => list,
            _ => return false,
        },
    };
    let (elements, _) = span::elements(message, list.start, parts.len() + 1, |_| None);
    let is_element = |part: &Part, element: &Span| match span::literal(message, element) {
        Some(literal) => Part::json_string(PartKind::Text, message.slice(literal))
            .is_ok_and(|literal| literal.size() == part.size() && same_text(part, &literal)),
        None => same_json(part, message.slice(element.clone())),
    };
    elements.len() == parts.len()
        && parts.iter().all(|part| part.kind == PartKind::Text && part.name.is_none())
        && parts.iter().zip(&elements).all(|(part, element)| is_element(part, element))
}

fn same_text(one: &Part, other: &Part) -> bool {
    let (mut one, mut other) = (Tokens::new(one.clone()), Tokens::new(other.clone()));
    loop {
        match (one.peek(), other.peek()) {
            (None, None) => return true,
            (Some(_), Some(_)) => {}
            _ => return false,
        }
        let length = one.rest().len().min(other.rest().len());
        if one.rest().get(..length) != other.rest().get(..length) {
            return false;
        }
        one.at += length;
        other.at += length;
    }
}

fn same_json(part: &Part, json: Bytes) -> bool {
    let Ok(json) = Part::text(PartKind::Structured, json) else { return false };
    let (mut one, mut other) = (Tokens::new(part.clone()), Tokens::new(json));
    let mut state = LexState { in_string: false, previous: 0 };
    loop {
        if !skip_common(&mut one, &mut other, &mut state) {
            return false;
        }
        match (one.peek(), other.peek()) {
            (None, None) => return !state.in_string,
            (Some(byte), None) if !state.in_string && is_white(byte) => one.at += 1,
            (None, Some(byte)) if !state.in_string && is_white(byte) => other.at += 1,
            (Some(byte), Some(same)) if !state.in_string || (byte == same && byte != b'\\') => {}
            (Some(_), Some(_)) if one.unit().is_some_and(|unit| unit != END && other.unit() == Some(unit)) => {}
            _ => return false,
        }
    }
}

/// The lexical state of a comparison.
struct LexState {
    in_string: bool,
    /// The previous byte.
    previous: u8,
}

/// Skips equal bytes on both sides up to the end of a slice or, in a string, to an escape or a difference. Returns
/// whether the texts may still be equal.
fn skip_common(one: &mut Tokens, other: &mut Tokens, state: &mut LexState) -> bool {
    let (left, right) = (one.rest(), other.rest());
    let (mut at, mut same_at) = (0, 0);
    let mut may_be_equal = true;
    while let (Some(byte), Some(same)) = (left.get(at), right.get(same_at)) {
        let skipped = state.skip_block(left.get(at..).unwrap_or_default(), right.get(same_at..).unwrap_or_default());
        if skipped > 0 {
            at += skipped;
            same_at += skipped;
            continue;
        }
        if byte == same {
            if *byte == b'"' {
                state.in_string = !state.in_string;
            } else if *byte == b'\\' {
                let next = (left.get(at + 1), right.get(same_at + 1));
                let simple = next.0 == next.1 && next.0.is_some_and(|next| *next != b'u');
                if !state.in_string || !simple {
                    may_be_equal = state.in_string;
                    break;
                }
                at += 1;
                same_at += 1;
            }
            state.previous = *byte;
            at += 1;
            same_at += 1;
            continue;
        }
        if state.in_string {
            break;
        }
        let (white, next) = if is_white(*byte) { (&mut at, *same) } else { (&mut same_at, *byte) };
        if !(is_white(*byte) || is_white(*same)) || (is_scalar(state.previous) && is_scalar(next)) {
            may_be_equal = false;
            break;
        }
        *white += 1;
    }
    one.at += at;
    other.at += same_at;
    may_be_equal
}

impl LexState {
    /// Skips equal bytes in the next block of both sides, up to the first `\u` and never into an escape. Returns the
    /// number of bytes.
    fn skip_block(&mut self, left: &[u8], right: &[u8]) -> usize {
        let (Some(block), Some(other)) = (left.first_chunk(), right.first_chunk()) else { return 0 };
        let backslash = equal(block, b'\\');
        let escaped = escaped(backslash, false);
        let unicode = (escaped & equal(block, b'u')).trailing_zeros() as usize;
        let length = common_length(block, other).min(unicode);
        let begins_escape = backslash & !escaped;
        let cuts_escape = length.checked_sub(1).is_some_and(|last| begins_escape >> last & 1 == 1);
        let length = length - usize::from(cuts_escape);
        let Some(last) = length.checked_sub(1) else { return 0 };
        let quotes = equal(block, b'"') & !escaped & (u64::MAX >> (BLOCK - length));
        self.in_string ^= quotes.count_ones() % 2 == 1;
        self.previous = block.get(last).copied().unwrap_or_default();
        length
    }
}

/// Length in bytes of the common prefix of two blocks.
fn common_length(block: &[u8; BLOCK], other: &[u8; BLOCK]) -> usize {
    if block == other {
        return BLOCK;
    }
    block.iter().zip(other).take_while(|(byte, same)| byte == same).count()
}

const fn is_white(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// Whether a byte belongs to a number or literal: white space between two such bytes separates tokens.
const fn is_scalar(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')
}

/// Result of [`Tokens::unit`] for the closing quotation mark; beyond all code points.
const END: u32 = u32::MAX;

/// Reads a text byte by byte.
struct Tokens {
    reader: PayloadReader,
    offset: u64,
    slice: String,
    at: usize,
}

impl Tokens {
    fn new(part: Part) -> Self {
        let reader = PayloadReader::new(Arc::new(Payload::new(vec![part])));
        Self { reader, offset: 0, slice: String::new(), at: 0 }
    }

    /// The rest of the current slice.
    fn rest(&self) -> &[u8] {
        self.slice.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&mut self) -> Option<u8> {
        match self.slice.as_bytes().get(self.at) {
            Some(byte) => Some(*byte),
            None => self.refill(),
        }
    }

    #[cold]
    fn refill(&mut self) -> Option<u8> {
        self.slice = self.reader.read_text(0, self.offset, SLICE_BYTES).ok()?;
        self.offset += self.slice.len() as u64;
        self.at = 0;
        self.slice.as_bytes().first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    /// The next character of a string, escaped or not. Half a surrogate pair counts as a character.
    fn unit(&mut self) -> Option<u32> {
        let byte = self.next()?;
        match byte {
            b'"' => Some(END),
            b'\\' => self.escape(),
            0..0x80 => Some(u32::from(byte)),
            _ => {
                // Slices end between characters, so the slice has the whole character.
                let start = self.at - 1;
                let character = self.slice.get(start..)?.chars().next()?;
                self.at = start + character.len_utf8();
                Some(u32::from(character))
            }
        }
    }

    /// The rest of an escape after its backslash. A slice may end inside it.
    fn escape(&mut self) -> Option<u32> {
        let mut escape = [b'\\'; 12];
        let (half, other) = escape.split_at_mut(6);
        self.fill(half.get_mut(1..2)?)?;
        if half.get(1) == Some(&b'u') {
            self.fill(half.get_mut(2..)?)?;
        }
        match unescape(half) {
            Ok((character, _)) => Some(u32::from(character)),
            Err(EscapeError::LoneSurrogate(low @ 0xDC00..)) => Some(u32::from(low)),
            // Text cannot hold the first half of a pair alone, so it cannot be a copy.
            Err(EscapeError::LoneSurrogate(_)) => {
                self.fill(other)?;
                unescape(&escape).ok().map(|(character, _)| u32::from(character))
            }
            Err(EscapeError::Invalid) => None,
        }
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Option<()> {
        bytes.iter_mut().try_for_each(|byte| self.next().map(|next| *byte = next))
    }
}
