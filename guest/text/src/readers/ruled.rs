//! A table whose rule marks the boundaries of its columns: psql's `---+---`, MySQL's `+---+---+`.
//!
//! Cells are trimmed: a table cannot show white space at their ends.

use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads a table line by line.
#[derive(Debug)]
pub(crate) struct Ruled {
    table: Table,
    place: Place,
    /// The line before: the header, if psql's rule follows.
    previous: String,
    /// Where a row has `|`, in characters.
    boundaries: Vec<usize>,
    /// Characters of the rule.
    width: usize,
    /// Whether rows begin and end with a boundary.
    is_box: bool,
    /// Rows since the last rule.
    rows: u64,
    /// Rules behind rows.
    groups: u64,
    /// Whether several rows stand between two rules. In a grid they would be lines of one row.
    has_long_group: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    /// After the first rule of a box.
    Header,
    Rows,
    After,
}

impl Default for Ruled {
    fn default() -> Self {
        Self {
            table: Table::new(true),
            place: Place::Before,
            previous: String::new(),
            boundaries: Vec::new(),
            width: 0,
            is_box: false,
            rows: 0,
            groups: 0,
            has_long_group: false,
        }
    }
}

impl Ruled {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let is_rule = is_rule(line);
        match self.place {
            Place::Before if is_rule => return self.begin(line, records),
            Place::Header if !is_rule => return self.row(line, records),
            Place::Header => {
                self.place = Place::Rows;
                self.rows = 0;
                return Ok(());
            }
            Place::Rows if is_rule && self.is_box => {
                self.rule();
                return Ok(());
            }
            Place::Rows if line.contains('|') => return self.next_row(line, records),
            Place::Rows if is_rule => return Err(Fault::Second),
            Place::Rows => self.place = Place::After,
            Place::After if is_rule => return Err(Fault::Second),
            Place::Before | Place::After => {}
        }
        records.report.outside += line.len() as u64 + 1;
        self.previous.clear();
        self.previous.push_str(line);
        Ok(())
    }

    /// Begins the table at its first rule.
    fn begin(&mut self, rule: &str, records: &mut Records) -> Result<(), Fault> {
        self.boundaries = rule.bytes().enumerate().filter(|(_, byte)| *byte == b'+').map(|(at, _)| at).collect();
        self.width = rule.len();
        self.is_box = rule.starts_with('+');
        if self.is_box {
            self.place = Place::Header;
            return Ok(());
        }
        self.place = Place::Rows;
        let header = std::mem::take(&mut self.previous);
        self.row(&header, records)?;
        records.report.outside -= header.len() as u64 + 1;
        Ok(())
    }

    /// Handles a rule after the header of a box: its end, or the end of a row of a grid.
    fn rule(&mut self) {
        self.has_long_group |= self.rows > 1;
        self.groups += 1;
        self.rows = 0;
    }

    fn next_row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        self.rows += 1;
        let is_line_of_row = self.groups > 0 && (self.has_long_group || self.rows > 1);
        if is_line_of_row { Err(Fault::Misaligned) } else { self.row(line, records) }
    }

    fn row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let at = self.split(line).ok_or(Fault::Misaligned)?;
        let mut from = 0;
        for end in at.iter().copied().chain([line.len()]) {
            let cell = &line[from..end];
            // psql marks a line break in a cell with a plus in its last column.
            let is_cut =
                !self.is_box && cell.ends_with('+') && (end < line.len() || line.chars().count() >= self.width);
            if is_cut {
                return Err(Fault::Misaligned);
            }
            // A box has nothing before the first boundary and after the last.
            let is_edge = self.is_box && (from == 0 || end == line.len());
            match cell.trim() {
                "" if is_edge => {}
                _ if is_edge => return Err(Fault::Misaligned),
                cell => self.table.cell(cell.as_bytes(), false, records)?,
            }
            from = (end + 1).min(line.len());
        }
        self.table.end_row(records)
    }

    /// Where the boundaries of a row are, in bytes. Wide characters move them; then every `|` has to be one.
    fn split(&self, line: &str) -> Option<Vec<usize>> {
        let pipes = || line.char_indices().enumerate().filter(|(_, (_, character))| *character == '|');
        let aligned: Vec<_> =
            pipes().filter(|(at, _)| self.boundaries.binary_search(at).is_ok()).map(|(_, (at, _))| at).collect();
        if aligned.len() == self.boundaries.len() {
            return Some(aligned);
        }
        let all: Vec<_> = pipes().map(|(_, (at, _))| at).collect();
        (!line.is_ascii() && all.len() == self.boundaries.len()).then_some(all)
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// Whether a line is a rule with at least one boundary.
fn is_rule(line: &str) -> bool {
    line.contains('+') && line.contains(['-', '=']) && line.bytes().all(|byte| matches!(byte, b'-' | b'+' | b'='))
}
