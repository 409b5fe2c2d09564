//! The text of a Word document as Markdown.
//!
//! Paragraphs are parted by empty lines. A paragraph with the style of a heading is one, and a table is a table, whose first
//! row is its header.

use quick_xml::Reader;
use quick_xml::escape::resolve_xml_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

use super::DocumentError;
use super::archive::Archive;
use super::output::Output;

/// Deepest heading of Markdown.
const LEVEL_MAX: usize = 6;

/// The text that was read so far.
struct Document {
    output: Output,
    /// The text of the paragraph.
    paragraph: String,
    /// Level of the heading that the paragraph is; 0 for none.
    level: usize,
    /// How many tables the paragraph is in.
    tables: usize,
    /// Rows of the outermost table that are written.
    rows: usize,
    row: Row,
    has_text: bool,
}

/// The current row of the outermost table.
#[derive(Default)]
struct Row {
    /// Its cells, with what stands between them.
    text: String,
    /// How many cells have ended.
    cells: usize,
    /// Where the current cell begins in the text.
    cell: usize,
}

pub(crate) fn text(archive: &mut Archive<'_>, limit: usize) -> Result<String, DocumentError> {
    let mut reader = Reader::from_reader(archive.word()?);
    reader.config_mut().expand_empty_elements = true;
    let mut document = Document {
        output: Output::new(limit),
        paragraph: String::new(),
        level: 0,
        tables: 0,
        rows: 0,
        row: Row::default(),
        has_text: false,
    };
    let mut buffer = Vec::new();
    // Whether the text is of a run, and in how many copies of a drawing for older programs.
    let (mut is_text, mut copies) = (false, 0_usize);
    loop {
        buffer.clear();
        match reader.read_event_into(&mut buffer).map_err(damaged)? {
            Event::Start(element) => match element.local_name().as_ref() {
                "Fallback" => copies += 1,
                _ if copies > 0 => {}
                "t" => is_text = true,
                "tab" => document.add(" ")?,
                "br" | "cr" => document.add("\n")?,
                "pStyle" => document.level = level(&element),
                "tbl" => document.begin_table(),
                _ => {}
            },
            Event::End(element) => match element.local_name().as_ref() {
                "Fallback" => copies = copies.saturating_sub(1),
                _ if copies > 0 => {}
                "t" => is_text = false,
                "p" => document.end_paragraph()?,
                "tc" if document.tables == 1 => document.end_cell(),
                "tr" if document.tables == 1 => document.end_row()?,
                "tbl" => document.end_table()?,
                _ => {}
            },
            Event::Text(text) if is_text && copies == 0 => document.add(&text.xml10_content())?,
            Event::CData(text) if is_text && copies == 0 => document.add(&text.xml10_content())?,
            Event::GeneralRef(reference) if is_text && copies == 0 => document.add(&referred(&reference)?)?,
            Event::Eof => break,
            _ => {}
        }
    }
    document.end_paragraph()?;
    if document.has_text { Ok(document.output.finish()) } else { Err(DocumentError::Empty) }
}

/// The level of the heading that a style is for: `Heading1`, `heading 2`, `Title`; 0 for any other.
fn level(style: &BytesStart<'_>) -> usize {
    let name = style.attributes().flatten().find(|attribute| attribute.key.as_ref().ends_with("val"));
    let name = name.map(|attribute| attribute.value.to_ascii_lowercase()).unwrap_or_default();
    match name.strip_prefix("heading") {
        _ if name == "title" => 1,
        Some(number) => number.trim().parse().unwrap_or(0).min(LEVEL_MAX),
        None => 0,
    }
}

fn referred(reference: &BytesRef<'_>) -> Result<String, DocumentError> {
    if let Some(text) = resolve_xml_entity(reference.as_ref()) {
        return Ok(text.to_owned());
    }
    let character = reference.resolve_char_ref().map_err(damaged)?;
    character.map(String::from).ok_or_else(|| DocumentError::Damaged("an entity that is not of XML".to_owned()))
}

impl Document {
    /// Adds to the paragraph.
    fn add(&mut self, text: &str) -> Result<(), DocumentError> {
        self.output.check(self.paragraph.len() + text.len())?;
        self.has_text |= !text.trim().is_empty();
        self.paragraph.push_str(text);
        Ok(())
    }

    fn end_paragraph(&mut self) -> Result<(), DocumentError> {
        let level = std::mem::take(&mut self.level);
        let paragraph = std::mem::take(&mut self.paragraph);
        let text = paragraph.trim();
        if text.is_empty() {
            return Ok(());
        }
        if self.tables > 0 {
            return self.add_to_cell(text);
        }
        if level > 0 {
            self.output.push(&"#".repeat(level))?;
            self.output.push(" ")?;
            self.output.push(&text.replace('\n', " "))?;
        } else {
            self.output.push(text)?;
        }
        self.output.push("\n\n")
    }

    fn add_to_cell(&mut self, text: &str) -> Result<(), DocumentError> {
        self.output.check(self.row.text.len() + text.len())?;
        if self.row.text.len() > self.row.cell {
            self.row.text.push(' ');
        }
        self.row.text.push_str(&text.replace('|', "\\|").replace('\n', " "));
        Ok(())
    }

    fn begin_table(&mut self) {
        self.tables += 1;
        if self.tables == 1 {
            (self.rows, self.row) = (0, Row::default());
        }
    }

    fn end_cell(&mut self) {
        self.row.text.push_str(" | ");
        self.row.cells += 1;
        self.row.cell = self.row.text.len();
    }

    fn end_row(&mut self) -> Result<(), DocumentError> {
        let row = std::mem::take(&mut self.row);
        self.output.push(&format!("| {}\n", row.text.trim_end()))?;
        if self.rows == 0 {
            self.output.push(&format!("|{}\n", "---|".repeat(row.cells.max(1))))?;
        }
        self.rows += 1;
        Ok(())
    }

    fn end_table(&mut self) -> Result<(), DocumentError> {
        self.tables = self.tables.saturating_sub(1);
        if self.tables > 0 {
            return Ok(());
        }
        // What stood in no row.
        if !self.row.text.is_empty() {
            self.end_row()?;
        }
        self.output.push("\n")
    }
}

fn damaged(error: impl ToString) -> DocumentError {
    DocumentError::Damaged(error.to_string())
}
