//! Gateways over HTTP behind a load balancer, and clients whose connections stay open.

use std::collections::HashMap;
use std::fs;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use lro_tests::{free_port, read, wait_until, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::faults::signal;
use crate::http::{Exchange, Headers, Reply, bytes_of, host_of};
use crate::scripted::{Script, Scripted, Setup};
use crate::wire::{LEGACY, MODERN, call, initialize, request};

/// A gateway of several.
pub(crate) struct Replica {
    gateway: Scripted,
    target: Target,
}

/// What a balancer knows of a gateway.
#[derive(Clone, PartialEq, Eq)]
struct Target {
    /// Host and port.
    address: String,
    /// URL of the probe.
    ready: String,
}

impl Target {
    fn is_ready(&self) -> bool {
        status(&self.ready) == Some(200)
    }
}

/// The status that a URL answers with; `None` if it does not answer.
fn status(url: &str) -> Option<u16> {
    let mut stream = TcpStream::connect(host_of(url)).ok()?;
    stream.write_all(&bytes_of(url, "GET", &[("Connection", "close")], b"")).ok()?;
    Exchange::try_read(BufReader::new(stream)).ok().map(|exchange| exchange.status)
}

impl Replica {
    pub(crate) fn start(script: &Script, toml: &str, variables: &[(&str, &str)]) -> Self {
        Self::start_with(script, &Setup { toml, variables, ..Setup::default() })
    }

    /// With all of these settings but the flags.
    pub(crate) fn start_with(script: &Script, setup: &Setup<'_>) -> Self {
        Self::start_at("127.0.0.1:0", script, setup)
    }

    /// As [`Replica::start_with`], at this address.
    pub(crate) fn start_at(address: &str, script: &Script, setup: &Setup<'_>) -> Self {
        let flags = ["--listen", address, "--metrics-listen", "127.0.0.1:0"];
        let mut gateway = script.silent(&Setup { flags: &flags, ..*setup });
        let ready = gateway.told("metrics on ").replace("/metrics", "/readyz");
        let address = host_of(&gateway.url()).to_owned();
        Self { gateway, target: Target { address, ready } }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address())
    }

    /// Host and port.
    pub(crate) fn address(&self) -> &str {
        &self.target.address
    }

    /// The status of its probe; `None` if it does not answer.
    pub(crate) fn readiness(&self) -> Option<u16> {
        status(&self.target.ready)
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(name, self.gateway.pid());
    }

    /// Waits for the end. Returns whether it was a good one, and what was logged.
    pub(crate) fn end(self) -> (bool, String) {
        let ended = self.gateway.end();
        (ended.status.success(), ended.errors)
    }
}

/// Takes connections, and passes each to the next gateway that is ready.
pub(crate) struct Balancer {
    pub(crate) url: String,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    targets: Mutex<Vec<Target>>,
    /// The address of the gateway behind each connection, by that of its client.
    behind: Mutex<HashMap<SocketAddr, String>>,
}

impl Balancer {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/mcp", listener.local_addr().unwrap());
        let shared: Arc<Shared> = Arc::default();
        let passing = Arc::clone(&shared);
        thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                let (client, shared) = (client.unwrap(), Arc::clone(&passing));
                thread::spawn(move || shared.pass(&client, number));
            }
        });
        Self { url, shared }
    }

    pub(crate) fn add(&self, replica: &Replica) {
        self.shared.targets.lock().unwrap().push(replica.target.clone());
    }

    pub(crate) fn remove(&self, replica: &Replica) {
        self.shared.targets.lock().unwrap().retain(|target| *target != replica.target);
    }

    /// The address of the gateway that a client was connected with last.
    pub(crate) fn behind(&self, client: &Caller) -> Option<String> {
        if let Some(tried) = &client.answered_by {
            // The last of those that nginx has tried.
            return tried.rsplit(", ").next().map(str::to_owned);
        }
        self.shared.behind.lock().unwrap().get(&client.local?).cloned()
    }
}

impl Shared {
    /// Connects a client with a gateway. The connection ends for both when it ends for one.
    fn pass(&self, client: &TcpStream, number: usize) {
        let targets = self.targets.lock().unwrap().clone();
        let turn = (0..targets.len()).map(|step| &targets[(number + step) % targets.len()]);
        let mut ready = turn.filter(|target| target.is_ready());
        let server = ready.find_map(|target| Some((target, TcpStream::connect(&target.address).ok()?)));
        // Without one, the client sees its connection end.
        let (Some((target, server)), Ok(peer)) = (server, client.peer_addr()) else { return };
        self.behind.lock().unwrap().insert(peer, target.address.clone());
        let copy = |mut from: &TcpStream, mut to: &TcpStream| {
            let _ = io::copy(&mut from, &mut to);
            let _ = to.shutdown(Shutdown::Write);
        };
        for stream in [client, &server] {
            let _ = stream.set_nodelay(true);
        }
        thread::scope(|scope| {
            scope.spawn(|| {
                copy(&server, client);
                // A client that sends meanwhile learns of the end as well.
                let _ = client.shutdown(Shutdown::Both);
            });
            copy(client, &server);
        });
    }
}

/// The nginx of `compose.yaml`, before gateways that come back at their addresses. It passes connections on by their port, as all come
/// from one machine here, and says in a header which gateway has answered.
pub(crate) struct Nginx {
    pub(crate) url: String,
    process: Child,
    _directory: TempDir,
}

/// Longer than nginx takes a gateway for failed: `fail_timeout` in `compose.yaml`.
pub(crate) const NGINX_FAILED_FOR: Duration = Duration::from_secs(6);

/// The header.
const ANSWERED_BY: &str = "answered-by";

impl Nginx {
    pub(crate) fn start(program: &str, replicas: &[Replica]) -> Self {
        let port = free_port();
        let compose = read(&workspace().join("host-example/dist/compose.yaml"));
        let events = compose.find("      events {}").unwrap();
        let mut lines: Vec<String> = compose[events..].lines().map(|line| line.replace("$$", "$")).collect();
        lines.retain(|line| !line.contains("server gateway-2"));
        for line in &mut lines {
            let text = line.trim_start();
            if text.starts_with("hash ") {
                *line = "hash $remote_port consistent;".to_owned();
            } else if let Some((_, how)) = text.split_once("gateway-1:8808 ") {
                let server = |replica: &Replica| format!("server {} {how}\n", replica.address());
                *line = replicas.iter().map(server).collect();
            } else if text.starts_with("listen ") {
                *line = format!("listen 127.0.0.1:{port};\nadd_header {ANSWERED_BY} $upstream_addr always;");
            }
        }
        let directory = TempDir::new().unwrap();
        let own = |name: &str| directory.path().join(name).display().to_string();
        let main = format!("daemon off;\npid {};\nerror_log {};\n", own("pid"), own("log"));
        let access = "http {\naccess_log off;";
        fs::write(own("nginx.conf"), main + &lines.join("\n").replacen("http {", access, 1)).unwrap();
        let process = Command::new(program).args(["-c", &own("nginx.conf")]).spawn().unwrap();
        wait_until("nginx listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { url: format!("http://127.0.0.1:{port}/mcp"), process, _directory: directory }
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        signal("-QUIT", self.process.id());
        let _ = self.process.wait();
    }
}

/// A client of one generation of the protocol.
pub(crate) struct Caller {
    url: String,
    /// Open from one request to the next.
    connection: Option<BufReader<TcpStream>>,
    /// Its own address on the connection of the last request.
    local: Option<SocketAddr>,
    /// The gateway that has answered last, if nginx says it.
    answered_by: Option<String>,
    /// Whether it is of a revision with a handshake.
    shakes_hands: bool,
    session: Option<String>,
    /// How many it has begun.
    sessions: usize,
    asked: u64,
}

impl Caller {
    /// A client of 2026-07-28.
    pub(crate) fn modern(url: &str) -> Self {
        Self {
            url: url.to_owned(),
            connection: None,
            local: None,
            answered_by: None,
            shakes_hands: false,
            session: None,
            sessions: 0,
            asked: 0,
        }
    }

    /// A client of 2025-11-25, which begins a session with its first call.
    pub(crate) fn legacy(url: &str) -> Self {
        Self { shakes_hands: true, ..Self::modern(url) }
    }

    /// How many sessions it has begun.
    pub(crate) fn sessions(&self) -> usize {
        self.sessions
    }

    fn begin_session(&mut self) -> Result<(), String> {
        self.session = None;
        self.sessions += 1;
        let reply = self.post(&[], &request("initialize", "initialize", initialize()))?;
        let session = reply.headers.get("mcp-session-id").cloned();
        self.session = Some(session.ok_or_else(|| format!("{}: {}", reply.status, reply.text()))?);
        self.notify_initialized()
    }

    fn notify_initialized(&mut self) -> Result<(), String> {
        let session = self.session.clone().unwrap_or_default();
        let reply =
            self.post(&of_session(&session), &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}))?;
        if reply.status == 202 { Ok(()) } else { Err(format!("{}: {}", reply.status, reply.text())) }
    }

    /// The result of a tool. A client of the handshake whose session is unknown begins another, as the protocol says.
    pub(crate) fn call(&mut self, tool: &str, arguments: &Value) -> Result<Value, String> {
        self.asked += 1;
        let message = call(self.asked, &json!({"name": tool, "arguments": arguments}), !self.shakes_hands);
        if self.shakes_hands && self.session.is_none() {
            self.begin_session()?;
        }
        let mut reply = self.ask(tool, &message)?;
        if reply.status == 404 && self.shakes_hands {
            self.begin_session()?;
            reply = self.ask(tool, &message)?;
        }
        if reply.status != 200 || !reply.whole {
            return Err(format!("{}, whole: {}: {}", reply.status, reply.whole, reply.text()));
        }
        let mut answer = reply.messages().pop().ok_or("an empty stream")?;
        assert!(answer["id"].is_null() || answer["id"] == self.asked, "the answer to another call: {answer}");
        if answer["result"].is_null() { Err(answer.to_string()) } else { Ok(answer["result"].take()) }
    }

    fn ask(&mut self, tool: &str, message: &Value) -> Result<Reply, String> {
        match self.session.clone() {
            Some(session) => self.post(&of_session(&session), message),
            None => {
                let headers = [("MCP-Protocol-Version", MODERN), ("Mcp-Method", "tools/call"), ("Mcp-Name", tool)];
                self.post(&headers, message)
            }
        }
    }

    fn post(&mut self, headers: Headers<'_>, message: &Value) -> Result<Reply, String> {
        let mut reader = match self.connection.take() {
            Some(reader) => reader,
            None => {
                let connected = TcpStream::connect(host_of(&self.url));
                BufReader::new(connected.map_err(|error| format!("cannot connect: {error}"))?)
            }
        };
        self.local = reader.get_ref().local_addr().ok();
        let bytes = bytes_of(&self.url, "POST", headers, message.to_string().as_bytes());
        reader.get_mut().write_all(&bytes).map_err(|error| format!("cannot send: {error}"))?;
        let (reply, reader) = Exchange::try_read(reader).map_err(|error| error.to_string())?.finish_and_stay();
        self.answered_by = reply.headers.get(ANSWERED_BY).cloned();
        let closes = reply.headers.get("connection").is_some_and(|value| value == "close");
        self.connection = Some(reader).filter(|_| !closes && reply.whole);
        Ok(reply)
    }
}

fn of_session(id: &str) -> [(&'static str, &str); 2] {
    [("Mcp-Session-Id", id), ("MCP-Protocol-Version", LEGACY)]
}
