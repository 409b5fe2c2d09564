//! A server behind a gateway of this process that only forwards: it starts commands and speaks HTTP.

use std::collections::HashMap;
use std::env;
use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytes::Bytes;
use lro_gateway::collect::error_text;
use lro_gateway::settings::{Config, UpstreamUrl};
use lro_gateway::{Gateway, GatewayError};
use lro_host::mcp::{self, Id, Kind, METHOD_NOT_FOUND, Message, method};
use lro_transport::{Line, Lines, MessageLimits, write_line};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::gateway::plain;

/// The revision of the protocol that is asked for.
pub(crate) const REVISION: &str = "2025-11-25";

/// Most pages of the list of tools that are read: more than any server has.
const TOOL_PAGES_MAX: usize = 1_000;

/// Longest part of a line that is shown when it is no message.
const STRAY_CHARACTERS_MAX: usize = 200;

/// A connection to a server. Dropping it ends the server.
pub(crate) struct Server {
    /// Its answer to the handshake.
    pub(crate) hello: Value,
    shared: Arc<Shared>,
    /// Longest wait for an answer.
    timeout: Option<Duration>,
    count: AtomicU64,
    gateway: Option<JoinHandle<Result<(), GatewayError>>>,
}

struct Shared {
    /// To the gateway; `None` from the end of the connection on.
    input: Mutex<Option<PipeWriter>>,
    /// The requests that wait; `None` after the end of the connection.
    waiting: Mutex<Option<HashMap<Id, mpsc::Sender<Message>>>>,
    /// The beginning of the first line that is not a message.
    stray: Mutex<Option<String>>,
}

/// A gateway before the server of a URL or of a command, which changes nothing.
pub(crate) fn forwarding(
    config: &Config,
    upstream: Option<UpstreamUrl>,
    command: &[OsString],
) -> anyhow::Result<Gateway> {
    let mut config = config.clone();
    config.enabled = false;
    config.gateway.upstream = upstream;
    Gateway::new(&config, command, Some(&env::current_exe()?)).map_err(plain)
}

/// Who says the text of an error. The gateway of this process, where it speaks, begins with `the server`: that it cannot be reached.
pub(crate) fn said(text: &str) -> String {
    if text.starts_with("the server ") { text.to_owned() } else { format!("the server answered: {text}") }
}

impl Server {
    /// Starts the server, or connects to it, and introduces the command.
    pub(crate) async fn start(gateway: Gateway) -> anyhow::Result<Self> {
        let client = json!({"name": "lro", "version": env!("CARGO_PKG_VERSION")});
        Self::start_as(gateway, &client, None).await
    }

    /// The same for a client, with a longest wait for each answer.
    pub(crate) async fn start_as(gateway: Gateway, client: &Value, timeout: Option<Duration>) -> anyhow::Result<Self> {
        let (asked, input) = io::pipe().context("cannot connect to the server")?;
        let (answers, answered) = io::pipe().context("cannot connect to the server")?;
        let limits = Arc::clone(&gateway.rules().limits);
        let shared = Arc::new(Shared {
            input: Mutex::new(Some(input)),
            waiting: Mutex::new(Some(HashMap::new())),
            stray: Mutex::default(),
        });
        let reading = Arc::clone(&shared);
        thread::Builder::new().spawn(move || reading.read(answers, limits))?;
        let gateway = thread::Builder::new().spawn(move || gateway.serve(asked, answered))?;
        let mut server = Self { hello: Value::Null, shared, timeout, count: AtomicU64::new(0), gateway: Some(gateway) };
        let hello = json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": client}).to_string();
        match server.result(method::INITIALIZE, &hello).await {
            Ok(hello) => server.hello = hello,
            // Why it cannot be started says more.
            Err(error) => return Err(server.end().err().unwrap_or(error)),
        }
        server.shared.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)?;
        Ok(server)
    }

    /// JSON Schema of the arguments of a tool.
    pub(crate) async fn input_schema(&self, tool: &str) -> anyhow::Result<String> {
        let tools = self.tools().await?;
        if let Some(listed) = tools.iter().find(|listed| listed["name"] == tool) {
            return Ok(listed["inputSchema"].to_string());
        }
        let names: Vec<&str> = tools.iter().filter_map(|listed| listed["name"].as_str()).collect();
        bail!("the server has no tool `{tool}`; it has: {}", names.join(", "))
    }

    /// The definitions of all tools.
    pub(crate) async fn tools(&self) -> anyhow::Result<Vec<Value>> {
        let (mut tools, mut params) = (Vec::new(), json!({}));
        for _ in 0..TOOL_PAGES_MAX {
            let mut list = self.result(method::TOOLS_LIST, &params.to_string()).await?;
            tools.extend(list["tools"].as_array_mut().map(std::mem::take).unwrap_or_default());
            match &list["nextCursor"] {
                Value::String(cursor) => params = json!({ "cursor": cursor }),
                _ => break,
            }
        }
        Ok(tools)
    }

    /// Calls a tool with these arguments, a JSON object. Gives the answer, or why there is none.
    pub(crate) fn call(
        &self,
        tool: &str,
        arguments: &str,
    ) -> impl Future<Output = Result<Message, String>> + Send + use<> {
        self.request(method::TOOLS_CALL, &format!(r#"{{"name":{},"arguments":{arguments}}}"#, json!(tool)))
    }

    async fn result(&self, method: &str, params: &str) -> anyhow::Result<Value> {
        let answer = self.request(method, params).await.map_err(|reason| anyhow!("{method}: {reason}"))?;
        match answer.result() {
            Some(result) => Ok(serde_json::from_slice(&result).with_context(|| format!("{method}: no JSON"))?),
            None => bail!("{method}: {}", said(&error_text(&answer).unwrap_or_default())),
        }
    }

    fn request(&self, method: &str, params: &str) -> impl Future<Output = Result<Message, String>> + Send + use<> {
        let id = Id::own(&format!("lro-{}", self.count.fetch_add(1, Ordering::Relaxed)));
        let (answer, mut answered) = mpsc::channel(1);
        let is_open = self.shared.waiting().as_mut().map(|waiting| waiting.insert(id.clone(), answer)).is_some();
        let request = mcp::request(&id, method, params);
        let sent = match is_open {
            true => self.shared.send(request).map_err(|error| error.to_string()),
            false => Ok(()),
        };
        if let Some(timeout) = self.timeout {
            let shared = Arc::clone(&self.shared);
            thread::spawn(move || {
                thread::sleep(timeout);
                drop(shared.waiting().as_mut().and_then(|waiting| waiting.remove(&id)));
            });
        }
        let (shared, timeout) = (Arc::clone(&self.shared), self.timeout);
        async move {
            sent?;
            answered.recv().await.ok_or_else(|| shared.silence(timeout))
        }
    }

    /// Ends the server, and waits for that.
    fn end(&mut self) -> anyhow::Result<()> {
        let unanswered = self.shared.waiting().take().unwrap_or_default();
        for id in unanswered.into_keys() {
            let params = format!(r#"{{"requestId":{id},"reason":"the collection has ended"}}"#);
            let _ = self.shared.send(mcp::notification(method::CANCELLED, &params));
        }
        // At the end of its input, the gateway ends.
        drop(self.shared.input().take());
        match self.gateway.take().map(JoinHandle::join) {
            Some(Ok(ended)) => Ok(ended?),
            Some(Err(_)) => bail!("internal error: see the log"),
            None => Ok(()),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Option<HashMap<Id, mpsc::Sender<Message>>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Why there is no answer.
    fn silence(&self, timeout: Option<Duration>) -> String {
        let stray = self.stray.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stray =
            stray.map(|line| format!("; it wrote a line to its standard output that is no MCP message: {line}"));
        let stray = stray.unwrap_or_default();
        match timeout.filter(|_| self.waiting().is_some()) {
            Some(timeout) => format!("no answer within {} s{stray}", timeout.as_secs()),
            None => format!("the connection to the server has ended{stray}"),
        }
    }

    fn input(&self) -> MutexGuard<'_, Option<PipeWriter>> {
        self.input.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn send(&self, message: impl Into<Bytes>) -> io::Result<()> {
        match self.input().as_mut() {
            Some(input) => write_line(input, &message.into()),
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Delivers what the server sends, until it ends.
    fn read(&self, answers: PipeReader, limits: Arc<MessageLimits>) {
        let mut lines = Lines::new(answers, limits);
        while let Ok(Some(line)) = lines.next() {
            match line {
                Line::Whole(message) => self.receive(Message::read(message)),
                // The request fails without its sender.
                Line::Cut(cut) => {
                    let id = Message::envelope_id(&cut.head).or_else(|| Message::trailing_id(&cut.tail));
                    drop(id.and_then(|id| self.waiting().as_mut()?.remove(&id)));
                }
                Line::Partial(_) => {}
            }
        }
        *self.waiting() = None;
    }

    fn receive(&self, message: Message) {
        match (message.kind(), message.id()) {
            (Kind::Response, Some(id)) => {
                let answer = self.waiting().as_mut().and_then(|waiting| waiting.remove(&id));
                if let Some(answer) = answer {
                    let _ = answer.try_send(message);
                }
            }
            (Kind::Request, Some(id)) => {
                let answer = match message.method().as_deref() {
                    Some(method::PING) => mcp::response(&id, "{}"),
                    _ => mcp::error_response(Some(&id), METHOD_NOT_FOUND, "lro only calls tools"),
                };
                let _ = self.send(answer);
            }
            (Kind::Other, _) => {
                let line = String::from_utf8_lossy(message.bytes()).chars().take(STRAY_CHARACTERS_MAX).collect();
                self.stray.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(line);
            }
            _ => {}
        }
    }
}
