//! Forms that are read a whole line at a time.

use super::blocks::Blocks;
use super::columns::Columns;
use super::error::Fault;
use super::json_lines::JsonLines;
use super::lines::Lines;
use super::markdown::Markdown;
use super::padded::Padded;
use super::records::Records;
use super::ruled::Ruled;
use super::yaml::Yaml;

/// A reader of lines, and the beginning of the next line.
#[derive(Debug)]
pub(crate) struct ByLine {
    lines: Lines,
    form: LineForm,
}

#[derive(Debug)]
pub(crate) enum LineForm {
    Blocks(Blocks),
    Columns(Columns),
    Json(JsonLines),
    Markdown(Markdown),
    Padded(Padded),
    Ruled(Ruled),
    Yaml(Yaml),
}

impl ByLine {
    pub(crate) fn new(form: LineForm) -> Self {
        Self { lines: Lines::default(), form }
    }

    pub(crate) fn push(&mut self, text: &str, records: &mut Records) -> Result<(), Fault> {
        let Self { lines, form } = self;
        lines.push(text, |line| form.line(line, records))
    }

    pub(crate) fn finish(mut self, records: &mut Records) -> Result<(), Fault> {
        if let Some(line) = self.lines.last() {
            self.form.line(&line, records)?;
        }
        match &mut self.form {
            LineForm::Blocks(blocks) => blocks.finish(records),
            LineForm::Yaml(yaml) => yaml.finish(records),
            table => table.settle(records),
        }
    }

    /// Decides the columns from what has been read.
    pub(crate) fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        self.form.settle(records)
    }
}

impl LineForm {
    fn line(&mut self, line: &str, records: &mut Records) -> Result<(), Fault> {
        match self {
            Self::Blocks(blocks) => blocks.line(line, records),
            Self::Columns(columns) => columns.line(line, records),
            Self::Json(json) => {
                json.line(line, records);
                Ok(())
            }
            Self::Markdown(markdown) => markdown.line(line, records),
            Self::Padded(padded) => padded.line(line, records),
            Self::Ruled(ruled) => ruled.line(line, records),
            Self::Yaml(yaml) => yaml.line(line, records),
        }
    }

    fn settle(&mut self, records: &mut Records) -> Result<(), Fault> {
        match self {
            Self::Blocks(blocks) => blocks.settle(records),
            Self::Columns(columns) => columns.finish(records),
            Self::Json(json) => json.settle(records),
            Self::Markdown(markdown) => markdown.finish(records),
            Self::Padded(padded) => padded.finish(records),
            Self::Ruled(ruled) => ruled.finish(records),
            Self::Yaml(_) => Ok(()),
        }
    }
}
