//! What of a request over HTTP goes on, what is refused, and what is told to whom.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::{FaultyHttp, Gate, faulty, new_mark, text, tool_call};
use crate::http::{Exchange, Headers, Reply, Session, connect, post};
use crate::support::{Environment, environment, path_text};
use crate::wire::{initialize, request};

/// Headers by name of a request that the server got.
type Heard = BTreeMap<String, String>;

/// A configuration file. It stays until the end of the tests.
pub(crate) fn config(toml: &str) -> String {
    let file: PathBuf = TempDir::new().unwrap().keep().join("lro.toml");
    std::fs::write(&file, toml).unwrap();
    path_text(&file)
}

/// The requests that a server over HTTP got, with path and headers.
fn heard(url: &str) -> Vec<(String, Heard)> {
    let session = Session::begin(url);
    let heard: Value = serde_json::from_str(&text(&session.call("heard", "heard", json!({})))).unwrap();
    let of = |request: &Value| {
        let headers: Vec<(String, String)> = serde_json::from_value(request["headers"].clone()).unwrap();
        (request["path"].as_str().unwrap().to_owned(), headers.into_iter().collect())
    };
    heard["heard"].as_array().unwrap().iter().map(of).collect()
}

/// Sends a first request with these headers, and returns those that the server got.
fn sent_on(gate: &Gate, upstream: &FaultyHttp, headers: Headers<'_>) -> Heard {
    let reply =
        post(&gate.url, &[headers, &[("Mcp-Param-Mark", "this")]].concat(), &request(1, "initialize", initialize()));
    assert_eq!(reply.status, 200, "{}", reply.text());
    let all = heard(&upstream.url).into_iter().rev().map(|(_, headers)| headers);
    all.into_iter().find(|headers| headers.get("mcp-param-mark").is_some_and(|mark| mark == "this")).unwrap()
}

/// What a server must not believe because it comes from the gateway.
const FOREIGN: [(&str, &str); 14] = [
    ("Proxy-Authorization", "Basic c2VjcmV0"),
    ("Cookie", "session=secret"),
    ("Set-Cookie", "session=secret"),
    ("X-Original-URL", "/admin"),
    ("X-Rewrite-URL", "/admin"),
    ("X-Forwarded-For", "127.0.0.1"),
    ("X-Forwarded-Host", "internal.example"),
    ("X-Real-IP", "127.0.0.1"),
    ("Forwarded", "for=127.0.0.1"),
    ("X-HTTP-Method-Override", "DELETE"),
    ("X-Api-Key", "secret"),
    ("X-Custom", "custom"),
    ("Expect", ""),
    ("Origin", "http://localhost"),
];

#[test]
fn what_is_named_goes_upstream() {
    let upstream = FaultyHttp::start();
    let own = [
        ("Accept", "application/json, text/event-stream"),
        ("Accept-Language", "de"),
        ("Authorization", "Bearer of-the-server"),
        ("Content-Type", "application/json"),
        ("MCP-Protocol-Version", "2025-11-25"),
        ("Mcp-Param-Region", "eu"),
        ("Last-Event-ID", "7"),
        ("User-Agent", "a client"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
        ("tracestate", "a=b"),
        ("baggage", "c=d"),
    ];
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let got = sent_on(&gate, &upstream, &[&own[..], &FOREIGN[..]].concat());
    for (name, value) in own {
        assert_eq!(got.get(&name.to_lowercase()).map(String::as_str), Some(value), "{name}: {got:?}");
    }
    for (name, _) in FOREIGN {
        assert!(!got.contains_key(&name.to_lowercase()), "{name}: {got:?}");
    }
    // Those that the configuration names.
    let gate = Gate::proxy(&["--forward-headers", "X-Custom,cookie"], &upstream.url, &Environment::new());
    let got = sent_on(&gate, &upstream, &FOREIGN);
    assert_eq!((got["x-custom"].as_str(), got["cookie"].as_str()), ("custom", "session=secret"));
    assert!(!got.contains_key("x-api-key") && !got.contains_key("proxy-authorization"), "{got:?}");
    // A token of the gateway is not for the server.
    let config = config("[gateway.tokens]\nann = \"env:ANN\"\n");
    let gate = Gate::proxy(&["--config", &config], &upstream.url, &environment(&[("ANN", "secret-of-ann")]));
    let got = sent_on(&gate, &upstream, &[("Authorization", "Bearer secret-of-ann")]);
    assert!(!got.contains_key("authorization"), "{got:?}");
}

// A document is fetched without a credential and without a session, and nothing but a document is.
#[test]
fn nothing_but_documents_is_well_known() {
    let upstream = FaultyHttp::start();
    let config = config("[gateway.upstream-headers]\nX-Credential = \"secret\"\n");
    let gate = Gate::proxy(&["--config", &config], &upstream.url, &Environment::new());
    let session = Session::begin(&gate.url);
    let base = gate.url.strip_suffix("/mcp").unwrap();
    let headers = [("Mcp-Session-Id", session.id.as_str()), ("Authorization", "Bearer mine"), ("Cookie", "a=b")];
    let ask = |method: &str, path: &str| Exchange::open(&format!("{base}{path}"), method, &headers, b"").finish();
    for path in [
        "/.well-known/../mcp",
        "/.well-known/../admin",
        "/.well-known/./x",
        "/.well-known/..",
        "/.well-known/x/../../mcp",
        "/.well-known/%2e%2e/mcp",
        "/.well-known/%2E%2e/mcp",
        "/.well-known/.%2e/mcp",
        "/.well-known/%252e%252e/mcp",
        "/.well-known/..%2fmcp",
        "/.well-known/..%5cmcp",
        "/.well-known/x%2f..%2f..%2fmcp",
        "/.well-known/..\\mcp",
        "/.well-known/x\\..\\..\\mcp",
        "/.well-known//mcp",
        "/.well-known//evil.example/mcp",
        "/.well-known/..;/mcp",
        "/.well-known/;/../mcp",
        "/.well-known/%2e%2e%3b/mcp",
        "/.well-known/",
        "/.well-known/%00",
    ] {
        let reply = ask("GET", path);
        assert!([400, 404].contains(&reply.status), "{path}: {} {}", reply.status, reply.text());
    }
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(ask(method, "/.well-known/x").status, 404, "{method}");
    }
    // TRACE would show the credential.
    for method in ["TRACE", "PUT", "PATCH", "OTHER"] {
        assert_eq!(ask(method, "/mcp").status, 405, "{method}");
    }
    let document = "/.well-known/oauth-protected-resource/mcp";
    let reply = ask("GET", document);
    assert_eq!((reply.status, reply.headers["x-upstream"].as_str()), (200, "yes"));
    assert!(!reply.headers.contains_key("set-cookie"), "{:?}", reply.headers);
    let all = heard(&upstream.url);
    let (documents, others): (Vec<_>, Vec<_>) = all.iter().partition(|(path, _)| path.starts_with("/.well-known/"));
    assert_eq!(documents.iter().map(|(path, _)| path.as_str()).collect::<Vec<_>>(), [document]);
    assert!(others.iter().all(|(path, _)| path == "/mcp"), "{others:?}");
    for name in ["authorization", "mcp-session-id", "cookie", "x-credential"] {
        assert!(!documents[0].1.contains_key(name), "{name}: {documents:?}");
    }
    // The endpoint itself gets it.
    assert!(others.iter().any(|(_, headers)| headers.get("x-credential").is_some_and(|value| value == "secret")));
}

/// Sends bytes and returns the status.
fn status_of(url: &str, head: &[u8]) -> (u16, String) {
    let body = request(1, "initialize", initialize()).to_string();
    let mut stream = connect(url);
    let length =
        format!("Content-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    stream.write_all(&[head, length.as_bytes(), body.as_bytes()].concat()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    (answer.split(' ').nth(1).unwrap().parse().unwrap(), answer)
}

// A host that two readers could read in two ways is no host.
#[test]
fn one_host_and_one_origin() {
    let upstream = FaultyHttp::start();
    for gate in [Gate::listening(&[]), Gate::proxy(&[], &upstream.url, &Environment::new())] {
        let ask = |head: &[u8]| status_of(&gate.url, head);
        let with = |host: &[u8]| ask(&[b"POST /mcp HTTP/1.1\r\nHost:", host, b"\r\n"].concat());
        for host in [&b" localhost"[..], b" 127.0.0.1:80", b" [::1]"] {
            assert_eq!(with(host).0, 200, "{}", String::from_utf8_lossy(host));
        }
        for host in [
            &b""[..],
            b" ",
            b" evil.example",
            b" localhost\r\nHost: evil.example",
            b" evil.example\r\nHost: localhost",
            b" localhost\r\nHost: localhost",
            b" localhost, evil.example",
            b" localhost evil.example",
            b" localhost@evil.example",
            b" evil.example@localhost",
            b" localhost:80@evil.example",
            b" localhost/evil.example",
            b" l\xc3\xb6calhost",
            b" \xff",
        ] {
            let (status, answer) = with(host);
            assert_eq!(status, 403, "{}: {answer}", String::from_utf8_lossy(host));
            assert!(answer.contains("gateway.allowed-hosts"), "{answer}");
        }
        // The whole address in the place of the path.
        let absolute =
            |target: &str| ask(format!("POST http://{target}/mcp HTTP/1.1\r\nHost: localhost\r\n").as_bytes());
        assert_eq!(absolute("localhost").0, 200);
        for target in ["evil.example", "user@localhost", "localhost@evil.example"] {
            let (status, answer) = absolute(target);
            assert!([400, 403].contains(&status), "{target}: {answer}");
        }
        for origin in [&b"http://localhost\r\nOrigin: http://evil.example"[..], b"http://l\xc3\xb6calhost", b""] {
            let (status, answer) =
                ask(&[b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nOrigin: ", origin, b"\r\n"].concat());
            assert_eq!(status, 403, "{}: {answer}", String::from_utf8_lossy(origin));
        }
    }
}

fn get(url: &str, token: &str) -> Reply {
    let token = if token.is_empty() { String::new() } else { format!("Bearer {token}") };
    Exchange::open(url, "GET", &[("Authorization", &token)], b"").finish()
}

// Who is a tenant is for operators.
#[test]
fn tenants_are_named_to_operators() {
    let toml = "[gateway]\nadmin-token = \"env:ADMIN\"\nmetrics-token = \"env:METRICS\"\n\
        [gateway.tokens]\nann = \"env:ANN\"\n[tenants.ann]\npolicy = \"/nowhere.wasm\"\n";
    let config = config(toml);
    let variables =
        environment(&[("ANN", "token-of-ann"), ("ADMIN", "token-of-admin"), ("METRICS", "token-of-metrics")]);
    for (address, is_local) in [("127.0.0.1:0", true), ("0.0.0.0:0", false)] {
        let mark = new_mark();
        let flags = ["--config", config.as_str(), "--metrics-listen", address];
        let gate = Gate::listening_before(&flags, &faulty(&[&mark]), &mark, &variables);
        let metrics = gate.told("metrics on ").replace("0.0.0.0", "127.0.0.1");
        let health = metrics.replace("/metrics", "/healthz");
        Session::begin_as(&gate.url, "token-of-ann").works();
        for (token, sees) in [("", is_local), ("token-of-metrics", true), ("token-of-admin", true)] {
            let (metrics, health) = (get(&metrics, token), get(&health, token));
            assert_eq!((metrics.status, health.status), (200, 503));
            assert_eq!(metrics.text().contains("tenant=\"ann\""), sees, "{address} {token}: {}", metrics.text());
            assert_eq!(health.text().contains("ann"), sees, "{address} {token}: {}", health.text());
            assert!(metrics.text().contains("lro_sessions 1"), "{}", metrics.text());
            assert!(health.text().starts_with("degraded"), "{}", health.text());
        }
        let wrong = get(&metrics, "token-of-ann").status;
        assert_eq!(wrong, if is_local { 200 } else { 401 });
        // To read is not to change.
        assert_eq!(get(&metrics.replace("/metrics", "/policies"), "token-of-metrics").status, 401);
        assert_eq!(get(&metrics.replace("/metrics", "/policies"), "token-of-admin").status, 200);
    }
}

#[test]
fn what_can_be_reached_from_elsewhere_is_warned_of() {
    let variables = environment(&[("ADMIN", "token-of-admin"), ("ANN", "token-of-ann")]);
    let (admin, tokens) = ("[gateway]\nadmin-token = \"env:ADMIN\"\n", "[gateway.tokens]\nann = \"env:ANN\"\n");
    let tenants = "[tenants.ann]\nthreshold = 1000\n";
    let everywhere = "can be reached from elsewhere";
    for (listen, metrics, toml, warnings) in [
        ("127.0.0.1:0", "127.0.0.1:0", [admin, tokens, tenants].concat(), vec![]),
        ("0.0.0.0:0", "127.0.0.1:0", [admin, tokens].concat(), vec![]),
        ("0.0.0.0:0", "127.0.0.1:0", String::new(), vec!["without a token: set [gateway.tokens]"]),
        ("127.0.0.1:0", "0.0.0.0:0", String::new(), vec!["metrics can be read at", everywhere]),
        ("127.0.0.1:0", "0.0.0.0:0", [admin, tokens].concat(), vec!["policies can be changed at", everywhere]),
        ("127.0.0.1:0", "127.0.0.1:0", tenants.to_owned(), vec!["the tenant that the path names"]),
    ] {
        let mark = new_mark();
        let config = config(&toml);
        let flags = ["--config", config.as_str(), "--listen", listen, "--metrics-listen", metrics];
        let gate = Gate::start(&flags, &faulty(&[&mark]), &mark, &variables);
        gate.told("listening on ");
        let errors = gate.errors();
        let found = errors.lines().filter(|line| line.contains("elsewhere") || line.contains("the path names")).count();
        assert_eq!(found, usize::from(!warnings.is_empty()), "{listen} {metrics} {toml}: {errors}");
        assert!(warnings.iter().all(|warning| errors.contains(warning)), "{listen} {metrics} {toml}: {errors}");
    }
}

// A body of a batch counts as many requests as it holds.
#[test]
fn a_batch_takes_a_place_for_each_request() {
    let gate = Gate::listening(&["--requests", "4"]);
    let session = Session::begin(&gate.url);
    let batch =
        |count: u32| json!((0..count).map(|id| tool_call(id, "echo", json!({"text": "a"}))).collect::<Vec<_>>());
    assert_eq!(session.open(&batch(4)).finish().messages().len(), 4);
    let refused = session.open(&batch(5)).finish();
    assert_eq!(refused.status, 503, "{}", refused.text());
    assert!(refused.text().contains("gateway.requests"), "{}", refused.text());
}
