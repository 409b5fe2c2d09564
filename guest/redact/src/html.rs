//! Finds the cells of secret columns in tables of HTML, and cells behind the heading of their row.
//!
//! Cells of headings name their columns, and so do the cells of the first row. What is in a cell goes whole, tags included.

use std::ops::Range;

use lro_text::without_references;

use crate::find::Match;
use crate::grid::{add, merge, push_name};
use crate::named::cell_piece;
use crate::rules::Rules;

/// Most tables that are followed, one in another.
const DEPTH_MAX: usize = 16;

/// Elements whose content has no tags, as they end.
const RAW: [&str; 3] = ["</script", "</style", "</textarea"];

/// Longest name of an element that matters, in bytes, and one more.
const TAG_BYTES_MAX: usize = 10;

/// Most bytes of a tag that are searched for the number of columns of its cell.
const ATTRIBUTES_BYTES_MAX: usize = 512;

/// Most columns of one cell. Wider ones are titles.
const SPAN_MAX: usize = 100;

/// Follows the tables of a text, piece by piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Html {
    /// Open tables, the innermost last.
    tables: Vec<Table>,
    place: Place,
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, Default)]
enum Place {
    #[default]
    Text,
    /// In a tag: the quote of a value, the last byte that is not white space, and the end of its content without tags.
    Tag { quote: Option<u8>, before: u8, raw: Option<&'static str> },
    /// In what ends with this text.
    Until(&'static str),
}

impl Place {
    fn in_tag(raw: Option<&'static str>) -> Self {
        Self::Tag { quote: None, before: b' ', raw }
    }
}

#[derive(Clone, Debug, Default)]
struct Table {
    /// Secret columns, in order, and those that the current row names.
    secret: Vec<usize>,
    named: Vec<usize>,
    /// Whether a row has ended, and whether the current one is in `<thead>`.
    has_rows: bool,
    in_head: bool,
    /// Of the current row: the next column, what cells it has, and whether a heading names what follows.
    column: usize,
    has_headings: bool,
    has_values: bool,
    is_beside: bool,
    cell: Option<Cell>,
}

#[derive(Clone, Debug, Default)]
struct Cell {
    is_heading: bool,
    /// Columns it stands in.
    columns: Range<usize>,
    /// Its text without tags, up to one character more than a name may have.
    text: String,
    is_secret: bool,
    /// Whether there was more than white space in a secret cell, whether its replacement is written, and tables open in it.
    has_begun: bool,
    is_replaced: bool,
    inner: usize,
}

impl Html {
    /// The cells of secret columns in a part of a text, in order. The part begins where the last one ended; what follows it
    /// is only looked at.
    pub(crate) fn cells(&mut self, text: &str, part: Range<usize>, rules: &Rules, found: &mut Vec<Match<'static>>) {
        // Beginning of what is in a secret cell and not taken out yet.
        let (mut at, mut from) = (part.start, part.start);
        while let Some(rest) = text.get(at..part.end).filter(|rest| !rest.is_empty()) {
            match self.place {
                Place::Text => {
                    let piece = &rest[..rest.find('<').unwrap_or(rest.len())];
                    let white = piece.len() - piece.trim_start().len();
                    if white < piece.len() && self.begin_secret() {
                        from = at + white;
                    }
                    self.text(piece);
                    at += piece.len();
                    if at < part.end {
                        self.tag(text, at, &mut from, rules, found);
                        at += 1;
                    }
                }
                Place::Tag { quote, before, raw } => {
                    let end = tag_end(rest.as_bytes(), quote, before);
                    at += end.unwrap_or_else(|place| {
                        self.place = Place::Tag { quote: place.0, before: place.1, raw };
                        rest.len()
                    });
                    if end.is_ok() {
                        self.place = raw.map_or(Place::Text, Place::Until);
                    }
                }
                Place::Until(end) => {
                    let bytes = text.as_bytes();
                    let view = bytes.get(at..(part.end + end.len() - 1).min(bytes.len())).unwrap_or_default();
                    let length = view.windows(end.len()).position(|window| window.eq_ignore_ascii_case(end.as_bytes()));
                    at += length.unwrap_or(rest.len());
                    if length.is_some() {
                        // The last bytes of a comment are like those of a tag.
                        self.place = if end.starts_with('<') { Place::Text } else { Place::in_tag(None) };
                    }
                }
            }
        }
        self.take_out(from..part.end, found);
    }

    fn cell(&mut self) -> Option<&mut Cell> {
        self.tables.last_mut()?.cell.as_mut()
    }

    /// Whether a secret cell begins here.
    fn begin_secret(&mut self) -> bool {
        let cell = self.cell().filter(|cell| cell.is_secret && !cell.has_begun);
        cell.map(|cell| cell.has_begun = true).is_some()
    }

    fn text(&mut self, piece: &str) {
        if let Some(cell) = self.cell() {
            push_name(&mut cell.text, piece);
        }
    }

    /// Handles the `<` at an index.
    fn tag(&mut self, text: &str, at: usize, from: &mut usize, rules: &Rules, found: &mut Vec<Match<'static>>) {
        let rest = text.get(at + 1..).unwrap_or_default();
        let (is_close, inside) = rest.strip_prefix('/').map_or((false, rest), |inside| (true, inside));
        let name = inside.chars().take(TAG_BYTES_MAX).take_while(char::is_ascii_alphanumeric);
        let name: String = name.map(|character| character.to_ascii_lowercase()).collect();
        if name.is_empty() && !rest.starts_with(['!', '?', '/']) {
            if self.begin_secret() {
                *from = at;
            }
            return self.text("<");
        }
        let raw = RAW.into_iter().find(|end| !is_close && end.get(2..) == Some(name.as_str()));
        self.place = if rest.starts_with("!--") { Place::Until("-->") } else { Place::in_tag(raw) };
        let is_inner = match (self.cell().filter(|cell| cell.is_secret), name.as_str()) {
            (Some(cell), "table") if !is_close || cell.inner > 0 => {
                cell.inner = if is_close { cell.inner - 1 } else { cell.inner + 1 };
                true
            }
            (cell, _) => cell.is_some_and(|cell| cell.inner > 0),
        };
        let is_of_table = matches!(name.as_str(), "table" | "thead" | "tbody" | "tfoot" | "tr" | "td" | "th");
        if is_inner || !is_of_table {
            if self.begin_secret() {
                *from = at;
            }
            return;
        }
        if name == "table" && !is_close {
            if self.tables.len() < DEPTH_MAX {
                self.tables.push(Table::default());
            }
            return;
        }
        self.take_out(*from..at, found);
        if name == "tr" && !is_close && self.tables.is_empty() {
            self.tables.push(Table::default());
        }
        let Some(table) = self.tables.last_mut() else { return };
        table.end_cell(rules);
        match name.as_str() {
            "td" | "th" if is_close => {}
            "td" | "th" => table.begin_cell(name == "th", span(rest)),
            "tr" => table.end_row(),
            _ => {
                table.end_row();
                table.in_head = name == "thead" && !is_close;
            }
        }
        if name == "table" {
            self.tables.pop();
        }
    }

    /// Takes out a piece of a secret cell.
    fn take_out(&mut self, range: Range<usize>, found: &mut Vec<Match<'static>>) {
        let Some(cell) = self.cell().filter(|cell| cell.has_begun && !range.is_empty()) else { return };
        found.push(cell_piece(range, &mut cell.is_replaced));
    }
}

impl Table {
    fn begin_cell(&mut self, is_heading: bool, span: usize) {
        let columns = self.column..self.column.saturating_add(span);
        self.column = columns.end;
        let next = self.secret.partition_point(|column| *column < columns.start);
        let is_in_secret = self.secret.get(next).is_some_and(|column| *column < columns.end);
        let is_label = is_heading && self.in_head;
        let is_secret = is_in_secret && !is_label || self.is_beside && !is_heading;
        self.cell = Some(Cell { is_heading, columns, is_secret, ..Cell::default() });
    }

    fn end_cell(&mut self, rules: &Rules) {
        let Some(cell) = self.cell.take() else { return };
        let name = without_references(&cell.text);
        let name = name.as_deref().unwrap_or(&cell.text).trim();
        self.has_headings |= cell.is_heading;
        self.has_values |= !cell.is_heading && !name.is_empty();
        if rules.is_secret(name) {
            cell.columns.for_each(|column| add(&mut self.named, column));
            self.is_beside |= cell.is_heading;
        }
    }

    fn end_row(&mut self) {
        if self.column == 0 {
            return;
        }
        let is_header = match self.has_headings {
            true => self.in_head || !self.has_values,
            false => !self.has_rows,
        };
        if is_header {
            merge(&mut self.secret, &self.named);
        }
        let (secret, in_head) = (std::mem::take(&mut self.secret), self.in_head);
        *self = Self { secret, in_head, has_rows: true, ..Self::default() };
    }
}

/// The columns that a cell stands in, from its tag.
fn span(tag: &str) -> usize {
    let view = tag.get(..tag.floor_char_boundary(ATTRIBUTES_BYTES_MAX)).unwrap_or_default();
    let view = view.split('>').next().unwrap_or_default().to_ascii_lowercase();
    let value = view.split_once("colspan").and_then(|(_, after)| after.trim_start().strip_prefix('='));
    let value = value.unwrap_or_default().trim_start_matches([' ', '"', '\'']);
    let digits = value.split(|character: char| !character.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().unwrap_or(1).clamp(1, SPAN_MAX)
}

/// Where a tag ends, behind its `>`; otherwise the quote of the open value and the last byte that is not white space.
fn tag_end(bytes: &[u8], mut quote: Option<u8>, mut before: u8) -> Result<usize, (Option<u8>, u8)> {
    for (at, &byte) in bytes.iter().enumerate() {
        match byte {
            b'>' if quote.is_none() => return Ok(at + 1),
            // A quote elsewhere is part of a name or of a value without quotes.
            b'"' | b'\'' if quote.is_none() && before == b'=' => quote = Some(byte),
            _ if quote == Some(byte) => quote = None,
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = byte;
        }
    }
    Err((quote, before))
}
