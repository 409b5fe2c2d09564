//! Questions are understood, and never silently wrong: spellings, values of another type, notes, pages of programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use lro_host::extract::{Answer, Budget, Cut, ExtractError, Jq, Query, Question, QuestionError, stored_query};
use lro_host::mcp::{EXTRACT_TOOL, READ_TOOL, Tools};
use lro_host::sandbox::types::Abilities;
use lro_host::sandbox::{Part, PartKind, Payload};
use lro_host::store::{Offload, Store, StoreConfig};
use lro_tests::{TENANT, always, extractor, filter, offloaded, request, structured, text};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One published offload, kept as long as this lives.
struct Published {
    offload: Offload,
    descriptor: Value,
    root: TempDir,
}

fn published(document: &Value) -> Published {
    published_of(&structured(document.to_string()))
}

fn published_of(payload: &Arc<Payload>) -> Published {
    let root = TempDir::new().unwrap();
    let mut request = request(always());
    request.abilities = Abilities::EXTRACT_TOOL | Abilities::READ_TOOL;
    let offloaded = offloaded(filter(root.path()).apply(&request, payload));
    let descriptor = serde_json::from_str(&offloaded.descriptor).unwrap();
    Published { offload: offloaded.offload, descriptor, root }
}

impl Published {
    fn asked(&self, question: &Question, budget: Budget) -> Result<Answer, ExtractError> {
        extractor().ask(&self.offload, None, question, budget)
    }

    fn answer(&self, query: &Value) -> Answer {
        let question = Question::Query(Query::read(&query.to_string()).unwrap());
        self.asked(&question, Budget::default()).unwrap_or_else(|error| panic!("{query}: {error}"))
    }
}

/// Airports: zip codes that are strings, elevations that are strings and numbers, tags that are arrays.
fn airports() -> Published {
    let airport = |id: u32| {
        let state = ["AK", "TX", "ME"][id as usize % 3];
        let elevation = if id.is_multiple_of(2) { json!(id * 10) } else { json!((id * 10).to_string()) };
        json!({
            "id": id, "zip": format!("{:05}", id * 7), "lat": id, "state": state,
            "elevation": elevation, "open": id.is_multiple_of(2), "first name": format!("N{id}"), "a.b": id % 5,
            "tags": [format!("Tag-{}", id % 4), "all"], "owner": {"name": format!("o{}", id % 2)},
        })
    };
    published(&json!({"airports": (0..100).map(airport).collect::<Vec<_>>()}))
}

#[test]
fn a_spelling_answers_as_the_canonical_form() {
    let airports = airports();
    let canonical = |field: &str, op: &str, value: Value| json!({"field": field, "op": op, "value": value});
    let first = canonical("lat", "gt", json!(70));
    let cases = [
        (
            json!({"where": "lat > 70 and state == \"AK\""}),
            json!({"where": [first, canonical("state", "eq", json!("AK"))]}),
        ),
        (
            json!({"where": "lat > 70 or not state in ('AK', 'TX')", "count": true}),
            json!({"where": {"any": [first, {"not": canonical("state", "in", json!(["AK", "TX"]))}]}, "count": true}),
        ),
        (
            json!({"where": {"lat": {"gt": 70}, "state": "AK"}}),
            json!({"where": [first, canonical("state", "eq", json!("AK"))]}),
        ),
        (
            json!({"where": ".lat > 70", "select": ".id, .owner.name", "sort": "-.id"}),
            json!({"where": first, "select": ["id", "owner.name"], "sort": [{"field": "id", "descending": true}]}),
        ),
        (
            json!({"where": "tags[0] == 'Tag-1'", "select": "tags[0]"}),
            json!({"where": canonical("tags.0", "eq", json!("Tag-1")), "select": ["tags.0"]}),
        ),
        (json!({"where": "owner[\"name\"] == 'o1'"}), json!({"where": canonical("/owner/name", "eq", json!("o1"))})),
        (
            json!({"where": "\"first name\" endsWith '9'"}),
            json!({"where": canonical("first name", "matches", json!("9$"))}),
        ),
        (
            json!({"where": "a.b == 3", "select": ["a.b"]}),
            json!({"where": canonical("/a.b", "eq", json!(3)), "select": [{"field": "/a.b", "as": "a.b"}]}),
        ),
        (
            json!({"group_by": ".state", "order_by": "-count"}),
            json!({"group": {"by": ["state"]}, "sort": [{"field": "count", "descending": true}]}),
        ),
        (
            json!({"group": "tags[0]", "aggregates": "count, max:.lat", "sort": "tags[0] desc"}),
            json!({"group": {"by": ["tags.0"], "aggregates": [{"kind": "count"}, {"kind": "max", "field": "lat"}]},
                   "sort": [{"field": "tags.0", "descending": true}]}),
        ),
        (json!({"select": "*", "limit": 3}), json!({"limit": 3})),
    ];
    for (spelled, canonical) in cases {
        let (found, expected) = (airports.answer(&spelled), airports.answer(&canonical));
        assert_eq!((&found.lines, found.total), (&expected.lines, expected.total), "{spelled}");
        assert!(found.results > 0 && found.notes.is_empty(), "{spelled}: {:?}", found.notes);
    }
}

#[test]
fn a_value_compares_as_the_type_of_its_field_and_says_so() {
    let airports = airports();
    let cases = [
        // The condition, how many records satisfy it, and the note.
        (
            "zip == 21",
            1,
            "`zip` holds strings: 21 is a number, and compares with numbers and with strings that are numbers",
        ),
        ("zip == '00021'", 1, ""),
        ("zip in [21, '00021']", 1, ""),
        (
            "zip < 1",
            1,
            "`zip` holds strings: 1 is a number, and compares with numbers and with strings that are numbers",
        ),
        ("zip contains 21", 3, "`zip` holds strings: 21 is taken as text"),
        ("zip starts_with 6", 0, "`zip` holds strings: 6 is taken as text"),
        ("lat == '70'", 1, "`lat` holds numbers: compared with 70 as a number"),
        ("lat >= \"9.5e1\"", 0, "`lat` holds numbers: \"9.5e1\" is a string, and compares with none of them"),
        ("lat >= \"95.0\"", 5, "`lat` holds numbers: compared with 95.0 as a number"),
        ("lat == '007'", 0, "`lat` holds numbers: \"007\" is a string, and compares with none of them"),
        ("lat in ['7', 8]", 2, ""),
        ("lat in ['7', '8']", 2, "`lat` holds numbers: compared with 7 as a number"),
        ("lat contains 7", 0, "`lat` holds numbers: this test looks into strings and arrays only, and never holds"),
        ("lat =~ '7'", 0, "`lat` holds numbers: this test looks into strings only, and never holds"),
        (
            "elevation == 30",
            1,
            "`elevation` holds numbers and strings: 30 is a number, and compares with numbers and with strings that are numbers",
        ),
        (
            "elevation == '30'",
            1,
            "`elevation` holds numbers and strings: \"30\" is a string, and compares with strings alone",
        ),
        ("elevation in [40, '40', 30, '30']", 2, ""),
        ("open == 'true'", 0, "`open` holds booleans: \"true\" is a string, and compares with none of them"),
        ("open == true", 50, ""),
        ("open == null", 0, ""),
        ("tags contains 'ag-1'", 25, "`tags` holds arrays: `contains` looks inside the strings of an array too"),
        ("state == 'AK'", 34, ""),
    ];
    for (condition, count, note) in cases {
        let answer = airports.answer(&json!({"where": condition, "count": true}));
        let notes: Vec<&str> = answer.notes.iter().map(String::as_str).collect();
        assert_eq!(answer.lines, format!("{{\"count\":{count}}}\n"), "{condition}: {notes:?}");
        let expected: &[&str] = if note.is_empty() { &[] } else { &[note] };
        assert_eq!(notes, expected, "{condition}");
    }
    let folded = airports.answer(&json!({"where": "tags contains 'AG-1'", "ignore_case": true, "count": true}));
    assert_eq!(folded.lines, "{\"count\":25}\n");
    // As many notes as a reader can use, each once.
    let many: Vec<String> = (0..50).map(|number| format!("zip == {}", number % 20)).collect();
    assert_eq!(airports.answer(&json!({"where": many.join(" or ")})).notes.len(), 8);
}

#[test]
fn scalar_records_are_asked_about_by_a_dot() {
    let words: Vec<&str> = (0..90).map(|number| ["north", "south", "east"][number % 3]).collect();
    let words = published(&json!({"words": words}));
    assert_eq!(words.descriptor["schemas"]["words"], json!({".": "string"}));
    let count = |condition: &str| words.answer(&json!({"where": condition, "count": true})).lines;
    assert_eq!(count(". == 'north'"), "{\"count\":30}\n");
    assert_eq!(count(". contains 'th'"), "{\"count\":60}\n");
    let groups = words.answer(&json!({"group": ".", "sort": "-."}));
    assert_eq!(groups.lines.lines().next(), Some("{\".\":\"south\",\"count\":30}"));
    assert_eq!(words.answer(&json!({"select": ".", "sort": ".", "limit": 1})).lines, "{\".\":\"east\"}\n");
    let numbers = published(&json!({"numbers": (0..900).collect::<Vec<_>>()}));
    let sum = numbers.answer(&json!({"where": ". >= '890'", "aggregates": "sum:."}));
    assert_eq!((sum.lines.as_str(), sum.notes.len()), ("{\"sum_.\":8945}\n", 1));
}

#[test]
fn results_of_a_program_come_in_pages() {
    let airports = airports();
    let ask = |offset, limit, bytes| {
        let jq = Jq { filter: ".id".to_owned(), offset, limit, ..Jq::default() };
        airports.asked(&Question::Jq(jq), Budget { bytes, ..Budget::default() })
    };
    let page = |offset, limit| ask(offset, limit, 20_000).unwrap();
    let all = page(0, None);
    assert_eq!((all.results, all.total, all.left(), all.cut), (100, 100, 0, None));
    let three = page(0, Some(3));
    assert_eq!((three.lines.as_str(), three.total, three.left(), three.cut), ("0\n1\n2\n", 100, 97, Some(Cut::Limit)));
    let next = page(3, Some(2));
    assert_eq!((next.lines.as_str(), next.offset, next.left(), next.cut), ("3\n4\n", 3, 95, Some(Cut::Limit)));
    let last = page(98, Some(2));
    assert_eq!((last.lines.as_str(), last.left(), last.cut), ("98\n99\n", 0, None));
    assert_eq!(page(500, None).results, 0);
    let (mut seen, mut offset) = (String::new(), 0);
    loop {
        let answer = ask(offset, None, 20).unwrap();
        seen.push_str(&answer.lines);
        offset += answer.results;
        match answer.cut {
            Some(cut) => assert_eq!(cut, Cut::Budget(if offset < 10 { 2 } else { 3 })),
            None => break,
        }
    }
    assert_eq!(seen, all.lines);
    assert!(
        matches!(ask(0, Some(0), 100), Err(ExtractError::Question(QuestionError::Invalid(text))) if text.starts_with("limit"))
    );
}

// What is skipped may be larger than an answer may be.
#[test]
fn results_of_a_program_come_in_pages_of_any_file() {
    let row = |id: usize| json!({"id": id, "text": "x".repeat(1 << 20)});
    let rows = published(&json!({"rows": (0..9).map(row).collect::<Vec<_>>()}));
    let ask = |filter: &str, offset, limit, slurp| {
        let jq = Jq { filter: filter.to_owned(), offset, limit, slurp, ..Jq::default() };
        rows.asked(&Question::Jq(jq), Budget { bytes: 3 << 20, tokens: u32::MAX })
    };
    let ids = |answer: &Answer| -> Vec<u64> {
        answer.lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap()).collect()
    };
    let mut seen = ids(&ask(".", 0, None, false).unwrap());
    loop {
        let answer = ask(".", seen.len() as u64, None, false).unwrap();
        assert_eq!((answer.total, answer.offset, answer.examined), (9, seen.len() as u64, 9));
        seen.extend(ids(&answer));
        match answer.cut {
            Some(cut) => assert!(matches!(cut, Cut::Budget(bytes) if bytes > 1 << 20), "{cut:?}"),
            None => break,
        }
    }
    assert_eq!(seen, (0..9).collect::<Vec<u64>>());
    let one = ask(".", 7, Some(1), false).unwrap();
    assert_eq!((ids(&one), one.left(), one.cut), (vec![7], 1, Some(Cut::Limit)));
    assert_eq!(ask(".", 9, None, false).unwrap().results, 0);
    // A program over all records together has one answer.
    assert!(
        matches!(ask(".[]", 7, None, true), Err(ExtractError::Question(QuestionError::Limit(text))) if text.starts_with("offset"))
    );
}

#[test]
fn what_a_descriptor_names_runs_by_that_name() {
    let record = |id: usize| {
        let letter = ["a", "b"][id % 2];
        json!({"count": letter, "k\"ey": id})
    };
    let document = json!({
        "counts": (0..60).map(record).collect::<Vec<_>>(),
        "note": "word ".repeat(20_000),
    });
    let published = published(&document);
    let recipes = published.descriptor["recipes"].as_object().unwrap();
    assert!(!recipes.is_empty(), "{}", published.descriptor);
    let stored = published.offload.record().files.iter().flat_map(|file| &file.queries).map(|query| &query.name);
    for name in recipes.keys().chain(stored) {
        let (file, query) = stored_query(published.offload.record(), name, &BTreeMap::new()).unwrap();
        let answer = extractor().ask(&published.offload, Some(file), &Question::Query(query), Budget::default());
        assert!(answer.unwrap().results > 0, "{name}");
    }
    let (_, groups) = stored_query(published.offload.record(), "counts_groups", &BTreeMap::new()).unwrap();
    let answer = extractor().ask(&published.offload, Some("counts"), &Question::Query(groups), Budget::default());
    assert_eq!(answer.unwrap().lines, "{\"count\":\"a\",\"records\":30}\n{\"count\":\"b\",\"records\":30}\n");
}

/// The tools over one offload.
struct Desk {
    tools: Tools,
    published: Published,
}

impl Desk {
    fn of(published: Published) -> Self {
        let store = Store::open(StoreConfig::new(published.root.path())).unwrap();
        Self { tools: Tools::new(store, extractor(), Budget::default()), published }
    }

    fn call(&self, tool: &str, mut arguments: Value) -> Value {
        if arguments.get("handle").is_none() {
            arguments["handle"] = self.published.descriptor["handle"].clone();
        }
        serde_json::from_str(&self.tools.call(TENANT, tool, &arguments.to_string()).unwrap()).unwrap()
    }
}

fn text_of(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap()
}

#[test]
fn the_tool_takes_what_models_write() {
    let people: Vec<Value> = (0..300).map(|id| json!({"id": id, "age": id % 90, "zip": format!("{id:03}")})).collect();
    let desk = Desk::of(published(&json!({ "people": people })));
    let ask = |arguments| desk.call(EXTRACT_TOOL, arguments)["structuredContent"].take();
    let asked = ask(json!({"where": "age > 87 and id < 200", "select": "id", "order_by": "-id", "limit": 2}));
    assert_eq!((&asked["results"], &asked["total"]), (&json!([{"id": 179}, {"id": 178}]), &json!(4)));
    let noted = ask(json!({"where": {"zip": 100}, "count": true}));
    assert_eq!(
        (&noted["results"], &noted["notes"]),
        (
            &json!([{"count": 1}]),
            &json!([
                "`zip` holds strings: 100 is a number, and compares with numbers and with strings that are numbers"
            ]),
        )
    );
    let program = ask(json!({"jq": ".id", "limit": 2, "offset": 5}));
    assert_eq!((&program["results"], &program["left"]), (&json!([5, 6]), &json!(293)));
    assert!(program["advice"].as_str().unwrap().contains("\"offset\": 7"), "{program}");
    let recipe = ask(json!({"recipe": "people_first", "limit": 1, "offset": 1}));
    assert_eq!(recipe["results"], json!([people[1]]));
    for (arguments, expected) in [
        (json!({"sort": [{"desc": true}]}), "`sort[0]`: expected a field"),
        (json!({"order": "age"}), "unknown member `order`"),
        (json!({"were": "age > 3"}), "did you mean `where`?"),
        (json!({"jq": ".id", "where": "age > 3"}), "without where"),
        (json!({"where": "age > old"}), "`where`: at byte 6 of the condition: expected a value, found `old`: quote it"),
        (json!({"handle": null}), "`handle` is missing"),
    ] {
        let refused = desk.call(EXTRACT_TOOL, arguments.clone());
        assert_eq!(refused["isError"], true, "{arguments}");
        assert!(text_of(&refused).contains(expected), "{arguments}: {refused}");
    }
}

#[test]
fn a_page_of_a_text_is_text_and_says_how_to_go_on() {
    let line = |number: usize| format!("{number}: \"quoted\" \\ {}", "x".repeat(number % 9));
    let lines: Vec<String> = (0..3_000).map(line).collect();
    let desk = Desk::of(published_of(&text(lines.join("\n"))));
    let (mut seen, mut arguments, mut calls) = (Vec::new(), json!({}), 0);
    loop {
        let result = desk.call(READ_TOOL, arguments);
        let (text, last) = text_of(&result).rsplit_once('\n').unwrap();
        let page = &result["structuredContent"];
        assert_eq!(page["records"], json!(text.lines().collect::<Vec<_>>()), "the envelope has the same lines");
        seen.extend(text.lines().map(str::to_owned));
        calls += 1;
        let here = format!("[lines {} to {} of 3000; ", page["first"], seen.len() - 1);
        let mut rest = last.strip_prefix(here.as_str()).unwrap_or_else(|| panic!("{last}"));
        if calls == 1 {
            // The beginning of a long text says that it can be searched, once.
            let (search, next) =
                rest.strip_prefix("to find something: lro_extract ").unwrap().split_once("; ").unwrap();
            assert_eq!(serde_json::from_str::<Value>(search).unwrap()["search"], "…");
            rest = next;
        }
        let next = rest.strip_prefix("next: ").unwrap_or_else(|| panic!("{last}")).strip_suffix(']').unwrap();
        if next == "the end" {
            assert_eq!(page["next"], Value::Null);
            break;
        }
        // It is a call as it stands.
        let (tool, next) = next.split_once(' ').unwrap();
        assert_eq!(tool, READ_TOOL);
        assert!(text.len() > 19_000 && text.len() - text.lines().count() <= 20_000, "{}", text.len());
        arguments = serde_json::from_str(next).unwrap();
        assert_eq!(arguments["from"], seen.len());
    }
    assert_eq!((seen == lines, calls), (true, 4));

    let few = desk.call(READ_TOOL, json!({"from": -3, "limit": 2}));
    let next = r#"next: lro_read {"from":2999,"handle":""#;
    assert!(
        text_of(&few).starts_with(&format!("{}\n{}\n[lines 2997 to 2998 of 3000; {next}", lines[2997], lines[2998]))
    );
    assert!(text_of(&few).contains("\"limit\":2"), "{few}");
    assert_eq!(desk.call(READ_TOOL, json!({"from": -9_999, "limit": 1}))["structuredContent"]["first"], 0);
}

#[test]
fn a_long_line_goes_on_by_its_cursor() {
    let desk = Desk::of(published_of(&text(format!("first\n{}\nlast", "語".repeat(20_000)))));
    let (mut found, mut arguments) = (String::new(), json!({"from": 1}));
    loop {
        let result = desk.call(READ_TOOL, arguments);
        let (text, last) = text_of(&result).rsplit_once('\n').unwrap();
        if !last.starts_with("[line 1 of 3, bytes ") {
            assert_eq!((text, last), ("last", "[lines 2 to 2 of 3; next: the end]"));
            break;
        }
        found.push_str(text);
        let (_, next) = last.split_once("lro_read ").unwrap();
        arguments = serde_json::from_str(next.strip_suffix(']').unwrap()).unwrap();
        assert!(arguments["cursor"].is_string(), "{arguments}");
    }
    assert_eq!(found, "語".repeat(20_000));
}

/// A guide of many sections, and what was measured.
fn guide_and_measures() -> Published {
    let section = |number: usize| format!("## Part {number}\n\nSet option {number}.\nTimeout after {number} s.\n");
    let guide = format!("# Guide\n{}", (1..=900).map(section).collect::<String>());
    let measures: Vec<Value> = (0..300).map(|id| json!({"id": id, "note": format!("option {id} timeout")})).collect();
    let document = json!({"measures": measures}).to_string();
    let parts = [Part::text(PartKind::Text, guide.into()), Part::text(PartKind::Structured, document.into())];
    published_of(&Arc::new(Payload::new(parts.map(Result::unwrap).into())))
}

#[test]
fn the_tool_searches_all_that_the_result_had() {
    let desk = Desk::of(guide_and_measures());
    let ask = |arguments| desk.call(EXTRACT_TOOL, arguments)["structuredContent"].take();
    let everywhere = ask(json!({"search": "OPTION 250", "ignore_case": true}));
    let sections: Vec<&Value> = everywhere["results"].as_array().unwrap().iter().map(|hit| &hit["section"]).collect();
    assert_eq!((sections.len(), &everywhere["total"]), (2, &json!(2)), "{everywhere}");
    let text = sections.iter().find(|section| **section != "measures").unwrap().as_str().unwrap();

    let hit = ask(json!({"search": "Timeout after 7 s", "section": text, "context": 1}))["results"][0].take();
    let expected = json!({"line": 29, "text": "Timeout after 7 s.", "where": ["Guide", "Part 7"],
        "before": ["Set option 7."], "after": ["## Part 8"]});
    assert_eq!(hit, expected);
    let around = ask(json!({"lines": [28, 29], "section": text}));
    assert_eq!(
        around["results"],
        json!([{"line": 28, "text": "Set option 7."}, {"line": 29, "text": "Timeout after 7 s."}])
    );
    let record = ask(json!({"search": "^option 25[01]", "regex": true, "section": "measures", "limit": 1}));
    assert_eq!(record["results"], json!([{"line": 251, "text": "option 250 timeout", "where": ["/note"]}]));
    assert!(record["advice"].as_str().unwrap().contains("\"offset\": 1"), "{record}");
    assert_eq!(
        ask(json!({"search": "timeout option", "words": true, "count": true}))["results"],
        json!([{"count": 300}])
    );
    let ranked = ask(json!({"search": "what is the timeout of part 77?", "rank": true, "limit": 1}));
    assert_eq!(ranked["results"][0]["where"], json!(["Guide", "Part 77"]), "{ranked}");

    // All pages together, by the calls that the advice names.
    let (mut seen, mut next) = (0, json!([1, -1]));
    loop {
        let page = ask(json!({"lines": next, "section": text}));
        let results = page["results"].as_array().unwrap();
        assert!(results.iter().zip(seen + 1..).all(|(line, number)| line["line"] == number), "{page}");
        seen += results.len() as u64;
        let Some(advice) = page["advice"].as_str() else { break };
        next = serde_json::from_str(advice.split_once("\"lines\": ").unwrap().1).unwrap();
    }
    assert_eq!(seen, 3601);

    for (arguments, expected) in [
        (json!({"search": "x", "where": "id > 1"}), "`search` goes without where"),
        (json!({"search": "x", "jq": "."}), "`search` goes without jq"),
        (json!({"search": "x", "lines": [1, 2]}), "not both"),
        (json!({"lines": [1, 2], "limit": 3}), "`lines` goes without limit"),
        (json!({"lines": [1]}), "two line numbers"),
        (json!({"lines": [0, 2], "section": text}), "counted from 1"),
        (json!({"lines": [1, 2]}), "several sections"),
        (json!({"regex": true, "jq": "."}), "go with `search` only"),
        (json!({"search": "x", "regex": true, "rank": true}), "goes without"),
        (json!({"search": "x", "context": 2, "after": 1}), "both `before` and `after`"),
        (json!({"search": "a(b", "regex": true}), "not a regular expression"),
        (json!({"search": ""}), "empty"),
        (json!({"xsearch": "x"}), "did you mean `search`?"),
        (json!({"search": "x", "section": "nothing"}), "there is no section `nothing`"),
        (json!({"where": "id > 1", "section": text}), "search it"),
    ] {
        let refused = desk.call(EXTRACT_TOOL, arguments.clone());
        assert_eq!(refused["isError"], true, "{arguments}");
        assert!(text_of(&refused).contains(expected), "{arguments}: {refused}");
    }
    let nothing = ask(json!({"search": "No such thing"}));
    assert!(nothing["total"] == 0 && nothing["advice"].as_str().unwrap().contains("ignore_case"), "{nothing}");
}

// No hit of a file that has changed gets out.
#[test]
fn a_changed_text_is_not_searched() {
    let desk = Desk::of(published_of(&text("needle\n".repeat(9_000))));
    let count = json!({"search": "needle", "count": true});
    assert_eq!(desk.call(EXTRACT_TOOL, count.clone())["structuredContent"]["results"], json!([{"count": 9_000}]));
    let file = &desk.published.offload.record().files[0];
    let path = desk.published.offload.path().join(&file.name);
    std::fs::write(&path, "Needle\n".repeat(9_000)).unwrap();
    let refused = desk.call(EXTRACT_TOOL, count);
    assert!(refused["isError"] == true && text_of(&refused).contains("changed"), "{refused}");
}
