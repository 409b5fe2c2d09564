//! Input that servers of 2026-07-28 ask for with a result, after the call has become a job.

use serde_json::{Value, json};

use crate::http::{Exchange, Session};
use crate::job_tasks::{Asker, GO, askers, line};
use crate::lasting::Face;
use crate::scripted::{Script, Scripted, first_text, text};
use crate::wire::request;

/// All calls of these tools become jobs.
const ALWAYS: &str = "[tools.\"slow*\"]\njob = \"always\"\n";

/// What a server wants back, spelled as hardly a writer of JSON would.
const STATE: &str = r#""\u0041b \/ é""#;

/// Most rounds of questions of a job.
const ROUNDS: usize = 16;

fn question(message: &str) -> Value {
    let schema = json!({"type": "object", "properties": {}});
    json!({"method": "elicitation/create", "params": {"message": message, "requestedSchema": schema}})
}

/// The answer that asks for this input.
fn asks(requests: &Value, state: &str) -> Value {
    let rest = format!(r#""resultType":"input_required","inputRequests":{requests},"requestState":{state}"#);
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{{rest}}}}}"#).into()
}

/// The modern clients that know tasks.
fn modern<'a>(script: &'a Script, toml: &'a str) -> impl Iterator<Item = (String, Asker)> + 'a {
    askers(script, toml).filter(|(_, asker)| asker.modern)
}

/// The task when it is in this state. The server goes on.
fn in_state(asker: &mut Asker, task: &Value, status: &str) -> Value {
    loop {
        asker.way.notify(GO);
        let found = asker.get(task);
        if found["status"] == status {
            return found;
        }
        assert!(found["status"] == "working" || found["status"] == "input_required", "{found}");
    }
}

fn update(asker: &mut Asker, task: &Value, responses: Value) -> Value {
    asker.answer("tasks/update", json!({"taskId": task["taskId"], "inputResponses": responses}))
}

#[test]
fn a_job_goes_on_with_the_input_of_any_client() {
    let first = json!({"a": question("First?"), "b": question("Second?")});
    let echo = json!({"content": [{"type": "text", "text": "@LINE@"}]}).to_string().replace("\"@LINE@\"", "@LINE@");
    let script = Script::new()
        .steps("tools/call slow#1", json!([{"await": GO}, asks(&first, STATE)]))
        .steps("tools/call slow#2", json!([asks(&json!({"c": {"method": "roots/list"}}), "\"next\"")]))
        .line("tools/call slow#3", format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{echo}}}"#));
    for (name, mut asker) in modern(&script, ALWAYS) {
        let task = asker.begin("slow");
        let asking = in_state(&mut asker, &task, "input_required");
        assert_eq!(asking["inputRequests"], first, "{name}: {asking}");
        // What is not asked for is ignored, what is no result is refused, and one answer of two is not enough.
        assert_eq!(update(&mut asker, &task, json!({"x": {}}))["result"]["resultType"], "complete", "{name}");
        for wrong in [json!({"a": 1}), json!([]), Value::Null] {
            assert_eq!(update(&mut asker, &task, wrong)["error"]["code"], -32602, "{name}");
        }
        let (yes, no) = (json!({"action": "accept", "content": {"n": 1.0}}), json!({"action": "decline"}));
        assert_eq!(update(&mut asker, &task, json!({ "a": yes }))["result"]["resultType"], "complete", "{name}");
        assert_eq!(asker.get(&task)["inputRequests"], json!({"b": first["b"]}), "{name}");
        let status = asker.way.call("lro_job", json!({"handle": task["taskId"], "input": {"b": no}, "wait_ms": 0}));
        assert_eq!(status["isError"], false, "{name}: {status}");
        let again = loop {
            let status = asker.way.call("lro_job", json!({"handle": task["taskId"], "wait_ms": 50}));
            if status["structuredContent"]["state"] == "input_required" {
                break status["structuredContent"].clone();
            }
        };
        assert_eq!(again["input"], json!({"c": {"method": "roots/list"}}), "{name}");
        let given = json!({"c": {"roots": []}});
        assert_eq!(update(&mut asker, &task, given.clone())["result"]["resultType"], "complete", "{name}");
        let done = in_state(&mut asker, &task, "completed");
        let last: Value = serde_json::from_str(first_text(&done["result"])).unwrap();
        assert_eq!((&last["params"]["inputResponses"], &last["params"]["requestState"]), (&given, &"next".into()));
        let calls = asker.way.seen("slow");
        assert_eq!(calls.len(), 3, "{name}: {calls:?}");
        assert!(calls[1].contains(&format!(r#""requestState":{STATE}"#)), "{name}: {}", calls[1]);
        let read: Vec<Value> = calls.iter().map(|call| serde_json::from_str(call).unwrap()).collect();
        assert_eq!(read[1]["params"]["inputResponses"], json!({"a": yes, "b": no}), "{name}");
        assert_eq!(read[0]["params"]["requestState"], Value::Null, "{name}");
        for call in &read[1..] {
            let first = &read[0];
            assert_ne!(call["id"], first["id"], "{name}");
            assert_eq!(call["params"]["arguments"], first["params"]["arguments"], "{name}");
            let capabilities =
                |call: &Value| call["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"].clone();
            assert_eq!(capabilities(call), capabilities(first), "{name}");
        }
    }
}

#[test]
fn a_job_whose_input_nobody_gives_fails() {
    let script =
        Script::new().steps("tools/call slow", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]));
    let toml = format!("{ALWAYS}[gateway]\njob-input-seconds = 1\n");
    for (name, mut asker) in modern(&script, &toml) {
        let task = asker.begin("slow");
        let failed = in_state(&mut asker, &task, "failed");
        let text = failed["statusMessage"].as_str().unwrap();
        assert!(text.contains("gateway.job-input-seconds"), "{name}: {failed}");
        assert_eq!(asker.way.seen("slow").len(), 1, "{name}");
    }
}

#[test]
fn a_job_that_waits_for_input_is_canceled_at_once() {
    let script =
        Script::new().steps("tools/call slow", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]));
    for (name, mut asker) in modern(&script, ALWAYS) {
        let task = asker.begin("slow");
        in_state(&mut asker, &task, "input_required");
        asker.result("tasks/cancel", json!({"taskId": task["taskId"]}));
        let said = loop {
            let canceled = asker.get(&task);
            assert_eq!(canceled["status"], "cancelled", "{name}");
            let said = canceled["statusMessage"].as_str().unwrap().to_owned();
            if !said.contains("has not answered") {
                break said;
            }
        };
        assert_eq!(said, "it was canceled while it waited", "{name}");
        assert_eq!(update(&mut asker, &task, json!({"a": {}}))["result"]["resultType"], "complete", "{name}");
        assert_eq!(asker.way.seen("slow").len(), 1, "{name}");
    }
}

#[test]
fn input_has_limits() {
    let many: Value = (0..17).map(|key| (key.to_string(), question("?"))).collect::<serde_json::Map<_, _>>().into();
    let large = json!({"a": question(&"x".repeat(70_000))});
    let script = Script::new()
        .steps("tools/call slow-many", json!([{"await": GO}, asks(&many, "1")]))
        .steps("tools/call slow-large", json!([{"await": GO}, asks(&large, "1")]))
        .steps("tools/call slow-odd", json!([{"await": GO}, asks(&json!({"a": {"method": "tools/call"}}), "1")]))
        .steps("tools/call slow-bad", json!([{"await": GO}, asks(&json!([1]), "1")]))
        .steps("tools/call slow#1", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]))
        .steps("tools/call slow", json!([asks(&json!({"a": question("?")}), "1")]));
    let (_, mut asker) = modern(&script, ALWAYS).next().unwrap();
    let expected = [
        ("slow-many", "at most 16 requests"),
        ("slow-large", "of 65536 bytes"),
        ("slow-odd", "`tools/call` is nothing that clients give"),
        ("slow-bad", "is invalid"),
    ];
    for (tool, expected) in expected {
        let task = asker.begin(tool);
        let failed = in_state(&mut asker, &task, "failed");
        assert!(failed["statusMessage"].as_str().unwrap().contains(expected), "{failed}");
    }
    let task = asker.begin("slow");
    let mut rounds = 0;
    let failed = loop {
        let found = in_state(&mut asker, &task, if rounds < ROUNDS { "input_required" } else { "failed" });
        if rounds == ROUNDS {
            break found;
        }
        update(&mut asker, &task, json!({"a": {"action": "decline"}}));
        // The call is sent again before the next question.
        while asker.way.seen("slow").len() < rounds + 2 {}
        rounds += 1;
    };
    assert!(failed["statusMessage"].as_str().unwrap().contains("asked for input 16 times"), "{failed}");
    assert_eq!(asker.way.seen("slow").len(), ROUNDS + 1);
}

// A call that is too large to be kept cannot be sent again.
#[test]
fn a_large_call_cannot_be_asked() {
    let script =
        Script::new().steps("tools/call slow", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]));
    let (_, mut asker) = modern(&script, ALWAYS).next().unwrap();
    let params = json!({"name": "slow", "arguments": {"text": "x".repeat(70_000)}});
    let task = asker.result("tools/call", params);
    let failed = in_state(&mut asker, &task, "failed");
    assert!(failed["statusMessage"].as_str().unwrap().contains("more than 65536 bytes"), "{failed}");
}

#[test]
fn limits_of_input_are_settings() {
    let again = || json!([asks(&json!({"a": question("?")}), "1")]);
    let script = Script::new()
        .steps("tools/call slow-large", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]))
        .steps("tools/call slow#1", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]))
        .steps("tools/call slow", again());
    let script = script
        .steps(
            "tools/call slow-two",
            json!([{"await": GO}, asks(&json!({"a": question("?"), "b": question("?")}), "1")]),
        )
        .steps("tools/call slow-long", json!([{"await": GO}, asks(&json!({"a": question(&"?".repeat(900))}), "1")]));
    let toml =
        format!("{ALWAYS}[gateway]\ninput-rounds = 2\njob-call-bytes = 1000\njob-inputs = 1\njob-input-bytes = 900\n");
    let (_, mut asker) = modern(&script, &toml).next().unwrap();
    let task = asker.begin("slow");
    in_state(&mut asker, &task, "input_required");
    update(&mut asker, &task, json!({"a": {"action": "decline"}}));
    // The second question is not the first.
    while asker.way.seen("slow").len() < 2 {}
    in_state(&mut asker, &task, "input_required");
    update(&mut asker, &task, json!({"a": {"action": "decline"}}));
    let failed = in_state(&mut asker, &task, "failed");
    let text = failed["statusMessage"].as_str().unwrap();
    assert!(text.contains("asked for input 2 times") && text.contains("gateway.input-rounds"), "{text}");
    let task = asker.result("tools/call", json!({"name": "slow-large", "arguments": {"text": "x".repeat(1_000)}}));
    let failed = in_state(&mut asker, &task, "failed");
    let text = failed["statusMessage"].as_str().unwrap();
    assert!(text.contains("more than 1000 bytes (gateway.job-call-bytes)"), "{text}");
    for tool in ["slow-two", "slow-long"] {
        let task = asker.begin(tool);
        let failed = in_state(&mut asker, &task, "failed");
        let expected = "at most 1 requests (gateway.job-inputs) of 900 bytes (gateway.job-input-bytes) are kept";
        assert!(failed["statusMessage"].as_str().unwrap().contains(expected), "{failed}");
    }
}

// Without input to wait for, the server only wants its state back.
#[test]
fn a_state_alone_is_given_back() {
    let alone = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"input_required","requestState":"s"}}"#;
    let script = Script::new()
        .steps("tools/call slow#1", json!([{"await": GO}, alone]))
        .steps("tools/call slow#2", json!([line(&json!({"content": [{"type": "text", "text": "slept"}]}))]));
    for (name, mut asker) in modern(&script, ALWAYS) {
        let task = asker.begin("slow");
        let done = in_state(&mut asker, &task, "completed");
        assert_eq!(first_text(&done["result"]), "slept", "{name}");
        let again: Value = serde_json::from_str(&asker.way.seen("slow")[1]).unwrap();
        assert_eq!((&again["params"]["requestState"], &again["params"]["inputResponses"]), (&"s".into(), &Value::Null));
    }
}

/// A client of 2025-11-25 that waits for the result of a task.
enum Waiter<'a> {
    Stdio(&'a mut Scripted),
    Http(Session, Exchange),
}

impl<'a> Waiter<'a> {
    /// The client declares these capabilities.
    fn begin(asker: &'a mut Asker, task: &Value, capabilities: &Value) -> Self {
        if asker.way.face != Face::Stdio {
            return Self::over_http(asker, task, capabilities);
        }
        asker.way.declare(capabilities);
        asker.way.gateway.send(&Self::waits(task).to_string());
        Self::Stdio(&mut asker.way.gateway)
    }

    fn over_http(asker: &Asker, task: &Value, capabilities: &Value) -> Self {
        let session = asker.way.another_with(capabilities);
        let exchange = session.open(&Self::waits(task));
        Self::Http(session, exchange)
    }

    fn waits(task: &Value) -> Value {
        request("waits", "tasks/result", json!({"taskId": task["taskId"]}))
    }

    /// The next message that is no notification.
    fn next(&mut self) -> Value {
        loop {
            let message = match self {
                Self::Stdio(gateway) => serde_json::from_str(&gateway.next()).unwrap(),
                Self::Http(_, exchange) if exchange.is_stream() => exchange.event().unwrap(),
                Self::Http(_, exchange) => {
                    let body = std::iter::from_fn(|| exchange.piece().unwrap()).flatten().collect::<Vec<u8>>();
                    serde_json::from_slice(&body).unwrap()
                }
            };
            if !message["id"].is_null() {
                return message;
            }
        }
    }

    /// The next message is a request for input to this task.
    fn asked(&mut self, task: &Value) -> Value {
        let asked = self.next();
        let related = &asked["params"]["_meta"]["io.modelcontextprotocol/related-task"];
        assert_eq!(*related, json!({"taskId": task["taskId"]}), "{asked}");
        asked
    }

    /// Responds to a request with this member.
    fn respond(&mut self, asked: &Value, member: &str, value: &Value) {
        let response = json!({"jsonrpc": "2.0", "id": asked["id"], member: value});
        match self {
            Self::Stdio(gateway) => gateway.send(&response.to_string()),
            Self::Http(session, _) => assert_eq!(session.open(&response).status, 202),
        }
    }
}

// As in 2025-11-25: the request for input comes while `tasks/result` waits, and that goes on to wait.
#[test]
fn a_client_that_waits_for_the_result_is_asked() {
    let both = json!({"a": question("First?"), "b": {"method": "roots/list"}});
    let script = Script::new()
        .steps("tools/call slow#1", json!([{"await": GO}, asks(&both, "1")]))
        .steps("tools/call slow#2", json!([asks(&json!({"a": question("Second?")}), "2")]))
        .steps("tools/call slow#3", json!([line(&text("slept"))]));
    for (name, mut asker) in modern(&script, ALWAYS) {
        let task = asker.begin("slow");
        in_state(&mut asker, &task, "input_required");
        let mut waiter = Waiter::begin(&mut asker, &task, &json!({"elicitation": {}, "roots": {}}));
        let (first, roots) = (waiter.asked(&task), waiter.asked(&task));
        assert_eq!(
            (&first["method"], &roots["method"]),
            (&"elicitation/create".into(), &"roots/list".into()),
            "{name}"
        );
        assert_eq!(first["params"]["message"], "First?", "{name}: {first}");
        assert_ne!(first["id"], roots["id"], "{name}");
        waiter.respond(&roots, "result", &json!({"roots": []}));
        waiter.respond(&first, "result", &json!({"action": "decline"}));
        let second = waiter.asked(&task);
        assert_eq!(second["params"]["message"], "Second?", "{name}: {second}");
        waiter.respond(&second, "result", &json!({"action": "cancel"}));
        let answer = waiter.next();
        assert_eq!((&answer["id"], first_text(&answer["result"])), (&"waits".into(), "slept"), "{name}: {answer}");
        let calls: Vec<Value> = asker.way.seen("slow").iter().map(|call| serde_json::from_str(call).unwrap()).collect();
        let given = |call: usize| calls[call]["params"]["inputResponses"].clone();
        assert_eq!(given(1), json!({"a": {"action": "decline"}, "b": {"roots": []}}), "{name}");
        assert_eq!(given(2), json!({"a": {"action": "cancel"}}), "{name}");
    }
}

#[test]
fn a_client_that_answers_with_an_error_ends_the_job() {
    let script =
        Script::new().steps("tools/call slow", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]));
    for (name, mut asker) in modern(&script, ALWAYS) {
        let task = asker.begin("slow");
        in_state(&mut asker, &task, "input_required");
        let mut waiter = Waiter::begin(&mut asker, &task, &json!({"elicitation": {}}));
        let asked = waiter.asked(&task);
        waiter.respond(&asked, "error", &json!({"code": -1, "message": "nobody is here"}));
        let answer = waiter.next();
        let text = answer["error"]["message"].as_str().unwrap();
        assert!(
            text.contains("a client answered `a` without a result") && text.contains("nobody is here"),
            "{name}: {text}"
        );
    }
}

// Who does not declare the capability waits for what another client gives.
#[test]
fn a_client_without_the_capability_is_not_asked() {
    let script = Script::new()
        .steps("tools/call slow#1", json!([{"await": GO}, asks(&json!({"a": question("?")}), "1")]))
        .steps("tools/call slow#2", json!([line(&text("slept"))]));
    for (name, mut asker) in modern(&script, ALWAYS).filter(|(_, asker)| asker.way.face != Face::Stdio) {
        let task = asker.begin("slow");
        in_state(&mut asker, &task, "input_required");
        let mut silent = Waiter::over_http(&asker, &task, &json!({"sampling": {}, "roots": {}}));
        let mut waiter = Waiter::over_http(&asker, &task, &json!({"elicitation": {}}));
        let asked = waiter.asked(&task);
        waiter.respond(&asked, "result", &json!({"action": "decline"}));
        for waiter in [&mut waiter, &mut silent] {
            let answer = waiter.next();
            assert_eq!((&answer["id"], first_text(&answer["result"])), (&"waits".into(), "slept"), "{name}: {answer}");
        }
    }
}
