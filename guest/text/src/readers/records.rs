//! What a reader gives: lines, and a report.

use std::ops::Range;

use lro_jsonl::{DISTINCT_BYTES_MAX, Profile};

use super::append::CHUNK;
use super::error::{Error, Fault, ReadError};
use super::rule::Rule;
use super::string::quote;
use crate::recognize::without_mark;

/// Bytes of lines that are gathered before they are given: 256 KiB, as much as is written to a file at once.
pub(crate) const BLOCK_BYTES: usize = 256 * 1024;

/// Bytes of text that are read between two looks at the gathered lines: 4 KiB. A name of
/// [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) before every cell of one byte makes 2 MiB of them.
const PIECE_BYTES: usize = 4 * 1024;

/// The lines that were not written yet, and the report so far.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) lines: Vec<u8>,
    pub(crate) report: Report,
    /// Of the values in columns, if it is wanted.
    pub(crate) profile: Option<Profile>,
    /// Where the string of a column begins in `lines` whose end is not written yet; nothing once its beginning was given, after
    /// which it is too long for the profile to count.
    pub(crate) open: Option<usize>,
    /// Whether some of the text was read.
    has_begun: bool,
}

impl Records {
    /// Reads a slice of the text in pieces, without the byte order mark that may begin it, and gives the lines that
    /// gather.
    pub(crate) fn read<E>(
        &mut self,
        text: &str,
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
        mut read: impl FnMut(&str, &mut Self) -> Result<(), Fault>,
    ) -> Result<(), Error<E>> {
        let mut rest = text;
        if !self.has_begun && !rest.is_empty() {
            self.has_begun = true;
            rest = without_mark(rest);
        }
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(PIECE_BYTES));
            rest = after;
            read(piece, self).map_err(|fault| self.error(fault))?;
            self.give(BLOCK_BYTES, out)?;
        }
        Ok(())
    }

    /// Gives the gathered lines once they have so many bytes.
    pub(crate) fn give<E>(
        &mut self,
        bytes: usize,
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Error<E>> {
        if self.lines.len() >= bytes {
            let open = self.open.filter(|start| self.lines.len() - start <= DISTINCT_BYTES_MAX);
            let end = open.unwrap_or(self.lines.len());
            out(&self.lines[..end]).map_err(Error::Output)?;
            self.lines.drain(..end);
            self.open = open.map(|_| 0);
        }
        Ok(())
    }

    /// Profiles the number or literal of a column, which stands in the text as in the lines.
    #[inline(always)]
    pub(crate) fn scalar(&mut self, column: usize, name: &[u8], text: &[u8], cell: Range<usize>) {
        if let Some(profile) = &mut self.profile {
            profile.add_value(column, name, text, cell);
        }
    }

    /// Profiles the value of a column, which stands at the end of the lines.
    #[inline(always)]
    pub(crate) fn value(&mut self, column: usize, name: &[u8], start: usize) {
        let Some(profile) = &mut self.profile else { return };
        let end = self.lines.len();
        self.lines.extend_from_slice(&[0; CHUNK]);
        profile.add_value(column, name, &self.lines, start..end);
        self.lines.truncate(end);
    }

    /// Profiles the open string of a column, which ends here.
    pub(crate) fn end_open(&mut self, column: usize, name: &[u8]) {
        match (self.open.take(), &mut self.profile) {
            (Some(start), _) => self.value(column, name, start),
            (None, Some(profile)) => profile.add_long_string(column, name),
            (None, None) => {}
        }
    }

    /// Ends the array of so many additional cells, which stands behind so many columns.
    pub(crate) fn end_extra(&mut self, columns: usize, cells: usize) {
        self.lines.push(b']');
        if let Some(profile) = &mut self.profile {
            let mut name = Vec::new();
            quote(self.report.extra.as_bytes(), &mut name);
            profile.add_strings(columns, &name, cells as u64);
        }
    }

    /// The rest of a slice behind so many bytes, which are outside the records.
    pub(crate) fn skip<'t>(&mut self, bytes: &mut u64, text: &'t str) -> &'t str {
        let skipped = text.len().min(usize::try_from(*bytes).unwrap_or(usize::MAX));
        *bytes -= skipped as u64;
        self.report.outside += skipped as u64;
        &text[skipped..]
    }

    /// The text broke its form after the records so far.
    pub(crate) fn error(&self, fault: Fault) -> ReadError {
        ReadError { records: self.report.records, fault }
    }

    /// Ends a record.
    #[inline(always)]
    pub(crate) fn end(&mut self) {
        self.lines.push(b'\n');
        self.report.records += 1;
        if let Some(profile) = &mut self.profile {
            profile.end_record();
        }
    }
}

/// What a reader found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Lines of output.
    pub records: u64,
    /// The columns of a table, in order; empty for other forms.
    pub columns: Vec<Column>,
    /// Rows with more or fewer cells than columns. Additional cells stand in an array under [`Report::extra`]; the keys
    /// of missing ones are absent.
    pub ragged: u64,
    /// The key of additional cells: `extra`, or `extra_2` and so on when a column has that name.
    pub extra: String,
    /// Bytes of text around JSON, tables and elements: sentences, headings, fences, footers, other elements.
    pub outside: u64,
    /// Lines of [`Form::JsonLines`](crate::Form::JsonLines) with content that is not a JSON object or array.
    pub bad_lines: u64,
    /// Number of the first of them, from 1.
    pub first_bad_line: Option<u64>,
}

/// A column of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The key of its values. An empty name becomes `column_3` after its position from 1, the second `a` becomes `a_2`.
    pub name: String,
    /// What became of its cells.
    pub rule: Rule,
    /// Cells that are not empty and do not fit the rule: they stayed strings.
    pub exceptions: u64,
}
