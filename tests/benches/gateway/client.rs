//! Bare clients, so that only the gateway and two pipes or sockets are measured, and no library.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, ChildStdin, ChildStdout};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::upstream::{SILENT_TOOL, TOOL};

/// The revision that all of the gateways speak.
const REVISION: &str = "2025-06-18";

/// Bytes of one read: the capacity of a pipe.
const READ_BYTES: usize = 1 << 20;

/// One answer, and the time from the first byte of the request to the last of the answer.
pub(crate) struct Answer {
    pub(crate) time: Duration,
    pub(crate) bytes: Vec<u8>,
}

/// A connection to a server.
pub(crate) struct Client {
    wire: Wire,
    /// Id of the last request.
    id: u64,
    tool: String,
}

enum Wire {
    Pipes(ChildStdin, BufReader<ChildStdout>),
    Http(Box<Http>),
}

impl Client {
    /// Initializes a session with a process on its pipes.
    pub(crate) fn on_pipes(process: &mut Child) -> Self {
        let output = BufReader::with_capacity(READ_BYTES, process.stdout.take().unwrap());
        Self::new(Wire::Pipes(process.stdin.take().unwrap(), output))
    }

    /// Initializes a session with the server at a local address.
    pub(crate) fn on_http(address: &str, path: &str) -> Self {
        Self::new(Wire::Http(Box::new(Http::connect(address, path))))
    }

    fn new(wire: Wire) -> Self {
        let mut client = Self { wire, id: 0, tool: String::new() };
        let info = json!({"name": "bench", "version": "1"});
        client.ask("initialize", &json!({"protocolVersion": REVISION, "capabilities": {}, "clientInfo": info}));
        client.tell(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        let listed = client.ask("tools/list", &json!({})).bytes;
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let names = listed["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap());
        // Some gateways put the name of the server before that of the tool.
        client.tool = names.into_iter().find(|name| name.ends_with(TOOL)).unwrap().to_owned();
        client
    }

    /// Calls the tool.
    pub(crate) fn call(&mut self, records: usize, structured: bool) -> Answer {
        let mut arguments = json!({"n": records});
        if structured {
            arguments["structured"] = true.into();
        }
        let params = json!({"name": self.tool, "arguments": arguments});
        self.ask("tools/call", &params)
    }

    /// Calls the tool that never answers.
    pub(crate) fn call_silent(&mut self) -> Vec<u8> {
        self.ask("tools/call", &json!({"name": SILENT_TOOL, "arguments": {}})).bytes
    }

    /// Calls the tool without waiting for the answer.
    pub(crate) fn begin(&mut self, records: usize) {
        let message = self.request("tools/call", &json!({"name": self.tool, "arguments": {"n": records}}));
        match &mut self.wire {
            Wire::Pipes(input, _) => writeln!(input, "{message}").unwrap(),
            Wire::Http(http) => http.send(&message),
        }
    }

    fn request(&mut self, method: &str, params: &Value) -> String {
        self.id += 1;
        json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params}).to_string()
    }

    fn ask(&mut self, method: &str, params: &Value) -> Answer {
        let message = self.request(method, params);
        let started = Instant::now();
        let bytes = match &mut self.wire {
            Wire::Pipes(input, output) => {
                writeln!(input, "{message}").unwrap();
                line(output)
            }
            Wire::Http(http) => http.post(&message),
        };
        Answer { time: started.elapsed(), bytes }
    }

    fn tell(&mut self, message: &Value) {
        match &mut self.wire {
            Wire::Pipes(input, _) => writeln!(input, "{message}").unwrap(),
            Wire::Http(http) => drop(http.post(&message.to_string())),
        }
    }
}

/// The next line that is an answer.
fn line(output: &mut impl BufRead) -> Vec<u8> {
    loop {
        let mut line = Vec::new();
        assert!(output.read_until(b'\n', &mut line).unwrap() > 0, "the server closed its output");
        if !line.starts_with(br#"{"jsonrpc":"2.0","method":"#) && !line.starts_with(br#"{"method":"#) {
            return line;
        }
    }
}

/// A persistent connection, reopened when the server has closed it.
struct Http {
    address: String,
    input: TcpStream,
    output: BufReader<TcpStream>,
    head: String,
    session: String,
}

impl Http {
    fn connect(address: &str, path: &str) -> Self {
        let (input, output) = connect(address);
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: {REVISION}\r\n"
        );
        Self { address: address.to_owned(), input, output, head, session: String::new() }
    }

    /// The message of the answer, without its transport framing; empty when there is none.
    fn post(&mut self, message: &str) -> Vec<u8> {
        self.send(message);
        let headers = self.headers();
        let header = |name: &str| {
            let found = headers.iter().find(|line| line.to_ascii_lowercase().starts_with(name));
            found.map(|line| line[name.len()..].trim().to_owned())
        };
        if let Some(id) = header("mcp-session-id:") {
            self.session = format!("Mcp-Session-Id: {id}\r\n");
        }
        let body = match header("content-length:") {
            Some(bytes) => self.take(bytes.parse().unwrap()),
            None if header("transfer-encoding:").is_some() => self.chunks(),
            None => Vec::new(),
        };
        let status = headers[0].split(' ').nth(1).unwrap();
        assert!(status.starts_with('2'), "{}: {}", headers[0], String::from_utf8_lossy(&body));
        if header("content-type:").is_some_and(|value| value.starts_with("text/event-stream")) {
            return last_data(body);
        }
        body
    }

    fn send(&mut self, message: &str) {
        if is_closed(&self.input) {
            (self.input, self.output) = connect(&self.address);
        }
        let Self { head, session, .. } = self;
        let request = format!("{head}{session}Content-Length: {}\r\n\r\n{message}", message.len());
        self.input.write_all(request.as_bytes()).unwrap();
    }

    /// The status line and the headers.
    fn headers(&mut self) -> Vec<String> {
        let lines = std::iter::from_fn(|| Some(self.header_line()));
        lines.take_while(|line| !line.is_empty()).collect()
    }

    fn header_line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.output.read_line(&mut line).unwrap() > 0, "the server closed the connection");
        line.trim_end().to_owned()
    }

    fn take(&mut self, bytes: usize) -> Vec<u8> {
        let mut body = vec![0; bytes];
        self.output.read_exact(&mut body).unwrap();
        body
    }

    fn chunks(&mut self) -> Vec<u8> {
        let mut body = Vec::new();
        loop {
            let bytes = usize::from_str_radix(&self.header_line(), 16).unwrap();
            let chunk = self.take(bytes + 2);
            if bytes == 0 {
                return body;
            }
            body.extend_from_slice(&chunk[..bytes]);
        }
    }
}

fn connect(address: &str) -> (TcpStream, BufReader<TcpStream>) {
    let input = TcpStream::connect(address).unwrap();
    input.set_nodelay(true).unwrap();
    let output = BufReader::with_capacity(READ_BYTES, input.try_clone().unwrap());
    (input, output)
}

/// Whether the server has closed the connection, as servers do with idle ones.
fn is_closed(connection: &TcpStream) -> bool {
    connection.set_nonblocking(true).unwrap();
    let next = connection.peek(&mut [0]);
    connection.set_nonblocking(false).unwrap();
    matches!(next, Ok(0))
}

/// The data of the last event with data.
fn last_data(stream: Vec<u8>) -> Vec<u8> {
    let lines = stream.split(|byte| *byte == b'\n').rev();
    let mut data = lines.filter_map(|line| line.strip_prefix(b"data:")).filter(|data| data.len() > 1);
    data.next().unwrap_or_default().trim_ascii().to_vec()
}
