//! CSV, TSV and their relatives, 64 bytes at a time.
//!
//! The grammar is that of RFC 4180 with any delimiter, and line ends of one or two bytes. Empty lines are skipped. A
//! quote inside a cell that does not begin with one stands for itself.

use super::error::Fault;
use super::masks::{BLOCK, Block};
use super::records::Records;
use super::table::Table;

/// Reads delimited rows.
#[derive(Debug)]
pub(crate) struct Delimited {
    delimiter: u8,
    table: Table,
    place: Place,
    /// Whether the row has a cell before this one.
    in_row: bool,
    /// Index in the piece of the first byte of the cell that the table does not have.
    from: usize,
    /// Whether the bytes from there to the block need no escape.
    clean: bool,
    /// Whether the table has only spaces of the cell, or nothing.
    blank: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// Before the first byte of a cell.
    Start,
    /// In a cell without quotes.
    Plain,
    /// After the carriage return of a line end.
    Return,
    /// In quotes.
    Quoted,
    /// At the end of a piece, after a quote in quotes: the closing one, or the first of two.
    Quote,
    /// After the closing quote: the content ends at `end`, and `stop` has to end the cell.
    Closed { end: usize, stop: usize },
}

impl Delimited {
    pub(crate) fn new(delimiter: u8, header: bool) -> Self {
        let table = Table::new(header);
        Self { delimiter, table, place: Place::Start, in_row: false, from: 0, clean: true, blank: true }
    }

    pub(crate) fn push(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let Some(&first) = text.first() else { return Ok(()) };
        self.from = 0;
        self.clean = true;
        let mut next = 0;
        match (self.place, first) {
            (Place::Quote, b'"') => {
                self.table.part(b"\"", 0..1, records)?;
                self.place = Place::Quoted;
                (self.from, next) = (1, 1);
            }
            (Place::Quote | Place::Closed { .. }, _) => self.place = Place::Closed { end: 0, stop: 0 },
            (Place::Return, b'\n') | (Place::Start | Place::Plain | Place::Quoted, _) => {}
            (Place::Return, _) => return Err(Fault::CarriageReturn),
        }
        let mut start = next;
        while start < text.len() {
            self.block(text, start, &mut next, records)?;
            start += BLOCK;
        }
        self.end_piece(text, records)
    }

    /// Reads the tokens of a block, from `next` on.
    #[inline(always)]
    fn block(&mut self, text: &[u8], start: usize, next: &mut usize, records: &mut Records) -> Result<(), Fault> {
        let block = Block::new(&text[start..]);
        let quotes = block.equal(b'"');
        let special = block.at_most(0x1F) | block.equal(b'\\') | quotes;
        let mut tokens = block.equal(self.delimiter) | block.equal(b'\n') | block.equal(b'\r') | quotes;
        while tokens != 0 {
            let bit = tokens.trailing_zeros();
            tokens &= tokens - 1;
            let at = start + bit as usize;
            if self.place == Place::Quoted {
                // Only quotes count in quotes.
                let quote = (quotes & u64::MAX << bit).trailing_zeros();
                tokens &= u64::MAX.checked_shl(quote + 1).unwrap_or_default();
                if quote as usize == BLOCK {
                    break;
                }
                let at = start + quote as usize;
                if at >= *next {
                    self.clean &= special & bits(self.from, at, start) == 0;
                    *next = self.quote_in_quotes(text, at, records)?;
                }
                continue;
            }
            if at < *next {
                continue;
            }
            let closed = matches!(self.place, Place::Closed { .. });
            let clean = self.clean && (closed || special & bits(self.from, at, start) == 0);
            match text[at] {
                b'"' => self.quote(text, at)?,
                b'\n' => self.end_row(text, at, clean, records)?,
                b'\r' => {
                    if self.in_row || self.place != Place::Start || self.from < at {
                        self.end_cell(text, at, clean, records)?;
                    }
                    if text.get(at + 1).is_some_and(|&byte| byte != b'\n') {
                        return Err(Fault::CarriageReturn);
                    }
                    self.place = Place::Return;
                }
                _ => self.end_cell(text, at, clean, records)?,
            }
        }
        if !matches!(self.place, Place::Closed { .. }) {
            self.clean &= special & bits(self.from, start + BLOCK, start) == 0;
        }
        Ok(())
    }

    /// Handles a quote outside quotes.
    fn quote(&mut self, text: &[u8], at: usize) -> Result<(), Fault> {
        match self.place {
            Place::Start if self.from == at => {
                self.place = Place::Quoted;
                self.from = at + 1;
                self.clean = true;
                Ok(())
            }
            Place::Closed { .. } => Err(Fault::AfterQuote),
            _ if self.blank && is_blank(&text[self.from..at]) => Err(Fault::LateQuote),
            _ => Ok(()),
        }
    }

    /// Handles a quote in quotes; returns where to go on.
    #[inline(always)]
    fn quote_in_quotes(&mut self, text: &[u8], at: usize, records: &mut Records) -> Result<usize, Fault> {
        match text.get(at + 1) {
            Some(b'"') => {
                if self.clean {
                    self.table.part_and_quote(text, self.from..at, records)?;
                } else {
                    self.table.part(text, self.from..at + 1, records)?;
                }
                self.from = at + 2;
                self.clean = true;
                Ok(at + 2)
            }
            Some(_) => {
                self.place = Place::Closed { end: at, stop: at + 1 };
                Ok(at + 1)
            }
            None => {
                self.table.part(text, self.from..at, records)?;
                self.place = Place::Quote;
                Ok(at + 1)
            }
        }
    }

    #[inline(always)]
    fn end_row(&mut self, text: &[u8], at: usize, clean: bool, records: &mut Records) -> Result<(), Fault> {
        let is_empty = !self.in_row && self.place == Place::Start && self.from == at;
        if self.place != Place::Return && !is_empty {
            self.end_cell(text, at, clean, records)?;
        }
        if self.in_row {
            self.table.end_row(records)?;
        }
        self.in_row = false;
        self.place = Place::Start;
        self.from = at + 1;
        self.clean = true;
        Ok(())
    }

    /// Ends the cell before the byte at this index.
    #[inline(always)]
    fn end_cell(&mut self, text: &[u8], at: usize, clean: bool, records: &mut Records) -> Result<(), Fault> {
        let end = match self.place {
            Place::Closed { stop, .. } if stop != at => return Err(Fault::AfterQuote),
            Place::Closed { end, .. } => end,
            _ => at,
        };
        if clean {
            self.table.clean_cell(text, self.from..end, records)?;
        } else {
            self.table.part(text, self.from..end, records)?;
            self.table.end_cell(records);
        }
        self.in_row = true;
        self.place = Place::Start;
        self.from = at + 1;
        self.clean = true;
        self.blank = true;
        Ok(())
    }

    /// Gives the table what it does not have of the last cell.
    fn end_piece(&mut self, text: &[u8], records: &mut Records) -> Result<(), Fault> {
        let end = match self.place {
            Place::Closed { stop, .. } if stop != text.len() => return Err(Fault::AfterQuote),
            Place::Closed { end, .. } => end,
            Place::Return | Place::Quote => return Ok(()),
            Place::Start | Place::Plain | Place::Quoted => text.len(),
        };
        if let Some(rest) = text.get(self.from..end).filter(|rest| !rest.is_empty()) {
            self.table.part(text, self.from..end, records)?;
            self.blank &= is_blank(rest);
            if self.place == Place::Start {
                self.place = Place::Plain;
            }
        }
        Ok(())
    }

    pub(crate) fn finish(mut self, records: &mut Records) -> Result<(), Fault> {
        match self.place {
            Place::Quoted => return Err(Fault::OpenQuote),
            Place::Return => return Err(Fault::CarriageReturn),
            Place::Start if !self.in_row => {}
            _ => {
                self.table.end_cell(records);
                self.table.end_row(records)?;
            }
        }
        self.table.finish(records)
    }

    /// Decides the columns from what has been read.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// The bits of the bytes between two indices, in the block that begins at `start`.
#[inline(always)]
fn bits(from: usize, until: usize, start: usize) -> u64 {
    let below = |index: usize| match index.saturating_sub(start) {
        bit @ 0..BLOCK => (1_u64 << bit) - 1,
        _ => u64::MAX,
    };
    below(until) & !below(from)
}

fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|&byte| byte == b' ')
}
