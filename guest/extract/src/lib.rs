//! Answers typed queries, jq programs and searches about files in the preopened directories.
#![cfg(target_arch = "wasm32")]

use lro_answer::{Answer, Budget, ExtractError, Guest, Question, Source, bindings, extract, with_files};

struct Extract;

bindings::export!(Extract with_types_in bindings);

impl Guest for Extract {
    fn extract(sources: Vec<Source>, question: Question, budget: Budget) -> Result<Answer, ExtractError> {
        with_files(&sources, |read| extract(&sources, &question, budget, read))
    }
}
