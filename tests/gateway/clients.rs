//! Third-party clients, with their drivers in `tests/tools/clients`. They validate results, as they do by default.

use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    Environment, PATIENCE, Process, driver, environment, installed, mcp_package, node, path_text, python,
};

/// Longest wait for the inspector, which starts again for each step.
const INSPECTOR_PATIENCE: &str = "60000";

/// A third-party client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Client {
    /// `@modelcontextprotocol/sdk` 1.x.
    Sdk1,
    /// `@modelcontextprotocol/client` 2.x.
    Client2,
    /// FastMCP's in Python.
    FastMcp,
    /// The inspector on the command line: one connection for each step.
    Inspector,
}

impl Client {
    pub(crate) const ALL: [Self; 4] = [Self::Sdk1, Self::Client2, Self::FastMcp, Self::Inspector];

    fn driver(self) -> Option<Vec<String>> {
        match self {
            Self::Sdk1 => Some(vec![node(), driver("sdk1.mjs")]),
            Self::Client2 => Some(vec![node(), driver("client2.mjs")]),
            Self::FastMcp => Some(vec![python(), driver("fastmcp_client.py")]),
            Self::Inspector => None,
        }
    }
}

/// The transport between a client and a server.
#[derive(Clone, Debug)]
pub(crate) enum Way {
    /// The client starts the server.
    Command(Vec<String>, Environment),
    /// Streamable HTTP.
    Url(String),
}

/// A running client. Clients that can negotiate a revision do.
pub(crate) struct Connection {
    pub(crate) client: Client,
    way: Way,
    driver: Option<Process>,
    /// `server`, `capabilities` and `instructions`; null for the inspector, which does not tell.
    pub(crate) about: Value,
    home: TempDir,
}

impl Connection {
    /// Connects. Panics when that fails.
    pub(crate) fn open(client: Client, way: &Way) -> Self {
        Self::open_with(client, way, &json!({}))
    }

    /// As [`Connection::open`], for [`Client::Sdk1`] with more capabilities.
    pub(crate) fn open_with(client: Client, way: &Way, capabilities: &Value) -> Self {
        Self::describe(client, way, &json!({ "capabilities": capabilities }))
    }

    /// As [`Connection::open`], for [`Client::Client2`] with this revision alone.
    pub(crate) fn pinned(way: &Way, revision: &str) -> Self {
        Self::describe(Client::Client2, way, &json!({ "era": revision }))
    }

    fn describe(client: Client, way: &Way, more: &Value) -> Self {
        let driver = client.driver().map(|command| {
            let modules = installed("mcp/node_modules");
            Process::start(&command, &environment(&[("MCP_MODULES", &modules), ("FASTMCP_CHECK_FOR_UPDATES", "off")]))
        });
        let home = TempDir::new().unwrap();
        let mut connection = Self { client, way: way.clone(), driver, about: Value::Null, home };
        if connection.driver.is_some() {
            let mut description = match way {
                Way::Command(command, variables) => json!({"command": command, "env": variables}),
                Way::Url(url) => json!({ "url": url }),
            };
            description.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            connection.about =
                connection.take(&description).unwrap_or_else(|error| panic!("{client:?}: {error}"))["ok"].take();
        }
        connection
    }

    /// Runs a step, see `steps.mjs`. Returns the whole answer.
    ///
    /// # Errors
    /// The error of the client, even if it only logs it.
    pub(crate) fn step(&mut self, step: &Value) -> Result<Value, String> {
        match self.driver {
            Some(_) => self.take(step),
            None => self.inspect(step),
        }
    }

    /// The result of a call. Panics when the client does not accept it.
    pub(crate) fn call(&mut self, tool: &Value) -> Value {
        self.outcome("call", tool)
    }

    /// The result of a step. Panics when the client does not accept it.
    pub(crate) fn outcome(&mut self, step: &str, argument: &Value) -> Value {
        let client = self.client;
        self.step(&json!({ step: argument })).unwrap_or_else(|error| panic!("{client:?}, {step} {argument}: {error}"))["ok"].take()
    }

    /// Names of all tools, in order.
    pub(crate) fn tools(&mut self) -> Vec<String> {
        let tools = self.outcome("tools", &Value::Null);
        tools.as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    fn take(&mut self, line: &Value) -> Result<Value, String> {
        let driver = self.driver.as_mut().unwrap();
        driver.send(&line.to_string());
        let answer = driver.line_within(PATIENCE * 2).ok_or("the client says nothing")?;
        let answer: Value = serde_json::from_str(&answer).map_err(|error| format!("{error}: {answer}"))?;
        match (&answer["error"], &answer["warnings"]) {
            (Value::Null, Value::Null) => Ok(answer),
            (Value::Null, warnings) => Err(format!("the client warns: {warnings}")),
            (error, _) => Err(format!("{error}; on its standard error: {}", driver.errors())),
        }
    }

    fn inspect(&self, step: &Value) -> Result<Value, String> {
        let (name, argument) = step.as_object().and_then(|step| step.iter().next()).unwrap();
        let server = match &self.way {
            Way::Command(command, variables) => {
                json!({"command": command[0], "args": command[1..], "env": variables})
            }
            Way::Url(url) => json!({"type": "streamable-http", "url": url}),
        };
        let config = self.home.path().join("servers.json");
        std::fs::write(&config, json!({"mcpServers": {"server": server}}).to_string()).unwrap();
        let mut command = Command::new(node());
        command.arg(mcp_package("inspector/clients/launcher/build/index.js"));
        command.args(["--cli", "--config", &path_text(&config), "--server", "server", "--protocol-era", "auto"]);
        command.args(["--format", "json", "--quiet", "--connect-timeout", INSPECTOR_PATIENCE]);
        let member = match name.as_str() {
            "call" => {
                let arguments = argument["arguments"].to_string();
                command.args(["--method", "tools/call", "--tool-name", argument["name"].as_str().unwrap()]);
                command.args(["--tool-args-json", if arguments == "null" { "{}" } else { &arguments }]);
                None
            }
            "read" => {
                command.args(["--method", "resources/read", "--uri", argument["uri"].as_str().unwrap()]);
                None
            }
            "tools" => {
                command.args(["--method", "tools/list"]);
                Some("tools")
            }
            "templates" => {
                command.args(["--method", "resources/templates/list"]);
                Some("resourceTemplates")
            }
            other => return Err(format!("the inspector has no step {other}")),
        };
        let output = command.env("HOME", self.home.path()).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        let answer: Value = serde_json::from_slice(&output.stdout)
            .map_err(|_| format!("{}: {}{errors}", output.status, String::from_utf8_lossy(&output.stdout)))?;
        match (&answer["result"], member) {
            (Value::Null, _) => Err(format!("{answer}{errors}")),
            (result, None) => Ok(json!({ "ok": result })),
            (result, Some(member)) => Ok(json!({ "ok": result[member] })),
        }
    }
}
