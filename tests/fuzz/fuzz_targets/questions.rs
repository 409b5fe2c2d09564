//! Whatever the text of a condition or a query, it is read or refused, and what is read has a canonical form that is read
//! as the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use query::{Condition, Query, QueryError};

// The source alone: the crate of the host brings a compiler along.
#[path = "../../../host-example/host/src/extract/query/mod.rs"]
#[allow(dead_code, unreachable_pub, reason = "the host uses the rest")]
mod query;

fn canonical(query: &Query) -> String {
    serde_json::to_string(query).expect("a query is JSON")
}

/// Reads the canonical form again. A condition just below the limit of levels may be above it then.
fn read_again(query: &Query) {
    let written = canonical(query);
    match Query::read(&written) {
        Ok(again) => assert_eq!(canonical(&again), written),
        Err(QueryError::Unexpected { expected, .. }) => assert!(expected.contains("levels"), "{written}: {expected}"),
        Err(error) => panic!("{written}: {error}"),
    }
}

fuzz_target!(|text: &str| {
    for condition in [Condition::of_expression(text), Condition::of_words(text), Condition::read(text)] {
        match condition {
            Ok(condition) => read_again(&Query { conditions: vec![condition], ..Query::default() }),
            Err(QueryError::Expression { offset, place, .. }) if place.is_empty() => {
                assert!(text.is_char_boundary(offset), "{offset}");
            }
            Err(_) => {}
        }
    }
    if let Ok(query) = Query::read(text) {
        read_again(&query);
    }
});
