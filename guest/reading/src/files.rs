//! The files of an offload that a question is about.

use std::collections::{BTreeMap, BTreeSet};

use lro_contract::manifest::{FileKind, FileRecord, OffloadRecord, Origin};
use lro_contract::query::Query;
use serde_json::value::RawValue;

use crate::{Question, QuestionError, RESULTS_MAX, Sql, TABLES_MAX};

/// Finds the files, at least one: those of a named section, or those that the kind of question suggests.
///
/// # Errors
/// When there is none, or it is not clear which is meant; with the sections to choose from.
pub fn files<'a>(
    offload: &'a OffloadRecord,
    section: Option<&str>,
    question: &Question,
) -> Result<Vec<&'a FileRecord>, QuestionError> {
    let all: Vec<&FileRecord> = offload.files.iter().filter(|file| can_answer(file, question)).collect();
    let sections = || all.iter().map(|file| file.section.clone()).collect();
    if let Some(name) = section {
        return match offload.file(name) {
            Some(file) if can_answer(file, question) => Ok(vec![file]),
            Some(file) if file.kind != FileKind::Bytes => Err(QuestionError::NotRecords(file.section.clone())),
            _ => Err(QuestionError::Section { name: name.to_owned(), sections: sections() }),
        };
    }
    let usual: Vec<&FileRecord> = all.iter().copied().filter(|file| is_usual(file, question)).collect();
    match (question, usual.as_slice(), all.as_slice()) {
        (Question::Query(_) | Question::Jq(_), _, []) if has_text(offload) => Err(QuestionError::NoRecords),
        // Whoever names no section does not ask about an outline.
        (Question::Query(_) | Question::Jq(_), [], [only]) if only.origin == Origin::Outline => {
            Err(QuestionError::OnlyOutline(only.section.clone()))
        }
        (_, _, []) => Err(QuestionError::NoText),
        (Question::Search(search), [_, ..], _) => Ok(searched(usual, search.rank)),
        (_, [only], _) | (_, [], [only]) => Ok(vec![only]),
        _ => Err(QuestionError::Ambiguous(sections())),
    }
}

/// Whether a file can be searched.
fn has_text(offload: &OffloadRecord) -> bool {
    offload.files.iter().any(|file| file.kind != FileKind::Bytes)
}

/// A table of a query in SQL.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    /// Index of its offload among those that the query is about.
    pub offload: usize,
    /// The file.
    pub file: &'a FileRecord,
    /// Its name in the query.
    pub name: String,
}

/// The tables of a query in SQL about sections of offloads: each an offload, the section, or `None` for the only one with
/// records, and the name of the table, or `None` for that of the section.
///
/// # Errors
/// When a section is not there, tables share a name, there are more than [`TABLES_MAX`], or the limit is out of bounds.
pub fn sql_tables<'a>(
    sections: impl IntoIterator<Item = (&'a OffloadRecord, Option<&'a str>, Option<&'a str>)>,
    sql: &Sql,
) -> Result<Vec<Table<'a>>, QuestionError> {
    if sql.limit.is_some_and(|limit| limit == 0 || limit > RESULTS_MAX) {
        return Err(QuestionError::Invalid(format!("limit: must be between 1 and {RESULTS_MAX}")));
    }
    let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
    for (offload, (record, section, name)) in sections.into_iter().enumerate() {
        for file in tables(record, section, name.is_some())? {
            if all.len() == TABLES_MAX {
                let message = format!("more than {TABLES_MAX} tables: name only the sections that the query needs");
                return Err(QuestionError::Invalid(message));
            }
            let name = name.unwrap_or(&file.section).to_owned();
            if !seen.insert(name.to_lowercase()) {
                let message = format!("two tables are named `{name}`: give each its own name");
                return Err(QuestionError::Invalid(message));
            }
            all.push(Table { offload, file, name });
        }
    }
    Ok(all)
}

/// The files of tables: as for a typed query, but all usual ones if several are possible and none has a name.
fn tables<'a>(
    offload: &'a OffloadRecord,
    section: Option<&str>,
    has_name: bool,
) -> Result<Vec<&'a FileRecord>, QuestionError> {
    let question = Question::Query(Query::default());
    match files(offload, section, &question) {
        Err(QuestionError::Ambiguous(_)) if !has_name => {
            let all = offload.files.iter().filter(|file| can_answer(file, &question));
            let (usual, others): (Vec<_>, Vec<_>) = all.partition(|file| is_usual(file, &question));
            Ok(if usual.is_empty() { others } else { usual })
        }
        found => found,
    }
}

/// Looks up a stored query. Returns it with the name of its file.
///
/// `parameters` override the values of the query's parameters of the same names.
///
/// # Errors
/// [`QuestionError::Stored`] and [`QuestionError::Parameter`], with the existing names.
pub fn stored_query<'a>(
    offload: &'a OffloadRecord,
    name: &str,
    parameters: &BTreeMap<String, Box<RawValue>>,
) -> Result<(&'a str, Query), QuestionError> {
    let queries = || offload.files.iter().flat_map(|file| file.queries.iter().map(move |query| (file, query)));
    let Some((file, found)) = queries().find(|(_, query)| query.name == name) else {
        let names = queries().map(|(_, query)| query.name.clone()).collect();
        return Err(QuestionError::Stored { name: name.to_owned(), names });
    };
    let mut query: Query = serde_json::from_str(found.query.get())
        .map_err(|error| QuestionError::Invalid(format!("the recipe `{name}`: {error}")))?;
    query.set(parameters).map_err(|parameters| QuestionError::Parameter { name: name.to_owned(), parameters })?;
    Ok((&file.name, query))
}

/// Whether the question can be about this file.
fn can_answer(file: &FileRecord, question: &Question) -> bool {
    match question {
        Question::Query(_) | Question::Jq(_) => file.kind == FileKind::Records,
        Question::Search(_) => file.kind != FileKind::Bytes,
        Question::Lines(_) => file.has_lines(),
    }
}

/// Whether the question may be about this file without naming it.
fn is_usual(file: &FileRecord, question: &Question) -> bool {
    match question {
        // The file of remaining members and an outline are only queried by name.
        Question::Query(_) | Question::Jq(_) => file.shape.is_some() || file.origin == Origin::RecordsOfText,
        // What other files are made from has the same words.
        Question::Search(_) | Question::Lines(_) => file.origin == Origin::Content,
    }
}

/// Of several files, only texts have passages to rank.
fn searched(mut files: Vec<&FileRecord>, rank: bool) -> Vec<&FileRecord> {
    if rank && files.iter().any(|file| file.kind == FileKind::Text) {
        files.retain(|file| file.kind == FileKind::Text);
    }
    files
}
