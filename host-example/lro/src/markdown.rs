//! Writes results as a table of Markdown.

use std::io::{self, Write};

use crate::columns::{Columns, text};
use crate::output::printable;

/// Writes a header, and a row for each result, with whole values.
pub(crate) fn write(lines: &str, out: &mut dyn Write) -> anyhow::Result<()> {
    let columns = Columns::of(lines)?;
    if columns.names().is_empty() {
        return Ok(());
    }
    row(columns.names().iter().map(|name| escaped(name)), out)?;
    row(columns.names().iter().map(|_| "---".to_owned()), out)?;
    for line in lines.lines() {
        let cell = |value: Option<&str>| value.map(|json| escaped(&text(json))).unwrap_or_default();
        row(columns.values(line).into_iter().map(cell), out)?;
    }
    Ok(())
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
