//! Whether spaces stand around all delimiters of a text, and what its columns hold then.

use memchr::{memchr, memchr2};

use super::Blanks;

/// What a number, a date or a time consists of besides digits.
const VALUE_MARKS: &[u8] = b"+-.,:/% eTZ";

/// The spaces that stand around the delimiters of all rows, of which each has as many cells as the first unless rows may be
/// ragged. An empty cell has none; those of the first row are not empty.
pub(super) fn blanks(text: &str, delimiter: u8, may_be_ragged: bool) -> Blanks {
    let mut blanks = Blanks { leading: true, trailing: true };
    let mut columns = None;
    for row in Rows::new(text, delimiter) {
        let is_first = columns.is_none();
        let may_lack = |cell: &str| cell.is_empty() && !is_first;
        blanks.leading &= row.iter().skip(1).all(|cell| cell.starts_with(' ') || may_lack(cell));
        blanks.trailing &= row.iter().rev().skip(1).all(|cell| cell.ends_with(' ') || may_lack(cell));
        let is_ragged = *columns.get_or_insert(row.len()) != row.len() && !may_be_ragged;
        if row.len() < 2 && is_first || is_ragged || blanks == Blanks::default() {
            return Blanks::default();
        }
    }
    columns.map_or(Blanks::default(), |_| blanks)
}

/// For each column of the rows behind `skipped` of them, whether all its cells are numbers, dates, times, `true` or `false`,
/// or empty, and one is not empty.
pub(super) fn value_columns(text: &str, delimiter: u8, skipped: usize) -> Vec<bool> {
    let mut columns: Vec<Option<bool>> = Vec::new();
    for row in Rows::new(text, delimiter).skip(skipped) {
        columns.resize(columns.len().max(row.len()), None);
        for (column, cell) in columns.iter_mut().zip(row) {
            let cell = cell.trim_matches([' ', '"']);
            if !cell.is_empty() {
                *column = Some(column.unwrap_or(true) && is_value(cell));
            }
        }
    }
    columns.into_iter().map(Option::unwrap_or_default).collect()
}

fn is_value(cell: &str) -> bool {
    let unsigned = cell.strip_prefix(['-', '+']).unwrap_or(cell);
    let is_number = unsigned.starts_with(|first: char| first.is_ascii_digit())
        && unsigned.ends_with(|last: char| last.is_ascii_digit() || matches!(last, '%' | 'Z'))
        && cell.bytes().all(|byte| byte.is_ascii_digit() || VALUE_MARKS.contains(&byte));
    is_number || matches!(cell, "true" | "false")
}

/// The rows of a text, each with its cells as they are written: with spaces and quotes. Blank lines are no rows.
struct Rows<'a> {
    rest: &'a str,
    delimiter: u8,
}

impl<'a> Rows<'a> {
    fn new(text: &'a str, delimiter: u8) -> Self {
        Self { rest: text, delimiter }
    }

    fn row(&mut self) -> Vec<&'a str> {
        let mut row = Vec::new();
        loop {
            let (cell, after) = self.rest.split_at(cell_length(self.rest.as_bytes(), self.delimiter));
            self.rest = after.get(1..).unwrap_or_default();
            let is_last = after.is_empty() || after.starts_with('\n');
            row.push(if is_last { cell.strip_suffix('\r').unwrap_or(cell) } else { cell });
            if is_last {
                return row;
            }
        }
    }
}

impl<'a> Iterator for Rows<'a> {
    type Item = Vec<&'a str>;

    fn next(&mut self) -> Option<Vec<&'a str>> {
        let blank = self.rest.bytes().take_while(|byte| matches!(byte, b' ' | b'\r' | b'\n')).count();
        let (before, _) = self.rest.split_at(blank);
        let lines = if blank == self.rest.len() { blank } else { before.rfind('\n').map_or(0, |end| end + 1) };
        self.rest = self.rest.get(lines..).unwrap_or_default();
        (!self.rest.is_empty()).then(|| self.row())
    }
}

/// Bytes of the cell at the beginning of a text.
fn cell_length(text: &[u8], delimiter: u8) -> usize {
    let spaces = text.iter().take_while(|&&byte| byte == b' ').count();
    let rest = text.get(spaces..).unwrap_or_default();
    let quoted = spaces + quoted_length(rest);
    let behind = text.get(quoted..).unwrap_or_default();
    memchr2(delimiter, b'\n', behind).map_or(text.len(), |length| quoted + length)
}

/// Bytes of the quoted text at the beginning, all when it does not end; 0 without a quote.
fn quoted_length(text: &[u8]) -> usize {
    if text.first() != Some(&b'"') {
        return 0;
    }
    let mut at = 1;
    while let Some(length) = text.get(at..).and_then(|rest| memchr(b'"', rest)) {
        at += length + 1;
        if text.get(at) != Some(&b'"') {
            return at;
        }
        at += 1;
    }
    text.len()
}
