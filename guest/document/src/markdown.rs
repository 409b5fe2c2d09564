//! Markdown of headings, paragraphs and tables.
//!
//! Paragraphs are parted by empty lines. The first row of a table is its header.

use super::DocumentError;
use super::output::Output;

/// Deepest heading of Markdown.
pub(crate) const LEVEL_MAX: usize = 6;

/// The text that was read so far.
pub(crate) struct Markdown {
    output: Output,
    /// Headings that stand before the next text, if there is any.
    announced: String,
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

impl Markdown {
    pub(crate) fn new(limit: usize) -> Self {
        Self {
            output: Output::new(limit),
            announced: String::new(),
            paragraph: String::new(),
            level: 0,
            tables: 0,
            rows: 0,
            row: Row::default(),
            has_text: false,
        }
    }

    /// # Errors
    /// [`DocumentError::Empty`].
    pub(crate) fn finish(mut self) -> Result<String, DocumentError> {
        self.end_paragraph()?;
        // A document that ends too early may end in a table.
        if self.tables > 0 {
            self.tables = 1;
            self.end_table()?;
        }
        if self.has_text { Ok(self.output.finish()) } else { Err(DocumentError::Empty) }
    }

    /// Adds a heading that is there even if no text follows.
    pub(crate) fn heading(&mut self, level: usize, title: &str) -> Result<(), DocumentError> {
        self.announced.clear();
        self.output.push(&heading(level, title))
    }

    /// Adds a heading if text follows before the next one.
    pub(crate) fn announce(&mut self, level: usize, title: &str) {
        self.announced = heading(level, title);
    }

    /// The paragraph is a heading of this level.
    pub(crate) fn set_level(&mut self, level: usize) {
        self.level = level.min(LEVEL_MAX);
    }

    /// Adds to the paragraph.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), DocumentError> {
        self.output.check(self.paragraph.len() + text.len())?;
        self.has_text |= !text.trim().is_empty();
        self.paragraph.push_str(text);
        Ok(())
    }

    pub(crate) fn end_paragraph(&mut self) -> Result<(), DocumentError> {
        let level = std::mem::take(&mut self.level);
        let paragraph = std::mem::take(&mut self.paragraph);
        let text = paragraph.trim();
        if text.is_empty() {
            return Ok(());
        }
        if self.tables > 0 {
            return self.add_to_cell(text);
        }
        self.push_announced()?;
        if level > 0 {
            return self.output.push(&heading(level, &text.replace('\n', " ")));
        }
        self.output.push(text)?;
        self.output.push("\n\n")
    }

    fn push_announced(&mut self) -> Result<(), DocumentError> {
        self.output.push(&std::mem::take(&mut self.announced))
    }

    fn add_to_cell(&mut self, text: &str) -> Result<(), DocumentError> {
        self.output.check(self.row.text.len() + text.len())?;
        if self.row.text.len() > self.row.cell {
            self.row.text.push(' ');
        }
        self.row.text.push_str(&text.replace('|', "\\|").replace('\n', " "));
        Ok(())
    }

    pub(crate) fn begin_table(&mut self) {
        self.tables += 1;
        if self.tables == 1 {
            (self.rows, self.row) = (0, Row::default());
        }
    }

    /// Of tables in a table, the text goes to its cell.
    pub(crate) fn end_cell(&mut self) {
        if self.tables == 1 {
            self.row.text.push_str(" | ");
            self.row.cells += 1;
            self.row.cell = self.row.text.len();
        }
    }

    pub(crate) fn end_row(&mut self) -> Result<(), DocumentError> {
        if self.tables == 1 { self.push_row() } else { Ok(()) }
    }

    fn push_row(&mut self) -> Result<(), DocumentError> {
        self.push_announced()?;
        let row = std::mem::take(&mut self.row);
        self.output.push(&format!("| {}\n", row.text.trim_end()))?;
        if self.rows == 0 {
            self.output.push(&format!("|{}\n", "---|".repeat(row.cells.max(1))))?;
        }
        self.rows += 1;
        Ok(())
    }

    pub(crate) fn end_table(&mut self) -> Result<(), DocumentError> {
        self.tables = self.tables.saturating_sub(1);
        if self.tables > 0 {
            return Ok(());
        }
        // What stood in no row.
        if !self.row.text.is_empty() {
            self.push_row()?;
        }
        self.output.push("\n")
    }
}

fn heading(level: usize, title: &str) -> String {
    format!("{} {title}\n\n", "#".repeat(level))
}
