//! Several tenants before one gateway over HTTP: what one offloads is not there for another.

use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::{Value, json};

use crate::scripted::{Script, Setup, descriptor, first_text, handle, records, structured};
use crate::wire::{MODERN, modern_meta, request};

/// A modern client with a token, and nothing but a socket.
struct Client<'a> {
    url: &'a str,
    token: &'a str,
}

impl Client<'_> {
    /// The answer to a request, from plain JSON or the last event of a stream.
    fn ask(&self, method: &str, mut params: Value) -> Value {
        params["_meta"] = modern_meta();
        let name = ["name", "uri", "taskId"].iter().find_map(|key| params[key].as_str()).map(str::to_owned);
        let body = request(1, method, params).to_string();
        let (host, path) = self.url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let named = name.map(|name| format!("Mcp-Name: {name}\r\n")).unwrap_or_default();
        let head = format!(
            "POST /{path} HTTP/1.0\r\nHost: {host}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {MODERN}\r\nMcp-Method: {method}\r\n{named}\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            self.token,
            body.len()
        );
        let mut stream = TcpStream::connect(host).unwrap();
        stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let lines = answer.lines().map(|line| line.strip_prefix("data:").unwrap_or(line).trim());
        let mut messages = lines.filter_map(|line| serde_json::from_str::<Value>(line).ok()).filter(Value::is_object);
        messages.next_back().unwrap_or_else(|| panic!("{method}: {answer:.3000}"))
    }

    fn call(&self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["error"].is_null(), "{tool}: {answer}");
        answer["result"].clone()
    }
}

// A handle is good for its tenant alone: by tool, by resource, by reference; over
// HTTP the disk is not shared, so no path and no shell is named.
#[test]
fn a_handle_is_good_for_its_tenant_alone() {
    let echo = json!([
        r#"{"jsonrpc":"2.0","id":@ID@,"result":{"resultType":"complete","content":[{"type":"text","text":@LINE@}]}}"#
    ]);
    let script =
        Script::new().call("large", structured(&json!({ "items": records(2_000) }))).steps("tools/call takes", echo);
    let toml =
        "[gateway.tokens]\nann = \"env:ANN\"\nbob = \"env:BOB\"\n[tools.takes]\nhandles = true\nmode = \"never\"\n";
    let variables = [("ANN", "token-of-ann"), ("BOB", "token-of-bob")];
    let mut gateway =
        script.silent(&Setup { flags: &["--listen", "127.0.0.1:0"], toml, variables: &variables, ..Setup::default() });
    let url = gateway.url();
    let (ann, bob) = (Client { url: &url, token: "token-of-ann" }, Client { url: &url, token: "token-of-bob" });
    let result = ann.call("large", json!({}));
    let handle = handle(&descriptor(&result).unwrap_or_else(|| panic!("{result:.500}")));
    let directory = gateway.directory().display().to_string();
    for word in ["jq -", "tail -n", "sed -n"] {
        assert!(!result.to_string().contains(word), "{word} is in {result}");
    }
    let uri = format!("lro://{handle}/items");
    assert_eq!(ann.call("lro_read", json!({ "handle": handle }))["isError"], Value::Null);
    assert!(ann.ask("resources/read", json!({ "uri": uri }))["result"]["contents"][0]["text"].is_string());
    assert!(first_text(&ann.call("takes", json!({ "a": uri }))).contains("record number 1999"));
    for tool in ["lro_read", "lro_extract"] {
        let refusal = bob.call(tool, json!({ "handle": handle }));
        assert!(refusal["isError"] == true && first_text(&refusal).contains("there is no offload"), "{refusal}");
    }
    assert_eq!(bob.ask("resources/read", json!({ "uri": uri }))["error"]["code"], -32602);
    assert_eq!(bob.call("takes", json!({ "a": uri }))["isError"], true);
    let found: Vec<String> = gateway.offloads().iter().map(|path| path.display().to_string()).collect();
    assert_eq!(found, [format!("{directory}/ann/{handle}")]);
    assert!(!result.to_string().contains(&directory), "the path is in {result}");
}
