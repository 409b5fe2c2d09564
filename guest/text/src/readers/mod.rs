//! Readers: a text in slices goes in, JSON Lines come out.

mod append;
mod blocks;
mod by_line;
mod cells;
mod columns;
mod delimited;
mod drawing;
mod error;
mod html;
mod json;
mod json_lines;
mod lines;
mod markdown;
mod markup;
mod masks;
mod names;
mod padded;
mod python;
mod records;
mod rule;
mod ruled;
mod sample;
mod separator;
mod spaced;
mod string;
mod table;
mod tabular;
mod tags;
mod values;
mod within;
mod yaml;

use blocks::Blocks;
pub(crate) use blocks::{is_record_heading, is_row_heading};
use by_line::{ByLine, LineForm};
use cells::Cells;
use columns::Columns;
pub(crate) use columns::{is_underline, starts};
pub use error::{Error, Fault, ReadError};
use html::Html;
pub use html::without_references;
use json_lines::JsonLines;
use lro_jsonl::Profile;
use markdown::Markdown;
use markup::Markup;
pub(crate) use markup::{DEPTH_MAX as MARKUP_DEPTH_MAX, Token, next as next_token};
pub use markup::{ELEMENT_BYTES_MAX, TOKEN_BYTES_MAX};
pub use names::NAME_BYTES_MAX;
use padded::Padded;
pub(crate) use padded::cells as padded_cells;
use python::Python;
use records::Records;
pub use records::{Column, Report};
pub use rule::{DIGITS_MAX, Rule};
use ruled::Ruled;
pub use separator::named_delimiter;
pub use table::{COLUMNS_MAX, SAMPLE_BYTES_MAX};
pub use tabular::PARALLEL_BYTES_MAX;
use tabular::{Parallel, Rows};
use values::Values;
use within::Within;
pub(crate) use within::may_follow;
use yaml::Yaml;

use crate::{Form, Layout, Tabular};

/// Longest line of a table that is not delimited, and longest item of a list, in bytes: 1 MiB. They are held in memory.
pub const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Reads the records of one text as JSON Lines.
///
/// The output does not depend on where the text is cut into slices. Memory: [`SAMPLE_BYTES_MAX`] and the columns of a
/// table, [`LINE_BYTES_MAX`] where the form has to see whole lines, and up to 2 MiB of lines; never a record or a cell
/// of delimited text or of JSON. Parallel arrays alone are held, up to [`PARALLEL_BYTES_MAX`], and given at the end, because
/// the first record has a part in every array. Must not be used after an error.
#[derive(Debug)]
pub struct Reader {
    kind: Kind,
    records: Records,
}

#[derive(Debug)]
enum Kind {
    Values(Box<Values>),
    Within(Box<Within>),
    Cells(Box<Cells>),
    Python(Box<Python>),
    ByLine(Box<ByLine>),
    Markup(Box<Markup>),
    Html(Box<Html>),
    Rows(Box<Rows>),
    Parallel(Parallel),
}

/// What a reader makes of the beginning of a text.
pub(crate) struct Tried {
    pub(crate) report: Report,
    pub(crate) lines: Vec<u8>,
}

impl Reader {
    /// A reader at the beginning of a text of this form.
    #[must_use]
    pub fn new(form: &Form) -> Self {
        let by_line = |form| Kind::ByLine(Box::new(ByLine::new(form)));
        let kind = match form {
            Form::JsonValues => Kind::Values(Box::new(Values::all())),
            Form::JsonLines => by_line(LineForm::Json(JsonLines::default())),
            &Form::JsonWithin { start, document } => Kind::Within(Box::new(Within::new(start, document))),
            &Form::JsonElements { start, count, .. } => Kind::Values(Box::new(Values::elements(start, count))),
            &Form::Delimited { delimiter, header, blanks } => {
                Kind::Cells(Box::new(Cells::new(delimiter, header, blanks)))
            }
            &Form::PythonLiteral { document } => Kind::Python(Box::new(Python::new(document))),
            Form::AlignedTable => by_line(LineForm::Columns(Columns::default())),
            &Form::KeyedBlocks { delimiter } => by_line(LineForm::Blocks(Blocks::new(delimiter))),
            Form::MarkdownTable => by_line(LineForm::Markdown(Markdown::default())),
            &Form::PaddedTable { columns } => by_line(LineForm::Padded(Padded::new(columns))),
            Form::RuledTable => by_line(LineForm::Ruled(Ruled::default())),
            Form::YamlList => by_line(LineForm::Yaml(Yaml::default())),
            Form::HtmlTable => Kind::Html(Box::default()),
            Form::XmlElements { path } => Kind::Markup(Box::new(Markup::new(path))),
            Form::Tabular(Tabular { path, layout }) => match layout {
                Layout::Rows(names) => Kind::Rows(Box::new(Rows::new(path, names, false))),
                Layout::HeaderRow(names) => Kind::Rows(Box::new(Rows::new(path, names, true))),
                Layout::Parallel => Kind::Parallel(Parallel::new(path)),
            },
        };
        Self { kind, records: Records::default() }
    }

    /// As [`Reader::new`], and profiles the records of a [table](Form::is_table) meanwhile, which costs less than a profile of
    /// their lines, and equals it.
    #[must_use]
    pub fn with_profile(form: &Form) -> Self {
        let mut reader = Self::new(form);
        reader.records.profile = form.is_table().then(Profile::of_rows);
        reader
    }

    /// Reads the next slice of the text, cut between any two characters, and gives `out` any number of lines, cut
    /// anywhere.
    ///
    /// # Errors
    ///
    /// [`Error::Text`] where the text does not keep its form, [`Error::Output`] as soon as `out` fails.
    pub fn push<E>(&mut self, text: &str, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<(), Error<E>> {
        let Self { kind, records } = self;
        records.read(text, out, |piece, records| kind.read(piece, records))
    }

    /// Ends the text.
    ///
    /// # Errors
    ///
    /// As for [`Reader::push`]; also when the text ends too early.
    pub fn finish<E>(self, out: &mut impl FnMut(&[u8]) -> Result<(), E>) -> Result<Report, Error<E>> {
        self.finish_with_profile(out).map(|(report, _)| report)
    }

    /// As [`Reader::finish`], with the profile, if there is one.
    ///
    /// # Errors
    ///
    /// As for [`Reader::finish`].
    pub fn finish_with_profile<E>(
        mut self,
        out: &mut impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(Report, Option<Profile>), Error<E>> {
        let records = &mut self.records;
        let ended = match self.kind {
            Kind::Values(values) => values.finish(records),
            Kind::Within(within) => within.finish(),
            Kind::Cells(cells) => cells.finish(records),
            Kind::Python(python) => python.finish(),
            Kind::ByLine(by_line) => by_line.finish(records),
            Kind::Markup(markup) => markup.finish(),
            Kind::Html(html) => html.finish(records),
            Kind::Rows(rows) => rows.finish(records),
            Kind::Parallel(parallel) => return Ok((parallel.finish(self.records, out)?, None)),
        };
        ended.map_err(|fault| self.records.error(fault))?;
        self.records.give(1, out)?;
        Ok((self.records.report, self.records.profile))
    }

    /// Reads the beginning of a text, or all of it; nothing if it does not keep its form.
    pub(crate) fn try_head(form: &Form, head: &str, complete: bool) -> Option<Tried> {
        let mut lines = Vec::new();
        let mut out = |bytes: &[u8]| {
            lines.extend_from_slice(bytes);
            Ok::<(), std::convert::Infallible>(())
        };
        let mut reader = Self::new(form);
        reader.push(head, &mut out).ok()?;
        if complete {
            let report = reader.finish(&mut out).ok()?;
            return Some(Tried { report, lines });
        }
        let records = &mut reader.records;
        match &mut reader.kind {
            Kind::Cells(cells) => cells.settle(records).ok()?,
            Kind::ByLine(by_line) => by_line.settle(records).ok()?,
            Kind::Html(html) => html.settle(records).ok()?,
            Kind::Values(_)
            | Kind::Within(_)
            | Kind::Python(_)
            | Kind::Markup(_)
            | Kind::Rows(_)
            | Kind::Parallel(_) => {}
        }
        lines.append(&mut reader.records.lines);
        Some(Tried { report: reader.records.report, lines })
    }
}

impl Kind {
    fn read(&mut self, piece: &str, records: &mut Records) -> Result<(), Fault> {
        match self {
            Self::Values(values) => values.push(piece, records),
            Self::Within(within) => within.push(piece, records),
            Self::Cells(cells) => cells.push(piece.as_bytes(), records),
            Self::Python(python) => python.push(piece.as_bytes(), records),
            Self::ByLine(by_line) => by_line.push(piece, records),
            Self::Markup(markup) => markup.push(piece, records),
            Self::Html(html) => html.push(piece, records),
            Self::Rows(rows) => rows.push(piece.as_bytes(), records),
            Self::Parallel(parallel) => parallel.push(piece),
        }
    }
}
