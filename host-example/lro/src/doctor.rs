//! `lro doctor`: what a client's model would see of a server, without the gateway and with it.

use std::env;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use clap::Args;
use lro_gateway::settings::{ClientProfile, Config, KnownClient, Sees, Size, SizeUnit, UpstreamUrl};
use lro_gateway::{Gateway, Rehearsal};
use lro_host::job;
use lro_host::mcp::Message;
use lro_host::store::Fsync;
use lro_json::write::thousands;
use serde::Serialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::clients::name_and_version;
use crate::collect::{object, url};
use crate::exit::Exit;
use crate::output::{self, Terminal};
use crate::server::{self, REVISION, Server};
use crate::truncate::sizes;

const EXAMPLES: &str = "Examples:
  lro doctor -- npx -y @modelcontextprotocol/server-everything
  lro doctor --call list_orders --arguments '{\"limit\": 1000}' --client claude-code -- my-server
  lro doctor --upstream https://mcp.example.com/mcp --call search --arguments '{\"query\": \"late\"}' --json

Exit codes:
  0  the server answers
  1  it does not start, or is no MCP server, or does not answer in time, or a call fails
  2  usage or configuration";

/// What to do about a command that is not a server.
const ADVICE_COMMAND: &str = "what the server says stands above. Run the command by hand: it must wait for input, and write nothing but \
    messages to standard output; a program that is not in PATH needs its path, a slow one --timeout";

/// What to do about a URL without a server.
const ADVICE_URL: &str = "the URL must be the endpoint of a Streamable HTTP server, with its tokens in \
    `gateway.upstream-headers`; for a slow server, raise --timeout";

/// The client whose model is asked for, if none is named: as most clients do, it shows all of a result.
const ANY_CLIENT: &str = "any-client";

/// Show what a client's model sees of a server, without the gateway and with it
///
/// Starts the server, or connects to it, lists its tools, and calls those that are named, once each. Shows how large each result is
/// for the model, what the client would cut of it, and what the gateway would make of it. Keeps nothing.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Call this tool; may be given several times
    #[arg(long, value_name = "TOOL")]
    call: Vec<String>,
    /// Arguments of the calls, in the order of --call: the first --arguments belongs to the first of them [default: {}]
    #[arg(long, value_name = "JSON", requires = "call", value_parser = object)]
    arguments: Vec<String>,
    /// Client whose model is asked for, by the name that it sends, as `lro clients` lists it, optionally with its version
    #[arg(long, value_name = "NAME[/VERSION]", default_value = ANY_CLIENT)]
    client: String,
    /// Streamable HTTP endpoint, in place of a command
    #[arg(long, value_name = "URL", conflicts_with = "command", value_parser = url)]
    upstream: Option<UpstreamUrl>,
    /// Seconds that the server may take for each answer
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one line of JSON: {"server", "client", "tools", "lists", "calls"}
    #[arg(long)]
    json: bool,
    /// Command and arguments of a server that uses standard input and output; options of lro go before it
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// All that is found out.
#[derive(Serialize)]
struct Diagnosis {
    server: Value,
    client: Client,
    tools: Vec<Tool>,
    lists: Change,
    calls: Vec<Call>,
}

#[derive(Serialize)]
struct Client {
    name: String,
    known_as: Option<&'static str>,
    profile: ClientProfile,
}

/// A tool of the server, and the estimated tokens of its definition.
#[derive(Serialize)]
struct Tool {
    name: String,
    tokens: u64,
}

/// Without the gateway, and with it.
#[derive(Serialize)]
struct Change {
    before: Seen,
    after: Seen,
}

#[derive(Serialize)]
struct Call {
    tool: String,
    arguments: String,
    /// Why there is no result.
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    change: Option<Change>,
    /// What the model sees behind the gateway, if that is something else.
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<String>,
}

/// What a model sees.
#[derive(Serialize)]
struct Seen {
    characters: u64,
    /// Estimated.
    tokens: u64,
    /// What the client does with it because of its size.
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<String>,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    if arguments.arguments.len() > arguments.call.len() {
        terminal.error("more --arguments than --call: the first belongs to the first call, and so on");
        return Ok(Exit::Usage);
    }
    let (name, version) = name_and_version(&arguments.client);
    let gateway = server::forwarding(config, arguments.upstream.clone(), &arguments.command)?;
    let client = json!({"name": name, "version": if version.is_empty() { "0" } else { version }});
    let Some(server) = connect(gateway, &client, arguments, terminal) else { return Ok(Exit::Error) };
    // Nothing is kept.
    let directory = TempDir::new().context("cannot create a temporary directory")?;
    let rehearsal = rehearsal(config, directory.path())?;
    let profile = config.for_client(name, version);
    let diagnosis = diagnosis(arguments, &client, &server, Stage { rehearsal, profile: &profile, count: 0 })?;
    match arguments.json {
        true => output::json(&diagnosis)?,
        false => output::text(&diagnosis.text())?,
    }
    let has_failed = diagnosis.calls.iter().any(|call| call.error.is_some());
    Ok(if has_failed { Exit::Error } else { Exit::Success })
}

/// Connects to the server behind a gateway. `None` if it is not an MCP server, after saying what to do.
fn connect(gateway: Gateway, client: &Value, arguments: &Arguments, terminal: &Terminal) -> Option<Server> {
    let timeout = Duration::from_secs(arguments.timeout);
    let started = job::finish(Server::start_as(gateway, client, Some(timeout)));
    started
        .inspect_err(|error| {
            terminal.error(&format!("cannot use {} as an MCP server: {error:#}", server_name(arguments)));
            terminal.hint(if arguments.upstream.is_some() { ADVICE_URL } else { ADVICE_COMMAND });
        })
        .ok()
}

/// A gateway of this configuration that keeps its offloads below a directory.
fn rehearsal(config: &Config, directory: &Path) -> anyhow::Result<Rehearsal> {
    let mut config = config.clone();
    // The umask may let others write to the directory itself, where a store opens none; one below it is made private.
    config.dir = directory.join("store");
    config.store = None;
    config.fsync = Fsync::Never;
    Ok(Rehearsal::new(&config, Some(&env::current_exe()?))?)
}

/// Asks the server for its tools and calls those that are named, and shows the answers on the stage.
fn diagnosis(
    arguments: &Arguments,
    client: &Value,
    server: &Server,
    mut stage: Stage<'_>,
) -> anyhow::Result<Diagnosis> {
    let hello = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client});
    let about = stage.exchange("initialize", &hello, &server.hello);
    let tools = job::finish(server.tools()).context("the server does not list its tools")?;
    let list = json!({ "tools": tools });
    let listed = stage.exchange("tools/list", &json!({}), &list);
    let texts = |hello: &Value, list: &Value| format!("{}{}", text(&hello["instructions"]), list["tools"]);
    let lists =
        Change { before: Seen::of(&texts(&server.hello, &list), None), after: Seen::of(&texts(&about, &listed), None) };
    let mut pairs = arguments.arguments.iter();
    let calls = arguments.call.iter().map(|tool| (tool.as_str(), pairs.next().map_or("{}", String::as_str)));
    let calls = calls.map(|(tool, arguments)| stage.call(server, tool, arguments)).collect();
    let tool = |tool: &Value| Tool { name: text(&tool["name"]), tokens: sizes(tool.to_string().as_bytes())[2] };
    let (name, version) = name_and_version(&arguments.client);
    let known_as = KnownClient::find(name, version).map(|known| known.client);
    Ok(Diagnosis {
        server: server.hello["serverInfo"].clone(),
        client: Client { name: arguments.client.clone(), known_as, profile: *stage.profile },
        tools: tools.iter().map(tool).collect(),
        lists,
        calls,
    })
}

fn server_name(arguments: &Arguments) -> String {
    let program = arguments.command.first().map(|program| format!("`{}`", program.to_string_lossy()));
    program.unwrap_or_else(|| "the server".to_owned())
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The gateway, whose client is told what the server has answered.
struct Stage<'a> {
    rehearsal: Rehearsal,
    profile: &'a ClientProfile,
    count: u64,
}

impl Stage<'_> {
    /// What the client gets in the place of a result.
    fn exchange(&mut self, method: &str, params: &Value, result: &Value) -> Value {
        self.message(method, &params.to_string(), &result.to_string())
    }

    fn message(&mut self, method: &str, params: &str, result: &str) -> Value {
        self.count += 1;
        let id = self.count;
        let request = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#);
        let shown = self.rehearsal.exchange(Bytes::from(request), Bytes::from(answer));
        let shown: Value = shown.and_then(|message| serde_json::from_slice(&message).ok()).unwrap_or_default();
        if shown["error"].is_null() { shown["result"].clone() } else { json!({"content": [shown["error"]]}) }
    }

    /// Calls a tool once.
    fn call(&mut self, server: &Server, tool: &str, arguments: &str) -> Call {
        let mut call =
            Call { tool: tool.to_owned(), arguments: arguments.to_owned(), error: None, change: None, reply: None };
        let answer = job::finish(server.call(tool, arguments));
        let result = answer.and_then(|answer| result_of(&answer));
        let result = match result {
            Ok(result) => result,
            Err(error) => {
                call.error = Some(error);
                return call;
            }
        };
        let before: Value = serde_json::from_slice(&result).unwrap_or_default();
        let params = format!(r#"{{"name":{},"arguments":{arguments}}}"#, json!(tool));
        let after = self.message("tools/call", &params, &String::from_utf8_lossy(&result));
        let [seen, reply] = [&before, &after].map(|result| shown(result, self.profile.sees));
        if before["isError"] == true {
            call.error = Some(format!("the tool answers with an error: {}", beginning(&seen)));
        }
        call.change =
            Some(Change { before: Seen::of(&seen, Some(self.profile)), after: Seen::of(&reply, Some(self.profile)) });
        call.reply = Some(reply).filter(|reply| *reply != seen);
        call
    }
}

/// The result in an answer, or the error in the place of it.
fn result_of(answer: &Message) -> Result<Bytes, String> {
    let error = || lro_gateway::collect::error_text(answer).unwrap_or_else(|| "the answer has no result".to_owned());
    answer.result().ok_or_else(error)
}

/// The text of a result that a model sees.
fn shown(result: &Value, sees: Sees) -> String {
    let blocks = result["content"].as_array().into_iter().flatten();
    let texts: Vec<String> = blocks
        .map(|block| match block["text"].as_str() {
            Some(text) => text.to_owned(),
            // Images and sounds are no text.
            None if block["data"].is_string() => String::new(),
            None => block.to_string(),
        })
        .collect();
    let (texts, structured) = (texts.join("\n"), &result["structuredContent"]);
    match sees {
        _ if structured.is_null() => texts,
        Sees::Text => texts,
        Sees::Structured => structured.to_string(),
        Sees::Both => format!("{texts}\n{structured}"),
    }
}

/// The beginning of a text, on one line.
fn beginning(text: &str) -> String {
    text.chars().take(200).map(|character| if character.is_control() { ' ' } else { character }).collect()
}

impl Seen {
    fn of(text: &str, profile: Option<&ClientProfile>) -> Self {
        let [bytes, characters, tokens] = sizes(text.as_bytes());
        let limits = |profile: &ClientProfile| {
            let size = |unit| match unit {
                SizeUnit::Bytes => bytes,
                SizeUnit::Characters => characters,
                SizeUnit::Tokens => tokens,
            };
            let over = |limit: &Size| size(limit.unit) > limit.amount;
            let cut = profile
                .text_limit
                .filter(over)
                .map(|limit| format!("cuts or hides what is beyond {} {}", thousands(limit.amount), limit.unit.name()));
            let lines = profile.text_lines.filter(|lines| text.lines().count() as u64 > *lines);
            let lines = lines.map(|lines| format!("cuts what is beyond {} lines", thousands(lines)));
            let refused = profile.result_limit.filter(|limit| bytes > *limit);
            let refused = refused.map(|limit| format!("refuses a message of more than {} bytes", thousands(limit)));
            refused.or(cut).or(lines)
        };
        Self { characters, tokens, client: profile.and_then(limits) }
    }

    fn text(&self) -> String {
        let client = self.client.as_ref().map(|client| format!("; the client {client}")).unwrap_or_default();
        format!("{} characters, about {} tokens{client}", thousands(self.characters), thousands(self.tokens))
    }
}

impl Diagnosis {
    fn text(&self) -> String {
        let Self { server, client, tools, lists, calls } = self;
        let mut text = format!("server  {} {}\n", text(&server["name"]), text(&server["version"]));
        let known = match client.known_as {
            Some(known) => known,
            None if client.name == ANY_CLIENT => {
                "without limits of its own; --client names one that `lro clients` lists"
            }
            None => "not known; `lro clients` lists those that are",
        };
        text += &format!("client  {}: {known}\n\n", client.name);
        text += &format!("{} tools, with the tokens of their definitions\n", tools.len());
        let width = tools.iter().map(|tool| tool.name.len()).max().unwrap_or_default();
        for Tool { name, tokens } in tools {
            text += &format!("  {name:width$}  {tokens:>6}\n");
        }
        text += &format!("  tools and instructions     {}\n", lists.before.text());
        text += &format!("  the same with the gateway  {}\n", lists.after.text());
        for Call { tool, arguments, error, change, reply } in calls {
            text += &format!("\n{tool} {}\n", beginning(arguments));
            if let Some(error) = error {
                text += &format!("  error    {error}\n");
            }
            let Some(Change { before, after }) = change else { continue };
            text += &format!("  without  {}\n", before.text());
            text += &match reply {
                None => "  with     the same\n".to_owned(),
                Some(reply) => {
                    let saved = 100.0 * (1.0 - after.tokens as f64 / before.tokens.max(1) as f64);
                    format!("  with     {}: {saved:.1} % saved\n           {}\n", after.text(), beginning(reply))
                }
            };
        }
        if calls.is_empty() {
            text += "\n--call TOOL --arguments JSON shows what becomes of a result\n";
        }
        text
    }
}
