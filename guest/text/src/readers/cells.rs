//! Delimited rows, with what may stand before them and around their cells.

use super::delimited::Delimited;
use super::error::Fault;
use super::records::Records;
use super::separator::{Beginning, SeparatorLine};
use super::spaced::Spaced;
use crate::Blanks;

/// Reads delimited rows, and leaves out what is not part of them.
#[derive(Debug)]
pub(crate) struct Cells {
    /// Until it is clear what the text begins with.
    line: Option<SeparatorLine>,
    spaced: Option<Spaced>,
    rows: Delimited,
}

impl Cells {
    pub(crate) fn new(delimiter: u8, header: bool, blanks: Blanks) -> Self {
        let spaced = (blanks != Blanks::default()).then(|| Spaced::new(delimiter, blanks));
        Self { line: Some(SeparatorLine::new(delimiter)), spaced, rows: Delimited::new(delimiter, header) }
    }

    pub(crate) fn push(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let Some(line) = &mut self.line else { return self.rows(text, records) };
        let from = match line.read(text) {
            Beginning::Unclear => return Ok(()),
            Beginning::Line(end) => {
                records.report.outside += line.held.len() as u64;
                self.line = None;
                end
            }
            Beginning::Other(from) => {
                let held = std::mem::take(&mut line.held);
                self.line = None;
                self.rows(&held, records)?;
                from
            }
        };
        self.rows(text.get(from..).unwrap_or_default(), records)
    }

    pub(crate) fn finish(mut self, records: &mut Records) -> Result<(), Fault> {
        match self.line.take() {
            Some(line) if line.is_complete() => records.report.outside += line.held.len() as u64,
            Some(line) => self.rows(&line.held, records)?,
            None => {}
        }
        self.rows.finish(records)
    }

    /// Decides the columns from what has been read.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.rows.settle(records)
    }

    fn rows(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let rows = self.spaced.as_mut().map_or(text, |spaced| spaced.without_blanks(text));
        self.rows.push(rows, records)
    }
}
