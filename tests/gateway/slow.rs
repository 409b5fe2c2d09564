//! Real clients and slow tools of real servers: the result is obtained although the client does not wait for it.

use std::env;

use serde_json::{Value, json};

use crate::clients::{Client, Connection};
use crate::scripted::first_text;
use crate::servers::{Gateway, Server, everything};
use crate::support::{driver, environment, path_text, python};

/// How long a tool takes, in seconds, where `LRO_SLOW_SECONDS` does not say. These clients give up after 60 of their own.
const SECONDS: f64 = 1.0;

/// A slow tool, its arguments, and a part of its answer.
pub(crate) struct Slow {
    pub(crate) server: Server,
    pub(crate) tool: &'static str,
    pub(crate) arguments: Value,
    pub(crate) answer: String,
}

impl Slow {
    /// A gateway where calls of the tool become jobs.
    pub(crate) fn gateway(&self, wait_ms: u64) -> Gateway {
        let mut gateway = Gateway::new(&[]);
        let toml = gateway.directory.path().join("lro.toml");
        std::fs::write(&toml, format!("[tools.{}]\njob = \"auto\"\nwait-ms = {wait_ms}\n", self.tool)).unwrap();
        gateway.more = environment(&[("MCP_LRO_CONFIG", &path_text(&toml))]);
        gateway
    }
}

/// That of a server on FastMCP.
pub(crate) fn fastmcp(seconds: f64) -> Slow {
    let server = Server { modern: true, ..Server::new("slow", vec![python(), driver("slow_server.py")]) };
    Slow { server, tool: "slow", arguments: json!({"seconds": seconds}), answer: format!("slept for {seconds} s") }
}

/// That of the reference server, on the TypeScript SDK.
fn reference(seconds: f64) -> Slow {
    let arguments = json!({"duration": seconds, "steps": 2});
    let answer = format!("Duration: {seconds} seconds, Steps: 2");
    Slow { server: everything(), tool: "trigger-long-running-operation", arguments, answer }
}

/// The status of a job in a result, which has a literal next call.
fn status(result: &Value) -> Value {
    serde_json::from_str(first_text(result)).unwrap_or_else(|_| panic!("no status: {result}"))
}

/// Follows the literal next calls until there is a result.
pub(crate) fn follow(connection: &mut Connection, begun: &Value) -> Value {
    let mut result = begun.clone();
    while result["_meta"]["io.github.lro-filter/job"]["state"] != "done" {
        let next = status(&result)["next"].as_str().unwrap_or_else(|| panic!("no next call: {result}")).to_owned();
        let (tool, arguments) = next.split_once(' ').unwrap();
        let arguments: Value = serde_json::from_str(arguments).unwrap();
        result = connection.call(&json!({"name": tool, "arguments": arguments}));
    }
    result
}

fn obtain(client: Client, slow: &Slow, wait_ms: u64) {
    let gateway = slow.gateway(wait_ms);
    let mut connection = Connection::open(client, &gateway.before(&slow.server));
    let begun = connection.call(&json!({"name": slow.tool, "arguments": slow.arguments}));
    let handle = status(&begun)["job"].as_str().unwrap().to_owned();
    let result = follow(&mut connection, &begun);
    assert!(first_text(&result).contains(&slow.answer), "{client:?}, {}: {result}", slow.server.name);
    let read = connection.outcome("read", &json!({"uri": format!("lro://jobs/{handle}")}));
    let read: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&read["state"], &read["result"]["content"]), (&"done".into(), &result["content"]), "{client:?}");
}

#[test]
fn real_clients_obtain_what_they_would_not_wait_for() {
    let seconds = env::var("LRO_SLOW_SECONDS").map_or(SECONDS, |seconds| seconds.parse().unwrap());
    // A ninth of a second before a second, ten seconds before ninety.
    let wait_ms = (seconds * 1000.0 / 9.0) as u64;
    std::thread::scope(|scope| {
        for client in [Client::Sdk1, Client::Client2, Client::FastMcp] {
            scope.spawn(move || obtain(client, &fastmcp(seconds), wait_ms));
            scope.spawn(move || obtain(client, &reference(seconds), wait_ms));
        }
    });
}
