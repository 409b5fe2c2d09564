//! What a reader gives: lines, and a report.

use super::rule::Rule;

/// The lines that were not written yet, and the report so far.
#[derive(Debug, Default)]
pub(crate) struct Records {
    pub(crate) lines: Vec<u8>,
    pub(crate) report: Report,
}

impl Records {
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
