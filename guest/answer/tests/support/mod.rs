//! Shared by the tests: a file in memory, and shorthand for queries.

#![allow(dead_code, clippy::unwrap_used, reason = "no test file uses all of it; a test fails by panicking")]

use lro_answer::bindings::lro::filter::types::{
    Aggregate, AggregateKind, Condition, Group, Operator, Query, Selection, SortKey, Test,
};
use lro_answer::{Answer, Budget, ExtractError, FileKind, Jq, Question, Source, extract, extract_part, merge_parts};

pub(crate) const ROOMY: Budget = Budget { bytes: 1 << 20, tokens: 1 << 20 };

/// Queries a text whose reads return at most `cut` bytes.
pub(crate) fn ask_cut(text: &[u8], cut: usize, question: &Question, budget: Budget) -> Result<Answer, ExtractError> {
    ask_all(&[(FileKind::Records, text)], cut, question, budget)
}

/// Asks about several texts, whose reads return at most `cut` bytes.
pub(crate) fn ask_all(
    files: &[(FileKind, &[u8])],
    cut: usize,
    question: &Question,
    budget: Budget,
) -> Result<Answer, ExtractError> {
    let sources: Vec<_> = files.iter().enumerate().map(|(index, (kind, text))| source(index, *kind, text)).collect();
    extract(&sources, question, budget, &mut |index, offset, length| {
        let rest = files[index].1.get(offset as usize..).unwrap_or_default();
        Ok(rest.get(..cut.min(length as usize).min(rest.len())).unwrap_or_default().to_vec())
    })
}

/// Answers a query from what it finds in parts of a text, at most so many and each of whole lines.
pub(crate) fn ask_in_parts(text: &[u8], most: usize, query: &Query, budget: Budget) -> Result<Answer, ExtractError> {
    let records = text.split_inclusive(|byte| *byte == b'\n').count() as u64;
    let whole = Source { records, ..source(0, FileKind::Records, text) };
    let mut read = |_, offset: u64, length: u32| {
        let rest = text.get(offset as usize..).unwrap_or_default();
        Ok(rest.get(..rest.len().min(length as usize)).unwrap_or_default().to_vec())
    };
    let end_behind =
        |at: usize| text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |feed| at + feed + 1);
    let ends = (1..most).map(|part| end_behind(text.len() * part / most)).chain([text.len()]);
    let (mut start, mut parts) = (0, Vec::new());
    for end in ends {
        let part = Source { start, bytes: end as u64, ..whole.clone() };
        parts.push(extract_part(&part, query, &mut read)?);
        start = end as u64;
    }
    merge_parts(&whole, query, &parts, budget, &mut read)
}

/// The source of an index, without a header line.
pub(crate) fn source(index: usize, kind: FileKind, text: &[u8]) -> Source {
    let (name, section) = (format!("file-{index}"), format!("section-{index}"));
    Source { name, directory: 0, section, kind, start: 0, bytes: text.len() as u64, records: 0 }
}

pub(crate) fn ask(text: &str, query: Query) -> Result<Answer, ExtractError> {
    ask_cut(text.as_bytes(), usize::MAX, &Question::Query(query), ROOMY)
}

/// The lines of an answer.
pub(crate) fn lines(text: &str, query: Query) -> Vec<String> {
    ask(text, query).unwrap().lines.lines().map(str::to_owned).collect()
}

pub(crate) fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), slurp: false, arguments: Vec::new() })
}

pub(crate) fn ask_jq(text: &str, filter: &str) -> Result<Answer, ExtractError> {
    ask_cut(text.as_bytes(), usize::MAX, &jq(filter), ROOMY)
}

pub(crate) fn all() -> Query {
    Query {
        where_: Vec::new(),
        group: None,
        select: Vec::new(),
        distinct: false,
        sort: Vec::new(),
        sample: None,
        count: false,
        offset: 0,
        limit: None,
    }
}

pub(crate) fn test(field: &str, operator: Operator, value: &str) -> Condition {
    let value = (!value.is_empty()).then(|| value.to_owned());
    Condition::Test(Test { field: field.to_owned(), operator, value, ignore_case: false, parameter: None })
}

pub(crate) fn only(field: &str, operator: Operator, value: &str) -> Query {
    Query { where_: vec![test(field, operator, value)], ..all() }
}

pub(crate) fn select(fields: &[&str]) -> Vec<Selection> {
    fields.iter().map(|field| Selection { field: (*field).to_owned(), name: None }).collect()
}

pub(crate) fn sort(field: &str, descending: bool) -> Vec<SortKey> {
    vec![SortKey { field: field.to_owned(), descending }]
}

pub(crate) fn aggregate(kind: AggregateKind, field: &str) -> Aggregate {
    Aggregate { kind, field: (!field.is_empty()).then(|| field.to_owned()), name: None }
}

pub(crate) fn group(by: &[&str], aggregates: Vec<Aggregate>) -> Option<Group> {
    Some(Group { by: select(by), aggregates })
}
