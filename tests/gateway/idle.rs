//! A gateway that has nothing to do.

use std::fs;
use std::thread;
use std::time::Duration;

use lro_tests::{version, wait_until};
use serde_json::json;
use tempfile::TempDir;

use crate::scripted::Script;
use crate::support::path_text;

/// How often the thread that advances the epoch has slept.
fn sleeps(process: u32) -> String {
    let tasks = fs::read_dir(format!("/proc/{process}/task")).unwrap().map(|task| task.unwrap().path());
    let text = |path| fs::read_to_string(path).unwrap();
    let clock = tasks.into_iter().find(|task| text(task.join("comm")).trim() == "lro-epoch").unwrap();
    let status = text(clock.join("status"));
    status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:")).unwrap().to_owned()
}

#[test]
fn the_clock_of_policies_rests_while_none_runs_and_wakes_to_end_one() {
    let home = TempDir::new().unwrap();
    let policy = home.path().join("policy.wasm");
    fs::write(&policy, version(1)).unwrap();
    let toml = format!(
        "policy = {:?}\nmode = \"always\"\ncustom = \"inspect-loop\"\nlimits = {{ wall-time-ms = 50 }}\n",
        path_text(&policy)
    );
    let result = json!({"content": [{"type": "text", "text": "small"}]});
    let mut gateway = Script::new().tool("get", "", &result).with_toml(&toml);
    for _ in 0..2 {
        assert_eq!(gateway.call("get", json!({}))["content"][0]["text"], "small");
        wait_until("the clock rests", || {
            let before = sleeps(gateway.pid());
            thread::sleep(Duration::from_millis(200));
            sleeps(gateway.pid()) == before
        });
    }
    assert_eq!(gateway.end().errors.matches("deadline").count(), 2);
}
