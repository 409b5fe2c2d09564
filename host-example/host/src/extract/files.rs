//! The files of an offload that a question is about.

use super::{ExtractError, Query, Question};
use crate::store::{FileKind, FileRecord, Offload, Origin};

/// Finds the files, at least one: those of a named section, or those that the kind of question suggests.
pub(super) fn files<'a>(
    offload: &'a Offload,
    section: Option<&str>,
    question: &Question,
) -> Result<Vec<&'a FileRecord>, ExtractError> {
    let all: Vec<&FileRecord> = offload.record().files.iter().filter(|file| can_answer(file, question)).collect();
    let sections = || all.iter().map(|file| file.section.clone()).collect();
    if let Some(name) = section {
        return match offload.file(name) {
            Some(file) if can_answer(file, question) => Ok(vec![file]),
            Some(file) if file.kind != FileKind::Bytes => Err(ExtractError::NotRecords(file.section.clone())),
            _ => Err(ExtractError::Section { name: name.to_owned(), sections: sections() }),
        };
    }
    let usual: Vec<&FileRecord> = all.iter().copied().filter(|file| is_usual(file, question)).collect();
    match (question, usual.as_slice(), all.as_slice()) {
        (Question::Query(_) | Question::Jq(_), _, []) => Err(ExtractError::NoRecords),
        // Whoever names no section does not ask about an outline.
        (Question::Query(_) | Question::Jq(_), [], [only]) if only.origin == Origin::Outline => {
            Err(ExtractError::OnlyOutline(only.section.clone()))
        }
        (_, _, []) => Err(ExtractError::NoText),
        (Question::Search(search), [_, ..], _) => Ok(searched(usual, search.rank)),
        (_, [only], _) | (_, [], [only]) => Ok(vec![only]),
        _ => Err(ExtractError::Ambiguous(sections())),
    }
}

/// Finds the tables of SQL: as for a typed query, but all usual ones if several are possible and none has a name.
pub(super) fn tables<'a>(
    offload: &'a Offload,
    section: Option<&str>,
    has_name: bool,
) -> Result<Vec<&'a FileRecord>, ExtractError> {
    let question = Question::Query(Query::default());
    match files(offload, section, &question) {
        Err(ExtractError::Ambiguous(_)) if !has_name => {
            let all = offload.record().files.iter().filter(|file| can_answer(file, &question));
            let (usual, others): (Vec<_>, Vec<_>) = all.partition(|file| is_usual(file, &question));
            Ok(if usual.is_empty() { others } else { usual })
        }
        found => found,
    }
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
