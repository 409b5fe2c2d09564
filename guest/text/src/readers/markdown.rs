//! One table of Markdown (GitHub's), with any text around it.

use super::error::Fault;
use super::records::Records;
use super::table::Table;

/// Reads a table line by line.
#[derive(Debug)]
pub(crate) struct Markdown {
    table: Table,
    place: Place,
    /// The line before: the header, if a delimiter row follows.
    previous: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Before,
    Rows,
    After,
}

impl Default for Markdown {
    fn default() -> Self {
        Self { table: Table::of_document(true), place: Place::Before, previous: String::new() }
    }
}

impl Markdown {
    pub(crate) fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        let is_row = line.contains('|');
        if self.place == Place::Rows {
            if is_row {
                return self.row(line, records);
            }
            self.place = Place::After;
        }
        let follows_header = self.previous.contains('|') && cells(line).count() == cells(&self.previous).count();
        if is_row && follows_header && is_delimiter_row(line) {
            if self.place == Place::After {
                return Err(Fault::Second);
            }
            self.place = Place::Rows;
            records.report.outside -= self.previous.len() as u64 + 1;
            let header = std::mem::take(&mut self.previous);
            return self.row(&header, records);
        }
        records.report.outside += line.len() as u64 + 1;
        self.previous.clear();
        self.previous.push_str(line);
        Ok(())
    }

    fn row(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        for cell in cells(line) {
            self.table.cell(cell.replace("\\|", "|").as_bytes(), records)?;
        }
        self.table.end_row(records)
    }

    pub(crate) fn finish(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.table.finish(records)
    }
}

/// Whether a line stands between header and rows: `|---|:-:|`.
fn is_delimiter_row(line: &str) -> bool {
    cells(line).all(|cell| {
        let dashes = cell.strip_prefix(':').unwrap_or(cell);
        let dashes = dashes.strip_suffix(':').unwrap_or(dashes);
        !dashes.is_empty() && dashes.bytes().all(|byte| byte == b'-')
    })
}

/// The trimmed cells of a row; `\|` does not end a cell.
fn cells(line: &str) -> impl Iterator<Item = &str> {
    let line = line.trim();
    let line = line.strip_prefix('|').unwrap_or(line);
    let line = if line.ends_with("\\|") { line } else { line.strip_suffix('|').unwrap_or(line) };
    let mut rest = Some(line);
    std::iter::from_fn(move || {
        let text = rest?;
        let is_boundary = |at: &usize| !text[..*at].ends_with('\\');
        match text.match_indices('|').map(|(at, _)| at).find(is_boundary) {
            Some(at) => {
                rest = Some(&text[at + 1..]);
                Some(text[..at].trim())
            }
            None => {
                rest = None;
                Some(text.trim())
            }
        }
    })
}
