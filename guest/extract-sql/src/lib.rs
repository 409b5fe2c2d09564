//! Answers SQL queries about files in the preopened directories.
#![cfg(target_arch = "wasm32")]

use lro_answer::{Answer, Budget, ExtractError, Guest, Query, Question, Source, bindings, extract_sql, with_files};

struct ExtractSql;

bindings::export!(ExtractSql with_types_in bindings);

impl Guest for ExtractSql {
    fn extract(sources: Vec<Source>, question: Question, budget: Budget) -> Result<Answer, ExtractError> {
        let Question::Sql(sql) = &question else {
            return Err(not_sql());
        };
        with_files(&sources, |read| extract_sql(&sources, sql, budget, read))
    }

    fn extract_part(_: Source, _: Query) -> Result<Vec<u8>, ExtractError> {
        Err(not_sql())
    }

    fn merge_parts(_: Source, _: Query, _: Vec<Vec<u8>>, _: Budget) -> Result<Answer, ExtractError> {
        Err(not_sql())
    }
}

fn not_sql() -> ExtractError {
    ExtractError::Invalid("this component answers SQL only; `lro-extract` answers the rest".to_owned())
}
