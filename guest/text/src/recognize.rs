//! Names the form of a text from its beginning, or nothing when in doubt.
//!
//! Each form that the text could have is tried: its [`Reader`](crate::Reader) reads the beginning, and what it found has
//! to be evidence enough. So nothing is recognized that the reader would not accept.

mod blanks;
mod delimited;
mod json;
mod lines;
mod markup;
mod python;
mod tabular;

pub use tabular::{COLUMN_KEYS, Layout, Tabular, tabular};

use lro_json::SyntaxError;

use crate::readers::{Reader, Tried};

/// Bytes of a text that [`recognize`] looks at: 64 KiB.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;

/// What a text holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// JSON values one after another, with any white space or none between them: JSON Lines, concatenated JSON, JSON
    /// text sequences. Each is a record, byte for byte except for white space between tokens.
    JsonValues,
    /// JSON objects and arrays, each on a line, and few other lines, at most one in ten; the last line may be cut. Those
    /// lines are not among the records: [`Report::bad_lines`](crate::Report::bad_lines) counts them.
    JsonLines,
    /// JSON with other text around it: behind a sentence, in a fence, under a heading, in several paragraphs.
    JsonWithin {
        /// Offset in bytes of the first value, counted without a byte order mark.
        start: u64,
        /// Whether there is one value alone. Then the output is that JSON document on one line, for
        /// `lro_jsonl::Splitter` to find the records in; otherwise each value is a record.
        document: bool,
    },
    /// The elements of an array in a JSON document that breaks behind them, as [`BrokenJson`](crate::BrokenJson) finds it: the
    /// server has cut it, or it holds `NaN`. Objects and arrays alone.
    JsonElements {
        /// Offset in bytes behind the bracket of the array, counted without a byte order mark.
        start: u64,
        /// How many elements are complete.
        count: u64,
        /// Line of the break, from 1.
        line: u64,
        /// What is wrong there.
        fault: SyntaxError,
    },
    /// Cells with a delimiter between them: CSV and TSV. A first line that [names](crate::named_delimiter) the delimiter is not
    /// among the rows.
    Delimited {
        /// The delimiter, an ASCII character.
        delimiter: u8,
        /// Whether the first row holds the names of the columns. Otherwise they are `column_1` and so on.
        header: bool,
        /// The spaces around delimiters that are not part of cells.
        blanks: Blanks,
    },
    /// One table of Markdown, with any text around it.
    MarkdownTable,
    /// One table whose rule marks its columns: psql's `---+---`, MySQL's `+---+---+`, and `┌───┬───┐` as sqlite3, DuckDB,
    /// Polars and Rich draw it.
    RuledTable,
    /// Cells below their names: `kubectl get`, `docker ps`, sqlite3's column mode.
    AlignedTable,
    /// Words padded to stand below their names on either side, the last of them with spaces: `df`, `ps aux`.
    PaddedTable {
        /// How many names the first line has; the last one may hold spaces.
        columns: usize,
    },
    /// Blocks of lines that each name a value, the same names in every block: sqlite3's `-line`, psql's expanded display,
    /// MySQL's `\G`, `key: value` blocks. Each block is a record.
    KeyedBlocks {
        /// Between a name and its value: `=`, `:`, or the `|` of psql.
        delimiter: u8,
    },
    /// Python's `repr` of lists, tuples and dicts.
    PythonLiteral {
        /// As in [`Form::JsonWithin`].
        document: bool,
    },
    /// A YAML list of maps: each is a record.
    YamlList,
    /// One table of HTML, with any page around it, or rows of HTML without a table, as sqlite3 prints them. The columns have
    /// names when the first row is one of headings.
    HtmlTable,
    /// Repeated elements of an XML document.
    XmlElements {
        /// The names from the root to the records, with slashes: `feed/entry`.
        path: String,
    },
    /// One JSON document that is a table. [`tabular`] finds it; the outside of its report are the bytes around the rows, and
    /// other members are not part of the records.
    Tabular(Tabular),
}

/// Spaces outside quotes that are not part of the cells of [`Form::Delimited`]. [`recognize`] finds them where they stand at
/// every delimiter it looks at, so that a space of one cell stays in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Blanks {
    /// Those before a cell, as in `a, "b, c", 1`.
    pub leading: bool,
    /// Those behind a cell, as in `a ,"b, c" ,1`; at most 4,096 in a row.
    pub trailing: bool,
}

impl Form {
    /// Whether it is a table of cells that are no JSON themselves.
    #[must_use]
    pub fn is_table(&self) -> bool {
        match self {
            Self::Delimited { .. }
            | Self::MarkdownTable
            | Self::RuledTable
            | Self::AlignedTable
            | Self::PaddedTable { .. }
            | Self::KeyedBlocks { .. }
            | Self::HtmlTable => true,
            Self::JsonValues
            | Self::JsonLines
            | Self::JsonWithin { .. }
            | Self::JsonElements { .. }
            | Self::PythonLiteral { .. }
            | Self::YamlList
            | Self::XmlElements { .. }
            | Self::Tabular(_) => false,
        }
    }
}

/// What is known of a text besides its characters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Hints<'a> {
    /// Its media type, with or without parameters.
    pub media_type: Option<&'a str>,
    /// Its file name or URI.
    pub name: Option<&'a str>,
    /// Whether the head is the whole text.
    pub complete: bool,
}

impl Hints<'_> {
    /// What the media type says of a header, as RFC 4180 spells it.
    fn header(&self) -> Option<bool> {
        let mut parameters = self.media_type?.split(';').skip(1).map(|parameter| parameter.trim().to_ascii_lowercase());
        parameters.find_map(|parameter| match parameter.as_str() {
            "header=present" => Some(true),
            "header=absent" => Some(false),
            _ => None,
        })
    }

    /// Whether the media type is one of `types`, or the name ends in one of `extensions`, which begin with a point.
    fn name_one_of(&self, types: &[&str], extensions: &[&str]) -> bool {
        let essence = self.media_type.and_then(|media_type| media_type.split(';').next()).unwrap_or_default().trim();
        let name = self.name.unwrap_or_default();
        types.iter().any(|media_type| essence.eq_ignore_ascii_case(media_type))
            || extensions.iter().any(|extension| {
                let start = name.len().checked_sub(extension.len());
                start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(extension))
            })
    }
}

/// The beginning of a text without the byte order mark that it may have, which is not part of the text.
#[must_use]
pub fn without_mark(beginning: &str) -> &str {
    beginning.strip_prefix('\u{feff}').unwrap_or(beginning)
}

/// Recognizes the form of a text from its first [`HEAD_BYTES_MAX`] bytes; `None` for a text without records, for one
/// JSON document, which [`tabular`] looks at, and when in doubt.
#[must_use]
pub fn recognize(head: &str, hints: &Hints<'_>) -> Option<Form> {
    let head = without_mark(head);
    let cut = head.floor_char_boundary(HEAD_BYTES_MAX);
    let head = Head { text: &head[..cut], hints, complete: hints.complete && cut == head.len() };
    match json::values(&head) {
        Some(json::Values::Several) => return Some(Form::JsonValues),
        Some(json::Values::Document) => return None,
        None => {}
    }
    let recognizers: [fn(&Head<'_>) -> Option<Form>; 15] = [
        delimited::named,
        json::lines,
        python::literal,
        json::within,
        json::elements,
        lines::markdown,
        lines::ruled,
        delimited::spaced,
        lines::aligned,
        lines::padded,
        lines::blocks,
        lines::yaml,
        markup::html,
        markup::xml,
        delimited::delimited,
    ];
    recognizers.into_iter().find_map(|recognizer| recognizer(&head))
}

/// The beginning of a text without its byte order mark.
#[derive(Clone, Copy)]
struct Head<'a> {
    text: &'a str,
    hints: &'a Hints<'a>,
    complete: bool,
}

impl<'a> Head<'a> {
    /// The head up to its last line end; all of a complete text.
    fn lines(&self) -> &'a str {
        match self.text.rfind('\n') {
            Some(end) if !self.complete => &self.text[..=end],
            None if !self.complete => "",
            _ => self.text,
        }
    }

    /// What the reader of a form makes of these lines.
    fn try_lines(&self, form: &Form) -> Option<Tried> {
        Reader::try_head(form, self.lines(), self.complete)
    }

    /// Whether so many bytes outside the records are few enough. A document with an example in it is something else.
    fn is_most(&self, outside: u64) -> bool {
        outside * OUTSIDE_SHARE_MAX <= self.text.len() as u64
    }
}

/// A text is recognized when at most one in four bytes is outside its records.
const OUTSIDE_SHARE_MAX: u64 = 4;
