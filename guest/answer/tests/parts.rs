//! Parts of a file that are asked about one after another give what the whole file gives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use lro_answer::bindings::lro::filter::types::{Operator, Query};
use lro_answer::{Answer, ExtractError, Failures, FileKind, Question, Source, extract};
use proptest::prelude::*;
use support::{ROOMY, all, ask_cut, jq, only, select, source, test};

/// Asks about the records between two offsets of a file with so many records.
fn ask_part(text: &str, records: u64, start: usize, end: usize, question: &Question) -> Result<Answer, ExtractError> {
    let whole = source(0, FileKind::Records, text.as_bytes());
    let part = Source { start: start as u64, bytes: end as u64, records, ..whole };
    extract(&[part], question, ROOMY, &mut |_, offset, length| {
        let rest = text.as_bytes().get(offset as usize..).unwrap_or_default();
        Ok(rest.get(..rest.len().min(length as usize)).unwrap_or_default().to_vec())
    })
}

/// Lines, totals and failures of all parts, which end behind the lines with these numbers.
fn ask_parts(text: &str, ends: &[usize], question: &Question) -> (String, u64, u64, u64) {
    let feeds: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let mut ends: Vec<usize> = ends.iter().map(|end| feeds[end % feeds.len()]).chain([text.len()]).collect();
    ends.sort_unstable();
    let (mut start, mut all) = (0, (String::new(), 0, 0, 0));
    for end in ends {
        let answer = ask_part(text, feeds.len() as u64, start, end, question).unwrap();
        all.0 += &answer.lines;
        all.1 += answer.total;
        all.2 += answer.examined;
        all.3 += answer.failures.map_or(0, |failures| failures.records);
        start = end;
    }
    all
}

/// Some fields are in few records, so that parts lack them.
fn record() -> impl Strategy<Value = String> {
    let rare = prop::option::weighted(0.1, 0..9_u8);
    (0..5_u8, rare, "[a-c é]{0,9}").prop_map(|(id, rare, text)| match rare {
        Some(rare) => format!("{{\"id\":{id},\"rare\":{rare},\"text\":\"{text}\"}}\n"),
        None => format!("{{\"id\":{id},\"text\":\"{text}\"}}\n"),
    })
}

fn questions() -> Vec<Question> {
    let query = |query: Query| Question::Query(Query { limit: Some(100_000), ..query });
    vec![
        query(all()),
        query(only("id", Operator::Ge, "2")),
        query(Query { select: select(&["rare", "text"]), ..all() }),
        query(Query { where_: vec![test("rare", Operator::Exists, "")], select: select(&["id"]), ..all() }),
        jq("select(.rare) | .id, .text"),
        jq("if .rare then .id, error(\"rare\") else empty end"),
    ]
}

proptest! {
    #[test]
    fn parts_give_what_the_whole_gives(records in prop::collection::vec(record(), 1..40), ends in prop::collection::vec(0..40_usize, 0..6)) {
        // Else a field is in no record at all.
        let text = records.concat() + "{\"id\":1,\"rare\":1,\"text\":\"\"}\n";
        for question in questions() {
            let whole = ask_cut(text.as_bytes(), usize::MAX, &question, ROOMY).unwrap();
            let failed = whole.failures.map_or(0, |failures| failures.records);
            prop_assert_eq!(ask_parts(&text, &ends, &question), (whole.lines, whole.total, whole.examined, failed));
        }
    }
}

#[test]
fn only_a_whole_file_says_that_no_record_has_a_field_or_that_all_failed() {
    let text = "{\"a\":1}\n{\"a\":2}\n";
    let (unknown, failing) = (Question::Query(only("b", Operator::Eq, "1")), jq("error(\"no\")"));
    assert!(matches!(ask_part(text, 2, 0, 16, &unknown), Err(ExtractError::UnknownField(_))));
    assert_eq!(ask_part(text, 2, 8, 16, &unknown).unwrap().total, 0);
    assert!(matches!(ask_part(text, 2, 0, 16, &failing), Err(ExtractError::Failed(_))));
    let Failures { records, first, message } = ask_part(text, 2, 8, 16, &failing).unwrap().failures.unwrap();
    assert_eq!((records, first, message.as_str()), (1, 0, "no"));
}
