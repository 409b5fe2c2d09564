//! Queries as they are written: spellings with one meaning, and errors that name the place.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use lro_host::extract::{Condition, Query, QueryError};
use proptest::prelude::*;
use serde_json::{Value, json};

/// A query in its canonical form.
fn canonical(query: &str) -> Value {
    serde_json::to_value(Query::read(query).unwrap_or_else(|error| panic_with(query, &error))).unwrap()
}

#[expect(clippy::panic, reason = "a test fails by panicking")]
fn panic_with(query: &str, error: &QueryError) -> ! {
    panic!("{query}: {error}")
}

fn test(field: &str, op: &str, value: Value) -> Value {
    json!({"field": field, "op": op, "value": value})
}

#[test]
fn spellings_with_one_meaning_are_read() {
    let x_desc = json!({"sort": [{"field": "x", "descending": true}]});
    let by_x = json!({"group": {"by": ["x"]}});
    let as_y = json!({"select": [{"field": "x", "as": "y"}]});
    let x_is_1 = json!({"where": [test("x", "eq", json!(1))]});
    let cases: Vec<(Vec<Value>, Value)> = vec![
        (vec![], json!({})),
        (
            vec![json!({"select": "x"}), json!({"select": ["x"]}), json!({"select": {"field": "x"}})],
            json!({"select": ["x"]}),
        ),
        (vec![json!({"select": "id, title"}), json!({"select": ["id", "title"]})], json!({"select": ["id", "title"]})),
        (vec![json!({"select": ["first name, last"]})], json!({"select": ["first name, last"]})),
        (
            vec![
                json!({"select": [{"field": "x", "as": "y"}]}),
                json!({"select": [{"field": "x", "alias": "y"}]}),
                json!({"select": {"field": "x", "name": "y"}}),
            ],
            as_y,
        ),
        (
            vec![
                json!({"group": "x"}),
                json!({"group": ["x"]}),
                json!({"group": {"by": "x"}}),
                json!({"group": {"by": ["x"]}}),
                json!({"group": {"field": "x"}}),
                json!({"group_by": "x"}),
                json!({"groupBy": ["x"]}),
                json!({"group": {"by": "x", "aggregates": []}, "limit": null, "where": null}),
            ],
            by_x,
        ),
        (
            vec![
                json!({"group": {"by": "x", "aggregates": "count, sum:n"}}),
                json!({"group": {"by": "x", "aggregates": ["count", "sum(n)"]}}),
                json!({"group_by": "x", "aggregates": ["count(*)", {"function": "SUM", "field": "n"}]}),
                json!({"group": "x", "aggregates": [{"kind": "count", "field": "*"}, {"kind": "sum", "field": "n"}]}),
            ],
            json!({"group": {"by": ["x"], "aggregates": [{"kind": "count"}, {"kind": "sum", "field": "n"}]}}),
        ),
        (
            vec![json!({"aggregates": [{"kind": "mean", "field": "n", "alias": "m"}]})],
            json!({"group": {"by": [], "aggregates": [{"kind": "avg", "field": "n", "as": "m"}]}}),
        ),
        (
            vec![
                json!({"sort": "-x"}),
                json!({"sort": "x desc"}),
                json!({"sort": ["-x"]}),
                json!({"sort": ["x DESC"]}),
                json!({"sort": {"field": "x", "desc": true}}),
                json!({"sort": [{"field": "x", "descending": true}]}),
                json!({"sort": [{"field": "x", "order": "desc"}]}),
                json!({"sort": [{"field": "x", "direction": "Descending"}]}),
                json!({"order_by": "-x"}),
                json!({"orderBy": [{"field": "x", "desc": true}]}),
                json!({"sort_by": "x descending"}),
            ],
            x_desc,
        ),
        (
            vec![
                json!({"sort": "x asc, -first name"}),
                json!({"sort": ["x", {"field": "first name", "order": "desc"}]}),
            ],
            json!({"sort": [{"field": "x"}, {"field": "first name", "descending": true}]}),
        ),
        (
            vec![
                json!({"where": {"field": "x", "op": "eq", "value": 1}}),
                json!({"where": [{"field": "x", "op": "=", "value": 1}]}),
                json!({"where": [{"field": "x", "operator": "equals", "value": 1}]}),
                json!({"where": {"x": 1}}),
                json!({"where": {"x": {"eq": 1}}}),
                json!({"where": {"x": {"$eq": 1}}}),
                json!({"where": "x = 1"}),
                json!({"where": ["x == 1"]}),
                json!({"where": "[{\"field\": \"x\", \"op\": \"eq\", \"value\": 1}]"}),
                json!({"where": "{\"x\": 1}"}),
            ],
            x_is_1,
        ),
        (vec![json!({"where": {}}), json!({"where": []}), json!({"where": ""}), json!({"where": null})], json!({})),
        (
            vec![
                json!({"where": {"x": {"gte": 1, "lt": 5}, "y": null}}),
                json!({"where": {"and": [test("x", "ge", json!(1)), "x < 5", {"y": null}]}}),
                json!({"where": "x >= 1 and x lt 5 and y == null"}),
            ],
            json!({"where": [{"all":
                [test("x", "ge", json!(1)), test("x", "lt", json!(5)), test("y", "eq", Value::Null)]}]}),
        ),
        (
            vec![json!({"where": "X == 1", "ignore_case": true}), json!({"where": "X == 1", "ignoreCase": true})],
            json!({"where": [{"field": "X", "op": "eq", "value": 1, "ignore_case": true}]}),
        ),
    ];
    for (spellings, expected) in cases {
        for spelling in spellings {
            assert_eq!(canonical(&spelling.to_string()), expected, "{spelling}");
        }
    }
    // The canonical form is one of the spellings, and numbers keep their digits.
    for exact in [
        r#"{"where":[{"all":[{"field":"","op":"exists"},{"not":{"field":"n","op":"ne","value":12345678901234567890.50}}]}]}"#,
        r#"{"where":[{"field":"n","op":"eq","value":null,"parameter":"value"}],"sort":[{"field":"-x"}],"limit":3}"#,
        r#"{"group":{"by":["a, b",{"field":"*","as":"c"}],"aggregates":[{"kind":"max","field":"n","as":"m"}]},"count":true}"#,
        r#"{"select":["x desc","-y"],"distinct":true,"sample":4,"offset":7}"#,
    ] {
        assert_eq!(serde_json::to_string(&Query::read(exact).unwrap()).unwrap(), exact);
    }
}

#[test]
fn operators_have_many_spellings() {
    let ends = json!({"field": "x", "op": "matches", "value": "a\\.b$"});
    let not = |test: Value| json!({ "not": test });
    let exists = json!({"field": "x", "op": "exists"});
    let is_null = json!({"field": "x", "op": "is_null"});
    let cases: [(&[&str], Value, Value); 8] = [
        (&["starts_with", "startsWith", "startswith", "starts-with"], json!("a"), test("x", "starts_with", json!("a"))),
        (&["ends_with", "endsWith", "ENDSWITH", "ends-with"], json!("a.b"), ends),
        (&["matches", "regex", "=~", "match"], json!("^a"), test("x", "matches", json!("^a"))),
        (&["not_in", "notIn", "$not_in"], json!([1]), not(test("x", "in", json!([1])))),
        (&["not_contains", "notContains"], json!("a"), not(test("x", "contains", json!("a")))),
        (&["exists"], json!(true), exists.clone()),
        (&["exists"], json!(false), not(exists)),
        (&["is_null", "isNull"], json!(true), is_null),
    ];
    for (spellings, value, expected) in cases {
        for spelling in spellings {
            let query = json!({"where": {"field": "x", "op": spelling, "value": value}});
            assert_eq!(canonical(&query.to_string())["where"][0], expected, "{spelling}");
        }
    }
    for (op, value) in [("is_null", false), ("is_not_null", true), ("notNull", true)] {
        let query = json!({"where": {"x": {op: value}}});
        assert_eq!(canonical(&query.to_string())["where"][0], test("x", "ne", Value::Null), "{op}");
    }
}

#[test]
fn what_is_not_known_is_an_error_that_names_the_place() {
    let cases = [
        (json!({"whre": []}), "unknown member `whre`; did you mean `where`?"),
        (json!({"where": [], "Where": []}), "`where` is there twice"),
        (json!({"fields": ["x"]}), "unknown member `fields`; expected one of"),
        (json!({"sort": [{"desc": true}]}), "`sort[0]`: expected a field such as"),
        (
            json!({"sort": [{"field": "x", "decending": true}]}),
            "`sort[0]`: unknown member `decending`; did you mean `descending`?",
        ),
        (json!({"sort": [{"field": "x", "order": "down"}]}), "`sort[0].order`: expected \"asc\" or \"desc\""),
        (
            json!({"sort": [{"field": "x", "order": "asc", "desc": true}]}),
            "`sort[0]`: `order` or `descending`, not both",
        ),
        (json!({"sort": "-x desc"}), "`sort`: expected `-FIELD` or `FIELD desc`, not both"),
        (json!({"sort": [1]}), "`sort[0]`: expected a field"),
        (json!({"select": [{"field": "x", "label": "y"}]}), "`select[0]`: unknown member `label`"),
        (json!({"select": [{"as": "y"}]}), "`select[0]`: expected a field"),
        (json!({"select": [{"field": "x", "as": "y", "alias": "z"}]}), "`select[0]`: `as` is there twice"),
        (json!({"group": {"bye": ["x"]}}), "`group`: unknown member `bye`; did you mean `by`?"),
        (json!({"group": {"by": "x"}, "group_by": "y"}), "`group` or `group_by`, not both"),
        (json!({"group": {"by": "x", "aggregates": [{"field": "n"}]}}), "`group.aggregates[0]`: expected an aggregate"),
        (json!({"group": {"aggregates": ["median:n"]}}), "`group.aggregates[0]`: unknown aggregate `median`"),
        (json!({"where": [1]}), "`where[0]`: expected a condition"),
        (
            json!({"where": {"field": "x", "op": "like", "value": 1}}),
            "`where.op`: unknown operator `like`; expected one of `eq`",
        ),
        (json!({"where": {"field": "x", "op": "contans", "value": 1}}), "did you mean `contains`?"),
        (json!({"where": {"field": "x"}}), "`where`: expected a condition {\"field\": …, \"op\""),
        (json!({"where": {"x": [1, 2]}}), "`where.x`: expected a value, or {\"in\": […]}"),
        (json!({"where": {"x": {"lik": 1}}}), "`where.x.lik`: unknown operator `lik`"),
        (json!({"where": {"x": {"exists": 3}}}), "`where.x.exists`: expected no value"),
        (json!({"where": {"x": {"ends_with": 3}}}), "`where.x.ends_with`: expected a text"),
        (
            json!({"where": {"any": [{"all": [{"field": "x", "op": "eq", "value": 1, "ingore_case": true}]}]}}),
            "`where.any[0].all[0]`: unknown member `ingore_case`; did you mean `ignore_case`?",
        ),
        (json!({"where": {"any": [], "field": "x"}}), "`where`: `field` does not go with"),
        (
            json!({"where": {"any": ["x >"]}}),
            "`where.any[0]`: at byte 3 of the condition: expected a value, found the end",
        ),
        (json!({"limit": "many"}), "`limit`: expected a whole number, not negative, found \"many\""),
        (json!({"count": 1}), "`count`: expected true or false, found 1"),
        (json!([]), "expected a query"),
    ];
    for (query, expected) in cases {
        let error = Query::read(&query.to_string()).unwrap_err().to_string();
        assert!(error.contains(expected), "{query}: {error}");
    }
    let mut deep = json!({"field": "x", "op": "exists"});
    for _ in 0..100 {
        deep = json!({ "not": deep });
    }
    let error = Query::read(&json!({ "where": deep }).to_string()).unwrap_err().to_string();
    assert!(error.contains("at most 64 levels"), "{error}");
}

fn expression(text: &str) -> Result<Value, String> {
    let condition = Condition::of_expression(text).map_err(|error| error.to_string())?;
    Ok(serde_json::to_value(condition).unwrap())
}

#[test]
fn expressions_are_read() {
    let not = |test: Value| json!({ "not": test });
    let lat = || test("lat", "gt", json!(70));
    let ak = || test("state", "eq", json!("AK"));
    let exists = |field: &str| json!({"field": field, "op": "exists"});
    let cases: Vec<(&[&str], Value)> = vec![
        (
            &[
                "lat > 70 and state == \"AK\"",
                "lat>70 AND state='AK'",
                "(lat gt 70) && (((state eq 'AK')))",
                " lat  >70 and\n`state` = 'AK' ",
                "lat > 70 and \"state\" === 'AK'",
            ],
            json!({"all": [lat(), ak()]}),
        ),
        (&["not lat > 70 or state == 'AK'", "!(lat > 70) || state == 'AK'"], json!({"any": [not(lat()), ak()]})),
        (&["lat > 70 or lat > 70 and state == 'AK'"], json!({"any": [lat(), {"all": [lat(), ak()]}]})),
        (&["(lat > 70 or lat > 70) and state == 'AK'"], json!({"all": [{"any": [lat(), lat()]}, ak()]})),
        (&["n in [1, 'a', \"b\"]", "n in (1,'a',\"b\")", "n IN(1, 'a', \"b\")"], test("n", "in", json!([1, "a", "b"]))),
        (&["n not in []", "not n in ()"], not(test("n", "in", json!([])))),
        (&["n is null", "n isNull", "n is_null"], json!({"field": "n", "op": "is_null"})),
        (&["n is not null", "n != null", "n <> NULL"], test("n", "ne", Value::Null)),
        (&["n exists", "exists n", "exists(n)", "EXISTS ( n )"], exists("n")),
        (&["not n exists", "not exists(n)"], not(exists("n"))),
        (&["n contains 'it''s'", "n contains 'it\\'s'", "n includes \"it's\""], test("n", "contains", json!("it's"))),
        (&["n not contains 'a'"], not(test("n", "contains", json!("a")))),
        (&["n starts_with 'a'", "n startsWith 'a'", "n starts with 'a'"], test("n", "starts_with", json!("a"))),
        (&["n ends with 'a+'", "n endsWith 'a+'"], test("n", "matches", json!("a\\+$"))),
        (&["n matches '\\d+'", "n =~ \"\\\\d+\"", "n regex '\\d+'"], test("n", "matches", json!("\\d+"))),
        (&["\"first name\" == true", "`first name` = TRUE"], test("first name", "eq", json!(true))),
        (&["a.b[0].c-d == -1.50e3"], test("a.b[0].c-d", "eq", json!(-1.50e3))),
        (&["android == 1"], test("android", "eq", json!(1))),
        (&["x == {\"a\": [1, \"]\"]}"], test("x", "eq", json!({"a": [1, "]"]}))),
        (&["größe <= 5"], test("größe", "le", json!(5))),
        (&["/a~1b/0 != 'c'", "/a~1b/0!='c'"], test("/a~1b/0", "ne", json!("c"))),
        (&[". == 'a'"], test(".", "eq", json!("a"))),
    ];
    for (spellings, expected) in cases {
        for spelling in spellings {
            assert_eq!(expression(spelling), Ok(expected.clone()), "{spelling}");
        }
    }
    let condition = Condition::of_expression("n == 12345678901234567890.10").unwrap();
    assert!(serde_json::to_string(&condition).unwrap().contains("12345678901234567890.10"));
}

#[test]
fn expressions_that_cannot_be_read_say_where() {
    let deep = format!("{}x > 1{}", "(".repeat(100_000), ")".repeat(100_000));
    let negated = format!("{}x > 1", "not ".repeat(100_000));
    let cases = [
        ("", "byte 0 of the condition: expected a field, found the end"),
        ("lat", "byte 3 of the condition: expected one of the operators"),
        ("lat >", "byte 5 of the condition: expected a value, found the end"),
        ("state == AK", "byte 9 of the condition: expected a value, found `AK`: quote it, as in \"AK\""),
        ("lat > 70 and", "byte 12 of the condition: expected a field"),
        ("lat > 70 state == 'AK'", "byte 9 of the condition: expected `and`, `or` or the end"),
        ("70 < lat", "expected a field, found `70 < lat`, and the value to the right"),
        ("'lat' > 70", "names are in double quotes"),
        ("in == 1", "a field of this name is written in double quotes"),
        ("(lat > 70", "byte 9 of the condition: expected `)`, found the end"),
        ("lat > 70)", "expected `and`, `or` or the end, found `)`"),
        ("lat in 70", "expected a list such as"),
        ("lat in [70", "expected `,`, found the end"),
        ("lat in [70 71]", "expected `,`, found `71]`"),
        ("lat >> 70", "expected one of the operators"),
        ("lat like 'x'", "expected one of the operators"),
        ("lat is 70", "expected one of the operators"),
        ("lower(name) == 'x'", "expected one of the operators = != < <= > >= eq"),
        ("name == 'x", "expected a closing single quote"),
        ("name == \"x", "expected a JSON value"),
        ("`name == 1", "expected a field in backticks"),
        ("name ends_with 3", "expected a text"),
        (&deep, "more than 64 levels"),
        (&negated, "more than 64 levels"),
    ];
    for (text, expected) in cases {
        let error = expression(text).unwrap_err();
        assert!(error.contains(expected), "{text:.40}: {error}");
    }
}

#[test]
fn words_are_a_condition_whose_value_may_be_a_text() {
    let words = |text: &str| {
        let condition = Condition::of_words(text).map_err(|error| error.to_string())?;
        Ok::<_, String>(serde_json::to_value(condition).unwrap())
    };
    for (text, expected) in [
        ("category eq billing", test("category", "eq", json!("billing"))),
        ("category == not yet, maybe", test("category", "eq", json!("not yet, maybe"))),
        ("\"first name\" contains it's", test("first name", "contains", json!("it's"))),
        ("`first name` starts with A B", test("first name", "starts_with", json!("A B"))),
        ("id>5", test("id", "gt", json!(5))),
        ("a(b) in [1, 2]", test("a(b)", "in", json!([1, 2]))),
        ("in = 5", test("in", "eq", json!(5))),
        ("note is null", json!({"field": "note", "op": "is_null"})),
        ("id lt", json!({"field": "id", "op": "lt"})),
    ] {
        assert_eq!(words(text), Ok(expected), "{text}");
    }
    for (text, expected) in [
        ("", "expected FIELD OPERATOR VALUE"),
        ("id", "expected FIELD OPERATOR VALUE, found id"),
        ("id like x", "starts_with"),
        ("id exists yes", "expected no value"),
    ] {
        let error = words(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}

/// A condition, and a way to write it.
fn written() -> impl Strategy<Value = (Value, String)> {
    let name = prop_oneof![
        "[a-z_][a-z0-9_.-]{0,6}".prop_map(|name| (name.clone(), name)).prop_filter("a keyword", |(name, _)| {
            !["and", "or", "not", "in", "is", "exists", "true", "false", "null"].contains(&name.as_str())
        }),
        "[^`]{0,8}".prop_map(|name| (name.clone(), format!("`{name}`"))),
        ".{0,8}".prop_map(|name| (name.clone(), json!(name).to_string())),
    ];
    let value = prop_oneof![
        any::<i64>().prop_map(|number| (json!(number), number.to_string())),
        any::<bool>().prop_map(|truth| (json!(truth), truth.to_string())),
        ".{0,12}".prop_map(|text| (json!(text), json!(text).to_string())),
        "[^'\\\\]{0,12}".prop_map(|text| (json!(text), format!("'{text}'"))),
        prop::collection::vec(any::<u8>(), 0..4).prop_map(|list| (json!(list), json!(list).to_string())),
    ];
    let operator = prop::sample::select(vec![
        ("eq", "="),
        ("eq", "=="),
        ("ne", "!="),
        ("lt", "<"),
        ("le", "<="),
        ("gt", ">"),
        ("ge", ">="),
        ("eq", "eq"),
        ("contains", "contains"),
        ("starts_with", "startsWith"),
        ("matches", "=~"),
        ("exists", "exists"),
        ("is_null", "is null"),
    ]);
    let leaf = (name, operator, value).prop_map(|((name, named), (op, sign), (value, valued))| match op {
        "exists" | "is_null" => (json!({"field": name, "op": op}), format!("{named} {sign}")),
        _ => (json!({"field": name, "op": op, "value": value}), format!("{named} {sign} {valued}")),
    });
    leaf.prop_recursive(5, 40, 4, |inner| {
        let several = |word: &'static str, key: &'static str| {
            prop::collection::vec(inner.clone(), 2..4).prop_map(move |parts: Vec<(Value, String)>| {
                let (values, texts): (Vec<Value>, Vec<String>) =
                    parts.into_iter().map(|(value, text)| (value, format!("({text})"))).unzip();
                (json!({ key: values }), texts.join(word))
            })
        };
        prop_oneof![
            several(" and ", "all"),
            several("||", "any"),
            inner.clone().prop_map(|(value, text)| (json!({ "not": value }), format!("not ({text})"))),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    // What is written is what is read.
    #[test]
    fn an_expression_is_read_as_it_was_written((value, text) in written()) {
        prop_assert_eq!(expression(&text), Ok(value), "{}", text);
    }

    // Whatever the text, it is read or refused; the offset is in the text.
    #[test]
    fn no_text_breaks_the_reader(text in prop_oneof![".*", "[a-c(\\[\\])'\"`,=<>!~&| .0-9-]{0,40}", "(not |and |or |in |is |exists |x |\\(|\\)|[0-9]|'){0,20}"]) {
        if let Err(QueryError::Expression { offset, .. }) = Condition::of_expression(&text) {
            prop_assert!(text.is_char_boundary(offset), "{} in {:?}", offset, text);
        }
        let _ = Condition::of_words(&text);
        let _ = Query::read(&text);
        let _ = Query::read(&json!({"where": text, "sort": text, "select": text, "group": text}).to_string());
    }
}
