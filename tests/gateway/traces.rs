//! Traces of calls, before a collector that speaks OTLP over HTTP, and servers that say what they got.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use lro_tests::wait_until;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{AnyValue, any_value};
use prost::Message as _;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, faulty, is_descriptor, new_mark, text, tool_call};
use crate::http::{Session, modern_call, open_modern, post};
use crate::scripted::{descriptor, handle};
use crate::support::{Environment, PATIENCE, environment, path_text, words};
use crate::wire::MODERN;

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// The context of a client, with these flags.
fn traceparent(flags: &str) -> String {
    format!("00-{TRACE}-{PARENT}-{flags}")
}

/// A collector, and what it got.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
}

#[derive(Clone, Debug)]
struct Span {
    name: String,
    trace: String,
    id: String,
    parent: String,
    kind: i32,
    has_failed: bool,
    attributes: BTreeMap<String, String>,
    service: String,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let bodies = Arc::new(Mutex::new(Vec::new()));
        let received = Arc::clone(&bodies);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let received = Arc::clone(&received);
                std::thread::spawn(move || take(&stream, &received));
            }
        });
        Self { url, bodies }
    }

    /// The variables of a gateway that sends spans here.
    fn variables(&self) -> Environment {
        environment(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &self.url), ("OTEL_BSP_SCHEDULE_DELAY", "50")])
    }

    fn spans(&self) -> Vec<Span> {
        let bodies = self.bodies.lock().unwrap();
        bodies.iter().flat_map(|body| spans(&ExportTraceServiceRequest::decode(&body[..]).unwrap())).collect()
    }

    /// The only span of this name, when it is there.
    fn span(&self, name: &str) -> Span {
        let named = || self.spans().into_iter().filter(|span| span.name == name).collect::<Vec<_>>();
        wait_until(name, || !named().is_empty());
        let mut named = named();
        assert_eq!(named.len(), 1, "{named:?}");
        named.remove(0)
    }

    /// The spans with this attribute in the order of their names.
    fn spans_of(&self, tool: &str) -> Vec<Span> {
        let is_of = |span: &Span| span.attributes.get("gen_ai.tool.name").is_some_and(|name| name == tool);
        let mut spans: Vec<Span> = self.spans().into_iter().filter(is_of).collect();
        spans.sort_by_key(|span| (span.name.clone(), span.kind));
        spans
    }

    /// Whether a text is in anything that came.
    fn has(&self, text: &str) -> bool {
        let has = |body: &Vec<u8>| body.windows(text.len()).any(|bytes| bytes == text.as_bytes());
        self.bodies.lock().unwrap().iter().any(has)
    }
}

/// Answers the requests of a connection.
fn take(stream: &TcpStream, received: &Mutex<Vec<Vec<u8>>>) {
    let mut reader = BufReader::new(stream);
    loop {
        let (mut length, mut head) = (0, String::new());
        loop {
            let mut line = String::new();
            if reader.read_line(&mut line).unwrap_or(0) == 0 {
                return;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            head.push_str(&line);
            if line == "\r\n" {
                break;
            }
        }
        assert!(head.starts_with("POST /v1/traces HTTP/1.1\r\n"), "{head}");
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        received.lock().unwrap().push(body);
        let mut stream = stream;
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n")
            .unwrap();
    }
}

fn spans(request: &ExportTraceServiceRequest) -> Vec<Span> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut found = Vec::new();
    for resource in &request.resource_spans {
        let about = &resource.resource.as_ref().unwrap().attributes;
        let service = about.iter().find(|attribute| attribute.key == "service.name").unwrap();
        for span in resource.scope_spans.iter().flat_map(|scope| &scope.spans) {
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano, "{span:?}");
            let attributes = span.attributes.iter().map(|one| (one.key.clone(), value(one.value.as_ref())));
            found.push(Span {
                name: span.name.clone(),
                trace: hex(&span.trace_id),
                id: hex(&span.span_id),
                parent: hex(&span.parent_span_id),
                kind: span.kind,
                has_failed: span.status.as_ref().is_some_and(|status| status.code == 2),
                attributes: attributes.collect(),
                service: value(service.value.as_ref()),
            });
        }
    }
    found
}

fn value(value: Option<&AnyValue>) -> String {
    match value.unwrap().value.as_ref().unwrap() {
        any_value::Value::StringValue(text) => text.clone(),
        other => format!("{other:?}"),
    }
}

/// A call of a client that has a span.
fn traced(id: &str, tool: &str, arguments: Value, flags: &str) -> Value {
    let mut message = tool_call(id, tool, arguments);
    message["params"]["_meta"] = json!({"traceparent": traceparent(flags), "tracestate": "vendor=1"});
    message
}

/// The kinds of OTLP.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;

/// What an answer says, as the raw bytes of the faulty server.
fn raw(answer: &str) -> Value {
    json!({"raw": STANDARD.encode(format!(r#"{{"jsonrpc":"2.0","id":@ID@,{answer}}}{}"#, "\n"))})
}

#[test]
fn a_call_is_a_span_with_children_in_the_trace_of_its_client() {
    let collector = Collector::start();
    let mark = new_mark();
    let mut gate = Gate::start(&[], &faulty(&[&mark]), &mark, &collector.variables());
    gate.shake_hands();
    let answer = gate.ask(&traced("a", "records", json!({"count": 5000, "note": "secret-argument"}), "01"));
    assert!(is_descriptor(&text(&answer)), "{answer}");
    // The server is told of the span that waits for it, with what the client has said besides.
    let heard = gate.heard();
    let meta = &heard.iter().find(|message| message["id"] == "a").unwrap()["params"]["_meta"];
    let sent: Vec<&str> = meta["traceparent"].as_str().unwrap().split('-').collect();
    assert_eq!((sent[1], sent[3], &meta["tracestate"]), (TRACE, "01", &json!("vendor=1")));

    let handle = handle(&descriptor(&answer["result"]).unwrap());
    gate.ask(&traced("b", "lro_extract", json!({"handle": handle, "limit": 1}), "01"));
    let failed = gate.ask(&traced("c", "raw", raw(r#""error":{"code":-32602,"message":"secret-message"}"#), "01"));
    assert_eq!(failed["error"]["code"], -32602, "{failed}");
    gate.ask(&traced("d", "raw", raw(r#""result":{"content":[{"type":"text","text":"no"}],"isError":true}"#), "01"));
    assert!(gate.end().success());

    let named = |attributes: &BTreeMap<String, String>, names: &[&str]| {
        names.iter().map(|name| attributes.get(*name).cloned().unwrap_or_default()).collect::<Vec<_>>()
    };
    let [client, server] = &collector.spans_of("records")[..] else { panic!("{:?}", collector.spans()) };
    let (server, client) = if server.kind == SERVER { (server, client) } else { (client, server) };
    assert_eq!((server.kind, client.kind, server.service.as_str()), (SERVER, CLIENT, "lro-gateway"));
    assert_eq!((server.name.as_str(), client.name.as_str()), ("tools/call records", "tools/call records"));
    assert_eq!((server.trace.as_str(), server.parent.as_str()), (TRACE, PARENT));
    assert_eq!((&client.trace, &client.parent, client.id.as_str()), (&server.trace, &server.id, sent[2]));
    let names = ["mcp.method.name", "gen_ai.operation.name", "network.transport", "lro.verdict", "lro.handle"];
    let expected = ["tools/call", "execute_tool", "pipe", "offload", &handle];
    assert_eq!(named(&server.attributes, &names), expected, "{server:?}");
    assert_eq!(named(&server.attributes, &["mcp.protocol.version", "error.type"]), ["2025-11-25", ""]);
    assert_eq!(client.attributes["jsonrpc.request.id"], "a");
    for name in ["policy", "write"] {
        let all = collector.spans();
        let of_call: Vec<&Span> = all.iter().filter(|span| span.name == name && span.parent == server.id).collect();
        assert_eq!(of_call.len(), 1, "{name}: {all:?}");
        assert_eq!((&of_call[0].trace, of_call[0].kind, of_call[0].has_failed), (&server.trace, INTERNAL, false));
    }
    let asked = collector.span("tools/call lro_extract");
    let query = collector.span("query");
    assert_eq!((asked.parent.as_str(), &query.parent, &query.trace), (PARENT, &asked.id, &asked.trace));
    // Both ends of a call that failed say why.
    let of_raw = collector.spans_of("raw");
    let why = |code: &str| {
        let of = |span: &&Span| span.attributes.get("error.type").is_some_and(|kind| kind == code) && span.has_failed;
        of_raw.iter().filter(of).map(|span| span.kind).collect::<BTreeSet<_>>()
    };
    assert_eq!((why("-32602"), why("tool_error")), ([SERVER, CLIENT].into(), [SERVER, CLIENT].into()), "{of_raw:?}");
    // Neither arguments nor results.
    for secret in ["secret-argument", "secret-message", "record 17"] {
        assert!(!collector.has(secret), "{secret}");
    }
}

#[test]
fn the_context_is_all_that_a_server_gets_besides_the_message() {
    let collector = Collector::start();
    let files = TempDir::new().unwrap();
    let written = files.path().join("lines");
    let server = words(&["sh", "-c", &format!("cat > '{}'", path_text(&written))]);
    let line = |context: &str| {
        format!(
            r#"{{ "jsonrpc":"2.0", "id" : 1.0e0,"method":"tools/call","params":{{"_meta":{{"x":[1.0,1e2] ,{context}"y":"\u00e9"}},"name":"n","arguments":{{"a":1.00, "a":2}}}} }}"#
        )
    };
    let given = line(&format!(r#""tracestate":"a=1 , b=2","traceparent":"{}","#, traceparent("01")));
    let got = |variables: &Environment, given: &str| {
        let _ = std::fs::remove_file(&written);
        let mut gate = Gate::start(&[], &server, &new_mark(), variables);
        gate.send_bytes(format!("{given}\n").as_bytes());
        wait_until("the line", || std::fs::read_to_string(&written).is_ok_and(|text| text.ends_with('\n')));
        assert!(gate.end().success());
        std::fs::read_to_string(&written).unwrap().trim_end_matches('\n').to_owned()
    };
    // Without a collector, not a byte is changed.
    assert_eq!(got(&Environment::new(), &given), given);
    let at = given.find(PARENT).unwrap();
    let traced = got(&collector.variables(), &given);
    assert_eq!((&traced[..at], &traced[at + 16..]), (&given[..at], &given[at + 16..]), "{traced}");
    assert_ne!(&traced[at..at + 16], PARENT);
    // One that has no trace begins one.
    let given = line("");
    let begun = got(&collector.variables(), &given);
    let context = begun.split_once(r#""traceparent":"#).unwrap().1.split('"').nth(1).unwrap();
    assert_eq!(
        (context.len(), begun.replacen(&format!(r#","traceparent":"{context}""#), "", 1)),
        (55, given),
        "{begun}"
    );
    // What is too long for a trace is no part of it, and goes to the server.
    let long = format!("a={}", "x".repeat(2_000));
    let given = line(&format!(r#""traceparent":"{}","tracestate":"{long}","#, traceparent("01")));
    assert!(got(&collector.variables(), &given).contains(&long));
    wait_until("spans", || collector.spans().iter().filter(|span| span.parent == PARENT).count() == 2);
    assert!(!collector.has(&long[..1_000]));
    // What the client does not record, nobody records.
    let unsampled = line(&format!(r#""traceparent":"{}","#, traceparent("00")));
    let collector = Collector::start();
    let passed = got(&collector.variables(), &unsampled);
    assert!(passed.contains(&format!("00-{TRACE}-")) && passed.contains("-00\""), "{passed}");
    assert!(collector.spans().is_empty());
}

/// Headers and metadata of the last call that a server over HTTP got.
fn heard(url: &str) -> (BTreeMap<String, String>, Value) {
    let session = Session::begin(url);
    let heard: Value = serde_json::from_str(&text(&session.call("heard", "heard", json!({})))).unwrap();
    let all = heard["heard"].as_array().unwrap();
    let of_call = |request: &&Value| request["body"]["method"] == "tools/call" && request["body"]["id"] != "heard";
    let request = all.iter().rfind(of_call).unwrap_or_else(|| panic!("{heard}"));
    let headers: Vec<(String, String)> = serde_json::from_value(request["headers"].clone()).unwrap();
    (headers.into_iter().collect(), request["body"]["meta"].clone())
}

#[test]
fn a_trace_goes_on_over_http() {
    let upstream = FaultyHttp::start();
    let context = traceparent("01");
    let headers = [("traceparent", context.as_str()), ("tracestate", "vendor=1")];
    // A client over HTTP, before a command: what is in the header gets into the message.
    let collector = Collector::start();
    let mark = new_mark();
    let gate = Gate::listening_before(&[], &faulty(&[&mark]), &mark, &collector.variables());
    let session = Session::begin(&gate.url);
    let mut all = session.headers();
    all.extend(headers);
    let message = tool_call("a", "echo", json!({"text": "b"}));
    post(&gate.url, &all, &message);
    let heard_there: Value = serde_json::from_str(&text(&session.call("heard", "heard", json!({})))).unwrap();
    let meta = &heard_there.as_array().unwrap().iter().find(|message| message["id"] == "a").unwrap()["params"]["_meta"];
    wait_until("both spans", || collector.spans_of("echo").len() == 2);
    check(&collector, "echo", meta, None);
    let server = collector.spans_of("echo").into_iter().find(|span| span.kind == SERVER).unwrap();
    assert_eq!(server.attributes["mcp.session.id"], session.id, "{server:?}");
    assert_eq!(server.attributes["network.transport"], "tcp");

    // A proxy before a server over HTTP: header and message say the same.
    let collector = Collector::start();
    let gate = Gate::proxy(&[], &upstream.url, &collector.variables());
    let answered = open_modern(&gate.url, &modern_call("a", "echo", json!({"text": "b"})), &headers).finish();
    assert_eq!(text(&answered.answer()), "b");
    wait_until("both spans", || collector.spans_of("echo").len() == 2);
    let (sent, meta) = heard(&upstream.url);
    check(&collector, "echo", &meta, Some(&sent));
    let server = collector.spans_of("echo").into_iter().find(|span| span.kind == SERVER).unwrap();
    assert_eq!(server.attributes["mcp.protocol.version"], MODERN, "{server:?}");

    // A client on standard streams, before a server over HTTP.
    let collector = Collector::start();
    let mut gate = Gate::start(&["--upstream", &upstream.url], &[], &new_mark(), &collector.variables());
    gate.shake_hands();
    gate.ask(&traced("a", "echo", json!({"text": "b"}), "01"));
    wait_until("both spans", || collector.spans_of("echo").len() == 2);
    let (sent, meta) = heard(&upstream.url);
    check(&collector, "echo", &meta, Some(&sent));
}

/// Panics unless a call is in the trace of its client, and the server was told of the span that waits for it.
fn check(collector: &Collector, tool: &str, meta: &Value, headers: Option<&BTreeMap<String, String>>) {
    let spans = collector.spans_of(tool);
    let of_kind = |kind| spans.iter().find(|span| span.kind == kind).unwrap_or_else(|| panic!("{spans:?}"));
    let (server, client) = (of_kind(SERVER), of_kind(CLIENT));
    assert_eq!((server.trace.as_str(), server.parent.as_str()), (TRACE, PARENT));
    assert_eq!((&client.trace, &client.parent), (&server.trace, &server.id));
    let sent = format!("00-{TRACE}-{}-01", client.id);
    assert_eq!((meta["traceparent"].as_str(), meta["tracestate"].as_str()), (Some(sent.as_str()), Some("vendor=1")));
    if let Some(headers) = headers {
        assert_eq!((headers["traceparent"].as_str(), headers["tracestate"].as_str()), (sent.as_str(), "vendor=1"));
    }
}

#[test]
fn a_collector_that_is_down_delays_no_call() {
    let calls = 40;
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    // It takes connections and never answers.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for (address, says) in [(closed, "traces are lost"), (silent.local_addr().unwrap(), "queue full")] {
        let variables = environment(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", &format!("http://{address}")),
            ("OTEL_BSP_SCHEDULE_DELAY", "1"),
            ("OTEL_BSP_MAX_QUEUE_SIZE", "4"),
            ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2"),
        ]);
        let mark = new_mark();
        let mut gate = Gate::start(&[], &faulty(&[&mark]), &mark, &variables);
        gate.shake_hands();
        (0..calls).for_each(|_| gate.works());
        wait_until(says, || gate.errors().contains(says));
        (0..calls).for_each(|_| gate.works());
        let errors = gate.errors();
        assert_eq!(errors.matches(says).count(), 1, "{errors}");
        assert!(gate.end().success());
    }
}

#[test]
fn spans_are_sent_before_the_end_and_only_where_they_are_wanted() {
    let collector = Collector::start();
    let run = |more: &[(&str, &str)]| {
        let mut variables = collector.variables();
        variables.extend(environment(&[("OTEL_BSP_SCHEDULE_DELAY", "3600000"), ("OTEL_SERVICE_NAME", "named")]));
        variables.extend(environment(more));
        let mark = new_mark();
        let mut gate = Gate::start(&[], &faulty(&[&mark]), &mark, &variables);
        gate.shake_hands();
        gate.works();
        assert!(gate.end().success());
        collector.spans()
    };
    assert!(run(&[("OTEL_SDK_DISABLED", "true")]).is_empty());
    assert!(run(&[("OTEL_TRACES_EXPORTER", "none")]).is_empty());
    let spans = run(&[]);
    assert!(spans.len() >= 3 && spans.iter().all(|span| span.service == "named"), "{spans:?}");
    let mark = new_mark();
    let mut gate = Gate::start(
        &[],
        &faulty(&[&mark]),
        &mark,
        &environment(&[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url.as_str()),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ]),
    );
    assert!(!gate.wait(PATIENCE).success());
    // What it has written last may be read after its end.
    wait_until("an error", || gate.errors().contains("OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`"));
}
