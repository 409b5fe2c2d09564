//! Conversions between the plain types of this crate and the types that bindings of `wit/lro-query.wit` generate.

/// Implements the conversions for the generated types of the module `$query`, those of the interface `lro-query`, and of
/// `$types`, those of the interface `types`: questions to them, answers and errors from them. It needs the conversions of
/// `lro_contract` for the same types.
#[macro_export]
macro_rules! question_conversions {
    ($query:path, $types:path) => {
        use $query as component;

        impl From<&$crate::Question> for component::Question {
            fn from(question: &$crate::Question) -> Self {
                match question {
                    $crate::Question::Query(query) => Self::Query(query.into()),
                    $crate::Question::Jq(jq) => Self::Jq(jq.into()),
                    $crate::Question::Search(search) => Self::Search(search.into()),
                    $crate::Question::Lines(range) => {
                        Self::Lines(component::LineRange { first: range.first, last: range.last })
                    }
                }
            }
        }

        impl From<&$crate::Jq> for component::Jq {
            fn from(jq: &$crate::Jq) -> Self {
                let argument = |(name, value): (&String, &Box<serde_json::value::RawValue>)| component::Argument {
                    name: name.clone(),
                    value: value.get().to_owned(),
                };
                Self {
                    filter: jq.filter.clone(),
                    slurp: jq.slurp,
                    arguments: jq.arguments.iter().map(argument).collect(),
                }
            }
        }

        impl From<&$crate::Search> for component::Search {
            fn from(search: &$crate::Search) -> Self {
                let $crate::Search { pattern, ignore_case, before, after, rank, count, offset, limit } = search.clone();
                let pattern = match pattern {
                    $crate::Pattern::Words(words) => component::Pattern::Words(words),
                    $crate::Pattern::Literal(literal) => component::Pattern::Literal(literal),
                    $crate::Pattern::Regex(regex) => component::Pattern::Regex(regex),
                };
                Self { pattern, ignore_case, before, after, rank, count, offset, limit }
            }
        }

        impl From<$crate::Budget> for component::Budget {
            fn from($crate::Budget { bytes, tokens }: $crate::Budget) -> Self {
                Self { bytes, tokens }
            }
        }

        impl From<&lro_contract::manifest::FileRecord> for component::Source {
            fn from(file: &lro_contract::manifest::FileRecord) -> Self {
                use lro_contract::manifest::FileKind;
                use $types as types;
                let kind = match file.kind {
                    FileKind::Records => types::FileKind::Records,
                    FileKind::Text => types::FileKind::Text,
                    FileKind::Value => types::FileKind::Value,
                    FileKind::Bytes => types::FileKind::Bytes,
                };
                Self {
                    name: file.name.clone(),
                    directory: 0,
                    section: file.section.clone(),
                    kind,
                    start: file.digest_from,
                    bytes: file.bytes,
                    records: file.records,
                }
            }
        }

        impl From<component::Answer> for $crate::Answer {
            fn from(answer: component::Answer) -> Self {
                let component::Answer { lines, results, total, matched, examined, next_bytes, failures, notes } =
                    answer;
                let (cut, failures) = (next_bytes.map($crate::Cut::Budget), failures.map(Into::into));
                Self { lines, results, offset: 0, total, matched, examined, cut, failures, notes }
            }
        }

        impl From<component::Failures> for $crate::Failures {
            fn from(component::Failures { records, first, message }: component::Failures) -> Self {
                Self { records, first, message }
            }
        }

        /// The error of a component about this question.
        pub fn question_error(error: component::ExtractError, question: &component::Question) -> $crate::QuestionError {
            use $crate::QuestionError;
            match (error, question) {
                (
                    component::ExtractError::Invalid(text),
                    component::Question::Search(_) | component::Question::Lines(_),
                ) => QuestionError::InvalidSearch(text),
                (component::ExtractError::Invalid(text), _) => QuestionError::Invalid(text),
                (component::ExtractError::UnknownField(unknown), _) => {
                    QuestionError::UnknownField { field: unknown.field, near: unknown.near }
                }
                (component::ExtractError::Syntax(syntax), _) => {
                    QuestionError::Syntax { offset: syntax.offset, message: syntax.message }
                }
                (component::ExtractError::Failed(failures), _) => QuestionError::Failed(failures.into()),
                (component::ExtractError::Limit(text), _) => QuestionError::Limit(text),
                (component::ExtractError::Io(text), _) => QuestionError::Read(text),
                (component::ExtractError::Damaged(record), _) => QuestionError::Damaged(record),
            }
        }
    };
}
