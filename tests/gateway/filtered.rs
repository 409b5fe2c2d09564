//! `POST /filter`: results of other gateways and programs.

use serde_json::{Value, json};

use crate::http::{Exchange, Headers, Reply, post};
use crate::scripted::{Script, Scripted, Setup, descriptor, records, structured, text};

const TOKENS: &str = "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n";
const VARIABLES: [(&str, &str); 2] = [("ANN", "token-of-ann"), ("BOB", "token-of-bob")];
const LISTEN: [&str; 2] = ["--listen", "127.0.0.1:0"];

/// Sends a body that may be anything.
fn sent(url: &str, body: &str) -> Reply {
    Exchange::open(url, "POST", &[], body.as_bytes()).finish()
}

/// A gateway, and the address at which it filters.
fn gateway(flags: &[&str], setup: Setup<'_>) -> (Scripted, String) {
    let flags = [&LISTEN, flags].concat();
    let mut gateway = Script::new().silent(&Setup { flags: &flags, ..setup });
    let url = gateway.url();
    let filter = format!("{}/filter", url.rsplit_once('/').unwrap().0);
    (gateway, filter)
}

fn asked(url: &str, headers: Headers<'_>, request: &Value) -> Reply {
    post(url, headers, request)
}

fn answer(reply: &Reply) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|error| panic!("{error}: {}", reply.text()))
}

#[test]
fn a_result_is_filtered_for_others() {
    let (gateway, url) = gateway(&[], Setup::default());
    let small = text("a few words");
    let request = json!({"tool": "list", "result": small});
    let reply = asked(&url, &[], &request);
    assert_eq!((reply.status, answer(&reply)), (200, json!({"outcome": "pass", "result": small})));

    let large = structured(&json!({"items": records(2_000)}));
    let request = json!({"tool": "list", "arguments": {"page": 1}, "session": "mine", "result": large});
    let reply = answer(&asked(&url, &[], &request));
    assert_eq!(reply["outcome"], "offload", "{reply:.500}");
    let descriptor = descriptor(&reply["result"]).unwrap();
    assert_eq!(descriptor["handle"], reply["handle"], "{descriptor}");
    assert!(gateway.holds(b"page"), "the arguments are in the header of a file");
    let directory = gateway.directory().join("default").join(reply["handle"].as_str().unwrap());
    assert!(directory.read_dir().unwrap().flatten().any(|file| file.file_name().to_string_lossy().contains("mine")));
}

#[test]
fn a_result_belongs_to_the_tenant_of_the_token() {
    let setup = || Setup { toml: TOKENS, variables: &VARIABLES, ..Setup::default() };
    let (gateway, url) = gateway(&[], setup());
    let request = json!({"tool": "list", "result": structured(&json!({"items": records(2_000)}))});
    assert_eq!(asked(&url, &[], &request).status, 401);
    assert_eq!(asked(&url, &[("Authorization", "Bearer token-of-eve")], &request).status, 401);
    let reply = answer(&asked(&url, &[("Authorization", "Bearer token-of-bob")], &request));
    assert!(gateway.directory().join("bob").join(reply["handle"].as_str().unwrap()).is_dir(), "{reply:.500}");
}

#[test]
fn what_cannot_be_filtered_is_said() {
    let (_gateway, url) = gateway(&["--message-bytes", "1000000"], Setup::default());
    for (body, words) in [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"result":{"content":[]}}"#, "`tool` is missing"),
        (r#"{"tool":"a"}"#, "`result` is missing"),
        (r#"{"tool":1,"result":{"content":[]}}"#, "`tool` is not a string"),
        (r#"{"tool":"a","result":7}"#, "`result`: "),
        (r#"{"tool":"a","result":{"content":[]},"argument":{}}"#, "unknown member"),
    ] {
        let reply = sent(&url, body);
        assert!(reply.status == 400 && reply.text().contains(words), "{body}: {} {}", reply.status, reply.text());
    }
    let large = json!({"tool": "a", "result": text(&"x".repeat(1_000_001))}).to_string();
    assert_eq!(sent(&url, &large).status, 413);
    assert_eq!(Exchange::open(&url, "GET", &[], b"").finish().status, 405);
    let other = [("Origin", "http://evil.example")];
    assert_eq!(asked(&url, &other, &json!({"tool": "a", "result": {"content": []}})).status, 403);
}
