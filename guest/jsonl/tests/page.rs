//! What a page says of its list.

use lro_jsonl::page::{List, Page, names};
use proptest::prelude::*;

/// The page of a list of 3 records at this pointer, of which a document says this beside it.
fn page_with(noted: &[(&str, &str)], lists: &[&str], schema: Option<&str>) -> Page {
    let noted: Vec<(String, String)> =
        noted.iter().map(|(pointer, json)| ((*pointer).to_owned(), (*json).to_owned())).collect();
    let lists: Vec<List<'_>> = lists.iter().map(|pointer| List { pointer, records: 3 }).collect();
    Page::of(&noted, &lists, schema)
}

fn page(noted: &[(&str, &str)]) -> Page {
    page_with(noted, &["/items"], None)
}

fn is(page: &Page, count: Option<(u64, u64)>, next: Option<(&str, &str)>) {
    assert_eq!((page.count, page.next.as_ref().map(|(name, json)| (name.as_str(), json.as_str()))), (count, next));
}

#[test]
fn usual_spellings_are_known() {
    let cursor = Some(("cursor", "\"b\""));
    is(&page(&[("/total", "90000"), ("/nextCursor", "\"b\"")]), Some((3, 90_000)), cursor);
    is(&page(&[("/total_count", "9"), ("/next_page_token", "\"b\"")]), Some((3, 9)), cursor);
    is(&page(&[("/meta", r#"{"total":9,"next_token":"b"}"#)]), Some((3, 9)), cursor);
    is(&page(&[("/has_more", "true"), ("/next_cursor", "17")]), None, Some(("cursor", "17")));
    let info = r#"{"hasNextPage":true,"endCursor":"b","totalCount":4}"#;
    is(&page_with(&[("/data/users/pageInfo", info)], &["/data/users/edges"], None), Some((3, 4)), cursor);
    is(
        &page(&[("/count", "9"), ("/next", "\"https://a/b?page=2\"")]),
        Some((3, 9)),
        Some(("link", "\"https://a/b?page=2\"")),
    );
    is(&page(&[("/total", "9"), ("/offset", "3")]), Some((3, 9)), Some(("offset", "6")));
    is(&page(&[("/has_more", "true"), ("/page", "4")]), None, Some(("page", "5")));
    is(&page(&[("/next_page", "5")]), None, Some(("page", "5")));
    is(&page(&[("/next_offset", "30"), ("/offset", "3")]), None, Some(("offset", "30")));
    is(&page_with(&[("/nextCursor", "\"b\"")], &[], None), None, cursor);
}

#[test]
fn the_argument_is_that_of_the_tool() {
    let schema =
        |name: &str| format!(r#"{{"type":"object","properties":{{"{name}":{{"type":"string"}},"limit":{{}}}}}}"#);
    for (argument, shown) in
        [("after", "after"), ("page_token", "page_token"), ("nextCursor", "cursor"), ("other", "cursor")]
    {
        let found = page_with(&[("/nextCursor", "\"b\"")], &["/items"], Some(&schema(argument)));
        is(&found, None, Some((shown, "\"b\"")));
    }
    let both = r#"{"properties":{"after":{},"cursor":{}}}"#;
    is(&page_with(&[("/nextCursor", "\"b\"")], &["/items"], Some(both)), None, Some(("cursor", "\"b\"")));
}

#[test]
fn what_is_in_doubt_says_nothing() {
    let long = format!("\"{}\"", "b".repeat(300));
    let cases: &[&[(&str, &str)]] = &[
        &[("/total", "3")],
        &[("/total", "2")],
        &[("/total", "9.0")],
        &[("/total", "9e3")],
        &[("/total", "-9")],
        &[("/total", "\"9\"")],
        &[("/total", r#"{"value":9,"relation":"gte"}"#)],
        &[("/total", "99999999999999999999999")],
        &[("/total", "9"), ("/totalCount", "10")],
        &[("/count", "9")],
        &[("/nextCursor", "null")],
        &[("/nextCursor", "\"\"")],
        &[("/nextCursor", r#"{"id":1}"#)],
        &[("/nextCursor", &long)],
        &[("/nextCursor", "\"b\""), ("/next_cursor", "\"c\"")],
        &[("/nextCursor", "\"b\""), ("/has_more", "false")],
        &[("/nextCursor", "\"b\""), ("/has_more", "false"), ("/hasMore", "true")],
        &[("/endCursor", "\"b\"")],
        &[("/pageInfo", r#"{"hasNextPage":false,"endCursor":"b"}"#)],
        &[("/next", "\"b\"")],
        &[("/next", "true")],
        &[("/page", "4")],
        &[("/offset", "4")],
        &[("/other/total", "9")],
        &[("/items/0/total", "9")],
    ];
    for case in cases {
        assert_eq!(page(case), Page::default(), "{case:?}");
    }
    is(&page(&[("/total", "9"), ("/offset", "18446744073709551615")]), Some((3, 9)), None);
    // Of two lists a total could be that of either; a cursor is that of the result.
    let two = page_with(&[("/total", "9"), ("/nextCursor", "\"b\"")], &["/items", "/included"], None);
    is(&two, None, Some(("cursor", "\"b\"")));
    let apart = page_with(&[("/a/nextCursor", "\"b\"")], &["/a/items", "/c/items"], None);
    assert_eq!(apart, Page::default());
}

#[test]
fn documents_that_differ_say_nothing() {
    let with =
        |count, next: Option<&str>| Page { count, next: next.map(|next| ("cursor".to_owned(), next.to_owned())) };
    let all = Page::of_all(vec![with(Some((3, 9)), None), with(None, Some("1")), with(None, Some("1"))]);
    is(&all, Some((3, 9)), Some(("cursor", "1")));
    let differing =
        vec![with(Some((3, 9)), Some("1")), with(None, Some("2")), with(None, Some("1")), with(Some((3, 8)), None)];
    assert_eq!(Page::of_all(differing), Page::default());
}

#[test]
fn a_page_is_shown_as_json_and_in_words() {
    let found = page(&[("/total", "90000"), ("/nextCursor", "\"b\"")]);
    assert_eq!(found.json().as_deref(), Some(r#"{"records":3,"of":90000,"next":{"cursor":"b"}}"#));
    let words = found.sentence().unwrap_or_default();
    assert!(words.contains("3 of 90,000 records") && words.contains("`paging.next`"), "{words}");
    assert_eq!((Page::default().json(), Page::default().sentence()), (None, None));
}

/// Places of lists.
const LISTS: &[&[&str]] = &[&[], &["/items"], &["/a/items"], &["/items", "/a/b"]];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the members are: a total is larger than the count, and everything shown is a value of the document, or
    /// follows from one by adding.
    #[test]
    fn nothing_is_made_up(
        noted in proptest::collection::vec((0..80_usize, proptest::sample::select(&["", "/meta", "/a"][..]), value()), 0..6),
        lists in proptest::sample::select(LISTS),
    ) {
        let known = names();
        let noted: Vec<(String, String)> = noted
            .into_iter()
            .map(|(name, parent, value)| (format!("{parent}/{}", known[name % known.len()]), value))
            .collect();
        let lists: Vec<List<'_>> = lists.iter().map(|pointer| List { pointer, records: 3 }).collect();
        let page = Page::of(&noted, &lists, None);
        let values: Vec<&str> = noted.iter().map(|(_, value)| value.as_str()).collect();
        if let Some((records, of)) = page.count {
            prop_assert!(records == 3 && of > 3 && lists.len() == 1);
            prop_assert!(values.iter().any(|value| value.contains(&of.to_string())));
        }
        if let Some((_, next)) = page.next {
            prop_assert!(next.len() <= 256 && !next.is_empty());
            let is_said = values.iter().any(|value| value.contains(&next));
            let before = next.parse::<u64>().ok().map(|next| [next.wrapping_sub(1), next.wrapping_sub(3)]);
            let follows = before.is_some_and(|before| before.iter().any(|n| values.iter().any(|v| v.contains(&n.to_string()))));
            prop_assert!(is_said || follows);
        }
    }
}

fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        proptest::sample::select(
            &["true", "false", "null", "\"b\"", "\"\"", "\"https://a\"", "1.5", "-1", "{", "{\"", "", "\""][..]
        )
        .prop_map(str::to_owned),
        (0..20_u64).prop_map(|number| number.to_string()),
        (0..20_u64, any::<bool>())
            .prop_map(|(n, flag)| format!(r#"{{"total":{n},"hasNextPage":{flag},"endCursor":"c{n}"}}"#)),
    ]
}
