//! Blocks of lines that each name a value, the same in every block: sqlite3's `-line`, psql's expanded display, MySQL's
//! `\G`, and `key: value` blocks.
//!
//! A value ends with its line. When one goes on in the next line, that line is no pair, or one that other blocks do not
//! have: the text is refused.

use super::SAMPLE_BYTES_MAX;
use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads blocks line by line.
#[derive(Debug)]
pub(crate) struct Blocks {
    /// Between a key and its value.
    delimiter: char,
    table: Table,
    /// The keys of a block.
    keys: Vec<String>,
    /// The values of the first block, until it has ended.
    first: Vec<String>,
    /// Bytes of the first block.
    size: usize,
    /// Pairs of the current block.
    pairs: usize,
    is_first: bool,
    /// Whether MySQL's last line has been read.
    has_ended: bool,
}

impl Blocks {
    pub(crate) fn new(delimiter: u8) -> Self {
        Self {
            delimiter: char::from(delimiter),
            table: Table::new(true),
            keys: Vec::new(),
            first: Vec::new(),
            size: 0,
            pairs: 0,
            is_first: true,
            has_ended: false,
        }
    }

    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        if line.trim().is_empty() || is_heading(line, self.delimiter) {
            return self.end_block(records);
        }
        if self.delimiter == ':' && is_count(line) {
            self.end_block(records)?;
            self.has_ended = true;
            records.report.outside += line.len() as u64 + 1;
            return Ok(());
        }
        let (key, value) = pair(line, self.delimiter).filter(|_| !self.has_ended).ok_or(Fault::Misaligned)?;
        if self.is_first {
            self.size += line.len();
            if self.size > SAMPLE_BYTES_MAX {
                return Err(Fault::FirstRow);
            }
            self.keys.push(key.to_owned());
            self.first.push(value.to_owned());
        } else if self.keys.get(self.pairs).is_some_and(|known| known == key) {
            self.table.cell(value.as_bytes(), records)?;
        } else {
            return Err(Fault::Misaligned);
        }
        self.pairs += 1;
        Ok(())
    }

    fn end_block(&mut self, records: &mut Records) -> Result<(), Fault> {
        match self.pairs {
            0 => return Ok(()),
            _ if self.is_first => {
                self.keys.iter().try_for_each(|key| self.table.cell(key.as_bytes(), records))?;
                self.table.end_row(records)?;
                let values = std::mem::take(&mut self.first);
                values.iter().try_for_each(|value| self.table.cell(value.as_bytes(), records))?;
                self.is_first = false;
            }
            pairs if pairs < self.keys.len() => return Err(Fault::Misaligned),
            _ => {}
        }
        self.pairs = 0;
        self.table.end_row(records)
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.end_block(records)?;
        self.settle(records)
    }

    /// Decides the columns from the blocks that have ended.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// Whether a line stands above a block: psql's `-[ RECORD 1 ]---+---`, MySQL's `**** 1. row ****`.
fn is_heading(line: &str, delimiter: char) -> bool {
    match delimiter {
        '|' => is_record_heading(line),
        ':' => is_row_heading(line),
        _ => false,
    }
}

/// Whether a line is psql's `-[ RECORD 1 ]---+---`.
pub(crate) fn is_record_heading(line: &str) -> bool {
    let Some((number, rest)) = line.strip_prefix("-[ RECORD ").and_then(|rest| rest.split_once(" ]")) else {
        return false;
    };
    is_digits(number) && rest.trim_end().bytes().all(|byte| matches!(byte, b'-' | b'+'))
}

/// Whether a line is MySQL's `**** 1. row ****`.
pub(crate) fn is_row_heading(line: &str) -> bool {
    let Some((before, after)) = line.trim_end().split_once(". row ") else { return false };
    let number = before.trim_start_matches('*').strip_prefix(' ').unwrap_or_default();
    before.starts_with('*') && is_digits(number) && !after.is_empty() && after.bytes().all(|byte| byte == b'*')
}

/// Whether a line is MySQL's `3 rows in set (0.00 sec)`.
fn is_count(line: &str) -> bool {
    let Some((number, rest)) = line.split_once(' ') else { return false };
    is_digits(number) && (rest.starts_with("row in set") || rest.starts_with("rows in set"))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The key and the value of a line. Values behind a colon are often padded, so they are trimmed; others are as written
/// behind one space.
fn pair(line: &str, delimiter: char) -> Option<(&str, &str)> {
    let is_delimiter = |at: &usize| {
        let (before, after) = (&line[..*at], &line[at + delimiter.len_utf8()..]);
        let is_apart = after.is_empty() || after.starts_with([' ', '\t']);
        is_apart && (delimiter == ':' || before.ends_with(' '))
    };
    let at = line.match_indices(delimiter).map(|(at, _)| at).find(is_delimiter)?;
    let (key, value) = (line[..at].trim(), &line[at + delimiter.len_utf8()..]);
    let value = if delimiter == ':' { value.trim() } else { value.strip_prefix(' ').unwrap_or(value) };
    (!key.is_empty()).then_some((key, value))
}
