//! Arrays of values below their names, with or without a document around them.

use lro_json::{Block, Scanner, unescaped_lossy};

use super::prefixes;
use crate::readers::NAME_BYTES_MAX;
use crate::readers::error::Fault;
use crate::readers::json::copy;
use crate::readers::records::Records;

/// Longest key of a member of the document, in bytes: each byte of a name of [`NAME_BYTES_MAX`] may be an escape of six.
const KEY_BYTES_MAX: usize = 6 * NAME_BYTES_MAX;

/// Reads rows token by token.
#[derive(Debug)]
pub(crate) struct Rows {
    scanner: Scanner,
    /// The keys that lead to the rows; none when the document is the rows.
    path: Vec<String>,
    /// Objects of the path that are open.
    entered: usize,
    /// Whether the first row names the columns.
    has_header: bool,
    /// What is written before the value of each column.
    prefixes: Vec<Vec<u8>>,
    /// Open containers.
    depth: usize,
    /// The key of a member of the document, as it stands.
    key: Vec<u8>,
    place: Place,
    /// What becomes of the bytes that are read.
    copies: Copies,
    /// Position of the current value in its row, and whether any of it has been read.
    index: usize,
    has_value: bool,
    /// Bytes of all previous pieces.
    offset: u64,
    /// Where the bytes outside the rows begin.
    outside: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the rows, in a member with another key.
    Before,
    /// Where the next object of the path begins.
    Entering,
    /// Where the rows begin.
    Due,
    /// In the first row, which has the names.
    Header,
    Rows,
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Copies {
    Nothing,
    Key,
    Value,
}

impl Rows {
    pub(crate) fn new(path: &[String], names: &[String], has_header: bool) -> Self {
        Self {
            scanner: Scanner::new(),
            path: path.to_vec(),
            entered: 0,
            has_header,
            prefixes: prefixes(names.iter().map(String::as_str)),
            depth: 0,
            key: Vec::new(),
            place: if path.is_empty() { Place::Due } else { Place::Entering },
            copies: Copies::Nothing,
            index: 0,
            has_value: false,
            offset: 0,
            outside: 0,
        }
    }

    pub(crate) fn push(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        self.scanner.begin(text).map_err(|error| Fault::Json(error.kind))?;
        let mut start = 0;
        while start < text.len() {
            let block = self.scanner.block(text, start).map_err(|error| Fault::Json(error.kind))?;
            self.block(text, &block, records)?;
            start += block.length;
        }
        self.scanner.end(text);
        self.offset += text.len() as u64;
        Ok(())
    }

    fn block(&mut self, text: &[u8], block: &Block, records: &mut Records) -> Result<(), Fault> {
        let values = block.string & !block.key | block.scalar;
        let mut tokens = block.open | block.close | block.comma | block.colon | block.key | values;
        let mut from = 0;
        while tokens != 0 {
            let bit = tokens & tokens.wrapping_neg();
            tokens ^= bit;
            let at = bit.trailing_zeros() as usize;
            self.copy(text, block, from..at, records)?;
            from = at;
            // Brackets and commas of a row are not part of its values.
            let is_skipped = match text[block.start + at] {
                bracket if block.open & bit != 0 => self.open(bracket, block.start + at, records)?,
                _ if block.close & bit != 0 => self.close(block.start + at, records)?,
                _ if block.comma & bit != 0 => self.comma(records)?,
                _ if block.colon & bit != 0 => {
                    self.colon()?;
                    false
                }
                _ if block.key & bit != 0 => {
                    if self.depth == self.entered && self.depth > 0 {
                        self.copies = Copies::Key;
                    }
                    false
                }
                _ => {
                    self.value()?;
                    false
                }
            };
            from += usize::from(is_skipped);
        }
        self.copy(text, block, from..block.length, records)
    }

    /// Copies the bytes of a block that are part of a key or a value.
    fn copy(
        &mut self,
        text: &[u8],
        block: &Block,
        range: std::ops::Range<usize>,
        records: &mut Records,
    ) -> Result<(), Fault> {
        if range.is_empty() || self.copies == Copies::Nothing {
            return Ok(());
        }
        let bytes = &text[block.start + range.start..block.start + range.end];
        let white = block.white >> range.start;
        if self.copies == Copies::Key {
            copy(bytes, white, &mut self.key);
            return if self.key.len() > KEY_BYTES_MAX { Err(Fault::Name) } else { Ok(()) };
        }
        let length = records.lines.len();
        copy(bytes, white, &mut records.lines);
        self.has_value |= records.lines.len() > length;
        Ok(())
    }

    /// Containers around a row.
    fn outer(&self) -> usize {
        1 + self.path.len()
    }

    fn in_row(&self) -> bool {
        self.place == Place::Rows && self.depth == self.outer() + 1
    }

    fn open(&mut self, bracket: u8, at: usize, records: &mut Records) -> Result<bool, Fault> {
        let is_row = self.depth == self.outer() && matches!(self.place, Place::Header | Place::Rows);
        let begins_rows = self.place == Place::Due;
        let wanted = if self.place == Place::Entering { b'{' } else { b'[' };
        if (is_row || begins_rows || self.place == Place::Entering) && bracket != wanted {
            return Err(Fault::Misaligned);
        }
        self.depth += 1;
        if self.place == Place::Entering {
            self.entered += 1;
            self.place = Place::Before;
        }
        if begins_rows {
            self.place = if self.has_header { Place::Header } else { Place::Rows };
            records.report.outside += self.offset + at as u64 - self.outside;
        }
        if is_row && self.place == Place::Rows {
            self.copies = Copies::Value;
            self.index = 0;
            self.begin_value(records)?;
        }
        Ok(is_row)
    }

    fn close(&mut self, at: usize, records: &mut Records) -> Result<bool, Fault> {
        let ends_row = self.in_row();
        if ends_row {
            if !self.has_value || self.index + 1 != self.prefixes.len() {
                return Err(Fault::Misaligned);
            }
            records.lines.push(b'}');
            records.end();
            self.copies = Copies::Nothing;
        }
        self.depth -= 1;
        if self.depth < self.entered {
            // The rows are in this object, or not there.
            self.entered -= 1;
            if self.place == Place::Before {
                return Err(Fault::Misaligned);
            }
        }
        match self.place {
            Place::Header if self.depth == self.outer() => self.place = Place::Rows,
            Place::Header | Place::Rows if self.depth + 1 == self.outer() => {
                self.place = Place::After;
                self.outside = self.offset + at as u64 + 1;
            }
            _ => {}
        }
        Ok(ends_row)
    }

    fn comma(&mut self, records: &mut Records) -> Result<bool, Fault> {
        if !self.in_row() {
            return Ok(false);
        }
        self.index += 1;
        self.begin_value(records)?;
        Ok(true)
    }

    fn begin_value(&mut self, records: &mut Records) -> Result<(), Fault> {
        records.lines.extend_from_slice(self.prefixes.get(self.index).ok_or(Fault::Misaligned)?);
        self.has_value = false;
        Ok(())
    }

    fn colon(&mut self) -> Result<(), Fault> {
        if self.copies != Copies::Key {
            return Ok(());
        }
        self.copies = Copies::Nothing;
        let key = std::mem::take(&mut self.key);
        let key = unescaped_lossy(key.get(1..key.len().saturating_sub(1)).unwrap_or_default());
        let next = self.path.get(self.entered.saturating_sub(1));
        let is_next = next.is_some_and(|next| next.as_bytes() == key);
        match self.place {
            Place::Before if is_next && self.entered < self.path.len() => self.place = Place::Entering,
            Place::Before if is_next => self.place = Place::Due,
            Place::After if is_next => return Err(Fault::Second),
            _ => {}
        }
        Ok(())
    }

    /// Handles a string, a number or a literal: the rows are none, and in them only rows stand.
    fn value(&self) -> Result<(), Fault> {
        let is_row = self.depth == self.outer() && matches!(self.place, Place::Header | Place::Rows);
        if is_row || matches!(self.place, Place::Due | Place::Entering) { Err(Fault::Misaligned) } else { Ok(()) }
    }

    pub(crate) fn finish(self, records: &mut Records) -> Result<(), Fault> {
        self.scanner.finish().map_err(|error| Fault::Json(error.kind))?;
        if self.place != Place::After {
            return Err(Fault::Misaligned);
        }
        records.report.outside += self.offset - self.outside;
        Ok(())
    }
}
