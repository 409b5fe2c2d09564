//! JSON Lines in columns.

use crate::output::printable;

/// Most characters of a cell; a longer value is cut.
const CELL_CHARACTERS_MAX: usize = 40;

/// A value and the name of its column.
type Cell = (String, String);

/// One row a line. Objects have a column for each key, in the order of first appearance; other values stand in one column.
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
    match lro_jsonl::members(line) {
        Ok(members) => members.iter().map(|member| (cell(&text(member.key)), cut(&text(member.value)))).collect(),
        Err(_) => vec![("value".to_owned(), cut(line))],
    }
}

/// A string without its quotes and escapes, any other value as it is spelled.
fn text(json: &str) -> String {
    serde_json::from_str(json).unwrap_or_else(|_| json.to_owned())
}

/// On one line, and without what a terminal would act upon, so that it is as wide as it has characters.
fn cell(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

fn cut(text: &str) -> String {
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
