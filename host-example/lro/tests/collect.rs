//! `lro collect`, before a FastMCP server that returns lists in pages.
#![expect(clippy::unwrap_used, reason = "in helpers of tests too, a failure is to end the test")]

mod support;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use support::{Home, stderr};

/// Records of the list, in pages of 50.
const COUNT: u64 = 1_010;

impl Home {
    /// Collects the pages of a tool of the server.
    fn collect(&self, tool: &str, flags: &[&str]) -> Command {
        let arguments = json!({ "count": COUNT }).to_string();
        let [python, server] = server();
        let mut command = self.lro(&["collect", "--tool", tool, "--arguments", &arguments]);
        command.args(flags).arg("--").arg(python).arg(server);
        command
    }

    /// The ids of the records of an offload.
    fn ids(&self, handle: &str) -> Vec<u64> {
        let limit = COUNT.to_string();
        let output = self.lro(&["extract", handle, "--limit", &limit, "--select", "id"]).output().unwrap();
        ids(&String::from_utf8(output.stdout).unwrap())
    }
}

/// The command of the server.
fn server() -> [PathBuf; 2] {
    let python = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("test-data/venv/bin/python");
    assert!(python.exists(), "{} is missing: run `make test-data`", python.display());
    [python, Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/tools/clients/list_server.py")]
}

fn ids(lines: &str) -> Vec<u64> {
    lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].as_u64().unwrap()).collect()
}

fn all(count: u64) -> Vec<u64> {
    (0..count).collect()
}

/// The path of the only file of a descriptor.
fn file(descriptor: &Value) -> &str {
    descriptor["files"].as_object().unwrap().values().next().unwrap().as_str().unwrap()
}

fn code(output: &Output) -> Option<i32> {
    output.status.code()
}

#[test]
fn all_pages_are_one_offload() {
    let home = Home::new();
    let output = home.collect("by_cursor", &[]).output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""));
    let descriptor: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(descriptor["collected"], json!({"pages": 21, "records": COUNT, "complete": true}), "{descriptor}");
    assert_eq!(home.ids(file(&descriptor)), all(COUNT));
}

// Flags say how pages follow, and what they leave open the configuration says.
#[test]
fn flags_say_how_pages_follow() {
    let home = Home::new();
    fs::write(home.path("lro.toml"), "[tools.uneven.collect]\nstyle = \"offset\"\nitems = \"/records\"\n").unwrap();
    let flags = ["--config", "lro.toml", "--argument", "offset", "--concurrency", "4", "--handle"];
    let output = home.collect("uneven", &flags).output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), ""));
    assert_eq!(home.ids(String::from_utf8(output.stdout).unwrap().trim()), all(COUNT));
}

#[test]
fn a_file_gets_one_record_a_line() {
    let home = Home::new();
    let output = home.collect("in_text", &["--output", "list.jsonl"]).output().unwrap();
    let said = stderr(&output);
    assert_eq!((code(&output), said.as_str(), output.stdout.len()), (Some(0), "1,010 records in list.jsonl\n", 0));
    assert_eq!(ids(&fs::read_to_string(home.path("list.jsonl")).unwrap()), all(COUNT));
    let left: Vec<_> = fs::read_dir(home.0.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().contains("resume")), "{left:?}");
    // Another collection does not replace it unasked.
    let again = home.collect("edges", &["--output", "list.jsonl"]).output().unwrap();
    assert!(code(&again) == Some(1) && stderr(&again).contains("--force"), "{again:?}");
    let forced = home.collect("limited", &["--output", "list.jsonl", "--force"]).output().unwrap();
    assert_eq!(code(&forced), Some(0), "{}", stderr(&forced));
}

// What came before an early end is kept, and the rest is added to it.
#[test]
fn an_early_end_can_be_gone_on_with() {
    let home = Home::new();
    let first = home.collect("by_cursor", &["--output", "list.jsonl", "--pages-max", "4"]).output().unwrap();
    let said = stderr(&first);
    assert!(code(&first) == Some(1) && said.contains("pages-max") && said.contains("--resume list.jsonl"), "{said}");
    // As if it had been killed in the middle of a page.
    let path = home.path("list.jsonl");
    fs::write(&path, fs::read_to_string(&path).unwrap() + "{\"id\": 20").unwrap();
    let rest = home.collect("by_cursor", &["--resume", "list.jsonl"]).output().unwrap();
    assert_eq!((code(&rest), stderr(&rest).as_str()), (Some(0), "1,010 records in list.jsonl\n"));
    assert_eq!(ids(&fs::read_to_string(&path).unwrap()), all(COUNT));

    let first = home.collect("by_offset", &["--handle", "--pages-max", "4"]).output().unwrap();
    assert!(code(&first) == Some(1) && stderr(&first).contains("--resume HANDLE"), "{first:?}");
    let handle = String::from_utf8(first.stdout).unwrap();
    assert_eq!(home.ids(handle.trim()), all(200));
    let rest = home.collect("by_offset", &["--resume", handle.trim()]).output().unwrap();
    let descriptor: Value = serde_json::from_slice(&rest.stdout).unwrap();
    assert_eq!((code(&rest), &descriptor["collected"]["records"]), (Some(0), &json!(COUNT)), "{}", stderr(&rest));
    let whole = file(&descriptor);
    assert_eq!(home.ids(whole), all(COUNT));
    let again = home.collect("by_offset", &["--resume", whole]).output().unwrap();
    assert!(code(&again) == Some(1) && stderr(&again).contains("is whole"), "{again:?}");
}

// An interruption keeps what came, in either form, and -9 what a file has.
#[test]
fn an_interruption_keeps_what_came() {
    let home = Home::new();
    for (signal, file) in [("-INT", "a.jsonl"), ("-KILL", "b.jsonl")] {
        let mut child = home.collect("slow", &["--output", file]).stderr(Stdio::null()).spawn().unwrap();
        while !home.path(&format!("{file}.resume")).exists() {
            std::thread::sleep(Duration::from_millis(20));
        }
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.code(), if signal == "-INT" { Some(1) } else { None });
        assert_eq!(ids(&fs::read_to_string(home.path(file)).unwrap()), all(50));
        // The rest comes from a tool that is faster.
        let rest = home.collect("by_cursor", &["--resume", file]).output().unwrap();
        assert_eq!(code(&rest), Some(0), "{}", stderr(&rest));
        assert_eq!(ids(&fs::read_to_string(home.path(file)).unwrap()), all(COUNT));
    }
}

/// Serves two pages over HTTP. The first two calls are refused, with these headers. Returns the URL, and counts the calls.
fn refusing_server(refusals: [String; 2]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while {
                line.clear();
                stream.read_line(&mut line).unwrap() > 2
            } {
                if let Some(("content-length", value)) = line.to_ascii_lowercase().split_once(": ") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            stream.read_exact(&mut body).unwrap();
            let message: Value = serde_json::from_slice(&body).unwrap_or_default();
            let result = match message["method"].as_str() {
                Some("initialize") => Some(json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "refusing", "version": "1"}})),
                Some("tools/list") => Some(json!({"tools": [{"name": "list", "inputSchema":
                    {"type": "object", "properties": {"cursor": {"type": "string"}}}}]})),
                Some("tools/call") => match counted.fetch_add(1, Ordering::SeqCst) {
                    0 | 1 => None,
                    2 => Some(json!({"content": [], "structuredContent": {"items": [{"id": 0}], "nextCursor": "b"}})),
                    _ => Some(json!({"content": [], "structuredContent": {"items": [{"id": 1}]}})),
                },
                _ => None,
            };
            let answer = match (result, message["method"].as_str()) {
                (Some(result), _) => {
                    let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                    format!("200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
                }
                (None, Some("tools/call")) => {
                    format!("{}\r\nContent-Length: 4\r\n\r\nbusy", refusals[counted.load(Ordering::SeqCst) - 1])
                }
                (None, Some(_)) => "202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
                (None, None) => "405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            stream.get_mut().write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    (url, calls)
}

#[test]
fn a_server_over_http_is_given_the_time_it_asks_for() {
    let home = Home::new();
    let date =
        Command::new("date").args(["-u", "-d", "+2 seconds", "+%a, %d %b %Y %H:%M:%S GMT"]).env("LC_ALL", "C").output();
    let date = String::from_utf8(date.unwrap().stdout).unwrap();
    let (url, calls) = refusing_server([
        "503 Service Unavailable\r\nRetry-After: 1".to_owned(),
        format!("429 Too Many Requests\r\nRetry-After: {}", date.trim()),
    ]);
    let output = home.lro(&["collect", "--tool", "list", "--url", &url, "--output", "list.jsonl"]).output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), "2 records in list.jsonl\n"));
    assert_eq!(ids(&fs::read_to_string(home.path("list.jsonl")).unwrap()), [0, 1]);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    // Not longer than allowed.
    let (url, calls) = refusing_server(["503 Service Unavailable\r\nRetry-After: 600".to_owned(), String::new()]);
    let flags = ["collect", "--tool", "list", "--url", &url, "--milliseconds-max", "30000"];
    let output = home.lro(&flags).output().unwrap();
    assert!(code(&output) == Some(1) && stderr(&output).contains("retry-after: 600"), "{}", stderr(&output));
    assert_eq!(calls.load(Ordering::SeqCst), 1);
}

#[test]
fn what_cannot_be_collected_is_said() {
    let home = Home::new();
    let cases = [
        (home.collect("absent", &["--output", "none.jsonl"]), 1, "no tool `absent`; it has: by_cursor"),
        (home.collect("failing", &["--arguments", "{}"]), 2, "cannot be used multiple times"),
        (home.lro(&["collect", "--tool", "x"]), 1, "no server given"),
        (home.lro(&["collect", "--", "true", "--tool", "x", "--arguments", "{}"]), 2, "options of lro go before it"),
        (home.lro(&["collect", "--", "true", "x"]), 2, "--tool <NAME>"),
        (home.lro(&["collect", "--tool", "x", "--arguments", "[]", "--", "true"]), 2, "--arguments"),
        (home.lro(&["collect", "--tool", "x", "--url", "ftp://a"]), 2, "expected http"),
        (
            home.lro(&["collect", "--tool", "x", "--resume", "nothing", "--", "true"]),
            1,
            "`nothing` is neither a handle",
        ),
        (home.lro(&["collect", "--tool", "x", "--", "true"]), 1, "server"),
    ];
    for (mut command, wanted, text) in cases {
        let output = command.output().unwrap();
        assert_eq!(code(&output), Some(wanted), "{text}: {}", stderr(&output));
        assert!(stderr(&output).contains(text), "{text}: {}", stderr(&output));
    }
    assert!(!home.path("none.jsonl").exists(), "a file without a page is left");
}
