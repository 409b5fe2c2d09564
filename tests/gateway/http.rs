//! The gateway over HTTP, before a command and before a server over HTTP, with clients of bytes.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use lro_tests::wait_until;
use serde_json::{Value, json};

use crate::faults::{FaultyHttp, Gate, SHORT, error, faulty, is_descriptor, new_mark, raw, signal, text, tool_call};
use crate::support::{Environment, environment, path_text};
use crate::wire::{LEGACY, MODERN, call, initialize, modern_meta, request};

/// Longest wait for bytes of a response.
const PATIENCE: Duration = Duration::from_secs(120);

/// Longest body that is kept; of a longer one the beginning and the length.
const KEPT_BYTES: usize = 4 << 20;

/// Headers of a request.
pub(crate) type Headers<'a> = &'a [(&'a str, &'a str)];

/// A connection with one request on it.
pub(crate) struct Exchange {
    reader: BufReader<TcpStream>,
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    left: Left,
    buffer: Vec<u8>,
}

/// What is left of a body.
enum Left {
    Bytes(usize),
    Chunks,
    UntilClosed,
    Nothing,
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: BTreeMap<String, String>,
    /// Its beginning.
    pub(crate) body: Vec<u8>,
    /// Whether it ended as it should.
    pub(crate) whole: bool,
}

/// Host and port of a URL.
pub(crate) fn host_of(url: &str) -> &str {
    url.strip_prefix("http://").unwrap().split('/').next().unwrap()
}

/// Opens a connection and sends bytes.
pub(crate) fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(host_of(url)).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// The bytes of a request. A header of the caller comes in the place of the same one made here; an empty one is left out.
pub(crate) fn bytes_of(url: &str, method: &str, headers: Headers<'_>, body: &[u8]) -> Vec<u8> {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let length = body.len().to_string();
    let mut all: Vec<(&str, &str)> = vec![("Host", host), ("Accept", "application/json, text/event-stream")];
    if method == "POST" {
        all.extend([("Content-Type", "application/json"), ("Content-Length", &length)]);
    }
    all.retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
    all.extend(headers.iter().filter(|(_, value)| !value.is_empty()));
    let head: String = all.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    [format!("{method} /{path} HTTP/1.1\r\n{head}\r\n").as_bytes(), body].concat()
}

impl Exchange {
    pub(crate) fn open(url: &str, method: &str, headers: Headers<'_>, body: &[u8]) -> Self {
        let mut stream = connect(url);
        // A gateway may answer before it has read everything.
        let _ = stream.write_all(&bytes_of(url, method, headers, body));
        Self::read(stream)
    }

    /// Reads the head of a response.
    pub(crate) fn read(stream: TcpStream) -> Self {
        Self::try_read(BufReader::with_capacity(1 << 18, stream)).unwrap()
    }

    /// As [`Self::read`], where the connection may end.
    pub(crate) fn try_read(mut reader: BufReader<TcpStream>) -> io::Result<Self> {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.ok_or_else(|| io::Error::other(format!("no status: {line:?}")))?;
        let mut headers = BTreeMap::new();
        loop {
            line.clear();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let left = match (headers.get("content-length"), headers.contains_key("transfer-encoding")) {
            (_, true) => Left::Chunks,
            (Some(length), _) => Left::Bytes(length.parse().unwrap()),
            _ if status == 204 || status == 202 => Left::Nothing,
            _ => Left::UntilClosed,
        };
        Ok(Self { reader, status, headers, left, buffer: Vec::new() })
    }

    /// The next bytes of the body; none at its end.
    pub(crate) fn piece(&mut self) -> Result<Option<Vec<u8>>, String> {
        let size = match self.left {
            Left::Nothing | Left::Bytes(0) => return Ok(None),
            Left::Bytes(left) => left.min(1 << 18),
            Left::UntilClosed => 1 << 18,
            Left::Chunks => {
                let mut line = String::new();
                self.reader.read_line(&mut line).map_err(|error| error.to_string())?;
                let size = usize::from_str_radix(line.trim(), 16).map_err(|_| format!("cut at {line:?}"))?;
                let mut chunk = vec![0; size + 2];
                self.reader.read_exact(&mut chunk).map_err(|error| error.to_string())?;
                chunk.truncate(size);
                if size == 0 {
                    self.left = Left::Nothing;
                    return Ok(None);
                }
                return Ok(Some(chunk));
            }
        };
        let mut piece = vec![0; size];
        let count = self.reader.read(&mut piece).map_err(|error| error.to_string())?;
        piece.truncate(count);
        match &mut self.left {
            Left::Bytes(left) if count == 0 => return Err(format!("{left} bytes are missing")),
            Left::Bytes(left) => *left -= count,
            _ if count == 0 => return Ok(None),
            _ => {}
        }
        Ok(Some(piece))
    }

    /// The data of the next event; none at the end of the stream. Comments are left out.
    pub(crate) fn event(&mut self) -> Option<Value> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|bytes| bytes == b"\n\n") {
                let event: Vec<u8> = self.buffer.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                    return Some(serde_json::from_str(data).unwrap_or_else(|error| panic!("{error}: {event:?}")));
                }
                continue;
            }
            let piece = self.piece().unwrap()?;
            self.buffer.extend(piece);
        }
    }

    pub(crate) fn is_stream(&self) -> bool {
        self.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream"))
    }

    /// All of the response.
    pub(crate) fn finish(self) -> Reply {
        self.finish_and_stay().0
    }

    /// All of the response, and the connection for the next.
    pub(crate) fn finish_and_stay(mut self) -> (Reply, BufReader<TcpStream>) {
        let mut body = Vec::new();
        let whole = loop {
            match self.piece() {
                Ok(Some(piece)) => {
                    let room = KEPT_BYTES - body.len();
                    body.extend_from_slice(&piece[..piece.len().min(room)]);
                }
                Ok(None) => break true,
                Err(_) => break false,
            }
        };
        (Reply { status: self.status, headers: self.headers, body, whole }, self.reader)
    }
}

impl Reply {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The messages of the body, JSON or events.
    pub(crate) fn messages(&self) -> Vec<Value> {
        let text = self.text();
        let read = |json: &str| serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {text}"));
        if self.headers.get("content-type").is_some_and(|kind| kind.starts_with("text/event-stream")) {
            return text.lines().filter_map(|line| line.strip_prefix("data: ")).map(read).collect();
        }
        vec![read(&text)]
    }

    /// The last message, which is the answer.
    pub(crate) fn answer(&self) -> Value {
        self.messages().pop().unwrap_or_else(|| panic!("no message: {self:?}"))
    }
}

pub(crate) fn post(url: &str, headers: Headers<'_>, message: &Value) -> Reply {
    Exchange::open(url, "POST", headers, message.to_string().as_bytes()).finish()
}

/// Sends a modern message with the headers that belong to it.
pub(crate) fn open_modern(url: &str, message: &Value, more: Headers<'_>) -> Exchange {
    let method = message["method"].as_str().unwrap();
    let name = message["params"]["name"].as_str().unwrap_or_default();
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", method), ("Mcp-Name", name)];
    Exchange::open(url, "POST", &[&headers, more].concat(), message.to_string().as_bytes())
}

pub(crate) fn modern_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    call(id, &json!({"name": tool, "arguments": arguments}), true)
}

pub(crate) fn ask_modern(url: &str, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    let id = id.into();
    let answer = open_modern(url, &modern_call(id.clone(), tool, arguments), &[]).finish().answer();
    assert_eq!(answer["id"], id, "{answer}");
    answer
}

/// A session of a legacy client.
#[derive(Clone)]
pub(crate) struct Session {
    pub(crate) url: String,
    pub(crate) id: String,
    pub(crate) token: String,
}

impl Session {
    pub(crate) fn begin(url: &str) -> Self {
        Self::begin_as(url, "")
    }

    pub(crate) fn begin_as(url: &str, token: &str) -> Self {
        Self::begin_with(url, token, initialize())
    }

    /// A session of a client that introduces itself with these parameters.
    pub(crate) fn begin_with(url: &str, token: &str, params: Value) -> Self {
        let token = if token.is_empty() { String::new() } else { format!("Bearer {token}") };
        let reply = post(url, &[("Authorization", &token)], &request("initialize", "initialize", params));
        assert_eq!(reply.status, 200, "{}", reply.text());
        let id = reply.headers["mcp-session-id"].clone();
        let session = Self { url: url.to_owned(), id, token };
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(session.open(&initialized).status, 202);
        session
    }

    pub(crate) fn headers(&self) -> Vec<(&str, &str)> {
        vec![("Mcp-Session-Id", &self.id), ("Authorization", &self.token), ("MCP-Protocol-Version", "2025-11-25")]
    }

    pub(crate) fn open(&self, message: &Value) -> Exchange {
        Exchange::open(&self.url, "POST", &self.headers(), message.to_string().as_bytes())
    }

    pub(crate) fn request(&self, method: &str) -> Exchange {
        Exchange::open(&self.url, method, &self.headers(), b"")
    }

    pub(crate) fn call(&self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        let id = id.into();
        let answer = self.open(&tool_call(id.clone(), tool, arguments)).finish().answer();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    pub(crate) fn works(&self) {
        assert_eq!(text(&self.call("works", "echo", json!({"text": "it works"}))), "it works");
    }
}

/// The gateway over HTTP before the faulty server of each kind, with the server over HTTP if it is one.
fn both(flags: &[&str]) -> [(Gate, Option<FaultyHttp>); 2] {
    let upstream = FaultyHttp::start();
    let proxy = Gate::proxy(flags, &upstream.url, &Environment::new());
    [(Gate::listening(flags), None), (proxy, Some(upstream))]
}

// Who may ask.

#[test]
fn hosts_and_origins() {
    let flags = ["--allowed-hosts", "gateway.example:8443,plain.example", "--allowed-origins", "https://app.example"];
    for (gate, _upstream) in both(&flags) {
        let port = gate.url.rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
        let ask = |headers: Headers<'_>| {
            let reply = post(&gate.url, headers, &request(1, "initialize", initialize()));
            (reply.status, reply.text())
        };
        for host in [
            "localhost",
            "127.0.0.1",
            "[::1]",
            "gateway.example:8443",
            "plain.example",
            "plain.example:90",
            "LOCALHOST",
        ] {
            assert_eq!(ask(&[("Host", host)]).0, 200, "{host}");
            let with_port = format!("{}:{port}", host.split(":8").next().unwrap());
            if !host.contains(".example") {
                assert_eq!(ask(&[("Host", &with_port)]).0, 200, "{with_port}");
            }
        }
        for host in [
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "gateway.example:1",
            "localhost@evil.example",
            "10.0.0.1:80",
        ] {
            let (status, body) = ask(&[("Host", host)]);
            assert_eq!(status, 403, "{host}: {body}");
            assert!(body.contains("gateway.allowed-hosts"), "{body}");
        }
        for origin in [
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:1",
            "https://[::1]:5",
            "https://app.example",
        ] {
            assert_eq!(ask(&[("Origin", origin)]).0, 200, "{origin}");
        }
        for origin in [
            "https://evil.example",
            "http://localhost.evil.example",
            "null",
            "http://app.example",
            "https://app.example:1",
            "http://evil.example:80",
        ] {
            let (status, body) = ask(&[("Origin", origin)]);
            assert_eq!(status, 403, "{origin}: {body}");
            assert!(body.contains("gateway.allowed-origins"), "{body}");
        }
        assert!(gate.terminate(PATIENCE).success());
    }
}

fn tenants(upstream: Option<&str>) -> Gate {
    let mark = new_mark();
    let files = tempfile::TempDir::new().unwrap().keep();
    let config = files.join("lro.toml");
    std::fs::write(&config, "[gateway.tokens]\nalice = \"env:ALICE_TOKEN\"\nbob = \"env:BOB_TOKEN\"\n").unwrap();
    let config = path_text(&config);
    let more = environment(&[("ALICE_TOKEN", "secret-a"), ("BOB_TOKEN", "secret-b")]);
    match upstream {
        Some(url) => Gate::proxy(&["--config", &config], url, &more),
        None => Gate::listening_before(&["--config", &config], &faulty(&[&mark]), &mark, &more),
    }
}

#[test]
fn tokens_are_tenants() {
    let upstream = FaultyHttp::start();
    for gate in [tenants(None), tenants(Some(&upstream.url))] {
        let first = request(1, "initialize", initialize());
        for token in ["", "Bearer wrong", "Bearer", "Basic secret-a", "Bearer secret-a-and-more", "secret-a"] {
            let reply = post(&gate.url, &[("Authorization", token)], &first);
            assert_eq!(reply.status, 401, "{token}");
            assert_eq!(reply.headers["www-authenticate"], "Bearer");
        }
        let alice = Session::begin_as(&gate.url, "secret-a");
        let bob = Session::begin_as(&gate.url, "secret-b");
        let descriptor = text(&alice.call(1, "records", json!({"count": 5000})));
        let descriptor: Value = serde_json::from_str(&descriptor).unwrap();
        let handle = descriptor["handle"].as_str().unwrap();
        let read = json!({"handle": handle});
        let answer = alice.call(2, "lro_read", read.clone());
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        let answer = bob.call(3, "lro_read", read.clone());
        assert_eq!(answer["result"]["isError"], true, "{answer}");
        let answer = bob.call(4, "echo", json!({"text": format!("lro://{handle}/records")}));
        assert!(!answer.to_string().contains("record 1"), "{answer}");
        // A session that belongs to somebody else is not there.
        let stolen = Session { id: alice.id.clone(), ..bob.clone() };
        let reply = stolen.open(&tool_call(5, "echo", json!({}))).finish();
        assert_eq!(reply.status, 404, "a session of another tenant, before {:?}: {}", gate.servers(), reply.text());
        assert_eq!(stolen.request("DELETE").status, 404);
        assert_eq!(stolen.request("GET").status, 404);
        alice.works();
    }
}

/// What is wrong with a file goes to the client, where it lies to the log.
#[test]
fn errors_tell_clients_no_paths() {
    let files = tempfile::TempDir::new().unwrap();
    let config = files.path().join("lro.toml");
    std::fs::write(&config, "[tools.echo]\nhandles = true\n").unwrap();
    for (gate, _upstream) in both(&["--config", &path_text(&config)]) {
        let session = Session::begin(&gate.url);
        let descriptor = text(&session.call(1, "records", json!({"count": 5000})));
        let descriptor: Value = serde_json::from_str(&descriptor).unwrap();
        let handle = descriptor["handle"].as_str().unwrap();
        let root = path_text(&gate.directory());
        let tenant = gate.directory().join("default");
        let file = tenant.join(handle).join(descriptor["files"]["records"].as_str().unwrap());
        std::fs::write(&file, "something else").unwrap();
        let uri = format!("lro://{handle}/records");
        for answer in [
            session.call(2, "lro_read", json!({"handle": handle})),
            session.call(3, "lro_extract", json!({"handle": handle, "limit": 1})),
            session.call(4, "echo", json!({"text": uri})),
            session.open(&request(5, "resources/read", json!({"uri": uri}))).finish().answer(),
        ] {
            let answer = answer.to_string();
            assert!(answer.contains("has changed") && !answer.contains(&root), "{answer}");
        }
        wait_until("the paths are in the log", || gate.errors().matches(&root).count() >= 4);

        std::fs::remove_dir_all(&tenant).unwrap();
        std::fs::write(&tenant, "").unwrap();
        let answer = text(&session.call(6, "records", json!({"count": 5000})));
        assert!(answer.contains("could not be written") && !answer.contains(&root), "{answer}");
        wait_until("the failure is in the log", || gate.errors().contains("write failed"));
    }
}

// Limits.

#[test]
fn limits_are_named() {
    for (gate, _upstream) in both(&["--header-bytes", "2000", "--message-bytes", "100000"]) {
        let first = request(1, "initialize", initialize());
        let reply = post(&gate.url, &[("X-Large", &"x".repeat(2000))], &first);
        assert_eq!(reply.status, 431);
        assert!(reply.text().contains("gateway.header-bytes"), "{}", reply.text());
        let session = Session::begin(&gate.url);
        for size in [100_000, 3_000_000] {
            let large = session.open(&tool_call(1, "echo", json!({"text": "x".repeat(size)}))).finish();
            assert_eq!(large.status, 413, "{}", large.text());
            assert!(large.text().contains("gateway.message-bytes"), "{}", large.text());
            assert!(large.text().contains("100000"), "{}", large.text());
        }
        // And the other way.
        let answer = session.call(2, "huge", json!({"bytes": 1_000_000}));
        assert!(error(&answer).contains("gateway.message-bytes"), "{answer}");
        let answer = session.call(3, "huge", json!({"bytes": 1_000_000, "sse": true}));
        assert!(error(&answer).contains("gateway.message-bytes"), "{answer}");
        session.works();
        assert!(gate.terminate(PATIENCE).success());
    }
}

// What a call asks the gateway to fill in takes room on its disk, which is bounded and given back.
#[test]
fn arguments_that_are_filled_in_are_bounded() {
    let files = tempfile::TempDir::new().unwrap();
    let config = files.path().join("lro.toml");
    std::fs::write(&config, "[tools.echo]\nhandles = true\n").unwrap();
    let config = path_text(&config);
    for (gate, _upstream) in both(&["--config", &config, "--message-memory", "1000", "--message-disk", "700000"]) {
        let session = Session::begin(&gate.url);
        for id in 1..4 {
            // 463 KB each time.
            let descriptor = text(&session.call(id, "records", json!({"count": 5000})));
            let descriptor: Value = serde_json::from_str(&descriptor).unwrap();
            let uri = format!("lro://{}/records", descriptor["handle"].as_str().unwrap());
            let answer = session.call(id + 10, "echo", json!({"text": uri, "again": uri})).to_string();
            assert!(answer.contains("gateway.message-disk"), "{answer:.300}");
        }
        session.works();
    }
}

// Names are kept while a call is pending, so a client must not have room for more in them than there is for messages.
#[test]
fn names_that_are_kept_are_bounded() {
    let long = "n".repeat(5_000);
    let mut client = initialize();
    client["clientInfo"]["name"] = long.clone().into();
    let mut token = json!({"name": "silent", "arguments": {}});
    token["_meta"] = json!({"progressToken": long});
    for (gate, _upstream) in both(&[]) {
        let session = Session::begin(&gate.url);
        for (message, code, member) in [
            (request(json!(long), "tools/call", json!({"name": "silent"})), -32600, "id"),
            (request(json!(1), "tools/call", json!({"name": long})), -32602, "params.name"),
            (request(json!(2), "resources/read", json!({"uri": long})), -32602, "params.uri"),
            (request(json!(3), "tools/call", token.clone()), -32602, "progressToken"),
            (request(json!(4), "initialize", client.clone()), -32602, "clientInfo.name"),
        ] {
            let mut modern = message.clone();
            let mut meta = modern_meta();
            meta.as_object_mut().unwrap().extend(message["params"]["_meta"].as_object().cloned().unwrap_or_default());
            modern["params"]["_meta"] = meta;
            for reply in [session.open(&message).finish(), open_modern(&gate.url, &modern, &[]).finish()] {
                let answer = reply.answer();
                assert_eq!((reply.status, &answer["error"]["code"]), (400, &json!(code)), "{member}: {answer:.300}");
                assert!(error(&answer).contains(&format!("`{member}` is longer than 4096 bytes")), "{answer:.300}");
                assert_eq!(answer["id"], if member == "id" { Value::Null } else { message["id"].clone() });
            }
        }
        let body = json!({"tool": long, "result": {"content": []}}).to_string();
        let url = gate.url.replace("/mcp", "/filter");
        let reply = Exchange::open(&url, "POST", &[], body.as_bytes()).finish();
        assert!(reply.status == 400 && reply.text().contains("4096 bytes"), "{}", reply.text());
        session.works();
    }
}

// The log does not grow with what a client does not read, nor with what it calls things.
#[test]
fn what_is_logged_is_bounded() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    assert_eq!(text(&session.call(1, "later", json!({"count": 4_000, "ms": 100}))), "later");
    wait_until("messages are dropped", || gate.errors().contains("messages=2048"));
    let dropped = gate.errors().matches("a client that does not listen").count();
    assert!(dropped <= 13, "{dropped} lines");

    let large = json!({"content": [{"type": "text", "text": "x ".repeat(100_000)}]});
    let body = json!({"tool": "t".repeat(4_000), "result": large}).to_string();
    let reply = Exchange::open(&gate.url.replace("/mcp", "/filter"), "POST", &[], body.as_bytes()).finish();
    assert_eq!(reply.status, 200, "{}", reply.text());
    wait_until("the result is in the log", || gate.errors().contains("large tool result"));
    assert!(!gate.errors().contains(&"t".repeat(129)), "{}", gate.errors());
}

#[test]
fn too_many_requests() {
    for (gate, _upstream) in both(&["--requests", "3"]) {
        let session = Session::begin(&gate.url);
        let slow: Vec<_> = (0..3)
            .map(|id| {
                let session = session.clone();
                std::thread::spawn(move || session.call(id, "slow", json!({"ms": 6000})))
            })
            .collect();
        std::thread::sleep(Duration::from_millis(1500));
        let reply = session.open(&tool_call(9, "echo", json!({}))).finish();
        assert_eq!(reply.status, 503, "{}", reply.text());
        assert!(reply.text().contains("gateway.requests"), "{}", reply.text());
        for slow in slow {
            assert_eq!(text(&slow.join().unwrap()), "slept");
        }
        session.works();
    }
}

#[test]
fn half_a_request_and_the_end() {
    for (gate, _upstream) in both(&["--requests", "2"]) {
        let session = Session::begin(&gate.url);
        for _ in 0..5 {
            let mut stream = connect(&gate.url);
            let message = tool_call(1, "echo", json!({"text": "x"})).to_string();
            let bytes = bytes_of(&gate.url, "POST", &session.headers(), message.as_bytes());
            stream.write_all(&bytes[..bytes.len() - 10]).unwrap();
        }
        wait_until("the requests are gone", || session.open(&tool_call(2, "echo", json!({}))).status == 200);
        // What is not JSON, or no message.
        for body in ["", "{", "[]x", "{}", "\u{feff}{}", "nothing", "\"text\""] {
            let reply = Exchange::open(&gate.url, "POST", &session.headers(), body.as_bytes()).finish();
            assert!(reply.status >= 400, "{body}: {} {}", reply.status, reply.text());
        }
        session.works();
    }
}

// Modern requests.

#[test]
fn headers_have_to_match_the_body() {
    for (gate, upstream) in both(&[]) {
        let is_command = upstream.is_none();
        let message = modern_call(7, "echo", json!({"text": "hello"}));
        let ask = |headers: Headers<'_>| {
            let reply = post(&gate.url, headers, &message);
            (reply.status, reply.answer())
        };
        let right = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "echo")];
        assert_eq!(ask(&right).0, 200);
        let encoded = [right[0], right[1], ("Mcp-Name", "=?base64?ZWNobw==?=")];
        assert_eq!(ask(&encoded).0, 200);
        for (wrong, value) in [(0, "2026-07-29"), (1, "tools/list"), (2, "other"), (2, "ECHO"), (2, "=?base64?AAAA?=")]
        {
            let mut headers = right;
            headers[wrong].1 = value;
            let (status, answer) = ask(&headers);
            assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{headers:?}: {answer}");
            assert_eq!(answer["id"], 7, "{answer}");
        }
        // The same header twice, with another value.
        let twice = [right[0], right[1], right[2], ("Mcp-Name", "other")];
        let (status, answer) = ask(&twice);
        assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "twice: {answer}");
        if is_command {
            for missing in 1..3 {
                let mut headers = right.to_vec();
                headers.remove(missing);
                let (status, answer) = ask(&headers);
                assert_eq!((status, &answer["error"]["code"]), (400, &json!(-32020)), "{headers:?}: {answer}");
            }
        }
        // Unknown methods, and verbs that there are no more.
        let unknown = request(8, "no/such", json!({"_meta": modern_meta()}));
        let reply = open_modern(&gate.url, &unknown, &[]).finish();
        assert_eq!((reply.status, &reply.answer()["error"]["code"]), (404, &json!(-32601)), "{}", reply.text());
        if is_command {
            for verb in ["GET", "DELETE", "PUT"] {
                let reply = Exchange::open(&gate.url, verb, &[("MCP-Protocol-Version", MODERN)], b"").finish();
                assert_eq!(reply.status, 405, "{verb}");
                assert!(reply.headers.contains_key("allow"), "a 405 names the methods: {:?}", reply.headers);
            }
        }
    }
}

#[test]
fn a_revision_that_no_server_speaks_is_refused() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    let call = tool_call(1, "echo", json!({"text": "hello"})).to_string();
    for (revision, status) in [
        ("1999-01-01", 400),
        ("banana", 400),
        ("2026-07-2x", 400),
        ("2024-11-05", 200),
        ("2025-03-26", 200),
        // Before there was such a header.
        ("", 200),
    ] {
        let headers = [("Mcp-Session-Id", session.id.as_str()), ("MCP-Protocol-Version", revision)];
        let reply = Exchange::open(&gate.url, "POST", &headers, call.as_bytes()).finish();
        assert_eq!(reply.status, status, "{revision}: {}", reply.text());
        if status == 400 {
            assert!(reply.text().contains("mcp-protocol-version") && reply.text().contains(LEGACY), "{}", reply.text());
            for verb in ["GET", "DELETE"] {
                assert_eq!(Exchange::open(&gate.url, verb, &headers, b"").finish().status, 400, "{verb}: {revision}");
            }
        }
    }
    session.works();
}

#[test]
fn bodies_that_are_no_message_are_told_why() {
    for (gate, _upstream) in both(&[]) {
        let session = Session::begin(&gate.url);
        let call =
            br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"@"}}}"#;
        let bad: Vec<u8> = call.iter().map(|byte| if *byte == b'@' { 0xFF } else { *byte }).collect();
        let bodies: [(&[u8], i32); 5] = [
            (&bad, -32700),
            (br#"{"jsonrpc":"2.0","id":1"#, -32700),
            (br#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
            (b"[]", -32600),
            (b"7", -32600),
        ];
        for (body, code) in bodies {
            let reply = Exchange::open(&gate.url, "POST", &session.headers(), body).finish();
            let answer = reply.answer();
            assert_eq!((reply.status, &answer["error"]["code"]), (400, &json!(code)), "{answer}");
            assert!(answer["id"].is_null(), "{answer}");
        }
        session.works();
    }
}

#[test]
fn the_same_ids_of_two_clients_do_not_mix() {
    for (gate, _upstream) in both(&[]) {
        let ask = |count: usize| {
            let mut message = modern_call(1, "progress", json!({"count": count, "ms": 30}));
            message["params"]["_meta"]["progressToken"] = json!("token");
            open_modern(&gate.url, &message, &[]).finish()
        };
        let replies: Vec<Reply> = std::thread::scope(|scope| {
            let asked: Vec<_> = [3, 20, 8, 12].into_iter().map(|count| scope.spawn(move || ask(count))).collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect()
        });
        for (reply, count) in replies.iter().zip([3, 20, 8, 12]) {
            let messages = reply.messages();
            let numbers: Vec<u64> =
                messages.iter().filter_map(|message| message["params"]["progress"].as_u64()).collect();
            assert_eq!(numbers, (0..count).collect::<Vec<_>>(), "{}", reply.text());
            assert!(
                messages
                    .iter()
                    .all(|message| message["method"].is_null() || message["params"]["progressToken"] == "token")
            );
            // The answer is last.
            assert_eq!(text(&messages[count as usize]), "made progress");
            assert_eq!(messages[count as usize]["id"], 1);
        }
    }
}

/// All that a server was told, by its own account.
fn heard(url: &str) -> Vec<Value> {
    serde_json::from_str(&text(&ask_modern(url, 1, "heard", json!({})))).unwrap()
}

/// The id under which the server was asked for what it never answers, once it was.
fn id_of_silent(url: &str) -> Value {
    let mut id = Value::Null;
    wait_until("the call arrives", || {
        let heard = heard(url);
        let call = heard.iter().find(|message| message["params"]["name"] == "silent");
        id = call.map_or(Value::Null, |message| message["id"].clone());
        !id.is_null()
    });
    id
}

#[test]
fn a_client_that_hangs_up_cancels() {
    let gate = Gate::listening(&[]);
    let exchange = {
        let mut stream = connect(&gate.url);
        let message = modern_call("mine", "silent", json!({}));
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "silent")];
        stream.write_all(&bytes_of(&gate.url, "POST", &headers, message.to_string().as_bytes())).unwrap();
        stream
    };
    let id = id_of_silent(&gate.url);
    drop(exchange);
    wait_until("it is cancelled", || {
        heard(&gate.url)
            .iter()
            .any(|message| message["method"] == "notifications/cancelled" && message["params"]["requestId"] == id)
    });
    // In front of HTTP, the connection upstream ends.
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    for sse in [true, false] {
        let gone = || {
            let heard = text(&ask_modern(&gate.url, 1, "heard", json!({})));
            serde_json::from_str::<Value>(&heard).unwrap_or_else(|error| panic!("{error}: {heard}"))["gone"].clone()
        };
        let before = gone().as_u64().unwrap();
        let message = modern_call("mine", "silent", json!({"sse": sse}));
        let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "silent")];
        let mut stream = connect(&gate.url);
        stream.write_all(&bytes_of(&gate.url, "POST", &headers, message.to_string().as_bytes())).unwrap();
        std::thread::sleep(Duration::from_millis(300));
        drop(stream);
        wait_until("the server sees the end", || gone() == before + 1);
    }
}

#[test]
fn nobody_cancels_what_another_asked_for() {
    let gate = Gate::listening(&[]);
    let url = gate.url.clone();
    let slow = std::thread::spawn(move || ask_modern(&url, "mine", "silent", json!({})));
    let id = id_of_silent(&gate.url);
    let message = json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "_meta": modern_meta()}});
    open_modern(&gate.url, &message, &[]).finish();
    let cancelled = heard(&gate.url).iter().any(|message| message["method"] == "notifications/cancelled");
    drop(gate);
    let _ = slow.join();
    assert!(!cancelled, "a client cancelled the call of another by the gateway's own id for it");
}

#[test]
fn a_modern_client_that_does_not_read_does_not_block_others() {
    let gate = Gate::listening(&["--call-timeout-ms", "5000"]);
    let mut message = modern_call(1, "flood", json!({"count": 400, "size": 100_000}));
    message["params"]["_meta"]["progressToken"] = json!("t");
    let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", "flood")];
    let mut stream = connect(&gate.url);
    stream.write_all(&bytes_of(&gate.url, "POST", &headers, message.to_string().as_bytes())).unwrap();
    std::thread::sleep(Duration::from_millis(1000));
    let answer = ask_modern(&gate.url, 2, "echo", json!({"text": "on"}));
    assert_eq!(text(&answer), "on");
    drop(stream);
}

#[test]
fn clients_that_do_not_read_do_not_use_up_the_workers() {
    let gate = Gate::listening(&[]);
    let blocked: Vec<TcpStream> = (0..6)
        .map(|_| {
            let session = Session::begin(&gate.url);
            let message = tool_call(1, "flood", json!({"count": 300, "size": 60_000, "records": 5000}));
            let mut stream = connect(&gate.url);
            let bytes = bytes_of(&gate.url, "POST", &session.headers(), message.to_string().as_bytes());
            stream.write_all(&bytes).unwrap();
            stream
        })
        .collect();
    std::thread::sleep(Duration::from_millis(1500));
    let session = Session::begin(&gate.url);
    assert!(is_descriptor(&text(&session.call(1, "records", json!({"count": 5000})))));
    drop(blocked);
}

#[test]
fn a_server_that_never_reads_does_not_block_other_sessions() {
    let gate = Gate::listening(&["--call-timeout-ms", "1500"]);
    let deaf = Session::begin(&gate.url);
    assert_eq!(text(&deaf.call(1, "deaf", json!({}))), "deaf from now on");
    let blocked = deaf.clone();
    let blocked = std::thread::spawn(move || {
        blocked.open(&tool_call(2, "echo", json!({"text": "x".repeat(50 << 20)}))).finish().answer()
    });
    std::thread::sleep(Duration::from_millis(4500));
    let url = gate.url.clone();
    let (sender, received) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        Session::begin(&url).works();
        let _ = sender.send(());
    });
    received.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("another session gets no answer: {}", gate.errors()));
    assert!(error(&blocked.join().unwrap()).contains("1500 ms"));
}

// Streams.

#[test]
fn slow_calls_and_large_results_do_not_block_others() {
    /// Large results until the machine has given others a turn.
    const ROUNDS_MAX: usize = 10;
    for (gate, _upstream) in both(&[]) {
        let session = Session::begin(&gate.url);
        // The large result that is under way, counted from 1.
        let (round, is_enough) = (AtomicUsize::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| session.call("slow", "slow", json!({"ms": 3000})));
            let huge = scope.spawn(|| {
                for number in (1..=ROUNDS_MAX).take_while(|_| !is_enough.load(Ordering::Relaxed)) {
                    round.store(number, Ordering::Relaxed);
                    let id = format!("huge {number}");
                    assert!(is_descriptor(&text(&session.call(id, "huge", json!({"bytes": 100_000_000})))));
                }
            });
            // Were they blocked, at most one would end in the round it began in.
            let (mut meanwhile, mut current) = (0, 0);
            for count in 0.. {
                let before = round.load(Ordering::Relaxed);
                session.call(count, "echo", json!({"text": "quick"}));
                let is_within = before > 0 && round.load(Ordering::Relaxed) == before;
                meanwhile = if is_within && current == before { meanwhile + 1 } else { 0 };
                current = before;
                if meanwhile > 2 || huge.is_finished() {
                    break;
                }
            }
            is_enough.store(true, Ordering::Relaxed);
            assert!(meanwhile > 2, "large results hold up other calls");
            huge.join().unwrap();
            assert_eq!(text(&slow.join().unwrap()), "slept");
        });
    }
}

#[test]
fn chatter_of_a_server_is_no_answer() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    for chatter in ["{}", "42", "\"listening\"", "Server is up", "[]", "{\"level\":30,\"msg\":\"log\"}", "\x00\u{ff}"] {
        let bytes = [chatter.as_bytes(), b"\n", SHORT, b"\n"].concat();
        let answer = ask_modern(&gate.url, 1, "raw", raw(&bytes));
        assert_eq!(answer["result"]["content"][0]["text"], "short", "{chatter}: {answer}");
        let reply = session.open(&tool_call(2, "raw", raw(&bytes))).finish();
        assert_eq!(text(&reply.answer()), "short", "{chatter}");
    }
}

#[test]
fn carriage_returns_between_tokens() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    // From the server, in an event before the answer, and at the ends of lines.
    let bytes = [b"{\"jsonrpc\":\"2.0\",\r\"method\":\"notifications/message\",\"params\":{\"level\":\"info\",\"data\":\"cr\"}}\r\n", SHORT, b"\r\n"].concat();
    let reply = session.open(&tool_call(1, "raw", raw(&bytes))).finish();
    let raw_text = reply.text();
    let whole = raw_text
        .split(['\n', '\r'])
        .filter_map(|line| line.strip_prefix("data: "))
        .all(|line| serde_json::from_str::<Value>(line).is_ok());
    assert!(whole, "an event is cut at a carriage return: {raw_text:?}");
    // From the client, as serializers of Windows write it: a server that reads text takes it for the end of a line.
    let pretty = tool_call(2, "echo", json!({"text": "pretty"}));
    let pretty = serde_json::to_string_pretty(&pretty).unwrap().replace('\n', "\r\n");
    let reply = Exchange::open(&gate.url, "POST", &session.headers(), pretty.as_bytes()).finish();
    assert_eq!(text(&reply.answer()), "pretty");
    let heard = text(&session.call(3, "heard", json!({})));
    assert!(!heard.contains("broken"), "{heard}");
}

#[test]
fn every_byte_of_an_event_that_is_not_replaced() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let notification = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":1.0}}"#;
    let stream = format!(
        "\u{feff}: a comment\r\n\r\n:\n\nid: 1\r\nevent: message\r\nretry: 500\r\ndata: {notification}\r\n\r\nid:2\ndata:{}\ndata:  {}\n\n\
         data: {notification}\r\revent: other\ndata: not JSON\n\nid\ndata\n\nunknown: field\ndata: {}\nid: last\n\n: the end",
        &notification[..40],
        &notification[40..],
        String::from_utf8_lossy(SHORT),
    );
    for size in [1 << 20, 1, 7] {
        let mut arguments = raw(stream.as_bytes());
        arguments["size"] = size.into();
        let session = Session::begin(&gate.url);
        let reply = session.open(&tool_call(1, "raw", arguments)).finish();
        assert_eq!(reply.status, 200);
        assert_eq!(reply.text(), stream.replace("@ID@", "1"), "in pieces of {size}");
    }
}

#[test]
fn an_event_that_is_replaced_keeps_its_other_fields() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    let records: Vec<Value> = (0..5000).map(|number| json!({"number": number})).collect();
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": json!(records).to_string()}]}});
    let answer = answer.to_string();
    let (one, two) = answer.split_at(answer.find(',').unwrap());
    let stream =
        format!(": before\n\nid: 5\r\nevent: message\r\ndata: {one}\r\ndata: {two}\r\nretry: 9\r\n\r\n: after\n\n");
    let reply = session.open(&tool_call(1, "raw", raw(stream.as_bytes()))).finish();
    let text = reply.text();
    assert!(text.starts_with(": before\n\nid: 5\r\nevent: message\r\ndata: {"), "{}", &text[..200]);
    assert!(text.ends_with("\nretry: 9\r\n\r\n: after\n\n"), "{text}");
    let data: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
    let answer: Value = serde_json::from_str(&data.join("\n")).unwrap();
    assert!(is_descriptor(&crate::faults::text(&answer)));
}

#[test]
fn two_hundred_megabytes_offloaded() {
    let upstream = FaultyHttp::start();
    let gates = [Gate::proxy(&[], &upstream.url, &Environment::new()), Gate::listening(&[])];
    for gate in gates {
        let session = Session::begin(&gate.url);
        for sse in [false, true] {
            let watch = gate.watch();
            let answer = session.call(1, "huge", json!({"bytes": 200_000_000, "sse": sse}));
            assert!(is_descriptor(&text(&answer)), "{answer}");
            watch.stays_under(128);
        }
        session.works();
    }
}

// Faults upstream.

#[test]
fn an_upstream_that_is_not_there() {
    let gate = Gate::proxy(&[], "http://127.0.0.1:9/mcp", &Environment::new());
    let answer = post(&gate.url, &[], &request(1, "initialize", initialize())).answer();
    assert!(error(&answer).contains("cannot be reached"), "{answer}");
    assert!(error(&answer).contains("refused"), "{answer}");
    assert!(gate.terminate(PATIENCE).success());
}

#[test]
fn faults_of_an_upstream_over_http() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&["--call-timeout-ms", "1500"], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    let mut arguments = raw(b"<html>It broke</html>");
    arguments["status"] = 500.into();
    let reply = session.open(&tool_call(1, "status", arguments)).finish();
    assert_eq!((reply.status, reply.text()), (500, "<html>It broke</html>".to_owned()));
    // Nothing of HTTP follows a change of the protocol.
    let mut arguments = raw(b"");
    arguments["status"] = 101.into();
    let reply = session.open(&tool_call(4, "status", arguments)).finish();
    assert_eq!(reply.status, 200, "{}", reply.text());
    assert!(error(&reply.answer()).contains("HTTP status 101"), "{}", reply.text());
    for (tool, arguments) in [("cut", json!({})), ("cut", json!({"sse": true})), ("closed", json!({}))] {
        let answer = session.call(2, tool, arguments);
        let message = error(&answer);
        assert!(message.contains("connection") || message.contains("cannot be reached"), "{message}");
        session.works();
    }
    let answer = session.call(3, "silent", json!({"sse": true}));
    assert!(error(&answer).contains("1500 ms"), "{answer}");
    session.works();
}

#[test]
fn an_upstream_that_takes_a_call_and_says_nothing() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&["--call-timeout-ms", "1000"], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    let answer = session.call(1, "silent", json!({"ms": 10_000}));
    assert!(error(&answer).contains("1000 ms"), "{answer}");
    session.works();
}

#[test]
fn a_stream_that_ends_before_the_answer() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    for messages in [
        session.open(&tool_call(1, "ends", json!({}))).finish().messages(),
        open_modern(&gate.url, &modern_call(1, "ends", json!({})), &[]).finish().messages(),
    ] {
        let last = messages.last().unwrap();
        assert!(last["error"].is_object(), "there is no answer, and no event id to go on from: {messages:?}");
    }
}

#[test]
fn well_known_documents_of_the_upstream() {
    let upstream = FaultyHttp::start();
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let url = gate.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp?a=1");
    let reply = Exchange::open(&url, "GET", &[], b"").finish();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.headers["x-upstream"], "yes");
    assert_eq!(reply.text(), r#"{"path":"/.well-known/oauth-protected-resource/mcp?a=1"}"#);
    for path in ["/", "/mcp/x", "/.well-known", "/other"] {
        let reply = Exchange::open(&gate.url.replace("/mcp", path), "GET", &[], b"").finish();
        assert_eq!(reply.status, 404, "{path}");
    }
    let gate = Gate::listening(&[]);
    let url = gate.url.replace("/mcp", "/.well-known/x");
    assert_eq!(Exchange::open(&url, "GET", &[], b"").finish().status, 404);
}

// The end.

#[test]
fn an_end_by_signal_lets_calls_finish_and_ends_streams() {
    for (gate, upstream) in both(&["--shutdown-ms", "30000"]) {
        let session = Session::begin(&gate.url);
        let listening = session.request("GET");
        assert_eq!(listening.status, 200);
        std::thread::scope(|scope| {
            let slow = scope.spawn(|| session.call(1, "slow", json!({"ms": 1000, "finish": true})));
            std::thread::sleep(Duration::from_millis(300));
            signal("-TERM", gate.pid());
            assert_eq!(text(&slow.join().unwrap()), "slept");
            let reply = listening.finish();
            // What is left after the time for the end is cut.
            assert!(reply.whole, "the stream is cut, {}", upstream.is_some());
        });
        assert!(gate.terminate(PATIENCE).success());
    }
}

#[test]
fn a_restarted_server_works() {
    let gate = Gate::listening(&[]);
    let session = Session::begin(&gate.url);
    assert!(error(&session.call(1, "die", json!({}))).contains("killed by signal 9"));
    session.works();
    let heard = text(&session.call(2, "heard", json!({})));
    assert!(heard.contains("initialize"), "{heard}");
    // A request may come before all of the gateway knows of the end.
    for _ in 0..5 {
        let answer = ask_modern(&gate.url, 1, "die", json!({}));
        assert!(error(&answer).contains("killed by signal 9"), "{answer}");
        assert_eq!(text(&ask_modern(&gate.url, 1, "echo", json!({"text": "on"}))), "on");
    }
    assert!(gate.terminate(PATIENCE).success());
}
