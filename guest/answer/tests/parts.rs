//! Parts of a file that are asked about one after another, or whose findings are merged, give what the whole file gives.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use lro_answer::bindings::lro::filter::types::{AggregateKind, Operator, Query};
use lro_answer::{
    Answer, Budget, ExtractError, Failures, FileKind, PART_RESULTS_MAX, Question, Source, extract, merge_parts,
};
use proptest::prelude::*;
use support::{ROOMY, aggregate, all, ask_cut, ask_in_parts, group, jq, only, select, sort, source, test};

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

/// Sums of fractions, budgets and pages of many alike records.
#[test]
fn parts_of_many_records_merge_to_the_answer_about_all() {
    let record = |number: u32| {
        let (score, group) = (f64::from(number * 7919 % 1000) / 1000.0, number * 31 % 11);
        format!("{{\"id\":{number},\"score\":{score},\"group\":\"g{group}\",\"cents\":{}}}\n", i64::from(number) - 900)
    };
    let text: String = (0..2000).map(record).collect();
    let kinds = [AggregateKind::Sum, AggregateKind::Avg, AggregateKind::Min, AggregateKind::Max, AggregateKind::Count];
    let aggregates =
        || kinds.into_iter().flat_map(|kind| [aggregate(kind, "score"), aggregate(kind, "cents")]).collect();
    let queries = [
        Query { count: true, ..only("score", Operator::Gt, "0.9") },
        Query { select: select(&["id", "group"]), ..only("score", Operator::Gt, "0.9") },
        Query { offset: 40, limit: Some(9), ..only("score", Operator::Gt, "0.9") },
        Query { offset: 5000, ..all() },
        Query { group: group(&["group"], aggregates()), ..all() },
        Query { group: group(&[], aggregates()), ..only("cents", Operator::Lt, "0") },
        Query { group: group(&["group"], Vec::new()), sort: sort("count", true), limit: Some(3), ..all() },
        Query { group: group(&["score"], Vec::new()), distinct: true, select: select(&["count"]), ..all() },
        Query { group: group(&["score"], Vec::new()), sample: Some(5), ..all() },
        Query { sort: sort("score", true), select: select(&["score", "id"]), limit: Some(10), ..all() },
        Query { sort: sort("group", false), offset: 150, limit: Some(100), ..all() },
        Query { sort: sort("group", false), count: true, ..all() },
        only("nowhere", Operator::Exists, ""),
    ];
    for budget in
        [ROOMY, Budget { bytes: 500, ..ROOMY }, Budget { tokens: 90, ..ROOMY }, Budget { bytes: 0, tokens: 0 }]
    {
        for query in &queries {
            let whole = ask_cut(text.as_bytes(), usize::MAX, &Question::Query(query.clone()), budget);
            for most in [1, 2, 3, 7] {
                let merged = ask_in_parts(text.as_bytes(), most, query, budget);
                assert_eq!(format!("{merged:?}"), format!("{whole:?}"), "{query:?} in {most} parts");
            }
        }
    }
}

#[test]
fn parts_of_texts_and_numbers_merge_to_the_answer_and_notes_about_all() {
    let values = ["\"12\"", "\"N/A\"", "7", "\"2026-01-02\"", "null", "true", "\" 3.5\"", "\"b\""];
    let record = |number: usize| {
        let text = number * 37 % 100;
        // Numbers come after texts, in the last parts only.
        let value = values[if number < 100 { [1, 3, 5, 7][number % 4] } else { number % 8 }];
        format!("{{\"g\":{},\"v\":{value},\"text\":\"t{text}\"}}\n", number % 3)
    };
    let text: String = (0..200).map(record).collect();
    let kinds = [AggregateKind::Sum, AggregateKind::Avg, AggregateKind::Min, AggregateKind::Max];
    let aggregates = |field| kinds.into_iter().map(|kind| aggregate(kind, field)).collect();
    let queries = [
        Query { group: group(&[], aggregates("v")), ..all() },
        Query { group: group(&["g"], aggregates("v")), ..all() },
        Query { group: group(&["g"], aggregates("text")), ..all() },
        Query { group: group(&["v"], Vec::new()), sort: sort("v", true), ..all() },
        Query { sort: sort("v", false), ..all() },
        Query { sort: sort("v", true), offset: 30, limit: Some(20), ..all() },
    ];
    for query in &queries {
        let whole = ask_cut(text.as_bytes(), usize::MAX, &Question::Query(query.clone()), ROOMY).unwrap();
        assert!(!whole.notes.is_empty(), "{query:?}");
        for most in [1, 2, 3, 7] {
            let merged = ask_in_parts(text.as_bytes(), most, query, ROOMY).unwrap();
            assert_eq!(format!("{merged:?}"), format!("{whole:?}"), "{query:?} in {most} parts");
        }
    }
}

#[test]
fn what_needs_all_records_is_not_found_in_parts() {
    let text = "{\"a\":1e-300}\n{\"a\":2}\n{\"a\":1e-300}\n{\"a\":1e300}\n";
    let refused = |query: Query| match ask_in_parts(text.as_bytes(), 2, &query, ROOMY) {
        Err(ExtractError::Invalid(why)) => why,
        other => panic!("{other:?}"),
    };
    assert!(refused(Query { distinct: true, ..all() }).contains("distinct"));
    assert!(refused(Query { sample: Some(1), ..all() }).contains("sample"));
    let last = |offset| Query { offset, limit: Some(1), ..all() };
    assert!(ask_in_parts(text.as_bytes(), 2, &last(PART_RESULTS_MAX - 1), ROOMY).is_ok());
    assert!(refused(last(PART_RESULTS_MAX)).contains("10000"));
    let sum = Query { group: group(&[], vec![aggregate(AggregateKind::Sum, "a")]), ..all() };
    assert!(refused(sum.clone()).contains("sum_a depends on the order"));
    assert!(ask_in_parts(text.as_bytes(), 1, &sum, ROOMY).is_ok());
    let whole = source(0, FileKind::Records, text.as_bytes());
    let merged = merge_parts(&whole, &all(), &[vec![0xFF; 9]], ROOMY, &mut |_, _, _| Ok(Vec::new()));
    assert!(matches!(merged, Err(ExtractError::Invalid(why)) if why.starts_with("parts: ")));
}
