//! What a reader gives: lines, and a report.

use super::error::{Error, Fault, ReadError};
use super::rule::Rule;

/// Bytes of lines that are gathered before they are given: 64 KiB.
pub(crate) const BLOCK_BYTES: usize = 64 * 1024;

/// Bytes of text that are read between two looks at the gathered lines: 4 KiB. A name of
/// [`NAME_BYTES_MAX`](super::NAME_BYTES_MAX) before every cell of one byte makes 2 MiB of them.
const PIECE_BYTES: usize = 4 * 1024;

/// The lines that were not written yet, and the report so far.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) lines: Vec<u8>,
    pub(crate) report: Report,
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
            rest = rest.strip_prefix('\u{feff}').unwrap_or(rest);
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
            out(&self.lines).map_err(Error::Output)?;
            self.lines.clear();
        }
        Ok(())
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
