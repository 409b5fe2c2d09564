//! Gateways over HTTP behind a load balancer, and clients whose connections stay open.

use std::collections::HashMap;
use std::io::{self, BufReader, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

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
        let flags = ["--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"];
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

/// A client of one generation of the protocol.
pub(crate) struct Caller {
    url: String,
    /// Open from one request to the next.
    connection: Option<BufReader<TcpStream>>,
    /// Its own address on the connection of the last request.
    local: Option<SocketAddr>,
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
        let (connection, local, session) = (None, None, None);
        Self { url: url.to_owned(), connection, local, shakes_hands: false, session, sessions: 0, asked: 0 }
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
        let closes = reply.headers.get("connection").is_some_and(|value| value == "close");
        self.connection = Some(reader).filter(|_| !closes && reply.whole);
        Ok(reply)
    }
}

fn of_session(id: &str) -> [(&'static str, &str); 2] {
    [("Mcp-Session-Id", id), ("MCP-Protocol-Version", LEGACY)]
}
