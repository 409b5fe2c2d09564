//! Finds the cells of secret columns in delimited cells, of which a quoted one may have any number of lines.

use std::ops::Range;

use crate::find::Match;
use crate::named::cell_piece;
use crate::rules::Rules;

/// Where the reader of cells is.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    delimiter: u8,
    /// Secret columns, in order.
    secret: Vec<usize>,
    /// Whether spaces may stand before the quote of a cell.
    has_blanks: bool,
    /// Index of the column.
    column: usize,
    /// Whether the cell has a byte before, whether that was a quote, and whether the next one is in quotes.
    in_cell: bool,
    is_quoted: bool,
    in_quotes: bool,
    /// Whether the replacement of the cell is written.
    is_replaced: bool,
}

impl Row {
    pub(crate) fn new(delimiter: u8, secret: Vec<usize>, has_blanks: bool) -> Self {
        Self { delimiter, secret, has_blanks, ..Self::default() }
    }

    /// Reads cells; `at` is where their text begins.
    pub(crate) fn read(&mut self, text: &str, at: usize, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let mut from = 0;
        for (index, byte) in text.bytes().enumerate() {
            match byte {
                b'"' if self.is_quoted => self.in_quotes = !self.in_quotes,
                _ if self.in_quotes => {}
                b'"' if !self.in_cell => {
                    (self.in_cell, self.is_quoted, self.in_quotes) = (true, true, true);
                    from = index + 1;
                }
                b'\n' => {
                    self.end_cell(text, from..index, at, rules, found);
                    self.column = 0;
                    from = index + 1;
                }
                _ if byte == self.delimiter => {
                    self.end_cell(text, from..index, at, rules, found);
                    self.column += 1;
                    from = index + 1;
                }
                b' ' if self.has_blanks && !self.in_cell => {}
                _ => self.in_cell = true,
            }
        }
        if self.in_cell {
            self.replace(text, from..text.len(), at, rules, found);
        }
    }

    fn end_cell(&mut self, text: &str, cell: Range<usize>, at: usize, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let content = text.get(cell.clone()).unwrap_or_default().trim_end_matches(['\r', ' ']);
        let content = if self.is_quoted { content.strip_suffix('"').unwrap_or(content) } else { content };
        self.replace(text, cell.start..cell.start + content.len(), at, rules, found);
        (self.in_cell, self.is_quoted, self.in_quotes, self.is_replaced) = (false, false, false, false);
    }

    /// Adds a piece of a cell, if it is secret.
    fn replace(&mut self, text: &str, piece: Range<usize>, at: usize, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let spaces = text.get(piece.clone()).map_or(0, |text| text.len() - text.trim_start_matches(' ').len());
        let start = if self.is_replaced || self.is_quoted { piece.start } else { piece.start + spaces };
        if start >= piece.end || self.secret.binary_search(&self.column).is_err() {
            return;
        }
        let is_special =
            |character: char| matches!(character, '"' | '\n' | '\r') || character == char::from(self.delimiter);
        let quote = if !self.is_quoted && rules.replacement.contains(is_special) { "\"" } else { "" };
        let piece = cell_piece(at + start..at + piece.end, &mut self.is_replaced);
        found.push(Match { quote, ..piece });
    }
}
