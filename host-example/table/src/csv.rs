//! Writes records as comma-separated values.

use std::io::{self, Read, Seek, Write};

use crate::columns::{Columns, text};
use crate::{TableError, each_record};

/// Writes a header, and a row for each record.
pub(crate) fn write(
    columns: &Columns,
    records: &mut (impl Read + Seek),
    out: &mut dyn Write,
) -> Result<(), TableError> {
    if columns.names().is_empty() {
        return Ok(());
    }
    row(columns.names().iter().map(|name| quoted(name)), out)?;
    // A reader would skip an empty line.
    let nothing = if columns.names().len() == 1 { "\"\"" } else { "" };
    let cell = |value: Option<&str>| match value {
        None | Some("null") => nothing.to_owned(),
        Some(json) => quoted(&text(json)),
    };
    each_record(records, |line| Ok(row(columns.values(line).into_iter().map(cell), out)?))
}

fn row(cells: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    for (index, cell) in cells.enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        out.write_all(cell.as_bytes())?;
    }
    out.write_all(b"\n")
}

/// A text, in quotes where a reader would take it for something else.
fn quoted(text: &str) -> String {
    let has_space_around = text.trim().len() != text.len();
    if text.is_empty() || has_space_around || text.contains([',', '"', '\n', '\r']) {
        return format!("\"{}\"", text.replace('"', "\"\""));
    }
    text.to_owned()
}
