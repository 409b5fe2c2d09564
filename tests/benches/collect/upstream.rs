//! A bare MCP server on standard input and output whose tools return one list in pages, each as text and structured content.
//! The benchmark runs itself as this server.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

/// The argument that runs the benchmark as this server.
pub(crate) const ARGUMENT: &str = "--paged-server";

/// The tool whose pages each give the cursor of the next.
pub(crate) const BY_CURSOR: &str = "by_cursor";

/// The tool whose pages are numbered, and take a while.
pub(crate) const BY_PAGE: &str = "by_page";

/// Records of a page.
pub(crate) const PAGE_RECORDS: u64 = 1_000;

/// How long a numbered page takes.
const DELAY: Duration = Duration::from_millis(20);

/// Answers until its input ends. Numbered pages are made at the same time.
pub(crate) fn serve() {
    let output = Arc::new(Mutex::new(std::io::stdout()));
    for line in BufReader::new(std::io::stdin()).lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        if message["id"].is_null() {
            continue;
        }
        let is_slow = message["params"]["name"] == BY_PAGE;
        let output = Arc::clone(&output);
        let answer = move || {
            let answer = answer(&message);
            output.lock().unwrap().write_all(answer.as_bytes()).unwrap();
        };
        if is_slow {
            std::thread::spawn(move || {
                std::thread::sleep(DELAY);
                answer();
            });
        } else {
            answer();
        }
    }
}

/// The answer as a line.
fn answer(message: &Value) -> String {
    let params = &message["params"];
    let result = match message["method"].as_str().unwrap() {
        "tools/call" => page(&params["arguments"]),
        "initialize" => {
            let server = json!({"name": "paged", "version": "1"});
            json!({"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": server})
                .to_string()
        }
        _ => {
            let schema = json!({"type": "object"});
            let tools = [BY_CURSOR, BY_PAGE].map(|name| json!({"name": name, "inputSchema": schema}));
            json!({ "tools": tools }).to_string()
        }
    };
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{result}}}\n", message["id"])
}

/// The page that these arguments select, of as many as they say.
fn page(arguments: &Value) -> String {
    let pages = arguments["pages"].as_u64().unwrap();
    let number = match arguments["cursor"].as_str() {
        Some(cursor) => cursor.parse().unwrap(),
        None => arguments["page"].as_u64().unwrap_or(1),
    };
    let mut document = format!(r#"{{"total":{},"items":["#, pages * PAGE_RECORDS);
    for index in 0..PAGE_RECORDS {
        let id = (number - 1) * PAGE_RECORDS + index;
        let comma = if index == 0 { "" } else { "," };
        write!(
            document,
            r#"{comma}{{"id":{id},"name":"record number {id}","kind":"{}","score":0.{},"place":{{"x":{},"y":{}}}}}"#,
            ["first", "second", "third"][(id % 3) as usize],
            id % 997,
            id % 360,
            id % 180,
        )
        .unwrap();
    }
    let next = if number < pages { format!("\"{}\"", number + 1) } else { "null".to_owned() };
    write!(document, r#"],"nextCursor":{next}}}"#).unwrap();
    let text = serde_json::to_string(&document).unwrap();
    format!(r#"{{"content":[{{"type":"text","text":{text}}}],"structuredContent":{document},"isError":false}}"#)
}
