//! A table whose cells stand below their names: `kubectl get`, `docker ps`, sqlite3's column mode.
//!
//! The names are apart by two spaces or more, or underlined with dashes. Cells are trimmed.

use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads a table line by line.
#[derive(Debug)]
pub(crate) struct Columns {
    table: Table,
    place: Place,
    /// The header, until the second line is known.
    header: String,
    /// Where columns begin, in characters.
    starts: Vec<usize>,
    /// Spaces before a column at least.
    gap: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    /// After the header.
    Second,
    Rows,
    After,
}

impl Default for Columns {
    fn default() -> Self {
        Self { table: Table::new(true), place: Place::Before, header: String::new(), starts: Vec::new(), gap: 2 }
    }
}

impl Columns {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        match self.place {
            Place::Before => {
                self.header.push_str(line);
                self.place = Place::Second;
            }
            Place::Second => {
                self.place = Place::Rows;
                let is_rule = is_underline(line);
                self.gap = if is_rule { 1 } else { 2 };
                self.starts = starts(if is_rule { line } else { &self.header }, self.gap);
                let header = std::mem::take(&mut self.header);
                self.row(&header, records)?;
                if !is_rule {
                    return self.row(line, records);
                }
            }
            Place::Rows if line.trim().is_empty() => self.place = Place::After,
            Place::Rows => return self.row(line, records),
            Place::After if line.trim().is_empty() => {}
            Place::After => return Err(Fault::Second),
        }
        Ok(())
    }

    fn row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let mut characters = line.char_indices().map(|(at, _)| at);
        let mut from = 0;
        let mut position = 0;
        for start in self.starts.iter().skip(1) {
            let at = characters.nth(start - position).unwrap_or(line.len());
            position = start + 1;
            cell(&mut self.table, &line[from..at], at == line.len(), self.gap, records)?;
            from = at;
        }
        cell(&mut self.table, &line[from..], true, self.gap, records)?;
        self.table.end_row(records)
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// Takes a cell: it begins with its column, and the gap ends it unless it is the last one of its line.
fn cell(table: &mut Table, cell: &str, is_last: bool, gap: usize, records: &mut Records) -> Result<(), Fault> {
    let trimmed = cell.trim_end_matches(' ');
    if trimmed.starts_with(' ') || !(is_last || cell.len() - trimmed.len() >= gap) {
        return Err(Fault::Misaligned);
    }
    table.cell(trimmed.as_bytes(), records)
}

/// Whether a line underlines the names of columns.
pub(crate) fn is_underline(line: &str) -> bool {
    line.starts_with('-') && line.bytes().all(|byte| matches!(byte, b'-' | b' '))
}

/// Where words begin that are apart by `gap` spaces or more, in characters.
pub(crate) fn starts(line: &str, gap: usize) -> Vec<usize> {
    let (mut starts, mut spaces) = (Vec::new(), gap);
    for (at, character) in line.chars().enumerate() {
        if character == ' ' {
            spaces += 1;
            continue;
        }
        if spaces >= gap {
            starts.push(at);
        }
        spaces = 0;
    }
    starts
}
