//! The forms in which results are printed.

use std::io::{self, IsTerminal, Seek, Write};

use anyhow::bail;
use clap::ValueEnum;
use lro_host::extract::Answer;
use lro_table::{Table, TableError, TableFormat, each_record};
use serde::Serialize;

use crate::rows::Rows;
use crate::{markdown, table};

/// Output format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One JSON value per line
    #[value(alias = "lines")]
    Jsonl,
    /// One line of JSON: of `extract` {"results": […], "offset", "total", "left", "matched", "examined"}, and "cut",
    /// "next_bytes", "failures" and "notes" if applicable
    Json,
    /// Comma-separated values below a header, a column for each field; values inside values as JSON
    Csv,
    /// A table of Markdown
    Markdown,
    /// A Parquet file, a column for each field; values inside values as JSON. Not for a terminal
    Parquet,
    /// Columns, for people; long values are cut
    Table,
}

impl Format {
    /// Fails if the results would be bytes on a terminal.
    pub(crate) fn check(self, is_for_file: bool) -> anyhow::Result<()> {
        if self == Self::Parquet && !is_for_file && io::stdout().is_terminal() {
            bail!("Parquet is not for a terminal: name a file with --output, or redirect the output");
        }
        Ok(())
    }

    /// Writes results. `whole` is what the format `json` writes in their place.
    pub(crate) fn write(
        self,
        rows: &mut Rows,
        whole: &impl Serialize,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        match self {
            Self::Jsonl => {
                rows.rewind()?;
                io::copy(rows, out)?;
            }
            Self::Json => {
                serde_json::to_writer(&mut *out, whole)?;
                out.write_all(b"\n")?;
            }
            Self::Csv => write_table(TableFormat::Csv, rows, out)?,
            Self::Markdown => markdown::write(rows, out)?,
            Self::Parquet => write_table(TableFormat::Parquet, rows, out)?,
            Self::Table => table::write(rows, out)?,
        }
        Ok(())
    }

    /// Writes an answer without lines, whose results are the rows.
    pub(crate) fn write_answer(
        self,
        rows: &mut Rows,
        answer: &Answer,
        out: &mut (dyn Write + Send),
    ) -> anyhow::Result<()> {
        if self != Self::Json {
            return self.write(rows, answer, out);
        }
        let answer = serde_json::to_string(answer)?;
        let (before, behind) = answer.split_once("[]").unwrap_or((&answer, ""));
        write!(out, "{before}[")?;
        let mut separator = "";
        each_record(rows, |line| write!(out, "{}{line}", std::mem::replace(&mut separator, ",")))?;
        Ok(writeln!(out, "]{behind}")?)
    }
}

fn write_table(format: TableFormat, rows: &mut Rows, out: &mut (dyn Write + Send)) -> Result<(), TableError> {
    Table::of(format, rows)?.write(rows, out)
}

/// Writes the lines of an answer, and returns it without them.
pub(crate) fn into_lines(answer: Answer, out: &mut dyn Write) -> anyhow::Result<Answer> {
    out.write_all(answer.lines.as_bytes())?;
    Ok(Answer { lines: String::new(), ..answer })
}
