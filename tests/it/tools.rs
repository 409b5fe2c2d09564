//! The tools `lro_extract` and `lro_read` as a client calls them.

use std::sync::Arc;

use lro_host::extract::Budget;
use lro_host::mcp::{EXTRACT_TOOL, INVALID_PARAMS, READ_TOOL, Tools, definitions};
use lro_host::sandbox::Payload;
use lro_host::sandbox::types::Abilities;
use lro_host::store::{Store, StoreConfig};
use lro_tests::{TENANT, always, extractor, filter, offloaded, request, structured};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The tools over one offload, kept as long as this lives.
struct Desk {
    tools: Tools,
    descriptor: Value,
    root: TempDir,
}

impl Desk {
    fn of(document: String) -> Self {
        Self::of_payload(&structured(document))
    }

    fn of_payload(payload: &Arc<Payload>) -> Self {
        let root = TempDir::new().unwrap();
        let descriptor = Self::descriptor(&root, payload);
        let store = Store::open(StoreConfig::new(root.path())).unwrap();
        let tools = Tools::new(store, extractor(), Budget::default());
        Self { tools, descriptor, root }
    }

    /// The descriptor of a result for a reader with the tools and no shell.
    fn descriptor(root: &TempDir, payload: &Arc<Payload>) -> Value {
        let mut request = request(always());
        request.abilities = Abilities::EXTRACT_TOOL | Abilities::READ_TOOL;
        let offloaded = offloaded(filter(root.path()).apply(&request, payload));
        serde_json::from_str(&offloaded.descriptor).unwrap()
    }

    /// The descriptor of another result.
    fn offload(&self, document: String) -> Value {
        Self::descriptor(&self.root, &structured(document))
    }

    /// The tool result; the handle is added to the arguments.
    fn call(&self, tool: &str, mut arguments: Value) -> Value {
        arguments["handle"] = self.descriptor["handle"].clone();
        serde_json::from_str(&self.tools.call(TENANT, tool, &arguments.to_string()).unwrap()).unwrap()
    }

    fn answer(&self, tool: &str, arguments: Value) -> Value {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], Value::Null, "{result}");
        let text: Value = serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(text, result["structuredContent"], "the text is a copy of the structured content");
        text
    }

    fn refusal(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}

fn people() -> Desk {
    let team = |id: u32| ["red", "blue", "green"][id as usize % 3];
    let person = |id: u32| json!({"id": id, "name": format!("Person {id}"), "team": team(id)});
    Desk::of(json!({"people": (0..300).map(person).collect::<Vec<_>>()}).to_string())
}

// One call, by handle, without a shell.
#[test]
fn one_call_answers() {
    let desk = people();
    let answer = desk.answer(
        EXTRACT_TOOL,
        json!({"where": [{"field": "team", "op": "eq", "value": "RED", "ignore_case": true}, {"field": "id", "op": "lt", "value": 10}],
               "select": ["id"]}),
    );
    assert_eq!(answer["results"], json!([{"id": 0}, {"id": 3}, {"id": 6}, {"id": 9}]));
    assert_eq!((&answer["total"], &answer["left"], &answer["examined"]), (&json!(4), &json!(0), &json!(300)));
    let groups = desk.answer(EXTRACT_TOOL, json!({"group": {"by": ["team"]}, "sort": ["team"]}));
    assert_eq!(groups["results"][0], json!({"team": "blue", "count": 100}));
    let program = desk.answer(EXTRACT_TOOL, json!({"jq": "select(.id == $n) | .name", "args": {"n": 7}}));
    assert_eq!(program["results"], json!(["Person 7"]));
    // What the descriptor offers is a call as it stands.
    let recipes = desk.descriptor["recipes"].as_object().unwrap();
    assert!(recipes.len() >= 3, "{recipes:?}");
    for (name, call) in recipes {
        assert!(desk.answer(EXTRACT_TOOL, call.clone())["total"].as_u64().unwrap() > 0, "{name}");
    }
}

/// The arguments of the call that the guidance names.
fn example(descriptor: &Value) -> Value {
    let guidance = descriptor["guidance"].as_str().unwrap();
    let (_, call) = guidance.split_once("lro_extract ").unwrap_or_else(|| panic!("no call: {guidance}"));
    serde_json::Deserializer::from_str(call).into_iter::<Value>().next().unwrap().unwrap()
}

// Whatever the names and values of the fields are.
#[test]
fn the_call_that_the_guidance_names_answers() {
    let rows = |key: &str, value: &dyn Fn(u32) -> Value| {
        json!((0..300).map(|id| json!({key: value(id), "id": id})).collect::<Vec<_>>()).to_string()
    };
    let nested = (0..300).map(|id| {
        let state = ["on", "off"][id as usize % 2];
        json!({"kind": "x", "in": {"size": id * 3, "state": state}})
    });
    let documents = [
        rows("team", &|id| json!(["red", "blue"][id as usize % 2])),
        rows("IMDB Rating", &|id| json!(["it's", "a \"b\""][id as usize % 2])),
        rows("not", &|id| json!(id % 5 == 0)),
        rows("a.b/c~d", &|id| json!(id % 9)),
        rows("k\"ey", &|id| json!(f64::from(id) / 7.0)),
        json!(nested.collect::<Vec<_>>()).to_string(),
        json!((0..300).map(|id| id % 7).collect::<Vec<_>>()).to_string(),
        json!({"columns": ["id", "zone"], "rows": (0..300).map(|id| [id, id % 7]).collect::<Vec<_>>()}).to_string(),
    ];
    for document in documents {
        let desk = Desk::of(document);
        let call = example(&desk.descriptor);
        assert_eq!(call["handle"], desk.descriptor["handle"]);
        assert!(desk.answer(EXTRACT_TOOL, call)["total"].as_u64().unwrap() > 0, "{}", desk.descriptor);
        for (name, call) in desk.descriptor["recipes"].as_object().unwrap() {
            assert!(
                desk.answer(EXTRACT_TOOL, call.clone())["total"].as_u64().unwrap() > 0,
                "{name}: {}",
                desk.descriptor
            );
        }
    }
    for string in ["src/module/file.rs ", "\"quoted\" \\ ", "modulé "] {
        let strings: Vec<String> = (0..300).map(|id| format!("{string}{id}")).collect();
        let desk = Desk::of(json!({ "result": strings }).to_string());
        let call = example(&desk.descriptor);
        assert!(call["search"].is_string(), "{call}");
        assert_eq!(desk.answer(EXTRACT_TOOL, call)["total"], 300, "{}", desk.descriptor);
        let text = desk.refusal(EXTRACT_TOOL, json!({"where": "value == 'x'"}));
        assert!(text.ends_with("the records have no fields, and `.` is a whole one"), "{text}");
        assert_eq!(desk.answer(EXTRACT_TOOL, json!({"where": ". contains '299'"}))["total"], 1, "{string}");
    }
    for text in ["# Install\n\nwords\n\n## Usage\n\nmore\n".repeat(40), "a b c\nfour words in here\n".repeat(40)] {
        let desk = Desk::of_payload(&lro_tests::text(text));
        let call = example(&desk.descriptor);
        assert!(call["search"].is_string(), "{call}");
        assert!(desk.answer(EXTRACT_TOOL, call)["total"].as_u64().unwrap() > 0, "{}", desk.descriptor);
    }
}

// SQL, which every model knows: over one result, and over several.
#[test]
fn sql_answers_over_one_result_and_several() {
    let desk = people();
    let ask = |sql: &str| desk.answer(EXTRACT_TOOL, json!({ "sql": sql }));
    for table in ["people", "records"] {
        let sql =
            format!("SELECT team, count(*) AS n FROM {table} WHERE id < 100 GROUP BY team ORDER BY n DESC LIMIT 1");
        assert_eq!(ask(&sql)["results"], json!([{"team": "red", "n": 34}]), "{table}");
    }
    let page = desk.answer(EXTRACT_TOOL, json!({"sql": "SELECT id FROM people", "offset": 290, "limit": 5}));
    assert_eq!((&page["results"][0]["id"], &page["left"], &page["cut"]), (&json!(290), &json!(5), &json!("limit")));
    assert!(page["advice"].as_str().unwrap().contains("\"offset\": 295"), "{page}");
    for (sql, hint) in [
        ("SELECT Team FROM people", "`team`"),
        ("SELECT id FROM persons", "people"),
        ("SELECT rank() OVER () FROM people", "GROUP BY"),
        ("DELETE FROM people", "SELECT"),
        ("SELECT name + 1 FROM people", "TRY_CAST"),
    ] {
        let text = desk.refusal(EXTRACT_TOOL, json!({ "sql": sql }));
        assert!(text.contains(hint), "{sql}: {text}");
    }

    let scores = (0..40).map(|id| json!({"person": id * 10, "points": id})).collect::<Vec<_>>();
    let other = desk.offload(json!({ "scores": scores }).to_string());
    let (people, scores) = (&desk.descriptor["handle"], &other["handle"]);
    let sql = "SELECT p.team, sum(s.points) AS points FROM people p JOIN s ON s.person = p.id GROUP BY 1 ORDER BY points DESC";
    let from = json!([{"handle": people}, {"handle": scores, "section": "scores", "as": "s"}]);
    let joined = desk.answer(EXTRACT_TOOL, json!({"sql": sql, "from": from}));
    let results =
        json!([{"team": "green", "points": 155}, {"team": "blue", "points": 145}, {"team": "red", "points": 135}]);
    assert_eq!((&joined["results"], &joined["examined"]), (&results, &json!(340)));
    let twice = json!([{"handle": people}, {"handle": people}]);
    let text = desk.refusal(EXTRACT_TOOL, json!({"sql": "SELECT 1", "from": twice}));
    assert!(text.contains("two tables are named `people`"), "{text}");
    assert!(desk.refusal(EXTRACT_TOOL, json!({"from": [{"handle": people}]})).contains("`sql`"));
}

// Pages of a default size, a hard cap, and the number of all.
#[test]
fn pages_lead_from_one_to_the_next() {
    let desk = people();
    let (mut seen, mut arguments) = (Vec::new(), json!({"bytes": 2_000}));
    loop {
        let page = desk.answer(READ_TOOL, arguments);
        assert_eq!(page["total"], 300);
        let records = page["records"].as_array().unwrap();
        assert!((40..=60).contains(&records.len()) || page["next"].is_null(), "{}", records.len());
        seen.extend(records.iter().map(|record| record["id"].as_u64().unwrap()));
        match page["next"].as_str() {
            Some(next) => arguments = json!({ "cursor": next }),
            None => break,
        }
    }
    assert_eq!(seen, (0..300).collect::<Vec<_>>());
    assert_eq!(desk.answer(READ_TOOL, json!({"from": 250, "limit": 2}))["records"][1]["id"], 251);
    assert_eq!(desk.answer(READ_TOOL, json!({"from": -2}))["records"][1]["id"], 299);
    // As many as fit, unless a limit says so.
    assert_eq!(desk.answer(READ_TOOL, json!({}))["records"].as_array().unwrap().len(), 300);
    let short = desk.answer(EXTRACT_TOOL, json!({}));
    assert_eq!(short["results"].as_array().unwrap().len(), 50);
    assert!(short["advice"].as_str().unwrap().contains("\"offset\": 50"), "{short}");
}

// A cursor that does not fit is an error that says why and what to do, never a new beginning.
#[test]
fn a_wrong_cursor_is_an_error_to_mend() {
    let (desk, other) = (people(), people());
    let cursor = desk.answer(READ_TOOL, json!({"limit": 5}))["next"].as_str().unwrap().to_owned();
    let mut changed = cursor.clone().into_bytes();
    changed[20] = if changed[20] == b'A' { b'B' } else { b'A' };
    let changed = String::from_utf8(changed).unwrap();
    for (desk, cursor) in [(&desk, changed.as_str()), (&desk, "nonsense"), (&other, cursor.as_str())] {
        let text = desk.refusal(READ_TOOL, json!({"section": "people", "cursor": cursor}));
        let (cause, call) = text.split_once("begin again: lro_read ").unwrap();
        assert!(cause.contains("cursor") && cause.contains("`next`"), "{text}");
        // The call that it names begins again.
        let call: Value = serde_json::from_str(call).unwrap();
        assert_eq!(desk.answer(READ_TOOL, call)["first"], 0);
    }
    let arguments = json!({"handle": desk.descriptor["handle"], "section": "people", "cursor": cursor}).to_string();
    let foreign = desk.tools.call("somebody else", READ_TOOL, &arguments).unwrap();
    assert!(foreign.contains("isError") && foreign.contains("another tenant"), "{foreign}");
    assert_eq!(desk.tools.call(TENANT, "lro_write", "{}").unwrap_err().code, INVALID_PARAMS);
}

// What a model can mend says how.
#[test]
fn refusals_tell_the_way_out() {
    let desk = people();
    for (tool, arguments, hint) in [
        (EXTRACT_TOOL, json!({"where": {"field": "Team", "op": "exists"}}), "`team`"),
        (EXTRACT_TOOL, json!({"whre": []}), "where"),
        (EXTRACT_TOOL, json!({"where": [{"field": "team", "op": "like", "value": "r"}]}), "starts_with"),
        (EXTRACT_TOOL, json!({"section": "persons"}), "`people`"),
        (EXTRACT_TOOL, json!({"recipe": "all"}), "`people_where`"),
        (EXTRACT_TOOL, json!({"jq": ".id |"}), "byte"),
        (EXTRACT_TOOL, json!({"jq": ".id", "count": true}), "without count"),
        (READ_TOOL, json!({"from": 1, "cursor": "a"}), "not both"),
        (READ_TOOL, json!({"from": 300}), "300"),
        (READ_TOOL, json!({"page": 2}), "cursor"),
    ] {
        let text = desk.refusal(tool, arguments.clone());
        assert!(text.contains(hint), "{arguments}: {text}");
    }
    let lost = json!({"handle": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}).to_string();
    let text = desk.tools.call(TENANT, READ_TOOL, &lost).unwrap();
    assert!(text.contains("has expired") && text.contains("isError"), "{text}");
    let foreign = json!({"handle": desk.descriptor["handle"]}).to_string();
    let text = desk.tools.call("somebody else", EXTRACT_TOOL, &foreign).unwrap();
    assert!(text.contains("there is no offload") && text.contains("call the tool again that made it"), "{text}");
}

// The definitions are what the calls take.
#[test]
fn definitions_name_what_calls_take() {
    let desk = people();
    for definition in definitions() {
        let tool = definition["name"].as_str().unwrap();
        let properties = definition["inputSchema"]["properties"].as_object().unwrap();
        let refusal = desk.refusal(tool, json!({"no such member": 1}));
        for name in properties.keys().filter(|name| *name != "handle") {
            // A member that is not known is refused by its name; these are only given values of a wrong type.
            let text = desk.refusal(tool, json!({ name: {"no": 1} }));
            assert!(
                !text.contains("unknown member `handle`") && !text.contains(&format!("unknown member `{name}`")),
                "{name}: {text}"
            );
        }
        assert!(refusal.contains("no such member"), "{refusal}");
    }
}
