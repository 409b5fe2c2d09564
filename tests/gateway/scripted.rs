//! The gateway before a server that replays a script byte for byte: `tests/tools/servers/scripted.py`.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use lro_tests::workspace;
use serde_json::{Map, Value, json};
use tempfile::TempDir;

use crate::support::{Ended, Environment, Process, environment, lro, path_text, python, words};
use crate::wire::{LEGACY, member, request};

/// The script of the server.
#[derive(Default)]
pub(crate) struct Script {
    steps: Map<String, Value>,
    tools: Vec<String>,
}

/// Options of the gateway.
#[derive(Default)]
pub(crate) struct Setup<'a> {
    pub(crate) flags: &'a [&'a str],
    pub(crate) toml: &'a str,
    pub(crate) variables: &'a [(&'a str, &'a str)],
    /// The URL of a server, instead of the command with the script.
    pub(crate) upstream: &'a str,
    /// Log filter; warnings by default.
    pub(crate) log: &'a str,
}

/// A running gateway.
pub(crate) struct Scripted {
    process: Process,
    /// Received messages that did not answer a request.
    others: VecDeque<String>,
    pub(crate) home: TempDir,
    /// The answer to `initialize`.
    pub(crate) hello: Value,
    calls: u32,
}

impl Script {
    /// A server without tools.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the action for a key of the script.
    pub(crate) fn steps(mut self, key: &str, steps: Value) -> Self {
        self.steps.insert(key.to_owned(), steps);
        self
    }

    /// Answers with a line, in which `@ID@` stands for the id.
    pub(crate) fn line(self, key: &str, line: impl Into<String>) -> Self {
        self.steps(key, json!([line.into()]))
    }

    /// Answers with a result.
    pub(crate) fn result(self, key: &str, result: impl ToString) -> Self {
        let line = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{}}}"#, result.to_string());
        self.line(key, line)
    }

    /// Answers calls of a tool with this result.
    pub(crate) fn call(self, tool: &str, result: impl ToString) -> Self {
        self.result(&format!("tools/call {tool}"), result)
    }

    /// Lists a tool, with an output schema as JSON, and answers its calls.
    pub(crate) fn tool(mut self, name: &str, schema: &str, result: impl ToString) -> Self {
        let schema = if schema.is_empty() { String::new() } else { format!(r#","outputSchema":{schema}"#) };
        self.tools.push(format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}{schema}}}"#));
        self.call(name, result)
    }

    fn write(&self, path: &Path) {
        let mut steps = self.steps.clone();
        if !self.tools.is_empty() {
            let result = format!(r#"{{"jsonrpc":"2.0","id":@ID@,"result":{{"tools":[{}]}}}}"#, self.tools.join(","));
            steps.insert("tools/list".to_owned(), json!([result]));
        }
        std::fs::write(path, Value::Object(steps).to_string()).unwrap();
    }

    /// The gateway with default settings, after the handshake.
    pub(crate) fn start(&self) -> Scripted {
        self.start_with(&Setup::default())
    }

    /// The gateway with these flags, after the handshake.
    pub(crate) fn with_flags(&self, flags: &[&str]) -> Scripted {
        self.start_with(&Setup { flags, ..Setup::default() })
    }

    /// The gateway with this configuration file, after the handshake.
    pub(crate) fn with_toml(&self, toml: &str) -> Scripted {
        self.start_with(&Setup { toml, ..Setup::default() })
    }

    /// The gateway, after the handshake.
    pub(crate) fn start_with(&self, setup: &Setup<'_>) -> Scripted {
        let mut scripted = self.silent(setup);
        scripted.shake_hands("lro-tests");
        scripted
    }

    /// The gateway, before the handshake.
    pub(crate) fn silent(&self, setup: &Setup<'_>) -> Scripted {
        let home = TempDir::new().unwrap();
        let (command, variables) = self.command(setup, &home);
        let process = Process::start(&command, &variables);
        Scripted { process, others: VecDeque::new(), home, hello: Value::Null, calls: 0 }
    }

    /// The command of the gateway and its variables; files lie in `home`.
    pub(crate) fn command(&self, setup: &Setup<'_>, home: &TempDir) -> (Vec<String>, Environment) {
        let script = home.path().join("script.json");
        self.write(&script);
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let mut variables = environment(&[
            ("MCP_LRO_DIR", &path_text(&home.path().join("out"))),
            ("XDG_CACHE_HOME", &path_text(&cache)),
            ("MCP_LRO_FSYNC", "never"),
        ]);
        if !setup.toml.is_empty() {
            let config = home.path().join("lro.toml");
            std::fs::write(&config, setup.toml).unwrap();
            variables.insert("MCP_LRO_CONFIG".to_owned(), path_text(&config));
        }
        variables.extend(environment(setup.variables));
        let log = if setup.log.is_empty() { "warn" } else { setup.log };
        let mut command = words(&[&lro(), "gateway", "--log", log]);
        command.extend(words(setup.flags));
        if setup.upstream.is_empty() {
            command.push("--".to_owned());
            command.extend(server(&script));
        } else {
            command.extend(words(&["--upstream", setup.upstream]));
        }
        (command, variables)
    }
}

/// The command of the server alone.
fn server(script: &Path) -> Vec<String> {
    let program = workspace().join("tests/tools/servers/scripted.py");
    vec![python(), "-S".to_owned(), path_text(&program), path_text(script)]
}

impl Scripted {
    /// The handshake of legacy revisions, as a client of this name.
    pub(crate) fn shake_hands(&mut self, client: &str) {
        let info = json!({"name": client, "version": "1.0.0"});
        let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
        self.hello = self.result("initialize", params);
        self.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    }

    /// The process of the gateway.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The URL of the gateway.
    pub(crate) fn url(&mut self) -> String {
        self.told("listening on ")
    }

    /// Waits for a line with this text on the standard error, and returns the rest of the line.
    pub(crate) fn told(&mut self, beginning: &str) -> String {
        self.process.told(beginning)
    }

    /// Sends a line.
    pub(crate) fn send(&mut self, line: &str) {
        self.process.send(line);
    }

    /// The next line that does not answer a request sent with a method of this type.
    pub(crate) fn next(&mut self) -> String {
        self.others.pop_front().unwrap_or_else(|| self.process.line())
    }

    /// Sends a request and waits for its answer.
    pub(crate) fn ask_line(&mut self, line: &str) -> String {
        let id = member(line, &["id"]).unwrap().to_owned();
        self.send(line);
        loop {
            let answer = self.process.line();
            if member(&answer, &["method"]).is_none() && member(&answer, &["id"]) == Some(&id) {
                return answer;
            }
            self.others.push_back(answer);
        }
    }

    /// The bytes of the answer to a request.
    pub(crate) fn ask(&mut self, method: &str, params: Value) -> String {
        self.calls += 1;
        self.ask_line(&request(self.calls, method, params).to_string())
    }

    /// The result of a request. Panics on an error.
    pub(crate) fn result(&mut self, method: &str, params: Value) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(method, params)).unwrap();
        assert!(answer["error"].is_null(), "{method}: {answer}");
        answer["result"].clone()
    }

    /// The error of a request. Panics on a result.
    pub(crate) fn error(&mut self, method: &str, params: Value) -> Value {
        let answer: Value = serde_json::from_str(&self.ask(method, params)).unwrap();
        assert!(answer["result"].is_null(), "{method}: {answer}");
        answer["error"].clone()
    }

    /// The bytes of the answer to a call.
    pub(crate) fn answer(&mut self, tool: &str) -> String {
        self.ask("tools/call", json!({"name": tool, "arguments": {}}))
    }

    /// The result of a call.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.result("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The descriptor in the result of a call.
    pub(crate) fn descriptor(&mut self, tool: &str) -> Value {
        let result = self.call(tool, json!({}));
        descriptor(&result).unwrap_or_else(|| panic!("{tool} was not offloaded: {:.2000}", result.to_string()))
    }

    /// All tools of a list, in order.
    pub(crate) fn tools(&mut self) -> Vec<Value> {
        self.result("tools/list", json!({}))["tools"].as_array().unwrap().clone()
    }

    /// The lines that the server has received so far.
    pub(crate) fn seen(&mut self) -> Vec<String> {
        let lines = self.result("scripted/seen", json!({}))["lines"].take();
        serde_json::from_value(lines).unwrap()
    }

    /// The root of the offloads.
    pub(crate) fn directory(&self) -> PathBuf {
        self.home.path().join("out")
    }

    /// The directories of all offloads.
    pub(crate) fn offloads(&self) -> Vec<PathBuf> {
        let Ok(tenants) = std::fs::read_dir(self.directory()) else { return Vec::new() };
        let tenants = tenants.map(|tenant| tenant.unwrap().path()).filter(|path| path.is_dir());
        let children = |tenant: PathBuf| std::fs::read_dir(tenant).unwrap().map(|entry| entry.unwrap().path());
        let is_offload = |path: &PathBuf| path.file_name().unwrap().len() == 26 && path.is_dir();
        let mut found: Vec<PathBuf> = tenants.flat_map(children).filter(is_offload).collect();
        found.sort();
        found
    }

    /// The bytes of all files of all offloads, except the records of the store.
    pub(crate) fn files(&self) -> Vec<Vec<u8>> {
        let files = |offload: PathBuf| std::fs::read_dir(offload).unwrap().map(|file| file.unwrap().path());
        let mut paths: Vec<PathBuf> = self.offloads().into_iter().flat_map(files).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// Whether a file of an offload contains these bytes.
    pub(crate) fn holds(&self, bytes: &[u8]) -> bool {
        self.files().iter().any(|file| file.windows(bytes.len()).any(|window| window == bytes))
    }

    /// Closes the connection; returns the last output.
    pub(crate) fn end(self) -> Ended {
        self.process.end()
    }
}

/// The descriptor in a result.
pub(crate) fn descriptor(result: &Value) -> Option<Value> {
    let blocks = result["content"].as_array()?.iter();
    let objects = blocks.filter_map(|block| serde_json::from_str::<Value>(block["text"].as_str()?).ok());
    objects.into_iter().find(|object| object["offloaded"] == true)
}

/// The handle in a descriptor.
pub(crate) fn handle(descriptor: &Value) -> String {
    descriptor["handle"].as_str().unwrap_or_else(|| panic!("no handle: {descriptor}")).to_owned()
}

/// The text of the first block.
pub(crate) fn first_text(result: &Value) -> &str {
    result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {result}"))
}

/// A tool result with one text.
pub(crate) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A tool result with structured content and its copy.
pub(crate) fn structured(value: &Value) -> Value {
    json!({"content": [{"type": "text", "text": value.to_string()}], "structuredContent": value})
}

/// A number of records of about 45 bytes each.
pub(crate) fn records(count: usize) -> Value {
    let record = |id: usize| json!({"id": id, "name": format!("record number {id}"), "even": id.is_multiple_of(2)});
    (0..count).map(record).collect()
}

/// The bytes of the result in an answer.
pub(crate) fn result_bytes(answer: &str) -> &str {
    member(answer, &["result"]).unwrap_or_else(|| panic!("no result: {answer:.2000}"))
}
