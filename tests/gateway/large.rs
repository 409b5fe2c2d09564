//! What is large besides the results of tools: resources, prompts, lists, errors, and requests of the server.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::scripted::{Script, Scripted};

/// The series of a metric with all of these labels; 0 without it.
fn metric(address: &str, name: &str, labels: &[&str]) -> usize {
    let address = address.strip_prefix("http://").unwrap().strip_suffix("/metrics").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "GET /metrics HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").unwrap();
    let mut scraped = String::new();
    stream.read_to_string(&mut scraped).unwrap();
    let is_it = |line: &&str| line.starts_with(name) && labels.iter().all(|label| line.contains(label));
    let found: Vec<&str> = scraped.lines().filter(is_it).collect();
    assert!(found.len() <= 1, "{name} {labels:?}: {found:?}");
    found.first().map_or(0, |line| line.rsplit_once(' ').unwrap().1.parse().unwrap())
}

fn contents(text: &str) -> Value {
    json!({"contents": [{"uri": "a:b", "mimeType": "text/plain", "text": text}]})
}

fn read(gateway: &mut Scripted) -> String {
    gateway.ask("resources/read", json!({"uri": "a:b"}))
}

const MEASURED: &[&str] = &["--metrics-listen", "127.0.0.1:0"];

// Bytes are those on the wire; an error counts as one, whatever it answers.
#[test]
fn everything_besides_results_is_measured_by_method() {
    let sampling = r#"{"jsonrpc":"2.0","id":"s","method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
    let elicitation = r#"{"jsonrpc":"2.0","id":"e","method":"elicitation/create","params":{"message":"a"}}"#;
    let error = r#"{"jsonrpc":"2.0","id":@ID@,"error":{"code":-32000,"message":"it failed"}}"#;
    let prompt = json!({"messages": [{"role": "user", "content": {"type": "text", "text": "b ".repeat(100)}}]});
    let answer = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{prompt}}}"#);
    let script = Script::new()
        .result("resources/read", contents(&"x ".repeat(50_000)))
        .steps("prompts/get", json!([sampling, elicitation, answer]))
        .result("prompts/list", r#"{"prompts":[]}"#)
        .result("resources/list", r#"{"resources":[]}"#)
        .line("tools/call wrong", error);
    for flags in [MEASURED, &[MEASURED, &["--audit", "true"]].concat()] {
        let mut gateway = script.with_flags(flags);
        let address = gateway.told("metrics on ");
        let size = |gateway: &mut Scripted, method: &str, params: Value| gateway.ask(method, params).len();
        let resources = read(&mut gateway).len() + read(&mut gateway).len();
        let prompt = size(&mut gateway, "prompts/get", json!({"name": "a"}));
        let prompts = size(&mut gateway, "prompts/list", json!({}));
        let list = size(&mut gateway, "resources/list", json!({}));
        let failed = size(&mut gateway, "tools/call", json!({"name": "wrong"}));
        assert_eq!([gateway.next(), gateway.next()], [sampling, elicitation]);
        let wanted = [
            ("resources/read", 2, resources),
            ("prompts/get", 1, prompt),
            ("prompts/list", 1, prompts),
            ("resources/list", 1, list),
            ("error", 1, failed),
            ("sampling/createMessage", 1, sampling.len()),
            ("elicitation/create", 1, elicitation.len()),
        ];
        for (method, messages, bytes) in wanted {
            let labels = [&format!(r#"method="{method}""#), r#"tenant="default""#];
            let value = |name| metric(&address, name, &labels);
            let sizes = (value("lro_method_messages_total"), value("lro_method_bytes_total"));
            assert_eq!(sizes, (messages, bytes), "{method}");
            let tokens = value("lro_method_tokens_total");
            assert!(tokens * 5 > bytes && tokens < bytes, "{method}: {tokens}");
        }
        assert_eq!(metric(&address, "lro_tool_results_total", &[]), 0);
        let ended = gateway.end();
        assert!(ended.status.success(), "{}", ended.errors);
    }
}
