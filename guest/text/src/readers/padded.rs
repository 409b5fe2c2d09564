//! A table whose cells are words padded to stand below their names on either side: `df`, `ps aux`.
//!
//! The last cell may hold spaces, and so may its name.

use std::ops::Range;

use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads a table line by line.
#[derive(Debug)]
pub(crate) struct Padded {
    columns: usize,
    table: Table,
    /// Where the names stand, in characters; empty before the header.
    names: Vec<Range<usize>>,
    /// Whether an empty line has ended the table.
    has_ended: bool,
}

impl Padded {
    pub(crate) fn new(columns: usize) -> Self {
        Self { columns, table: Table::new(true), names: Vec::new(), has_ended: false }
    }

    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        if line.trim().is_empty() {
            self.has_ended = !self.names.is_empty();
            return Ok(());
        }
        if self.has_ended {
            return Err(Fault::Second);
        }
        let cells = cells(line, self.columns).ok_or(Fault::Misaligned)?;
        if self.names.is_empty() {
            self.names = cells.iter().map(|cell| cell.place.clone()).collect();
        } else if !cells.iter().enumerate().all(|(index, cell)| is_below(&self.names, index, &cell.place)) {
            return Err(Fault::Misaligned);
        }
        cells.iter().try_for_each(|cell| self.table.cell(cell.text.as_bytes(), records))?;
        self.table.end_row(records)
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// A cell, and where it stands in its line, in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cell<'a> {
    pub(crate) text: &'a str,
    pub(crate) place: Range<usize>,
}

/// The words of a line, the last of so many columns with all that follows it; none when there are fewer.
pub(crate) fn cells(line: &str, columns: usize) -> Option<Vec<Cell<'_>>> {
    let mut cells = Vec::new();
    let (mut rest, mut at) = (line.trim_end(), 0);
    while !rest.is_empty() && cells.len() < columns {
        let word = rest.trim_start_matches(' ');
        at += rest.len() - word.len();
        let is_last = cells.len() + 1 == columns;
        let length = word.find(' ').filter(|_| !is_last).unwrap_or(word.len());
        let (text, after) = word.split_at(length);
        let end = at + text.chars().count();
        cells.push(Cell { text, place: at..end });
        (rest, at) = (after, end);
    }
    (cells.len() == columns && columns > 0).then_some(cells)
}

/// Whether a cell stands below its name, and below no other.
fn is_below(names: &[Range<usize>], index: usize, place: &Range<usize>) -> bool {
    let touches = |name: &Range<usize>| name.start < place.end && place.start < name.end;
    let is_other = |other: &Range<usize>| touches(other) && names.get(index) != Some(other);
    // A cell that reaches further touches a neighbor, too.
    let first = index.saturating_sub(1);
    let last = (index + 2).min(names.len());
    names.get(index).is_some_and(touches) && !names[first..last].iter().any(is_other)
}
