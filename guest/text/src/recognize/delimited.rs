//! CSV, TSV and their relatives.

use std::cmp::Ordering;

use super::blanks::{blanks, value_columns};
use super::{Blanks, Form, Head};
use crate::readers::{Column, Report, Rule, named_delimiter};

/// Fewest rows beside the header that show a table: 2.
const ROWS_MIN: u64 = 2;

/// Longest name of a column in a text that nothing else calls a table, in characters: 64. Longer ones are sentences.
const NAME_CHARACTERS_MAX: usize = 64;

/// A table that one delimiter makes of a text.
struct Found {
    delimiter: u8,
    header: bool,
    blanks: Blanks,
    columns: usize,
}

impl Found {
    fn form(&self) -> Form {
        Form::Delimited { delimiter: self.delimiter, header: self.header, blanks: self.blanks }
    }
}

/// What says that a text is a table, besides its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Called {
    Nothing,
    /// A line that names the delimiter.
    ByLine,
    /// Its type or name: its rows may be ragged.
    ByName,
}

/// Delimiters that a text may have by its type and name, and whether these say that it has some.
fn delimiters(head: &Head<'_>) -> (&'static [u8], Called) {
    let comma = head.hints.name_one_of(&["text/csv", "application/csv"], &[".csv"]);
    let tab = head.hints.name_one_of(&["text/tab-separated-values"], &[".tsv", ".tab"]);
    let called = if comma || tab { Called::ByName } else { Called::Nothing };
    (if tab { b"\t" } else { b",\t;|" }, called)
}

/// The delimiter that makes a table of the text, if there is one alone.
pub(super) fn delimited(head: &Head<'_>) -> Option<Form> {
    let (delimiters, called) = delimiters(head);
    // Of several delimiters, the one with more columns is meant: decimal commas stand in columns apart by semicolons. Where
    // nothing calls the text a table, a space behind a comma rather belongs to the words of a cell.
    let is_named = called == Called::ByName;
    let rank = |found: &Found| (is_named || !found.blanks.leading, found.columns, !found.blanks.leading);
    let mut found = delimiters.iter().filter_map(|&delimiter| table(head, delimiter, called));
    let first = found.next()?;
    let best = found.try_fold(first, |best, next| match rank(&best).cmp(&rank(&next)) {
        Ordering::Less => Some(next),
        Ordering::Equal => None,
        Ordering::Greater => Some(best),
    })?;
    Some(best.form())
}

/// As [`delimited`], but only with spaces around the delimiters: such a text looks like one with aligned columns.
pub(super) fn spaced(head: &Head<'_>) -> Option<Form> {
    let (delimiters, called) = delimiters(head);
    let is_spaced = |&delimiter: &u8| blanks(head.lines(), delimiter, called == Called::ByName) != Blanks::default();
    let form = delimiters.iter().any(is_spaced).then(|| delimited(head))??;
    matches!(form, Form::Delimited { blanks, .. } if blanks != Blanks::default()).then_some(form)
}

/// The table behind a first line that names its delimiter.
pub(super) fn named(head: &Head<'_>) -> Option<Form> {
    let (line, text) = head.text.split_once('\n')?;
    let delimiter = named_delimiter(line.strip_suffix('\r').unwrap_or(line))?;
    let called = delimiters(head).1;
    let called = if called == Called::Nothing { Called::ByLine } else { called };
    table(&Head { text, ..*head }, delimiter, called).map(|found| found.form())
}

/// The table that a delimiter makes of the text.
fn table(head: &Head<'_>, delimiter: u8, called: Called) -> Option<Found> {
    let may_be_ragged = called == Called::ByName;
    let blanks = blanks(head.lines(), delimiter, may_be_ragged);
    let with = head.try_lines(&Form::Delimited { delimiter, header: true, blanks })?.report;
    let columns = with.columns.len();
    let is_ragged = with.ragged > 0 && !may_be_ragged;
    if columns < 2 || is_ragged {
        return None;
    }
    let found = |header| Found { delimiter, header, blanks, columns };
    match head.hints.header() {
        Some(header) => return Some(found(header)),
        None if called != Called::Nothing => return Some(found(is_header(&with.columns))),
        None => {}
    }
    if !blanks.leading && is_prose(head.text, delimiter) {
        return None;
    }
    let header = is_header(&with.columns);
    if blanks.leading && !holds_values(head, delimiter, header) {
        return None;
    }
    if header {
        return (with.records >= ROWS_MIN).then(|| found(true));
    }
    let without = head.try_lines(&Form::Delimited { delimiter, header: false, blanks })?.report;
    is_data(&without).then(|| found(false))
}

/// Whether numbers or dates show that commas with a space behind are no punctuation: in any column below a header, in the
/// first one without.
fn holds_values(head: &Head<'_>, delimiter: u8, header: bool) -> bool {
    let columns = value_columns(head.lines(), delimiter, usize::from(header));
    if header { columns.contains(&true) } else { columns.first() == Some(&true) }
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
