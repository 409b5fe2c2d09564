//! Answers questions about offloaded files: typed queries and jq programs over one JSONL file, SQL over
//! several, searches of texts and records.
//!
//! Two components of the world `lro-extract` are made from it: `lro-extract`, for all questions but SQL, and
//! `lro-extract-sql`, so that only hosts that meet SQL compile what it takes.
//!
//! Typed queries stream: the file is read in slices, each record is read in place, and only values needed for the
//! answer are kept. Fields that the query does not name are not parsed.
//!
//! | module | what it does |
//! |---|---|
//! | `preopened` | the files in the preopened directories of a component |
//! | `lines` | the file in slices, and runs of complete lines |
//! | `masks`, `find` | the wanted members of each record, 64 bytes at a time |
//! | `json` | checks of values |
//! | `number`, `key`, `keys` | exact comparison, order and equality of values |
//! | `numeric` | texts that are numbers |
//! | `fields`, `near` | the fields of a query, and suggestions for an unknown one |
//! | `condition`, `group`, `sum`, `results`, `order` | the steps of a query |
//! | `query` | a typed query from beginning to end, and over parts of the records |
//! | `jq`, `functions`, `regex` | a jq program, and functions of it that the interpreter is slow at |
//! | `sql` | a SQL query over one or several files |
//! | `search`, `range` | a search of texts and records, and lines by their numbers |
//! | `reach`, `record` | the members that a jq program reads, and records as jq values |
//! | `answer` | lines within the budget |
//! | [`plain`] | questions, answers and errors as plain types |

mod answer;
mod condition;
mod fields;
mod find;
mod functions;
mod group;
mod jq;
mod json;
mod key;
mod keys;
mod lines;
mod near;
mod number;
mod numeric;
mod order;
mod pattern;
#[cfg(target_arch = "wasm32")]
mod preopened;
mod query;
mod range;
mod reach;
mod record;
mod regex;
mod results;
mod search;
mod sql;
mod sum;

use std::ops::Range;

/// Rust types of the WIT files.
#[expect(missing_docs, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "lro-extract",
        generate_all,
        pub_export_macro: true,
        default_bindings_module: "lro_answer::bindings",
    });
}

/// Conversions between these types and the plain ones of `lro-reading`.
pub mod plain {
    lro_contract::query_conversions!(crate::bindings::lro::filter::types);
    lro_reading::question_conversions!(
        crate::bindings::exports::lro::filter::lro_query,
        crate::bindings::lro::filter::types
    );
}

pub use bindings::exports::lro::filter::lro_query::{
    Answer, Argument, Budget, ExtractError, Failures, Guest, Jq, LineRange, Pattern, Question, Search, Source, Sql,
    SyntaxError, UnknownField,
};
pub use bindings::lro::filter::types::{FileKind, Query};
pub use condition::{PATTERN_BYTES_MAX, STEPS_MAX};
pub use group::GROUPS_BYTES_MAX;
pub use jq::{ARGUMENTS_MAX, FILTER_BYTES_MAX};
pub use lines::RECORD_BYTES_MAX;
pub use order::ORDER_BYTES_MAX;
#[cfg(target_arch = "wasm32")]
pub use preopened::with_files;
pub use results::{DISTINCT_BYTES_MAX, LIMIT_DEFAULT, LIMIT_MAX, PART_RESULTS_MAX};
pub use search::HITS_DEFAULT;
pub use sql::{TABLES_MAX, extract_sql};

/// Reads up to a number of bytes from an offset of the file; empty only at its end. The error is a message for people.
type Read<'a> = dyn FnMut(u64, u32) -> Result<Vec<u8>, String> + 'a;

/// Reads from the source of an index: up to a number of bytes from an offset; empty only at the end of the file. The error
/// is a message for people.
pub type ReadSource<'a> = dyn FnMut(usize, u64, u32) -> Result<Vec<u8>, String> + 'a;

/// Answers a question about the sources that `read` returns. SQL is refused: [`extract_sql`] answers it.
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn extract(
    sources: &[Source],
    question: &Question,
    budget: Budget,
    read: &mut ReadSource<'_>,
) -> Result<Answer, ExtractError> {
    check(sources)?;
    let mut first = |offset, length| read(0, offset, length);
    match question {
        Question::Query(query) => query::run(records(sources)?, query, budget, &mut first),
        Question::Jq(jq) => jq::run(records(sources)?, jq, 0..u64::MAX, budget, &mut first),
        Question::Search(search) => search::run(sources, search, budget, read),
        Question::Sql(_) => {
            Err(ExtractError::Invalid("this component does not answer SQL; `lro-extract-sql` does".to_owned()))
        }
        Question::Lines(range) => range::run(only(sources)?, *range, budget, &mut first),
    }
}

/// Finds what a query asks for in a part of the records, for [`merge_parts`].
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn extract_part(source: &Source, query: &Query, read: &mut ReadSource<'_>) -> Result<Vec<u8>, ExtractError> {
    let sources = std::slice::from_ref(source);
    check(sources)?;
    query::run_part(records(sources)?, query, &mut |offset, length| read(0, offset, length))
}

/// Answers a query about all records from what [`extract_part`] found in parts of them, in their order.
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn merge_parts(
    source: &Source,
    query: &Query,
    parts: &[Vec<u8>],
    budget: Budget,
    read: &mut ReadSource<'_>,
) -> Result<Answer, ExtractError> {
    let sources = std::slice::from_ref(source);
    check(sources)?;
    query::merge(records(sources)?, query, parts, budget, &mut |offset, length| read(0, offset, length))
}

/// Answers a jq program with the results whose numbers are in `page`: those before take no room. All are counted.
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn extract_jq(
    sources: &[Source],
    jq: &Jq,
    page: Range<u64>,
    budget: Budget,
    read: &mut ReadSource<'_>,
) -> Result<Answer, ExtractError> {
    check(sources)?;
    jq::run(records(sources)?, jq, page, budget, &mut |offset, length| read(0, offset, length))
}

fn only(sources: &[Source]) -> Result<&Source, ExtractError> {
    match sources {
        [source] => Ok(source),
        _ => Err(ExtractError::Invalid(format!("sources: only a search and SQL take {}, not one", sources.len()))),
    }
}

fn records(sources: &[Source]) -> Result<&Source, ExtractError> {
    match only(sources)? {
        source if source.kind == FileKind::Records => Ok(source),
        source => Err(ExtractError::Invalid(format!("source: {} has no records to query; search it", source.name))),
    }
}

fn check(sources: &[Source]) -> Result<(), ExtractError> {
    match sources.iter().find(|source| source.start > source.bytes) {
        Some(source) => Err(ExtractError::Invalid(format!("source: {} starts beyond its end", source.name))),
        None => Ok(()),
    }
}
