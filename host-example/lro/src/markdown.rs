//! Writes results as a table of Markdown.

use std::io::{self, Write};

use lro_table::{Columns, each_record, text};

use crate::output::printable;
use crate::rows::Rows;

/// Writes a header, and a row for each result, with whole values.
pub(crate) fn write(rows: &mut Rows, out: &mut dyn Write) -> anyhow::Result<()> {
    let columns = Columns::of(rows)?;
    if columns.names().is_empty() {
        return Ok(());
    }
    row(columns.names().iter().map(|name| escaped(name)), out)?;
    row(columns.names().iter().map(|_| "---".to_owned()), out)?;
    let cell = |value: Option<&str>| value.map(|json| escaped(&text(json))).unwrap_or_default();
    Ok(each_record(rows, |line| row(columns.values(line).into_iter().map(cell), out))?)
}

fn row(cells: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(b"|")?;
    for cell in cells {
        write!(out, " {cell} |")?;
    }
    out.write_all(b"\n")
}

/// A text as one cell, in which no character ends the cell or begins HTML.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;");
    printable(&text).replace('\n', "<br>")
}
