//! Jobs whose call is a task at the server, for clients that know no tasks.

use serde_json::{Value, json};

use crate::clients::{Client, Connection};
use crate::job_live::job;
use crate::job_tasks::{EXTENSION, GO, line};
use crate::lasting::{Face, Way, all_ways};
use crate::scripted::{Script, first_text, text};
use crate::servers::{Gateway, everything};
use crate::slow::follow;
use crate::support::{environment, path_text};

/// Calls of these tools become jobs after a time that no test takes.
const AUTO: &str = "[tools.\"slow*\"]\njob = \"auto\"\nwait-ms = 600000\n";

/// How often a job is asked for until it is in a state.
const POLLS_MAX: usize = 500;

/// The states after which nothing changes.
const ENDED: [&str; 3] = ["done", "failed", "lost"];

/// A task that has this status, in the form of both revisions.
fn task(status: &str, more: &Value) -> Value {
    let times =
        json!({"createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttl": 1, "ttlMs": 1});
    let mut task = json!({"taskId": "t", "status": status, "pollInterval": 1, "pollIntervalMs": 1});
    for members in [&times, more] {
        task.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    }
    task
}

/// A server that answers calls of `slow` with a task.
fn script(modern: bool, more: &Value) -> Script {
    let mut created = task("working", more);
    if modern {
        created["resultType"] = "task".into();
    }
    let created = if modern { created } else { json!({ "task": created }) };
    let tool = json!({"name": "slow", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}});
    Script::new().result("tools/list", json!({"tools": [tool]})).call("slow", created)
}

/// A client of every way that has seen the tools, before a server of its revision.
fn ways<'a>(legacy: &'a Script, modern: &'a Script, toml: &'a str) -> impl Iterator<Item = (String, Way)> + 'a {
    let of = move |script, is_modern: bool| {
        all_ways(script, toml).filter(move |(_, way)| (way.face == Face::Modern) == is_modern).map(|(name, mut way)| {
            way.result("tools/list", json!({}));
            (name, way)
        })
    };
    of(legacy, false).chain(of(modern, true))
}

/// The status of a job when it is as wanted.
fn status(way: &mut Way, handle: &str, is_wanted: impl Fn(&Value) -> bool) -> Value {
    for _ in 0..POLLS_MAX {
        let polled = way.call("lro_job", json!({"handle": handle, "wait_ms": 50}));
        let of_result = &polled["_meta"]["io.github.lro-filter/job"];
        let status = if of_result.is_null() { &polled["structuredContent"] } else { of_result };
        if is_wanted(status) {
            return polled;
        }
        assert!(!ENDED.contains(&status["state"].as_str().unwrap()), "{polled}");
    }
    panic!("{}", way.call("lro_job", json!({"handle": handle, "wait_ms": 0})));
}

#[test]
fn a_task_of_the_server_is_a_job() {
    let with_get = |modern: bool| {
        let mut done = task("completed", &json!({}));
        if modern {
            done["result"] = text("slept");
        }
        script(modern, &json!({}))
            .result("tasks/get t#1", task("working", &json!({"statusMessage": "half"})))
            .steps("tasks/get t", json!([{"await": GO}, line(&done)]))
            .result("tasks/result t", text("slept"))
    };
    for (name, mut way) in ways(&with_get(false), &with_get(true), AUTO) {
        let handle = job(&way.call("slow", json!({"a": 1})));
        let half = status(&mut way, &handle, |status| !status["progress"].is_null());
        assert_eq!(half["structuredContent"]["state"], "running", "{name}");
        assert_eq!(half["structuredContent"]["progress"]["message"], "half", "{name}");
        let done = loop {
            // The server may not wait for it yet.
            way.notify(GO);
            let polled = way.call("lro_job", json!({"handle": handle, "wait_ms": 50}));
            if polled["structuredContent"].is_null() {
                break polled;
            }
        };
        assert_eq!(first_text(&done), "slept", "{name}");
        let calls = way.seen("slow");
        let call: Value = serde_json::from_str(&calls[0]).unwrap();
        let extensions = &call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]["extensions"];
        let modern = way.face == Face::Modern;
        assert_eq!((calls.len(), &call["params"]["arguments"]), (1, &json!({"a": 1})), "{name}");
        assert_eq!(
            (call["params"]["task"].is_object(), extensions[EXTENSION].is_object()),
            (!modern, modern),
            "{name}"
        );
    }
}

#[test]
fn a_canceled_job_cancels_the_task() {
    for (ended, went_on) in [("cancelled", false), ("completed", true)] {
        let slowly = json!({"pollInterval": 60_000, "pollIntervalMs": 60_000});
        let with_end = |modern: bool| {
            let script =
                script(modern, &slowly).result("tasks/get t", task(ended, &json!({"result": text("too late")})));
            script.result("tasks/cancel t", task("cancelled", &json!({})))
        };
        for (name, mut way) in ways(&with_end(false), &with_end(true), AUTO) {
            let handle = job(&way.call("slow", json!({})));
            way.call("lro_job", json!({"handle": handle, "cancel": true, "wait_ms": 0}));
            let canceled = status(&mut way, &handle, |status| status["server_went_on"].is_boolean());
            let found = &canceled["structuredContent"];
            assert_eq!((&found["state"], &found["server_went_on"]), (&"cancelled".into(), &went_on.into()), "{name}");
            let seen = way.result("scripted/seen", json!({}))["lines"].to_string();
            assert_eq!(seen.matches("tasks/cancel").count(), 1, "{name}: {seen}");
            assert!(!seen.contains("notifications/cancelled") && !canceled.to_string().contains("too late"), "{name}");
        }
    }
}

#[test]
fn a_task_asks_for_input_as_a_job() {
    let params = json!({"message": "Which one?", "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"method": "elicitation/create", "params": params});
    let modern = script(true, &json!({}))
        .result("tasks/get t#1", task("input_required", &json!({"inputRequests": {"q": question}})))
        .result("tasks/get t", task("completed", &json!({"result": text("slept")})))
        .result("tasks/update t", json!({}));
    for (name, mut way) in ways(&Script::new(), &modern, AUTO).filter(|(_, way)| way.face == Face::Modern) {
        let handle = job(&way.call("slow", json!({})));
        let given = json!({"q": {"action": "accept", "content": {"name": "this one"}}});
        let asking = status(&mut way, &handle, |status| status["state"] == "input_required");
        assert_eq!(asking["structuredContent"]["input"]["q"], question, "{name}");
        way.call("lro_job", json!({"handle": handle, "input": given, "wait_ms": 0}));
        assert_eq!(first_text(&status(&mut way, &handle, |status| status["state"] == "done")), "slept", "{name}");
        let seen = way.result("scripted/seen", json!({}))["lines"].take();
        let update = seen.as_array().unwrap().iter().find(|line| line.as_str().unwrap().contains("tasks/update"));
        let update: Value = serde_json::from_str(update.unwrap().as_str().unwrap()).unwrap();
        assert_eq!(update["params"]["inputResponses"], given, "{name}");
    }
}

#[test]
fn a_task_that_fails_is_a_failed_job() {
    let broken = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32603,"message":"it broke"}}"#;
    let legacy =
        script(false, &json!({})).result("tasks/get t", task("failed", &json!({}))).line("tasks/result t", broken);
    let error = json!({"error": {"code": -32603, "message": "it broke"}});
    let modern = script(true, &json!({})).result("tasks/get t", task("failed", &error));
    let forgotten = |modern| script(modern, &json!({})).line("tasks/get t", broken);
    for (legacy, modern) in [(legacy, modern), (forgotten(false), forgotten(true))] {
        for (name, mut way) in ways(&legacy, &modern, AUTO) {
            let handle = job(&way.call("slow", json!({})));
            let failed = status(&mut way, &handle, |status| status["state"] == "failed");
            assert!(first_text(&failed).contains("it broke"), "{name}: {failed}");
        }
    }
}

// The reference server has a tool whose calls have to be tasks.
#[test]
fn the_reference_server_runs_a_job_as_a_task() {
    let mut gateway = Gateway::new(&[]);
    let toml = gateway.directory.path().join("lro.toml");
    std::fs::write(&toml, "[tools.simulate-research-query]\njob = \"auto\"\n").unwrap();
    gateway.more = environment(&[("MCP_LRO_CONFIG", &path_text(&toml))]);
    let mut connection = Connection::open(Client::Client2, &gateway.before(&everything()));
    connection.tools();
    let call = json!({"name": "simulate-research-query", "arguments": {"topic": "tides", "ambiguous": false}});
    let begun = connection.call(&call);
    let result = follow(&mut connection, &begun);
    assert!(first_text(&result).contains("tides"), "{result}");
}
