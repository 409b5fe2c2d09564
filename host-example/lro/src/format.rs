//! The forms in which results are printed.

use std::io::{self, IsTerminal, Write};

use anyhow::bail;
use clap::ValueEnum;
use serde::Serialize;

use crate::{csv, markdown, parquet, table};

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

    /// Writes results, given as JSON Lines. `whole` is what the format `json` writes in their place.
    pub(crate) fn write(self, lines: &str, whole: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
        match self {
            Self::Jsonl => out.write_all(lines.as_bytes())?,
            Self::Json => {
                serde_json::to_writer(&mut *out, whole)?;
                out.write_all(b"\n")?;
            }
            Self::Csv => csv::write(lines, out)?,
            Self::Markdown => markdown::write(lines, out)?,
            Self::Parquet => parquet::write(lines, out)?,
            Self::Table => out.write_all(table::of_lines(lines)?.as_bytes())?,
        }
        Ok(())
    }
}
