//! Clients of one generation of the protocol before servers of the other, both over HTTP: sessions, credentials and limits.

use std::io::Write;

use lro_tests::wait_until;
use serde_json::{Value, json};

use crate::faults::{FaultyHttp, Gate, text, tool_call};
use crate::http::{Reply, Session, bytes_of, connect, modern_call, open_modern, post};
use crate::support::{Environment, environment};
use crate::wire::{MODERN, initialize, request};

const ALWAYS: [&str; 2] = ["--translate", "always"];

fn bearer(token: &str) -> String {
    format!("Bearer {token}")
}

/// What a client without a handshake gets with this token.
fn ask(url: &str, token: &str, tool: &str, arguments: Value) -> Reply {
    open_modern(url, &modern_call(1, tool, arguments), &[("Authorization", &bearer(token))]).finish()
}

/// The requests that the server got, each with the values of these headers.
fn heard(answer: &Value, names: [&str; 2]) -> Vec<(String, [Option<String>; 2])> {
    let heard: Value = serde_json::from_str(&text(answer)).unwrap();
    let of = |request: &Value| {
        let headers: Vec<(String, String)> = serde_json::from_value(request["headers"].clone()).unwrap();
        let value = |name| headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.clone());
        (request["body"]["method"].as_str().unwrap_or_default().to_owned(), names.map(value))
    };
    heard["heard"].as_array().unwrap().iter().map(of).collect()
}

fn assert_challenged(reply: &Reply) {
    let challenge = reply.headers.get("www-authenticate").map(String::as_str);
    let expected = Some(r#"Bearer resource_metadata="http://example.org/metadata""#);
    assert_eq!((reply.status, challenge), (401, expected), "{}", reply.text());
}

// Each user has a session with the server, which gets that user's credential alone, and answers for nobody else.
#[test]
fn users_stay_apart() {
    let upstream = FaultyHttp::with(&["--only", "legacy", "--tokens", "of-ann,of-bob"]);
    let reuse = crate::headers::config("[tools.\"*\"]\nreuse-seconds = 600\n");
    let flags = [&ALWAYS[..], &["--config", &reuse]].concat();
    let gate = Gate::proxy(&flags, &upstream.url, &Environment::new());
    assert_challenged(&ask(&gate.url, "of-nobody", "echo", json!({"text": "x"})));
    for token in ["of-ann", "of-bob", "of-ann", "of-bob"] {
        let reply = ask(&gate.url, token, "echo", json!({"text": "same"}));
        assert_eq!((reply.status, text(&reply.answer())), (200, "same".to_owned()));
    }
    let answer = ask(&gate.url, "of-bob", "heard", json!({})).answer();
    let all = heard(&answer, ["mcp-session-id", "authorization"]);
    // Calls without a session were refused.
    let is_call = |(method, headers): &&(String, [Option<String>; 2])| method == "tools/call" && headers[0].is_some();
    let calls: Vec<_> = all.iter().filter(is_call).map(|(_, headers)| headers).collect();
    assert_eq!(calls.len(), 5, "{all:?}");
    let pairs: std::collections::BTreeSet<_> = calls.into_iter().collect();
    let users: Vec<_> = pairs.iter().filter_map(|[_, user]| user.as_deref()).collect();
    assert_eq!(users, ["Bearer of-ann", "Bearer of-bob"], "{pairs:?}");
    // A credential that the server does not accept any more.
    assert_eq!(ask(&gate.url, "of-ann", "revoke", json!({})).status, 200);
    assert_challenged(&ask(&gate.url, "of-ann", "echo", json!({"text": "x"})));
    assert_challenged(&ask(&gate.url, "of-ann", "echo", json!({"text": "x"})));
    assert_eq!(ask(&gate.url, "of-bob", "echo", json!({"text": "x"})).status, 200);
}

// A session goes on with the credential of each request, as that of its user changes.
#[test]
fn sessions_before_a_server_without_sessions() {
    let upstream = FaultyHttp::with(&["--only", "modern", "--tokens", "first,second"]);
    let gate = Gate::proxy(&[], &upstream.url, &Environment::new());
    let hello = request(1, "initialize", initialize());
    assert_challenged(&post(&gate.url, &[("Authorization", &bearer("wrong"))], &hello));
    let mut session = Session::begin_as(&gate.url, "first");
    session.works();
    let gone = session.call(2, "revoke", json!({}));
    assert_eq!(text(&gone), "revoked");
    assert_challenged(&session.open(&tool_call(3, "echo", json!({"text": "x"}))).finish());
    session.token = bearer("second");
    session.works();
    let all = heard(&session.call(4, "heard", json!({})), ["mcp-session-id", "mcp-name"]);
    assert!(all.iter().all(|(_, [session, _])| session.is_none()), "{all:?}");
    let named = |name: &str| all.iter().filter(|(_, [_, found])| found.as_deref() == Some(name)).count();
    assert_eq!((named("revoke"), named("heard")), (1, 1), "{all:?}");
    // A gateway before this one does not take the session for its own.
    let front = Gate::proxy(&[], &gate.url, &Environment::new());
    Session::begin_as(&front.url, "second").works();
    // A session can be listened to, and ended.
    assert!(session.request("GET").is_stream());
    assert_eq!(session.request("DELETE").status, 204);
    assert_eq!(session.open(&tool_call(5, "echo", json!({"text": "x"}))).finish().status, 404);
}

#[test]
fn sessions_belong_to_their_tenant() {
    let upstream = FaultyHttp::with(&["--only", "modern"]);
    let config = crate::headers::config("[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n");
    let tokens = environment(&[("ANN", "secret-of-ann"), ("BOB", "secret-of-bob")]);
    let gate = Gate::proxy(&["--config", &config], &upstream.url, &tokens);
    let ann = Session::begin_as(&gate.url, "secret-of-ann");
    ann.works();
    let bob = Session { token: bearer("secret-of-bob"), ..ann.clone() };
    assert_eq!(bob.open(&tool_call(1, "echo", json!({"text": "x"}))).finish().status, 404);
    assert_eq!(bob.request("DELETE").status, 404);
    ann.works();
}

// The client gets the refusal of the server, byte for byte, and no session.
#[test]
fn a_refusal_of_both_generations_passes() {
    let hello = request(1, "initialize", initialize());
    let modern = FaultyHttp::with(&["--only", "modern"]);
    let never = Gate::proxy(&["--translate", "never"], &modern.url, &Environment::new());
    let neither = FaultyHttp::with(&["--only", "neither"]);
    let refusing = Gate::proxy(&[], &neither.url, &Environment::new());
    for (gate, upstream) in [(&never, &modern), (&refusing, &neither)] {
        let (direct, reply) = (post(&upstream.url, &[], &hello), post(&gate.url, &[], &hello));
        assert_eq!((reply.status, &reply.body), (400, &direct.body));
        assert!(!reply.headers.contains_key("mcp-session-id"));
    }
    // Clients without a handshake are translated only by setting.
    let legacy = FaultyHttp::with(&["--only", "legacy"]);
    let gate = Gate::proxy(&[], &legacy.url, &Environment::new());
    let refused = ask(&gate.url, "x", "echo", json!({"text": "x"}));
    assert_eq!((refused.status, &refused.answer()["error"]["message"]), (400, &"only legacy".into()));
    // Before a server that understands them, nothing is added to what they send.
    let gate = Gate::proxy(&ALWAYS, &modern.url, &Environment::new());
    for _ in 0..3 {
        assert_eq!(ask(&gate.url, "x", "echo", json!({"text": "x"})).status, 200);
    }
    let all = heard(&ask(&gate.url, "x", "heard", json!({})).answer(), ["mcp-method", "authorization"]);
    let is_own = |headers: &[Option<String>; 2]| headers[1].is_some();
    let methods: Vec<&str> = all.iter().filter(|one| is_own(&one.1)).map(|(method, _)| method.as_str()).collect();
    assert_eq!(methods, ["server/discover", "tools/call", "tools/call", "tools/call", "tools/call"]);
}

// Connections count as sessions. One that nobody uses makes room.
#[test]
fn connections_are_bounded() {
    let upstream = FaultyHttp::with(&["--only", "legacy"]);
    let gate = Gate::proxy(&[&ALWAYS[..], &["--sessions", "2"]].concat(), &upstream.url, &Environment::new());
    for user in ["a", "b", "c", "d"] {
        assert_eq!(ask(&gate.url, user, "echo", json!({"text": "x"})).status, 200, "{user}");
    }
    let watcher = Session::begin(&upstream.url);
    let slow = || {
        let all = heard(&watcher.call("heard", "heard", json!({})), ["authorization", "mcp-session-id"]);
        let users: Vec<_> = all.iter().filter_map(|(_, [user, _])| user.clone()).collect();
        users.iter().filter(|user| ["e", "f"].contains(&user.as_str())).count()
    };
    let mut open = Vec::new();
    for user in ["e", "f"] {
        let body = modern_call(user, "slow", json!({"ms": 60_000})).to_string();
        let headers = [
            ("MCP-Protocol-Version", MODERN),
            ("Mcp-Method", "tools/call"),
            ("Mcp-Name", "slow"),
            ("Authorization", user),
        ];
        let before = slow();
        let mut stream = connect(&gate.url);
        stream.write_all(&bytes_of(&gate.url, "POST", &headers, body.as_bytes())).unwrap();
        open.push(stream);
        wait_until("the server has a request of the user", || slow() > before);
    }
    let refused = ask(&gate.url, "g", "echo", json!({"text": "x"}));
    assert!(refused.status == 503 && refused.text().contains("gateway.sessions"), "{}", refused.text());
    drop(open);
    wait_until("there is room again", || ask(&gate.url, "g", "echo", json!({"text": "x"})).status == 200);
}
