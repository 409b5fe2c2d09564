//! A client of plain lines, which keeps every received byte.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::support::{Ended, Environment, Process};

/// The newest legacy revision.
pub(crate) const LEGACY: &str = "2025-11-25";

/// The newest modern revision.
pub(crate) const MODERN: &str = "2026-07-28";

/// Time to listen for unexpected output.
const SILENCE: Duration = Duration::from_millis(300);

/// A connection to a server on standard streams.
pub(crate) struct Wire {
    process: Process,
    /// Received messages that did not answer a request.
    others: Vec<String>,
}

/// Everything received: answers by their id as compact JSON, and all else ordered by bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Recording {
    pub(crate) answers: BTreeMap<String, String>,
    pub(crate) others: Vec<String>,
}

impl Wire {
    pub(crate) fn start(command: &[String], variables: &Environment) -> Self {
        Self { process: Process::start(command, variables), others: Vec::new() }
    }

    /// The started process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Sends a line that has no answer.
    pub(crate) fn send(&mut self, line: &str) {
        self.process.send(line);
    }

    /// The first message that [`Self::ask`] has not waited for, or else the next.
    pub(crate) fn next(&mut self) -> Value {
        let line = if self.others.is_empty() { self.process.line() } else { self.others.remove(0) };
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request and returns the bytes of its answer.
    pub(crate) fn ask(&mut self, request: &str) -> String {
        let id = id(request).unwrap();
        self.process.send(request);
        loop {
            let line = self.process.line();
            if is_answer(&line, &id) {
                return line;
            }
            self.others.push(line);
        }
    }

    /// As [`Self::ask`], with the result of the answer. Panics on an error.
    pub(crate) fn result(&mut self, request: &Value) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(&request.to_string())).unwrap();
        assert!(answer["error"].is_null(), "{request}: {answer}");
        answer["result"].clone()
    }

    /// Sends lines one after the other, waits for the answer of each request, and keeps everything.
    pub(crate) fn record(mut self, lines: &[String]) -> Recording {
        let mut answers = BTreeMap::new();
        for line in lines {
            match id(line).filter(|_| member(line, &["method"]).is_some()) {
                Some(id) => {
                    let answer = self.ask(line);
                    assert!(answers.insert(id.clone(), answer).is_none(), "the id {id} is there twice");
                }
                None => self.send(line),
            }
        }
        while let Some(line) = self.process.line_within(SILENCE) {
            self.others.push(line);
        }
        self.others.sort();
        Recording { answers, others: std::mem::take(&mut self.others) }
    }

    /// Closes the connection and waits for the process to end.
    pub(crate) fn end(self) -> Ended {
        self.process.end()
    }
}

/// The handshake of legacy revisions, answered.
pub(crate) fn shake_hands(wire: &mut Wire) -> Value {
    let result = wire.result(&request("initialize", "initialize", initialize()));
    wire.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    result
}

/// Parameters of `initialize`.
pub(crate) fn initialize() -> Value {
    json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "lro-tests-wire", "version": "1.0.0"}})
}

/// The client metadata of a modern request.
pub(crate) fn modern_meta() -> Value {
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "lro-tests-wire", "version": "1.0.0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    })
}

/// A request.
pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

/// A call of a tool; a modern one has client metadata.
pub(crate) fn call(id: impl Into<Value>, tool: &Value, modern: bool) -> Value {
    let mut params = tool.clone();
    if modern {
        params["_meta"] = modern_meta();
    }
    request(id, "tools/call", params)
}

/// The bytes of a value inside a JSON text, by the path of keys.
pub(crate) fn member<'a>(json: &'a str, path: &[&str]) -> Option<&'a str> {
    path.iter().try_fold(json, |json, key| {
        let members: BTreeMap<String, &'a RawValue> = serde_json::from_str(json).ok()?;
        members.get(*key).map(|value| value.get())
    })
}

/// The bytes of the elements of a JSON array.
pub(crate) fn elements(json: &str) -> Vec<&str> {
    let elements: Vec<&RawValue> = serde_json::from_str(json).unwrap();
    elements.into_iter().map(RawValue::get).collect()
}

/// The id of a message as compact JSON.
pub(crate) fn id(line: &str) -> Option<String> {
    let id: Value = serde_json::from_str(member(line, &["id"])?).ok()?;
    Some(id.to_string())
}

/// Whether a line answers the request of this id.
fn is_answer(line: &str, wanted: &str) -> bool {
    member(line, &["method"]).is_none() && id(line).as_deref() == Some(wanted)
}
