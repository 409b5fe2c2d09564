//! A table whose rule marks the boundaries of its columns: psql's `---+---`, MySQL's `+---+---+`, and `┌───┬───┐` in
//! lines of any kind, as sqlite3, DuckDB, Polars and Rich draw them.
//!
//! Cells are trimmed: a table cannot show white space at their ends.

use super::drawing::{Lines, boundaries, is_bottom, is_footer, is_rule, is_wrapping};
use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads a table line by line.
#[derive(Debug)]
pub(crate) struct Ruled {
    table: Table,
    place: Place,
    /// What the rules are drawn with.
    lines: Lines,
    /// The line before: the header, if psql's rule follows.
    previous: String,
    /// Where a row has a boundary, in characters.
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
    /// Whether the drawing is one whose printer wraps cells without a mark.
    may_wrap: bool,
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
            lines: Lines::Ascii,
            previous: String::new(),
            boundaries: Vec::new(),
            width: 0,
            is_box: false,
            rows: 0,
            groups: 0,
            has_long_group: false,
            may_wrap: false,
        }
    }
}

impl Ruled {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let is_rule = is_rule(line);
        match self.place {
            Place::Before if is_rule => return self.begin(line, records),
            Place::Header if !is_rule => return self.header(line, records),
            Place::Header => {
                self.place = Place::Rows;
                self.may_wrap = is_wrapping(line);
                self.rows = 0;
                return Ok(());
            }
            Place::Rows if is_rule && self.is_box && !is_footer(line) => return self.rule(),
            Place::Rows if !is_rule && line.contains(self.lines.boundary()) => return self.next_row(line, records),
            Place::Rows if is_rule && !self.is_box => return Err(Fault::Second),
            Place::Rows => self.place = Place::After,
            Place::After if is_rule && !is_bottom(line) => return Err(Fault::Second),
            Place::Before | Place::After => {}
        }
        records.report.outside += line.len() as u64 + 1;
        self.previous.clear();
        self.previous.push_str(line);
        Ok(())
    }

    /// Begins the table at its first rule.
    fn begin(&mut self, rule: &str, records: &mut Records) -> Result<(), Fault> {
        self.lines = Lines::of(rule);
        self.boundaries = boundaries(rule);
        self.width = rule.chars().count();
        self.is_box = self.boundaries.first() == Some(&0);
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

    /// Takes a line of the header of a box: the names, then the types of DuckDB and Polars, which are not records.
    fn header(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        self.rows += 1;
        if self.rows == 1 {
            return self.row(line, records);
        }
        let mut cells = line.split(self.lines.boundary()).map(str::trim).filter(|cell| !cell.is_empty());
        if self.lines == Lines::Drawn && cells.all(is_type) { Ok(()) } else { Err(Fault::Misaligned) }
    }

    /// Handles a rule after the header of a box: its end, or the end of a row of a grid.
    fn rule(&mut self) -> Result<(), Fault> {
        if self.groups > 0 && self.rows == 0 {
            return Err(Fault::Second);
        }
        self.has_long_group |= self.rows > 1;
        self.groups += 1;
        self.rows = 0;
        Ok(())
    }

    fn next_row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        self.rows += 1;
        let is_line_of_row = self.groups > 0 && (self.has_long_group || self.rows > 1);
        if is_line_of_row { Err(Fault::Misaligned) } else { self.row(line, records) }
    }

    fn row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let at = self.split(line).ok_or(Fault::Misaligned)?;
        let (mut from, mut cells, mut dots) = (0, 0, 0);
        for end in at.iter().copied().chain([line.len()]) {
            let cell = &line[from..end];
            // psql marks a line break in a cell with a plus in its last column.
            let is_cut =
                !self.is_box && cell.ends_with(['+', '↵']) && (end < line.len() || line.chars().count() >= self.width);
            if is_cut {
                return Err(Fault::Misaligned);
            }
            // A box has nothing before the first boundary and after the last.
            let is_edge = self.is_box && (from == 0 || end == line.len());
            match cell.trim() {
                "" if is_edge => {}
                _ if is_edge => return Err(Fault::Misaligned),
                // A cell that Rich wraps goes on below, where the others are empty.
                "" if self.may_wrap => return Err(Fault::Misaligned),
                cell => {
                    cells += 1;
                    dots += usize::from(matches!(cell, "·" | "…"));
                    self.table.cell(cell.as_bytes(), records)?;
                }
            }
            from = end + line[end..].chars().next().map_or(0, char::len_utf8);
        }
        // DuckDB and Polars put dots where they leave out rows, and in the header where they leave out columns.
        let is_header = self.place == Place::Header;
        if self.lines == Lines::Drawn && dots > 0 && (is_header || dots == cells) {
            return Err(Fault::Omitted);
        }
        self.table.end_row(records)
    }

    /// Where the boundaries of a row are, in bytes. Wide characters move them; then every `|` or its like has to be one.
    fn split(&self, line: &str) -> Option<Vec<usize>> {
        let boundary = self.lines.boundary();
        let pipes = || line.char_indices().enumerate().filter(|(_, (_, character))| boundary.contains(character));
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

/// Types below names, as DuckDB and Polars print them, without their parameters.
const TYPES: &str = "\
    --- array bigint binary bit blob bool boolean cat date datetime decimal double duration enum f32 f64 float \
    hugeint i128 i16 i32 i64 i8 int128 int16 int32 int64 int8 integer interval json list map null object \
    smallint str struct time timestamp timestamp_ms timestamp_ns timestamp_s tinyint u16 u32 u64 u8 uint128 \
    uint16 uint32 uint64 uint8 uuid varchar";

/// Whether a cell below a name is its type.
fn is_type(cell: &str) -> bool {
    let name = cell.split(['(', '[', ' ']).next().unwrap_or_default();
    TYPES.split(' ').any(|known| known == name)
}
