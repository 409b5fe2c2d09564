//! What a client that knows tasks hears of jobs: the task, whenever it has changed.

use serde_json::{Value, json};

use crate::job_tasks::{Asker, EXTENSION, GO, accepting, askers, line};
use crate::lasting::Stream;
use crate::scripted::{Script, first_text, text};

/// All calls of these tools become jobs.
const ALWAYS: &str = "[tools.\"slow*\"]\njob = \"always\"\n";

/// Metadata that names a subscription.
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A notification on which the server reports progress.
const STEP: &str = "test/step";

fn script() -> Script {
    let progress = |done: u32, message: &str| {
        let params = format!(r#"{{"progressToken":@TOKEN@,"progress":{done},"total":2,"message":"{message}"}}"#);
        format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)
    };
    let steps =
        json!([progress(0, "begun"), {"await": STEP}, progress(1, "half"), {"await": GO}, line(&text("slept"))]);
    Script::new().steps("tools/call slow", steps)
}

/// Begins a task. Returns it when the server has the call, which a notification over HTTP could otherwise overtake.
fn begin(asker: &mut Asker) -> Value {
    let task = asker.begin("slow");
    while asker.get(&task)["statusMessage"] != "0 of 2: begun" {}
    task
}

/// The next message about a task.
fn news(asker: &mut Asker, stream: &mut Stream) -> Value {
    let mut message = asker.way.next(stream);
    let method = if asker.modern { "notifications/tasks" } else { "notifications/tasks/status" };
    assert_eq!(message["method"], method, "{message}");
    message["params"].take()
}

fn listen(asker: &mut Asker, tasks: &Value, meta: Value) -> Stream {
    asker.way.open_stream("subscriptions/listen", json!({"notifications": {"taskIds": tasks}, "_meta": meta}))
}

/// The answer to a subscription that is none.
fn refused(asker: &mut Asker, tasks: &Value, meta: Value) -> Value {
    let params = json!({"notifications": {"taskIds": tasks}, "_meta": meta});
    serde_json::from_str(&asker.way.gateway.ask("subscriptions/listen", params)).unwrap()
}

#[test]
fn a_client_hears_of_its_task() {
    for (name, mut asker) in askers(&script(), ALWAYS) {
        let mut stream = asker.way.listen();
        let task = begin(&mut asker);
        if asker.modern {
            stream = listen(&mut asker, &json!([task["taskId"]]), accepting());
            let first = asker.way.next(&mut stream);
            assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{name}: {first}");
            assert_eq!(first["params"]["notifications"], json!({"taskIds": [task["taskId"]]}), "{name}: {first}");
        }
        asker.way.notify(STEP);
        let mut half = news(&mut asker, &mut stream);
        while half["statusMessage"] == "0 of 2: begun" {
            half = news(&mut asker, &mut stream);
        }
        assert_eq!((&half["taskId"], &half["status"]), (&task["taskId"], &"working".into()), "{name}: {half}");
        assert_eq!(half["statusMessage"], "1 of 2: half", "{name}: {half}");
        asker.way.notify(GO);
        let mut done = news(&mut asker, &mut stream);
        assert_eq!(done["status"], "completed", "{name}: {done}");
        assert_eq!(done["_meta"][SUBSCRIPTION].is_u64(), asker.modern, "{name}: {done}");
        if asker.modern {
            assert_eq!(first_text(&done["result"]), "slept", "{name}: {done}");
        }
        // It is what `tasks/get` answers.
        let mut found = asker.get(&task);
        for key in ["_meta", "resultType"] {
            found.as_object_mut().unwrap().remove(key);
            done.as_object_mut().unwrap().remove(key);
        }
        assert_eq!(done, found, "{name}");
        let seen = asker.result("scripted/seen", json!({}))["lines"].to_string();
        assert!(!seen.contains("subscriptions/listen"), "{name}: the server does not learn of it");
    }
}

#[test]
fn only_jobs_and_those_who_know_tasks_are_heard_of() {
    let (_, mut asker) = askers(&script(), ALWAYS).find(|(name, _)| name.starts_with("Modern Stdio")).unwrap();
    let task = begin(&mut asker);
    let ignorant = |mut meta: Value| {
        meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
        meta
    };
    let error = refused(&mut asker, &json!([task["taskId"]]), ignorant(accepting()))["error"].take();
    assert_eq!(error["code"], -32021, "{error}");
    assert_eq!(error["data"]["requiredCapabilities"]["extensions"], json!({EXTENSION: {}}), "{error}");
    // A subscription to other tasks is the server's, also if it names a job.
    [STEP, GO].iter().for_each(|method| asker.way.notify(method));
    for tasks in [json!(["t"]), json!([task["taskId"], "01M7YXTFAWZVTJRQ8KE7Y7EFP4"])] {
        assert_eq!(refused(&mut asker, &tasks, accepting())["error"]["code"], -32601);
    }
}

// A client of 2025-11-25 that began no task hears of none.
#[test]
fn a_descriptor_makes_no_news() {
    let mut gateway = script().with_toml(ALWAYS);
    gateway.call("slow", json!({}));
    [STEP, GO].iter().for_each(|method| gateway.send(&json!({"jsonrpc": "2.0", "method": method}).to_string()));
    let mut jobs = || gateway.call("lro_job", json!({}))["structuredContent"]["jobs"][0].take();
    while jobs()["state"] != "done" {}
    gateway.result("ping", json!({}));
    let rest = gateway.end();
    assert!(!rest.lines.iter().any(|line| line.contains("notifications/tasks")), "{:?}", rest.lines);
}
