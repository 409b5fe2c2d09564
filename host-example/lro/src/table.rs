//! Writes results as a table for people.

use std::io::{self, Write};

use lro_table::{Columns, each_record, text};

use crate::output::printable;
use crate::rows::Rows;

/// Maximum length of a cell, in characters; longer values are truncated.
const CELL_CHARACTERS_MAX: usize = 40;

/// Writes one row per result. Objects have a column per key, in order of first appearance; other values share one
/// column.
pub(crate) fn write(rows: &mut Rows, out: &mut dyn Write) -> anyhow::Result<()> {
    let columns = Columns::of(rows)?;
    let heading: Vec<String> = columns.names().iter().map(|name| cell(name)).collect();
    if heading.is_empty() {
        return Ok(());
    }
    let row = |line: &str| -> Vec<String> {
        columns.values(line).into_iter().map(|value| value.map(truncated).unwrap_or_default()).collect()
    };
    let mut widths = vec![0; heading.len()];
    let mut widen = |row: &[String]| {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    };
    widen(&heading);
    each_record(rows, |line| -> io::Result<()> {
        widen(&row(line));
        Ok(())
    })?;
    out.write_all(aligned(&heading, &widths).as_bytes())?;
    Ok(each_record(rows, |line| out.write_all(aligned(&row(line), &widths).as_bytes()))?)
}

/// Converts a text to one line without control characters, so that its width is its number of characters.
fn cell(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

fn truncated(json: &str) -> String {
    let plain = cell(&text(json));
    if plain.chars().count() <= CELL_CHARACTERS_MAX {
        return plain;
    }
    plain.chars().take(CELL_CHARACTERS_MAX - 1).chain(['…']).collect()
}

fn aligned(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(value, width)| format!("{value:width$}")).collect();
    format!("{}\n", cells.join("  ").trim_end())
}
