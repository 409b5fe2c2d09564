//! Answers typed queries, jq programs and searches about files in the preopened directories.
#![cfg(target_arch = "wasm32")]

use std::slice::from_ref;

use lro_answer::{
    Answer, Budget, ExtractError, Guest, Query, Question, Source, bindings, extract, extract_part, merge_parts,
    with_files,
};

struct Extract;

bindings::export!(Extract with_types_in bindings);

impl Guest for Extract {
    fn extract(sources: Vec<Source>, question: Question, budget: Budget) -> Result<Answer, ExtractError> {
        with_files(&sources, |read| extract(&sources, &question, budget, read))
    }

    fn extract_part(source: Source, query: Query) -> Result<Vec<u8>, ExtractError> {
        with_files(from_ref(&source), |read| extract_part(&source, &query, read))
    }

    fn merge_parts(source: Source, query: Query, parts: Vec<Vec<u8>>, budget: Budget) -> Result<Answer, ExtractError> {
        with_files(from_ref(&source), |read| merge_parts(&source, &query, &parts, budget, read))
    }
}
