//! Formats JSON Lines as a table.

use crate::output::printable;

/// Maximum length of a cell, in characters; longer values are truncated.
const CELL_CHARACTERS_MAX: usize = 40;

/// Column name and value.
type Cell = (String, String);

/// Formats one row per line. Objects have a column per key, in order of first appearance; other values share one
/// column.
pub(crate) fn of_lines(lines: &str) -> String {
    let rows: Vec<Vec<Cell>> = lines.lines().map(row).collect();
    let mut columns: Vec<(&str, usize)> = Vec::new();
    for (name, value) in rows.iter().flatten() {
        let width = value.chars().count().max(name.chars().count());
        match columns.iter_mut().find(|(column, _)| column == name) {
            Some((_, widest)) => *widest = width.max(*widest),
            None => columns.push((name, width)),
        }
    }
    if columns.is_empty() {
        return String::new();
    }
    let heading: Vec<Cell> = columns.iter().map(|(name, _)| ((*name).to_owned(), (*name).to_owned())).collect();
    std::iter::once(&heading).chain(&rows).map(|row| line(row, &columns)).collect()
}

fn row(line: &str) -> Vec<Cell> {
    match lro_json::members(line) {
        Ok(members) => members.iter().map(|member| (cell(&text(member.key)), truncated(&text(member.value)))).collect(),
        Err(_) => vec![("value".to_owned(), truncated(line))],
    }
}

/// A string without quotes and escapes; any other value unchanged.
fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

/// Converts a text to one line without control characters, so that its width is its number of characters.
fn cell(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

fn truncated(text: &str) -> String {
    let plain = cell(text);
    if plain.chars().count() <= CELL_CHARACTERS_MAX {
        return plain;
    }
    plain.chars().take(CELL_CHARACTERS_MAX - 1).chain(['…']).collect()
}

fn line(row: &[Cell], columns: &[(&str, usize)]) -> String {
    let cell = |(name, width): &(&str, usize)| {
        let value = row.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value);
        format!("{value:width$}")
    };
    let cells: Vec<String> = columns.iter().map(cell).collect();
    format!("{}\n", cells.join("  ").trim_end())
}
