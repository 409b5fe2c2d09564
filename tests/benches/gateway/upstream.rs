//! A bare MCP server on standard input and output that replays serialized results at almost no cost. The benchmark runs
//! itself as this server.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;

use lro_tests::synthetic;
use serde_json::{Value, json};

/// The argument that runs the benchmark as this server.
pub(crate) const ARGUMENT: &str = "--upstream-server";

/// Its tool: `n` records, with `structured` also as structured content.
pub(crate) const TOOL: &str = "records";

/// Its tool that never answers. Not listed, as gateways name tools anew.
pub(crate) const SILENT_TOOL: &str = "silent";

/// Answers until its input ends.
pub(crate) fn serve() {
    let mut output = File::from(std::io::stdout().as_fd().try_clone_to_owned().unwrap());
    let mut results = HashMap::new();
    for line in BufReader::new(std::io::stdin()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["id"].is_null() || message["params"]["name"] == SILENT_TOOL {
            continue;
        }
        let answer = answer(&message, &mut results);
        output.write_all(&answer).unwrap();
    }
}

/// The answer as a line. Only the first of a kind is built; after that, only the id changes.
fn answer(message: &Value, results: &mut HashMap<(u64, bool), String>) -> Vec<u8> {
    let (id, params) = (&message["id"], &message["params"]);
    match message["method"].as_str().unwrap() {
        "tools/call" => {
            let arguments = &params["arguments"];
            let key = (arguments["n"].as_u64().unwrap(), arguments["structured"] == true);
            with_id(id, results.entry(key).or_insert_with(|| result(key.0, key.1)))
        }
        "initialize" => with_id(id, &capabilities(&params["protocolVersion"]).to_string()),
        "tools/list" => with_id(id, &json!({"tools": [tool()]}).to_string()),
        _ => with_id(id, "{}"),
    }
}

fn with_id(id: &Value, result: &str) -> Vec<u8> {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes()
}

fn capabilities(revision: &Value) -> Value {
    json!({
        "protocolVersion": revision,
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "bench-upstream", "version": "1"},
    })
}

fn tool() -> Value {
    let properties = json!({"n": {"type": "integer"}, "structured": {"type": "boolean"}});
    json!({"name": TOOL, "description": "synthetic records", "inputSchema": {"type": "object", "properties": properties}})
}

fn result(records: u64, structured: bool) -> String {
    let payload = synthetic::payload(usize::try_from(records).unwrap());
    let text = serde_json::to_string(&payload).unwrap();
    let more = if structured { format!(",\"structuredContent\":{payload}") } else { String::new() };
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":false{more}}}"#)
}
