//! The gateway that is a component, in `wasmtime serve`: composed before a server that is a component, and before servers over HTTP.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;
use std::sync::{LazyLock, mpsc};

use lro_handler::{FORWARD, middleware};
use lro_host::compose::{Files, compose};
use lro_host::policy::DEFAULT_POLICY;
use lro_tests::{component, imports, target};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::{Client, Connection, Way};
use crate::faults::{Gate, tool_call};
use crate::http::{Exchange, Reply, post};
use crate::servers::{everything_over_http, paged_over_http};
use crate::support::{Environment, Process, lro, path_text, words};
use crate::wire::request;

/// Records whose text is above the default threshold.
pub(crate) const MANY: u64 = 2_000;

/// Records in an answer of which the component holds nothing itself: 3 MB.
const LONG: u64 = 20_000;

/// The server that is a component.
pub(crate) fn server() -> Vec<u8> {
    component("lro_test_server.wasm")
}

/// The default policy before the server that is a component.
static BEFORE_SERVER: LazyLock<Vec<u8>> = LazyLock::new(|| before(DEFAULT_POLICY, &server()));

fn before(policy: &[u8], server: &[u8]) -> Vec<u8> {
    with_files(policy, Files::Memory, server)
}

pub(crate) fn with_files(policy: &[u8], files: Files, server: &[u8]) -> Vec<u8> {
    middleware(&compose(policy, files).unwrap(), files, Some(server)).unwrap()
}

/// A policy before a server elsewhere.
pub(crate) fn edge(policy: &[u8]) -> Vec<u8> {
    before(policy, FORWARD)
}

/// A component in `wasmtime serve`.
pub(crate) struct Served {
    _process: Process,
    pub(crate) url: String,
    _files: TempDir,
}

impl Served {
    pub(crate) fn start(component: &[u8], variables: &[(&str, &str)]) -> Self {
        Self::with(component, variables, &[])
    }

    /// With more flags of `wasmtime serve`.
    pub(crate) fn with(component: &[u8], variables: &[(&str, &str)], flags: &[&str]) -> Self {
        let program = target().join("test-data/wasmtime");
        assert!(program.exists(), "{} is not there: run `make test-data`", program.display());
        let files = TempDir::new().unwrap();
        let [file, cache] = ["component.wasm", "cache.toml"].map(|name| files.path().join(name));
        fs::write(&file, component).unwrap();
        // Many tests serve the same component, which takes seconds to compile.
        let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wasmtime");
        fs::write(&cache, format!("[cache]\ndirectory = {:?}\n", path_text(&compiled))).unwrap();
        let mut command = vec![path_text(&program)];
        command.extend(words(&["serve", "--addr", "127.0.0.1:0"]));
        command.extend(words(&["-C", &format!("cache-config={}", path_text(&cache))]));
        command.extend(words(flags));
        for (name, value) in variables {
            command.extend(["--env".to_owned(), format!("{name}={value}")]);
        }
        command.push(path_text(&file));
        let mut process = Process::start(&command, &Environment::new());
        let url = format!("{}mcp", process.told("Serving HTTP on "));
        Self { _process: process, url, _files: files }
    }
}

/// A call of the tool `records`.
pub(crate) fn records(id: u64, count: u64, stream: bool) -> Value {
    tool_call(id, "records", json!({"count": count, "stream": stream}))
}

pub(crate) fn ask(url: &str, message: &Value) -> Reply {
    let reply = post(url, &[], message);
    assert!(reply.whole, "cut: {}", reply.text());
    reply
}

/// What the server says of itself, without what depends on when it was said.
pub(crate) fn said(reply: &Reply) -> (u16, Option<&String>, String) {
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
    let bounded = bounded(DEFAULT_POLICY, "4000000000");
    let cases: [(&str, &[&str]); 3] = [
        (r#"{"action":"truncate","threshold":4000}"#, &["--action", "truncate", "--threshold", "4000"]),
        (r#"{"action":"reject","threshold":4000}"#, &["--action", "reject", "--threshold", "4000"]),
        (r#"{"mode":"never"}"#, &["--mode", "never"]),
    ];
    for (settings, flags) in cases {
        let gates =
            [&*BEFORE_SERVER, &bounded].map(|component| Served::start(component, &[("LRO_SETTINGS", settings)]));
        let gateway = Gate::proxy(flags, &alone.url, &Environment::new());
        let many = [MANY, LONG].map(|count| [records(1, count, false), records(2, count, true)]).concat();
        for message in many.into_iter().chain([records(3, 2, false), tool_call(4, "fail", json!({}))]) {
            let rust = ask(&gateway.url, &message);
            for gate in &gates {
                assert_eq!(said(&ask(&gate.url, &message)), said(&rust), "{settings} {message}");
            }
        }
    }
}

// A descriptor comes in the place of what is offloaded, in an event whose other lines stay.
#[test]
fn a_component_offloads_answers_and_events() {
    let (gate, alone) = (Served::start(&BEFORE_SERVER, &[]), Served::start(&server(), &[]));
    for count in [MANY, LONG] {
        let reply = ask(&gate.url, &records(7, count, false));
        let answer = reply.answer();
        assert_eq!((&answer["id"], &answer["jsonrpc"]), (&json!(7), &json!("2.0")));
        let text = answer["result"]["content"][0]["text"].as_str().unwrap();
        let descriptor: Value = serde_json::from_str(text).unwrap();
        assert_eq!(descriptor, answer["result"]["structuredContent"]);
        assert_eq!(descriptor["offloaded"], true);
        assert!(reply.body.len() < 4_000, "{}", reply.text());
        let reply = ask(&gate.url, &records(8, count, true));
        let text = reply.text();
        let (before, last) = text.split_once("id: 2\r\nevent: message\r\ndata: ").unwrap();
        let direct = ask(&alone.url, &records(8, count, true)).text();
        assert!(direct.starts_with(before) && !before.is_empty(), "{before}");
        let last: Value = serde_json::from_str(last.strip_suffix("\r\n\r\n").unwrap()).unwrap();
        assert_eq!(last["result"]["structuredContent"]["offloaded"], true);
    }
}

/// A server that answers each request with this event stream. It goes on for as long as the process.
fn streaming(body: String) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            read_request(&mut stream);
            let head = "HTTP/1.1 200 Yes\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
            // Whoever has read enough may be gone.
            let _ = stream.into_inner().write_all([head, &body].concat().as_bytes());
        }
    });
    url
}

// Whatever the lines of a long event are, it becomes what the gateway in Rust makes of it.
#[test]
fn a_component_reads_long_events_of_any_form() {
    let text = json!((0..LONG).map(|id| json!({"id": id, "name": format!("record {id}")})).collect::<Vec<_>>());
    let result = json!({"content": [{"type": "text", "text": text.to_string()}]});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result}).to_string();
    let (start, end) = answer.split_once(r#""jsonrpc""#).unwrap();
    let other = json!({"jsonrpc": "2.0", "id": 2, "result": result});
    let long = "x".repeat(700_000);
    let settings = r#"{"action":"truncate","threshold":4000}"#;
    for body in [
        format!("event: message\ndata: {answer}\n\ndata: {other}\n\n"),
        format!("data:{answer}\nid: 7\n\n"),
        format!("data: {start}\r\ndata: \"jsonrpc\"{end}\r\n\r\n"),
        format!("data: {answer}\ndata: \n\n"),
        format!(": {{\ndata: {answer}\n\n"),
        format!(": {long}\ndata: {answer}\n\n"),
        format!("id: 3\rdata: {answer}\r\rdata: {other}\r\r"),
        format!("\u{feff}data: {answer}\n\n"),
        format!("data: {answer}"),
        format!("data: {long}\n\ndata: {answer}\n\n"),
    ] {
        let upstream = streaming(body.clone());
        let variables = [("LRO_UPSTREAM", upstream.as_str()), ("LRO_SETTINGS", settings)];
        let gate = Served::start(&edge(DEFAULT_POLICY), &variables);
        let flags = ["--action", "truncate", "--threshold", "4000"];
        let gateway = Gate::proxy(&flags, &upstream, &Environment::new());
        let message = records(1, LONG, true);
        let (component, rust) = (ask(&gate.url, &message), ask(&gateway.url, &message));
        assert_eq!(said(&component), said(&rust), "{}…", &body[..40]);
    }
}

/// Reads a request from a stream.
fn read_request(stream: &mut impl BufRead) {
    let (mut line, mut length) = (String::new(), 0);
    while stream.read_line(&mut line).unwrap() > 2 {
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().unwrap();
        }
        line.clear();
    }
    stream.read_exact(&mut vec![0; length]).unwrap();
}

// An event arrives before the server says the next one: it says it only when told that the first has arrived.
#[test]
fn a_component_forwards_events_at_once() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (arrived, told) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let mut stream = BufReader::new(listener.accept().unwrap().0);
        read_request(&mut stream);
        let mut stream = stream.into_inner();
        let head = "HTTP/1.1 200 Yes\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n";
        let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1}}"#;
        stream.write_all(format!("{head}data: {notification}\n\n").as_bytes()).unwrap();
        told.recv().unwrap();
        let text =
            json!((0..MANY).map(|id| json!({"id": id, "name": format!("record number {id}")})).collect::<Vec<_>>());
        let result = json!({"content": [{"type": "text", "text": text.to_string()}]});
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": result});
        stream.write_all(format!("data: {answer}\n\n").as_bytes()).unwrap();
    });
    let gate = Served::start(&edge(DEFAULT_POLICY), &[("LRO_UPSTREAM", &url)]);
    let mut exchange = Exchange::open(&gate.url, "POST", &[], records(1, MANY, true).to_string().as_bytes());
    assert_eq!(exchange.event().unwrap()["method"], "notifications/message");
    arrived.send(()).unwrap();
    assert_eq!(descriptor(&exchange.event().unwrap()["result"])["offloaded"], true);
    assert_eq!(exchange.event(), None);
    server.join().unwrap();
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
    for (variable, value) in
        [("LRO_SETTINGS", r#"{"treshold":1}"#), ("LRO_MESSAGE_BYTES", "much"), ("LRO_TTL_SECONDS", "0")]
    {
        let gate = Served::start(&BEFORE_SERVER, &[(variable, value)]);
        let reply = ask(&gate.url, &records(1, 1, false));
        assert_eq!(reply.status, 500);
        assert!(reply.text().contains(variable), "{}", reply.text());
    }
}

// Real servers, and real clients that validate: what is small is the server's, what is large is a descriptor.
#[test]
fn real_clients_and_servers_meet_through_a_component() {
    let (legacy, modern) = (everything_over_http(), paged_over_http());
    let component = edge(DEFAULT_POLICY);
    let gate = |url: &str| Served::start(&component, &[("LRO_UPSTREAM", url)]);
    let (legacy_gate, modern_gate) = (gate(&legacy.url), gate(&modern.url));
    let message = "a line of text\n".repeat(5_000);
    std::thread::scope(|scope| {
        for client in Client::ALL {
            let (direct, through) = (Way::Url(legacy.url.clone()), Way::Url(legacy_gate.url.clone()));
            let (modern, message) = (Way::Url(modern_gate.url.clone()), &message);
            scope.spawn(move || {
                let small = json!({"name": "get-structured-content", "arguments": {"location": "Chicago"}});
                let mut connection = Connection::open(client, &through);
                assert_eq!(connection.call(&small), Connection::open(client, &direct).call(&small), "{client:?}");
                let large = connection.call(&json!({"name": "echo", "arguments": {"message": message}}));
                assert_eq!(descriptor(&large)["offloaded"], true, "{client:?}: {large}");
                let table = json!({"name": "table", "arguments": {"count": 3_001}});
                let table = Connection::open(client, &modern).call(&table);
                assert_eq!(descriptor(&table)["offloaded"], true, "{client:?}: {table}");
            });
        }
    });
}

pub(crate) fn descriptor(result: &Value) -> Value {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"));
    serde_json::from_str(text).unwrap_or_else(|_| panic!("no descriptor: {result}"))
}

// Offloads in a directory are whole, and the command reads them.
#[test]
fn a_component_keeps_files_in_a_directory() {
    let offloads = TempDir::new().unwrap();
    let directory = path_text(offloads.path());
    let component = with_files(DEFAULT_POLICY, Files::Directory, &server());
    let preopened = format!("{directory}::/");
    let gate = Served::with(&component, &[("LRO_SHOWN_DIR", &directory)], &["-S", "cli", "--dir", &preopened]);
    let handles: Vec<String> = std::thread::scope(|scope| {
        let ask =
            |id: u64| descriptor(&ask(&gate.url, &records(id, MANY + id, id.is_multiple_of(2))).answer()["result"]);
        let threads: Vec<_> = (1..9).map(|id| scope.spawn(move || (id, ask(id)))).collect();
        let of = |(id, descriptor): (u64, Value)| {
            let file = Path::new(descriptor["files"]["items"].as_str().unwrap()).to_owned();
            assert_eq!(fs::read_to_string(&file).unwrap().lines().count() as u64, MANY + id + 1);
            path_text(Path::new(file.parent().unwrap().file_name().unwrap()))
        };
        threads.into_iter().map(|thread| of(thread.join().unwrap())).collect()
    });
    for (handle, id) in handles.iter().zip(1..) {
        let mut command = Command::new(lro());
        let output = command.args(["extract", handle, "--dir", &directory, "--count"]).output().unwrap();
        let answer = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            answer.trim(),
            format!(r#"{{"count":{}}}"#, MANY + id),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    assert_eq!(ask(&gate.url, &records(1, 1, false)).status, 200);
    let names = fs::read_dir(offloads.path()).unwrap().map(|entry| path_text(Path::new(&entry.unwrap().file_name())));
    assert_eq!(names.filter(|name| name.starts_with(".staging-")).count(), 0, "a staging directory is left behind");
}

// Without a directory, an offload is an error of the host, and its failure mode answers.
#[test]
fn without_a_directory_the_failure_mode_answers() {
    let component = with_files(DEFAULT_POLICY, Files::Directory, &server());
    let gate = Served::with(&component, &[("LRO_SETTINGS", r#"{"failure":"closed"}"#)], &["-S", "cli"]);
    let answer = ask(&gate.url, &records(1, MANY, false)).answer();
    assert_eq!(answer["result"]["isError"], true, "{answer}");
    assert!(answer.to_string().contains("no directory is preopened"), "{answer}");
}

/// A policy before the server that is a component, as the command composes it with so much fuel.
fn bounded(policy_bytes: &[u8], fuel: &str) -> Vec<u8> {
    let files = TempDir::new().unwrap();
    let path = |name: &str| path_text(&files.path().join(name));
    let (policy, server_file, output) = (path("policy.wasm"), path("server.wasm"), path("composed.wasm"));
    fs::write(&policy, policy_bytes).unwrap();
    fs::write(&server_file, server()).unwrap();
    let arguments = ["compose", &policy, "-o", &output, "--http", &server_file, "--fuel", fuel];
    let run = Command::new(lro()).args(arguments).output().unwrap();
    assert!(run.status.success() && run.stderr.is_empty(), "{}", String::from_utf8_lossy(&run.stderr));
    fs::read(&output).unwrap()
}

// A policy that loops uses up its fuel: an error, about which its failure mode decides. It begins anew in the same instance.
#[test]
fn a_policy_that_loops_is_an_error_in_a_component() {
    let component = bounded(&component("lro_test_policies.wasm"), "100000000");
    let settings =
        |custom: &str, failure: &str| json!({"custom": custom, "mode": "always", "failure": failure}).to_string();
    let named = "the policy executed more than 100000000 instructions (limit fuel)";
    for custom in ["inspect-loop", "inspect-read", "inspect-read-bytewise"] {
        let gate = Served::start(&component, &[("LRO_SETTINGS", &settings(custom, "closed"))]);
        for id in 1..4 {
            let answer = ask(&gate.url, &records(id, 3, id == 2)).answer();
            assert_eq!(answer["result"]["isError"], true, "{custom}: {answer}");
            assert!(answer.to_string().contains(named), "{custom}: {answer}");
        }
    }
    let gate = Served::start(&component, &[("LRO_SETTINGS", &settings("inspect-loop", "open"))]);
    let alone = Served::start(&server(), &[]);
    let message = records(1, 3, false);
    assert_eq!(ask(&gate.url, &message).answer()["result"], ask(&alone.url, &message).answer()["result"]);

    let gate = Served::start(&component, &[("LRO_SETTINGS", &settings("inspect-loop-at:3", "closed"))]);
    let said: Vec<String> = (1..8).map(|id| ask(&gate.url, &records(id, 3, false)).answer().to_string()).collect();
    let expected = ["calls\\\":1", "calls\\\":2", named, "calls\\\":1", "calls\\\":2", named, "calls\\\":1"];
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.contains(expected), "{expected}: {said}");
    }
}

// So is a policy that panics or has no memory left. Other traps end its instance and its call; the next call gets another one.
#[test]
fn a_policy_that_panics_is_an_error_in_a_component() {
    let component = bounded(&component("lro_test_policies.wasm"), "4000000000");
    let start = |custom: &str| {
        let settings = json!({"custom": custom, "mode": "always", "failure": "closed"}).to_string();
        Served::with(&component, &[("LRO_SETTINGS", &settings)], &["-W", "max-memory-size=50000000"])
    };
    for custom in ["inspect-trap", "inspect-memory"] {
        let gate = start(custom);
        for id in 1..4 {
            let answer = ask(&gate.url, &records(id, 3, false)).answer();
            assert_eq!(answer["result"]["isError"], true, "{custom}: {answer}");
            assert!(answer.to_string().contains("the policy panicked"), "{custom}: {answer}");
        }
    }
    let gate = start("inspect-stack");
    for id in 1..4 {
        assert_eq!(ask(&gate.url, &records(id, 3, false)).status, 500);
        assert_eq!(ask(&gate.url, &request(id, "ping", json!({}))).answer()["result"], json!({}));
    }
}

// The command composes the same bytes, and says what they need.
#[test]
fn the_command_composes_for_http() {
    let files = TempDir::new().unwrap();
    let path = |name: &str| path_text(&files.path().join(name));
    let (policy, server_file) = (path("policy.wasm"), path("server.wasm"));
    fs::write(&policy, DEFAULT_POLICY).unwrap();
    fs::write(&server_file, server()).unwrap();
    let composed = |http: &str, more: &[&str]| {
        let output = path("composed.wasm");
        let mut command = Command::new(lro());
        let run = command.args(["compose", &policy, "-o", &output, "--http", http]).args(more).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        assert!(String::from_utf8_lossy(&run.stdout).contains("exports  wasi:http/handler@0.3.0\n"));
        fs::read(&output).unwrap()
    };
    let edge = composed("edge", &[]);
    assert!(edge == self::edge(DEFAULT_POLICY));
    assert!(composed(&server_file, &[]) == *BEFORE_SERVER);
    let handler = "wasi:http/handler@0.3.0";
    assert!(imports(&composed("middleware", &[])).contains(handler) && !imports(&edge).contains(handler));
    let is_of_files = |name: &String| name.starts_with("wasi:filesystem/");
    assert!(!imports(&edge).iter().any(is_of_files));
    assert!(imports(&composed("edge", &["--files", "directory"])).iter().any(is_of_files));
    let mut command = Command::new(lro());
    let refused = command.args(["compose", &policy, "-o", &path("x.wasm"), "--http", &policy]).output().unwrap();
    assert!(!refused.status.success());
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(text.contains("does not export `wasi:http/handler@0.3.0`"), "{text}");
}

// Settings that the component would not understand are refused before it is made, and not in each of its calls.
#[test]
fn the_command_composes_with_settings_that_are_understood() {
    let files = TempDir::new().unwrap();
    let path = |name: &str| path_text(&files.path().join(name));
    let (policy, output) = (path("policy.wasm"), path("composed.wasm"));
    fs::write(&policy, DEFAULT_POLICY).unwrap();
    let compose = |more: &[&str]| {
        let run = Command::new(lro()).args(["compose", &policy, "-o", &output]).args(more).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (run.status.code(), text(&run.stdout), text(&run.stderr))
    };
    let reader = ["--act", "reader", "--act-dir", "/offloads", "--act-settings"];
    for (settings, why) in [
        ("{bad", "expected a JSON object"),
        ("[]", "expected a JSON object"),
        (r#"{"threshold":"x"}"#, "`threshold` is \"x\""),
        (r#"{"treshold":1}"#, "`treshold` is not a setting"),
    ] {
        let (code, _, said) = compose(&[&reader[..], &[settings]].concat());
        assert!(code == Some(2) && said.contains(why) && said.contains("--act-settings"), "{settings}: {said}");
    }
    assert_eq!(compose(&[&reader[..], &[r#"{"threshold":1}"#]].concat()).0, Some(0));
    let exports = "exports  lro:adapter/filter@0.1.0, lro:adapter/messages@0.1.0, lro:adapter/files@0.1.0\n";
    assert!(compose(&[]).1.ends_with(exports));
}

// A server that is not there, and a URL that is none, are errors that say so.
#[test]
fn a_component_says_when_its_server_is_not_there() {
    let component = edge(DEFAULT_POLICY);
    for (variables, expected) in [
        (&[("LRO_UPSTREAM", "http://127.0.0.1:1")][..], "the server cannot be reached"),
        (&[("LRO_UPSTREAM", "127.0.0.1:1")], "expected http:// or https://"),
        (&[], "LRO_UPSTREAM is not set"),
    ] {
        let answer = ask(&Served::start(&component, variables).url, &records(5, 1, false)).answer();
        assert_eq!(answer["id"], 5, "{answer}");
        assert!(answer["error"]["message"].as_str().unwrap().contains(expected), "{answer}");
    }
}
