//! One table of HTML, with any page around it, and rows without a table, as sqlite3 prints them.
//!
//! Closing tags of rows and cells may be missing. Tags in a cell are left out, `<br>` and the boundaries of paragraphs and
//! the like are line breaks, white space at the ends of a cell is cut, and references are replaced. A table with cells
//! over several rows or columns, with another table in it, or with a footer has no rows that records could be.

mod token;

pub use token::without_references;
use token::{Token, is_span, next};

use super::error::Fault;
use super::records::Records;
use super::table::Table;
use super::{ELEMENT_BYTES_MAX, SAMPLE_BYTES_MAX, TOKEN_BYTES_MAX};

/// Elements whose content is neither markup nor shown.
const RAW: [&str; 4] = ["script", "style", "textarea", "title"];

/// Elements that begin a line.
const BLOCKS: [&str; 12] = ["address", "blockquote", "br", "div", "dd", "dl", "dt", "hr", "li", "ol", "p", "ul"];

/// Reads a table tag by tag.
#[derive(Debug)]
pub(crate) struct Html {
    /// The token that the piece cut.
    cut: String,
    /// The element of [`RAW`] that is open.
    raw: Option<&'static str>,
    place: Place,
    /// Whether the rows have no table around them.
    is_bare: bool,
    in_head: bool,
    in_caption: bool,
    /// What the open cell is.
    open: Option<Kind>,
    /// The text of the open cell.
    cell: String,
    row: Row,
    /// The table, once its first row has ended.
    table: Option<Table>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Inside,
    After,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Heading,
    Value,
}

/// The current row.
#[derive(Debug, Default)]
struct Row {
    /// The cells of the first row.
    first: Vec<String>,
    /// Bytes of them, a separator for each included.
    size: usize,
    cells: u64,
    headings: u64,
    /// Cells with text that are not headings.
    values: u64,
}

impl Default for Html {
    fn default() -> Self {
        Self {
            cut: String::new(),
            raw: None,
            place: Place::Before,
            is_bare: false,
            in_head: false,
            in_caption: false,
            open: None,
            cell: String::new(),
            row: Row::default(),
            table: None,
        }
    }
}

impl Html {
    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let mut buffer = std::mem::take(&mut self.cut);
        buffer.push_str(text);
        let mut rest = buffer.as_str();
        while let Some((token, length)) = next(rest, self.raw) {
            let is_outside = self.place != Place::Inside;
            if length > TOKEN_BYTES_MAX && !matches!(token, Token::Text(_)) {
                return Err(Fault::Token);
            }
            self.token(token, records)?;
            if is_outside && self.place != Place::Inside {
                records.report.outside += length as u64;
            }
            rest = &rest[length..];
        }
        if rest.len() > TOKEN_BYTES_MAX {
            return Err(Fault::Token);
        }
        self.cut = rest.to_owned();
        Ok(())
    }

    fn token(&mut self, token: Token<'_>, records: &mut Records) -> Result<(), Fault> {
        match token {
            Token::Open { name, attributes } => self.open(&name.to_ascii_lowercase(), attributes, records),
            Token::Close(name) => self.close(&name.to_ascii_lowercase(), records),
            Token::Text(text) => self.text(text),
            Token::Nothing => Ok(()),
        }
    }

    fn open(&mut self, name: &str, attributes: &str, records: &mut Records) -> Result<(), Fault> {
        self.raw = RAW.into_iter().find(|raw| *raw == name);
        match name {
            "table" if self.place == Place::Before => self.place = Place::Inside,
            "table" => return Err(Fault::Second),
            "tr" if self.place == Place::Before => {
                self.place = Place::Inside;
                self.is_bare = true;
            }
            "tr" if self.place == Place::After => return Err(Fault::Second),
            _ if self.place != Place::Inside => {}
            "tr" => self.end_row(records)?,
            "td" | "th" => {
                self.end_cell(records)?;
                if is_span(attributes) {
                    return Err(Fault::Span);
                }
                self.open = Some(if name == "th" { Kind::Heading } else { Kind::Value });
            }
            "thead" | "tbody" => {
                self.end_row(records)?;
                self.in_head = name == "thead";
            }
            "tfoot" => return Err(Fault::Misaligned),
            "caption" => self.in_caption = true,
            _ => self.end_line(name),
        }
        Ok(())
    }

    fn close(&mut self, name: &str, records: &mut Records) -> Result<(), Fault> {
        self.raw = None;
        if self.place != Place::Inside {
            return Ok(());
        }
        match name {
            "td" | "th" => self.end_cell(records),
            "tr" => self.end_row(records),
            "thead" | "tbody" => {
                self.end_row(records)?;
                self.in_head = false;
                Ok(())
            }
            "caption" => {
                self.in_caption = false;
                Ok(())
            }
            "table" => {
                self.end_row(records)?;
                self.place = Place::After;
                Ok(())
            }
            _ => {
                self.end_line(name);
                Ok(())
            }
        }
    }

    fn text(&mut self, text: &str) -> Result<(), Fault> {
        if self.raw.is_some() || self.place != Place::Inside || self.in_caption {
            return Ok(());
        }
        if self.open.is_none() {
            return if text.trim().is_empty() { Ok(()) } else { Err(Fault::Mixed) };
        }
        self.cell.push_str(&without_references(text)?);
        if self.cell.len() > ELEMENT_BYTES_MAX { Err(Fault::Element) } else { Ok(()) }
    }

    /// Ends the line of a cell at the tag of a block.
    fn end_line(&mut self, name: &str) {
        if self.open.is_some() && BLOCKS.contains(&name) && (name == "br" || !self.cell.ends_with('\n')) {
            self.cell.push('\n');
        }
    }

    fn end_cell(&mut self, records: &mut Records) -> Result<(), Fault> {
        let Some(kind) = self.open.take() else { return Ok(()) };
        let cell = self.cell.trim();
        self.row.cells += 1;
        match kind {
            Kind::Heading => self.row.headings += 1,
            Kind::Value => self.row.values += u64::from(!cell.is_empty()),
        }
        match &mut self.table {
            Some(table) => table.cell(cell.as_bytes(), records)?,
            None => {
                self.row.size += cell.len() + 1;
                if self.row.size > SAMPLE_BYTES_MAX {
                    return Err(Fault::FirstRow);
                }
                self.row.first.push(cell.to_owned());
            }
        }
        self.cell.clear();
        Ok(())
    }

    fn end_row(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.end_cell(records)?;
        let row = std::mem::take(&mut self.row);
        if row.cells == 0 {
            return Ok(());
        }
        match &mut self.table {
            // A second header is not a record.
            Some(_) if self.in_head || row.headings == row.cells => Err(Fault::Misaligned),
            Some(table) => table.end_row(records),
            None => {
                // The corner above a column of headings is often an empty value.
                let is_header = self.in_head || row.headings > 0 && row.values == 0;
                if !is_header && row.headings > 0 {
                    return Err(Fault::Misaligned);
                }
                let table = self.table.insert(Table::of_document(is_header));
                row.first.iter().try_for_each(|cell| table.cell(cell.as_bytes(), records))?;
                table.end_row(records)
            }
        }
    }

    pub(crate) fn finish(mut self, records: &mut Records) -> Result<(), Fault> {
        if self.place == Place::Inside && !self.is_bare {
            return Err(Fault::End);
        }
        let rest = std::mem::take(&mut self.cut);
        if rest.starts_with('<') {
            return Err(Fault::End);
        }
        self.text(&rest)?;
        self.end_row(records)?;
        self.settle(records)
    }

    /// Decides the columns from what has been read.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.as_mut().map_or(Ok(()), |table| table.finish(records))
    }
}
