//! Removes what looks like a secret from a text that is given in slices.

use std::iter::Peekable;
use std::ops::Range;

use lro_json::masks::{BLOCK, Masks};
use lro_json::write::push_escaped;

use crate::candidates::Marks;
use crate::cells::Cells;
use crate::find::{AFTER_BYTES, Before, Class, MATCH_BYTES_MAX, Match, Search, Seen};
use crate::rules::Rules;
use crate::text::{Decoded, decoded};

/// Longest escape in a JSON string, in bytes.
const ESCAPE_BYTES_MAX: usize = 12;

/// The second step: searches strings without their escapes and the text between them as it is, and copies the rest.
pub(crate) struct Scrubber<'a> {
    rules: &'a Rules,
    /// Whether the text is JSON, with quotes and escapes.
    is_json: bool,
    in_string: bool,
    /// Text that is not decided yet; what follows is appended here.
    pub(crate) pending: String,
    /// The text before it, in its string or between two strings.
    before: Before,
    /// The class of bytes that continue a secret longer than [`MATCH_BYTES_MAX`](crate::MATCH_BYTES_MAX).
    open: Option<Class>,
    /// The tables of a text, or of a string, once it may have some.
    cells: Option<Cells>,
    /// Whether anything was removed.
    pub(crate) found: bool,
}

/// The text between two quotes, or its beginning.
#[derive(Clone, Debug, Default)]
struct Piece {
    range: Range<usize>,
    /// Whether it is complete.
    complete: bool,
    /// Whether a quote begins it; otherwise it continues the last piece of the previous slice.
    is_new: bool,
    /// Whether it may have escapes.
    has_escapes: bool,
    /// The candidates of the block with its first one, where these are known.
    seen: Seen,
}

impl<'a> Scrubber<'a> {
    pub(crate) fn new(rules: &'a Rules, is_json: bool) -> Self {
        Self {
            rules,
            is_json,
            in_string: false,
            pending: String::new(),
            before: Before::nothing(),
            open: None,
            cells: None,
            found: false,
        }
    }

    /// Reads the pending text, which more follows or not, and appends what is decided.
    pub(crate) fn read(&mut self, is_last: bool, out: &mut String) {
        let mut text = std::mem::take(&mut self.pending);
        // End of the text already in `out`.
        let mut copied = 0;
        let last = match self.is_json {
            true => self.pieces(&text, is_last, &mut copied, out),
            false => Piece { range: 0..text.len(), complete: is_last, ..Piece::default() },
        };
        let decided = self.scrub(&text, &last, &mut copied, out);
        out.push_str(&text[copied..decided]);
        text.drain(..decided);
        self.pending = text;
    }

    /// Searches the complete pieces of JSON. Returns the last one, without an incomplete escape.
    fn pieces(&mut self, text: &str, is_last: bool, copied: &mut usize, out: &mut String) -> Piece {
        let bytes = text.as_bytes();
        let mut piece = Piece { complete: true, ..Piece::default() };
        // Whether the piece may have a secret: most have no mark, and are not looked at again. The first may continue one.
        let mut is_marked = true;
        let mut last_escape = None;
        let mut block = 0;
        while let Some(rest) = bytes.get(block..).filter(|rest| !rest.is_empty()) {
            let (Masks { quote, backslash, .. }, marks) = (Masks::of(rest), Marks::of(rest));
            // The quotes ahead, without escaped ones. Most names end with the quote of their key, and are no candidates.
            let mut quotes = quote & !u64::from(last_escape.is_some_and(|escape| escape + 1 == block));
            let names = marks.names & !(quotes & !(backslash << 1));
            let mut tokens = backslash | marks.patterns | names;
            loop {
                let bit = tokens & tokens.wrapping_neg();
                let passed = quotes & bit.wrapping_sub(1);
                if passed != 0 {
                    if is_marked {
                        piece.range.end = block + passed.trailing_zeros() as usize;
                        piece.has_escapes = last_escape.is_some();
                        self.scrub(text, &piece, copied, out);
                    }
                    let start = block + BLOCK - passed.leading_zeros() as usize;
                    piece = Piece { range: start..start, complete: true, is_new: true, ..Piece::default() };
                    self.in_string ^= passed.count_ones() % 2 == 1;
                    (is_marked, last_escape) = (false, None);
                    quotes &= !passed;
                }
                if bit == 0 {
                    break;
                }
                tokens ^= bit;
                let index = block + bit.trailing_zeros() as usize;
                let is_escaped = last_escape.is_some_and(|escape| escape + 1 == index);
                if backslash & bit != 0 && self.in_string && !is_escaped {
                    last_escape = Some(index);
                    quotes &= !(bit << 1);
                    // Any other may stand for a character of a secret, or end a line of a table.
                    is_marked |= !matches!(bytes.get(index + 1), Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'r' | b't'));
                } else if !is_marked && quotes & bit == 0 {
                    let may_end_name = |byte: &u8| matches!(byte, b'<' | b'[') || self.rules.may_end_name(*byte);
                    is_marked =
                        marks.patterns & bit != 0 || names & bit != 0 && bytes.get(index).is_some_and(may_end_name);
                    piece.seen =
                        Seen { block, next: block + BLOCK, candidates: (marks.patterns | marks.names) & !(bit - 1) };
                }
            }
            block += BLOCK;
        }
        let cut = last_escape.filter(|escape| !is_last && text.len() - escape < ESCAPE_BYTES_MAX);
        let range = piece.range.start..cut.unwrap_or(text.len());
        Piece { range, complete: is_last, has_escapes: last_escape.is_some(), ..piece }
    }

    /// Searches a piece for secrets and, when there are any, appends the text from `copied` on without them. Returns
    /// the end of the decided text.
    fn scrub(&mut self, whole: &str, piece: &Piece, copied: &mut usize, out: &mut String) -> usize {
        if piece.is_new {
            self.before.begin();
            self.open = None;
            // Few strings have tables; to drop nothing is a call as well.
            if self.cells.is_some() {
                self.cells = None;
            }
        }
        let is_string = self.is_json && self.in_string;
        let written = &whole[piece.range.clone()];
        let view = if is_string && piece.has_escapes { decoded(written) } else { Decoded::plain(written) };
        let position = |at: usize| piece.range.start + view.position(at);
        let text = view.text.as_ref();
        let mut at = self.skip_open(text);
        if at > 0 {
            out.push_str(&whole[*copied..piece.range.start]);
            *copied = position(at);
        }
        // Between its strings, JSON has no tables.
        let has_tables = is_string || !self.is_json;
        let mut decided = if piece.complete { text.len() } else { boundary(text).max(at) };
        let (mut cells, read) = (Vec::new(), decided);
        let bytes = if view.is_plain() { &whole.as_bytes()[piece.range.start..] } else { text.as_bytes() };
        if has_tables && (!piece.complete || !piece.is_new || Cells::may_have(bytes, text.len())) {
            self.cells.get_or_insert_with(Cells::new).find(text, 0..read, self.rules, &mut cells);
        }
        let mut cells = cells.into_iter().peekable();
        let search = Search { text, bytes, before: &self.before, complete: piece.complete, rules: self.rules };
        let mut seen = if view.is_plain() { piece.seen.within(&piece.range) } else { Seen::default() };
        let mut next = search.find(at, &mut seen);
        while let Some((found, is_cell)) = next_match(&mut cells, &mut next) {
            let Match { evidence, range, class, quote, width } = found;
            // The cells there are not known yet.
            if has_tables && !piece.complete && evidence.min(range.start) >= read {
                break;
            }
            let is_number =
                self.is_json && !is_string && text.as_bytes().get(range.start).is_some_and(u8::is_ascii_digit);
            let range = if is_number { whole_number(text, at, range) } else { range };
            if !piece.complete && !is_cell && range.end + AFTER_BYTES > text.len() {
                if text.len() - evidence.min(range.start) <= MATCH_BYTES_MAX {
                    decided = decided.min(evidence.min(range.start)).max(at);
                    break;
                }
                if range.end == text.len() {
                    self.open = Some(class);
                }
            }
            self.found = true;
            // A cell may begin inside an earlier secret.
            let start = range.start.max(at);
            out.push_str(&whole[*copied..position(start)]);
            if range.end > start {
                let quote = if is_number { "\"" } else { quote };
                self.replace(is_string, quote, width, out);
            }
            at = range.end.max(at);
            *copied = position(at);
            let is_used = next.as_ref().map_or(!is_cell, |next| next.evidence < at);
            if is_used {
                next = search.find(at, &mut seen);
            }
        }
        decided = decided.max(at);
        if let Some(cells) = self.cells.as_mut().filter(|_| read < decided) {
            cells.find(text, read..decided, self.rules, &mut Vec::new());
        }
        if !piece.complete {
            self.before.add(text.as_bytes().get(..decided).unwrap_or_default());
        }
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

    /// Appends the replacement between two quotation marks, or none, or as many characters of it.
    fn replace(&self, is_string: bool, quote: &str, width: Option<usize>, out: &mut String) {
        if let Some(width) = width {
            let characters = self.rules.replacement.chars().chain(std::iter::repeat(' ')).take(width);
            let text: String = characters.collect();
            return if is_string { push_escaped(out, &text) } else { out.push_str(&text) };
        }
        if is_string && quote.is_empty() {
            out.push_str(&self.rules.escaped);
        } else if is_string {
            push_escaped(out, quote);
            out.push_str(&self.rules.escaped);
            push_escaped(out, quote);
        } else {
            let inside = if quote.is_empty() { &self.rules.replacement } else { &self.rules.escaped };
            out.extend([quote, inside, quote]);
        }
    }
}

/// Takes the match that begins first, and says whether it is a cell. Of two that begin together it is the cell.
fn next_match<'a>(
    cells: &mut Peekable<impl Iterator<Item = Match<'a>>>,
    pattern: &mut Option<Match<'a>>,
) -> Option<(Match<'a>, bool)> {
    let is_cell =
        cells.peek().is_some_and(|cell| pattern.as_ref().is_none_or(|pattern| cell.range.start <= pattern.range.start));
    let found = if is_cell { cells.next() } else { pattern.take() };
    found.map(|found| (found, is_cell))
}

/// Up to where an incomplete text is decided: the last line that is followed by enough, or the middle of a longer one.
fn boundary(text: &str) -> usize {
    let most = text.floor_char_boundary(text.len().saturating_sub(MATCH_BYTES_MAX));
    let view = text.get(most.saturating_sub(MATCH_BYTES_MAX)..most);
    // A line that does not end in the view, or a cut character, is a long one.
    let start = most - view.map_or(0, str::len);
    view.and_then(|view| view.rfind('\n')).map_or(most, |end| start + end + 1)
}

/// The whole JSON number around a match, which a string replaces.
fn whole_number(text: &str, from: usize, range: Range<usize>) -> Range<usize> {
    let is_of_number = |character: char| character.is_ascii_alphanumeric() || matches!(character, '+' | '-' | '.');
    let (before, after) = (text.get(from..range.start).unwrap_or_default(), text.get(range.end..).unwrap_or_default());
    let start = from + before.trim_end_matches(is_of_number).len();
    let end = text.len() - after.trim_start_matches(is_of_number).len();
    start..end
}
