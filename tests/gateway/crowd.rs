//! Many connections, requests, sessions and unread answers of one tenant: the others are served as ever.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use lro_tests::wait_until;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, error, faulty, new_mark, signal, text, tool_call};
use crate::http::{Exchange, Headers, Session, bytes_of, connect, modern_call, open_modern, post};
use crate::support::{Environment, environment, path_text, words};
use crate::wire::{MODERN, initialize, request};

/// Two tenants with tokens.
const TOKENS: &str = "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n";
const ANN: &str = "token-of-ann";
const BOB: &str = "token-of-bob";

/// A gateway with two tenants, and what it reads.
struct Shared {
    gate: Gate,
    config: PathBuf,
    _files: TempDir,
    _upstream: Option<FaultyHttp>,
}

impl Shared {
    fn of(flags: &[&str], upstream: Option<FaultyHttp>) -> Self {
        let files = TempDir::new().unwrap();
        let config = files.path().join("lro.toml");
        std::fs::write(&config, TOKENS).unwrap();
        let path = path_text(&config);
        let flags = [&["--config", path.as_str()], flags].concat();
        let more = environment(&[("ANN", ANN), ("BOB", BOB)]);
        let gate = match &upstream {
            Some(upstream) => Gate::proxy(&flags, &upstream.url, &more),
            None => {
                let mark = new_mark();
                Gate::listening_before(&flags, &faulty(&[&mark]), &mark, &more)
            }
        };
        Self { gate, config, _files: files, _upstream: upstream }
    }

    /// Before a command, and before a server over HTTP.
    fn both(flags: &[&str]) -> [Self; 2] {
        [Self::of(flags, None), Self::of(flags, Some(FaultyHttp::start()))]
    }

    fn url(&self) -> &str {
        &self.gate.url
    }

    fn bob_works(&self) {
        let token = format!("Bearer {BOB}");
        for number in 0..5 {
            let message = modern_call(number, "echo", json!({"text": "as ever"}));
            let reply = open_modern(self.url(), &message, &[("Authorization", &token)]).finish();
            assert_eq!(reply.status, 200, "{}: {}", reply.text(), self.gate.errors());
            assert_eq!(text(&reply.answer()), "as ever");
        }
        Session::begin_as(self.url(), BOB).works();
    }
}

/// Sends the beginning of a request.
fn send(url: &str, bytes: &[u8]) -> TcpStream {
    let mut stream = connect(url);
    // One that is refused at once is closed.
    let _ = stream.write_all(bytes);
    stream
}

/// All of a call of a tenant.
fn call_of(url: &str, token: &str, tool: &str, arguments: Value) -> Vec<u8> {
    let token = format!("Bearer {token}");
    let headers = [
        ("Authorization", token.as_str()),
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", tool),
    ];
    bytes_of(url, "POST", &headers, modern_call(1, tool, arguments).to_string().as_bytes())
}

/// What a connection gets before it is closed or says nothing for long.
fn rest_of(mut stream: TcpStream) -> String {
    let mut all = Vec::new();
    let _ = stream.read_to_end(&mut all);
    String::from_utf8_lossy(&all).into_owned()
}

// Connections without a request make room for those that have one.
#[test]
fn idle_connections_make_room() {
    for shared in Shared::both(&["--connections", "64", "--header-timeout-ms", "600000"]) {
        let url = shared.url();
        let slow = {
            let url = url.to_owned();
            std::thread::spawn(move || {
                let session = Session::begin_as(&url, BOB);
                session.call(1, "slow", json!({"ms": 4000}))
            })
        };
        let head = call_of(url, ANN, "echo", json!({}));
        let mut crowd = Vec::new();
        for number in 0..400 {
            // Nothing, half a head, or an answer that was read.
            let mut stream = send(url, &head[..[0, head.len() / 3, head.len()][number % 3]]);
            if number % 3 == 2 {
                // Unlike `read`, this goes on when the system interrupts it.
                stream.read_exact(&mut [0]).unwrap();
            }
            crowd.push(stream);
            if number % 20 == 0 {
                shared.bob_works();
            }
        }
        assert_eq!(text(&slow.join().unwrap()), "slept", "a connection with a request stays");
        shared.bob_works();
    }
}

#[test]
fn a_connection_with_half_a_head_is_closed() {
    let gate = Gate::listening(&["--header-timeout-ms", "300"]);
    for bytes in [&b""[..], b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n"] {
        let closed = send(&gate.url, bytes).read_to_end(&mut Vec::new());
        // A reset closes it too; a read that times out shows that it is open.
        let is_open = closed.is_err_and(|error| matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut));
        assert!(!is_open, "it stays open");
    }
}

#[test]
fn half_of_the_connections_are_for_those_without_a_request() {
    let gate = Gate::listening(&["--connections", "8", "--requests", "100"]);
    let session = Session::begin(&gate.url);
    let slow: Vec<Exchange> = (0..4)
        .map(|number| {
            let mut message = tool_call(number, "progress", json!({"count": 2000, "ms": 10}));
            message["params"]["_meta"] = json!({"progressToken": number});
            session.open(&message)
        })
        .collect();
    assert!(slow.iter().all(Exchange::is_stream));
    let reply = session.open(&tool_call(9, "echo", json!({}))).finish();
    assert_eq!(reply.status, 503, "{}", reply.text());
    assert!(reply.text().contains("gateway.requests"), "{}", reply.text());
}

// What one tenant began to send does not keep others out, and ends.
#[test]
fn half_sent_bodies_of_one_tenant() {
    for shared in Shared::both(&["--requests", "32", "--body-timeout-ms", "8000"]) {
        let url = shared.url();
        let whole = call_of(url, ANN, "echo", json!({"text": "x".repeat(3000)}));
        let crowd: Vec<TcpStream> = (0..60).map(|_| send(url, &whole[..whole.len() - 1000])).collect();
        shared.bob_works();
        let answers: Vec<String> = crowd.into_iter().map(rest_of).collect();
        let with = |text: &str| answers.iter().filter(|answer| answer.contains(text)).count();
        // Seven of eight places are for one tenant.
        assert_eq!((with("gateway.body-timeout-ms"), with("gateway.requests")), (28, 32), "{answers:?}");
        let ann = || rest_of(send(url, &[&whole[..], b"GET / HTTP/1.0\r\n\r\n"].concat()));
        wait_until("the places are free again", || ann().contains("\"result\""));
    }
}

// Where nobody needs a token, one address does not keep others out.
#[test]
fn half_sent_bodies_of_one_address() {
    if TcpListener::bind("[::1]:0").is_err() {
        eprintln!("there is one address only, without IPv6");
        return;
    }
    let mark = new_mark();
    let flags = ["--listen", "[::]:0", "--requests", "16", "--sessions", "16", "--streams", "16"];
    let gate = Gate::start(&flags, &faulty(&[&mark]), &mark, &Environment::new());
    let url = gate.told("listening on ");
    let (one, other) = (url.replace("[::]", "[::1]"), url.replace("[::]", "127.0.0.1"));
    let whole = call_of(&one, ANN, "echo", json!({"text": "x".repeat(3000)}));
    let crowd: Vec<TcpStream> = (0..40).map(|_| send(&one, &whole[..whole.len() - 1000])).collect();
    let echo = |url: &str| open_modern(url, &modern_call(1, "echo", json!({"text": "a"})), &[]).status;
    wait_until("the crowd is there", || echo(&one) == 503);
    for _ in 0..5 {
        assert_eq!(echo(&other), 200);
    }
    Session::begin(&other).works();
    drop(crowd);
}

// Bodies that are half sent take up files, not memory.
#[test]
fn large_half_sent_bodies() {
    for shared in Shared::both(&["--memory-bytes", "16777216"]) {
        let watch = shared.gate.watch();
        let whole = call_of(shared.url(), ANN, "echo", json!({"text": "x".repeat(3 << 20)}));
        let crowd: Vec<TcpStream> = (0..100).map(|_| send(shared.url(), &whole[..whole.len() - 10])).collect();
        shared.bob_works();
        drop(crowd);
        watch.stays_under(150);
    }
}

// One tenant has most of the sessions, and not all of them.
#[test]
fn sessions_of_one_tenant() {
    let [before_command, before_http] = Shared::both(&["--sessions", "8"]);
    let token = format!("Bearer {ANN}");
    let begin = |url: &str| post(url, &[("Authorization", &token)], &request(1, "initialize", initialize()));
    let opened: Vec<u16> = (0..9).map(|_| begin(before_command.url()).status).collect();
    assert_eq!(opened, [200, 200, 200, 200, 200, 200, 200, 503, 503]);
    assert!(begin(before_command.url()).text().contains("gateway.sessions"));
    before_command.bob_works();
    // A server over HTTP has its sessions itself; what is known of them is forgotten, of those who have too many.
    let bob = Session::begin_as(before_http.url(), BOB);
    let ann = Session::begin_as(before_http.url(), ANN);
    for _ in 0..20 {
        assert_eq!(begin(before_http.url()).status, 200);
    }
    bob.works();
    assert_eq!(ann.open(&tool_call(1, "echo", json!({}))).status, 404, "its oldest session");
}

// What a request is is decided by its body.
#[test]
fn a_header_does_not_take_a_call_out_of_the_count() {
    for upstream in [None, Some(FaultyHttp::start())] {
        let gate = match &upstream {
            Some(upstream) => Gate::proxy(&["--requests", "2"], &upstream.url, &Environment::new()),
            None => Gate::listening(&["--requests", "2"]),
        };
        let session = Session::begin(&gate.url);
        let mut message = tool_call(1, "progress", json!({"count": 400, "ms": 20}));
        message["params"]["_meta"] = json!({"progressToken": 1});
        let headers = [&session.headers()[..], &[("Mcp-Method", "subscriptions/listen")]].concat();
        let open = || Exchange::open(&gate.url, "POST", &headers, message.to_string().as_bytes());
        let (one, two) = (open(), open());
        assert!(one.is_stream() && two.is_stream());
        let reply = open().finish();
        assert_eq!(reply.status, 503, "{}", reply.text());
        drop((one, two));
        wait_until("they are gone", || session.open(&tool_call(2, "echo", json!({}))).status == 200);
    }
}

// Streams without an end have places of their own.
#[test]
fn streams_of_one_tenant() {
    for shared in Shared::both(&["--streams", "8"]) {
        let sessions: Vec<Session> = (0..8).map(|_| Session::begin_as(shared.url(), ANN)).collect();
        let streams: Vec<Exchange> = sessions.iter().map(|session| session.request("GET")).collect();
        let status: Vec<u16> = streams.iter().map(|stream| stream.status).collect();
        assert_eq!(status, [200, 200, 200, 200, 200, 200, 200, 503]);
        let refused = streams.into_iter().last().unwrap().finish();
        assert!(refused.text().contains("gateway.streams"), "{}", refused.text());
        let bob = Session::begin_as(shared.url(), BOB);
        assert_eq!(bob.request("GET").status, 200);
        sessions.iter().for_each(Session::works);
    }
}

// Answers that are not read take up files beyond a bound, and all of each arrives.
#[test]
fn unread_answers() {
    let flags = ["--mode", "never", "--memory-bytes", "33554432", "--write-timeout-ms", "600000"];
    for shared in Shared::both(&flags) {
        let watch = shared.gate.watch();
        let whole = call_of(shared.url(), ANN, "huge", json!({"bytes": 3_500_000}));
        let crowd: Vec<TcpStream> = (0..100).map(|_| send(shared.url(), &whole)).collect();
        let answered = |stream: &TcpStream| stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0);
        assert!(crowd.iter().all(answered));
        shared.bob_works();
        let replies = crowd.into_iter().map(|stream| Exchange::read(stream).finish());
        assert!(replies.into_iter().all(|reply| reply.whole && reply.status == 200));
        watch.stays_under(160);
    }
}

#[test]
fn unread_notifications() {
    let shared = Shared::of(&["--memory-bytes", "16777216", "--write-timeout-ms", "600000"], None);
    let watch = shared.gate.watch();
    let token = format!("Bearer {ANN}");
    let crowd: Vec<Exchange> = (0..40)
        .map(|_| {
            let mut message = modern_call(1, "flood", json!({"count": 600, "size": 10_000}));
            message["params"]["_meta"]["progressToken"] = json!("t");
            open_modern(shared.url(), &message, &[("Authorization", &token)])
        })
        .collect();
    shared.bob_works();
    // What was left out is not the answer, which comes alone when all else was.
    for mut exchange in crowd {
        let last = match exchange.is_stream() {
            true => std::iter::from_fn(|| exchange.event()).last().unwrap(),
            false => exchange.finish().answer(),
        };
        assert!(last["result"].is_object(), "{last:.300}");
    }
    watch.stays_under(150);
}

#[test]
fn a_client_that_does_not_read_loses_its_connection() {
    let flags = ["--mode", "never", "--write-timeout-ms", "500", "--requests", "1"];
    let upstream = FaultyHttp::start();
    for gate in [Gate::listening(&flags), Gate::proxy(&flags, &upstream.url, &Environment::new())] {
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "huge")];
        let message = modern_call(1, "huge", json!({"bytes": 50_000_000})).to_string();
        let stream = send(&gate.url, &bytes_of(&gate.url, "POST", &headers, message.as_bytes()));
        // Its place is free once it is gone.
        let echo = || open_modern(&gate.url, &modern_call(2, "echo", json!({"text": "next"})), &[]).status;
        assert!(stream.peek(&mut [0]).is_ok_and(|bytes| bytes > 0));
        wait_until("its place is free", || echo() == 200);
        assert!(!Exchange::read(stream).finish().whole, "all of it arrived");
    }
}

// Calls without an answer are counted, in batches too.
#[test]
fn batches_are_counted() {
    let mut gate = Gate::ready(&[]);
    let watch = gate.watch();
    let arguments = json!({"text": "x".repeat(8000)});
    let errors = (0..24).map(|batch| {
        let calls: Vec<Value> = (0..500).map(|id| tool_call(batch * 500 + id, "silent", arguments.clone())).collect();
        json!(calls)
    });
    for batch in errors {
        gate.send(&batch);
    }
    let line = gate.line();
    let refused: Vec<Value> = serde_json::from_slice(&line).unwrap();
    assert_eq!(refused.len(), 500);
    assert!(error(&refused[0]).contains("at most 10000"), "{}", refused[0]);
    watch.stays_under(180);
}

#[test]
fn batches_that_a_server_does_not_take() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    let watch = gate.watch();
    let arguments = json!({"text": "x".repeat(8000)});
    for _ in 0..60 {
        let calls: Vec<Value> = (0..400).map(|id| tool_call(id, "silent", arguments.clone())).collect();
        assert_eq!(session.open(&json!(calls)).finish().status, 502);
    }
    session.works();
    watch.stays_under(120);
}

// Wrong tokens wait, right ones do not.
#[test]
fn wrong_tokens_are_slowed() {
    let shared = Shared::of(&[], None);
    let url = shared.url().to_owned();
    let wrong = |number: usize| {
        let token = format!("Bearer guess-{number}");
        post(&url, &[("Authorization", &token)], &request(1, "initialize", initialize()))
    };
    for number in 0..5 {
        assert_eq!(wrong(number).status, 401);
    }
    let before = Instant::now();
    assert_eq!(wrong(5).status, 401);
    assert!(before.elapsed() >= Duration::from_millis(900), "after {:?}", before.elapsed());
    std::thread::scope(|scope| {
        let wrong = &wrong;
        let guesses: Vec<_> = (0..150).map(|number| scope.spawn(move || wrong(number).status)).collect();
        shared.bob_works();
        let statuses: Vec<u16> = guesses.into_iter().map(|guess| guess.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| [401, 429].contains(status)), "{statuses:?}");
        assert!(statuses.contains(&429), "more than can wait: {statuses:?}");
    });
    // Who has none is told at once where to get one.
    for _ in 0..20 {
        assert_eq!(post(shared.url(), &[], &request(1, "initialize", initialize())).status, 401);
    }
}

// Of a tenant that is removed nothing goes on, before a server over HTTP too.
#[test]
fn streams_end_with_their_tenant() {
    for shared in Shared::both(&[]) {
        let (ann, bob) = (Session::begin_as(shared.url(), ANN), Session::begin_as(shared.url(), BOB));
        let of_ann = ann.request("GET");
        let mut message = tool_call(1, "progress", json!({"count": 100_000, "ms": 20}));
        message["params"]["_meta"] = json!({"progressToken": 1});
        let call = ann.open(&message);
        assert!(of_ann.is_stream() && call.is_stream());
        std::fs::write(&shared.config, TOKENS.replace("ann = \"env:ANN\"\n", "")).unwrap();
        signal("-HUP", shared.gate.pid());
        assert!(of_ann.finish().whole, "the stream ends");
        call.finish();
        bob.works();
    }
}

// The address of the metrics is no way around.
#[test]
fn a_crowd_at_the_metrics() {
    let gate = Gate::listening(&["--metrics-listen", "127.0.0.1:0", "--metrics-connections", "8"]);
    let metrics = gate.told("metrics on ");
    let health = metrics.replace("/metrics", "/healthz");
    let mut crowd = Vec::new();
    for number in 0..100 {
        crowd.push(send(&metrics, &b"GET /metrics HTTP/1.1\r\nHost"[..13 * (number % 2)]));
        if number % 10 == 9 {
            assert_eq!(Exchange::open(&health, "GET", &[], b"").status, 200);
        }
    }
}

/// A server that takes any tool.
const ANY_TOOL: &str = r#"
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" in message:
        result = {"content": [{"type": "text", "text": "done"}], "resultType": "complete"}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

// One tenant cannot use up the labels of metrics, and no name in them acts upon a terminal.
#[test]
fn labels_of_one_tenant() {
    let files = TempDir::new().unwrap();
    let config = path_text(&files.path().join("lro.toml"));
    std::fs::write(&config, TOKENS).unwrap();
    let mark = new_mark();
    let server = words(&["python3", "-c", ANY_TOOL, &mark]);
    let flags = ["--config", &config, "--metrics-listen", "127.0.0.1:0"];
    let more = environment(&[("ANN", ANN), ("BOB", BOB)]);
    let gate = Gate::listening_before(&flags, &server, &mark, &more);
    let metrics = gate.told("metrics on ");
    let ask = |token: &str, tool: &str| {
        let token = format!("Bearer {token}");
        let encoded =
            format!("=?base64?{}?=", base64::Engine::encode(&base64::engine::general_purpose::STANDARD, tool));
        let headers: Headers<'_> = &[
            ("Authorization", &token),
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", &encoded),
        ];
        let message = modern_call(1, tool, json!({})).to_string();
        let reply = Exchange::open(&gate.url, "POST", headers, message.as_bytes()).finish();
        assert_eq!(reply.status, 200, "{tool}: {}", reply.text());
    };
    ask(ANN, "red\u{1b}[31m\u{202e}\u{7f}\u{85}");
    for number in 0..1100 {
        ask(ANN, &format!("tool-{number}"));
    }
    ask(BOB, "mine");
    let scraped = Exchange::open(&metrics, "GET", &[], b"").finish().text();
    let of = |tool: &str, tenant: &str| {
        let labels = [format!("tool=\"{tool}\""), format!("tenant=\"{tenant}\"")];
        let is_it =
            |line: &&str| line.starts_with("lro_result_bytes_total") && labels.iter().all(|label| line.contains(label));
        scraped.lines().filter(is_it).count()
    };
    assert_eq!((of("mine", "bob"), of("other", "ann"), of("other", "bob")), (1, 1, 0));
    assert_eq!(of("red_[31m___", "ann"), 1);
    assert_eq!(scraped.lines().filter(|line| line.starts_with("lro_result_bytes_total")).count(), 877);
    assert!(scraped.chars().all(|character| character == '\n' || !character.is_control()), "{scraped:?}");
}
