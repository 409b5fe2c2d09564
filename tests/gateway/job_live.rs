//! What a client hears while a slow call or a job runs: heartbeats, and news of the resource of a job.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{self, Client, Connection};
use crate::http::Session;
use crate::lasting::{Face, Stream, Way, all_ways};
use crate::scripted::{Script, Setup, first_text, text};
use crate::wire::{call, member, request};

/// Calls of this tool stay calls, with a heartbeat as often as the gateway looks.
const PATIENT: &str = "[tools.\"slow*\"]\njob = \"auto\"\nwait-ms = 600000\nheartbeat-ms = 100\n";

/// All calls of these tools become jobs.
const ALWAYS: &str = "[tools.\"slow*\"]\njob = \"always\"\nheartbeat-ms = 100\n";

/// Metadata that names a subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A notification on which the server reports progress, and one on which it answers.
const STEP: &str = "test/step";
const GO: &str = "test/go";

fn progress(progress: u32, message: &str) -> Value {
    let rest = format!(r#""progress":{progress},"total":2,"message":"{message}"}}}}"#);
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":@TOKEN@,{rest}"#).into()
}

fn answer() -> Value {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, text("slept")).into()
}

/// The arguments of a call with a progress token.
fn with_token(tool: &str, arguments: &Value) -> Value {
    json!({"name": tool, "arguments": arguments, "_meta": {"progressToken": "mine"}})
}

/// Reads messages until one is as wanted, and returns all. All before an answer are progress that rises.
fn until(way: &mut Way, stream: &mut Stream, last: f64, is_wanted: impl Fn(&Value) -> bool) -> Vec<Value> {
    let (mut messages, mut last) = (Vec::new(), last);
    loop {
        let message = way.next(stream);
        if message["id"].is_null() {
            assert_eq!(message["method"], "notifications/progress", "{message}");
            assert_eq!(message["params"]["progressToken"], "mine", "{message}");
            let progress = message["params"]["progress"].as_f64().unwrap();
            assert!(progress > last, "{message} after {last}");
            last = progress;
        }
        let is_last = is_wanted(&message);
        assert!(is_last || message["id"].is_null(), "{message}");
        messages.push(message);
        if is_last {
            return messages;
        }
    }
}

pub(crate) fn job(result: &Value) -> String {
    let status: Value = serde_json::from_str(first_text(result)).unwrap();
    status["job"].as_str().unwrap_or_else(|| panic!("no job: {result}")).to_owned()
}

// What the gateway says rises around what the server says, which stays as it is.
#[test]
fn a_silent_call_has_a_heartbeat_whatever_the_way() {
    let (zero, one) = (progress(0, "begun"), progress(1, "half"));
    let steps = json!([{"await": STEP}, zero, {"await": "test/another"}, one, {"await": GO}, answer()]);
    let script = Script::new().steps("tools/call slow", steps);
    for (name, mut way) in all_ways(&script, PATIENT) {
        let mut stream = way.open_stream("tools/call", with_token("slow", &json!({})));
        let of_server = |message: &Value| message["params"]["total"] == json!(2);
        let before = until(&mut way, &mut stream, f64::MIN, |_| true);
        let text = before[0]["params"]["message"].as_str().unwrap();
        assert!(text.starts_with("still running after "), "{name}: {before:?}");
        way.notify(STEP);
        let begun = until(&mut way, &mut stream, f64::MIN, of_server).pop().unwrap();
        let expected = json!({"progressToken": "mine", "progress": 0, "total": 2, "message": "begun"});
        assert_eq!(begun["params"], expected, "{name}");
        let between = until(&mut way, &mut stream, 0.0, |_| true);
        let between = &between[0]["params"];
        assert!(between["progress"].as_f64().unwrap() < 0.001, "{name}: {between}");
        assert_eq!((&between["message"], &between["total"]), (&"begun".into(), &json!(2.0)), "{name}");
        way.notify("test/another");
        let half = until(&mut way, &mut stream, 0.0, of_server).pop().unwrap();
        assert_eq!(half["params"]["progress"], 1, "{name}");
        way.notify(GO);
        let answer = until(&mut way, &mut stream, 1.0, |message| message["id"].is_u64()).pop().unwrap();
        assert_eq!(first_text(&answer["result"]), "slept", "{name}");
    }
}

// A server over HTTP that answers without a stream: the client has one before the answer.
#[test]
fn a_heartbeat_needs_no_stream_of_the_server() {
    let fails = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"it failed"}}"#;
    let script = Script::new()
        .steps("tools/call slow", json!([{"await": GO}, answer()]))
        .steps("tools/call slow-fail", json!([{"await": GO}, fails]));
    for (name, mut way) in all_ways(&script, PATIENT).filter(|(name, _)| name.ends_with("HTTP")) {
        for (tool, expected) in [("slow", "slept"), ("slow-fail", "it failed")] {
            let mut stream = way.open_stream("tools/call", with_token(tool, &json!({})));
            until(&mut way, &mut stream, f64::MIN, |_| true);
            way.notify(GO);
            let answer = until(&mut way, &mut stream, f64::MIN, |message| message["id"].is_u64()).pop().unwrap();
            let error = &answer["error"]["message"];
            let found = if error.is_null() { first_text(&answer["result"]) } else { error.as_str().unwrap() };
            assert_eq!(found, expected, "{name}");
        }
    }
}

#[test]
fn who_does_not_ask_hears_nothing() {
    let steps = json!([{"sleep": 0.8}, answer()]);
    let script = Script::new().steps("tools/call slow", steps.clone()).steps("tools/call fast", steps);
    let mut gateway = script.with_toml(PATIENT);
    let asked = [
        call("no token", &json!({"name": "slow", "arguments": {}}), false),
        // A tool without jobs.
        request("no jobs", "tools/call", with_token("fast", &json!({}))),
    ];
    for message in asked {
        gateway.send(&message.to_string());
        assert_eq!(member(&gateway.next(), &["id"]), Some(message["id"].to_string().as_str()));
    }
}

#[test]
fn waiting_for_a_job_has_a_heartbeat() {
    let steps = json!([{"await": STEP}, progress(1, "half"), {"await": GO}, answer()]);
    let script = Script::new().steps("tools/call slow", steps);
    for (name, mut way) in all_ways(&script, ALWAYS) {
        let handle = job(&way.call("slow", json!({})));
        let waits = with_token("lro_job", &json!({"handle": handle, "wait_ms": 50_000}));
        let mut stream = way.open_stream("tools/call", waits);
        let first = until(&mut way, &mut stream, f64::MIN, |_| true).pop().unwrap();
        assert!(first["params"]["progress"].as_f64().unwrap() < 0.0, "{name}: {first}");
        notify_until_half(&mut way, &format!("lro://jobs/{handle}"));
        // What the server says of the job is said again.
        let half = until(&mut way, &mut stream, f64::MIN, |message| message["params"]["message"] == "half");
        assert_eq!(half.last().unwrap()["params"]["total"], json!(2.0), "{name}");
        way.notify(GO);
        let answer = until(&mut way, &mut stream, 1.0, |message| message["id"].is_u64()).pop().unwrap();
        assert_eq!(first_text(&answer["result"]), "slept", "{name}");
    }
}

// Each client gives up after two seconds without a word.
#[test]
fn clients_that_count_from_the_last_progress_get_their_result() {
    let steps = json!([{ "sleep": 3 }, answer()]);
    let script = Script::new().steps("tools/call slow", steps);
    let call = json!({"call": {"name": "slow", "arguments": {}}, "progress": true, "timeout": 2_000});
    let home = TempDir::new().unwrap();
    let (command, variables) = script.command(&Setup { toml: PATIENT, ..Setup::default() }, &home);
    let mut client = Connection::open(Client::Sdk1, &clients::Way::Command(command, variables));
    let got = client.step(&call).unwrap();
    assert_eq!(first_text(&got["ok"]), "slept", "{got}");
    assert!(got["progress"].as_array().unwrap().len() > 1, "{got}");
    let mut gateway = script.silent(&Setup { flags: &["--listen", "127.0.0.1:0"], toml: PATIENT, ..Setup::default() });
    let mut client = Connection::open(Client::Client2, &clients::Way::Url(gateway.url()));
    assert_eq!(first_text(&client.step(&call).unwrap()["ok"]), "slept");
    // Without progress it does give up.
    let given_up = client.step(&json!({"call": {"name": "slow", "arguments": {}}, "timeout": 2_000})).unwrap_err();
    assert!(given_up.contains("timed out"), "{given_up}");
}

/// Subscribes to a job in the way of the revision. Returns where its news come.
fn subscribed(way: &mut Way, uri: &str) -> Stream {
    if way.face == Face::Modern {
        let params = json!({"notifications": {"resourceSubscriptions": [uri, "lro://jobs/unknown"]}});
        let mut stream = way.open_stream("subscriptions/listen", params);
        let first = way.next(&mut stream);
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{first}");
        assert_eq!(first["params"]["notifications"], json!({ "resourceSubscriptions": [uri] }), "{first}");
        assert!(first["params"]["_meta"][SUBSCRIPTION].is_u64(), "{first}");
        return stream;
    }
    let stream = way.listen();
    assert_eq!(way.result("resources/subscribe", json!({ "uri": uri })), json!({}));
    stream
}

/// The next message is about this job.
fn assert_updated(way: &mut Way, stream: &mut Stream, uri: &str) {
    let message = way.next(stream);
    let found = (&message["method"], &message["params"]["uri"]);
    assert_eq!(found, (&"notifications/resources/updated".into(), &uri.into()), "{message}");
    assert_eq!(message["params"]["_meta"][SUBSCRIPTION].is_u64(), way.face == Face::Modern, "{message}");
}

/// Notifies the server until the job has its progress: over HTTP a notification may overtake the call.
fn notify_until_half(way: &mut Way, uri: &str) {
    let is_half = |way: &mut Way| resource(way, uri)["progress"]["message"] == "half";
    let noticed = (0..1_000).any(|_| {
        way.notify(STEP);
        is_half(way)
    });
    assert!(noticed, "{}", resource(way, uri));
}

/// What the resource of a job says.
fn resource(way: &mut Way, uri: &str) -> Value {
    let read = way.result("resources/read", json!({ "uri": uri }));
    serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap()
}

#[test]
fn a_subscriber_hears_of_progress_and_of_the_end() {
    let steps = json!([{"await": STEP}, progress(1, "half"), {"await": GO}, answer()]);
    let script = Script::new().steps("tools/call slow", steps);
    for (name, mut way) in all_ways(&script, ALWAYS) {
        let uri = format!("lro://jobs/{}", job(&way.call("slow", json!({}))));
        let mut news = subscribed(&mut way, &uri);
        notify_until_half(&mut way, &uri);
        assert_updated(&mut way, &mut news, &uri);
        way.notify(GO);
        assert_updated(&mut way, &mut news, &uri);
        let found = resource(&mut way, &uri);
        assert_eq!((&found["state"], first_text(&found["result"])), (&"done".into(), "slept"), "{name}");
        // The server does not learn of it.
        let seen = way.result("scripted/seen", json!({}))["lines"].to_string();
        assert!(!seen.contains("subscri"), "{name}: {seen}");
    }
}

#[test]
fn subscriptions_have_limits_and_ends() {
    const MOST: usize = 100;
    let silent = Script::new().steps("tools/call slow", json!([]));
    let mut gateway = silent.with_toml(ALWAYS);
    assert_eq!(gateway.hello["capabilities"]["resources"], json!({"subscribe": true}), "{}", gateway.hello);
    let slow = json!({"name": "slow", "arguments": {}});
    (0..=MOST).for_each(|number| gateway.send(&call(format!("slow {number}"), &slow, false).to_string()));
    let begun = (0..=MOST).map(|_| serde_json::from_str(&gateway.next()).unwrap());
    let uris: Vec<String> = begun.map(|begun: Value| format!("lro://jobs/{}", job(&begun["result"]))).collect();
    let (last, first) = (&uris[MOST], &uris[0]);
    for uri in &uris[..MOST] {
        assert_eq!(gateway.result("resources/subscribe", json!({ "uri": uri })), json!({}));
    }
    assert_eq!(gateway.result("resources/subscribe", json!({ "uri": first })), json!({}), "once more is no other");
    let error = gateway.error("resources/subscribe", json!({ "uri": last }));
    assert!(error["message"].as_str().unwrap().contains("at most 100"), "{error}");
    let error = gateway.error("resources/subscribe", json!({"uri": "lro://jobs/x"}));
    assert_eq!(error["code"], -32002, "{error}");
    assert_eq!(gateway.result("resources/unsubscribe", json!({ "uri": first })), json!({}));
    assert_eq!(gateway.result("resources/subscribe", json!({ "uri": last })), json!({}));
    // The first one is told nothing: the first news are those of the last.
    for uri in [first, last] {
        let handle = uri.strip_prefix("lro://jobs/").unwrap();
        gateway.call("lro_job", json!({"handle": handle, "cancel": true, "wait_ms": 0}));
    }
    let news: Value = serde_json::from_str(&gateway.next()).unwrap();
    assert_eq!(&news["params"]["uri"], last, "{news}");
    // A resource of the server is the server's.
    let error = gateway.error("resources/subscribe", json!({"uri": "file:///x"}));
    assert_eq!(error["code"], -32601, "{error}");
    assert_eq!(Script::new().start().hello["capabilities"]["resources"], json!({}), "without jobs");
}

/// A server that asks for input on [`STEP`], and answers with what it got.
fn asking() -> Script {
    let params = json!({"message": "Which one?", "requestedSchema": {"type": "object", "properties": {}}});
    let question = json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": params});
    let result = r#"{"content":[{"type":"text","text":@ANSWER@}]}"#;
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#);
    Script::new().steps("tools/call slow", json!([{"await": STEP}, question.to_string(), {"await": "q"}, answer]))
}

/// What another session of the tenant learns of a job when it is in this state.
fn polled(other: &Session, handle: &str, state: &str) -> Value {
    loop {
        let polled = other.call(1, "lro_job", json!({"handle": handle, "wait_ms": 200}))["result"].take();
        let of_result = &polled["_meta"]["io.github.lro-filter/job"];
        let status = if of_result.is_null() { &polled["structuredContent"] } else { of_result };
        if status["state"] == state {
            return polled;
        }
    }
}

// The client that made the call does not listen; another one answers.
#[test]
fn input_for_a_job_is_given_by_any_client() {
    for (name, mut way) in all_ways(&asking(), ALWAYS).filter(|(_, way)| way.face == Face::Legacy) {
        let handle = job(&way.call("slow", json!({})));
        let other = way.another();
        way.notify(STEP);
        let asked = polled(&other, &handle, "input_required")["structuredContent"].take();
        assert_eq!(asked["input"]["q"]["method"], "elicitation/create", "{name}: {asked}");
        assert_eq!(asked["input"]["q"]["params"]["message"], "Which one?", "{name}: {asked}");
        for (input, expected) in [(json!({"x": {}}), "asks for no input `x`"), (json!({"q": 1}), "not an object")] {
            let refused = other.call(1, "lro_job", json!({"handle": handle, "input": input}))["result"].take();
            assert!(refused["isError"] == true && first_text(&refused).contains(expected), "{name}: {refused}");
        }
        let input = json!({"q": {"action": "accept", "content": {"name": "this one"}}});
        other.call(1, "lro_job", json!({"handle": handle, "input": input, "wait_ms": 0}));
        let done = polled(&other, &handle, "done");
        let got: Value = serde_json::from_str(first_text(&done)).unwrap();
        assert_eq!((&got["id"], &got["result"]), (&"q".into(), &input["q"]), "{name}: {got}");
    }
}

// The client of a task is asked while it waits for the result, and the server gets the answer, a result or an error.
#[test]
fn the_client_of_a_task_gives_its_input() {
    let answers =
        [("result", json!({"action": "accept", "content": {"n": 1}})), ("error", json!({"code": -1, "message": "no"}))];
    for (member, value) in answers {
        for (name, mut way) in all_ways(&asking(), ALWAYS).filter(|(_, way)| way.face == Face::Legacy) {
            way.declare(&json!({"elicitation": {}}));
            let task = way.result("tools/call", json!({"name": "slow", "arguments": {}, "task": {}}))["task"].take();
            let other = way.another();
            way.notify(STEP);
            polled(&other, task["taskId"].as_str().unwrap(), "input_required");
            let mut stream = way.open_stream("tasks/result", json!({"taskId": task["taskId"]}));
            let asked = way.next(&mut stream);
            assert_eq!(
                (&asked["method"], &asked["params"]["message"]),
                (&"elicitation/create".into(), &"Which one?".into())
            );
            let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
            assert_eq!(*related, task["taskId"], "{name}: {asked}");
            way.respond(&json!({"jsonrpc": "2.0", "id": asked["id"], member: value}));
            let answer = way.next(&mut stream);
            let got: Value = serde_json::from_str(first_text(&answer["result"])).unwrap();
            assert_eq!((&got["id"], &got[member]), (&"q".into(), &value), "{name}: {got}");
        }
    }
}

#[test]
fn input_that_nobody_gives_is_an_error_for_the_server() {
    let toml = format!("{ALWAYS}[gateway]\njob-input-seconds = 1\n");
    for (name, mut way) in all_ways(&asking(), &toml).filter(|(_, way)| way.face == Face::Legacy) {
        let handle = job(&way.call("slow", json!({})));
        let other = way.another();
        way.notify(STEP);
        let done = polled(&other, &handle, "done");
        assert!(first_text(&done).contains("gateway.job-input-seconds"), "{name}: {done}");
    }
}

// A call of an older revision cannot be sent again with input.
#[test]
fn a_result_that_asks_for_input_is_no_result_of_a_job() {
    let asks = r#"{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"}},"requestState":"s"}"#;
    let line = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{asks}}}"#);
    let script = Script::new().steps("tools/call slow", json!([{"await": GO}, line]));
    let mut gateway = script.with_toml(ALWAYS);
    let handle = job(&gateway.call("slow", json!({})));
    gateway.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
    let failed = gateway.call("lro_job", json!({ "handle": handle }));
    assert_eq!((&failed["isError"], &failed["structuredContent"]["state"]), (&true.into(), &"failed".into()));
    assert!(first_text(&failed).contains("input_required"), "{failed}");
}

// Where the client of the call is there, it is asked.
#[test]
fn a_client_that_is_there_is_asked_itself() {
    let mut gateway = asking().with_toml(ALWAYS);
    let handle = job(&gateway.call("slow", json!({})));
    gateway.send(&json!({"jsonrpc": "2.0", "method": STEP}).to_string());
    assert_eq!(member(&gateway.next(), &["method"]), Some("\"elicitation/create\""));
    let status = gateway.call("lro_job", json!({"handle": handle, "wait_ms": 0}))["structuredContent"].take();
    assert_eq!((&status["state"], &status["input"]), (&"running".into(), &Value::Null), "{status}");
    gateway.send(&json!({"jsonrpc": "2.0", "id": "q", "result": {"action": "decline"}}).to_string());
    let done = gateway.call("lro_job", json!({ "handle": handle }));
    assert!(first_text(&done).contains("decline"), "{done}");
}
