//! From cells to JSON objects: the names and the rules of the columns, then one line a row.

use std::collections::HashSet;
use std::ops::Range;

use super::append::{Phrase, append};
use super::error::Fault;
use super::names::{unique, unused};
use super::records::{Column, Records};
use super::rule::{NUMBER_BYTES_MAX, Rule, is_null};
use super::sample::Sample;
use super::string::{escape, quote};

/// Bytes of the first rows from which the columns are decided, a separator for each cell included: 64 KiB.
pub const SAMPLE_BYTES_MAX: usize = 64 * 1024;

/// Bytes of names that the records of the sample may repeat: 1 MiB. They are written all at once.
const SAMPLE_NAMES_BYTES_MAX: usize = 1024 * 1024;

/// Most columns of a table: 16,384, as many as a spreadsheet has.
pub const COLUMNS_MAX: usize = 16_384;

/// Takes cells and rows, and writes records.
#[derive(Debug)]
pub(crate) struct Table {
    header: bool,
    /// Whether the header may be the letters of a spreadsheet.
    may_be_lettered: bool,
    /// The first rows, until the columns are decided.
    sample: Option<Sample>,
    keys: Vec<Key>,
    /// Position of the current cell in its row.
    index: usize,
    cell: Cell,
    /// The beginning of a cell that may become a number.
    pending: Vec<u8>,
}

/// What was written of the current cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cell {
    Nothing,
    /// Nothing: its beginning is pending.
    Pending,
    /// The beginning of a string.
    String,
}

/// What a column writes.
#[derive(Debug)]
struct Key {
    /// The text between two values, up to the value: `,"name":`, and for strings their quote.
    before: Phrase,
    rule: Rule,
    exceptions: u64,
}

impl Table {
    /// A table whose first row gives the names if it has a header.
    pub(crate) fn new(header: bool) -> Self {
        let sample = Some(Sample::default());
        Self {
            header,
            may_be_lettered: false,
            sample,
            keys: Vec::new(),
            index: 0,
            cell: Cell::Nothing,
            pending: Vec::new(),
        }
    }

    /// A table of a document, which may be a sheet: its header may be letters above the row with the names.
    pub(crate) fn of_document(header: bool) -> Self {
        Self { may_be_lettered: true, ..Self::new(header) }
    }

    /// Takes a whole cell.
    pub(crate) fn cell(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        self.part(text, 0..text.len(), records)?;
        self.end_cell(records);
        Ok(())
    }

    /// Takes a whole cell in which nothing needs an escape, a range of a text.
    #[inline(always)]
    pub(crate) fn clean_cell(&mut self, text: &[u8], cell: Range<usize>, records: &mut Records) -> Result<(), Fault> {
        if self.sample.is_some() || self.cell != Cell::Nothing || self.index >= self.keys.len() {
            self.part(text, cell, records)?;
            self.end_cell(records);
            return Ok(());
        }
        let key = &mut self.keys[self.index];
        let lines = &mut records.lines;
        key.before.append_to(lines);
        let mut start = lines.len();
        if key.rule != Rule::Text && key.rule.fits(text, cell.clone()) {
            append(lines, text, cell.clone());
            records.scalar(self.index, key.name(), text, cell);
        } else {
            if key.rule == Rule::Text {
                start -= 1;
                append(lines, text, cell);
                lines.push(b'"');
            } else {
                key.typed(text, cell, lines);
            }
            records.value(self.index, key.name(), start);
        }
        self.index += 1;
        Ok(())
    }

    /// Takes a part of a cell in which nothing needs an escape, a range of a text, and the quote behind it.
    #[inline(always)]
    pub(crate) fn part_and_quote(
        &mut self,
        text: &[u8],
        part: Range<usize>,
        records: &mut Records,
    ) -> Result<(), Fault> {
        let is_string = || self.keys.get(self.index).is_none_or(|key| key.rule == Rule::Text);
        if self.sample.is_some() || self.cell != Cell::String && !is_string() {
            return self.part(text, part.start..part.end + 1, records);
        }
        self.begin_string(records);
        append(&mut records.lines, text, part);
        records.lines.extend_from_slice(b"\\\"");
        Ok(())
    }

    /// Takes a part of a cell, a range of a text.
    pub(crate) fn part(&mut self, text: &[u8], part: Range<usize>, records: &mut Records) -> Result<(), Fault> {
        if let Some(sample) = &mut self.sample {
            sample.bytes.extend_from_slice(&text[part]);
            if sample.size() > SAMPLE_BYTES_MAX {
                self.decide(records)?;
            }
            return Ok(());
        }
        self.write_part(text, part, records);
        Ok(())
    }

    /// Ends a cell.
    pub(crate) fn end_cell(&mut self, records: &mut Records) {
        match &mut self.sample {
            Some(sample) => sample.cells.push(sample.bytes.len()),
            None => self.write_end_cell(records),
        }
    }

    /// Ends a row, which has at least one cell.
    #[inline(always)]
    pub(crate) fn end_row(&mut self, records: &mut Records) -> Result<(), Fault> {
        if self.sample.is_none() {
            self.write_end_row(records);
            return Ok(());
        }
        self.sample_end_row(records)
    }

    fn sample_end_row(&mut self, records: &mut Records) -> Result<(), Fault> {
        let Some(sample) = &mut self.sample else { return Ok(()) };
        sample.rows.push(sample.cells.len());
        let names = sample.row(0).last().and_then(|last| sample.cells.get(last)).copied().unwrap_or_default();
        if sample.rows.len() * names > SAMPLE_NAMES_BYTES_MAX { self.decide(records) } else { Ok(()) }
    }

    /// Ends the table and reports its columns.
    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        if self.sample.as_ref().is_some_and(|sample| !sample.rows.is_empty()) {
            self.decide(records)?;
        }
        for (column, key) in records.report.columns.iter_mut().zip(&self.keys) {
            column.exceptions = key.exceptions;
        }
        Ok(())
    }

    /// Decides the columns from the sample and writes its rows.
    fn decide(&mut self, records: &mut Records) -> Result<(), Fault> {
        let Some(sample) = self.sample.take() else { return Ok(()) };
        if sample.rows.is_empty() {
            return Err(Fault::FirstRow);
        }
        if sample.row(0).len() > COLUMNS_MAX {
            return Err(Fault::Columns);
        }
        let lettered = if self.may_be_lettered { below_letters(&sample) } else { None };
        let (names, first) = match lettered {
            Some(names) => (names, 2),
            None if self.header => (sample.values(0), 1),
            None => (vec![[].as_slice(); sample.row(0).len()], 0),
        };
        let names = unique(names.into_iter())?;
        for (index, name) in names.into_iter().enumerate() {
            let rule = rule(&sample, first, index);
            self.keys.push(Key::new(index, &name, rule));
            records.report.columns.push(Column { name, rule, exceptions: 0 });
        }
        records.report.extra = unused("extra", &records.report.columns);
        for row in first..sample.rows.len() {
            for cell in sample.row(row) {
                self.write_cell(sample.cell(cell).unwrap_or_default(), records);
            }
            self.write_end_row(records);
        }
        let complete = sample.rows.last().copied().unwrap_or_default();
        for cell in complete..sample.cells.len() {
            self.write_cell(sample.cell(cell).unwrap_or_default(), records);
        }
        let open = sample.cells.last().copied().unwrap_or_default();
        if open < sample.bytes.len() {
            self.write_part(&sample.bytes, open..sample.bytes.len(), records);
        }
        Ok(())
    }

    fn write_cell(&mut self, text: &[u8], records: &mut Records) {
        self.write_part(text, 0..text.len(), records);
        self.write_end_cell(records);
    }

    fn write_part(&mut self, text: &[u8], part: Range<usize>, records: &mut Records) {
        let typed = self.keys.get(self.index).is_some_and(|key| key.rule != Rule::Text);
        if self.cell != Cell::String && typed && self.pending.len() + part.len() <= NUMBER_BYTES_MAX {
            self.pending.extend_from_slice(&text[part]);
            self.cell = Cell::Pending;
            return;
        }
        self.begin_string(records);
        escape(text, part, &mut records.lines);
    }

    /// Begins the string of the current cell, unless it was begun.
    fn begin_string(&mut self, records: &mut Records) {
        if self.cell == Cell::String {
            return;
        }
        let lines = &mut records.lines;
        let first_extra = self.keys.len();
        match self.keys.get_mut(self.index) {
            Some(key) => {
                key.before.append_to(lines);
                if key.rule != Rule::Text {
                    key.exceptions += 1;
                    lines.push(b'"');
                }
                records.open = Some(lines.len() - 1);
            }
            None if self.index == first_extra => {
                lines.push(b',');
                quote(records.report.extra.as_bytes(), lines);
                lines.extend_from_slice(b":[\"");
            }
            None => lines.extend_from_slice(b",\""),
        }
        escape(&self.pending, 0..self.pending.len(), &mut records.lines);
        self.pending.clear();
        self.cell = Cell::String;
    }

    fn write_end_cell(&mut self, records: &mut Records) {
        match self.keys.get_mut(self.index) {
            Some(key) if self.cell != Cell::String && key.rule != Rule::Text => {
                key.before.append_to(&mut records.lines);
                let start = records.lines.len();
                key.typed(&self.pending, 0..self.pending.len(), &mut records.lines);
                self.pending.clear();
                records.value(self.index, key.name(), start);
            }
            _ => {
                self.begin_string(records);
                records.lines.push(b'"');
                if let Some(key) = self.keys.get(self.index) {
                    records.end_open(self.index, key.name());
                }
            }
        }
        self.cell = Cell::Nothing;
        self.index += 1;
    }

    #[inline(always)]
    fn write_end_row(&mut self, records: &mut Records) {
        let columns = self.keys.len();
        records.report.ragged += u64::from(self.index != columns);
        if self.index > columns {
            records.end_extra(columns, self.index - columns);
        }
        records.lines.push(b'}');
        records.end();
        self.index = 0;
    }
}

/// The names of the columns below the letters of a spreadsheet. Numbers or booleans below texts show that they are names.
fn below_letters(sample: &Sample) -> Option<Vec<&[u8]>> {
    let (letters, names) = (sample.values(0), sample.values(1));
    // Numbers of rows stand below an empty corner.
    let corner = usize::from(letters.first().is_some_and(|corner| corner.trim_ascii().is_empty()));
    let (numbers, named) = (letters.get(corner..)?, names.get(corner..)?);
    let numbers: Vec<_> = numbers.iter().map(|letters| column_number(letters)).collect();
    let follows = |pair: &[Option<usize>]| pair[0].is_some_and(|number| Some(number + 1) == pair[1]);
    let is_name = |cell: &&[u8]| !is_null(cell) && Rule::of(std::iter::once(*cell)) == Rule::Text;
    let is_named = numbers.len() > 1
        && numbers.windows(2).all(follows)
        && names.len() == letters.len()
        && named.iter().all(is_name)
        && named.iter().collect::<HashSet<_>>().len() == named.len()
        && (corner..letters.len()).any(|column| rule(sample, 2, column) != Rule::Text);
    is_named.then(|| [&letters[..corner], named].concat())
}

/// The number of a column of a spreadsheet, from 1, by its letters: 28 for `AB`.
fn column_number(letters: &[u8]) -> Option<usize> {
    let is_column = matches!(letters.len(), 1..=3) && letters.iter().all(u8::is_ascii_uppercase);
    is_column.then(|| letters.iter().fold(0, |number, letter| number * 26 + usize::from(letter - b'A') + 1))
}

/// The rule of a column from this row of the sample on.
fn rule(sample: &Sample, first: usize, column: usize) -> Rule {
    Rule::of((first..sample.rows.len()).filter_map(|row| {
        let row = sample.row(row);
        sample.cell(row.start + column).filter(|_| column < row.len())
    }))
}

impl Key {
    fn new(index: usize, name: &str, rule: Rule) -> Self {
        let mut before = vec![if index == 0 { b'{' } else { b',' }];
        quote(name.as_bytes(), &mut before);
        before.extend_from_slice(if rule == Rule::Text { b":\"" } else { b":" });
        Self { before: Phrase::new(&before), rule, exceptions: 0 }
    }

    /// The name as a JSON string.
    #[inline(always)]
    fn name(&self) -> &[u8] {
        let before = self.before.text();
        &before[1..before.len() - if self.rule == Rule::Text { 2 } else { 1 }]
    }

    /// Writes the value of a cell, a range of a text, of a column that is not text.
    #[inline(always)]
    fn typed(&mut self, text: &[u8], cell: Range<usize>, lines: &mut Vec<u8>) {
        if self.rule.fits(text, cell.clone()) {
            append(lines, text, cell);
        } else if is_null(&text[cell.clone()]) {
            lines.extend_from_slice(b"null");
        } else {
            self.exceptions += 1;
            quote(&text[cell], lines);
        }
    }
}
