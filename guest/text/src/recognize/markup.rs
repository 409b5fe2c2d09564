//! XML documents with repeated elements, and tables of HTML.

use std::collections::HashMap;

use super::{Form, Head};
use crate::readers::{MARKUP_DEPTH_MAX, Reader, Token, next_token};

/// What HTML begins with.
const HTML: [&str; 6] = ["<!doctype html", "<html", "<table>", "<table ", "<tr>", "<tr "];

/// Fewest records that show a table of HTML: 2. Pages are laid out in tables, too.
const RECORDS_MIN: u64 = 2;

/// A table of at least two columns in which no row is ragged.
pub(super) fn html(head: &Head<'_>) -> Option<Form> {
    let has_row = head.text.as_bytes().windows(3).any(|start| start.eq_ignore_ascii_case(b"<tr"));
    if !head.text.trim_start().starts_with('<') || !has_row {
        return None;
    }
    let report = Reader::try_head(&Form::HtmlTable, head.text, head.complete)?.report;
    let is_table = report.records >= RECORDS_MIN && report.columns.len() > 1 && report.ragged == 0;
    (is_table && head.is_most(report.outside)).then_some(Form::HtmlTable)
}

/// The elements nearest to the root that are there twice or more; of several, those there most often.
pub(super) fn xml(head: &Head<'_>) -> Option<Form> {
    let text = head.text.trim_start();
    let is_html = |start: &str| text.get(..start.len()).is_some_and(|begins| begins.eq_ignore_ascii_case(start));
    if !text.starts_with('<') || HTML.into_iter().any(is_html) {
        return None;
    }
    let form = Form::XmlElements { path: repeated(text)? };
    let report = Reader::try_head(&form, head.text, head.complete)?.report;
    (report.records > 1 && head.is_most(report.outside)).then_some(form)
}

/// The path of the repeated elements.
fn repeated(text: &str) -> Option<String> {
    let mut path: Vec<&str> = Vec::new();
    let mut counts: HashMap<String, (usize, u64)> = HashMap::new();
    let mut rest = text;
    while let Ok(Some((token, length))) = next_token(rest) {
        match token {
            Token::Open { name, is_empty, .. } => {
                path.push(name);
                if path.len() > MARKUP_DEPTH_MAX {
                    return None;
                }
                counts.entry(path.join("/")).or_insert((path.len(), 0)).1 += 1;
                if is_empty {
                    path.pop();
                }
            }
            Token::Close(_) => drop(path.pop()),
            Token::Text(_) | Token::Data(_) | Token::Nothing => {}
        }
        rest = &rest[length..];
    }
    let repeated = counts.into_iter().filter(|(_, (depth, count))| *depth > 1 && *count > 1);
    let best = repeated.min_by(|(path, (depth, count)), (other_path, (other_depth, other_count))| {
        depth.cmp(other_depth).then(other_count.cmp(count)).then(path.cmp(other_path))
    });
    best.map(|(path, _)| path)
}
