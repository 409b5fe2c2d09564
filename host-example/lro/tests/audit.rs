//! `lro audit` over a recorded session.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

fn audit(lines: &[Value], flags: &[&str]) -> Output {
    let home = TempDir::new().unwrap();
    let file = home.path().join("session.jsonl");
    let lines: String = lines.iter().map(|line| format!("{line}\n")).collect();
    fs::write(&file, format!("started\n\n{lines}")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_lro"));
    command.env_clear().env("MCP_LRO_DIR", home.path().join("out")).arg("audit").args(flags).arg(&file);
    command.output().unwrap()
}

fn session() -> Vec<Value> {
    let tool = |name: &str, properties: Value| json!({"name": name, "inputSchema": {"type": "object", "properties": properties}, "annotations": {"readOnlyHint": true}});
    let tools = [
        tool("all", json!({"path": {}, "topic": {}, "firstName": {}})),
        tool("pages", json!({"pageSize": {}, "max_rows": {}, "head": {}, "q": {}})),
        tool("idle", json!({})),
    ];
    let call = |id: u32, tool: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": tool, "arguments": {"q": 1}}});
    let answer = |id: u32, size: usize| json!({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": "word ".repeat(size / 5)}]}});
    vec![
        json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": tools}}),
        // Answers come in any order, in batches too; ids are used again.
        json!([call(2, "all"), call(3, "all")]),
        call(4, "pages"),
        answer(4, 60_000),
        json!([answer(3, 100), answer(2, 80_000)]),
        call(4, "all"),
        json!({"jsonrpc": "2.0", "id": 4, "error": {"code": 1, "message": "no result"}}),
        json!({"jsonrpc": "2.0", "id": 9, "result": {"content": []}}),
    ]
}

#[test]
fn costs_of_a_recorded_session_are_counted() {
    let output = audit(&session(), &["--json"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("1 of 11 lines"), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let tools = report["tools"].as_array().unwrap();
    let names: Vec<&str> = tools.iter().map(|tool| tool["tool"].as_str().unwrap()).collect();
    assert_eq!(names, ["all", "pages", "idle"]);
    let counts =
        |tool: &Value| [&tool["calls"], &tool["large"], &tool["repeated"]].map(|count| count.as_u64().unwrap());
    assert_eq!(tools.iter().map(counts).collect::<Vec<_>>(), [[2, 1, 2], [1, 1, 0], [0, 0, 0]]);
    let limiting = [&tools[0]["limiting"], &tools[1]["limiting"]];
    assert_eq!(limiting, [&json!([]), &json!(["head", "max_rows", "pageSize"])]);
    assert!(tools[0]["tokens"].as_u64() > tools[0]["tokens_max"].as_u64() && tools[2]["definition_tokens"] != 0);
    let small = audit(&session(), &["--json", "--threshold", "90000"]);
    let report: Value = serde_json::from_slice(&small.stdout).unwrap();
    assert_eq!((&report["tools"][0]["large"], &report["settings"]), (&json!(0), &json!("")));
}

#[test]
fn settings_that_would_help_can_be_used_as_they_are() {
    let output = audit(&session(), &["--toml"]);
    let toml = String::from_utf8(output.stdout).unwrap();
    let config = lro_gateway::settings::Config::from_toml(&toml).unwrap();
    let tool = config.gateway_tool("all");
    assert!(tool.ask && tool.reuse_seconds.is_some() && !config.gateway_tool("pages").ask, "{toml}");
    let table = String::from_utf8(audit(&session(), &[]).stdout).unwrap();
    assert!(table.contains("pageSize") && table.contains("nothing") && table.ends_with(&toml), "{table}");
}

#[test]
fn a_file_without_tools_is_an_error() {
    let output = audit(&[json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})], &[]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("no list of tools"), "{output:?}");
}
