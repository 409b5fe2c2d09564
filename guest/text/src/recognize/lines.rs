//! Forms that show in whole lines: tables, blocks of named values, and lists in YAML.

use super::{Form, Head};
use crate::readers::{COLUMNS_MAX, Tried, is_record_heading, is_row_heading, is_underline, padded_cells, starts};

/// Fewest records that show a list or a table without a rule: 2.
const RECORDS_MIN: u64 = 2;

/// Fewest columns of a table whose names are apart by single spaces: 3.
const PADDED_COLUMNS_MIN: usize = 3;

/// At most one in five cells of a padded table may stand beside its place: a wide one moves those behind it.
const UNALIGNED_SHARE_MAX: usize = 5;

/// Fewest blocks of named values without a heading each: 3.
const BLOCKS_MIN: u64 = 3;

pub(super) fn markdown(head: &Head<'_>) -> Option<Form> {
    table(head, Form::MarkdownTable, 1)
}

pub(super) fn ruled(head: &Head<'_>) -> Option<Form> {
    table(head, Form::RuledTable, 1)
}

/// Names in capitals, as in the tables of command line tools, or underlined.
pub(super) fn aligned(head: &Head<'_>) -> Option<Form> {
    let mut lines = head.text.lines();
    let header = lines.next()?;
    let is_header = starts(header, 2).len() > 1 && starts(header, 2).first() == Some(&0);
    let is_marked = lines.next().is_some_and(is_underline) || !header.contains(char::is_lowercase);
    if is_header && is_marked { table(head, Form::AlignedTable, RECORDS_MIN) } else { None }
}

/// Names with a letter each above cells that line up with them on one side, with numbers in a column at least.
pub(super) fn padded(head: &Head<'_>) -> Option<Form> {
    let header = head.text.lines().next()?;
    let words = header.split_whitespace().count();
    let is_name = |word: &str| word.contains(char::is_alphabetic);
    if !(PADDED_COLUMNS_MIN..=COLUMNS_MAX).contains(&words) || !header.split_whitespace().all(is_name) {
        return None;
    }
    // The last name may be two words: `Mounted on`.
    let fits = |columns: &usize| *columns >= PADDED_COLUMNS_MIN && lines_up(head.lines(), *columns);
    let mut fitting = [words, words - 1].into_iter().filter(fits);
    fitting.find_map(|columns| table(head, Form::PaddedTable { columns }, RECORDS_MIN))
}

/// Whether nearly all cells line up with their names, and a column holds numbers alone.
fn lines_up(text: &str, columns: usize) -> bool {
    let mut lines = text.lines().take_while(|line| !line.trim().is_empty());
    let Some(names) = lines.next().and_then(|header| padded_cells(header, columns)) else { return false };
    let mut is_number = vec![true; columns];
    let (mut all, mut aligned) = (0, 0);
    for line in lines {
        let Some(cells) = padded_cells(line, columns) else { return false };
        for (index, (name, cell)) in names.iter().zip(cells).enumerate() {
            all += 1;
            aligned += usize::from(name.place.start == cell.place.start || name.place.end == cell.place.end);
            is_number[index] &= cell.text.starts_with(|first: char| first.is_ascii_digit());
        }
    }
    is_number.contains(&true) && (all - aligned) * UNALIGNED_SHARE_MAX <= all
}

/// Blocks with the same names in the same order.
pub(super) fn blocks(head: &Head<'_>) -> Option<Form> {
    let first = head.text.lines().find(|line| !line.trim().is_empty())?;
    let form = |delimiter| Form::KeyedBlocks { delimiter };
    if is_record_heading(first) {
        return table(head, form(b'|'), 1);
    }
    if is_row_heading(first) {
        return table(head, form(b':'), 1);
    }
    // A text whose first line names no value for one delimiter is refused at once by its reader.
    table(head, form(b'='), BLOCKS_MIN).or_else(|| table(head, form(b':'), BLOCKS_MIN))
}

/// A list whose maps begin with the same key: a list in prose has no keys, or different ones.
pub(super) fn yaml(head: &Head<'_>) -> Option<Form> {
    if !head.text.contains("- ") {
        return None;
    }
    let Tried { report, lines } = head.try_lines(&Form::YamlList)?;
    let mut keys = lines.split(|&byte| byte == b'\n').filter_map(|line| line.split(|&byte| byte == b':').next());
    let first = keys.next()?;
    let is_alike = keys.all(|key| key.is_empty() || key == first);
    (report.records >= RECORDS_MIN && is_alike).then_some(Form::YamlList)
}

/// A table of at least two columns in which no row is ragged.
fn table(head: &Head<'_>, form: Form, records_min: u64) -> Option<Form> {
    let report = head.try_lines(&form)?.report;
    let is_table = report.records >= records_min && report.columns.len() > 1 && report.ragged == 0;
    (is_table && head.is_most(report.outside)).then_some(form)
}
