//! Sessions of handshake revisions over HTTP, and a client on standard streams before a server over HTTP.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use lro_tests::wait_until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, error, faulty, is_descriptor, new_mark, raw, text, tool_call};
use crate::http::{Reply, Session, post};
use crate::support::{Environment, path_text, words};
use crate::wire::{initialize, request};

const PATIENCE: Duration = Duration::from_secs(120);

#[test]
fn the_life_of_a_session() {
    let gate = Gate::listening(&["--sessions", "2"]);
    // Without one.
    let reply = post(&gate.url, &[], &tool_call(1, "echo", json!({})));
    assert_eq!(reply.status, 400);
    assert!(reply.text().contains("mcp-session-id"), "{}", reply.text());
    let reply = post(&gate.url, &[("Mcp-Session-Id", "nobody")], &tool_call(1, "echo", json!({})));
    assert_eq!(reply.status, 404);
    let (one, two) = (Session::begin(&gate.url), Session::begin(&gate.url));
    assert_ne!(one.id, two.id);
    assert_eq!(gate.servers().len(), 2);
    // One too many.
    let reply = post(&gate.url, &[], &request(1, "initialize", initialize()));
    assert_eq!(reply.status, 503);
    assert!(reply.text().contains("gateway.sessions"), "{}", reply.text());
    // The end of one.
    assert_eq!(one.request("DELETE").status, 204);
    assert_eq!(one.open(&tool_call(1, "echo", json!({}))).status, 404);
    assert_eq!(one.request("DELETE").status, 404);
    assert_eq!(one.request("GET").status, 404);
    wait_until("its process ends", || gate.servers().len() == 1);
    two.works();
    Session::begin(&gate.url).works();
    assert!(gate.terminate(PATIENCE).success());
}

#[test]
fn an_idle_session_ends() {
    let gate = Gate::listening(&["--session-idle-seconds", "1"]);
    let session = Session::begin(&gate.url);
    // A call in flight and a stream are use.
    assert_eq!(text(&session.call(1, "slow", json!({"ms": 2500}))), "slept");
    session.works();
    let listening = session.request("GET");
    std::thread::sleep(Duration::from_millis(2500));
    session.works();
    drop(listening);
    wait_until("its process ends", || gate.servers().is_empty());
    assert_eq!(session.open(&tool_call(2, "echo", json!({}))).status, 404);
}

#[test]
fn what_belongs_to_no_request_arrives_on_the_stream() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    let mut listening = session.request("GET");
    assert_eq!(listening.status, 200);
    assert!(listening.is_stream());
    assert_eq!(session.request("GET").status, 409);
    assert_eq!(text(&session.call(1, "later", json!({"ms": 200, "count": 20}))), "later");
    for number in 0..20 {
        let event = listening.event().unwrap();
        assert_eq!(event["params"]["data"], format!("{number} "), "{event}");
    }
    // Who comes back later misses nothing.
    drop(listening);
    std::thread::sleep(Duration::from_millis(1000));
    session.call(2, "later", json!({"ms": 100, "count": 20}));
    std::thread::sleep(Duration::from_millis(300));
    let mut listening = session.request("GET");
    assert_eq!(listening.status, 200);
    for number in 0..20 {
        let event = listening.event().unwrap();
        assert_eq!(event["params"]["data"], format!("{number} "), "{event}");
    }
    // The stream ends with the session.
    assert_eq!(session.request("DELETE").status, 204);
    assert!(listening.event().is_none());
}

#[test]
fn a_client_that_hangs_up_does_not_cancel_in_a_session() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    let message = tool_call("lost", "slow", json!({"ms": 700}));
    {
        use std::io::Write;
        let mut stream = crate::http::connect(&gate.url);
        let bytes = crate::http::bytes_of(&gate.url, "POST", &session.headers(), message.to_string().as_bytes());
        stream.write_all(&bytes).unwrap();
        std::thread::sleep(Duration::from_millis(200));
    }
    let mut listening = session.request("GET");
    let answer = listening.event().unwrap();
    assert_eq!((&answer["id"], text(&answer)), (&json!("lost"), "slept".to_owned()));
    assert!(!text(&session.call(1, "heard", json!({}))).contains("notifications/cancelled"));
}

#[test]
fn servers_that_do_not_start_do_not_use_up_the_sessions() {
    let mark = new_mark();
    let folder = TempDir::new().unwrap();
    // It can be found, but not started.
    let program = folder.path().join("server");
    std::fs::write(&program, "#!/no/such/interpreter\n").unwrap();
    std::fs::set_permissions(&program, Permissions::from_mode(0o755)).unwrap();
    let command = words(&[&path_text(&program), &mark]);
    let gate = Gate::listening_before(&["--sessions", "2"], &command, &mark, &Environment::new());
    for _ in 0..4 {
        let reply = post(&gate.url, &[], &request(1, "initialize", initialize()));
        assert_ne!(reply.status, 503, "{}", reply.text());
        assert!(reply.text().contains("cannot be started"), "{}", reply.text());
    }
    let mark = new_mark();
    let command = faulty(&["--exit", "5", &mark]);
    let gate = Gate::listening_before(&["--sessions", "2"], &command, &mark, &Environment::new());
    for _ in 0..4 {
        let reply = post(&gate.url, &[], &request(1, "initialize", initialize()));
        assert_ne!(reply.status, 503, "{}", reply.text());
        assert!(reply.text().contains("exited with status 5"), "{}", reply.text());
    }
}

#[test]
fn a_batch_is_answered() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    let batch = json!([tool_call(1, "echo", json!({"text": "one"})), tool_call(2, "echo", json!({"text": "two"}))]);
    let reply: Reply = session.open(&batch).finish();
    assert_eq!(reply.status, 200, "the answers of a batch (2025-03-26): {}", reply.text());
    let mut answers: Vec<Value> = Vec::new();
    for message in reply.messages() {
        match message {
            Value::Array(messages) => answers.extend(messages),
            message => answers.push(message),
        }
    }
    assert_eq!(answers.len(), 2, "{answers:?}");
}

#[test]
fn one_id_twice_in_a_session() {
    let gate = Gate::listening(&["--call-timeout-ms", "4000"]);
    let session = Session::begin(&gate.url);
    std::thread::scope(|scope| {
        let slow = scope.spawn(|| session.open(&tool_call(1, "slow", json!({"ms": 800}))).finish());
        std::thread::sleep(Duration::from_millis(200));
        let second = session.open(&tool_call(1, "echo", json!({"text": "second"}))).finish();
        assert!(!second.body.is_empty());
        let first = slow.join().unwrap();
        assert!(!first.body.is_empty(), "{first:?}");
    });
    session.works();
}

#[test]
fn many_sessions_at_once() {
    let gate = Gate::listening(&[]);
    std::thread::scope(|scope| {
        for _ in 0..12 {
            scope.spawn(|| {
                let session = Session::begin(&gate.url);
                session.works();
                assert!(is_descriptor(&text(&session.call(1, "records", json!({"count": 3000})))));
                assert_eq!(session.request("DELETE").status, 204);
            });
        }
    });
    assert!(gate.terminate(PATIENCE).success());
}

// Standard streams before HTTP.

fn heard(gate: &mut Gate) -> Value {
    let answer = gate.call("heard", "heard", json!({}));
    serde_json::from_str(&text(&answer)).unwrap()
}

#[test]
fn standard_streams_before_http() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&["--call-timeout-ms", "4000"], &upstream.url);
    gate.works();
    for sse in [false, true] {
        let answer = gate.call(1, "records", json!({"count": 5000, "sse": sse}));
        assert!(is_descriptor(&text(&answer)), "{answer}");
    }
    // Progress before the answer.
    let mut message = tool_call(2, "progress", json!({"count": 5}));
    message["params"]["_meta"] = json!({"progressToken": "p"});
    assert_eq!(text(&gate.ask(&message)), "made progress");
    assert_eq!(gate.others().len(), 5);
    // Faults.
    let mut arguments = raw(b"<html>It broke</html>");
    arguments["status"] = 500.into();
    let message = error(&gate.call(3, "status", arguments));
    assert!(message.contains("500") && message.contains("It broke"), "{message}");
    for (tool, arguments) in [
        ("cut", json!({})),
        ("cut", json!({"sse": true})),
        ("closed", json!({})),
        ("ends", json!({})),
        ("silent", json!({})),
        ("silent", json!({"sse": true})),
    ] {
        let message = error(&gate.call(4, tool, arguments));
        assert!(message.contains("server"), "{tool}: {message}");
        gate.works();
    }
    // A slow call does not block others.
    gate.send(&tool_call("slow", "slow", json!({"ms": 3000})));
    gate.works();
    assert!(!gate.has_answered("slow"));
    assert_eq!(text(&gate.answer(&json!("slow"))), "slept");
    // At the end, calls in flight are answered and the session is ended.
    gate.send(&tool_call("last", "slow", json!({"ms": 500})));
    drop(gate.input.take());
    assert_eq!(text(&gate.answer(&json!("last"))), "slept");
    assert!(gate.wait(PATIENCE).success());
    let other = Session::begin(&upstream.url);
    let heard = text(&other.call(1, "heard", json!({})));
    assert!(heard.contains(r#""verb": "DELETE""#), "{heard}");
}

#[test]
fn a_session_that_the_server_forgot_begins_anew() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    for round in 0..3 {
        gate.call(round, "forget", json!({}));
        gate.works();
        // Its stream, too.
        std::thread::sleep(Duration::from_millis(1500));
        let notification =
            json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": round}});
        gate.call("say", "say", raw(notification.to_string().as_bytes()));
        let others = gate.others();
        assert_eq!(others.len(), 1, "round {round}: {others:?}");
    }
    // Many calls find out at once.
    gate.call("forget", "forget", json!({}));
    for id in 0..10 {
        gate.send(&tool_call(id, "echo", json!({"text": "x"})));
    }
    for id in 0..10 {
        assert_eq!(text(&gate.answer(&json!(id))), "x");
    }
    assert!(gate.end().success());
}

/// What the server answers to the repeated handshake is read within limits, and no further than the answer.
#[test]
fn a_session_that_does_not_begin_anew_is_an_error_in_time() {
    let upstream = FaultyHttp::start();
    let flags = ["--message-bytes", "10000000", "--start-timeout-ms", "2000"];
    let mut gate = Gate::remote(&flags, &upstream.url);
    let watch = gate.watch();
    for (then, reason) in [
        ("endless", "gateway.message-bytes"),
        ("silent", "gateway.start-timeout-ms"),
        ("error", "no more sessions today"),
    ] {
        gate.call("forget", "forget", json!({"then": then}));
        let answer = gate.call(then, "echo", json!({"text": "x"}));
        assert!(error(&answer).contains(reason), "{then}: {answer}");
        gate.works();
    }
    gate.call("forget", "forget", json!({"then": "open"}));
    gate.works();
    watch.stays_under(64);
    assert!(gate.end().success());
}

/// A server says of itself only what it is asked.
#[test]
fn what_a_server_says_unasked_changes_no_later_request() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    let said = json!({"jsonrpc": "2.0", "id": 99, "result": {"protocolVersion": "1999-01-01"}});
    let behind = json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": 1}});
    for (id, message) in [&said, &behind].into_iter().enumerate() {
        gate.call(id, "say", raw(message.to_string().as_bytes()));
    }
    wait_until("both messages", || gate.others().contains(&behind.to_string().into_bytes()));
    gate.works();
    let heard = heard(&mut gate).to_string();
    assert!(heard.contains(r#"["mcp-protocol-version","2025-11-25"]"#) && !heard.contains("1999-01-01"), "{heard}");
    assert!(gate.end().success());
}

/// What is logged of a page of the server is one line, and does nothing to a terminal.
#[test]
fn a_page_of_a_server_forges_no_line_of_the_log() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    gate.call(1, "page", raw(b"no\x1b[2J\nERROR forged"));
    gate.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    wait_until("the page is in the log", || gate.errors().contains("ERROR forged"));
    let errors = gate.errors();
    assert!(!errors.contains("\x1b[2J") && !errors.contains("\nERROR"), "{errors:?}");
    assert!(gate.end().success());
}

/// A client may use an id again once it has the answer.
#[test]
fn an_id_used_again_at_once() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    for round in 0..300 {
        let answer = gate.call("same", "echo", json!({"text": "again"}));
        assert!(answer["result"].is_object(), "round {round}: {answer}");
    }
}

#[test]
fn a_stream_is_taken_up_again() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    assert_eq!(text(&gate.call(1, "resume", json!({}))), "resumed");
    let heard = heard(&mut gate).to_string();
    assert!(heard.contains(r#"["last-event-id","event-7"]"#), "{heard}");
    // A server that starts anew is asked again.
    assert_eq!(text(&gate.call(2, "resume", json!({"refused": 2, "retry": 10}))), "resumed");
    assert!(gate.end().success());
}

#[test]
fn a_server_says_when_its_stream_is_taken_up_again() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&["--call-timeout-ms", "3000"], &upstream.url);
    gate.call(1, "resume", json!({"retry": 600_000}));
    let heard = heard(&mut gate).to_string();
    assert!(!heard.contains("last-event-id"), "{heard}");
    assert!(gate.end().success());
}

/// However soon a server wants it, there is a pause before each.
#[test]
fn streams_that_end_at_once_are_taken_up_in_measure() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&["--call-timeout-ms", "1000"], &upstream.url);
    error(&gate.call(1, "hollow", json!({})));
    let count = heard(&mut gate).to_string().matches(r#"["last-event-id","event-8"]"#).count();
    assert!((1..50).contains(&count), "{count} streams in a second");
    assert!(gate.end().success());
}

#[test]
fn the_stream_of_a_server_that_was_away_is_opened_again() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    gate.works();
    gate.call(1, "hang_up", json!({"refused": 1}));
    let notification =
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "back"}});
    gate.call(2, "say", raw(notification.to_string().as_bytes()));
    let mut others = Vec::new();
    wait_until("the message on the new stream", || {
        others.extend(gate.others());
        !others.is_empty()
    });
    assert_eq!(serde_json::from_slice::<Value>(&others[0]).unwrap(), notification);
    assert!(gate.end().success());
}

#[test]
fn a_notification_that_a_server_does_not_take_holds_up_no_call_for_ever() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    gate.call(1, "deaf", json!({}));
    gate.send(&json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}));
    gate.works();
    assert!(gate.errors().contains("to take a notification"), "{}", gate.errors());
}

#[test]
fn a_call_that_nobody_waits_for_leaves_no_connection() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&["--call-timeout-ms", "500"], &upstream.url);
    for sse in [false, true] {
        error(&gate.call(1, "silent", json!({"sse": sse})));
    }
    wait_until("the server sees that the client is gone", || heard(&mut gate)["gone"] == 2);
    assert!(gate.end().success());
}

#[test]
fn headers_of_a_modern_client_on_standard_streams() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::start(&["--upstream", &upstream.url], &[], &new_mark(), &Environment::new());
    let modern = |id: u32, tool: &str, arguments: Value| {
        crate::wire::call(id, &json!({"name": tool, "arguments": arguments}), true)
    };
    gate.ask(&request(1, "tools/list", json!({"_meta": crate::wire::modern_meta()})));
    gate.ask(&modern(2, "echo", json!({"text": "x", "region": "eu-west"})));
    gate.ask(&modern(3, "echo", json!({"text": "x", "region": "Zürich\n"})));
    // Tools in the answer to another request do not count.
    let tools = json!([{"name": "heard", "inputSchema": {"properties": {"region": {"x-mcp-header": "Other"}}}}]);
    let result = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"resultType":"complete","tools":{tools}}}}}"#);
    let mut arguments = raw(result.as_bytes());
    arguments["type"] = "application/json".into();
    gate.ask(&modern(7, "raw", arguments));
    let answer = gate.ask(&modern(4, "heard", json!({"region": 5})));
    let heard: Value = serde_json::from_str(&text(&answer)).unwrap();
    let of = |id: u32| -> std::collections::BTreeMap<String, String> {
        let requests = heard["heard"].as_array().unwrap();
        let found = requests.iter().find(|heard| heard["body"]["id"] == id).unwrap();
        serde_json::from_value::<Vec<(String, String)>>(found["headers"].clone()).unwrap().into_iter().collect()
    };
    assert_eq!(of(1)["mcp-method"], "tools/list");
    assert_eq!(of(2)["mcp-protocol-version"], "2026-07-28");
    assert_eq!(of(2)["mcp-method"], "tools/call");
    assert_eq!(of(2)["mcp-name"], "echo");
    assert_eq!(of(2)["mcp-param-region"], "eu-west");
    assert_eq!(of(3)["mcp-param-region"], "=?base64?WsO8cmljaAo=?=");
    assert_eq!(of(4)["mcp-param-region"], "5");
    assert!(!of(2).contains_key("mcp-session-id"));
    // A cancellation ends the connection.
    gate.send(&modern(5, "silent", json!({"sse": true})));
    std::thread::sleep(Duration::from_millis(400));
    gate.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}));
    wait_until("the server sees the end", || {
        let answer = gate.ask(&modern(6, "heard", json!({})));
        serde_json::from_str::<Value>(&text(&answer)).unwrap()["gone"] == 1
    });
    assert!(gate.end().success());
}

#[test]
fn two_hundred_megabytes_from_http_to_standard_streams() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    for sse in [false, true] {
        let watch = gate.watch();
        let answer = gate.call(1, "huge", json!({"bytes": 200_000_000, "sse": sse}));
        assert!(is_descriptor(&text(&answer)), "{answer}");
        watch.stays_under(128);
    }
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn no_server_at_the_address() {
    let mut gate = Gate::start(&["--upstream", "http://127.0.0.1:9/mcp"], &[], &new_mark(), &Environment::new());
    let message = error(&gate.ask(&request(1, "initialize", initialize())));
    assert!(message.contains("cannot be reached") && message.contains("refused"), "{message}");
    assert!(gate.end().success());
}

#[test]
fn a_client_that_reads_slowly_before_http() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    let watch = gate.watch();
    gate.send(&tool_call(1, "flood", json!({"count": 1000, "size": 20_000})));
    std::thread::sleep(Duration::from_millis(700));
    assert_eq!(text(&gate.answer(&json!(1))), "flooded");
    watch.stays_under(64);
    assert_eq!(gate.others().len(), 1000);
    assert!(gate.end().success());
}

#[test]
fn an_end_by_signal_before_http() {
    let upstream = FaultyHttp::start();
    let mut gate = Gate::remote(&[], &upstream.url);
    gate.send(&tool_call(1, "slow", json!({"ms": 800})));
    std::thread::sleep(Duration::from_millis(200));
    crate::faults::signal("-TERM", gate.pid());
    assert_eq!(text(&gate.answer(&json!(1))), "slept");
    assert_eq!(gate.wait(PATIENCE).code(), Some(0));
}
