//! Searches of texts and records, and lines by their numbers.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use lro_answer::{Answer, Budget, ExtractError, FileKind, HITS_DEFAULT, LineRange, Pattern, Question, Search};
use proptest::prelude::*;
use serde_json::{Value, json};
use support::{ROOMY, all, ask_all, jq};

const GUIDE: &str = "# Install\nRun the installer.\n\n## Proxy\nSet the proxy.\nRestart.\n# Use\nThe proxy is used.\n";

const RECORDS: &str = r#"{"id":1,"title":"A proxy","tags":["net","Proxy"]}
{"id":2,"title":"None"}
{"id":3,"meta":{"a/b":"the \"proxy\" again"}}
"#;

const BOTH: [(FileKind, &[u8]); 2] = [(FileKind::Text, GUIDE.as_bytes()), (FileKind::Records, RECORDS.as_bytes())];

fn search(pattern: Pattern) -> Search {
    Search { pattern, ignore_case: false, before: 0, after: 0, rank: false, count: false, offset: 0, limit: None }
}

fn literal(text: &str) -> Search {
    search(Pattern::Literal(text.to_owned()))
}

fn regex(text: &str) -> Search {
    search(Pattern::Regex(text.to_owned()))
}

fn words(text: &str) -> Search {
    search(Pattern::Words(text.split(' ').map(str::to_owned).collect()))
}

fn ask(files: &[(FileKind, &[u8])], search: Search) -> Result<Answer, ExtractError> {
    ask_all(files, usize::MAX, &Question::Search(search), ROOMY)
}

fn ask_text(text: &str, search: Search) -> Result<Answer, ExtractError> {
    ask(&[(FileKind::Text, text.as_bytes())], search)
}

fn range(text: &str, first: i64, last: i64) -> Result<Answer, ExtractError> {
    let question = Question::Lines(LineRange { first, last });
    ask_all(&[(FileKind::Text, text.as_bytes())], usize::MAX, &question, ROOMY)
}

fn results(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.lines.lines().count() as u64, answer.results);
    answer.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn numbers(answer: &Answer) -> Vec<u64> {
    results(answer).iter().map(|line| line["line"].as_u64().unwrap()).collect()
}

fn invalid(result: Result<Answer, ExtractError>) -> String {
    match result {
        Err(ExtractError::Invalid(message)) => message,
        other => format!("{other:?}"),
    }
}

#[test]
fn a_hit_of_a_text_has_its_line_place_and_context() {
    let answer = ask_text(GUIDE, Search { before: 1, after: 1, ..literal("proxy") }).unwrap();
    assert_eq!(
        results(&answer),
        [
            json!({"line": 5, "text": "Set the proxy.", "where": ["Install", "Proxy"], "before": ["## Proxy"],
                   "after": ["Restart."]}),
            json!({"line": 8, "text": "The proxy is used.", "where": ["Use"], "before": ["# Use"]}),
        ]
    );
    assert_eq!((answer.total, answer.matched, answer.examined, answer.next_bytes), (2, 2, 8, None));
    assert_eq!(numbers(&ask_text(GUIDE, Search { ignore_case: true, ..literal("proxy") }).unwrap()), [4, 5, 8]);
    assert_eq!(numbers(&ask_text(GUIDE, regex("^R.*[.]$")).unwrap()), [2, 6]);
    assert_eq!(numbers(&ask_text(GUIDE, words("used The")).unwrap()), [8]);
}

#[test]
fn a_hit_of_records_has_its_record_and_pointer() {
    let records = [(FileKind::Records, RECORDS.as_bytes())];
    let answer = ask(&records, Search { ignore_case: true, before: 9, ..literal("proxy") }).unwrap();
    assert_eq!(
        results(&answer),
        [
            json!({"line": 1, "text": "A proxy", "where": ["/title"]}),
            json!({"line": 1, "text": "Proxy", "where": ["/tags/1"]}),
            json!({"line": 3, "text": "the \"proxy\" again", "where": ["/meta/a~1b"]}),
        ]
    );
    assert_eq!((answer.total, answer.matched, answer.examined), (3, 3, 3));
    let value = [(FileKind::Value, br#"[{"a":"proxy"}]"#.as_slice())];
    assert_eq!(results(&ask(&value, literal("proxy")).unwrap())[0]["where"], json!(["/0/a"]));
}

#[test]
fn several_sources_are_searched_one_after_another() {
    let answer = ask(&BOTH, literal("proxy")).unwrap();
    let place = |hit: &Value| (hit["section"].as_str().unwrap().to_owned(), hit["line"].as_u64().unwrap());
    let places: Vec<_> = results(&answer).iter().map(place).collect();
    let (text, records) = ("section-0".to_owned(), "section-1".to_owned());
    assert_eq!(places, [(text.clone(), 5), (text, 8), (records.clone(), 1), (records, 3)]);
    assert_eq!((answer.total, answer.examined), (4, 11));
    assert!(answer.lines.starts_with("{\"section\":"), "{}", answer.lines);
    assert_eq!(ask(&[], literal("proxy")).unwrap().total, 0);

    let counted = ask(&BOTH, Search { count: true, offset: 9, ..literal("proxy") }).unwrap();
    assert_eq!((counted.lines.as_str(), counted.total, counted.matched), ("{\"count\":4}\n", 1, 4));
}

// Pages of every size, cut by the limit or by the budget, are together what one page is.
#[test]
fn pages_follow_each_other() {
    let whole = ask(&BOTH, literal("o")).unwrap();
    for limit in 1..=5 {
        let mut seen = String::new();
        while seen.lines().count() < whole.total as usize {
            let offset = seen.lines().count() as u64;
            let page = ask(&BOTH, Search { offset, limit: Some(limit), ..literal("o") }).unwrap();
            assert!(page.results > 0 && page.results <= u64::from(limit) && page.total == whole.total, "{page:?}");
            seen += &page.lines;
        }
        assert_eq!(seen, whole.lines);
    }
    for bytes in [60, 100, 200] {
        let budget = Budget { bytes, ..ROOMY };
        let mut seen = String::new();
        loop {
            let offset = seen.lines().count() as u64;
            let question = Question::Search(Search { offset, ..literal("o") });
            let page = ask_all(&BOTH, usize::MAX, &question, budget).unwrap();
            assert!(page.lines.len() <= bytes as usize && page.total == whole.total, "{page:?}");
            seen += &page.lines;
            if page.next_bytes.is_none() || page.results == 0 {
                break;
            }
        }
        assert!(whole.lines.starts_with(&seen), "{seen}");
    }
    let many = "x\n".repeat(HITS_DEFAULT as usize + 5);
    let answer = ask_text(&many, literal("x")).unwrap();
    assert_eq!((answer.results, answer.total), (u64::from(HITS_DEFAULT), u64::from(HITS_DEFAULT) + 5));
}

#[test]
fn ranked_passages_of_several_texts_are_in_one_order() {
    let first = "Cats sleep.\n\nThe cache keeps pages.\n";
    let second = "The cache evicts pages when the cache is full.\n\nDogs bark.\n";
    let files = [(FileKind::Text, first.as_bytes()), (FileKind::Text, second.as_bytes())];
    let ranked = Search { rank: true, ..words("when does the cache evict pages") };
    let answer = ask(&files, ranked.clone()).unwrap();
    let hits = results(&answer);
    assert_eq!(hits[0]["section"], "section-1", "{}", answer.lines);
    let scores: Vec<f64> = hits.iter().map(|hit| hit["score"].as_f64().unwrap()).collect();
    assert!(scores.len() == 2 && scores.is_sorted_by(|left, right| left >= right), "{scores:?}");
    let second = ask(&files, Search { offset: 1, limit: Some(1), ..ranked }).unwrap();
    assert_eq!((results(&second), second.total), (vec![hits[1].clone()], 2));
}

#[test]
fn lines_are_given_by_their_numbers() {
    let text = "a\nb\r\n\"c\"\nd";
    let answer = range(text, 2, 3).unwrap();
    assert_eq!(answer.lines, "{\"line\":2,\"text\":\"b\"}\n{\"line\":3,\"text\":\"\\\"c\\\"\"}\n");
    assert_eq!((answer.results, answer.total, answer.examined, answer.next_bytes), (2, 2, 4, None));
    let cases =
        [((-2, -1), vec![3, 4]), ((3, 99), vec![3, 4]), ((-99, 1), vec![1]), ((2, -2), vec![2, 3]), ((9, 10), vec![])];
    for ((first, last), expected) in cases {
        let answer = range(text, first, last).unwrap();
        assert_eq!((numbers(&answer), answer.total), (expected.clone(), expected.len() as u64), "{first} {last}");
    }
    let question = Question::Lines(LineRange { first: 2, last: 2 });
    let record = ask_all(&BOTH[1..], 7, &question, ROOMY).unwrap();
    assert_eq!(results(&record), [json!({"line": 2, "text": "{\"id\":2,\"title\":\"None\"}"})]);
    let cut = ask_all(&BOTH[..1], 7, &Question::Lines(LineRange { first: 1, last: -1 }), Budget { bytes: 60, ..ROOMY });
    let cut = cut.unwrap();
    assert_eq!((cut.results, cut.total, cut.next_bytes.is_some()), (1, 8, true));
    assert!(invalid(range(text, 0, 3)).contains("counted from 1"));
    assert!(invalid(range(text, 3, 2)).contains("lines from 3 to 2"));
    // Lines counted from the end are held until the end; more than the reader holds is an error.
    let long = format!("{}\n", "x".repeat(4000)).repeat(400);
    assert!(matches!(range(&long, -400, -1), Err(ExtractError::Limit(message)) if message.starts_with("lines-bytes")));
}

#[test]
fn a_search_that_cannot_be_done_says_why() {
    let regex_error = invalid(ask_text(GUIDE, regex("a(b")));
    assert!(regex_error.contains("\"a(b\" is not a regular expression: unclosed group"), "{regex_error}");
    let cases = [
        (literal(""), "empty"),
        (Search { limit: Some(0), ..literal("x") }, "at least 1"),
        (Search { limit: Some(10_001), ..literal("x") }, "at most 10000"),
        (Search { before: 101, ..literal("x") }, "at most 100"),
        (regex("a\\nb"), "line break"),
        (Search { rank: true, ..literal("x") }, "`rank`"),
        (Search { rank: true, after: 1, ..words("x") }, "`rank`"),
        (Search { rank: true, offset: 4_000, limit: Some(97), ..words("x") }, "at most 4096"),
    ];
    for (search, expected) in cases {
        let message = invalid(ask_text(GUIDE, search));
        assert!(message.contains(expected), "{message}");
    }
    let ranked = ask(&BOTH, Search { rank: true, ..words("x") });
    assert!(invalid(ranked).contains("not strings of records"));
    assert!(invalid(ask(&[(FileKind::Bytes, b"x")], literal("x"))).contains("bytes"));
    let large = ask_text(GUIDE, regex("\\w{60}{60}{60}"));
    assert!(matches!(large, Err(ExtractError::Limit(message)) if message.starts_with("regex-bytes")));
}

#[test]
fn only_searches_and_sql_take_several_sources() {
    for question in [Question::Query(all()), jq("."), Question::Lines(LineRange { first: 1, last: 2 })] {
        let message = invalid(ask_all(&BOTH, usize::MAX, &question, ROOMY));
        assert!(message.contains("only a search and SQL take 2"), "{message}");
    }
    for question in [Question::Query(all()), jq(".")] {
        assert!(invalid(ask_all(&BOTH[..1], usize::MAX, &question, ROOMY)).contains("search it"));
    }
}

#[test]
fn a_long_line_says_what_its_hits_and_its_count_are() {
    let line = format!("{}<b>qty</b>", "x".repeat(400)).repeat(250);
    let files = [(FileKind::Text, line.as_bytes())];
    let answer = ask(&files, literal("<b>qty</b>")).unwrap();
    assert_eq!((answer.total, answer.examined), (250, 1));
    let hits: Vec<Value> = answer.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let offsets: Vec<u64> = hits.iter().map(|hit| hit["offset"].as_u64().unwrap()).collect();
    assert_eq!(offsets[..3], [400, 810, 1220]);
    assert!(answer.notes.len() == 1 && answer.notes[0].contains("each match is a hit"), "{:?}", answer.notes);
    let count = ask(&files, Search { count: true, ..regex("<b>q.y</b>x") }).unwrap();
    assert_eq!((count.lines.as_str(), count.notes.len()), ("{\"count\":249}\n", 1));
}

#[test]
fn records_that_are_not_searched_are_counted() {
    let records = [(FileKind::Records, b"{\"a\":\"x\"}\n{\"a\":\"x\n".as_slice())];
    let answer = ask(&records, literal("x")).unwrap();
    assert_eq!((answer.results, answer.examined), (1, 2));
    assert!(answer.notes.len() == 1 && answer.notes[0].starts_with("1 records were not searched"), "{answer:?}");
    assert!(ask(&BOTH, literal("x")).unwrap().notes.is_empty());
}

proptest! {
    // The lines that a plain walk finds, however the file is read.
    #[test]
    fn hits_are_the_lines_with_the_text(
        lines in proptest::collection::vec("[ab é]{0,6}", 0..40), wanted in "[ab é]{1,2}", cut in 1_usize..50,
        offset in 0_u64..4, limit in 1_u32..9,
    ) {
        let text = lines.iter().map(|line| format!("{line}\n")).collect::<String>();
        let files = [(FileKind::Text, text.as_bytes())];
        let question = Question::Search(Search { offset, limit: Some(limit), ..literal(&wanted) });
        let answer = ask_all(&files, cut, &question, ROOMY).unwrap();
        let found: Vec<u64> = (1..).zip(&lines).filter(|(_, line)| line.contains(&wanted)).map(|(at, _)| at).collect();
        prop_assert_eq!(answer.total, found.len() as u64);
        prop_assert_eq!(answer.examined, lines.len() as u64);
        let page: Vec<u64> = found.into_iter().skip(offset as usize).take(limit as usize).collect();
        prop_assert_eq!(numbers(&answer), page);
    }
}
