//! Searches of JSON Lines find what a walk over the parsed records finds.

#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use lro_text::search::{Found, Pattern, RECORD_BYTES_MAX, RecordSearcher, Search, SearchError};
use proptest::prelude::*;
use serde_json::Value;

fn search(pattern: Pattern) -> Search {
    Search { pattern, ignore_case: false, before: 0, after: 0, limit: 1000, offset: 0, count_only: false, rank: false }
}

fn sliced(search: &Search, text: &[u8], length: usize) -> Found {
    let mut searcher = RecordSearcher::new(search).expect("a valid search");
    text.chunks(length).for_each(|slice| searcher.push(slice));
    searcher.finish()
}

/// Pointers and texts of the strings that contain `needle`.
fn walk(value: &Value, pointer: &str, needle: &str, found: &mut Vec<(String, String)>) {
    match value {
        Value::String(text) => {
            if let Some(line) = text.split('\n').find(|line| line.contains(needle)) {
                found.push((pointer.into(), line.trim_end_matches('\r').into()));
            }
        }
        Value::Array(values) => {
            for (index, value) in values.iter().enumerate() {
                walk(value, &format!("{pointer}/{index}"), needle, found);
            }
        }
        Value::Object(members) => {
            for (key, value) in members {
                walk(value, &format!("{pointer}/{}", key.replace('~', "~0").replace('/', "~1")), needle, found);
            }
        }
        _ => {}
    }
}

fn values() -> impl Strategy<Value = Value> {
    let text = prop_oneof!["[ab\"\\\\/é\n]{0,6}", Just("a".repeat(300))];
    let leaf = prop_oneof![text.prop_map(Value::from), any::<i32>().prop_map(Value::from), Just(Value::Null)];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[ab~/\"\\\\]{0,3}", inner, 0..4)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn a_search_finds_what_a_walk_finds(
        records in prop::collection::vec(values(), 0..6),
        needle in "[ab\"\\\\é]{1,3}",
        ascii: bool,
        length in 1_usize..50,
    ) {
        let mut text = String::new();
        for record in &records {
            let json = record.to_string();
            text.push_str(&if ascii { json.replace('é', "\\u00e9") } else { json });
            text.push('\n');
        }
        let expected: Vec<_> = (1_u64..).zip(&records).flat_map(|(number, record)| {
            let mut found = Vec::new();
            walk(record, "", &needle, &mut found);
            found.into_iter().map(move |(pointer, text)| (number, vec![pointer], text))
        }).collect();
        let found = sliced(&search(Pattern::Literal(needle)), text.as_bytes(), length);
        let hits: Vec<_> = found.hits.into_iter().map(|hit| (hit.line, hit.place, hit.text)).collect();
        prop_assert_eq!(hits, expected);
        prop_assert_eq!((found.lines, found.skipped), (records.len() as u64, 0));
    }
}

#[test]
fn what_was_not_searched_is_counted() {
    let long = format!("[\"{}hit\"]\n", "x".repeat(RECORD_BYTES_MAX));
    let text = format!("{long}[\"hit\"\n[\"hit\"]\n");
    let found = sliced(&search(Pattern::Literal("hit".into())), text.as_bytes(), 256 * 1024);
    assert_eq!((found.lines, found.skipped, found.matches), (3, 2, 2));
}

#[test]
fn expressions_limits_and_pages() {
    let text = "{\"a\":{\"b\":[\"x1\",\"y2\",\"x3\"]}}\n{\"a\":\"x4\"}\n";
    let all = search(Pattern::Regex("^x\\d$".into()));
    let hits = |search: &Search| {
        let found = sliced(search, text.as_bytes(), 5);
        (found.hits.iter().map(|hit| format!("{}{}", hit.line, hit.place[0])).collect::<Vec<_>>(), found.next)
    };
    assert_eq!(hits(&all), (vec!["1/a/b/0".into(), "1/a/b/2".into(), "2/a".into()], None));
    assert_eq!(hits(&Search { limit: 1, offset: 1, ..all.clone() }), (vec!["1/a/b/2".into()], Some(2)));
    assert_eq!(hits(&Search { count_only: true, ..all }), (vec![], None));
    let ranked = Search { rank: true, ..search(Pattern::Words(vec!["x".into()])) };
    assert_eq!(RecordSearcher::new(&ranked).err(), Some(SearchError::RankOfRecords));
}
