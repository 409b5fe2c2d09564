//! A tenant whose policies and questions never end, beside one who works: in front of a command and of a server over HTTP, and on
//! standard streams. What is asserted is the order of answers, which no load of the machine changes.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use lro_tests::{signature, version, wait_until};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, faulty, new_mark, tool_call};
use crate::http::{Session, bytes_of, connect, modern_call, open_modern};
use crate::scripted::{descriptor, first_text, handle};
use crate::support::{Environment, environment, path_text};
use crate::wire::{MODERN, request};

/// Policies of `acme` that run for longer than the test lasts.
const LOOPS: [u32; 3] = [1, 2, 16];

/// Calls of each neighbour beside them.
const CALLS: u32 = 20;

/// Questions of one tenant that never end.
const QUESTIONS: u32 = 500;

/// Messages to a server that does not read: more than tokio has threads for work that blocks.
const UNREAD: u32 = 700;

/// One test at a time has so many connections: a process may have no more than 1,024 files open.
static MANY: Mutex<()> = Mutex::new(());

/// Time in which a policy has surely begun.
const BEGUN: Duration = Duration::from_millis(300);

/// Three tenants: one whose policy never ends, one whose results are written to files, one whose small results pass.
fn with_loops(home: &TempDir) -> Environment {
    let policy = home.path().join("policy.wasm");
    fs::write(&policy, version(1)).unwrap();
    let policy = format!("policy = {:?}\nmode = \"always\"\n", path_text(&policy));
    let toml = format!(
        "[tenants.acme]\n{policy}custom = \"inspect-loop\"\nlimits = {{ wall-time-ms = 600000 }}\n\
         [tenants.beta]\n{policy}custom = \"sign\"\n[tenants.gamma]\n"
    );
    configured(home, &toml)
}

fn configured(home: &TempDir, toml: &str) -> Environment {
    let config = home.path().join("lro.toml");
    fs::write(&config, toml).unwrap();
    environment(&[("MCP_LRO_CONFIG", &path_text(&config)), ("MCP_LRO_FSYNC", "never")])
}

/// The gateway over HTTP before a command, and before a server over HTTP.
fn gateways(variables: &Environment) -> [(Gate, Option<FaultyHttp>); 2] {
    let (mark, upstream) = (new_mark(), FaultyHttp::start());
    let proxy = Gate::proxy(&[], &upstream.url, variables);
    [(Gate::listening_before(&[], &faulty(&[&mark]), &mark, variables), None), (proxy, Some(upstream))]
}

fn url(gate: &Gate, tenant: &str) -> String {
    format!("{}/{tenant}", gate.url)
}

/// The result of a modern call.
fn call(url: &str, tool: &str, arguments: Value) -> Value {
    let answer = open_modern(url, &modern_call(1, tool, arguments), &[]).finish().answer();
    assert!(answer["error"].is_null(), "{answer}");
    answer["result"].clone()
}

/// Calls a tool without waiting for the answer.
fn begin_modern(url: &str, tool: &str, arguments: Value) -> TcpStream {
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
    send(url, &headers, &modern_call(1, tool, arguments))
}

fn send(url: &str, headers: &[(&str, &str)], message: &Value) -> TcpStream {
    let mut stream = connect(url);
    stream.write_all(&bytes_of(url, "POST", headers, message.to_string().as_bytes())).unwrap();
    stream
}

/// What came on a connection so far.
fn arrived(stream: &mut TcpStream) -> String {
    stream.set_nonblocking(true).unwrap();
    let (mut text, mut piece) = (String::new(), [0; 1 << 14]);
    loop {
        match stream.read(&mut piece) {
            Ok(0) => return text + "(closed)",
            Ok(count) => text.push_str(&String::from_utf8_lossy(&piece[..count])),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return text,
            Err(error) => return text + &error.to_string(),
        }
    }
}

/// Calls of a neighbour, one after the other, of a modern and of a legacy client.
fn neighbours_work(gate: &Gate) {
    let signed = |text: &str| assert!(text.contains(&signature(1)), "{text}");
    let (beta, gamma) = (url(gate, "beta"), url(gate, "gamma"));
    let session = Session::begin(&beta);
    for id in 0..CALLS {
        signed(first_text(&call(&beta, "echo", json!({"text": "a result"}))));
        signed(first_text(&session.call(id, "echo", json!({"text": "a result"}))["result"]));
        assert_eq!(first_text(&call(&gamma, "echo", json!({"text": "it passes"}))), "it passes");
    }
    let large = "a line of a large result\n".repeat(10_000);
    signed(first_text(&call(&beta, "echo", json!({ "text": large }))));
}

// Over HTTP, every call of the neighbours is answered while none of the loops has ended.
#[test]
fn a_policy_that_never_ends_holds_nobody_up_over_http() {
    for loops in LOOPS {
        let home = TempDir::new().unwrap();
        for (gate, _upstream) in gateways(&with_loops(&home)) {
            let acme = url(&gate, "acme");
            let session = Session::begin(&acme);
            let legacy = |id| send(&acme, &session.headers(), &tool_call(id, "echo", json!({"text": "a result"})));
            let mut endless: Vec<TcpStream> = (0..loops)
                .map(|id| if id % 2 == 0 { begin_modern(&acme, "echo", json!({"text": "x"})) } else { legacy(id) })
                .collect();
            std::thread::sleep(BEGUN);
            neighbours_work(&gate);
            for stream in &mut endless {
                // A response that takes long becomes a stream, with comments in it.
                let arrived = arrived(stream);
                assert!(!arrived.contains("jsonrpc") && !arrived.contains("(closed)"), "{loops}: {arrived}");
            }
        }
    }
}

// On standard streams, whatever else the client asks is answered while none of the loops has ended.
#[test]
fn a_policy_that_never_ends_holds_nobody_up_on_stdio() {
    for loops in LOOPS {
        let home = TempDir::new().unwrap();
        let (variables, mark, upstream) = (with_loops(&home), new_mark(), FaultyHttp::start());
        let tenant = ["--tenant", "acme"];
        for mut gate in [
            Gate::start(&tenant, &faulty(&[&mark]), &mark, &variables),
            Gate::start(&[&tenant[..], &["--upstream", &upstream.url]].concat(), &[], &mark, &variables),
        ] {
            gate.shake_hands();
            for id in 0..loops {
                gate.send(&tool_call(id, "echo", json!({"text": "a result"})));
            }
            std::thread::sleep(BEGUN);
            for id in 100..100 + CALLS {
                assert_eq!(gate.ask(&request(id, "ping", json!({})))["result"], json!({}));
                assert!(gate.ask(&request(1000 + id, "tools/list", json!({})))["result"]["tools"].is_array());
            }
            let others = gate.others();
            assert!(others.is_empty(), "{loops}: {:?}", String::from_utf8_lossy(&others.concat()));
        }
    }
}

// Questions of one tenant that never end take no room of results, neither its own nor another's.
#[test]
fn questions_that_never_end_keep_no_result_from_the_policy() {
    let _many = MANY.lock();
    let home = TempDir::new().unwrap();
    let toml = "failure = \"open\"\n[query]\nwall-time-ms = 600000\n[tenants.acme]\n[tenants.beta]\n";
    for (gate, _upstream) in gateways(&configured(&home, toml)) {
        let (acme, beta) = (url(&gate, "acme"), url(&gate, "beta"));
        let offloaded = |url: &str| {
            let result = call(url, "records", json!({"count": 2000}));
            handle(&descriptor(&result).unwrap_or_else(|| panic!("passed unseen: {:.300}", result.to_string())))
        };
        let question = json!({"handle": offloaded(&acme), "jq": "last(repeat(1))"});
        let mut endless: Vec<(TcpStream, String)> =
            (0..QUESTIONS).map(|_| (begin_modern(&acme, "lro_extract", question.clone()), String::new())).collect();
        std::thread::sleep(BEGUN);
        for _ in 0..CALLS {
            offloaded(&beta);
            offloaded(&acme);
        }
        // Of its questions few run and few wait; all others are told so.
        wait_until("the refusals", || {
            endless.iter_mut().for_each(|(stream, text)| text.push_str(&arrived(stream)));
            endless.iter().filter(|(_, text)| text.contains("try again")).count() >= QUESTIONS as usize * 4 / 5
        });
        let limit = "64 requests of this tenant are queued already (limit query.waiting): try again";
        assert!(endless.iter().any(|(_, text)| text.contains(limit)), "no word of the limit");
        let answered = endless.iter().filter(|(_, text)| text.contains("HTTP/1.1")).count();
        assert!(answered < QUESTIONS as usize, "none of them is answered");
        // Another tenant's questions have their turn.
        let count = json!({"handle": offloaded(&beta), "jq": "select(.number == 7) | .name"});
        assert!(first_text(&call(&beta, "lro_extract", count)).contains("record 7"));
    }
}

// A server that does not read holds up its own tenant alone, however much it is to be sent.
#[test]
fn a_server_that_does_not_read_holds_up_its_tenant_alone() {
    let _many = MANY.lock();
    let (home, mark) = (TempDir::new().unwrap(), new_mark());
    let variables = configured(&home, "[tenants.acme]\n[tenants.beta]\n");
    let gate = Gate::listening_before(&[], &faulty(&[&mark]), &mark, &variables);
    let (acme, beta) = (url(&gate, "acme"), url(&gate, "beta"));
    let arguments = json!({"text": "a".repeat(100_000)});
    call(&acme, "deaf", json!({}));
    let _sent: Vec<TcpStream> = (0..UNREAD).map(|_| begin_modern(&acme, "echo", arguments.clone())).collect();
    for _ in 0..CALLS {
        // They come in meanwhile, which takes a while.
        std::thread::sleep(BEGUN);
        let result = call(&beta, "echo", arguments.clone());
        assert!(descriptor(&result).is_some(), "{:.300}", result.to_string());
    }
}
