//! `POST /filter` of a gateway that listens: results of other gateways and programs.
#![expect(clippy::unwrap_used, clippy::panic, reason = "in helpers of tests too, a failure is to end the test")]

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use serde_json::{Value, json};
use support::Home;

/// A gateway that listens, before a server that is not asked.
struct Gateway {
    child: Child,
    host: String,
}

impl Gateway {
    fn start(home: &Home, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let mut command = home.lro(&[&["gateway", "--listen", "127.0.0.1:0"], flags, &["--", "cat"]].concat());
        command.env("LRO_LOG", "info").envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let host = lines.by_ref().map(Result::unwrap).find_map(|line| {
            let (_, rest) = line.split_once("http://")?;
            Some(rest.split('/').next().unwrap().to_owned())
        });
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, host: host.unwrap() }
    }

    /// Status and body of an answer.
    fn sent(&self, method: &str, headers: &str, body: &str) -> (u16, Value) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        let length = body.len();
        let head = format!(
            "{method} /filter HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {length}\r\n",
            self.host
        );
        // A gateway may answer before it has read everything.
        drop(stream.write_all(format!("{head}{headers}\r\n{body}").as_bytes()));
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{text:?}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {text}")))
    }

    fn filtered(&self, request: &Value) -> Value {
        let (status, answer) = self.sent("POST", "", &request.to_string());
        assert_eq!(status, 200, "{answer}");
        answer
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// A result of 5,000 records.
fn large() -> Value {
    let records: Vec<Value> = (0..5000).map(|id| json!({"id": id, "name": format!("name {id}")})).collect();
    json!({"content": [{"type": "text", "text": json!(records).to_string()}]})
}

#[test]
fn a_result_is_filtered_for_others() {
    let home = Home::new();
    let gateway = Gateway::start(&home, &[], &[]);
    let small = json!({"content": [{"type": "text", "text": "a few words"}], "n": 1});
    let answer = gateway.filtered(&json!({"tool": "list", "result": small}));
    assert_eq!(answer, json!({"outcome": "pass", "result": small}));

    let answer =
        gateway.filtered(&json!({"tool": "list", "arguments": {"page": 1}, "session": "mine", "result": large()}));
    assert_eq!(answer["outcome"], "offload", "{answer}");
    let handle = answer["handle"].as_str().unwrap();
    let descriptor: Value = serde_json::from_str(answer["result"]["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&descriptor["handle"], &descriptor["summary"]["records"]["count"]), (&json!(handle), &json!(5000)));
    let file = std::fs::read_to_string(home.path(&format!("out/default/{handle}/records-mine.jsonl"))).unwrap();
    assert!(file.lines().next().unwrap().contains("page") && file.contains("name 4999"));
}

#[test]
fn a_result_belongs_to_the_tenant_of_the_token() {
    let home = Home::new();
    std::fs::write(home.path("lro.toml"), "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n").unwrap();
    let tokens = [("ANN", "token-of-ann"), ("BOB", "token-of-bob")];
    let gateway = Gateway::start(&home, &["--config", "lro.toml"], &tokens);
    let request = json!({"tool": "list", "result": large()}).to_string();
    assert_eq!(gateway.sent("POST", "", &request).0, 401);
    assert_eq!(gateway.sent("POST", "Authorization: Bearer token-of-eve\r\n", &request).0, 401);
    let (status, answer) = gateway.sent("POST", "Authorization: Bearer token-of-bob\r\n", &request);
    assert_eq!(status, 200, "{answer}");
    assert!(home.path("out/bob").join(answer["handle"].as_str().unwrap()).is_dir());
    assert!(!home.path("out/ann").exists());
}

#[test]
fn what_cannot_be_filtered_is_said() {
    let home = Home::new();
    let gateway = Gateway::start(&home, &["--message-bytes", "1000000"], &[]);
    for (body, words) in [
        ("", "not a JSON object"),
        ("[]", "not a JSON object"),
        (r#"{"result":{"content":[]}}"#, "`tool` is missing"),
        (r#"{"tool":"a"}"#, "`result` is missing"),
        (r#"{"tool":1,"result":{"content":[]}}"#, "`tool` is not a string"),
        (r#"{"tool":"a","result":7}"#, "`result`: "),
        (r#"{"tool":"a","result":{"content":[]},"argument":{}}"#, "unknown member"),
    ] {
        let (status, answer) = gateway.sent("POST", "", body);
        let said = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(status == 400 && said.contains(words), "{body}: {status} {answer}");
    }
    let beyond = json!({"tool": "a", "result": {"content": [{"type": "text", "text": "x".repeat(1_000_001)}]}});
    assert_eq!(gateway.sent("POST", "", &beyond.to_string()).0, 413);
    assert_eq!(gateway.sent("GET", "", "").0, 405);
    let request = json!({"tool": "a", "result": {"content": []}}).to_string();
    assert_eq!(gateway.sent("POST", "Origin: http://evil.example\r\n", &request).0, 403);
}
