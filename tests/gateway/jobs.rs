//! Calls that become jobs: detached from their request, fetched later, canceled, and found again after a restart.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::signal;
use crate::http::Session;
use crate::lasting::{Face, Way, all_ways};
use crate::scripted::{Script, Scripted, Setup, descriptor, first_text, handle, records, structured, text};
use crate::wire::{Wire, call, member, shake_hands};

/// All calls of these tools become jobs.
const ALWAYS: &str = "[tools.\"slow*\"]\njob = \"always\"\n";

/// A notification on which the server goes on.
const GO: &str = "test/go";

/// The answer with this result.
fn line(result: &Value) -> Value {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#).into()
}

/// A server whose tool `slow` answers after [`GO`].
fn slow(result: &Value) -> Script {
    Script::new().steps("tools/call slow", json!([{"await": GO}, line(result)]))
}

/// A server whose tool `slow` never answers, while others do.
fn silent() -> Script {
    Script::new().steps("tools/call slow", json!([]))
}

/// The status of a job in a result.
fn status(result: &Value) -> Value {
    serde_json::from_str(first_text(result)).unwrap_or_else(|_| panic!("no status: {result}"))
}

/// The handle of the job in a result.
fn job(result: &Value) -> String {
    status(result)["job"].as_str().unwrap_or_else(|| panic!("no job: {result}")).to_owned()
}

/// The state of the job that a result is about or of.
fn state(result: &Value) -> String {
    let of_result = &result["_meta"]["io.github.lro-filter/job"]["state"];
    let state = if of_result.is_string() { of_result.clone() } else { status(result)["state"].clone() };
    state.as_str().unwrap().to_owned()
}

/// Lets the server go on until a job has ended, and returns what `lro_job` says then.
fn ended(way: &mut Way, job: &str) -> Value {
    loop {
        way.notify(GO);
        let polled = way.call("lro_job", json!({"handle": job, "wait_ms": 500}));
        if state(&polled) != "running" {
            return polled;
        }
    }
}

#[test]
fn a_slow_call_goes_on_as_a_job_whatever_the_way() {
    for (name, mut way) in all_ways(&slow(&text("slept")), ALWAYS) {
        let begun = way.call("slow", json!({"a": 1}));
        let found = status(&begun);
        assert_eq!((&found["state"], &found["tool"]), (&"running".into(), &"slow".into()), "{name}: {begun}");
        assert_eq!(begun["structuredContent"], found, "{name}");
        let handle = job(&begun);
        // The literal next call works.
        let (tool, arguments) = found["next"].as_str().unwrap().split_once(' ').unwrap();
        let mut arguments: Value = serde_json::from_str(arguments).unwrap();
        assert_eq!((tool, &arguments["handle"]), ("lro_job", &handle.clone().into()), "{name}");
        arguments["wait_ms"] = json!(0);
        assert_eq!(state(&way.call(tool, arguments)), "running", "{name}");
        let result = ended(&mut way, &handle);
        assert_eq!((state(&result), first_text(&result)), ("done".to_owned(), "slept"), "{name}: {result}");
        // A small result is kept as well, and fetched as often as one likes.
        assert_eq!(way.call("lro_job", json!({ "handle": handle })), result, "{name}");
        let read = way.result("resources/read", json!({"uri": format!("lro://jobs/{handle}")}));
        let read: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!((&read["state"], &read["result"]["content"]), (&"done".into(), &result["content"]), "{name}");
        let listed = way.call("lro_job", json!({}));
        let jobs = &listed["structuredContent"]["jobs"];
        assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{name}: {listed}");
        assert_eq!((&jobs[0]["job"], &jobs[0]["state"]), (&handle.into(), &"done".into()), "{name}");
    }
}

// A call that is answered within `wait-ms` is no job; one that is not is.
#[test]
fn a_call_becomes_a_job_after_its_time_alone() {
    const WAIT_MS: u64 = 50;
    let script = slow(&text("slept")).call("patient", text("soon"));
    let toml = format!(
        "[tools.slow]\njob = \"auto\"\nwait-ms = {WAIT_MS}\n[tools.patient]\njob = \"auto\"\nwait-ms = 600000\n"
    );
    for (name, mut way) in all_ways(&script, &toml) {
        assert_eq!(first_text(&way.call("patient", json!({}))), "soon", "{name}");
        let begun = way.call("slow", json!({}));
        // It counts from the beginning of the call on, so it is never less than what the call waited.
        assert!(status(&begun)["elapsed_ms"].as_u64() >= Some(WAIT_MS), "{name}: {begun}");
        let handle = job(&begun);
        assert_eq!(first_text(&ended(&mut way, &handle)), "slept", "{name}");
        let listed = way.call("lro_job", json!({}));
        assert_eq!(listed["structuredContent"]["jobs"].as_array().map(Vec::len), Some(1), "{name}: {listed}");
    }
}

// Even a fast answer of a tool whose calls are always jobs is fetched.
#[test]
fn what_is_always_a_job_is_one_when_it_is_fast() {
    for (name, mut way) in all_ways(&Script::new().call("slow", text("at once")), ALWAYS) {
        let handle = job(&way.call("slow", json!({})));
        assert_eq!(first_text(&ended(&mut way, &handle)), "at once", "{name}");
    }
}

#[test]
fn without_the_setting_nothing_changes() {
    let mut gateway = Script::new().tool("slow", "", text("slept")).with_toml("[tools.slow]\njob = \"never\"\n");
    assert_eq!(first_text(&gateway.call("slow", json!({}))), "slept");
    let names: Vec<Value> = gateway.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["slow", "lro_extract", "lro_read"]);
    assert!(!gateway.hello["instructions"].to_string().contains("lro_job"), "{}", gateway.hello);
    let mut gateway = Script::new().tool("slow", "", text("slept")).with_toml(ALWAYS);
    let names: Vec<Value> = gateway.tools().iter().map(|tool| tool["name"].clone()).collect();
    assert_eq!(names, ["slow", "lro_extract", "lro_read", "lro_job"]);
    assert!(gateway.hello["instructions"].to_string().contains("lro_job"), "{}", gateway.hello);
}

#[test]
fn the_result_of_a_job_goes_through_the_policy() {
    for (name, mut way) in all_ways(&slow(&structured(&json!({ "items": records(2_000) }))), ALWAYS) {
        let begun = job(&way.call("slow", json!({"a": 1})));
        let result = ended(&mut way, &begun);
        let found = descriptor(&result).unwrap_or_else(|| panic!("{name}: {result:.500}"));
        let answer = way.call("lro_extract", json!({"handle": handle(&found), "count": true}));
        assert_eq!(answer["structuredContent"]["results"], json!([{"count": 2_000}]), "{name}: {answer}");
        assert!(way.gateway.holds(br#""operation":"slow""#), "{name}: the tool of the job is forgotten");
    }
}

// A call that waits for a job holds up no other, and is answered as soon as the job ends.
#[test]
fn waiting_for_a_job_blocks_nobody() {
    let mut gateway = slow(&text("slept")).with_toml(ALWAYS);
    let handle = job(&gateway.call("slow", json!({})));
    let waits =
        |id: &str| call(id, &json!({"name": "lro_job", "arguments": {"handle": handle, "wait_ms": 50_000}}), false);
    let waiting: Vec<String> = (0..100).map(|number| format!("waits {number}")).collect();
    waiting.iter().for_each(|id| gateway.send(&waits(id).to_string()));
    assert_eq!(state(&gateway.call("lro_job", json!({"handle": handle, "wait_ms": 0}))), "running");
    gateway.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
    let mut answered: Vec<String> = waiting
        .iter()
        .map(|_| {
            let answer: Value = serde_json::from_str(&gateway.next()).unwrap();
            assert_eq!(first_text(&answer["result"]), "slept", "{answer}");
            answer["id"].as_str().unwrap().to_owned()
        })
        .collect();
    answered.sort();
    let mut expected = waiting;
    expected.sort();
    assert_eq!(answered, expected);
}

#[test]
fn neither_a_job_nor_waiting_for_one_takes_a_thread() {
    const JOBS: usize = 200;
    let mut gateway = silent().with_toml(ALWAYS);
    let slow = |id: usize| call(format!("slow {id}"), &json!({"name": "slow", "arguments": {}}), false);
    (0..JOBS).for_each(|id| gateway.send(&slow(id).to_string()));
    for number in 0..JOBS {
        let begun: Value = serde_json::from_str(&gateway.next()).unwrap();
        let waits = json!({"name": "lro_job", "arguments": {"handle": job(&begun["result"]), "wait_ms": 50_000}});
        gateway.send(&call(format!("waits {number}"), &waits, false).to_string());
    }
    let listed = gateway.call("lro_job", json!({}));
    assert_eq!(listed["structuredContent"]["more"], JOBS - 100, "{listed:.500}");
    let threads = std::fs::read_dir(format!("/proc/{}/task", gateway.pid())).unwrap().count();
    assert!(threads < JOBS / 2, "{threads} threads for {JOBS} jobs");
}

#[test]
fn a_job_is_canceled_at_the_server() {
    let went_on = json!([{"await": "notifications/cancelled"}, line(&text("too late"))]);
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"stopped"}}"#;
    let stopped = json!([{"await": "notifications/cancelled"}, error]);
    let script = Script::new().steps("tools/call slow-on", went_on).steps("tools/call slow-off", stopped);
    for (name, mut way) in all_ways(&script, ALWAYS) {
        for (tool, expected) in [("slow-on", true), ("slow-off", false)] {
            let handle = job(&way.call(tool, json!({})));
            let mut canceled = way.call("lro_job", json!({"handle": handle, "cancel": true, "wait_ms": 50_000}));
            assert_eq!(state(&canceled), "cancelled", "{name}: {canceled}");
            while status(&canceled)["ended"].is_null() {
                canceled = way.call("lro_job", json!({ "handle": handle }));
            }
            // Over HTTP, revision 2026-07-28 cancels by closing the connection, after which nobody can answer.
            let expected = if name == "Modern before HTTP" { Value::Null } else { expected.into() };
            assert_eq!(status(&canceled)["server_went_on"], expected, "{name}: {canceled}");
            assert!(!canceled.to_string().contains("too late"), "{name}: {canceled}");
        }
    }
}

#[test]
fn the_progress_of_a_job_is_kept() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":3,"total":12,"message":"three of twelve"}}"#;
    let steps = json!([{"await": "test/step"}, progress, {"await": GO}, line(&text("slept"))]);
    for (name, mut way) in all_ways(&Script::new().steps("tools/call slow", steps), ALWAYS) {
        // The client need not have asked for it.
        let begun = way.call("slow", json!({}));
        let handle = job(&begun);
        assert!(status(&begun)["elapsed_ms"].is_u64() && status(&begun)["progress"].is_null(), "{name}: {begun}");
        let progress = loop {
            way.notify("test/step");
            let polled = way.call("lro_job", json!({"handle": handle, "wait_ms": 100}));
            if status(&polled)["progress"].is_object() {
                break status(&polled)["progress"].clone();
            }
        };
        assert_eq!(
            (&progress["progress"], &progress["total"], &progress["fraction"]),
            (&json!(3.0), &json!(12.0), &json!(0.25))
        );
        assert_eq!(progress["message"], "three of twelve", "{name}");
        assert_eq!(first_text(&ended(&mut way, &handle)), "slept", "{name}");
    }
}

// Any session of the tenant fetches a job, and it goes on without the one that began it. For another tenant it is as
// unknown as one that never was.
#[test]
fn a_job_is_of_its_tenant() {
    let steps = json!([{"sleep": 1}, line(&text("slept"))]);
    let script = Script::new().steps("tools/call slow", steps);
    let toml = format!("{ALWAYS}[tenants.other]\n");
    let mut gateway = script.silent(&Setup { flags: &["--listen", "127.0.0.1:0"], toml: &toml, ..Setup::default() });
    let url = gateway.url();
    let (begins, fetches) = (Session::begin(&url), Session::begin(&url));
    let handle = job(&begins.call(1, "slow", json!({}))["result"]);
    assert_eq!(begins.request("DELETE").status, 204);
    assert_eq!(begins.request("GET").status, 404);
    let other = Session::begin(&format!("{url}/other"));
    let refused = other.call(1, "lro_job", json!({ "handle": handle }))["result"].clone();
    let unknown = "01M7YXTFAWZVTJRQ8KE7Y7EFP4";
    let never = other.call(2, "lro_job", json!({ "handle": unknown }))["result"].clone();
    assert_eq!((&refused["isError"], &never["isError"]), (&true.into(), &true.into()));
    assert_eq!(first_text(&refused).replace(&handle, unknown), first_text(&never));
    let listed = other.call(3, "lro_job", json!({}))["result"].clone();
    assert_eq!(listed["structuredContent"]["jobs"], json!([]), "{listed}");
    let mut polls = 0;
    let result = loop {
        polls += 1;
        let polled = fetches.call(polls, "lro_job", json!({ "handle": handle }))["result"].clone();
        if state(&polled) != "running" {
            break polled;
        }
    };
    assert_eq!(first_text(&result), "slept", "{result}");
}

/// A client on standard streams, with the files in this directory.
fn client(script: &Script, home: &TempDir) -> Wire {
    let (command, variables) = script.command(&Setup { toml: ALWAYS, ..Setup::default() }, home);
    let mut wire = Wire::start(&command, &variables);
    shake_hands(&mut wire);
    wire
}

fn ask(wire: &mut Wire, id: &str, tool: &str, arguments: Value) -> Value {
    wire.result(&call(id, &json!({"name": tool, "arguments": arguments}), false))
}

#[test]
fn finished_jobs_survive_a_killed_gateway_and_running_ones_are_lost() {
    let (script, home) =
        (Script::new().call("slow-once", text("kept")).steps("tools/call slow", json!([])), TempDir::new().unwrap());
    let mut before = client(&script, &home);
    let done = job(&ask(&mut before, "a", "slow-once", json!({})));
    assert_eq!(first_text(&ask(&mut before, "b", "lro_job", json!({ "handle": done }))), "kept");
    let lost = job(&ask(&mut before, "c", "slow", json!({"a": 2})));
    assert_eq!(state(&ask(&mut before, "d", "lro_job", json!({"handle": lost, "wait_ms": 0}))), "running");
    signal("-9", before.pid());
    drop(before);
    let mut after = client(&script, &home);
    let kept = ask(&mut after, "a", "lro_job", json!({ "handle": done }));
    assert_eq!((first_text(&kept), state(&kept)), ("kept", "done".to_owned()));
    let found = ask(&mut after, "b", "lro_job", json!({ "handle": lost }));
    let about = status(&found);
    assert_eq!((&about["state"], &about["call"]), (&"lost".into(), &r#"slow {"a":2}"#.into()), "{found}");
    assert!(about["reason"].is_string() && found["isError"] == true, "{found}");
    let listed = ask(&mut after, "c", "lro_job", json!({}))["structuredContent"]["jobs"].clone();
    let states: Vec<&Value> = listed.as_array().unwrap().iter().map(|job| &job["state"]).collect();
    assert_eq!(states, ["lost", "done"], "{listed}");
}

#[test]
fn jobs_have_limits() {
    let toml = format!("{ALWAYS}[gateway]\njobs-max = 1\njob-seconds-max = 1\njobs-kept = 1\n");
    let mut gateway = silent().call("slow-second", text("direct")).with_toml(&toml);
    let handle = job(&gateway.call("slow", json!({})));
    // The server stays silent: its job ends at the limit, and the server hears of it.
    let failed = loop {
        let polled = gateway.call("lro_job", json!({ "handle": handle }));
        if state(&polled) != "running" {
            break polled;
        }
    };
    assert!(failed["isError"] == true && first_text(&failed).contains("gateway.job-seconds-max"), "{failed}");
    while !gateway.seen().iter().any(|line| line.contains("notifications/cancelled")) {}
    let second = job(&gateway.call("slow-second", json!({})));
    while state(&gateway.call("lro_job", json!({ "handle": second }))) == "running" {}
    // The older one made room.
    let gone = gateway.call("lro_job", json!({ "handle": handle }));
    assert!(first_text(&gone).contains("there is no job"), "{gone}");
    let toml = format!("{ALWAYS}[gateway]\njobs-max = 1\n");
    let mut gateway = silent().call("slow-second", text("direct")).with_toml(&toml);
    assert_eq!(state(&gateway.call("slow", json!({}))), "running");
    assert_eq!(first_text(&gateway.call("slow-second", json!({}))), "direct", "it waits for its result");
}

#[test]
fn a_result_that_is_too_large_to_keep_is_offloaded() {
    let toml = format!("threshold = 10_000_000\n{ALWAYS}[gateway]\njob-result-bytes = 1000\n");
    let mut gateway = Script::new().call("slow", text(&"x".repeat(5_000))).with_toml(&toml);
    let handle = job(&gateway.call("slow", json!({})));
    let result = loop {
        let polled = gateway.call("lro_job", json!({ "handle": handle }));
        if state(&polled) != "running" {
            break polled;
        }
    };
    assert!(descriptor(&result).is_some() && gateway.holds(&[b'x'; 5_000]), "{result:.500}");
}

// The client gets one answer to each request, and a mixture of two never.
#[test]
fn the_id_of_a_job_is_not_used_twice() {
    let mut gateway = silent().with_toml(ALWAYS);
    let slow = call("mine", &json!({"name": "slow", "arguments": {}}), false).to_string();
    let begun: Value = serde_json::from_str(&gateway.ask_line(&slow)).unwrap();
    let again = gateway.ask_line(&slow);
    assert_eq!(member(&again, &["error", "code"]), Some("-32600"), "{again}");
    assert!(again.contains(&job(&begun["result"])), "{again}");
}

#[test]
fn an_output_schema_stays_true() {
    let schema = r#"{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}"#;
    let script = Script::new().tool("slow", schema, structured(&json!({"a": 1})));
    for (strategy, has_structured) in [("rewrite", true), ("strip", true), ("shape", false), ("block", false)] {
        let mut gateway = script.with_toml(&format!("schema = \"{strategy}\"\n{ALWAYS}"));
        gateway.tools();
        let begun = gateway.call("slow", json!({}));
        assert_eq!(begun["structuredContent"].is_object(), has_structured, "{strategy}: {begun}");
        assert_eq!(begun["isError"] == true, !has_structured, "{strategy}: {begun}");
        if has_structured {
            assert_eq!(begun["structuredContent"]["offloaded"], false, "{strategy}: {begun}");
        }
    }
}

#[test]
fn bad_arguments_are_named() {
    let mut gateway = silent().with_toml(ALWAYS);
    for (arguments, expected) in [
        (json!({"handle": "x"}), "there is no job `x`"),
        (json!({"handle": 1}), "invalid arguments"),
        (json!({"wait": 1}), "unknown field `wait`"),
        (json!({"cancel": true}), "`handle` is missing"),
        (json!({"handle": "x", "wait_ms": -1}), "invalid arguments"),
    ] {
        let refused = gateway.call("lro_job", arguments.clone());
        assert!(refused["isError"] == true && first_text(&refused).contains(expected), "{arguments}: {refused}");
    }
    let error = gateway.error("resources/read", json!({"uri": "lro://jobs/x"}));
    assert_eq!(error["code"], -32002, "{error}");
}

// Progress for a call that is no job yet reaches its client, whatever the setting.
#[test]
fn progress_before_the_job_is_the_clients() {
    let progress =
        r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":1}}"#;
    let script = Script::new().steps("tools/call patient", json!([progress, line(&text("soon"))]));
    let mut gateway: Scripted = script.with_toml("[tools.patient]\njob = \"auto\"\nwait-ms = 600000\n");
    // One that did not ask gets none.
    let result = gateway.call("patient", json!({}));
    assert_eq!(first_text(&result), "soon");
    let result =
        gateway.result("tools/call", json!({"name": "patient", "arguments": {}, "_meta": {"progressToken": 9}}));
    assert_eq!(first_text(&result), "soon");
    assert_eq!(member(&gateway.next(), &["params", "progressToken"]), Some("9"));
}

// A client without the call's session still reaches the job on the shared server.
#[test]
fn a_modern_client_may_leave() {
    let script = slow(&text("slept"));
    let mut ways = all_ways(&script, ALWAYS).filter(|(_, way)| way.face == Face::Modern);
    let (_, mut way) = ways.next().unwrap();
    // Each request of this client is a connection of its own.
    let handles: Vec<String> = (0..3).map(|number| job(&way.call("slow", json!({ "a": number })))).collect();
    for handle in handles {
        assert_eq!(first_text(&ended(&mut way, &handle)), "slept");
    }
}

// A gateway waits for a job of another one on the same store, and says who can cancel it.
#[test]
fn a_job_of_another_gateway_is_waited_for() {
    let (script, home) = (slow(&text("slept")), TempDir::new().unwrap());
    let (mut runs, mut waits) = (client(&script, &home), client(&script, &home));
    let handle = job(&ask(&mut runs, "a", "slow", json!({})));
    let refused = ask(&mut waits, "a", "lro_job", json!({"handle": handle, "cancel": true}));
    assert!(refused["isError"] == true && first_text(&refused).contains("another gateway process"), "{refused}");
    assert_eq!(state(&ask(&mut waits, "b", "lro_job", json!({"handle": handle, "wait_ms": 0}))), "running");
    let waiting = call("c", &json!({"name": "lro_job", "arguments": {"handle": handle, "wait_ms": 50_000}}), false);
    let waited = std::thread::spawn(move || (waits.result(&waiting), waits));
    loop {
        runs.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
        let polled = ask(&mut runs, "b", "lro_job", json!({"handle": handle, "wait_ms": 500}));
        if state(&polled) != "running" {
            break;
        }
    }
    let (result, mut waits) = waited.join().unwrap();
    assert_eq!((first_text(&result), state(&result)), ("slept", "done".to_owned()), "{result}");
    // So does the request of clients that know tasks.
    let second = job(&ask(&mut runs, "c", "slow", json!({})));
    let asked = json!({"jsonrpc": "2.0", "id": "task", "method": "tasks/result", "params": {"taskId": second}});
    waits.send(&asked.to_string());
    assert_eq!(state(&ask(&mut waits, "d", "lro_job", json!({"handle": second, "wait_ms": 0}))), "running");
    let waited = std::thread::spawn(move || waits.next());
    loop {
        runs.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
        let polled = ask(&mut runs, "d", "lro_job", json!({"handle": second, "wait_ms": 500}));
        if state(&polled) != "running" {
            break;
        }
    }
    let answer = waited.join().unwrap();
    assert_eq!((&answer["id"], first_text(&answer["result"])), (&"task".into(), "slept"), "{answer}");
}
