//! Forms that show in whole lines: tables, and lists in YAML.

use super::{Form, Head};
use crate::readers::{Tried, is_underline, starts};

/// Fewest records that show a list or a table without a rule: 2.
const RECORDS_MIN: u64 = 2;

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
