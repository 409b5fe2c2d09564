//! Delimited rows, with what may stand around their cells.

use super::delimited::Delimited;
use super::error::Fault;
use super::records::Records;
use super::spaced::Spaced;
use crate::Blanks;

/// Reads delimited rows, and leaves out what is not part of them.
#[derive(Debug)]
pub(crate) struct Cells {
    spaced: Option<Spaced>,
    rows: Delimited,
}

impl Cells {
    pub(crate) fn new(delimiter: u8, header: bool, blanks: Blanks) -> Self {
        let spaced = (blanks != Blanks::default()).then(|| Spaced::new(delimiter, blanks));
        Self { spaced, rows: Delimited::new(delimiter, header) }
    }

    pub(crate) fn push(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let rows = self.spaced.as_mut().map_or(text, |spaced| spaced.without_blanks(text));
        self.rows.push(rows, records)
    }

    pub(crate) fn finish(self, records: &mut Records) -> Result<(), Fault> {
        self.rows.finish(records)
    }

    /// Decides the columns from what has been read.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.rows.settle(records)
    }
}
