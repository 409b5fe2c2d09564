//! Finds the cells of secret columns in tables that are JSON or Python literals inside a text, see [`Grid`].

use std::ops::Range;

use crate::find::Match;
use crate::grid::{Grid, names_columns, push_name};
use crate::named::cell_piece;
use crate::rules::Rules;
use crate::text::decoded;

/// Most white space between the tokens that begin a table, in bytes.
const SPACES_MAX: usize = 256;

/// Longest key that names columns, in bytes.
const KEY_BYTES_MAX: usize = 16;

/// Follows the literals of a text, piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Literals {
    open: Option<Literal>,
}

/// A container that may have a table in it, followed to its end, or to what is not a literal.
#[derive(Clone, Debug)]
struct Literal {
    grid: Grid,
    /// The mark around the open string, and whether a backslash escapes the next byte.
    mark: Option<u8>,
    is_escaped: bool,
    /// The string that was read last, with its escapes; `None` after anything else.
    last: Option<String>,
    /// Whether a value or a key may begin, and whether a number or a word is open.
    is_due: bool,
    in_word: bool,
    secret: Option<Secret>,
}

/// A cell to be taken out.
#[derive(Clone, Debug, Default)]
struct Secret {
    /// Whether its value has begun, and whether that is a string.
    has_begun: bool,
    is_string: bool,
    /// Containers open in it.
    depth: usize,
    /// Whether the replacement is written.
    is_replaced: bool,
}

impl Literals {
    /// The cells of secret columns in a part of a text, in order. The part begins where the last one ended; what follows it
    /// is only looked at.
    pub(crate) fn cells(&mut self, text: &str, part: Range<usize>, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let mut at = part.start;
        while at < part.end {
            let Some(literal) = &mut self.open else {
                let Some((start, literal)) = begin(text, at..part.end) else { return };
                self.open = Some(literal);
                at = start;
                continue;
            };
            let Some(end) = literal.read(text, at..part.end, rules, found) else { return };
            self.open = None;
            at = end;
        }
    }
}

/// The first place where a literal may begin, which may be all of a text or have a table in it; also a key that names columns
/// where its object was not followed.
fn begin(text: &str, part: Range<usize>) -> Option<(usize, Literal)> {
    let piece = text.get(part.clone())?;
    piece.match_indices(['[', '{', '"', '\'']).find_map(|(at, mark)| {
        let start = part.start + at;
        let after = text.get(start + 1..)?;
        let is_bracket = matches!(mark, "[" | "{");
        let is_literal =
            if is_bracket { skip_spaces(after).starts_with(begins_value) } else { is_key_of_names(after, mark) };
        // The bracket has been read.
        let literal = || Literal::new(Grid::inside(mark != "["));
        is_literal.then(|| (start + usize::from(is_bracket), literal()))
    })
}

fn begins_value(first: char) -> bool {
    first.is_ascii_alphanumeric() || matches!(first, '[' | '{' | '(' | '"' | '\'' | '-')
}

fn is_key_of_names(after: &str, mark: &str) -> bool {
    let view = after.get(..after.floor_char_boundary(KEY_BYTES_MAX)).unwrap_or_default();
    let Some((key, _)) = view.split_once(mark).filter(|(key, _)| names_columns(key)) else { return false };
    let after = skip_spaces(after.get(key.len() + 1..).unwrap_or_default());
    after.strip_prefix(':').is_some_and(|value| skip_spaces(value).starts_with(['[', '{', '(']))
}

/// A text without the white space at its beginning; a text with too much is unchanged.
fn skip_spaces(text: &str) -> &str {
    let spaces = text.bytes().take(SPACES_MAX).take_while(u8::is_ascii_whitespace).count();
    text.get(spaces..).unwrap_or_default()
}

impl Literal {
    fn new(grid: Grid) -> Self {
        Self { grid, mark: None, is_escaped: false, last: None, is_due: true, in_word: false, secret: None }
    }

    /// Reads a part. Returns where the literal ends, if it does.
    fn read(
        &mut self,
        text: &str,
        part: Range<usize>,
        rules: &Rules,
        found: &mut Vec<Match<'static>>,
    ) -> Option<usize> {
        // Beginning of the open string, or of the cell.
        let mut from = part.start;
        let bytes = text.as_bytes().get(part.clone()).unwrap_or_default();
        for (at, &byte) in (part.start..).zip(bytes) {
            if let Some(mark) = self.mark {
                match byte {
                    _ if self.is_escaped => self.is_escaped = false,
                    b'\\' => self.is_escaped = true,
                    b'\n' => return self.stop(from..at, found),
                    _ if byte == mark => self.end_string(text, from..at, found),
                    _ => {}
                }
                continue;
            }
            let is_word = byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.' | b'_');
            if self.in_word && is_word {
                continue;
            }
            // Python calls functions.
            let is_call = self.in_word && byte == b'(';
            if self.in_word && !is_call {
                self.end_cell(from..at, found);
            }
            self.in_word = false;
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => {}
                b'"' | b'\'' if self.is_due => {
                    self.mark = Some(byte);
                    from = if self.begin(true) { at + 1 } else { from };
                }
                _ if is_word && self.is_due => {
                    self.in_word = true;
                    from = if self.begin(false) { at } else { from };
                }
                b'(' | b'[' | b'{' if self.is_due || is_call => {
                    from = if self.begin(false) { at } else { from };
                    self.open(byte == b'{');
                }
                b')' | b']' | b'}' => {
                    self.close(from..at + 1, rules, found);
                    if !self.grid.is_open() {
                        return Some(at + 1);
                    }
                }
                b',' if !self.is_due => self.comma(rules),
                b':' if !self.is_due => self.colon(),
                _ => return self.stop(from..at, found),
            }
        }
        match &self.secret {
            Some(secret) if secret.has_begun => self.take_out(from..part.end, found),
            None if self.mark.is_some() => self.keep(text.get(from..part.end).unwrap_or_default()),
            _ => {}
        }
        None
    }

    /// Begins a value or a key. Returns whether its text is wanted: of a string outside cells, and of a cell.
    fn begin(&mut self, is_string: bool) -> bool {
        self.is_due = false;
        self.last = is_string.then(String::new);
        let Some(secret) = &mut self.secret else { return is_string };
        let is_first = !secret.has_begun;
        secret.has_begun = true;
        secret.is_string |= is_first && is_string;
        is_first
    }

    fn end_string(&mut self, text: &str, range: Range<usize>, found: &mut Vec<Match<'static>>) {
        self.mark = None;
        if self.secret.is_none() {
            self.keep(text.get(range).unwrap_or_default());
        } else {
            self.end_cell(range, found);
        }
    }

    /// Adds to the string that may be a name.
    fn keep(&mut self, piece: &str) {
        if let Some(last) = &mut self.last {
            push_name(last, piece);
        }
    }

    fn open(&mut self, is_object: bool) {
        self.is_due = true;
        match &mut self.secret {
            Some(secret) => secret.depth += 1,
            None => {
                self.grid.open(is_object);
                self.next();
            }
        }
    }

    fn close(&mut self, range: Range<usize>, rules: &Rules, found: &mut Vec<Match<'static>>) {
        self.is_due = false;
        match &mut self.secret {
            Some(secret) if secret.has_begun => {
                secret.depth = secret.depth.saturating_sub(1);
                self.end_cell(range, found);
            }
            _ => {
                self.secret = None;
                let last = self.last.take();
                let last = last.as_deref().map(decoded);
                self.grid.close(last.as_ref().map(|last| last.text.as_ref()), rules);
            }
        }
    }

    fn comma(&mut self, rules: &Rules) {
        self.is_due = true;
        let last = self.last.take();
        if self.secret.is_none() {
            let last = last.as_deref().map(decoded);
            self.grid.comma(last.as_ref().map(|last| last.text.as_ref()), rules);
            self.next();
        }
    }

    fn colon(&mut self) {
        self.is_due = true;
        let key = self.last.take().unwrap_or_default();
        if self.secret.is_none() {
            self.grid.key(&decoded(&key).text);
        }
    }

    /// Looks whether the next value is a cell to be taken out.
    fn next(&mut self) {
        self.secret = self.grid.is_secret().then(Secret::default);
    }

    /// Ends a cell whose last piece this is, unless containers are open in it.
    fn end_cell(&mut self, range: Range<usize>, found: &mut Vec<Match<'static>>) {
        if self.secret.as_ref().is_some_and(|secret| secret.has_begun && secret.depth == 0) {
            self.take_out(range, found);
            self.secret = None;
        }
    }

    /// Takes out a piece of a cell.
    fn take_out(&mut self, range: Range<usize>, found: &mut Vec<Match<'static>>) {
        let Some(secret) = self.secret.as_mut().filter(|_| !range.is_empty()) else { return };
        let quote = if secret.is_string { "" } else { "\"" };
        found.push(Match { quote, ..cell_piece(range, &mut secret.is_replaced) });
    }

    /// Ends at what is not a literal.
    fn stop(&mut self, range: Range<usize>, found: &mut Vec<Match<'static>>) -> Option<usize> {
        let end = range.end;
        if self.secret.as_ref().is_some_and(|secret| secret.has_begun) {
            self.take_out(range, found);
        }
        Some(end)
    }
}
