//! What becomes of slow calls where the setting `job` is not given: a task for clients that say that they know tasks, and
//! for others what the server does with the call.

use serde_json::{Value, json};

use crate::clients::{Client, Connection};
use crate::job_tasks::{EXTENSION, accepting, askers, assert_obtained_by_task, line, slow};
use crate::lasting::{Face, all_ways};
use crate::scripted::{Script, Setup, first_text, text};
use crate::servers::Gateway;
use crate::slow::fastmcp;
use crate::support::{environment, path_text};
use crate::wire::MODERN;

/// No setting but a short time.
const SOON: &str = "[tools.\"slow*\"]\nwait-ms = 100\n";

/// Calls of the tool never become jobs.
const NEVER: &str = "[tools.\"slow*\"]\njob = \"never\"\nwait-ms = 100\n";

/// Capabilities of a client of 2025-11-25 that knows tasks.
fn knowing() -> Value {
    json!({"tasks": {"cancel": {}}})
}

fn listed() -> Value {
    json!({"tools": [
        {"name": "slow", "inputSchema": {"type": "object"}},
        {"name": "slow-own", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "optional"}},
    ]})
}

fn names(listed: &Value) -> Vec<&str> {
    listed["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect()
}

#[test]
fn a_client_that_knows_tasks_needs_no_setting() {
    let script = slow().result("tools/list", listed());
    for (name, mut asker) in askers(&script, SOON) {
        asker.way.declare(&knowing());
        let tools = asker.result("tools/list", json!({}));
        let support: Vec<&Value> = (0..2).map(|tool| &tools["tools"][tool]["execution"]["taskSupport"]).collect();
        let of_slow = if asker.modern { Value::Null } else { "optional".into() };
        assert_eq!(support, [&of_slow, &"optional".into()], "{name}");
        assert_eq!(names(&tools), ["slow", "slow-own", "lro_extract", "lro_read"], "{name}");
        let task = asker.begin("slow");
        assert_eq!(asker.get(&task)["status"], "working", "{name}");
        assert_eq!(asker.ended(&task)["status"], "completed", "{name}");
        assert_eq!(first_text(&asker.outcome(&task)["result"]), "slept", "{name}");
        // A tool that nobody sees still knows what it began.
        let fetched = asker.way.call("lro_job", json!({"handle": task["taskId"]}));
        assert_eq!(first_text(&fetched), "slept", "{name}");
    }
}

#[test]
fn tasks_are_announced_to_those_who_know_them_alone() {
    let discovered = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}});
    let script = Script::new().tool("slow", "", text("x")).result("server/discover", discovered);
    for (toml, is_never) in [(SOON, false), ("", false), ("[tools.\"*\"]\njob = \"never\"\n", true)] {
        let mut gateway = script.with_toml(toml);
        let mut hello = |version: &str, capabilities: Value| {
            let info = json!({"name": "lro-tests", "version": "1.0.0"});
            let params = json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info});
            let hello = gateway.result("initialize", params);
            let tool = gateway.tools()[0].clone();
            (hello["capabilities"]["tasks"].is_object(), tool["execution"].is_object())
        };
        assert_eq!(hello("2025-11-25", knowing()), (!is_never, !is_never), "{toml}");
        for capabilities in [json!({}), json!({"tasks": null}), json!({"tasks": true}), json!({"sampling": {}})] {
            assert_eq!(hello("2025-11-25", capabilities.clone()), (false, false), "{capabilities}");
        }
        assert_eq!(hello("2025-06-18", knowing()), (false, false));
        let mut about = |capabilities: Value| {
            let mut meta = accepting();
            meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
            let about = gateway.result("server/discover", json!({ "_meta": meta }));
            about["capabilities"]["extensions"][EXTENSION].is_object()
        };
        assert_eq!(about(json!({"extensions": {EXTENSION: {}}})), !is_never, "{toml}");
        for other in [json!({}), json!({"extensions": {EXTENSION: null}}), json!({"extensions": {"tasks": {}}})] {
            assert!(!about(other));
        }
    }
}

/// The answers of a gateway to a client of 2025-11-25 that declares nothing, and to one of 2026-07-28.
fn answers(script: &Script, toml: &str, face: Face, over_http: bool) -> Vec<String> {
    let server = if over_http { "HTTP" } else { "a command" };
    let wanted = format!("{face:?} before {server}");
    let (_, mut way) = all_ways(script, toml).find(|(name, _)| *name == wanted).unwrap();
    let asked = [
        ("server/discover", json!({})),
        ("tools/list", json!({})),
        ("resources/templates/list", json!({})),
        ("tools/call", json!({"name": "slow", "arguments": {}})),
        ("tools/call", json!({"name": "lro_job", "arguments": {}})),
        ("tasks/get", json!({"taskId": "01M7YXTFAWZVTJRQ8KE7Y7EFP4"})),
        ("resources/subscribe", json!({"uri": "lro://jobs/01M7YXTFAWZVTJRQ8KE7Y7EFP4"})),
    ];
    let hello = way.gateway.hello.to_string();
    asked.map(|(method, params)| way.answer(method, params).to_string()).into_iter().chain([hello]).collect()
}

// What never could become a job is the measure.
#[test]
fn nothing_changes_for_clients_that_say_nothing_of_tasks() {
    let discovered = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}});
    let late = json!([{"sleep": 1}, line(&text("late"))]);
    let script = Script::new()
        .result("tools/list", listed())
        .result("server/discover", discovered)
        .steps("tools/call slow", late);
    for (face, over_http) in [(Face::Stdio, false), (Face::Legacy, true), (Face::Modern, false), (Face::Modern, true)] {
        let found = answers(&script, SOON, face, over_http);
        assert_eq!(found, answers(&script, NEVER, face, over_http), "{face:?}");
        assert!(found[3].contains("late") && !found.concat().contains("lro_job"), "{found:?}");
    }
}

#[test]
fn never_means_never_for_all() {
    let late = json!([{"sleep": 1}, line(&text("late"))]);
    let script = Script::new().steps("tools/call slow", late).result("tools/list", listed());
    for (name, mut asker) in askers(&script, NEVER) {
        asker.way.declare(&knowing());
        asker.result("tools/list", json!({}));
        let asked = if asker.modern { Value::Null } else { json!({}) };
        let result = asker.result("tools/call", json!({"name": "slow", "arguments": {}, "task": asked}));
        assert_eq!(first_text(&result), "late", "{name}");
        let seen = asker.way.seen("slow");
        assert_eq!(seen[0].contains(r#""task":{}"#), !asker.modern, "{name}: the call is the server's: {seen:?}");
    }
}

// A tool that is in no list may be one whose calls the server runs as tasks.
#[test]
fn a_task_that_may_be_the_servers_is_the_servers() {
    let task = json!({"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 1});
    let script = slow().call("slow-own", json!({ "task": task })).result("tools/list", listed());
    let mut gateway = script.start_with(&Setup { toml: SOON, ..Setup::default() });
    let info = json!({"name": "lro-tests", "version": "1.0.0"});
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": knowing(), "clientInfo": info});
    gateway.result("initialize", hello);
    let call = json!({"name": "slow-own", "arguments": {}, "task": {}});
    for _ in ["before the list", "after the list"] {
        assert_eq!(gateway.result("tools/call", call.clone()), json!({ "task": task }));
        gateway.tools();
    }
}

#[test]
fn the_typescript_sdk_needs_no_setting() {
    let slow = fastmcp(1.0);
    let mut gateway = Gateway::new(&[]);
    let toml = gateway.directory.path().join("lro.toml");
    std::fs::write(&toml, format!("[tools.{}]\nwait-ms = 100\n", slow.tool)).unwrap();
    gateway.more = environment(&[("MCP_LRO_CONFIG", &path_text(&toml))]);
    let mut connection = Connection::open_with(Client::Sdk1, &gateway.before(&slow.server), &knowing());
    connection.tools();
    assert_obtained_by_task(&mut connection, &slow);
}
