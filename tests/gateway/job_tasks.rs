//! Jobs as tasks: a client that knows tasks begins, follows and cancels a job in the form of its revision, before servers
//! that know none.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Client, Connection, Way as Connect};
use crate::faults::signal;
use crate::http::Session;
use crate::lasting::{Face, Way, all_ways};
use crate::scripted::{Script, Scripted, Setup, first_text, text};
use crate::slow::{Slow, fastmcp};
use crate::support::{driver, installed};
use crate::wire::{MODERN, Wire, request, shake_hands};

/// Calls of these tools become jobs soon.
const AUTO: &str = "[tools.\"slow*\"]\njob = \"auto\"\nwait-ms = 100\n";

/// Calls of these tools become jobs at once.
const ALWAYS: &str = "[tools.\"slow*\"]\njob = \"always\"\n";

/// Calls of this tool become jobs after a time that no test takes.
const PATIENT: &str = "[tools.\"patient\"]\njob = \"auto\"\nwait-ms = 600000\n";

/// A notification on which the server goes on.
pub(crate) const GO: &str = "test/go";

/// Name of the extension.
pub(crate) const EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// The answer with this result.
pub(crate) fn line(result: &Value) -> Value {
    format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{result}}}"#).into()
}

/// A server that knows no tasks, and whose tool `slow` answers after [`GO`].
pub(crate) fn slow() -> Script {
    Script::new().steps("tools/call slow", json!([{"await": GO}, line(&text("slept"))]))
}

/// The metadata of a modern client that accepts tasks.
pub(crate) fn accepting() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "lro-tests", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXTENSION: {}}},
    })
}

/// A client of a way that knows tasks, in the form of its revision.
pub(crate) struct Asker {
    pub(crate) way: Way,
    pub(crate) modern: bool,
}

/// A client of every way, and a modern one on standard streams before a command.
pub(crate) fn askers<'a>(script: &'a Script, toml: &'a str) -> impl Iterator<Item = (String, Asker)> + 'a {
    let modern = |way: Way| Asker { modern: way.face == Face::Modern, way };
    let of_revision = all_ways(script, toml).map(move |(name, way)| (name, modern(way)));
    of_revision.chain(all_ways(script, toml).take(1).map(|(name, way)| {
        assert_eq!(way.face, Face::Stdio);
        (format!("Modern {name}"), Asker { way, modern: true })
    }))
}

impl Asker {
    pub(crate) fn answer(&mut self, method: &str, mut params: Value) -> Value {
        if self.modern {
            params["_meta"] = accepting();
        }
        self.way.answer(method, params)
    }

    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer = self.answer(method, params);
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// Calls a tool that becomes a task. Returns the task.
    pub(crate) fn begin(&mut self, tool: &str) -> Value {
        let mut params = json!({"name": tool, "arguments": {}});
        if self.modern {
            let task = self.result("tools/call", params);
            assert_eq!(task["resultType"], "task", "{task}");
            return task;
        }
        params["task"] = json!({"ttl": 60_000});
        self.result("tools/call", params)["task"].take()
    }

    pub(crate) fn get(&mut self, task: &Value) -> Value {
        self.result("tasks/get", json!({"taskId": task["taskId"]}))
    }

    /// Lets the server go on until the task has ended.
    pub(crate) fn ended(&mut self, task: &Value) -> Value {
        loop {
            self.way.notify(GO);
            let found = self.get(task);
            if found["status"] != "working" {
                return found;
            }
        }
    }

    /// The answer with the result of a task that has ended, or with its error.
    pub(crate) fn outcome(&mut self, task: &Value) -> Value {
        match self.modern {
            true => self.get(task),
            false => self.answer("tasks/result", json!({"taskId": task["taskId"]})),
        }
    }
}

#[test]
fn a_slow_call_is_a_task_in_the_form_of_the_client() {
    let script = slow();
    for (name, mut asker) in askers(&script, ALWAYS) {
        let task = asker.begin("slow");
        let (ttl, interval) = if asker.modern { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        assert_eq!((&task["status"], &task[interval]), (&"working".into(), &json!(1_000)), "{name}: {task}");
        assert!(task[ttl].as_u64().is_some_and(|ttl| ttl > 60_000), "{name}: {task}");
        assert!(task["createdAt"].is_string() && task["lastUpdatedAt"].is_string(), "{name}: {task}");
        let working = asker.get(&task);
        assert_eq!((&working["status"], &working["taskId"]), (&"working".into(), &task["taskId"]), "{name}: {working}");
        let done = asker.ended(&task);
        assert_eq!(
            (&done["status"], &done["result"].is_null()),
            (&"completed".into(), &!asker.modern),
            "{name}: {done}"
        );
        let outcome = asker.outcome(&task);
        let result = &outcome["result"];
        assert_eq!(first_text(result), "slept", "{name}: {outcome}");
        if asker.modern {
            assert_eq!(
                (&done["resultType"], &result["resultType"]),
                (&"complete".into(), &"complete".into()),
                "{name}"
            );
        } else {
            let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
            assert_eq!(*related, task["taskId"], "{name}");
            let listed = asker.result("tasks/list", json!({}));
            assert_eq!(listed["tasks"], json!([done]), "{name}");
        }
        // The id is the handle of the job.
        let fetched = asker.way.call("lro_job", json!({"handle": task["taskId"]}));
        assert_eq!(first_text(&fetched), "slept", "{name}: {fetched}");
        // The server knows nothing of it.
        let calls = asker.way.seen("slow");
        assert!(calls.len() == 1 && !calls[0].contains(r#""task":"#), "{name}: {calls:?}");
    }
}

// A client that accepts tasks gets a fast result as it is; one that asks for a task gets a task, whatever the result.
#[test]
fn a_fast_call_is_a_task_only_if_the_client_asks() {
    let error = json!({"content": [{"type": "text", "text": "it broke"}], "isError": true});
    let script = Script::new().call("slow", text("at once")).call("slow-broken", &error).line(
        "tools/call slow-never",
        r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32602,"message":"no such tool"}}"#,
    );
    for (name, mut asker) in askers(&script, &PATIENT.replace("patient", "slow*")) {
        if asker.modern {
            let result = asker.result("tools/call", json!({"name": "slow", "arguments": {}}));
            assert_eq!(first_text(&result), "at once", "{name}");
            continue;
        }
        let task = asker.begin("slow");
        assert_eq!(asker.ended(&task)["status"], "completed", "{name}");
        let broken = asker.begin("slow-broken");
        assert_eq!(asker.ended(&broken)["status"], "failed", "{name}");
        assert_eq!(first_text(&asker.outcome(&broken)["result"]), "it broke", "{name}");
        let never = asker.begin("slow-never");
        let failed = asker.ended(&never);
        assert_eq!(failed["status"], "failed", "{name}");
        let error = asker.outcome(&never)["error"].take();
        for text in [&failed["statusMessage"], &error["message"]] {
            assert!(text.as_str().is_some_and(|text| text.contains("no such tool")), "{name}: {failed} {error}");
        }
    }
}

#[test]
fn a_canceled_task_says_whether_the_server_went_on() {
    let went_on = json!([{"await": "notifications/cancelled"}, line(&text("too late"))]);
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"stopped"}}"#;
    let stopped = json!([{"await": "notifications/cancelled"}, error]);
    let script = Script::new().steps("tools/call slow-on", went_on).steps("tools/call slow-off", stopped);
    for (name, mut asker) in askers(&script, AUTO) {
        for (tool, expected) in [("slow-on", "the server went on"), ("slow-off", "stopped")] {
            let task = asker.begin(tool);
            let canceled = asker.result("tasks/cancel", json!({"taskId": task["taskId"]}));
            assert_eq!(canceled["status"], if asker.modern { Value::Null } else { "cancelled".into() }, "{name}");
            let said = loop {
                let found = asker.get(&task);
                assert_eq!(found["status"], "cancelled", "{name}: {found}");
                let message = found["statusMessage"].as_str().unwrap().to_owned();
                if !message.contains("has not answered the cancellation yet") {
                    break message;
                }
            };
            // Over HTTP, revision 2026-07-28 cancels by closing the connection, after which nobody can answer.
            let is_closed = said.contains("the connection to the server was closed") && name == "Modern before HTTP";
            assert!(said.contains(expected) || is_closed, "{name}: {said}");
            let outcome = asker.outcome(&task);
            assert!(!outcome.to_string().contains("too late"), "{name}: {outcome}");
            let again = asker.answer("tasks/cancel", json!({"taskId": task["taskId"]}));
            // Only revision 2025-11-25 forbids it.
            assert_eq!(
                again["error"]["code"],
                if asker.modern { Value::Null } else { json!(-32602) },
                "{name}: {again}"
            );
        }
    }
}

/// The answer to a request on standard streams.
fn ask(gateway: &mut Scripted, method: &str, params: Value) -> Value {
    serde_json::from_str(&gateway.ask(method, params)).unwrap()
}

// `tasks/result` waits for the end, and holds up nobody.
#[test]
fn waiting_for_the_result_of_a_task_blocks_nobody() {
    let mut gateway = slow().with_toml(AUTO);
    let begun = gateway.result("tools/call", json!({"name": "slow", "arguments": {}, "task": {}}));
    let task = &begun["task"]["taskId"];
    gateway.send(&request("waits", "tasks/result", json!({ "taskId": task })).to_string());
    assert_eq!(gateway.result("tasks/get", json!({ "taskId": task }))["status"], "working");
    gateway.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
    // News of the task may come before.
    let mut answers = std::iter::from_fn(|| serde_json::from_str(&gateway.next()).ok());
    let answer: Value = answers.find(|answer: &Value| !answer["id"].is_null()).unwrap();
    assert_eq!((&answer["id"], first_text(&answer["result"])), (&"waits".into(), "slept"), "{answer}");
}

// What is not a job of the tenant is for the server; one that knows no tasks knows none of these either.
#[test]
fn tasks_of_others_are_unknown() {
    let toml = format!("{AUTO}[tenants.other]\n");
    let flags = ["--listen", "127.0.0.1:0"];
    let mut gateway = slow().silent(&Setup { flags: &flags, toml: &toml, ..Setup::default() });
    let url = gateway.url();
    let (own, other) = (Session::begin(&url), Session::begin(&format!("{url}/other")));
    let call = json!({"name": "slow", "arguments": {}, "task": {}});
    let begun = own.open(&request(1, "tools/call", call)).finish().answer();
    let task = begun["result"]["task"]["taskId"].clone();
    let asks = |session: &Session, method: &str, task: &Value| {
        session.open(&request(2, method, json!({ "taskId": task }))).finish().answer()
    };
    assert_eq!(asks(&own, "tasks/get", &task)["result"]["status"], "working");
    for method in ["tasks/get", "tasks/result"] {
        let (of_another, never) =
            (asks(&other, method, &task), asks(&other, method, &"01M7YXTFAWZVTJRQ8KE7Y7EFP4".into()));
        assert_eq!((&of_another["error"]["code"], &of_another), (&json!(-32602), &never), "{method}");
    }
    assert!(asks(&other, "tasks/cancel", &task)["error"].is_object());
    let listed = other.open(&request(3, "tasks/list", json!({}))).finish().answer();
    assert_eq!(listed["result"]["tasks"], json!([]), "{listed}");
    assert_eq!(asks(&own, "tasks/get", &task)["result"]["status"], "working", "another tenant canceled it");
}

#[test]
fn the_task_of_a_killed_gateway_has_failed() {
    let (script, home) = (slow(), TempDir::new().unwrap());
    let client = || {
        let (command, variables) = script.command(&Setup { toml: AUTO, ..Setup::default() }, &home);
        let mut wire = Wire::start(&command, &variables);
        shake_hands(&mut wire);
        wire
    };
    let mut before = client();
    let call = json!({"name": "slow", "arguments": {"a": 2}, "task": {}});
    let task = before.result(&request("a", "tools/call", call))["task"]["taskId"].clone();
    signal("-9", before.pid());
    drop(before);
    let mut after = client();
    let found = after.result(&request("b", "tasks/get", json!({ "taskId": task })));
    let reason = found["statusMessage"].as_str().unwrap();
    assert_eq!(found["status"], "failed", "{found}");
    assert!(reason.contains("the gateway ended") && reason.contains(r#"slow {"a":2}"#), "{reason}");
    let modern = after.result(&request("c", "tasks/get", json!({"taskId": task, "_meta": accepting()})));
    assert_eq!((&modern["status"], &modern["error"]["code"]), (&"failed".into(), &json!(-32603)), "{modern}");
}

// Where the server runs a call as a task, the task stays the server's, and so do its methods.
#[test]
fn tasks_of_the_server_stay_with_it() {
    let tools = json!({"tools": [
        {"name": "slow-task", "inputSchema": {"type": "object"}, "execution": {"taskSupport": "required"}},
        {"name": "slow", "inputSchema": {"type": "object"}},
        {"name": "fast", "inputSchema": {"type": "object"}},
    ]});
    let task = json!({"taskId": "t", "status": "working", "createdAt": "2026-01-01T00:00:00Z", "ttl": 1});
    let of_server = json!({"resultType": "task", "taskId": "t", "status": "working", "ttlMs": 1});
    let script = slow()
        .result("tools/list", tools)
        .call("slow-task", json!({ "task": task }))
        .call("patient", &of_server)
        .result("tasks/list", json!({"tasks": [task], "nextCursor": "more"}))
        .result("tasks/cancel", json!({"taskId": "t", "status": "cancelled"}));
    let mut gateway = script.with_toml(&format!("{AUTO}{PATIENT}"));
    let support: Vec<Value> = gateway.tools().iter().map(|tool| tool["execution"]["taskSupport"].clone()).collect();
    assert_eq!(support[..3], [json!("required"), json!("optional"), Value::Null]);
    let asked = |tool: &str| json!({"name": tool, "arguments": {}, "task": {"ttl": 5}});
    assert_eq!(gateway.result("tools/call", asked("slow-task")), json!({ "task": task }));
    assert_eq!(gateway.result("tasks/cancel", json!({"taskId": "t"}))["status"], "cancelled");
    let own = gateway.result("tools/call", asked("slow"))["task"]["taskId"].take();
    gateway.send(&json!({"jsonrpc": "2.0", "method": GO}).to_string());
    assert_eq!(first_text(&gateway.result("tasks/result", json!({ "taskId": own }))), "slept");
    let listed = gateway.result("tasks/list", json!({}));
    assert_eq!((&listed["tasks"][0], &listed["tasks"][1]["taskId"]), (&task, &own), "{listed}");
    assert_eq!(listed["nextCursor"], "more");
    let modern = json!({"name": "patient", "arguments": {}, "_meta": accepting()});
    assert_eq!(gateway.result("tools/call", modern), of_server);
    // A tool whose calls are no jobs is the server's in all respects.
    let fast = ask(&mut gateway, "tools/call", asked("fast"));
    assert_eq!(fast["error"]["code"], -32601, "{fast}");
    let sent = gateway.seen().iter().filter(|line| line.contains(r#""task":{"ttl":5}"#)).count();
    assert_eq!(sent, 2, "the calls of `slow-task` and `fast`");
}

#[test]
fn tasks_are_announced_where_there_are_jobs() {
    let discovered = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}}});
    let script = Script::new().tool("slow", "", text("x")).result("server/discover", discovered);
    for (toml, has_tasks) in [(AUTO, true), ("[tools.\"*\"]\njob = \"never\"\n", false)] {
        let mut gateway = script.with_toml(toml);
        let call = &gateway.hello["capabilities"]["tasks"]["requests"]["tools"]["call"];
        assert_eq!(call.is_object(), has_tasks, "{}", gateway.hello);
        assert_eq!(gateway.tools()[0]["execution"].is_object(), has_tasks);
        let about = gateway.result("server/discover", json!({ "_meta": accepting() }));
        assert_eq!(about["capabilities"]["extensions"][EXTENSION].is_object(), has_tasks, "{about}");
        let tools = gateway.result("tools/list", json!({ "_meta": accepting() }));
        assert_eq!(tools["tools"][0]["execution"], Value::Null, "{tools}");
        // A client of an older revision hears nothing of tasks.
        let info = json!({"name": "lro-tests", "version": "1.0.0"});
        let older = json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info});
        assert_eq!(gateway.result("initialize", older)["capabilities"]["tasks"], Value::Null);
        assert_eq!(gateway.tools()[0]["execution"], Value::Null);
    }
}

/// The slow tool of a server on FastMCP, which knows no tasks of 2025-11-25.
fn before_fastmcp(obtain: impl Fn(&Slow, Connect)) {
    let slow = fastmcp(1.0);
    let (of_command, of_http) = (slow.gateway(100), slow.gateway(100));
    obtain(&slow, of_command.before(&slow.server));
    let listening = of_http.listen(&slow.server);
    obtain(&slow, Connect::Url(listening.url.clone()));
}

#[test]
fn the_typescript_sdk_obtains_a_slow_result_by_task() {
    before_fastmcp(|slow, way| {
        let mut connection = Connection::open(Client::Sdk1, &way);
        // This client learns from the list that calls may be tasks.
        connection.tools();
        assert_obtained_by_task(&mut connection, slow);
    });
}

/// Calls a slow tool with a client of the TypeScript SDK 1.x: there is a task, and then its result.
pub(crate) fn assert_obtained_by_task(connection: &mut Connection, slow: &Slow) {
    let messages = connection.outcome("task", &json!({"name": slow.tool, "arguments": slow.arguments}));
    let messages = messages.as_array().unwrap();
    let (first, last) = (messages.first().unwrap(), messages.last().unwrap());
    assert!(first["type"] == "taskCreated" && last["type"] == "result", "{messages:?}");
    assert_eq!(first_text(&last["result"]), slow.answer, "{messages:?}");
}

#[test]
fn the_python_sdk_obtains_a_slow_result_by_task() {
    before_fastmcp(|slow, way| {
        let server = match way {
            Connect::Command(command, variables) => json!({"command": command, "env": variables}),
            Connect::Url(url) => json!({ "url": url }),
        };
        let request = json!({"server": server, "tool": slow.tool, "arguments": slow.arguments});
        let python = installed("venv-sqlite/bin/python");
        let output = Command::new(python).args([driver("task_client.py"), request.to_string()]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let found: Value = serde_json::from_str(&told)
            .unwrap_or_else(|error| panic!("{error}: {told}{}", String::from_utf8_lossy(&output.stderr)));
        assert_eq!((&found["first"], &found["last"]), (&"working".into(), &"completed".into()), "{found}");
        assert_eq!((&found["text"], &found["listed"]), (&slow.answer.clone().into(), &true.into()), "{found}");
        assert_eq!(found["cancelled"], "cancelled", "{found}");
    });
}
