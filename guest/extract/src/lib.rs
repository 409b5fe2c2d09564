//! Answers questions about offloaded records: typed queries and jq programs over one JSONL file.
//!
//! Typed queries stream: the file is read in slices, each record is read in place, and only values needed for the
//! answer are kept. Fields that the query does not name are not parsed.
//!
//! | module | what it does |
//! |---|---|
//! | `component` | the export, and the file in the preopened directory |
//! | `lines` | the file in slices, and runs of complete lines |
//! | `masks`, `find` | the wanted members of each record, 64 bytes at a time |
//! | `json`, `path` | values inside a record |
//! | `number`, `key`, `keys` | exact comparison, order and equality of values |
//! | `fields`, `near` | the fields of a query, and suggestions for an unknown one |
//! | `condition`, `group`, `results`, `order` | the steps of a query |
//! | `query` | a typed query from beginning to end |
//! | `jq` | a jq program |
//! | `reach`, `record` | the members that a jq program reads, and records as jq values |
//! | `answer` | lines within the budget |

mod answer;
#[cfg(target_arch = "wasm32")]
mod component;
mod condition;
mod fields;
mod find;
mod group;
mod jq;
mod json;
mod key;
mod keys;
mod lines;
mod near;
mod number;
mod order;
mod path;
mod query;
mod reach;
mod record;
mod results;

/// Rust types of the WIT files.
#[allow(missing_docs, clippy::all, reason = "generated")]
pub mod bindings {
    wit_bindgen::generate!({ path: "../../wit", world: "lro-extract", generate_all });
}

pub use bindings::exports::lro::filter::lro_query::{
    Answer, Argument, Budget, ExtractError, Failures, Guest, Jq, Question, Source, SyntaxError, UnknownField,
};
pub use condition::{PATTERN_BYTES_MAX, STEPS_MAX};
pub use group::GROUPS_BYTES_MAX;
pub use jq::{ARGUMENTS_MAX, FILTER_BYTES_MAX};
pub use lines::RECORD_BYTES_MAX;
pub use order::ORDER_BYTES_MAX;
pub use results::{DISTINCT_BYTES_MAX, LIMIT_DEFAULT, LIMIT_MAX};

/// Reads up to a number of bytes from an offset of the file; empty only at its end. The error is a message for people.
pub type Read<'a> = dyn FnMut(u64, u32) -> Result<Vec<u8>, String> + 'a;

/// Answers a question about the records that `read` returns.
///
/// # Errors
/// [`ExtractError`], as described in the WIT.
pub fn extract(
    source: &Source,
    question: &Question,
    budget: Budget,
    read: &mut Read<'_>,
) -> Result<Answer, ExtractError> {
    if source.start > source.bytes {
        return Err(ExtractError::Invalid("source: start is beyond its end".to_owned()));
    }
    match question {
        Question::Query(query) => query::run(source, query, budget, read),
        Question::Jq(jq) => jq::run(source, jq, budget, read),
    }
}
