//! CSV, TSV and their relatives.

use super::{Form, Head};
use crate::readers::{Column, Report, Rule};

/// Fewest rows beside the header that show a table: 2.
const ROWS_MIN: u64 = 2;

/// Longest name of a column in a text that nothing else calls a table, in characters: 64. Longer ones are sentences.
const NAME_CHARACTERS_MAX: usize = 64;

/// The delimiter that makes a table of the text, if there is one alone.
pub(super) fn delimited(head: &Head<'_>) -> Option<Form> {
    let comma = head.hints.name_one_of(&["text/csv", "application/csv"], &[".csv"]);
    let tab = head.hints.name_one_of(&["text/tab-separated-values"], &[".tsv", ".tab"]);
    let delimiters: &[u8] = if tab { b"\t" } else { b",\t;|" };
    let mut found = delimiters.iter().filter_map(|&delimiter| Some((delimiter, table(head, delimiter, comma || tab)?)));
    let first = found.next()?;
    // Of several delimiters, the one with more columns is meant: decimal commas stand in columns apart by semicolons.
    let (delimiter, (_, header)) = found.try_fold(first, |best, next| match best.1.0.cmp(&next.1.0) {
        std::cmp::Ordering::Less => Some(next),
        std::cmp::Ordering::Equal => None,
        std::cmp::Ordering::Greater => Some(best),
    })?;
    Some(Form::Delimited { delimiter, header })
}

/// The number of columns with this delimiter, and whether the first row is a header.
fn table(head: &Head<'_>, delimiter: u8, hinted: bool) -> Option<(usize, bool)> {
    let with = head.try_lines(&Form::Delimited { delimiter, header: true })?.report;
    let columns = with.columns.len();
    let is_ragged = with.ragged > 0 && !hinted;
    if columns < 2 || is_ragged {
        return None;
    }
    match head.hints.header() {
        Some(header) => return Some((columns, header)),
        None if hinted => return Some((columns, is_header(&with.columns))),
        None => {}
    }
    if is_prose(head.text, delimiter) {
        return None;
    }
    if is_header(&with.columns) {
        return (with.records >= ROWS_MIN).then_some((columns, true));
    }
    let without = head.try_lines(&Form::Delimited { delimiter, header: false })?.report;
    is_data(&without).then_some((columns, false))
}

/// Without a header, numbers in a column of at least three are the evidence.
fn is_data(report: &Report) -> bool {
    let is_number = |column: &Column| matches!(column.rule, Rule::Number | Rule::Float | Rule::Fixed { .. });
    report.records > ROWS_MIN && report.columns.len() > 2 && report.columns.iter().any(is_number)
}

/// Whether these names of the first row are those of columns, and no values. The first may be missing: it is often the
/// index.
fn is_header(columns: &[Column]) -> bool {
    columns.iter().enumerate().all(|(index, column)| {
        let mut characters = column.name.chars();
        let is_missing = index > 0 && column.name == format!("column_{}", index + 1);
        let is_name =
            characters.next().is_some_and(|first| first.is_alphabetic() || matches!(first, '_' | '#' | '%' | '$'));
        let is_value = matches!(column.name.as_str(), "true" | "false" | "null");
        is_name && !is_missing && !is_value && column.name.chars().count() <= NAME_CHARACTERS_MAX
    })
}

/// Whether a space follows most delimiters outside quotes, as in sentences.
fn is_prose(text: &str, delimiter: u8) -> bool {
    let (mut in_quotes, mut delimiters, mut spaced) = (false, 0, 0);
    for pair in text.as_bytes().windows(2) {
        in_quotes ^= pair[0] == b'"';
        let is_delimiter = !in_quotes && pair[0] == delimiter;
        delimiters += usize::from(is_delimiter);
        spaced += usize::from(is_delimiter && pair[1] == b' ');
    }
    spaced * 2 > delimiters
}
