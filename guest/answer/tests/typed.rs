//! Typed queries: the answers and errors of each clause.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use lro_answer::bindings::lro::filter::types::{
    Aggregate, AggregateKind, Condition, Group, Operator, Query, Selection, Test,
};
use lro_answer::{
    Budget, ExtractError, FileKind, LIMIT_DEFAULT, LIMIT_MAX, Question, RECORD_BYTES_MAX, Source, extract,
};
use support::{ROOMY, aggregate, all, ask, ask_cut, ask_in_parts, group, lines, only, select, sort, source, test};

const PEOPLE: &str = r#"{"name":"Ann","age":41,"meta":{"owner":"u1","tags":["red","eu"]},"note":null}
{"name":"bob","age":7,"meta":{"owner":"u2","tags":[]}}
{"name":"Änne","age":41.0,"meta":{"owner":"u1","tags":["blue"]}}
{"name":"Cyd","meta":{"owner":"U3","tags":["RED"]},"age":9007199254740993}
"#;

fn names(query: Query) -> Vec<String> {
    let query = Query { select: select(&["name"]), ..query };
    let strip = |line: String| line.trim_start_matches("{\"name\":\"").trim_end_matches("\"}").to_owned();
    lines(PEOPLE, query).into_iter().map(strip).collect()
}

fn ignoring_case(field: &str, operator: Operator, value: &str) -> Query {
    let value = Some(value.to_owned());
    let test = Test { field: field.to_owned(), operator, value, ignore_case: true, parameter: None };
    Query { where_: vec![Condition::Test(test)], ..all() }
}

fn error(query: Query) -> ExtractError {
    ask(PEOPLE, query).unwrap_err()
}

fn near(text: &str, field: &str) -> Vec<String> {
    match ask(text, only(field, Operator::Exists, "")) {
        Err(ExtractError::UnknownField(unknown)) => unknown.near,
        other => panic!("{other:?}"),
    }
}

const ORDERS: &str = r#"{"name":"a","items":[{"sku":"x","price":5},{"sku":"y","price":50}],"a[]":1}
{"name":"b","items":[],"rows":[[1,2],[3]]}
{"name":"c","items":{"price":70}}
{"name":"d", "items" : [ { "sizes": [ {"n": 7}, {"n": 9} ] }, 4 ]}
[{"price":80}]
"#;

#[test]
fn tests_of_any_element() {
    let named = |query: Query| {
        let query = Query { select: select(&["name"]), ..query };
        lines(ORDERS, query)
            .iter()
            .map(|line| line.replace(['{', '}', '"'], "").replace("name:", ""))
            .collect::<Vec<_>>()
    };
    for (field, operator, value, expected) in [
        ("items[].price", Operator::Gt, "5", vec!["a"]),
        ("items[].price", Operator::Ne, "5", vec!["a"]),
        ("items[].price", Operator::Gt, "50", vec![]),
        ("items[]", Operator::Eq, "4", vec!["d"]),
        ("items[]", Operator::Exists, "", vec!["a", "d"]),
        ("items[].sizes[].n", Operator::Eq, "9", vec!["d"]),
        ("items[].sku", Operator::StartsWith, "\"y\"", vec!["a"]),
        ("rows[][]", Operator::Eq, "3", vec!["b"]),
        ("rows[].1", Operator::Eq, "2", vec!["b"]),
        ("[].price", Operator::Eq, "80", vec![""]),
        ("/a[]", Operator::Eq, "1", vec!["a"]),
    ] {
        assert_eq!(named(only(field, operator, value)), expected, "{field} {operator:?} {value}");
    }
    let negated = Query {
        where_: vec![only("items[].price", Operator::Gt, "5").where_[0].clone(), Condition::Negation(0)],
        ..all()
    };
    assert_eq!(named(negated), ["b", "c", "d", ""]);
    for field in ["items[].weight", "name[]", "items[]price", "a[]"] {
        let error = ask(ORDERS, only(field, Operator::Exists, "")).unwrap_err();
        assert!(matches!(&error, ExtractError::UnknownField(unknown) if unknown.field == field), "{field}: {error:?}");
    }
}

#[test]
fn elements_are_grouped() {
    const ISSUES: &str = r#"{"state":"open","labels":[{"name":"bug","votes":2},{"name":"ui","votes":"3"},{"name":"bug","votes":5}],"n":1}
{"state":"open","labels":[],"n":2}
{"state":"shut","labels":[{"name":"bug"},7,{"votes":9,"of":[[1],[2,3]]}],"n":3}
{"state":"shut","labels":"bug","n":4}
{"n":5}
"#;
    let asked = |by: &[&str], aggregates: Vec<Aggregate>| {
        let query = Query { group: group(by, aggregates), ..all() };
        let answer = ask(ISSUES, query.clone()).unwrap();
        assert_eq!(answer.notes.first().map(String::as_str), Some("each element of `labels` counts, not each record"));
        let of_parts = ask_in_parts(ISSUES.as_bytes(), 3, &query, ROOMY).unwrap();
        assert_eq!((&of_parts.lines, &of_parts.notes), (&answer.lines, &answer.notes));
        answer.lines.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let by_name = [r#"{"labels[].name":"bug","count":3}"#, r#"{"labels[].name":"ui","count":1}"#, r#"{"count":2}"#];
    assert_eq!(asked(&["labels[].name"], Vec::new()), by_name);
    let of_both = vec![aggregate(AggregateKind::Sum, "labels[].votes"), aggregate(AggregateKind::Max, "n")];
    let expected = [
        r#"{"state":"open","labels[].name":"bug","sum_labels[].votes":7,"max_n":1}"#,
        r#"{"state":"open","labels[].name":"ui","sum_labels[].votes":3,"max_n":1}"#,
        r#"{"state":"shut","labels[].name":"bug","sum_labels[].votes":0,"max_n":3}"#,
        r#"{"state":"shut","sum_labels[].votes":9,"max_n":3}"#,
    ];
    assert_eq!(asked(&["state", "labels[].name"], of_both), expected);
    let count = vec![aggregate(AggregateKind::Count, "labels[].votes")];
    assert_eq!(asked(&[], count), [r#"{"count_labels[].votes":4}"#]);

    let inner = Query { group: group(&["labels[].of[][]"], Vec::new()), limit: Some(2), ..all() };
    assert_eq!(lines(ISSUES, inner), [r#"{"labels[].of[][]":1,"count":1}"#, r#"{"labels[].of[][]":2,"count":1}"#]);
    let of_two = Query { group: group(&["labels[].name", "labels[].of[]"], Vec::new()), ..all() };
    let error = ask(ISSUES, of_two).unwrap_err();
    assert!(matches!(&error, ExtractError::Invalid(why) if why.contains("or those of `labels[].of`")), "{error:?}");
    let unknown = Query { group: group(&["labels[].weight"], Vec::new()), ..all() };
    assert!(matches!(ask(ISSUES, unknown), Err(ExtractError::UnknownField(_))));
}

#[test]
fn what_each_element_has_is_selected() {
    let selected = |fields: &[&str]| lines(ORDERS, Query { select: select(fields), ..all() });
    let prices = [
        r#"{"name":"a","items[].price":[5,50]}"#,
        r#"{"name":"b","items[].price":[]}"#,
        r#"{"name":"c"}"#,
        r#"{"name":"d","items[].price":[]}"#,
        "{}",
    ];
    assert_eq!(selected(&["name", "items[].price"]), prices);
    let sizes = selected(&["items[].sizes[]", "rows[][]", "[].price", "/a[]"]);
    let expected = [
        r#"{"items[].sizes[]":[],"/a[]":1}"#,
        r#"{"items[].sizes[]":[],"rows[][]":[1,2,3]}"#,
        "{}",
        r#"{"items[].sizes[]":[{"n": 7},{"n": 9}]}"#,
        r#"{"[].price":[80]}"#,
    ];
    assert_eq!(sizes, expected);
    let distinct = Query { select: select(&["items[].sku"]), distinct: true, ..all() };
    assert_eq!(lines(ORDERS, distinct), [r#"{"items[].sku":["x","y"]}"#, r#"{"items[].sku":[]}"#, "{}"]);
    let sorted = Query { select: select(&["items[].price"]), sort: sort("name", true), limit: Some(1), ..all() };
    assert_eq!(lines(ORDERS, sorted), [r#"{"items[].price":[]}"#]);
    for query in
        [Query { sort: sort("items[].price", false), ..all() }, Query { select: select(&["items[].weight"]), ..all() }]
    {
        assert!(matches!(ask(ORDERS, query), Err(ExtractError::UnknownField(_))));
    }
}

#[test]
fn operators() {
    let cases = [
        (only("age", Operator::Eq, "41"), vec!["Ann", "Änne"]),
        (only("age", Operator::Ne, "41"), vec!["bob", "Cyd"]),
        (only("age", Operator::Gt, "9007199254740992"), vec!["Cyd"]),
        (only("age", Operator::Lt, "4.1e1"), vec!["bob"]),
        (only("name", Operator::Ge, "\"b\""), vec!["bob", "Änne"]),
        (only("meta.owner", Operator::OneOf, "[\"u2\",3,\"u1\"]"), vec!["Ann", "bob", "Änne"]),
        (only("/meta/tags", Operator::Contains, "\"red\""), vec!["Ann"]),
        (ignoring_case("/meta/tags", Operator::Contains, "\"red\""), vec!["Ann", "Cyd"]),
        (only("/meta/tags", Operator::Contains, "\"lu\""), vec!["Änne"]),
        (ignoring_case("/meta/tags", Operator::Contains, "\"ED\""), vec!["Ann", "Cyd"]),
        (ignoring_case("name", Operator::StartsWith, "\"ä\""), vec!["Änne"]),
        (ignoring_case("name", Operator::Matches, "\"^a|d$\""), vec!["Ann", "Cyd"]),
        (only("name", Operator::Matches, "\"^\\\\w{3}$\""), vec!["Ann", "bob", "Cyd"]),
        (only("note", Operator::Exists, ""), vec!["Ann"]),
        (only("note", Operator::IsNull, ""), vec!["Ann"]),
        (only("meta.tags.0", Operator::Eq, "\"blue\""), vec!["Änne"]),
        (only("meta", Operator::Eq, "{\"tags\":[],\"owner\":\"u2\"}"), vec!["bob"]),
        (only("", Operator::Exists, ""), vec!["Ann", "bob", "Änne", "Cyd"]),
    ];
    for (query, expected) in cases {
        assert_eq!(names(query.clone()), expected, "{query:?}");
    }
}

#[test]
fn patterns_know_the_letters_of_all_languages() {
    let text = "{\"n\":\"École\"}\n{\"n\":\"日本語\"}\n{\"n\":\"a-b\"}\n";
    let found = |query: Query| ask(text, query).unwrap().total;
    assert_eq!(found(ignoring_case("n", Operator::Matches, r#""^école$""#)), 1);
    for (pattern, count) in
        [(r"^\\w+$", 2), (r"\\bcole", 0), (r"\\p{L}", 3), (r"^\\p{Lu}", 1), (r"\\W", 1), (r"^.{3}$", 2)]
    {
        assert_eq!(found(only("n", Operator::Matches, &format!("\"{pattern}\""))), count, "{pattern}");
    }
}

#[test]
fn a_pattern_has_a_size_and_a_depth() {
    for pattern in [r"\\w{400}".to_owned(), "(".repeat(300) + &")".repeat(300)] {
        let refused = error(only("name", Operator::Matches, &format!("\"{pattern}\"")));
        assert!(
            matches!(&refused, ExtractError::Invalid(why) if why.starts_with("where[0]: regular expression: ")),
            "{refused:?}"
        );
        assert!(!format!("{refused:?}").contains("\\n"), "{refused:?}");
    }
}

#[test]
fn a_missing_field_is_no_obstacle_to_a_negation() {
    let mut query = only("note", Operator::Exists, "");
    query.where_.push(Condition::Negation(0));
    assert_eq!(names(query), ["bob", "Änne", "Cyd"]);
}

#[test]
fn shared_steps_are_looked_at_once() {
    let mut query = only("age", Operator::Eq, "0");
    for index in 0..200 {
        query.where_.push(Condition::Any(vec![index, index, index]));
    }
    assert!(names(query).is_empty());
}

#[test]
fn a_result_is_a_copy_of_the_record() {
    let text = "{\"b\":1.0,\"a\":123456789012345678901234567890,\"b\":1e2,\"c\":\"\\u0041\"}\n";
    assert_eq!(lines(text, all()).join("\n") + "\n", text);
    let query = Query { select: select(&["c", "a", "b", "missing"]), ..all() };
    let text = format!("{text}{{\"missing\":0}}\n");
    let first = "{\"c\":\"\\u0041\",\"a\":123456789012345678901234567890,\"b\":1e2}";
    assert_eq!(lines(&text, query), [first, "{\"missing\":0}"]);
}

#[test]
fn pages() {
    let text: String = (0..120).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let answer = ask(&text, all()).unwrap();
    assert_eq!((answer.results, answer.total, answer.examined), (u64::from(LIMIT_DEFAULT), 120, 120));
    let page = Query { offset: 118, limit: Some(10), ..all() };
    assert_eq!(lines(&text, page), ["{\"id\":118}", "{\"id\":119}"]);
    let beyond = ask(&text, Query { offset: 1000, ..all() }).unwrap();
    assert_eq!((beyond.results, beyond.total, beyond.next_bytes), (0, 120, None));
    for limit in [0, LIMIT_MAX + 1] {
        let refused = ask(&text, Query { limit: Some(limit), ..all() });
        assert!(matches!(refused, Err(ExtractError::Invalid(message)) if message.starts_with("limit: ")));
    }
}

#[test]
fn an_empty_file_gives_an_empty_answer() {
    let answer = ask("", only("nothing", Operator::Eq, "1")).unwrap();
    assert_eq!((answer.lines.as_str(), answer.total, answer.matched, answer.examined), ("", 0, 0, 0));
    assert_eq!(lines("", Query { count: true, ..all() }), ["{\"count\":0}"]);
    let by_name = Query { group: group(&["name"], Vec::new()), ..all() };
    assert!(lines("", by_name).is_empty());
}

#[test]
fn count_is_the_only_result() {
    let query = Query { count: true, offset: 0, limit: Some(1), ..only("age", Operator::Eq, "41") };
    let answer = ask(PEOPLE, query).unwrap();
    assert_eq!((answer.lines.as_str(), answer.results, answer.total), ("{\"count\":2}\n", 1, 1));
    let query = Query { count: true, distinct: true, select: select(&["age"]), ..all() };
    assert_eq!(lines(PEOPLE, query), ["{\"count\":3}"]);
}

#[test]
fn equal_ones_stay_in_the_order_of_the_file() {
    assert_eq!(names(Query { sort: sort("age", true), ..all() }), ["Cyd", "Ann", "Änne", "bob"]);
    assert_eq!(names(Query { sort: sort("age", true), limit: Some(2), ..all() }), ["Cyd", "Ann"]);
    assert_eq!(names(Query { sort: sort("age", true), offset: 1, limit: Some(2), ..all() }), ["Ann", "Änne"]);
    assert_eq!(names(Query { sort: sort("note", false), ..all() }), ["bob", "Änne", "Cyd", "Ann"]);
    let both = [sort("age", false), sort("name", true)].concat();
    assert_eq!(names(Query { sort: both, ..all() }), ["bob", "Änne", "Ann", "Cyd"]);
}

#[test]
fn distinct_goes_by_value() {
    let query = Query { select: select(&["age"]), distinct: true, ..all() };
    assert_eq!(lines(PEOPLE, query), ["{\"age\":41}", "{\"age\":7}", "{\"age\":9007199254740993}"]);
    let text = "{\"a\":1,\"b\":2}\n{\"b\":2.0,\"a\":1}\n{\"a\":1}\n";
    assert_eq!(lines(text, Query { distinct: true, ..all() }), ["{\"a\":1,\"b\":2}", "{\"a\":1}"]);
}

#[test]
fn a_sample_is_the_same_every_time_and_in_order() {
    let text: String = (0..1000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let query = Query { sample: Some(20), ..all() };
    let answer = ask(&text, query.clone()).unwrap();
    assert_eq!((answer.results, answer.total, answer.matched), (20, 20, 1000));
    let ids: Vec<u32> = answer.lines.lines().map(|line| line[6..line.len() - 1].parse().unwrap()).collect();
    assert!(ids.is_sorted() && ids[0] < 250 && ids[19] > 750, "{ids:?}");
    assert_eq!(ask_cut(text.as_bytes(), 17, &Question::Query(query.clone()), ROOMY).unwrap().lines, answer.lines);
    // Sorting gives the same sample in another order.
    let mut reversed = lines(&text, Query { sort: sort("id", true), ..query.clone() });
    reversed.reverse();
    assert_eq!(reversed, lines(&text, query.clone()));
    // A larger sample contains it.
    let larger = lines(&text, Query { sample: Some(30), ..query.clone() });
    assert!(lines(&text, query.clone()).iter().all(|line| larger.contains(line)));
    assert_eq!(lines(&text, Query { offset: 19, ..query }).len(), 1);
    assert_eq!(ask("{\"id\":1}\n", Query { sample: Some(5), ..all() }).unwrap().total, 1);
}

#[test]
fn groups() {
    let aggregates = vec![
        aggregate(AggregateKind::Count, ""),
        aggregate(AggregateKind::Count, "note"),
        aggregate(AggregateKind::Sum, "age"),
        aggregate(AggregateKind::Avg, "age"),
        aggregate(AggregateKind::Min, "age"),
        aggregate(AggregateKind::Max, "/age"),
        aggregate(AggregateKind::Max, "name"),
    ];
    let query = Query { group: group(&["meta.owner"], aggregates), ..all() };
    let results = lines(PEOPLE, query.clone());
    assert_eq!(
        results,
        [
            r#"{"meta.owner":"u1","count":2,"count_note":1,"sum_age":82,"avg_age":41,"min_age":41,"max_age":41,"max_name":"Änne"}"#,
            r#"{"meta.owner":"u2","count":1,"count_note":0,"sum_age":7,"avg_age":7,"min_age":7,"max_age":7,"max_name":"bob"}"#,
            r#"{"meta.owner":"U3","count":1,"count_note":0,"sum_age":9007199254740993,"avg_age":9007199254740992,"min_age":9007199254740993,"max_age":9007199254740993,"max_name":"Cyd"}"#,
        ]
    );
    let sorted = Query { sort: sort("sum_age", true), select: select(&["sum_age"]), limit: Some(1), ..query.clone() };
    assert_eq!(lines(PEOPLE, sorted), ["{\"sum_age\":9007199254740993}"]);
    let by_owner = Query { sort: sort("meta.owner", false), select: select(&["meta.owner"]), limit: Some(1), ..query };
    assert_eq!(lines(PEOPLE, by_owner), ["{\"meta.owner\":\"U3\"}"]);
}

#[test]
fn a_missing_value_is_a_group_of_its_own() {
    let text = "{\"a\":1}\n{\"b\":2}\n{\"a\":null}\n{\"a\":1.0}\n{\"c\":3}\n";
    let query = Query { group: group(&["a"], Vec::new()), ..all() };
    assert_eq!(lines(text, query), ["{\"a\":1,\"count\":2}", "{\"count\":2}", "{\"a\":null,\"count\":1}"]);
}

#[test]
fn integers_are_exact() {
    let big = i128::MAX - 1;
    let text = format!("{{\"n\":{big}}}\n{{\"n\":1}}\n");
    let sum = |text: &str| {
        let aggregates = vec![aggregate(AggregateKind::Sum, "n"), aggregate(AggregateKind::Avg, "n")];
        lines(text, Query { group: group(&[], aggregates), ..all() }).remove(0)
    };
    assert!(sum(&text).starts_with(&format!("{{\"sum_n\":{},", i128::MAX)));
    assert_eq!(sum(&format!("{text}{text}")), "{\"sum_n\":3.402823669209385e38,\"avg_n\":8.507059173023462e37}");
    assert_eq!(sum("{\"n\":0.1}\n{\"n\":0.2}\n"), "{\"sum_n\":0.30000000000000004,\"avg_n\":0.15000000000000002}");
    assert_eq!(
        sum("{\"n\":1e308}\n{\"n\":1e308}\n"),
        "{\"sum_n\":1.7976931348623157e308,\"avg_n\":1.7976931348623157e308}"
    );
    assert_eq!(sum("{\"n\":1e400}\n{\"n\":-1e400}\n"), "{\"sum_n\":null,\"avg_n\":null}");
    assert_eq!(sum("{\"n\":\"x\"}\n{\"n\":null}\n"), "{\"sum_n\":0,\"avg_n\":null}");
    assert_eq!(sum("{\"n\":1}\n{\"n\":2}\n"), "{\"sum_n\":3,\"avg_n\":1.5}");
}

#[test]
fn sums_do_not_depend_on_the_order_of_records() {
    let aggregates = || vec![aggregate(AggregateKind::Sum, "n"), aggregate(AggregateKind::Avg, "n")];
    let sum = |numbers: &[&str]| {
        let text: String = numbers.iter().map(|number| format!("{{\"n\":{number}}}\n")).collect();
        lines(&text, Query { group: group(&[], aggregates()), ..all() }).remove(0)
    };
    let mut numbers =
        ["0.1", "0.2", "0.3", "-7", "1e-8", "12345678901.25", "-12345678901.25", "9007199254740993", "1E3"];
    let forwards = sum(&numbers);
    numbers.reverse();
    assert_eq!(sum(&numbers), forwards);
    // One after another, these lose the small ones in half of the orders.
    assert_eq!(sum(&["1e13", "0.001", "-1e13"]), sum(&["1e13", "-1e13", "0.001"]));
    assert_eq!(sum(&["1e13", "0.001", "-1e13"]), r#"{"sum_n":0.001,"avg_n":0.0003333333333333333}"#);
    // Integers and fractions are rounded together.
    assert_eq!(sum(&["2", "0.7", "14.1"]), r#"{"sum_n":16.8,"avg_n":5.6000000000000005}"#);
    // All are written as integers, or not all.
    assert_eq!(sum(&["0.5", "0.5"]), r#"{"sum_n":1,"avg_n":0.5}"#);
    assert_eq!(sum(&["9007199254740993", "0.5", "-0.5"]), r#"{"sum_n":9007199254740992,"avg_n":3002399751580330.5}"#);
    assert_eq!(sum(&["1e300", "1e-300"]), r#"{"sum_n":1e300,"avg_n":5e299}"#);
}

/// The line and the notes of all aggregates of numbers over a field `v` with these values.
fn all_of(values: &[&str]) -> (String, Vec<String>) {
    let text: String = values.iter().map(|value| format!("{{\"v\":{value}}}\n")).collect();
    let answer = ask(&text, Query { group: group(&[], numeric_aggregates()), ..all() }).unwrap();
    (answer.lines, answer.notes)
}

fn numeric_aggregates() -> Vec<Aggregate> {
    let kinds = [AggregateKind::Sum, AggregateKind::Avg, AggregateKind::Min, AggregateKind::Max];
    kinds.into_iter().map(|kind| aggregate(kind, "v")).collect()
}

#[test]
fn texts_that_are_numbers_count_as_numbers_and_a_note_says_so() {
    let (line, notes) = all_of(&["1", "\" 2.5 \"", "\"N/A\"", "\"0010\"", "null", "\"-3\"", "\"\\u0034\"", "true"]);
    assert_eq!(line, "{\"sum_v\":14.5,\"avg_v\":2.9,\"min_v\":-3,\"max_v\":10}\n");
    assert_eq!(
        notes,
        ["`v`: 4 texts were read as numbers", "`v`: 2 records in which it is not a number were left out"]
    );
    let (line, notes) = all_of(&["\"999\"", "\"2999\"", "\"N/A\""]);
    assert_eq!(line, "{\"sum_v\":3998,\"avg_v\":1999,\"min_v\":999,\"max_v\":2999}\n");
    assert_eq!(notes, ["`v`: 2 texts were read as numbers", "`v`: 1 record in which it is not a number was left out"]);
    assert_eq!(all_of(&["1", "null", "2"]).1, Vec::<String>::new());
}

#[test]
fn a_field_without_numbers_has_the_extremes_of_its_texts_and_a_note() {
    let (line, notes) = all_of(&["\"2026-02-01\"", "\"2026-11-30\"", "\"2025-12-31\"", "null", "[1]"]);
    assert_eq!(line, "{\"sum_v\":0,\"avg_v\":null,\"min_v\":\"2025-12-31\",\"max_v\":\"2026-11-30\"}\n");
    assert_eq!(
        notes,
        [
            "`v`: it has no numbers",
            "`v`: 4 records in which it is not a number were left out",
            "`v`: it has no numbers, so its texts are compared, character by character",
            "`v`: 1 record in which it is not a text was left out",
        ]
    );
}

#[test]
fn a_group_of_texts_has_no_extremes_where_another_has_numbers() {
    let text = "{\"g\":1,\"v\":\"N/A\"}\n{\"g\":2,\"v\":5}\n";
    let query = Query { group: group(&["g"], vec![aggregate(AggregateKind::Max, "v")]), ..all() };
    assert_eq!(lines(text, query), ["{\"g\":1,\"max_v\":null}", "{\"g\":2,\"max_v\":5}"]);
}

#[test]
fn extremes_of_long_texts_count_for_the_memory_of_groups() {
    let long = "x".repeat(1 << 20);
    let text: String = (0..10).map(|id| format!("{{\"g\":{id},\"v\":\"{long}\"}}\n")).collect();
    let query = Query { group: group(&["g"], vec![aggregate(AggregateKind::Max, "v")]), ..all() };
    assert!(matches!(ask(&text, query), Err(ExtractError::Limit(why)) if why.starts_with("groups-bytes")));
}

#[test]
fn texts_that_are_numbers_sort_as_numbers_and_a_note_says_so() {
    let text = "{\"v\":\"2999\"}\n{\"v\":\"N/A\"}\n{\"v\":1000}\n{\"v\":\"999\"}\n{\"v\":\"007\"}\n";
    let sorted = |descending| Query { sort: sort("v", descending), ..all() };
    let ascending = ["{\"v\":\"007\"}", "{\"v\":\"999\"}", "{\"v\":1000}", "{\"v\":\"2999\"}", "{\"v\":\"N/A\"}"];
    assert_eq!(lines(text, sorted(false)), ascending);
    assert!(lines(text, sorted(true)).iter().eq(ascending.iter().rev()));
    assert_eq!(ask(text, sorted(true)).unwrap().notes, ["`v`: 3 texts were sorted as numbers"]);
    let groups = Query { group: group(&["v"], Vec::new()), select: select(&["v"]), ..sorted(false) };
    assert_eq!(lines(text, groups.clone()), ascending);
    assert_eq!(ask(text, groups).unwrap().notes, ["`v`: 3 texts were sorted as numbers"]);
    assert!(ask("{\"v\":\"b\"}\n{\"v\":2}\n", sorted(false)).unwrap().notes.is_empty());
}

#[test]
fn two_results_of_one_name_are_told_how_to_rename_one() {
    let text = "{\"count\":1}\n{\"count\":1}\n";
    let grouped = |name: Option<&str>| {
        let by = vec![Selection { field: "count".to_owned(), name: name.map(str::to_owned) }];
        ask(text, Query { group: Some(Group { by, aggregates: Vec::new() }), ..all() })
    };
    let Err(ExtractError::Invalid(why)) = grouped(None) else { panic!() };
    assert!(why.contains(r#"{"field": "count", "as": "other"}"#) && why.contains("`count=other`"), "{why}");
    assert_eq!(grouped(Some("other")).unwrap().lines, "{\"other\":1,\"count\":2}\n");
}

#[test]
fn no_matching_record_still_makes_one_group_of_all() {
    let aggregates = vec![aggregate(AggregateKind::Count, ""), aggregate(AggregateKind::Max, "age")];
    let query = Query { group: group(&[], aggregates), ..only("name", Operator::Eq, "1") };
    assert_eq!(lines(PEOPLE, query), ["{\"count\":0,\"max_age\":null}"]);
}

#[test]
fn an_unknown_field_is_told_with_those_there_are() {
    assert_eq!(near(PEOPLE, "owner")[0], "meta.owner");
    assert_eq!(near(PEOPLE, "Age")[0], "age");
    assert_eq!(near(PEOPLE, "/meta/tag")[0], "meta.tags");
    assert_eq!(near(PEOPLE, "nam")[0], "name");
    assert_eq!(near(PEOPLE, "meta.owners").len(), 7);
    assert_eq!(near("{\"a.b\":{\"c/d\":1}}\n", "c"), ["/a.b/c~1d", "/a.b"]);
    assert_eq!(near("[{\"id\":1}]\n", "id"), ["0.id", "0"]);
    assert_eq!(near("{\"a\":[{\"id\":1}]}\n", "a[].i"), ["a[].id", "a[]", "a"]);
    assert_eq!(near("[{\"id\":1}]\n", "[].i"), ["[].id", "[]"]);
    assert_eq!(near("{\"a\":{\"0\":{\"id\":1}}}\n", "a[].id")[0], "a.0.id");
    let many: String = (0..50).map(|id| format!("{{\"field{id}\":{id}}}\n")).collect();
    assert_eq!(near(&many, "field7x").len(), 10);
    assert_eq!(near(&many, "field7x")[0], "field7");
}

#[test]
fn every_part_of_a_query_names_fields_that_exist() {
    let count = vec![aggregate(AggregateKind::Count, "")];
    let queries = [
        Query { select: select(&["x"]), ..all() },
        Query { sort: sort("x", false), ..all() },
        Query { group: group(&["x"], count.clone()), ..all() },
        Query { group: group(&[], vec![aggregate(AggregateKind::Sum, "x")]), ..all() },
        Query { select: select(&["x"]), ..only("age", Operator::Eq, "0") },
    ];
    for query in queries {
        assert!(matches!(error(query), ExtractError::UnknownField(unknown) if unknown.field == "x"));
    }
    for query in [
        Query { sort: sort("totl", false), group: group(&["name"], count.clone()), ..all() },
        Query { select: select(&["cuont"]), group: group(&["name"], count), ..all() },
    ] {
        match error(query) {
            ExtractError::UnknownField(unknown) => assert!(unknown.near.contains(&"count".to_owned())),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_budget_cuts_between_results() {
    let text: String = (0..10).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    let ask = |bytes, tokens| ask_cut(text.as_bytes(), 100, &Question::Query(all()), Budget { bytes, tokens }).unwrap();
    let answer = ask(25, 1000);
    assert_eq!((answer.lines.as_str(), answer.results, answer.total), ("{\"id\":0}\n{\"id\":1}\n", 2, 10));
    assert_eq!(answer.next_bytes, Some(9));
    assert_eq!(ask(27, 1000).results, 3);
    assert_eq!(ask(1000, 12).results, 2);
    assert_eq!(ask(8, 1000).lines, "");
    assert_eq!(ask(90, 60).next_bytes, None);
    assert_eq!(ask(90, 59).next_bytes, Some(9));
}

#[test]
fn a_result_too_large_for_the_budget_hides_no_smaller_one_before_it() {
    let text = format!("{{\"a\":1}}\n{{\"a\":\"{}\"}}\n{{\"a\":2}}\n", "x".repeat(100));
    let budget = Budget { bytes: 50, tokens: 1000 };
    let answer = ask_cut(text.as_bytes(), 10, &Question::Query(all()), budget).unwrap();
    assert_eq!((answer.lines.as_str(), answer.next_bytes, answer.total), ("{\"a\":1}\n", Some(109), 3));
}

#[test]
fn damaged_lines_are_told_by_number() {
    let good = "{\"a\":1}\n";
    let damaged = [
        "{\"a\":\"x}\n",
        "{\"a\":1\n",
        "{\"a\":1}}\n",
        "\n",
        "x\n",
        "{\"a\":[}\n",
        "{\"a\":\"\\\n",
        "{\"a\" 1}\n",
        "{\"a\":tru}\n",
        "{\"a\":01}\n",
        "{\"a\":1}{\"a\":1}\n",
        "{\"a\":1,}\n",
    ];
    for line in damaged {
        let text = [good, good, line, good].concat();
        assert!(matches!(ask(&text, all()), Err(ExtractError::Damaged(2))), "{line}");
        for cut in [1, 7, 64] {
            let answer = ask_cut(text.as_bytes(), cut, &support::jq("."), ROOMY);
            assert!(matches!(answer, Err(ExtractError::Damaged(2))), "{line}");
        }
    }
    let not_text = [good.as_bytes(), b"{\"a\":\"\xFF\"}\n"].concat();
    let answer = ask_cut(&not_text, 64, &Question::Query(all()), ROOMY);
    assert!(matches!(answer, Err(ExtractError::Damaged(1))));
}

#[test]
fn an_invalid_query_is_refused() {
    let two = |first, second| vec![test("age", Operator::Exists, ""), first, second];
    let exists = || test("age", Operator::Exists, "");
    let conditions = [
        vec![Condition::Negation(0)],
        two(Condition::All(vec![3]), exists()),
        two(Condition::Any(vec![0, 1]), exists()),
        vec![test("age", Operator::Eq, "")],
        vec![test("age", Operator::Exists, "1")],
        vec![test("age", Operator::Eq, "{")],
        vec![test("age", Operator::Eq, "1 2")],
        vec![test("age", Operator::Lt, "[]")],
        vec![test("age", Operator::Gt, "null")],
        vec![test("age", Operator::OneOf, "1")],
        vec![test("age", Operator::StartsWith, "1")],
        vec![test("age", Operator::Matches, "1")],
        vec![test("age", Operator::Matches, "\"(\"")],
        vec![test("age", Operator::Matches, "\"(?:a{1000}){1000}\"")],
        vec![test("age", Operator::Matches, &format!("\"{}\"", "a".repeat(5000)))],
    ];
    for where_ in conditions {
        let answer = error(Query { where_: where_.clone(), ..all() });
        assert!(
            matches!(&answer, ExtractError::Invalid(message) if message.starts_with("where[")),
            "{where_:?}: {answer:?}"
        );
    }
    let named = |name: &str| Selection { field: "age".to_owned(), name: Some(name.to_owned()) };
    let others = [
        Query { select: vec![named("a"), named("a")], ..all() },
        Query { group: group(&["age", "age"], Vec::new()), ..all() },
        Query { group: group(&[], vec![aggregate(AggregateKind::Sum, "")]), ..all() },
        Query { sample: Some(0), ..all() },
    ];
    for query in others {
        assert!(matches!(error(query.clone()), ExtractError::Invalid(_)), "{query:?}");
    }
    let steps = vec![test("age", Operator::Exists, ""); 300];
    assert!(
        matches!(error(Query { where_: steps, ..all() }), ExtractError::Limit(message) if message.starts_with("condition-steps"))
    );
}

#[test]
fn limits_are_named() {
    let named = |text: &str, query, name: &str| match ask(text, query) {
        Err(ExtractError::Limit(message)) => assert!(message.starts_with(name), "{message}"),
        other => panic!("{name}: {:?}", other.map(|answer| answer.results)),
    };
    named(&format!("\"{}\"\n", "x".repeat(RECORD_BYTES_MAX)), all(), "record-bytes");
    let text: String = (0..20).map(|id| format!("{{\"id\":\"{id}{}\"}}\n", "x".repeat(1 << 20))).collect();
    named(&text, Query { distinct: true, ..all() }, "distinct-bytes");
    named(&text, Query { group: group(&["id"], Vec::new()), ..all() }, "groups-bytes");
    named(&text, Query { sort: sort("id", false), ..all() }, "sort-bytes");
    let text: String = (0..600_000).map(|id| format!("{{\"id\":{id}}}\n")).collect();
    named(&text, Query { sort: sort("id", false), offset: 590_000, ..all() }, "sort-bytes");
    assert_eq!(lines(&text, Query { sort: sort("id", true), limit: Some(1), ..all() }), ["{\"id\":599999}"]);
}

#[test]
fn what_cannot_be_read_is_told() {
    let source = [Source { bytes: 100, ..source(0, FileKind::Records, b"") }];
    let question = Question::Query(all());
    let fails = extract(&source, &question, ROOMY, &mut |_, _, _| Err("x: gone".to_owned()));
    assert!(matches!(fails, Err(ExtractError::Io(message)) if message == "x: gone"));
    let ends = extract(&source, &question, ROOMY, &mut |_, _, _| Ok(Vec::new()));
    assert!(matches!(ends, Err(ExtractError::Io(_))));
    let beyond = source.map(|source| Source { start: 200, ..source });
    assert!(matches!(extract(&beyond, &question, ROOMY, &mut |_, _, _| Ok(Vec::new())), Err(ExtractError::Invalid(_))));
}

#[test]
fn the_header_line_is_skipped() {
    let text = "{\"type\":\"header\"}\n{\"id\":1}\n";
    let source = Source { start: 18, ..source(0, FileKind::Records, text.as_bytes()) };
    let answer = extract(&[source], &Question::Query(all()), ROOMY, &mut |_, offset, length| {
        Ok(text.bytes().skip(offset as usize).take(length as usize).collect())
    });
    assert_eq!(answer.unwrap().lines, "{\"id\":1}\n");
}
