//! Why a question has no answer.

use crate::Failures;

/// Why a question has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QuestionError {
    /// The offload has several sections, and the question names none.
    #[error("the offload has several sections: name one of {}", listed(.0))]
    Ambiguous(Vec<String>),
    /// The offload has no records.
    #[error(
        "the offload has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`, or use \
         `lro_read` or `lro read` to read it in pages"
    )]
    NoRecords,
    /// The offload has no records but those of the outline with this name.
    #[error(
        "the offload has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`, or \
         name the section `{0}` to query its outline"
    )]
    OnlyOutline(String),
    /// The named section has no records.
    #[error(
        "the section `{0}` has no records to query: search it, with `search` of `lro_extract` or `lro extract --search`"
    )]
    NotRecords(String),
    /// The offload has neither text nor records.
    #[error("the offload has only bytes; use `lro_read` or `lro read` to read it in pages")]
    NoText,
    /// No section of this name can answer the question.
    #[error("there is no section `{name}` that can answer this; those that can: {}", listed(.sections))]
    Section {
        /// The requested name.
        name: String,
        /// The sections that can.
        sections: Vec<String>,
    },
    /// No stored query has this name.
    #[error("there is no recipe `{name}`; recipes of this offload: {}", listed(.names))]
    Stored {
        /// The requested name.
        name: String,
        /// The existing names.
        names: Vec<String>,
    },
    /// The stored query does not have a given parameter.
    #[error("the recipe `{name}` has no such parameter; its parameters: {}", listed(.parameters))]
    Parameter {
        /// The stored query.
        name: String,
        /// Its parameters.
        parameters: Vec<String>,
    },
    /// The query is invalid.
    #[error("invalid query: {0}")]
    Invalid(String),
    /// The search, or the range of lines, is invalid.
    #[error("invalid search: {0}")]
    InvalidSearch(String),
    /// No record has this field.
    #[error("{}", unknown(.field, .near))]
    UnknownField {
        /// The field.
        field: String,
        /// Existing fields, the most similar first.
        near: Vec<String>,
    },
    /// The jq program does not compile.
    #[error("syntax error in the jq program at byte {offset}: {message}")]
    Syntax {
        /// Offset in the program, in bytes.
        offset: u64,
        /// The syntax error.
        message: String,
    },
    /// The jq program failed on every record.
    #[error("the jq program failed on all {} records; on record {}: {}{}", .0.records, .0.first, .0.message, slurp(.0))]
    Failed(Failures),
    /// The query exceeded a limit of the component.
    #[error("the query exceeded the limit {0}")]
    Limit(String),
    /// The component could not read the file.
    #[error("the file could not be read: {0}")]
    Read(String),
    /// A line is not JSON.
    #[error("record {0} is not JSON")]
    Damaged(u64),
    /// The component returned an inconsistent answer.
    #[error("invalid answer from the component: {0}")]
    Answer(&'static str),
}

/// Names what there is in place of a field. One that is there has `[]`, and is one to sort by.
fn unknown(field: &str, near: &[String]) -> String {
    if !near.iter().any(|name| name == field) {
        return format!("no record has the field `{field}`; {}", existing(near));
    }
    let array = field.split_once("[]").map_or(field, |(array, _)| array);
    format!(
        "`{field}` is of each element of `{array}`, and `sort` takes one value: use `{}` for that of the first element, or a jq program \
         such as `.{field}`",
        field.replace("[]", ".0")
    )
}

/// Says how a program gets all records at once. One that does has a single run that can fail.
fn slurp(failures: &Failures) -> &'static str {
    match failures.records {
        0 | 1 => "",
        _ => ". It runs on each record by itself; with `slurp` it gets all of them as one array",
    }
}

/// What there is in place of an unknown field.
fn existing(names: &[String]) -> String {
    match names {
        [] => "the records have no fields, and `.` is a whole one".to_owned(),
        names => format!("there are {}", listed(names)),
    }
}

fn listed(names: &[String]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_for_each_element_of_an_array_says_what_to_ask() {
        let message = |field: &str, near: &[&str]| {
            let near = near.iter().map(|name| (*name).to_owned()).collect();
            QuestionError::UnknownField { field: field.to_owned(), near }.to_string()
        };
        let tags = message("tags[]", &["tags", "tags[]"]);
        assert!(tags.contains("`tags.0`") && tags.contains("`.tags[]`"), "{tags}");
        let nested = message("nested.list[].k", &["nested.list[].k"]);
        assert!(nested.contains("`nested.list.0.k`") && nested.contains("`.nested.list[].k`"), "{nested}");
        let wrong = message("list[].l", &["list[].k", "list", "0.k"]);
        assert_eq!(wrong, "no record has the field `list[].l`; there are `list[].k`, `list`, `0.k`");
        assert!(message("tags", &[]).ends_with("`tags`; the records have no fields, and `.` is a whole one"));
    }

    #[test]
    fn a_program_that_failed_on_each_record_is_told_of_slurp() {
        let message = |records| {
            QuestionError::Failed(Failures { records, first: 0, message: "cannot index 0".to_owned() }).to_string()
        };
        assert!(message(3000).contains("`slurp`"));
        assert!(message(1).ends_with("cannot index 0"));
    }
}
