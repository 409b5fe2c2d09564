//! Detects text that is only a serialized copy of the structured content, whatever its white space and escapes.

use std::cell::OnceCell;
use std::sync::Arc;

use bytes::Bytes;
use lro_json::masks::{BLOCK, equal, escaped};
use lro_json::{EscapeError, unescape};
use lro_payload::{Part, PartKind, Payload, PayloadReader};

use super::span::{self, Span};

/// Bytes decoded at a time.
const SLICE_BYTES: u32 = 64 << 10;

/// Which of the two becomes the part when a text and the structured content hold the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Same {
    /// The text is the structured content as JSON, or the value of its only member, with which servers wrap values that are
    /// not objects: `result`, or what they are. The structured form carries more information.
    Structured,
    /// The structured content is an object whose only member is the text as a string: the text is the whole content.
    Text,
}

/// The structured content of a message, prepared once for the comparison with many texts.
///
/// Comparisons ignore white space between tokens and the escaping of characters in strings; they compare numbers as text,
/// and members in their order. Memory does not grow with the texts.
pub(super) struct Structured<'a> {
    message: &'a Bytes,
    span: &'a Span,
    whole: Part,
    /// Found when it is needed first: most texts are copies of the whole.
    lone: OnceCell<Lone>,
}

/// What the only member of an object could be compared as.
#[derive(Default)]
struct Lone {
    /// A string, as text.
    text: Option<Part>,
    /// Its value, as JSON.
    json: Option<(Span, Part)>,
}

impl<'a> Structured<'a> {
    /// `None` if the value is not UTF-8.
    pub(super) fn new(message: &'a Bytes, span: &'a Span) -> Option<Self> {
        Some(Self { message, span, whole: json_part(message, span)?, lone: OnceCell::new() })
    }

    fn lone(&self) -> &Lone {
        self.lone.get_or_init(|| {
            if self.message.get(self.span.start) != Some(&b'{') {
                return Lone::default();
            }
            let members = span::members(self.message, self.span.start, 1, |_, _| None).0;
            let [lone] = members.as_slice() else { return Lone::default() };
            Lone {
                text: string_part(self.message, &lone.value),
                json: json_part(self.message, &lone.value).map(|json| (lone.value.clone(), json)),
            }
        })
    }

    /// What a text part and the structured content have in common.
    pub(super) fn same(&self, part: &Part) -> Option<Same> {
        if part.kind != PartKind::Text || part.name.is_some() {
            return None;
        }
        if same_json(part, &self.whole) {
            return Some(Same::Structured);
        }
        let lone = self.lone();
        if lone.text.as_ref().is_some_and(|text| same_text(part, text)) {
            return Some(Same::Text);
        }
        lone.json.as_ref().filter(|(_, json)| same_json(part, json)).map(|_| Same::Structured)
    }

    /// Whether the parts of all blocks are texts, and these are the elements of the list that the structured content is or
    /// wraps, in their order: some SDKs send one text block for each element. Strings stand in the text as they are, other
    /// values as JSON.
    pub(super) fn has_elements(&self, mut parts: impl Iterator<Item = Option<Part>>) -> bool {
        let list = self.lone().json.as_ref().map_or(self.span, |(list, _)| list);
        if self.message.get(list.start) != Some(&b'[') {
            return false;
        }
        let mut elements = span::each_element(self.message, list.start);
        loop {
            match (parts.next(), elements.next()) {
                (None, None) => return true,
                (Some(Some(part)), Some(element)) if self.is_element(&part, &element) => {}
                _ => return false,
            }
        }
    }

    fn is_element(&self, part: &Part, element: &Span) -> bool {
        part.kind == PartKind::Text
            && part.name.is_none()
            && match string_part(self.message, element) {
                Some(text) => same_text(part, &text),
                None => json_part(self.message, element).is_some_and(|json| same_json(part, &json)),
            }
    }
}

fn json_part(message: &Bytes, value: &Span) -> Option<Part> {
    Part::text(PartKind::Structured, message.slice(value.clone())).ok()
}

/// A JSON string as text; `None` for another value, and for half a surrogate pair.
fn string_part(message: &Bytes, value: &Span) -> Option<Part> {
    Part::json_string(PartKind::Text, message.slice(span::literal(message, value)?)).ok()
}

fn same_text(one: &Part, other: &Part) -> bool {
    if one.size() != other.size() {
        return false;
    }
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

fn same_json(part: &Part, json: &Part) -> bool {
    let (mut one, mut other) = (Tokens::new(part.clone()), Tokens::new(json.clone()));
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
