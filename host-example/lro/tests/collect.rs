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
    let more = home.collect("by_cursor", &["--resume", "list.jsonl"]).output().unwrap();
    assert!(
        code(&more) == Some(1) && stderr(&more).contains("list.jsonl is complete, or has no list.jsonl.resume"),
        "{more:?}"
    );

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

/// What a server over HTTP answers to a call.
enum Reply {
    Page(Value),
    /// An error of HTTP: the rest of its status line, and headers.
    Refused(String),
    /// The connection stays open without an answer.
    Silence,
}

/// The last page has no `next`.
fn page(id: u64, next: Option<&str>) -> Reply {
    let mut list = json!({"items": [{ "id": id }]});
    next.iter().for_each(|next| list["nextCursor"] = (*next).into());
    Reply::Page(json!({"content": [], "structuredContent": list}))
}

/// Serves a list over HTTP; `reply` answers the call of this number, from 0 on. Returns the URL, and counts the calls.
fn list_server(reply: impl Fn(usize) -> Reply + Send + 'static) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let calls = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&calls);
    std::thread::spawn(move || {
        let mut silent = Vec::new();
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
            let ok = |result: Value| {
                let body = json!({"jsonrpc": "2.0", "id": message["id"], "result": result}).to_string();
                format!("200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}", body.len())
            };
            let answer = match message["method"].as_str() {
                Some("initialize") => ok(json!({"protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                    "serverInfo": {"name": "list", "version": "1"}})),
                Some("tools/list") => ok(json!({"tools": [{"name": "list", "inputSchema":
                    {"type": "object", "properties": {"cursor": {"type": "string"}}}}]})),
                Some("tools/call") => match reply(counted.fetch_add(1, Ordering::SeqCst)) {
                    Reply::Page(result) => ok(result),
                    Reply::Refused(head) => format!("{head}\r\nContent-Length: 4\r\n\r\nbusy"),
                    Reply::Silence => {
                        silent.push(stream);
                        continue;
                    }
                },
                Some(_) => "202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned(),
                None => "405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n".to_owned(),
            };
            let answer = answer.replacen("\r\n", "\r\nConnection: close\r\n", 1);
            stream.get_mut().write_all(format!("HTTP/1.1 {answer}").as_bytes()).unwrap();
        }
    });
    (url, calls)
}

// An offload is made of what came, marked incomplete, with what the next run goes on with.
#[test]
fn an_interruption_keeps_an_offload() {
    let home = Home::new();
    for signal in ["-INT", "-TERM"] {
        let (url, calls) = list_server(|call| if call == 0 { page(0, Some("b")) } else { Reply::Silence });
        let mut command = home.lro(&["collect", "--tool", "list", "--upstream", &url]);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // The first page is kept in the same step in which the second is asked for.
        while calls.load(Ordering::SeqCst) < 2 {
            std::thread::sleep(Duration::from_millis(20));
        }
        Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(code(&output) == Some(1) && said.contains("only 1: interrupted"), "{signal}: {said}");
        assert!(said.contains("--resume HANDLE"), "{signal}: {said}");
        let descriptor: Value = serde_json::from_slice(&output.stdout).unwrap();
        let collected = &descriptor["collected"];
        assert_eq!((&collected["records"], &collected["complete"]), (&json!(1), &json!(false)), "{descriptor}");
        assert_eq!(collected["next"], json!({"cursor": "b"}), "{descriptor}");
    }
}

#[test]
fn a_server_over_http_is_given_the_time_it_asks_for() {
    let home = Home::new();
    let date =
        Command::new("date").args(["-u", "-d", "+2 seconds", "+%a, %d %b %Y %H:%M:%S GMT"]).env("LC_ALL", "C").output();
    let date = String::from_utf8(date.unwrap().stdout).unwrap();
    let (url, calls) = list_server(move |call| match call {
        0 => Reply::Refused("503 Service Unavailable\r\nRetry-After: 1".to_owned()),
        1 => Reply::Refused(format!("429 Too Many Requests\r\nRetry-After: {}", date.trim())),
        2 => page(0, Some("b")),
        _ => page(1, None),
    });
    let output = home.lro(&["collect", "--tool", "list", "--url", &url, "--output", "list.jsonl"]).output().unwrap();
    assert_eq!((code(&output), stderr(&output).as_str()), (Some(0), "2 records in list.jsonl\n"));
    assert_eq!(ids(&fs::read_to_string(home.path("list.jsonl")).unwrap()), [0, 1]);
    assert_eq!(calls.load(Ordering::SeqCst), 4);
    // Not longer than allowed.
    let (url, calls) = list_server(|_| Reply::Refused("503 Service Unavailable\r\nRetry-After: 600".to_owned()));
    let flags = ["collect", "--tool", "list", "--upstream", &url, "--milliseconds-max", "30000"];
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
        (home.lro(&["collect", "--tool", "x", "--upstream", "ftp://a"]), 2, "expected http"),
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
