//! The rows of a table as the records of one file. Their reader made the lines of cells and profiled them, so they are written as
//! they come.

use lro_jsonl::{BLOCK_BYTES, Document, FileReport, Output, Profile, Shape, Stream, Target};

use crate::PolicyError;
use crate::records::Records;

/// A table that is written block by block.
pub(crate) struct Rows<'a, 'b> {
    records: &'a mut Records<'b>,
    bytes: u64,
}

impl<'a, 'b> Rows<'a, 'b> {
    pub(crate) fn new(records: &'a mut Records<'b>) -> Self {
        Self { records, bytes: 0 }
    }

    /// Adds lines, cut anywhere.
    pub(crate) fn push(&mut self, lines: &[u8]) -> Result<(), PolicyError> {
        if self.bytes == 0 {
            self.begin()?;
        }
        self.bytes += lines.len() as u64;
        lines.chunks(BLOCK_BYTES).try_for_each(|block| self.records.write(Stream::Current, block))
    }

    /// Ends the table.
    pub(crate) fn finish(mut self, records: u64, profile: Option<Profile>) -> Result<Document, PolicyError> {
        if self.bytes == 0 {
            self.begin()?;
        }
        self.records.end(Stream::Current, FileReport { records, bytes: self.bytes, profile })?;
        Ok(Document::default())
    }

    fn begin(&mut self) -> Result<(), PolicyError> {
        self.records.begin(Target::Section { index: 0, pointer: "", shape: Shape::Elements })
    }
}
