//! Questions that come with a call: as an argument of a tool with the setting `ask`, or as metadata.

use lro_host::mcp::OutputSchema;
use lro_tests::component;
use serde_json::{Value, json};

use crate::lasting::all_ways;
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured, text};
use crate::support::path_text;
use crate::wire::modern_meta;

/// The argument, and the metadata key.
const ARGUMENT: &str = "lro_query";
const METADATA: &str = "io.github.lro-filter/query";

const ASK: &str = "[tools.large]\nask = true\n";

/// A closed schema of 2,000 records below `items`.
const SCHEMA: &str = r#"{"type":"object","required":["items"],"additionalProperties":false,
    "properties":{"items":{"type":"array","items":{"type":"object"}}}}"#;

fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

/// A server with a tool that gives a large result, and one whose result is small.
fn script() -> Script {
    Script::new().tool("large", &SCHEMA.replace("\n    ", ""), large()).tool("small", "", text("small"))
}

/// The calls of a tool that the server has received, as lines.
fn calls(gateway: &mut Scripted) -> Vec<String> {
    gateway.seen().into_iter().filter(|line| line.contains("tools/call")).collect()
}

/// What stands in the place of a descriptor in both halves of a result.
fn answered(result: &Value) -> Value {
    let found = result["structuredContent"].clone();
    assert_eq!(serde_json::from_str::<Value>(first_text(result)).unwrap(), found);
    assert_eq!(found["offloaded"], true, "{found}");
    found
}

#[test]
fn the_answer_comes_with_the_call_whatever_the_way() {
    for (name, mut way) in all_ways(&script(), ASK) {
        let tools = way.result("tools/list", json!({}))["tools"].take();
        let [large, small] =
            ["large", "small"].map(|name| tools.as_array().unwrap().iter().find(|tool| tool["name"] == name).unwrap());
        assert_eq!(large["inputSchema"]["properties"][ARGUMENT]["type"], "object", "{name}: {large}");
        assert_eq!(small["inputSchema"], json!({"type": "object"}), "{name}");
        let schema = OutputSchema::read(large["outputSchema"].to_string().as_bytes()).unwrap();

        let question = json!({"where": "id >= 1998", "select": "id", "sort": "-id"});
        let result = way.call("large", json!({"a": 1, ARGUMENT: question}));
        let found = answered(&result);
        assert_eq!(found["answer"]["results"], json!([{"id": 1999}, {"id": 1998}]), "{name}: {found}");
        assert_eq!(schema.allows(&found), Ok(true), "{name}");
        assert!(found["descriptor"]["schemas"].is_null(), "{name}: the short form: {found}");
        // The handle answers what comes next.
        let more = json!({"handle": handle(&found["descriptor"]), "count": true});
        assert_eq!(way.call("lro_extract", more)["structuredContent"]["results"], json!([{"count": 2_000}]), "{name}");

        let mut asked = json!({"name": "large", "arguments": {"a": 1}, "_meta": {METADATA: {"search": "number 77"}}});
        let found = answered(&way.result("tools/call", asked.clone()));
        assert_eq!(found["answer"]["results"][0]["line"], 78, "{name}: {found}");
        asked["name"] = "small".into();
        assert_eq!(way.result("tools/call", asked)["content"], text("small")["content"], "{name}");
        let seen = way.seen("large");
        assert!(seen.len() == 2 && seen.iter().all(|line| line.contains(r#""arguments":{"a":1}"#)), "{name}: {seen:?}");
    }
}

#[test]
fn only_the_argument_is_taken_out_of_a_request() {
    let mut gateway = script().with_toml(ASK);
    let call = |arguments: &str, meta: &str| {
        format!(
            r#"{{"jsonrpc" : "2.0", "id":"q" ,"method":"tools/call","params":{{ "name":"large", "arguments":{arguments}{meta} }} }}"#
        )
    };
    let meta = format!(r#", "_meta":{{"{METADATA}":{{"count":true}} ,"x":1.0}}"#);
    let as_text = r#"{ "b":1.50 , "lro_query":"{\"count\": true}"}"#;
    let sent = [
        (call(r#"{"lro_query":{"count":true} , "a" : "\u0041"}"#, ""), call(r#"{"a" : "\u0041"}"#, "")),
        (call(as_text, ""), call(r#"{ "b":1.50}"#, "")),
        (call(r#"{"lro_query":null}"#, ""), call("{}", "")),
        (call("{}", &meta), call("{}", &meta)),
        // No question: not a member of the arguments itself, of another tool, and under an own name.
        (call(r#"{"a":{"lro_query":{"count":true}}}"#, ""), call(r#"{"a":{"lro_query":{"count":true}}}"#, "")),
        (
            call(r#"{"lro_query":3}"#, "").replace("large", "small"),
            call(r#"{"lro_query":3}"#, "").replace("large", "small"),
        ),
    ];
    for (before, after) in &sent {
        let result: Value = serde_json::from_str(&gateway.ask_line(before)).unwrap();
        let counted = result["result"]["structuredContent"]["answer"]["results"] == json!([{"count": 2_000}]);
        let asks = before != after && !before.contains("null") || before.contains(METADATA);
        assert_eq!(counted, asks, "{before}: {result:.500}");
        assert_eq!(calls(&mut gateway).last(), Some(after));
    }
}

#[test]
fn a_question_that_cannot_be_read_is_refused_before_the_call() {
    let mut gateway = script().with_toml(ASK);
    let long = "x".repeat(20_000);
    for (question, cause) in [
        (json!({"were": "id > 1"}), "`where`"),
        (json!({"where": "id >"}), "lro_query"),
        (json!({"handle": "01M7YXTFAWZVTJRQ8KE7Y7EFP4", "count": true}), "leave out `handle`"),
        (json!({"search": "a", "jq": "."}), "`search` goes without jq"),
        (json!([1]), "expected a query"),
        (json!("count them"), "not JSON"),
        (json!({"search": long}), "more than 16384"),
    ] {
        let result = gateway.call("large", json!({"a": 1, ARGUMENT: question}));
        let message = first_text(&result).to_owned();
        assert_eq!(result["isError"], true, "{question}: {result}");
        assert!(message.contains("the tool was not called") && message.contains(cause), "{question}: {message}");
        let meta = json!({METADATA: question});
        let result = gateway.result("tools/call", json!({"name": "small", "arguments": {}, "_meta": meta}));
        assert!(result["isError"] == true && first_text(&result).contains(METADATA), "{question}: {result}");
    }
    let both = json!({"name": "large", "arguments": {ARGUMENT: {}}, "_meta": {METADATA: {}}});
    assert!(first_text(&gateway.result("tools/call", both)).contains("one question"));
    let mut meta = modern_meta();
    meta[METADATA] = json!({"were": 1});
    let modern = gateway.result("tools/call", json!({"name": "large", "arguments": {}, "_meta": meta}));
    assert_eq!((&modern["resultType"], &modern["isError"]), (&"complete".into(), &true.into()));
    assert_eq!(calls(&mut gateway), [""; 0], "nothing has happened");
}

#[test]
fn a_question_without_an_answer_gives_the_descriptor_and_the_reason() {
    let toml = format!("{ASK}[clients.\"lro-tests\"]\nresult-limit = 4000\n");
    let mut gateway = script().with_toml(&toml);
    for (question, cause) in [
        (json!({"where": "nome == 'x'"}), "`name`"),
        (json!({"jq": ".id |"}), "syntax error"),
        (json!({"section": "other", "count": true}), "`items`"),
        (json!({"recipe": "none"}), "there is no recipe"),
    ] {
        let found = answered(&gateway.call("large", json!({ARGUMENT: question})));
        assert!(found["error"].as_str().unwrap().contains(cause) && found["answer"].is_null(), "{question}: {found}");
        let more = json!({"handle": handle(&found["descriptor"]), "count": true});
        assert_eq!(gateway.call("lro_extract", more)["structuredContent"]["results"], json!([{"count": 2_000}]));
    }
    let recipe = answered(&gateway.call("large", json!({ARGUMENT: {"recipe": "items_first", "limit": 1}})));
    assert_eq!(recipe["answer"]["results"], records(1));
    // An answer is as long as the client accepts, and says how to go on.
    let result = gateway.call("large", json!({ARGUMENT: {"limit": 50}}));
    let answer = &answered(&result)["answer"];
    let count = answer["results"].as_array().unwrap_or_else(|| panic!("{result}")).len();
    assert!((1..50).contains(&count) && result.to_string().len() < 4_000, "{result}");
    assert!(answer["advice"].as_str().unwrap().contains(&format!("\"offset\": {count}")), "{answer}");
}

// The strategies that keep a schema as it is have the answer, too.
#[test]
fn every_strategy_for_schemas_has_the_answer() {
    let ask = |strategy: &str| {
        let mut gateway = script().with_toml(&format!("{ASK}schema = \"{strategy}\"\n"));
        gateway.tools();
        let result = gateway.call("large", json!({ARGUMENT: {"count": true}}));
        let shown: Value = serde_json::from_str(first_text(&result)).unwrap();
        assert_eq!(shown["answer"]["results"], json!([{"count": 2_000}]), "{strategy}: {result:.500}");
        result
    };
    assert_eq!(ask("shape")["structuredContent"]["items"], records(3));
    assert_eq!(ask("block")["isError"], true);
    assert_eq!(ask("strip")["structuredContent"]["offloaded"], true);
}

// A server whose tool has such an argument, as another gateway has, gets it.
#[test]
fn an_argument_of_the_server_is_its_own() {
    let tool = r#"{"name":"large","inputSchema":{"type":"object","properties":{"lro_query":{"type":"string"}}}}"#;
    let script = Script::new().result("tools/list", format!(r#"{{"tools":[{tool}]}}"#)).call("large", large());
    let mut gateway = script.with_toml(ASK);
    assert_eq!(gateway.tools()[0]["inputSchema"]["properties"][ARGUMENT], json!({"type": "string"}));
    assert!(descriptor(&gateway.call("large", json!({ARGUMENT: "mine"}))).is_some());
    assert!(calls(&mut gateway)[0].contains(r#""lro_query":"mine""#));
}

#[test]
fn what_is_never_offloaded_is_not_asked_about() {
    let toml = format!("{ASK}mode = \"never\"\n");
    let mut gateway = script().with_toml(&toml);
    assert_eq!(gateway.tools()[0]["inputSchema"], json!({"type": "object"}));
    for toml in [format!("{ASK}[gateway]\naudit = true\n"), format!("enabled = false\n{ASK}")] {
        let mut gateway = script().with_toml(&toml);
        assert_eq!(gateway.tools()[0]["inputSchema"], json!({"type": "object"}), "{toml}");
        assert_eq!(gateway.call("large", json!({ARGUMENT: {"were": 1}})), large(), "{toml}");
        assert!(calls(&mut gateway)[0].contains(ARGUMENT), "{toml}");
    }
}

// Identical calls with different questions have different answers, and a reply that is given again has none.
#[test]
fn a_question_is_answered_anew() {
    let mut gateway = script().with_toml(&format!("{ASK}reuse-seconds = 600\n"));
    let mut ask = |question: Value| gateway.call("large", json!({ARGUMENT: question}));
    assert_eq!(answered(&ask(json!({"count": true})))["answer"]["results"], json!([{"count": 2_000}]));
    assert_eq!(answered(&ask(json!({"limit": 1})))["answer"]["results"], records(1));
    let first = descriptor(&gateway.call("large", json!({}))).unwrap();
    assert_eq!(descriptor(&gateway.call("large", json!({}))).unwrap(), first);
    assert!(first["answer"].is_null());
    assert_eq!(calls(&mut gateway).len(), 3);
}

// The result of a task answers the question of the call that created it.
#[test]
fn a_task_has_the_answer() {
    let created = json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 60_000});
    let done = json!({
        "resultType": "complete", "taskId": "t", "status": "completed", "createdAt": "2026-01-01T00:00:00Z",
        "ttlMs": 60_000, "result": large(),
    });
    let script = Script::new().call("large", &created).result("tasks/get", done);
    let mut gateway = script.with_toml(ASK);
    let call = json!({"name": "large", "arguments": {ARGUMENT: {"count": true}}, "_meta": modern_meta()});
    assert_eq!(gateway.result("tools/call", call), created);
    let mut get = || gateway.result("tasks/get", json!({"taskId": "t", "_meta": modern_meta()}));
    let first = get();
    assert_eq!(answered(&first["result"])["answer"]["results"], json!([{"count": 2_000}]));
    assert_eq!(get(), first);
}

// A policy sees the arguments that a tool takes, as the server lists them.
#[test]
fn a_policy_gets_the_input_schema() {
    let home = tempfile::tempdir().unwrap();
    let policy = home.path().join("policy.wasm");
    std::fs::write(&policy, component("lro_test_policies.wasm")).unwrap();
    let long = format!(r#"{{"type":"object","title":"{}"}}"#, "x".repeat(70_000));
    let listed = r#"{"type":"object", "properties":{"limit":{"maximum":1e2}}}"#;
    let tools = format!(r#"{{"name":"large","inputSchema":{listed}}},{{"name":"long","inputSchema":{long}}}"#);
    let script = Script::new()
        .result("tools/list", format!(r#"{{"tools":[{tools}]}}"#))
        .call("large", text("a"))
        .call("long", text("a"));
    let toml = format!("policy = \"{}\"\ncustom = \"inspect-input-schema\"\n{ASK}", path_text(&policy));
    let mut gateway = script.start_with(&Setup { toml: &toml, ..Setup::default() });
    let mut seen = |tool: &str| first_text(&gateway.call(tool, json!({}))).to_owned();
    assert_eq!(seen("large"), "none");
    gateway.tools();
    let mut seen = |tool: &str| first_text(&gateway.call(tool, json!({}))).to_owned();
    assert_eq!([seen("large"), seen("long")], [listed, "none"]);
}
