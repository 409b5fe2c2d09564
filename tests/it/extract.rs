//! One question, one answer, in the sandbox: typed queries, jq, stored queries, and what happens to bad ones.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::num::NonZeroU64;
#[cfg(unix)]
use std::os::unix::fs::symlink;

use lro_gateway::settings::{Config, PolicySettings, QueryLimits, Recipe, SectionRule};
use lro_host::documents::DOCUMENT_COMPONENT;
use lro_host::extract::{
    Answer, Budget, Cut, EXTRACT_COMPONENT, ExtractError, Extractor, Jq, Query, Question, QuestionError, SQL_COMPONENT,
    stored_query,
};
use lro_host::sandbox::CallError;
use lro_host::sandbox::types::Abilities;
use lro_host::store::{Offload, StoreError};
use lro_tests::{always, extractor, extractor_with, filter, imports, offloaded, request, structured};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One published offload, kept as long as this lives.
struct Published {
    offload: Offload,
    descriptor: Value,
    _root: TempDir,
}

fn publish(settings: PolicySettings, abilities: Abilities, document: String) -> Published {
    let root = TempDir::new().unwrap();
    let mut request = request(settings);
    request.abilities = abilities;
    let offloaded = offloaded(filter(root.path()).apply(&request, &structured(document)));
    let descriptor = serde_json::from_str(&offloaded.descriptor).unwrap();
    Published { offload: offloaded.offload, descriptor, _root: root }
}

fn published(document: String) -> Published {
    publish(always(), Abilities::SHELL, document)
}

/// Tickets of a service desk. What is asked about them has every trap: nulls, missing fields, upper and lower case, numbers
/// beside texts.
fn tickets(count: u64) -> String {
    let mut text = String::from("{\"tickets\":[");
    for id in 0..count {
        let status = ["open", "closed", "Open", "pending"][(id % 4) as usize];
        let title = ["Payment TIMEOUT", "timeout in search", "login page", "Zeitüberschreitung"][(id / 4 % 4) as usize];
        let severity = match id % 7 {
            0 => "null".to_owned(),
            1 => "\"high\"".to_owned(),
            other => (other + id % 3).to_string(),
        };
        let separator = if id == 0 { "" } else { "," };
        let severity = if id.is_multiple_of(11) { String::new() } else { format!(",\"severity\":{severity}") };
        write!(text, r#"{separator}{{"id":{id},"status":"{status}","title":"{title} {id}"{severity}}}"#).unwrap();
    }
    text.push_str("]}");
    text
}

/// What a ticket of this number is, told by the same rules.
fn has_all_three(id: u64) -> bool {
    let number = (!id.is_multiple_of(11) && id % 7 > 1).then_some(id % 7 + id % 3);
    id.is_multiple_of(4) && number.is_some_and(|severity| severity >= 5) && id / 4 % 4 < 2
}

fn query(query: Value) -> Question {
    Question::Query(serde_json::from_value(query).unwrap())
}

fn jq(filter: &str) -> Question {
    Question::Jq(Jq { filter: filter.to_owned(), ..Jq::default() })
}

fn ask(published: &Published, question: &Question) -> Result<Answer, ExtractError> {
    extractor().ask(&published.offload, None, question, Budget::default())
}

fn results(answer: &Answer) -> Vec<Value> {
    answer.lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The conditions of the hard task: exact, ordinal, and part of a text whatever its case.
fn three_conditions() -> Value {
    json!([
        {"field": "status", "op": "eq", "value": "open"},
        {"field": "severity", "op": "ge", "value": 5},
        {"field": "title", "op": "contains", "value": "timeout", "ignore_case": true},
    ])
}

// The two tasks at which agents with a file and jq fail, each in one call, at every size.
#[test]
fn the_tasks_of_the_paper() {
    for count in [50, 200, 500, 1_000_000] {
        let published = published(tickets(count));
        let all = ask(&published, &query(json!({"count": true}))).unwrap();
        assert_eq!(results(&all), [json!({ "count": count })]);
        assert_eq!(all.examined, 0, "the number of all records is in the manifest");

        let closed = ask(
            &published,
            &query(json!({
                "where": {"field": "status", "op": "eq", "value": "closed"}, "count": true,
            })),
        );
        assert_eq!(results(&closed.unwrap()), [json!({ "count": (count + 2) / 4 })]);

        let wanted: Vec<u64> = (0..count).filter(|id| has_all_three(*id)).collect();
        let question = json!({"where": three_conditions(), "select": ["id"], "limit": 20});
        let found = ask(&published, &query(question)).unwrap();
        let first: Vec<Value> = wanted.iter().take(20).map(|id| json!({ "id": id })).collect();
        assert_eq!(results(&found), first);
        assert_eq!((found.total, found.matched, found.examined), (wanted.len() as u64, wanted.len() as u64, count));
        assert_eq!(found.left(), (wanted.len() as u64).saturating_sub(20));
        assert_eq!(found.cut, (found.left() > 0).then_some(Cut::Limit));
    }
}

// A field that is nowhere is an error with the names there are, never an empty answer.
#[test]
fn a_wrong_field_is_told() {
    let published = published(tickets(100));
    let error = ask(&published, &query(json!({"where": {"field": "Titel", "op": "exists"}}))).unwrap_err();
    let ExtractError::Question(QuestionError::UnknownField { field, near }) = &error else { panic!("{error}") };
    assert_eq!((field.as_str(), near.first().map(String::as_str)), ("Titel", Some("title")));
    assert!(error.to_string().contains("`title`"), "{error}");
    for (question, part) in [
        (json!({"where": {"field": "id", "op": "matches", "value": "("}}), "matches"),
        (json!({"where": {"field": "id", "op": "in", "value": 3}}), "in"),
        (json!({"limit": 0}), "limit"),
    ] {
        let error = ask(&published, &query(question)).unwrap_err();
        assert!(matches!(error, ExtractError::Question(QuestionError::Invalid(_))), "{part}: {error}");
    }
    let error = serde_json::from_value::<Query>(json!({"were": []})).unwrap_err().to_string();
    assert!(error.contains("were") && error.contains("where"), "{error}");
    let error = serde_json::from_value::<Query>(json!({"where": [{"field": "id"}]})).unwrap_err().to_string();
    assert!(error.contains("\"op\""), "{error}");
}

// What comes back is what was written.
#[test]
fn numbers_keep_their_digits() {
    let rows = r#"[{"n":9007199254740993,"d":1.0,"e":1e2},{"n":9007199254740992,"d":100,"e":2},{"n":5,"d":1,"e":3}]"#;
    let published = published(rows.to_owned());
    let equal =
        ask(&published, &query(json!({"where": {"field": "n", "op": "eq", "value": 9_007_199_254_740_993_u64}})));
    assert_eq!(equal.unwrap().lines, "{\"n\":9007199254740993,\"d\":1.0,\"e\":1e2}\n");
    let hundred = ask(&published, &query(json!({"where": {"field": "e", "op": "eq", "value": 100}, "select": ["d"]})));
    assert_eq!(hundred.unwrap().lines, "{\"d\":1.0}\n");
    let greater = ask(&published, &jq("select(.n > 9007199254740992) | .n"));
    assert_eq!(greater.unwrap().lines, "9007199254740993\n");
}

// A program that fails says on how many records, and on which first.
#[test]
fn a_failing_program_is_never_silent() {
    let published = published(tickets(100));
    let answer = ask(&published, &jq("if (.id % 10) == 7 then error(\"no \\(.id)\") else .id end")).unwrap();
    let failures = answer.failures.unwrap();
    assert_eq!((failures.records, failures.first), (10, 7));
    assert!(failures.message.contains("no 7"), "{}", failures.message);
    assert_eq!(answer.total, 90);

    let error = ask(&published, &jq(".id | keys")).unwrap_err();
    let ExtractError::Question(QuestionError::Failed(failures)) = &error else { panic!("{error}") };
    assert_eq!((failures.records, failures.first), (100, 0));

    let error = ask(&published, &jq(".id | nonsense")).unwrap_err();
    assert!(matches!(error, ExtractError::Question(QuestionError::Syntax { offset: 6, .. })), "{error}");
}

/// Little of everything, so that what runs away is stopped soon.
fn tight() -> QueryLimits {
    let at_least_one = |value| NonZeroU64::new(value).unwrap();
    QueryLimits { wall_time_ms: at_least_one(400), memory_bytes: at_least_one(32 << 20), ..Config::default().query }
}

// Programs a model should not have written.
#[test]
fn hostile_programs_end_within_their_limits() {
    let published = published(tickets(50));
    let strict = extractor_with(&tight());
    let ends = |extractor: &Extractor, filter: &str| {
        let answer = extractor.ask(&published.offload, None, &jq(filter), Budget::default());
        let after = extractor.ask(&published.offload, None, &jq(".id"), Budget::default());
        assert_eq!(after.unwrap().total, 50, "the call after {filter}");
        answer
    };
    for filter in [
        "def f: f; f",
        "[range(1e12)]",
        "range(1e12)",
        "[repeat(1)]",
        "repeat(1)",
        "\"a\" * 1e9",
        "[limit(1e9; repeat(1))]",
        "limit(1e9; repeat(1))",
        "def f: 1 + f; f",
        "def f: [f]; f",
        "reduce range(1e12) as $i (0; . + 1)",
        "last(repeat(1))",
        "[range(1e9)] | length",
        "until(false; . )",
    ] {
        let error = match ends(&strict, filter) {
            Err(error) => error,
            Ok(answer) => panic!("{filter} answered {answer:?}"),
        };
        let text = error.to_string();
        let names_limit = ["query.wall-time-ms", "query.memory-bytes", "ran out of stack (limit"]
            .iter()
            .any(|limit| text.contains(limit));
        // A program may also be refused by a limit of its own, record for record.
        let refused = matches!(
            &error,
            ExtractError::Question(QuestionError::Failed(_)) | ExtractError::Question(QuestionError::Limit(_))
        );
        assert!(names_limit || refused, "{filter}: {text}");
    }
    for filter in
        ["input", "inputs", "$ENV", "env", "$__prog_args", "import \"a\" as a; 1", "include \"a\"; 1", "now", "halt"]
    {
        let error = ends(&strict, filter).unwrap_err();
        assert!(matches!(error, ExtractError::Question(QuestionError::Syntax { .. })), "{filter}: {error}");
    }
    let quoted = ends(&strict, "\"a'b\" | @sh").unwrap();
    assert_eq!(quoted.lines.lines().next(), Some(r#""'a'\\''b'""#));
    // A pattern takes time and memory in proportion to its size, which is bounded by the same limits.
    for pattern in ["(a{500}){500}", "((a{900}){900}){900}"] {
        match ends(&strict, &format!("\"aaaa\" | test(\"{pattern}\")")) {
            Ok(_) | Err(ExtractError::Question(QuestionError::Failed(_))) => {}
            Err(ExtractError::Call(CallError::Deadline(_) | CallError::Memory(_))) => {}
            Err(error) => panic!("{pattern}: {error}"),
        }
    }
    let deep = format!("{}1{}", "[".repeat(5000), "]".repeat(5000));
    assert!(ends(&strict, &deep).is_err());
    let long = format!(".id{}", " ".repeat(70_000));
    assert!(
        matches!(ends(&strict, &long).unwrap_err(), ExtractError::Question(QuestionError::Limit(text)) if text.contains("filter-bytes"))
    );
}

// An answer keeps to its budget and says what is left.
#[test]
fn an_answer_keeps_to_its_budget() {
    let published = published(tickets(1000));
    let ask = |question: Value, bytes, tokens| {
        extractor().ask(&published.offload, None, &query(question), Budget { bytes, tokens }).unwrap()
    };
    let mut seen = Vec::new();
    loop {
        let answer = ask(json!({"select": ["id"], "offset": seen.len(), "limit": 1000}), 500, u32::MAX);
        assert!(answer.lines.len() <= 500);
        assert_eq!(answer.left(), 1000 - seen.len() as u64 - answer.results);
        seen.extend(results(&answer));
        match answer.cut {
            Some(Cut::Budget(next)) => assert_eq!(next as usize, format!("{{\"id\":{}}}\n", seen.len()).len()),
            None => break,
            Some(Cut::Limit) => panic!("{answer:?}"),
        }
    }
    assert_eq!(seen, (0..1000).map(|id| json!({ "id": id })).collect::<Vec<_>>());
    let few = ask(json!({"select": ["id"], "limit": 1000}), u32::MAX, 100);
    assert!(few.results > 5 && lro_jsonl::tokens(&few.lines) <= 100, "{few:?}");
    let none = ask(json!({}), 5, u32::MAX);
    assert!(matches!((none.results, none.cut), (0, Some(Cut::Budget(bytes))) if bytes > 5), "{none:?}");
}

// An answer that is too large is offloaded again, and asked about by its own handle.
#[test]
fn an_answer_is_offloaded_again() {
    let published = published(tickets(2000));
    let question = query(json!({"where": {"field": "status", "op": "eq", "value": "open"}, "limit": 100_000}));
    let budget = Budget { bytes: lro_host::extract::ANSWER_BYTES_MAX, tokens: u32::MAX };
    let answer = extractor().ask(&published.offload, None, &question, budget).unwrap();
    assert_eq!((answer.results, answer.cut), (500, None));
    let root = TempDir::new().unwrap();
    let payload = answer.into_payload().unwrap().into();
    let again = offloaded(filter(root.path()).apply(&request(always()), &payload));
    let count = extractor().ask(&again.offload, None, &jq("select(.id < 100) | .id"), Budget::default()).unwrap();
    assert_eq!(count.total, 25);
}

// What a descriptor offers runs as it stands, and by name with other values.
#[test]
fn stored_queries_run_by_name() {
    let recipe = Recipe {
        name: "of_one".to_owned(),
        description: "tickets in a state".to_owned(),
        command: "tail -n +2 {file} | jq -c 'select(.status == \"open\")'".to_owned(),
        query: Some(
            r#"{"where":{"field":"status","op":"eq","value":"open","parameter":"status"},"count":true}"#.to_owned(),
        ),
    };
    let rule = SectionRule {
        key: "tickets".to_owned(),
        filename_prefix: None,
        schema: None,
        summaries: Vec::new(),
        recipes: vec![recipe],
    };
    let settings = PolicySettings { sections: vec![rule], ..always() };
    let published = publish(settings, Abilities::EXTRACT_TOOL, tickets(400));
    let run = |name: &str, parameters: &BTreeMap<_, _>| {
        let (file, query) = stored_query(published.offload.record(), name, parameters)?;
        extractor().ask(&published.offload, Some(file), &Question::Query(query), Budget::default())
    };
    let offered = published.descriptor["recipes"].as_object().unwrap();
    assert!(offered.len() >= 2, "{offered:?}");
    assert_eq!(offered["of_one"]["recipe"], "of_one");
    assert!(offered.values().all(|call| call["handle"] == published.offload.id().to_string()), "{offered:?}");
    let files = &published.offload.record().files;
    let all: Vec<&str> = files.iter().flat_map(|file| &file.queries).map(|query| query.name.as_str()).collect();
    assert!(all.len() >= 5, "{all:?}");
    for name in all {
        let answer = run(name, &BTreeMap::new()).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(answer.results > 0, "{name}: {answer:?}");
    }
    assert_eq!(run("of_one", &BTreeMap::new()).unwrap().lines, "{\"count\":100}\n");
    // The value is a value: nothing in it is read as a part of the query.
    for (value, count) in [("\"closed\"", 100), ("\"open\\\" or true\"", 0), ("null", 0)] {
        let value = serde_json::value::RawValue::from_string(value.to_owned()).unwrap();
        let answer = run("of_one", &BTreeMap::from([("status".to_owned(), value)])).unwrap();
        assert_eq!(answer.lines, format!("{{\"count\":{count}}}\n"));
    }
    let wrong = serde_json::value::RawValue::from_string("1".to_owned()).unwrap();
    let error = run("of_one", &BTreeMap::from([("state".to_owned(), wrong)])).unwrap_err();
    assert!(error.to_string().contains("`status`"), "{error}");
    let error = run("of_two", &BTreeMap::new()).unwrap_err();
    assert!(error.to_string().contains("`of_one`"), "{error}");
}

/// What is done to a published file behind the back of the store.
type Change = fn(&std::path::Path);

// A file that is not the published one gives no answer but its SHA-256.
#[test]
fn a_changed_file_is_refused() {
    let changes: &[(&str, Change)] = &[
        ("a byte", |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            fs::write(path, bytes).unwrap();
        }),
        ("a line", |path| {
            let text = fs::read_to_string(path).unwrap();
            let kept: Vec<&str> = text.lines().enumerate().filter(|(at, _)| *at != 5).map(|(_, line)| line).collect();
            fs::write(path, kept.join("\n") + "\n").unwrap();
        }),
        #[cfg(unix)]
        ("a link", |path| {
            let other = path.with_extension("other");
            fs::rename(path, &other).unwrap();
            symlink(&other, path).unwrap();
        }),
        ("missing", |path| fs::remove_file(path).unwrap()),
    ];
    for &(what, change) in changes {
        let published = published(tickets(300));
        let file = &published.offload.record().files[0];
        let digest = file.sha256.unwrap().to_string();
        // Asked before: a change is seen even in what was verified already.
        ask(&published, &query(json!({"limit": 1}))).unwrap();
        change(&published.offload.path().join(&file.name));
        for question in [query(json!({"limit": 1})), jq(".id")] {
            let error = ask(&published, &question).unwrap_err();
            assert!(matches!(error, ExtractError::Store(StoreError::Changed { .. })), "{what}: {error}");
            assert!(error.to_string().contains(&digest), "{what}: {error}");
        }
    }
}

// The components see the one directory, and only to read; that for documents sees nothing.
#[test]
fn the_components_import_what_their_world_lists() {
    for component in [EXTRACT_COMPONENT, SQL_COMPONENT] {
        let imports = imports(component);
        let allowed =
            ["lro:filter/types", "wasi:clocks/wall-clock", "wasi:filesystem/preopens", "wasi:filesystem/types"];
        let outer: Vec<&str> = imports.iter().filter_map(|name| name.split_once('@')).map(|(name, _)| name).collect();
        assert!(outer.contains(&"wasi:filesystem/types"), "{imports:?}");
        assert!(outer.iter().all(|name| allowed.contains(name)), "{imports:?}");
    }
    assert_eq!(imports(DOCUMENT_COMPONENT), BTreeSet::new());
}
