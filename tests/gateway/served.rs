//! The gateway that is a component, in `wasmtime serve`: composed before a server that is a component, and before servers over HTTP.

use std::fs;
use std::path::PathBuf;
use std::sync::LazyLock;

use lro_host::compose::{Files, compose};
use lro_host::middleware::{FORWARD, middleware};
use lro_host::policy::DEFAULT_POLICY;
use lro_tests::{component, read, target, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, tool_call};
use crate::http::{Exchange, Headers, Reply, Session, post};
use crate::support::{Environment, Process, path_text, words};
use crate::wire::request;

/// Records whose text is above the default threshold.
const MANY: u64 = 2_000;

/// The server that is a component.
pub(crate) fn server() -> Vec<u8> {
    component("lro_test_server")
}

/// The default policy before the server that is a component.
static BEFORE_SERVER: LazyLock<Vec<u8>> = LazyLock::new(|| before(DEFAULT_POLICY, &server()));

fn before(policy: &[u8], server: &[u8]) -> Vec<u8> {
    with_files(policy, Files::Memory, server)
}

fn with_files(policy: &[u8], files: Files, server: &[u8]) -> Vec<u8> {
    middleware(&compose(policy, files).unwrap(), files, Some(server)).unwrap()
}

/// A policy before a server elsewhere.
pub(crate) fn edge(policy: &[u8]) -> Vec<u8> {
    before(policy, FORWARD)
}

/// A component in `wasmtime serve`.
pub(crate) struct Served {
    process: Process,
    pub(crate) url: String,
    _files: TempDir,
}

impl Served {
    pub(crate) fn start(component: &[u8], variables: &[(&str, &str)]) -> Self {
        Self::with(component, variables, &[])
    }

    /// With more flags of `wasmtime serve`.
    pub(crate) fn with(component: &[u8], variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let program = target().join("release/wasmtime-serve");
        assert!(program.exists(), "{} is not there: run `make wasmtime`", program.display());
        let files = TempDir::new().unwrap();
        let file = files.path().join("component.wasm");
        fs::write(&file, component).unwrap();
        let mut command = vec![path_text(&program)];
        command.extend(words(&["--addr", "127.0.0.1:0"]));
        command.extend(words(flags));
        for (name, value) in variables {
            command.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        command.push(path_text(&file));
        let mut process = Process::start(&command, &Environment::new());
        let url = format!("{}mcp", process.told("Serving HTTP on "));
        Self { process, url, _files: files }
    }
}

/// A call of the tool `records`.
fn records(id: u64, count: u64, stream: bool) -> Value {
    tool_call(id, "records", json!({"count": count, "stream": stream}))
}

fn ask(url: &str, message: &Value) -> Reply {
    let reply = post(url, &[], message);
    assert!(reply.whole, "cut: {}", reply.text());
    reply
}

/// What the server says of itself, without what depends on when it was said.
fn said(reply: &Reply) -> (u16, Option<&String>, String) {
    (reply.status, reply.headers.get("content-type"), reply.text())
}

// What the policy lets pass is the server's, and so is all that is no message.
#[test]
fn what_passes_through_a_component_is_the_servers() {
    let (alone, gate) = (Served::start(&server(), &[]), Served::start(&BEFORE_SERVER, &[]));
    let messages = [
        records(1, 3, false),
        records(2, 3, true),
        tool_call(3, "fail", json!({})),
        request(4, "initialize", json!({"protocolVersion": "2025-11-25"})),
        request(5, "ping", json!({})),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"no": "message"}),
    ];
    for message in &messages {
        assert_eq!(said(&ask(&gate.url, message)), said(&ask(&alone.url, message)), "{message}");
    }
    for bytes in [0, 1, 100_000, 3_000_000] {
        let page = |url: &str| Exchange::open(&format!("{url}?{bytes}"), "GET", &[], b"").finish();
        let (through, direct) = (page(&gate.url), page(&alone.url));
        assert_eq!((through.status, through.whole, &through.body), (direct.status, direct.whole, &direct.body));
    }
}

// Truncation, rejection and errors are those of the gateway in Rust, byte for byte.
#[test]
fn a_component_answers_as_the_gateway_does() {
    let alone = Served::start(&server(), &[]);
    let cases: [(&str, &[&str]); 3] = [
        (r#"{"action":"truncate","threshold":4000}"#, &["--action", "truncate", "--threshold", "4000"]),
        (r#"{"action":"reject","threshold":4000}"#, &["--action", "reject", "--threshold", "4000"]),
        (r#"{"mode":"never"}"#, &["--mode", "never"]),
    ];
    for (settings, flags) in cases {
        let gate = Served::start(&BEFORE_SERVER, &[("LRO_SETTINGS", settings)]);
        let gateway = Gate::proxy(flags, &alone.url, &Environment::new());
        for message in [records(1, MANY, false), records(2, MANY, true), records(3, 2, false), tool_call(4, "fail", json!({}))] {
            let (component, rust) = (ask(&gate.url, &message), ask(&gateway.url, &message));
            assert_eq!(said(&component), said(&rust), "{settings} {message}");
        }
    }
}

// A descriptor comes in the place of what is offloaded, in an event whose other lines stay.
#[test]
fn a_component_offloads_answers_and_events() {
    let gate = Served::start(&BEFORE_SERVER, &[]);
    let reply = ask(&gate.url, &records(7, MANY, false));
    let answer = reply.answer();
    assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(7), &json!("2.0")));
    let descriptor: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(descriptor, answer["result"]["structuredContent"]);
    assert_eq!(descriptor["offloaded"], true);
    assert!(reply.body.len() < 4_000, "{}", reply.text());
    let reply = ask(&gate.url, &records(8, MANY, true));
    let text = reply.text();
    let (before, last) = text.split_once("id: 2\r\nevent: message\r\ndata: ").unwrap();
    let direct = ask(&Served::start(&server(), &[]).url, &records(8, MANY, true)).text();
    assert!(direct.starts_with(before) && !before.is_empty(), "{before}");
    let last: Value = serde_json::from_str(last.strip_suffix("\r\n\r\n").unwrap()).unwrap();
    assert_eq!(last["result"]["structuredContent"]["offloaded"], true);
}

// A client that validates accepts what comes in the place of a result.
#[test]
fn a_component_widens_output_schemas() {
    let gate = Served::start(&BEFORE_SERVER, &[]);
    let tools = ask(&gate.url, &request(1, "tools/list", json!({}))).answer()["result"]["tools"].clone();
    let direct = ask(&Served::start(&server(), &[]).url, &request(1, "tools/list", json!({}))).answer();
    let own = &direct["result"]["tools"];
    assert_eq!(tools.as_array().unwrap().len(), own.as_array().unwrap().len());
    assert_ne!(tools[0]["outputSchema"], own[0]["outputSchema"]);
    assert_eq!(tools[1], own[1]);
}

// Messages above a limit are refused, in both directions, with an error that names it.
#[test]
fn a_component_refuses_what_is_above_its_limits() {
    let limits = [("LRO_MESSAGE_BYTES", "100000"), ("LRO_REQUEST_BYTES", "1000")];
    let gate = Served::start(&BEFORE_SERVER, &limits);
    let refused = "the message has more than 100000 bytes: raise the limit `LRO_MESSAGE_BYTES`";
    for stream in [false, true] {
        let answer = ask(&gate.url, &records(1, MANY, stream)).answer();
        assert_eq!((answer["id"].clone(), answer["error"]["message"].clone()), (json!(1), json!(refused)));
    }
    let long = tool_call(1, "records", json!({"count": 1, "more": "x".repeat(2_000)}));
    let reply = ask(&gate.url, &long);
    assert_eq!(reply.status, 413, "{}", reply.text());
    assert!(reply.text().contains("LRO_REQUEST_BYTES"), "{}", reply.text());
    assert_eq!(ask(&gate.url, &records(1, 1, false)).status, 200);
}

#[test]
fn a_component_names_the_variable_at_fault() {
    for (variable, value) in [("LRO_SETTINGS", r#"{"treshold":1}"#), ("LRO_MESSAGE_BYTES", "much")] {
        let gate = Served::start(&BEFORE_SERVER, &[(variable, value)]);
        let reply = ask(&gate.url, &records(1, 1, false));
        assert_eq!(reply.status, 500);
        assert!(reply.text().contains(variable), "{}", reply.text());
    }
}
