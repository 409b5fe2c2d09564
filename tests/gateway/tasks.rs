//! Results of tasks, of both generations, and what is said while a call runs.

use lro_host::mcp::wire_size;
use lro_host::settings::SizeUnit;
use serde_json::{Value, json};

use crate::scripted::{Script, Setup, descriptor, handle, records, result_bytes, structured, text};
use crate::wire::{member, modern_meta};

/// A large result that a task ended with.
fn large() -> Value {
    structured(&json!({ "items": records(2_000) }))
}

/// `tasks/get` of a modern server with what there is.
fn modern_task(status: &str, more: Value) -> Value {
    let mut task = json!({
        "resultType": "complete", "taskId": "t", "status": status, "createdAt": "2026-01-01T00:00:00Z", "ttlMs": 60_000,
    });
    for (key, value) in more.as_object().unwrap() {
        task[key] = value.clone();
    }
    task
}

// A modern task: created, polled, done; polled twice, its result is one offload.
#[test]
fn the_result_of_a_modern_task_is_offloaded_once() {
    let created =
        json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 60_000, "pollIntervalMs": 5});
    let working = modern_task("working", json!({"statusMessage": "busy"}));
    let script = Script::new()
        .call("slow", &created)
        .result("tasks/get t#1", &working)
        .result("tasks/get t", modern_task("completed", json!({"result": large()})));
    let mut gateway = script.start();
    let meta = || modern_meta();
    let call = json!({"name": "slow", "arguments": {"a": 1}, "_meta": meta()});
    assert_eq!(gateway.result("tools/call", call), created);
    let get = || json!({"taskId": "t", "_meta": meta()});
    assert_eq!(result_bytes(&gateway.ask("tasks/get", get())), working.to_string());
    let first = gateway.result("tasks/get", get());
    let found = descriptor(&first["result"]).unwrap();
    assert_eq!(
        (&first["status"], &first["taskId"], &first["resultType"]),
        (&"completed".into(), &"t".into(), &"complete".into())
    );
    assert_eq!(first["result"]["structuredContent"], found);
    let second = gateway.result("tasks/get", get());
    assert_eq!(second, first, "the same handle");
    assert_eq!(gateway.offloads().len(), 1, "one directory");
    let answer = gateway.call("lro_extract", json!({"handle": handle(&found), "count": true}));
    assert_eq!(answer["structuredContent"]["results"], json!([{"count": 2_000}]), "{answer}");
    // The header of the file knows the tool and its arguments.
    assert!(gateway.holds(br#""operation":"slow""#), "the tool of the task is forgotten");
}

// A legacy task: `tasks/result`, more than once.
#[test]
fn the_result_of_a_legacy_task_is_offloaded_once() {
    let task =
        json!({"task": {"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 60_000}});
    let status = json!({"taskId": "t", "status": "completed", "createdAt": "2026-01-01T00:00:00Z", "ttl": 60_000});
    let mut result = large();
    result["_meta"] = json!({"io.modelcontextprotocol/related-task": {"taskId": "t"}});
    let list = json!({"tasks": [status], "nextCursor": "more"});
    let script = Script::new()
        .call("slow", &task)
        .result("tasks/get", &status)
        .result("tasks/list", &list)
        .result("tasks/cancel", &status)
        .result("tasks/result", &result);
    let mut gateway = script.start();
    assert_eq!(gateway.call("slow", json!({})), task);
    let of_task = json!({"taskId": "t"});
    for (method, params, wanted) in [
        ("tasks/get", &of_task, &status),
        ("tasks/list", &json!({"cursor": "c"}), &list),
        ("tasks/cancel", &of_task, &status),
    ] {
        assert_eq!(result_bytes(&gateway.ask(method, params.clone())), wanted.to_string(), "{method}");
    }
    let first = gateway.result("tasks/result", of_task.clone());
    let found = descriptor(&first).unwrap();
    assert_eq!((&first["structuredContent"], &first["_meta"]), (&found, &result["_meta"]));
    assert_eq!(gateway.result("tasks/result", of_task), first, "the same handle");
    assert_eq!(gateway.offloads().len(), 1, "one directory");
}

// What a task asks for on its way goes on byte for byte, and so does the answer; then its result is offloaded.
#[test]
fn what_a_task_asks_for_passes_through() {
    let question = r#"{ "resultType":"complete","taskId":"t","status":"input_required","ttlMs":6e4,"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"\u0041?","n":1.0}}} }"#;
    let update = r#"{"jsonrpc":"2.0","id":"u", "method":"tasks/update","params":{"taskId":"t","inputResponses":{"a":{"action":"accept","content":{"n":1.0}}}}}"#;
    let script = Script::new()
        .call("slow", json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 60_000}))
        .result("tasks/get t#1", question)
        .steps(
            "tasks/update",
            json!([r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"complete","saw":@LINE@}}"#]),
        )
        .result("tasks/get t", modern_task("completed", json!({"result": large()})));
    let mut gateway = script.start();
    gateway.answer("slow");
    let get = || json!({"taskId": "t", "_meta": modern_meta()});
    assert_eq!(result_bytes(&gateway.ask("tasks/get", get())), question);
    let answer: Value = serde_json::from_str(&gateway.ask_line(update)).unwrap();
    assert_eq!(answer["result"]["saw"], update, "the server got other bytes");
    assert!(descriptor(&gateway.result("tasks/get", get())["result"]).is_some());
}

// The same for a legacy task, whose question is a request of the server while `tasks/result` waits.
#[test]
fn what_a_legacy_task_asks_for_passes_through() {
    let question = r#"{"jsonrpc":"2.0", "id":"q","method":"elicitation/create","params":{"message":"\u0041?","_meta":{"io.modelcontextprotocol/related-task":{"taskId":"t"}},"requestedSchema":{"type":"object"}}}"#;
    let asked = r#"{"taskId":"t", "status":"input_required","createdAt":"2026-01-01T00:00:00Z","ttl":6e4}"#;
    let done = json!({"jsonrpc": "2.0", "id": "r", "result": large()}).to_string();
    let script = Script::new()
        .call("slow", json!({"task": {"taskId": "t", "status": "working", "ttl": 60_000}}))
        .result("tasks/get", asked)
        .steps("tasks/result", json!([question, {"await": "q"}, done]));
    let mut gateway = script.start();
    gateway.answer("slow");
    assert_eq!(result_bytes(&gateway.ask("tasks/get", json!({"taskId": "t"}))), asked);
    gateway.send(r#"{"jsonrpc":"2.0","id":"r","method":"tasks/result","params":{"taskId":"t"}}"#);
    assert_eq!(gateway.next(), question);
    let answer = r#"{"jsonrpc":"2.0", "id":"q","result":{"action":"accept","content":{"n":1.0}}}"#;
    gateway.send(answer);
    let result: Value = serde_json::from_str(&gateway.next()).unwrap();
    assert!(descriptor(&result["result"]).is_some(), "{result:.500}");
    assert!(gateway.seen().iter().any(|line| line == answer), "the server got other bytes");
}

// Another result of the same task is another offload.
#[test]
fn another_result_is_another_offload() {
    let script = Script::new()
        .result("tasks/result t#1", large())
        .result("tasks/result t", structured(&json!({ "items": records(3_000) })));
    let mut gateway = script.start();
    let handles: Vec<String> =
        (0..3).map(|_| handle(&descriptor(&gateway.result("tasks/result", json!({"taskId": "t"}))).unwrap())).collect();
    assert!(handles[0] != handles[1] && handles[1] == handles[2], "{handles:?}");
}

// The settings of the tool behind a task are those of its result.
#[test]
fn the_settings_of_the_tool_hold_for_its_task() {
    let script = ["never", "always"].iter().fold(Script::new(), |script, name| {
        script.call(name, json!({"resultType": "task", "taskId": name, "status": "working", "ttlMs": 1})).result(
            &format!("tasks/get {name}"),
            modern_task(
                "completed",
                json!({
                    "result": if *name == "never" { large() } else { text("small") },
                }),
            ),
        )
    });
    let mut gateway = script.with_toml("[tools.never]\nmode = \"never\"\n[tools.always]\nmode = \"always\"\n");
    for (name, offloaded) in [("never", false), ("always", true)] {
        gateway.answer(name);
        let task = gateway.result("tasks/get", json!({"taskId": name}));
        assert_eq!(descriptor(&task["result"]).is_some(), offloaded, "{name}");
    }
}

// `notifications/tasks` brings the same descriptor as `tasks/get`.
#[test]
fn notifications_about_tasks_are_offloaded() {
    let task = |result: &Value| modern_task("completed", json!({ "result": result }));
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task(&large())});
    let script = Script::new()
        .steps("poke", json!([notification.to_string(), r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#]))
        .result("tasks/get", task(&large()));
    let mut gateway = script.start();
    gateway.ask("poke", json!({}));
    let told: Value = serde_json::from_str(&gateway.next()).unwrap();
    assert_eq!((&told["method"], &told["params"]["status"]), (&"notifications/tasks".into(), &"completed".into()));
    let found = descriptor(&told["params"]["result"]).unwrap_or_else(|| panic!("{told:.500}"));
    let polled = gateway.result("tasks/get", json!({"taskId": "t"}));
    assert_eq!(descriptor(&polled["result"]), Some(found));
    assert_eq!(gateway.offloads().len(), 1);
}

// Neither gets a task past the ceiling, wherever it is large.
#[test]
fn no_task_gets_past_the_ceiling() {
    let long = "long ".repeat(60_000);
    let error = json!({"code": 1, "message": long});
    let cases = [
        ("result", modern_task("completed", json!({"result": large()}))),
        ("status", modern_task("completed", json!({"statusMessage": long, "result": text("x")}))),
        ("metadata", modern_task("completed", json!({"_meta": {"a": long}, "result": text("x")}))),
        ("member", modern_task("completed", json!({"a": long, "result": text("x")}))),
        ("inner member", modern_task("completed", json!({"result": {"content": [], "a": long}}))),
        ("inner task", modern_task("completed", json!({"result": {"resultType": "task", "taskId": "u", "a": long}}))),
        ("no result", modern_task("completed", json!({"result": {"a": long}}))),
        ("string", modern_task("completed", json!({ "result": long }))),
        ("error", modern_task("failed", json!({ "error": error }))),
        ("working", modern_task("working", json!({ "statusMessage": long }))),
    ];
    let mut script = Script::new();
    for (name, task) in &cases {
        let notification = json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": task});
        script = script
            .result(&format!("tasks/get {name}"), task)
            .result(&format!("tasks/result {name}"), &task["result"])
            .steps(
                &format!("poke {name}"),
                json!([notification.to_string(), r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#]),
            );
    }
    let mut gateway = script.with_flags(&["--preset", "25k"]);
    let mut past = Vec::new();
    for (name, _) in &cases {
        let got = gateway.ask("tasks/get", json!({"taskId": name}));
        let result = gateway.ask("tasks/result", json!({"taskId": name}));
        gateway.ask("poke", json!({"name": name}));
        let told = gateway.next();
        for (way, message) in [("tasks/get", got), ("tasks/result", result), ("notifications/tasks", told)] {
            if wire_size(&message, SizeUnit::Tokens) > 25_000 {
                past.push(format!("{way}, {name}: {} bytes", message.len()));
            }
            if way == "notifications/tasks" && member(&message, &["id"]).is_some() {
                past.push(format!("{way}, {name}: a notification became an answer: {message:.200}"));
            }
        }
    }
    assert!(past.is_empty(), "{}", past.join("\n"));
}

// Progress reaches the client while the call runs, cancellation the server.
#[test]
fn progress_and_cancellation_reach_the_other_side() {
    let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":@TOKEN@,"progress":1.50,"total":3,"message":"\u0041"}}"#;
    let done = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":@ANSWER@}}"#;
    let script = Script::new().steps("tools/call slow", json!([progress, {"await": "notifications/cancelled"}, done]));
    for token in ["\"a\\u0062\"", "17"] {
        let mut gateway = script.start();
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{{"name":"slow","_meta":{{"progressToken":{token}}}}}}}"#
        );
        gateway.send(&call);
        let shown = serde_json::from_str::<Value>(token).unwrap().to_string();
        assert_eq!(gateway.next(), progress.replace("@TOKEN@", &shown));
        let cancelled =
            r#"{"jsonrpc":"2.0", "method":"notifications/cancelled","params":{"requestId":"c","reason":"\u0062ored"}}"#;
        gateway.send(cancelled);
        let message: Value = serde_json::from_str(&gateway.next()).unwrap();
        assert_eq!(message["params"]["data"], cancelled);
        let ended = gateway.end();
        assert_eq!(ended.lines, [""; 0], "a cancelled call has no answer");
    }
}

// A long call does not hold up another one.
#[test]
fn an_answer_does_not_wait_for_another() {
    let later = r#"{"jsonrpc":"2.0","id":"first","result":{"content":[{"type":"text","text":"late"}]}}"#;
    let script = Script::new()
        .steps("tools/call slow", json!([]))
        .call("quick", large())
        .steps("poke", json!([later, r#"{"jsonrpc":"2.0","id":@ID@,"result":{}}"#]));
    let mut gateway = script.start();
    gateway.send(r#"{"jsonrpc":"2.0","id":"first","method":"tools/call","params":{"name":"slow"}}"#);
    gateway.descriptor("quick");
    gateway.ask("poke", json!({}));
    assert_eq!(gateway.next(), later);
}

// What a server asks in the middle of a call reaches the client, and the answer the server.
#[test]
fn requests_of_the_server_are_answered_by_the_client() {
    let long = "long ".repeat(30_000);
    let cases = [
        (
            "sampling/createMessage",
            json!({"messages": [], "maxTokens": 5}),
            json!({"role": "assistant", "content": {"type": "text", "text": long}}),
        ),
        (
            "elicitation/create",
            json!({"message": "?", "requestedSchema": {"type": "object"}}),
            json!({"action": "accept", "content": {"a": 1}}),
        ),
        ("roots/list", json!({}), json!({"roots": []})),
        ("ping", json!({}), json!({})),
    ];
    for (method, params, answer) in cases {
        // The id is the one of the call: each side counts its own.
        let question = json!({"jsonrpc": "2.0", "id": "same", "method": method, "params": params}).to_string();
        let done = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@ANSWER@}]}}"#;
        let script = Script::new().steps("tools/call ask", json!([question, {"await": "same"}, done]));
        let mut gateway = script.start_with(&Setup { flags: &["--threshold", "1000000"], ..Setup::default() });
        gateway.send(r#"{"jsonrpc":"2.0","id":"same","method":"tools/call","params":{"name":"ask"}}"#);
        assert_eq!(gateway.next(), question);
        let answer = json!({"jsonrpc": "2.0", "id": "same", "result": answer}).to_string();
        gateway.send(&answer);
        let result: Value = serde_json::from_str(&gateway.next()).unwrap();
        assert_eq!(result["result"]["content"][0]["text"], answer, "{method}");
    }
}
