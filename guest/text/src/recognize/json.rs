//! JSON values, with and without text around them.

use super::{Form, Head};
use crate::broken::BrokenJson;
use crate::readers::{Reader, may_follow};

/// Places in a text that are tried as the beginning of JSON: 16.
const STARTS_MAX: usize = 16;

/// What the media type or the name of JSON values is.
const TYPES: [&str; 4] = ["application/x-ndjson", "application/ndjson", "application/jsonl", "application/json-seq"];
const EXTENSIONS: [&str; 2] = [".jsonl", ".ndjson"];

/// White space, and the record separator of RFC 7464.
const BETWEEN: [char; 5] = [' ', '\n', '\r', '\t', '\u{1e}'];

/// JSON values at the beginning of a text, as far as the head shows.
pub(super) enum Values {
    /// One container, complete or not.
    Document,
    /// Two and more, or any that a hint calls JSON Lines.
    Several,
}

/// JSON values without any other text.
pub(super) fn values(head: &Head<'_>) -> Option<Values> {
    let hinted = head.hints.name_one_of(&TYPES, &EXTENSIONS);
    if !hinted && !head.text.trim_start_matches(BETWEEN).starts_with(['{', '[']) {
        return None;
    }
    let records = Reader::try_head(&Form::JsonValues, head.text, head.complete)?.report.records;
    Some(if hinted || records > 1 { Values::Several } else { Values::Document })
}

/// JSON Lines with a few lines that are not JSON, the first of which is.
pub(super) fn lines(head: &Head<'_>) -> Option<Form> {
    let first = head.text.lines().find(|line| !line.trim_ascii().is_empty())?.trim_ascii();
    let is_container = first.starts_with(['{', '[']) && Reader::try_head(&Form::JsonValues, first, true).is_some();
    (is_container && head.try_lines(&Form::JsonLines).is_some()).then_some(Form::JsonLines)
}

/// JSON at the beginning of a line, or behind a colon in the first line.
pub(super) fn within(head: &Head<'_>) -> Option<Form> {
    starts(head.text).take(STARTS_MAX).find_map(|start| {
        let form = |document| Form::JsonWithin { start: start as u64, document };
        let report = Reader::try_head(&form(false), head.text, head.complete)?.report;
        let is_cut = report.records == 0 && !head.complete;
        (head.is_most(report.outside) && (report.records > 0 || is_cut)).then(|| form(report.records < 2))
    })
}

/// The elements of an array in a document that breaks in the head.
pub(super) fn elements(head: &Head<'_>) -> Option<Form> {
    let mut json = BrokenJson::default();
    if !head.text.trim_start().starts_with(['{', '[']) || json.push(head.text) && !head.complete {
        return None;
    }
    let form = json.finish()?.elements?;
    let report = Reader::try_head(&form, head.text, head.complete)?.report;
    head.is_most(report.outside).then_some(form)
}

/// Where JSON may begin, in order.
fn starts(text: &str) -> impl Iterator<Item = usize> {
    let first_line = text.lines().next().unwrap_or_default();
    let behind_colon = first_line.match_indices(": ").map(|(at, _)| at + 2);
    let mut line_start = 0;
    let lines = text.split_inclusive('\n').map(move |line| {
        line_start += line.len();
        line_start - line.len() + (line.len() - line.trim_start().len())
    });
    let begins = |start: &usize| {
        let mut following = text[*start..].chars();
        let Some(bracket @ ('{' | '[')) = following.next() else { return false };
        let next = following.find(|character| !character.is_ascii_whitespace());
        next.is_some_and(|next| may_follow(bracket, next))
    };
    behind_colon.chain(lines).filter(begins)
}
