//! Clients and gateways that are killed at any moment: what has ended can be fetched, and nothing else claims to have.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{env, thread};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::signal;
use crate::http::Session;
use crate::scripted::{Script, Setup, first_text};
use crate::support::{Environment, Process, driver, python, words};
use crate::wire::{Wire, call, shake_hands};

/// Kills of a run, where `LRO_KILLS` does not say.
const KILLS: usize = 4;

/// Jobs begun before a kill, each of which takes the server this many seconds.
const JOBS: usize = 8;
const JOB_SECONDS: f64 = 0.06;

/// All calls become jobs.
const ALWAYS: &str = "[tools.slow]\njob = \"always\"\n";

/// A server whose tool `slow` answers, after a moment, with the request.
fn script() -> Script {
    let answer = r#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":@LINE@}]}}"#;
    Script::new().steps("tools/call slow", json!([{"sleep": JOB_SECONDS}, answer]))
}

fn kills() -> usize {
    env::var("LRO_KILLS").map_or(KILLS, |kills| kills.parse().unwrap())
}

/// Waits for a random part of the time that the jobs take.
fn wait_for_any_moment() {
    let random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_micros();
    let all = (JOB_SECONDS * 1e6) as u32 * JOBS as u32;
    thread::sleep(Duration::from_micros((random % all).into()));
}

/// The jobs in the answer of `lro_job`, as handles with states.
fn states(listed: &Value) -> Vec<(String, String)> {
    let jobs = listed["structuredContent"]["jobs"].as_array().unwrap_or_else(|| panic!("{listed}"));
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    jobs.iter().map(|job| (text(&job["job"]), text(&job["state"]))).collect()
}

/// The number in the arguments of the call that a result repeats.
fn number(result: &Value) -> u64 {
    let line: Value = serde_json::from_str(first_text(result)).unwrap_or_else(|_| panic!("no call: {result}"));
    line["params"]["arguments"]["number"].as_u64().unwrap()
}

struct Client {
    wire: Wire,
    asked: usize,
}

impl Client {
    fn start(home: &TempDir) -> Self {
        let (command, variables) = script().command(&Setup { toml: ALWAYS, ..Setup::default() }, home);
        let mut wire = Wire::start(&command, &variables);
        shake_hands(&mut wire);
        Self { wire, asked: 0 }
    }

    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.asked += 1;
        self.wire.result(&call(self.asked, &json!({"name": tool, "arguments": arguments}), false))
    }
}

#[test]
fn a_gateway_killed_at_any_moment_keeps_what_has_ended() {
    let home = TempDir::new().unwrap();
    let mut gateway = Client::start(&home);
    let mut number_of = HashMap::new();
    let mut settled: HashSet<String> = HashSet::new();
    let (mut done, mut lost) = (0, 0);
    for kill in 0..kills() {
        for number in kill * JOBS..(kill + 1) * JOBS {
            let begun = gateway.call("slow", json!({ "number": number }));
            let status: Value = serde_json::from_str(first_text(&begun)).unwrap();
            number_of.insert(status["job"].as_str().unwrap().to_owned(), number as u64);
        }
        wait_for_any_moment();
        let before = states(&gateway.call("lro_job", json!({})));
        signal("-9", gateway.wire.pid());
        gateway = Client::start(&home);
        let after = states(&gateway.call("lro_job", json!({})));
        let ended = before.iter().filter(|(_, state)| state == "done");
        ended.for_each(|job| assert!(after.contains(job), "{job:?} was done: {after:?}"));
        for (job, state) in after {
            if !settled.insert(job.clone()) {
                continue;
            }
            let result = gateway.call("lro_job", json!({"handle": job}));
            match state.as_str() {
                "done" => {
                    assert_eq!(Some(&number(&result)), number_of.get(&job), "{result}");
                    done += 1;
                }
                "lost" => {
                    assert!(result["isError"] == true && first_text(&result).contains("reason"), "{result}");
                    lost += 1;
                }
                other => panic!("{other}: {result}"),
            }
        }
        assert_eq!(settled.len(), number_of.len(), "each job that a client knows of is there");
    }
    println!("{} kills of the gateway: {done} jobs done, {lost} lost", kills());
}

#[test]
fn what_a_killed_client_began_can_be_fetched() {
    let setup = Setup { flags: &["--listen", "127.0.0.1:0"], toml: ALWAYS, ..Setup::default() };
    let mut gateway = script().silent(&setup);
    let url = gateway.url();
    let other = Session::begin(&url);
    let mut settled = HashSet::new();
    let mut asked = 0;
    let mut ask = |arguments: Value| {
        asked += 1;
        other.call(asked, "lro_job", arguments)["result"].clone()
    };
    for _ in 0..kills() {
        let client = Process::start(&words(&[&python(), "-S", &driver("jobs_client.py"), &url]), &Environment::new());
        let mut known = vec![client.line()];
        wait_for_any_moment();
        signal("-9", client.pid());
        known.extend(client.end().lines);
        loop {
            let listed = states(&ask(json!({})));
            let unknown = known.iter().find(|known| !listed.iter().any(|(job, _)| job == *known));
            assert_eq!(unknown, None, "{listed:?}");
            if listed.iter().all(|(_, state)| state == "done") {
                break;
            }
        }
        for (job, _) in states(&ask(json!({}))).into_iter().filter(|(job, _)| settled.insert(job.clone())) {
            number(&ask(json!({"handle": job})));
        }
    }
    println!("{} kills of clients: {} jobs done", kills(), settled.len());
}
