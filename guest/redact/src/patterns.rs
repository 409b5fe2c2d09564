//! Removes what looks like a secret from a text that is given in slices.

use crate::find::{AFTER_BYTES, Class, MATCH_BYTES_MAX, MATCH_BYTES_MIN, Match, find, last_two};
use crate::rules::Rules;
use crate::text::{Decoded, decoded};
use std::ops::Range;

/// Longest escape in a JSON string, in bytes.
const ESCAPE_BYTES_MAX: usize = 12;

/// The second step: searches strings without their escapes and the text between them as it is, and copies the rest.
pub(crate) struct Scrubber<'a> {
    rules: &'a Rules,
    /// Whether the text is JSON, with quotes and escapes.
    is_json: bool,
    in_string: bool,
    /// Text that is not decided yet.
    pending: String,
    /// The two bytes before it.
    before: [u8; 2],
    /// The class of bytes that continue a secret longer than [`MATCH_BYTES_MAX`](crate::MATCH_BYTES_MAX).
    open: Option<Class>,
    /// Whether anything was removed.
    pub(crate) found: bool,
}

/// The text between two quotes, or its beginning.
struct Piece<'a> {
    text: &'a str,
    range: Range<usize>,
    /// Whether it is complete.
    complete: bool,
}

impl<'a> Scrubber<'a> {
    pub(crate) fn new(rules: &'a Rules, is_json: bool) -> Self {
        Self { rules, is_json, in_string: false, pending: String::new(), before: *b"  ", open: None, found: false }
    }

    /// Reads the next slice, or the last one, and appends the decided text.
    pub(crate) fn push(&mut self, slice: &str, is_last: bool, out: &mut String) {
        let mut text = std::mem::take(&mut self.pending);
        text.push_str(slice);
        // Start of the next piece, and end of the text already in `out`.
        let (mut at, mut copied) = (0, 0);
        loop {
            let (length, end) = self.piece(&text[at..], is_last);
            let piece = Piece { text: &text, range: at..at + length, complete: end || is_last };
            let decided = self.scrub(&piece, &mut copied, out);
            if !end {
                out.push_str(&text[copied..decided]);
                text.drain(..decided);
                self.pending = text;
                return;
            }
            at += length + 1;
            self.before = *b" \"";
            self.open = None;
            self.in_string = !self.in_string;
        }
    }

    /// The length of the piece at the beginning of the text, and whether a quote ends it. An incomplete escape is not
    /// part of an incomplete piece.
    fn piece(&self, text: &str, is_last: bool) -> (usize, bool) {
        if !self.is_json {
            return (text.len(), false);
        }
        let bytes = text.as_bytes();
        if !self.in_string {
            let quote = bytes.iter().position(|byte| *byte == b'"');
            return (quote.unwrap_or(text.len()), quote.is_some());
        }
        let (mut at, mut last_escape) = (0, None);
        let rest = |at: usize| bytes.get(at..).unwrap_or_default();
        while let Some(length) = rest(at).iter().position(|byte| matches!(byte, b'"' | b'\\')) {
            at += length;
            if bytes.get(at) == Some(&b'"') {
                return (at, true);
            }
            last_escape = Some(at);
            at += 2;
        }
        let cut = last_escape.filter(|escape| !is_last && text.len() - escape < ESCAPE_BYTES_MAX);
        (cut.unwrap_or(text.len()), false)
    }

    /// Searches a piece for secrets and, when there are any, appends the text from `copied` on without them. Returns
    /// the end of the decided text.
    fn scrub(&mut self, piece: &Piece<'_>, copied: &mut usize, out: &mut String) -> usize {
        if piece.complete && piece.range.len() < MATCH_BYTES_MIN && self.open.is_none() {
            return piece.range.end;
        }
        let is_string = self.is_json && self.in_string;
        let written = &piece.text[piece.range.clone()];
        let view = if is_string { decoded(written) } else { Decoded::plain(written) };
        let position = |at: usize| piece.range.start + view.position(at);
        let text = view.text.as_ref();
        let mut at = self.skip_open(text);
        if at > 0 {
            out.push_str(&piece.text[*copied..piece.range.start]);
            *copied = position(at);
        }
        let mut decided = text.len();
        if !piece.complete {
            decided = text.floor_char_boundary(text.len().saturating_sub(MATCH_BYTES_MAX)).max(at);
        }
        while let Some(Match { range, class }) = find(text, at, self.before, piece.complete, self.rules.patterns) {
            let is_number =
                self.is_json && !is_string && text.as_bytes().get(range.start).is_some_and(u8::is_ascii_digit);
            let range = if is_number { whole_number(text, at, range) } else { range };
            if !piece.complete && range.end + AFTER_BYTES > text.len() {
                if text.len() - range.start <= MATCH_BYTES_MAX {
                    decided = decided.min(range.start).max(at);
                    break;
                }
                if range.end == text.len() {
                    self.open = Some(class);
                }
            }
            self.found = true;
            out.push_str(&piece.text[*copied..position(range.start)]);
            self.replace(is_string, is_number, out);
            at = range.end;
            *copied = position(at);
            decided = decided.max(at);
        }
        self.before = last_two(text.as_bytes().get(..decided).unwrap_or_default(), self.before);
        position(decided)
    }

    /// The end of the text that continues a long secret.
    fn skip_open(&mut self, text: &str) -> usize {
        let Some(class) = self.open else { return 0 };
        let end = text.bytes().position(|byte| !class(byte));
        if end.is_some() {
            self.open = None;
        }
        end.unwrap_or(text.len())
    }

    fn replace(&self, is_string: bool, is_number: bool, out: &mut String) {
        match (is_string, is_number) {
            (true, _) => out.push_str(&self.rules.escaped),
            (false, false) => out.push_str(&self.rules.replacement),
            (false, true) => {
                out.push('"');
                out.push_str(&self.rules.escaped);
                out.push('"');
            }
        }
    }
}

/// The whole JSON number around a match, which a string replaces.
fn whole_number(text: &str, from: usize, range: Range<usize>) -> Range<usize> {
    let is_of_number = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
    let (before, after) = (text.get(from..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    let start = from + before.trim_end_matches(is_of_number).len();
    let end = text.len() - after.trim_start_matches(is_of_number).len();
    start..end
}
