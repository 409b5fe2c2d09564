//! Formats JSON Lines as a table.

use crate::columns::{Columns, text};
use crate::output::printable;

/// Maximum length of a cell, in characters; longer values are truncated.
const CELL_CHARACTERS_MAX: usize = 40;

/// Formats one row per line. Objects have a column per key, in order of first appearance; other values share one
/// column.
pub(crate) fn of_lines(lines: &str) -> anyhow::Result<String> {
    let columns = Columns::of(lines)?;
    let heading: Vec<String> = columns.names().iter().map(|name| cell(name)).collect();
    if heading.is_empty() {
        return Ok(String::new());
    }
    let row = |line| columns.values(line).into_iter().map(|value| value.map(truncated).unwrap_or_default()).collect();
    let rows: Vec<Vec<String>> = lines.lines().map(row).collect();
    let mut widths = vec![0; heading.len()];
    for row in std::iter::once(&heading).chain(&rows) {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    Ok(std::iter::once(&heading).chain(&rows).map(|row| line(row, &widths)).collect())
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

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(value, width)| format!("{value:width$}")).collect();
    format!("{}\n", cells.join("  ").trim_end())
}
