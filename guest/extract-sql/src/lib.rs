//! Answers SQL queries about files in the preopened directories.
#![cfg(target_arch = "wasm32")]

use lro_answer::{Answer, Budget, ExtractError, Guest, Question, Source, bindings, extract_sql, with_files};

struct ExtractSql;

bindings::export!(ExtractSql with_types_in bindings);

impl Guest for ExtractSql {
    fn extract(sources: Vec<Source>, question: Question, budget: Budget) -> Result<Answer, ExtractError> {
        let Question::Sql(sql) = &question else {
            return Err(ExtractError::Invalid(
                "this component answers SQL only; `lro-extract` answers the rest".to_owned(),
            ));
        };
        with_files(&sources, |read| extract_sql(&sources, sql, budget, read))
    }
}
