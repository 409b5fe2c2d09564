//! Parts of a result that come before its end: read while the call runs, and replaced by the result.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::signal;
use crate::lasting::{Way, all_ways};
use crate::scripted::{Script, Setup, descriptor, first_text, handle, records, structured, text};
use crate::wire::{Wire, call, shake_hands};

/// All calls become jobs, and results of more than 1,000 characters are offloaded.
const ALWAYS: &str = "threshold = 1000\n[tools.\"slow*\"]\njob = \"always\"\n";

/// Notifications on which the server goes on.
const MORE: &str = "test/more";
const GO: &str = "test/go";

/// A part of the result, with this number.
fn part(number: u64, content: &Value) -> Value {
    let params = format!(r#"{{"partialResultToken":@TOKEN@,"seq":{number},{}"#, &content.to_string()[1..]);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/tools/partial_result","params":{params}}}"#).into()
}

/// The answer with this result.
fn line(result: &Value) -> Value {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#).into()
}

/// A server that sends two records, two more and a text after [`MORE`], and the result after [`GO`].
fn script(result: &Value) -> Script {
    let rows =
        |from: usize, to: usize| json!({"structuredContent": {"rows": &records(to).as_array().unwrap()[from..]}});
    let text = json!({"content": [{"type": "text", "text": "a\nb"}]});
    let first = part(0, &rows(0, 2));
    let more = [part(1, &rows(2, 4)), part(1, &rows(2, 4)), part(4, &text)];
    let steps = json!([first, {"await": MORE}, more[0], more[1], more[2], {"await": GO}, line(result)]);
    Script::new().steps("tools/call slow", steps)
}

fn status(result: &Value) -> Value {
    serde_json::from_str(first_text(result)).unwrap_or_else(|_| panic!("no status: {result}"))
}

fn job(result: &Value) -> String {
    status(result)["job"].as_str().unwrap_or_else(|| panic!("no job: {result}")).to_owned()
}

/// What the tool for jobs says of the parts, once there are so many records. `notified` lets the server go on.
fn partial(way: &mut Way, job: &str, records: u64, notified: Option<&str>) -> Value {
    loop {
        notified.into_iter().for_each(|method| way.notify(method));
        let found = status(&way.call("lro_job", json!({"handle": job, "wait_ms": 100})));
        assert_eq!(found["state"], "running", "{found}");
        if found["partial"]["records"] == records {
            return found["partial"].clone();
        }
    }
}

fn read(way: &mut Way, arguments: Value) -> Value {
    let result = way.call("lro_read", arguments);
    assert!(result["isError"].is_null(), "{result}");
    result["structuredContent"].clone()
}

#[test]
fn parts_are_read_until_the_result_replaces_them() {
    let whole = structured(&json!({ "rows": records(100) }));
    for (name, mut way) in all_ways(&script(&whole), ALWAYS) {
        let job = job(&way.call("slow", json!({})));
        let found = partial(&mut way, &job, 2, None);
        assert!(found["bytes"].as_u64().unwrap() > 50 && found["missed"].is_null(), "{name}: {found}");
        let (tool, arguments) = found["read"].as_str().unwrap().split_once(' ').unwrap();
        assert_eq!(tool, "lro_read");
        let page = read(&mut way, serde_json::from_str(arguments).unwrap());
        assert_eq!(page["records"], records(2), "{name}: {page}");
        assert_eq!((&page["complete"], &page["state"]), (&false.into(), &"running".into()), "{name}: {page}");
        let first = read(&mut way, json!({"handle": job, "limit": 1}));
        // A part that came twice counts once, and one that did not come is missed.
        let found = partial(&mut way, &job, 5, Some(MORE));
        assert_eq!(found["missed"], 2, "{name}: {found}");
        let next = read(&mut way, json!({"handle": job, "cursor": first["next"]}));
        assert_eq!((&next["first"], &next["total"]), (&1.into(), &5.into()), "{name}: {next}");
        let page = read(&mut way, json!({"handle": job, "from": 2}));
        assert_eq!(page["records"][1], records(4)[3], "{name}: {page}");
        assert_eq!(page["records"][2], json!({"type": "text", "text": "a\nb"}), "{name}: {page}");
        let asked = way.call(
            "lro_extract",
            json!({"handle": job, "where": [{"field": "even", "op": "==", "value": true}], "count": true}),
        );
        let answer = &asked["structuredContent"];
        assert_eq!(
            (&answer["results"][0]["count"], &answer["complete"]),
            (&2.into(), &false.into()),
            "{name}: {asked}"
        );
        // The result takes the place of its parts, under the same handle.
        let result = loop {
            way.notify(GO);
            let polled = way.call("lro_job", json!({"handle": job, "wait_ms": 500}));
            if polled["_meta"].is_object() {
                break polled;
            }
        };
        assert_eq!(handle(&descriptor(&result).unwrap()), job, "{name}: {result}");
        let page = read(&mut way, json!({"handle": job, "from": 98}));
        assert_eq!((&page["total"], &page["complete"]), (&100.into(), &Value::Null), "{name}: {page}");
        let refused = way.call("lro_read", json!({"handle": job, "cursor": first["next"]}));
        assert_eq!(refused["isError"], true, "a cursor into parts is none into the result: {refused}");
        let status = &result["_meta"]["io.github.lro-filter/job"];
        assert!(status["partial"].is_null(), "{name}: {status}");
    }
}

// What was not the whole result does not stay beside it.
#[test]
fn a_small_result_replaces_its_parts_too() {
    for (name, mut way) in all_ways(&script(&text("short")), ALWAYS) {
        let job = job(&way.call("slow", json!({})));
        partial(&mut way, &job, 2, None);
        loop {
            way.notify(MORE);
            way.notify(GO);
            let polled = way.call("lro_job", json!({"handle": job, "wait_ms": 500}));
            if first_text(&polled) == "short" {
                break;
            }
        }
        let refused = way.call("lro_read", json!({"handle": job}));
        assert!(first_text(&refused).contains("the tool for jobs"), "{name}: {refused}");
    }
}

#[test]
fn what_came_before_a_failure_stays() {
    let failure = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"no more"}}"#;
    let steps = json!([part(0, &json!({"structuredContent": {"rows": records(3)}})), failure]);
    for (name, mut way) in all_ways(&Script::new().steps("tools/call slow", steps), ALWAYS) {
        let job = job(&way.call("slow", json!({})));
        let found = loop {
            let found = status(&way.call("lro_job", json!({"handle": job, "wait_ms": 500})));
            if found["state"] == "failed" {
                break found;
            }
        };
        assert_eq!(found["partial"]["records"], 3, "{name}: {found}");
        let page = read(&mut way, json!({ "handle": job }));
        assert_eq!((&page["records"], &page["state"]), (&records(3), &"ended".into()), "{name}: {page}");
    }
}

// A client that takes parts itself gets them until its call is a job.
#[test]
fn parts_of_a_client_are_its_own() {
    let steps =
        json!([part(0, &json!({"structuredContent": {"rows": records(3)}})), {"await": GO}, line(&text("slept"))]);
    let toml = "[tools.slow]\njob = \"auto\"\nwait-ms = 600000\n";
    for (name, mut way) in all_ways(&Script::new().steps("tools/call slow", steps), toml) {
        let meta = json!({"partialResultToken": "mine", "progressToken": "mine"});
        let mut stream = way.open_stream("tools/call", json!({"name": "slow", "arguments": {}, "_meta": meta}));
        let part = way.next(&mut stream);
        assert_eq!(part["method"], "notifications/tools/partial_result", "{name}: {part}");
        assert_eq!(part["params"]["partialResultToken"], "mine", "{name}: {part}");
        assert_eq!(part["params"]["structuredContent"]["rows"], records(3), "{name}: {part}");
        way.notify(GO);
        assert_eq!(first_text(&way.next(&mut stream)["result"]), "slept", "{name}");
    }
}

/// The answer with this result to the last call.
fn answer(result: &Value) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":@CALL@,"result":{result}}}"#)
}

// A resource of the server grows by lines while the call runs. Where it no longer begins with what it had, that stays.
#[test]
fn a_resource_that_grows_is_read_meanwhile() {
    let resource = |text: &str| json!({"contents": [{"uri": "log://x/out", "text": text}]});
    let updated =
        r#"{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"log://a%20b%2F/out"}}"#;
    let holds = |text: &str| {
        let line = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, resource(text));
        json!([{"script": {"resources/read": [line]}}, updated])
    };
    let whole = structured(&json!({ "rows": records(100) }));
    let script = Script::new()
        .steps("tools/call slow", json!([]))
        .line("resources/read#1", r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32002,"message":"not yet"}}"#)
        .result("resources/read", resource("{\"n\":0}\n\nstep 1\r\nha"))
        .steps(MORE, holds("{\"n\":0}\n\nstep 1\r\nhalf\n[1, 2]\nmore"))
        .steps("test/other", holds("another\n"))
        .line(GO, answer(&whole));
    let toml = format!("{ALWAYS}partial-resource = \"log://{{build}}/out\"\n");
    for (name, mut way) in all_ways(&script, &toml) {
        let job = job(&way.call("slow", json!({"build": "a b/"})));
        partial(&mut way, &job, 2, None);
        let page = read(&mut way, json!({ "handle": job }));
        assert_eq!((&page["records"], &page["complete"]), (&json!([{"n": 0}, "step 1"]), &false.into()), "{name}");
        partial(&mut way, &job, 4, Some(MORE));
        way.notify("test/other");
        way.gateway.told("does not follow a resource any more");
        let page = read(&mut way, json!({ "handle": job, "from": 2 }));
        assert_eq!((&page["records"], &page["total"]), (&json!(["half", [1, 2]]), &4.into()), "{name}");
        way.notify(GO);
        let result = way.call("lro_job", json!({"handle": job, "wait_ms": 60_000}));
        assert_eq!(handle(&descriptor(&result).unwrap()), job, "{name}: {result}");
        assert_eq!(read(&mut way, json!({ "handle": job }))["total"], 100, "{name}");
    }
}

// Without the argument, or with more than the setting allows, the call goes on as if there were no resource.
#[test]
fn a_resource_that_cannot_be_followed_harms_no_call() {
    let script = Script::new()
        .steps("tools/call slow", json!([]))
        .line(GO, answer(&text("done")))
        .result("resources/read", json!({"contents": [{"uri": "a://b", "text": "x\n".repeat(600)}]}));
    let toml = "[gateway]\nmessage-memory = 1000\n[tools.slow]\njob = \"always\"\npartial-resource = \"a://{name}\"\n";
    let log = Setup { toml, log: "warn", ..Setup::default() };
    let mut gateway = script.silent(&log);
    for (arguments, said) in [
        (json!({"name": ["a"]}), "the call lacks an argument that `partial-resource` names"),
        (json!({"name": "a"}), "it has more than 1000 bytes (gateway.message-memory)"),
    ] {
        let job = job(&gateway.call("slow", arguments));
        gateway.told(said);
        gateway.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
        let fetched = gateway.call("lro_job", json!({"handle": job, "wait_ms": 60_000}));
        assert_eq!(first_text(&fetched), "done");
    }
}

#[test]
fn parts_survive_a_killed_gateway_as_lost() {
    let (script, home) = (script(&text("never")), TempDir::new().unwrap());
    let client = || {
        let (command, variables) = script.command(&Setup { toml: ALWAYS, ..Setup::default() }, &home);
        let mut wire = Wire::start(&command, &variables);
        shake_hands(&mut wire);
        wire
    };
    let ask = |wire: &mut Wire, id: &str, tool: &str, arguments: Value| {
        wire.result(&call(id, &json!({"name": tool, "arguments": arguments}), false))
    };
    let mut before = client();
    let job = job(&ask(&mut before, "a", "slow", json!({})));
    for poll in 0.. {
        let found =
            status(&ask(&mut before, &format!("poll-{poll}"), "lro_job", json!({"handle": job, "wait_ms": 100})));
        if found["partial"]["records"] == 2 {
            break;
        }
    }
    signal("-9", before.pid());
    drop(before);
    let mut after = client();
    let found = status(&ask(&mut after, "a", "lro_job", json!({ "handle": job })));
    assert_eq!((&found["state"], &found["partial"]["records"]), (&"lost".into(), &2.into()), "{found}");
    let page = ask(&mut after, "b", "lro_read", json!({ "handle": job }))["structuredContent"].clone();
    assert_eq!((&page["records"], &page["state"]), (&records(2), &"lost".into()), "{page}");
}
