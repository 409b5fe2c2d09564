//! Removes the values of secret fields, and the cells of secret columns, from JSON that is given in slices.

use std::borrow::Cow;

use lro_json::masks::{BLOCK, InStrings, Masks, Strings, follow};

use crate::grid::{Grid, names_columns};
use crate::pointers::Pointers;
use crate::rules::Rules;
use crate::text::decoded;

/// The first step: replaces whole values and copies the rest. It only tracks tokens, so that a text that turns out not
/// to be JSON passes through as well.
pub(crate) struct Eraser<'a> {
    rules: &'a Rules,
    state: State,
    /// The strings of the text outside secret values.
    strings: Strings,
    /// The end of the last slice, from the beginning of its last string on: that may be a key, when a colon follows.
    carried: String,
    key_bytes_max: usize,
    pointers: Pointers<'a>,
    /// The container that may have a table in it.
    grid: Option<Grid>,
    /// Whether the last slice ended behind an opening bracket.
    after_open: u64,
    /// Whether anything was removed.
    pub(crate) found: bool,
}

/// Stands for a string that is too long for a key, up to its last quote.
const TOO_LONG: &str = "\"";

#[derive(Clone, Copy)]
enum State {
    /// Outside secret values.
    Outside,
    /// Before a secret value.
    BeforeSecret,
    /// In a secret value: its open containers, whether in a string, and whether the next byte is escaped.
    Secret { depth: usize, in_string: bool, escaped: bool },
}

impl<'a> Eraser<'a> {
    pub(crate) fn new(rules: &'a Rules) -> Self {
        Self {
            rules,
            state: State::Outside,
            strings: Strings::default(),
            carried: String::new(),
            key_bytes_max: rules.key_bytes_max(),
            pointers: Pointers::new(&rules.pointers),
            grid: None,
            after_open: 0,
            found: false,
        }
    }

    /// Appends the next slice without its secret values.
    pub(crate) fn push(&mut self, slice: &str, out: &mut String) {
        let bytes = slice.as_bytes();
        // Start of the bytes to copy, and position of the search for the next secret value.
        let (mut from, mut at) = (0, 0);
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            match self.state {
                State::Outside => at = self.outside(slice, at),
                State::BeforeSecret => {
                    let white = rest.iter().position(|byte| !byte.is_ascii_whitespace()).unwrap_or(rest.len());
                    at += white;
                    if let Some(&first) = bytes.get(at) {
                        out.push_str(&slice[from..at]);
                        self.begin_secret(first, out);
                        from = at;
                        if matches!(self.state, State::Secret { .. }) {
                            at += 1;
                            from = slice.ceil_char_boundary(at);
                        }
                    }
                }
                State::Secret { depth, in_string, escaped } => {
                    let (length, state) = in_secret(rest, depth, in_string, escaped);
                    self.state = state;
                    at += length;
                    from = at;
                }
            }
        }
        out.push_str(&slice[from..]);
    }

    /// Advances from `start` to where the next secret value may begin, or to the end of the slice.
    fn outside(&mut self, slice: &str, start: usize) -> usize {
        let bytes = slice.as_bytes();
        // Start of the last string, or of the text that continues the one of the last slice.
        let (mut string, mut block) = (start, start);
        while let Some(rest) = bytes.get(block..).filter(|rest| !rest.is_empty()) {
            let masks = Masks::of(rest);
            let InStrings { inside, quote, .. } = self.strings.next(&masks, rest.len().min(BLOCK) - 1);
            let last_start = |firsts: u64| (firsts != 0).then(|| block + BLOCK - firsts.leading_zeros() as usize);
            let (open, colon) = (masks.open & !inside, masks.colon & !inside);
            // A row that follows the bracket of its rows.
            let first_rows = open & follow(open, &mut self.after_open, masks.low & !inside);
            let mut is_followed = !self.pointers.is_empty() || self.grid.is_some();
            let mut tokens = match is_followed {
                true => colon | structure(rest) & !inside,
                false => colon & !self.rules.behind_short(quote & inside) | first_rows,
            };
            while tokens != 0 {
                let bit = tokens & tokens.wrapping_neg();
                tokens ^= bit;
                let index = block + bit.trailing_zeros() as usize;
                let first = last_start(quote & inside & (bit - 1));
                // Most keys stand in a block and do not matter.
                if colon & bit != 0
                    && !is_followed
                    && masks.backslash == 0
                    && let Some([key @ .., b'"']) = first.and_then(|first| bytes.get(first..index))
                    && !self.rules.may_matter(key)
                {
                    continue;
                }
                let before = match first {
                    Some(first) => Cow::Borrowed(&slice[first..index]),
                    None if string > start || self.carried.is_empty() => Cow::Borrowed(&slice[string..index]),
                    None => Cow::Owned(self.after_carried(&slice[start..index])),
                };
                let before = last_string(&before);
                if colon & bit != 0 {
                    self.end_key(before.unwrap_or_default());
                } else {
                    self.bracket_or_comma(bytes[index], first_rows & bit != 0, before);
                }
                if !matches!(self.state, State::Outside) {
                    self.strings = Strings::default();
                    self.after_open = 0;
                    self.carried.clear();
                    return index + 1;
                }
                if !is_followed && self.grid.is_some() {
                    is_followed = true;
                    tokens = (colon | structure(rest) & !inside) & !(bit | (bit - 1));
                }
            }
            string = last_start(quote & inside).unwrap_or(string);
            block += BLOCK;
        }
        if string > start {
            self.carried.clear();
        }
        self.carry(&slice[string..]);
        bytes.len()
    }

    /// Handles a bracket or a comma, and the string that it follows.
    fn bracket_or_comma(&mut self, byte: u8, is_first_row: bool, before: Option<&str>) {
        let is_open = matches!(byte, b'{' | b'[');
        let is_secret = match byte {
            b',' => self.pointers.comma(),
            _ if is_open => self.pointers.open(byte == b'{'),
            _ => {
                self.pointers.close();
                false
            }
        };
        if is_secret {
            self.state = State::BeforeSecret;
        }
        if self.grid.is_none() && is_first_row && byte == b'[' {
            self.grid = Some(Grid::inside(false));
        }
        let Some(grid) = &mut self.grid else { return };
        let last = before.map(decoded);
        let last = last.as_ref().map(|last| last.text.as_ref());
        match byte {
            b',' => grid.comma(last, self.rules),
            _ if is_open => grid.open(byte == b'{'),
            _ => grid.close(last, self.rules),
        }
        if grid.is_secret() && matches!(byte, b',' | b'[') {
            self.state = State::BeforeSecret;
        }
        if !grid.is_open() {
            self.grid = None;
        }
    }

    /// Keeps the end of a slice, as far as it may be of a key.
    fn carry(&mut self, end: &str) {
        if self.strings.is_inside() {
            // One byte more than a key may have shows that it is none.
            let room = (self.key_bytes_max + 1).saturating_sub(self.carried.len());
            self.carried.push_str(end.get(..end.ceil_char_boundary(room)).unwrap_or_default());
            return;
        }
        let end = end.trim_ascii_end();
        if self.carried.len() + end.len() <= self.key_bytes_max + 1 {
            self.carried.push_str(end);
        } else {
            self.carried.clear();
            self.carried.push_str(if end.ends_with('"') { TOO_LONG } else { "" });
        }
        if !self.carried.ends_with('"') {
            self.carried.clear();
        }
    }

    /// The text from the beginning of a string in an earlier slice on.
    fn after_carried(&self, end: &str) -> String {
        let end = end.trim_ascii_end();
        if self.carried.len() + end.len() <= self.key_bytes_max + 1 {
            return [&self.carried, end].concat();
        }
        if end.ends_with('"') { TOO_LONG.to_owned() } else { String::new() }
    }

    /// Handles the colon after a key, which is given with its escapes.
    fn end_key(&mut self, key: &str) {
        let is_candidate = key.contains('\\') || self.rules.may_matter(key.as_bytes());
        if is_candidate && self.rules.is_secret(&decoded(key).text) {
            self.state = State::BeforeSecret;
        }
        if self.grid.is_none() && is_candidate && names_columns(key) {
            self.grid = Some(Grid::inside(true));
        }
        if let Some(grid) = &mut self.grid {
            grid.key(key);
        }
        if self.pointers.key(key) {
            self.state = State::BeforeSecret;
        }
    }

    fn begin_secret(&mut self, first: u8, out: &mut String) {
        self.state = match first {
            // No value follows.
            b'}' | b']' | b',' | b':' => State::Outside,
            b'"' => State::Secret { depth: 0, in_string: true, escaped: false },
            b'{' | b'[' => State::Secret { depth: 1, in_string: false, escaped: false },
            _ => State::Secret { depth: 0, in_string: false, escaped: false },
        };
        if matches!(self.state, State::Secret { .. }) {
            self.found = true;
            out.push('"');
            out.push_str(&self.rules.escaped);
            out.push('"');
        }
    }
}

/// The brackets and commas of a block: few documents have tables or pointers into them.
#[cold]
#[inline(never)]
fn structure(block: &[u8]) -> u64 {
    let Masks { open, close, comma, .. } = Masks::of(block);
    open | close | comma
}

/// The string whose last quote ends a text, but for white space.
fn last_string(text: &str) -> Option<&str> {
    text.trim_ascii_end().strip_suffix('"')
}

/// Advances to the end of a secret value, or of the slice.
fn in_secret(rest: &[u8], mut depth: usize, mut in_string: bool, mut escaped: bool) -> (usize, State) {
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' if in_string => {
                in_string = false;
                if depth == 0 {
                    return (index + 1, State::Outside);
                }
            }
            _ if in_string => {}
            // A number or a literal.
            b'"' | b',' | b':' | b'{' | b'[' | b'}' | b']' if depth == 0 => return (index, State::Outside),
            _ if depth == 0 && byte.is_ascii_whitespace() => return (index, State::Outside),
            b'"' => in_string = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => {
                depth -= 1;
                if depth == 0 {
                    return (index + 1, State::Outside);
                }
            }
            _ => {}
        }
    }
    (rest.len(), State::Secret { depth, in_string, escaped })
}
