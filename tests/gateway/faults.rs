//! Faults of servers, clients and disks: there is always an answer that names the cause, no process is left, and the next call
//! works.

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use lro_tests::{wait_until, workspace};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Environment, environment, lro, path_text, python, words};
use crate::wire::{LEGACY, call, initialize, member, request};

/// Longest wait for anything that should come.
const PATIENCE: Duration = Duration::from_secs(120);

/// How long is listened for what should not come.
const SILENCE: Duration = Duration::from_millis(400);

/// Longest line that is kept whole here; of a longer one only the beginning and the length.
const KEPT_BYTES: usize = 1 << 20;

/// The faulty server on standard streams.
pub(crate) fn faulty(arguments: &[&str]) -> Vec<String> {
    let script = path_text(&workspace().join("tests/tools/servers/faulty.py"));
    let mut command = vec![python(), "-I".to_owned(), "-S".to_owned(), script];
    command.extend(words(arguments));
    command
}

/// A text that no other process has in its arguments.
pub(crate) fn new_mark() -> String {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    format!("mark-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// The processes with this text in their arguments.
pub(crate) fn processes(mark: &str) -> Vec<u32> {
    // Every process has an empty argument, after the last one.
    assert!(!mark.is_empty(), "a mark that every process has");
    let is_marked = |pid: &u32| {
        let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        arguments.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes())
    };
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_marked).collect()
}

pub(crate) fn signal(name: &str, pid: u32) {
    // Fails when the process has ended, which is as good.
    let _ = Command::new("sh").args(["-c", r#"kill "$0" "$1" 2> /dev/null"#, name, &pid.to_string()]).status();
}

/// The faulty server over HTTP.
pub(crate) struct FaultyHttp {
    child: Child,
    pub(crate) url: String,
}

impl FaultyHttp {
    pub(crate) fn start() -> Self {
        Self::with(&[])
    }

    /// With these options of the server.
    pub(crate) fn with(options: &[&str]) -> Self {
        let command = faulty(&[&["--http"], options].concat());
        let mut child =
            Command::new(&command[0]).args(&command[1..]).stdin(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
        let url = line.trim().strip_prefix("serving ").unwrap().to_owned();
        Self { child, url }
    }
}

impl Drop for FaultyHttp {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A line of output: all of it when it is short, else its beginning.
#[derive(Debug)]
pub(crate) struct Read1 {
    pub(crate) text: Vec<u8>,
    pub(crate) bytes: usize,
}

/// A gateway that runs.
pub(crate) struct Gate {
    child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    lines: Option<Receiver<Read1>>,
    others: VecDeque<Vec<u8>>,
    errors: Arc<Mutex<String>>,
    /// In the arguments of all processes of the server.
    pub(crate) mark: String,
    files: TempDir,
    /// Where it listens.
    pub(crate) url: String,
}

impl Gate {
    /// On standard streams, before the faulty server.
    pub(crate) fn stdio(flags: &[&str]) -> Self {
        let mark = new_mark();
        Self::start(flags, &faulty(&[&mark]), &mark, &Environment::new())
    }

    /// On standard streams, with the handshake behind it.
    pub(crate) fn ready(flags: &[&str]) -> Self {
        let mut gate = Self::stdio(flags);
        gate.shake_hands();
        gate
    }

    /// Over HTTP, before the faulty server on standard streams.
    pub(crate) fn listening(flags: &[&str]) -> Self {
        let mark = new_mark();
        Self::listening_before(flags, &faulty(&[&mark]), &mark, &Environment::new())
    }

    pub(crate) fn listening_before(flags: &[&str], command: &[String], mark: &str, more: &Environment) -> Self {
        let mut gate = Self::start(&[&["--listen", "127.0.0.1:0"], flags].concat(), command, mark, more);
        gate.url = gate.told("listening on ");
        gate
    }

    /// Over HTTP, before the faulty server over HTTP.
    pub(crate) fn proxy(flags: &[&str], upstream: &str, more: &Environment) -> Self {
        let flags = [&["--listen", "127.0.0.1:0", "--upstream", upstream], flags].concat();
        let mut gate = Self::start(&flags, &[], &new_mark(), more);
        gate.url = gate.told("listening on ");
        gate
    }

    /// On standard streams, before the faulty server over HTTP.
    pub(crate) fn remote(flags: &[&str], upstream: &str) -> Self {
        let flags = [&["--upstream", upstream], flags].concat();
        let mut gate = Self::start(&flags, &[], &new_mark(), &Environment::new());
        gate.shake_hands();
        gate
    }

    pub(crate) fn start(flags: &[&str], command: &[String], mark: &str, more: &Environment) -> Self {
        use std::os::unix::process::CommandExt;
        let files = TempDir::new().unwrap();
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache");
        let own = environment(&[
            ("MCP_LRO_DIR", &path_text(&files.path().join("out"))),
            ("XDG_CACHE_HOME", &path_text(&cache)),
            ("LRO_LOG", "warn"),
        ]);
        let mut arguments = words(&["gateway"]);
        arguments.extend(words(flags));
        if !command.is_empty() {
            arguments.push("--".to_owned());
            arguments.extend(command.iter().cloned());
        }
        let mut child = Command::new(lro())
            .args(&arguments)
            .envs(own)
            .envs(more)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap();
        let errors = Arc::new(Mutex::new(String::new()));
        let (mut stream, log) = (child.stderr.take().unwrap(), Arc::clone(&errors));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stream.read(&mut chunk) {
                log.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..count]));
            }
        });
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let mark = mark.to_owned();
        Self { child, input, output, lines: None, others: VecDeque::new(), errors, mark, files, url: String::new() }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Where it offloads to.
    pub(crate) fn directory(&self) -> PathBuf {
        self.files.path().join("out")
    }

    pub(crate) fn errors(&self) -> String {
        self.errors.lock().unwrap().clone()
    }

    /// Waits for a line on its standard error, and returns what follows this text.
    pub(crate) fn told(&self, beginning: &str) -> String {
        let mut found = String::new();
        wait_until(beginning, || {
            let errors = self.errors();
            let line = errors.split_inclusive('\n').filter(|line| line.ends_with('\n'));
            let rest = line.filter_map(|line| line.split_once(beginning)).next();
            found = rest.map_or_else(String::new, |(_, rest)| rest.trim().to_owned());
            !found.is_empty()
        });
        found
    }

    /// The processes of the server.
    pub(crate) fn servers(&self) -> Vec<u32> {
        processes(&self.mark).into_iter().filter(|pid| *pid != self.child.id()).collect()
    }

    /// The process of the server, when there is one.
    pub(crate) fn server(&self) -> u32 {
        let servers = self.servers();
        assert_eq!(servers.len(), 1, "processes of the server: {servers:?}");
        servers[0]
    }

    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        let written = self.input.as_mut().unwrap().write_all(bytes);
        written.unwrap_or_else(|error| panic!("{error}: {}", self.errors()));
    }

    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// The next line, if one comes in time.
    pub(crate) fn read(&mut self, patience: Duration) -> Option<Read1> {
        let lines = match &mut self.lines {
            Some(lines) => lines,
            None => {
                let output = self.output.take().unwrap();
                self.lines.insert(read_lines(output))
            }
        };
        match lines.recv_timeout(patience) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => panic!("the gateway has ended: {}", self.errors()),
        }
    }

    pub(crate) fn line(&mut self) -> Vec<u8> {
        let line = self.read(PATIENCE);
        line.unwrap_or_else(|| panic!("no line: {}", self.errors())).text
    }

    /// The answer with this id; what comes before is kept.
    pub(crate) fn answer(&mut self, id: &Value) -> Value {
        let is_answer = |line: &Vec<u8>| {
            let text = String::from_utf8_lossy(line);
            member(&text, &["method"]).is_none() && member(&text, &["id"]) == Some(&id.to_string())
        };
        if let Some(found) = self.others.iter().position(is_answer) {
            return serde_json::from_slice(&self.others.remove(found).unwrap()).unwrap();
        }
        loop {
            let line = self.line();
            if is_answer(&line) {
                return serde_json::from_slice(&line).unwrap();
            }
            self.others.push_back(line);
        }
    }

    /// Whether the answer to a call came before that to a later one.
    pub(crate) fn has_answered(&self, id: &str) -> bool {
        let beginning = format!(r#"{{"jsonrpc":"2.0","id":"{id}""#);
        self.others.iter().any(|line| line.starts_with(beginning.as_bytes()))
    }

    /// Lines that were no answers to what was asked.
    pub(crate) fn others(&mut self) -> Vec<Vec<u8>> {
        while let Some(line) = self.read(SILENCE) {
            self.others.push_back(line.text);
        }
        self.others.drain(..).collect()
    }

    pub(crate) fn ask(&mut self, message: &Value) -> Value {
        self.send(message);
        self.answer(&message["id"])
    }

    /// Calls a tool.
    pub(crate) fn call(&mut self, id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
        self.ask(&tool_call(id, tool, arguments))
    }

    pub(crate) fn shake_hands(&mut self) {
        let answer = self.ask(&request("initialize", "initialize", initialize()));
        assert_eq!(answer["result"]["protocolVersion"], LEGACY, "{answer}");
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }

    /// What the server has heard.
    pub(crate) fn heard(&mut self) -> Vec<Value> {
        let answer = self.call("heard", "heard", json!({}));
        serde_json::from_str(&text(&answer)).unwrap_or_else(|error| panic!("{error}: {answer}"))
    }

    /// Panics unless a call works.
    pub(crate) fn works(&mut self) {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let id = format!("works-{}", COUNT.fetch_add(1, Ordering::Relaxed));
        let answer = self.call(id, "echo", json!({"text": "it works"}));
        assert_eq!(text(&answer), "it works", "{answer}");
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self, patience: Duration) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < patience, "the gateway does not end within {patience:?}: {}", self.errors());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Closes its input, waits for its end, and panics when a process is left.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        let status = self.wait(PATIENCE);
        assert_eq!(self.servers(), [0; 0], "processes are left");
        status
    }

    /// Asks it to end, and panics when a process is left.
    pub(crate) fn terminate(mut self, patience: Duration) -> ExitStatus {
        signal("-TERM", self.pid());
        let status = self.wait(patience);
        assert_eq!(self.servers(), [0; 0], "processes are left");
        status
    }

    /// Watches its memory.
    pub(crate) fn watch(&self) -> Watch {
        Watch::of(self.pid())
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        for pid in self.servers() {
            signal("-9", pid);
        }
    }
}

fn read_lines(output: ChildStdout) -> Receiver<Read1> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        let mut output = BufReader::with_capacity(1 << 20, output);
        let mut line = Read1 { text: Vec::new(), bytes: 0 };
        while let Ok(read @ [_, ..]) = output.fill_buf() {
            let (piece, ended) = match read.iter().position(|byte| *byte == b'\n') {
                Some(end) => (&read[..end], 1),
                None => (read, 0),
            };
            let room = KEPT_BYTES - line.text.len();
            line.text.extend_from_slice(&piece[..piece.len().min(room)]);
            line.bytes += piece.len();
            let count = piece.len() + ended;
            output.consume(count);
            if ended > 0 && sender.send(std::mem::replace(&mut line, Read1 { text: Vec::new(), bytes: 0 })).is_err() {
                return;
            }
        }
    });
    lines
}

/// The largest anonymous memory of a process while this lives, above what it was at first.
pub(crate) struct Watch {
    before: u64,
    most: Arc<AtomicU64>,
    done: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    fn of(pid: u32) -> Self {
        let before = anonymous(pid).unwrap();
        let (most, done) = (Arc::new(AtomicU64::new(before)), Arc::new(AtomicBool::new(false)));
        let (all, stop) = (Arc::clone(&most), Arc::clone(&done));
        let thread = std::thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                all.fetch_max(anonymous(pid).unwrap_or(0), Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        Self { before, most, done, thread: Some(thread) }
    }

    /// Panics when the process took more than this at any time. Returns the KiB.
    pub(crate) fn stays_under(mut self, mebibytes: u64) -> u64 {
        self.done.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
        let most = self.most.load(Ordering::Relaxed);
        eprintln!("RssAnon {} KiB, before {} KiB", most, self.before);
        assert!(most < mebibytes << 10, "RssAnon grew from {} to {most} KiB", self.before);
        most
    }
}

/// Anonymous memory of a process in KiB.
fn anonymous(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.trim().trim_end_matches(" kB").parse().ok()
}

/// A call of a tool of the faulty server.
pub(crate) fn tool_call(id: impl Into<Value>, tool: &str, arguments: Value) -> Value {
    call(id, &json!({"name": tool, "arguments": arguments}), false)
}

/// Raw bytes as an argument. `@ID@` stands for the id of the call.
pub(crate) fn raw(bytes: &[u8]) -> Value {
    use std::fmt::Write as _;
    // Written out, so that nothing has to be depended on.
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for digit in 0..4 {
            let value = (bits >> (18 - 6 * digit)) & 63;
            let digit = if digit > group.len() { '=' } else { char::from(DIGITS[value as usize]) };
            write!(text, "{digit}").unwrap();
        }
    }
    json!({"raw": text})
}

/// An answer with a short text, to the call whose arguments hold it.
pub(crate) const SHORT: &[u8] = br#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":"short"}]}}"#;

/// The text of the first block of a tool result.
pub(crate) fn text(answer: &Value) -> String {
    let text = answer["result"]["content"][0]["text"].as_str();
    text.unwrap_or_else(|| panic!("no text: {}", answer.to_string().chars().take(1000).collect::<String>())).to_owned()
}

/// The message of an error. Panics when it is none.
pub(crate) fn error(answer: &Value) -> String {
    let message = answer["error"]["message"].as_str();
    let message =
        message.unwrap_or_else(|| panic!("no error: {}", answer.to_string().chars().take(500).collect::<String>()));
    message.to_owned()
}

pub(crate) fn is_descriptor(text: &str) -> bool {
    text.contains(r#""offloaded":true"#) || text.contains(r#""offloaded": true"#)
}

fn assert_contains(text: &str, part: &str) {
    assert!(text.contains(part), "`{part}` is not in: {text}");
}

// The server ends.

#[test]
fn a_server_killed_in_the_middle_of_a_result() {
    let mut gate = Gate::ready(&[]);
    let answer = gate.call(1, "die", json!({}));
    assert_contains(&error(&answer), "killed by signal 9");
    // The next call works, after the same handshake.
    let heard = gate.heard();
    let methods: Vec<&str> = heard.iter().map(|message| message["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["initialize", "notifications/initialized", "tools/call"]);
    assert_eq!(heard[0]["params"]["protocolVersion"], LEGACY);
    assert_eq!(gate.others(), [[0; 0]; 0]);
    assert!(gate.end().success());
}

#[test]
fn a_server_killed_from_outside_and_calls_in_flight() {
    let mut gate = Gate::ready(&[]);
    for id in 0..50 {
        gate.send(&tool_call(id, "silent", json!({})));
    }
    gate.works();
    signal("-9", gate.server());
    for id in 0..50 {
        assert_contains(&error(&gate.answer(&json!(id))), "killed by signal 9");
    }
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_server_that_dies_at_once_again_and_again() {
    let mark = new_mark();
    let mut gate = Gate::start(&[], &faulty(&["--exit", "3", &mark]), &mark, &Environment::new());
    for id in 0..3 {
        let answer = gate.ask(&request(id, "initialize", initialize()));
        assert_contains(&error(&answer), "exited with status 3");
    }
    assert!(gate.end().success());
}

#[test]
fn a_command_that_does_not_exist() {
    let mark = new_mark();
    let command = words(&["no-such-command-as-this", &mark]);
    let mut gate = Gate::start(&[], &command, &mark, &Environment::new());
    let status = gate.wait(PATIENCE);
    assert_eq!(status.code(), Some(1));
    wait_until("an error", || gate.errors().ends_with('\n'));
    assert_contains(&gate.errors(), "no-such-command-as-this");
    assert_contains(&gate.errors(), "No such file");
}

#[test]
fn half_a_line_and_the_end() {
    let mut gate = Gate::ready(&[]);
    let mut arguments = raw(&SHORT[..40]);
    arguments["status"] = 4.into();
    let answer = gate.call(1, "half", arguments);
    assert_contains(&error(&answer), "exited with status 4");
    gate.works();
    // Of the client: what it began is no message, and it gets its answers.
    gate.send(&tool_call(2, "slow", json!({"ms": 200, "finish": true})));
    gate.send_bytes(br#"{"jsonrpc":"2.0","id":3,"method":"tools/ca"#);
    drop(gate.input.take());
    assert_eq!(text(&gate.answer(&json!(2))), "slept");
    assert!(gate.end().success());
}

#[test]
fn a_server_that_dies_while_its_child_keeps_its_output_open() {
    let mut gate = Gate::ready(&["--call-timeout-ms", "30000"]);
    let answer = gate.call(1, "orphan", json!({}));
    // Not that the time of the call is over.
    assert_contains(&error(&answer), "killed by signal 9");
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_restarted_modern_server_gets_no_handshake() {
    let mut gate = Gate::stdio(&[]);
    let modern = |id: u32, tool: &str| call(id, &json!({"name": tool, "arguments": {}}), true);
    let answer = gate.ask(&modern(1, "die"));
    assert_contains(&error(&answer), "killed by signal 9");
    let answer = gate.ask(&modern(2, "heard"));
    let heard: Vec<Value> = serde_json::from_str(&text(&answer)).unwrap();
    assert_eq!(heard.len(), 1, "{heard:?}");
    assert_eq!(heard[0]["method"], "tools/call");
    assert!(gate.end().success());
}

// The second time, the server says nothing.
#[test]
fn a_restarted_server_that_does_not_shake_hands() {
    let (mark, files) = (new_mark(), TempDir::new().unwrap());
    let been = path_text(&files.path().join("been"));
    let script = format!(r#"[ -e "$1" ] && exec sleep 600; : > "$1"; exec {}"#, faulty(&[&mark]).join(" "));
    let command = words(&["sh", "-c", &script, &mark, &been]);
    let mut gate = Gate::start(&["--start-timeout-ms", "200"], &command, &mark, &Environment::new());
    gate.shake_hands();
    assert_contains(&error(&gate.call(1, "exit", json!({"status": 3}))), "exited with status 3");
    let refused = error(&gate.call(2, "echo", json!({"text": "on"})));
    assert_contains(&refused, "did not answer initialize within 200 ms (gateway.start-timeout-ms)");
    assert!(gate.end().success());
}

#[test]
fn a_pipeline_of_calls_over_a_death() {
    let mut gate = Gate::ready(&[]);
    let mut lines = tool_call("exit", "exit", json!({"status": 7})).to_string() + "\n";
    for id in 0..200 {
        lines += &(tool_call(id, "echo", json!({"text": "x"})).to_string() + "\n");
    }
    gate.send_bytes(lines.as_bytes());
    let mut answered = std::collections::BTreeMap::new();
    while answered.len() < 201 {
        let line: Value = serde_json::from_slice(&gate.line()).unwrap();
        *answered.entry(line["id"].to_string()).or_insert(0) += 1;
    }
    assert_eq!(gate.others(), [[0; 0]; 0], "a second answer to one call");
    gate.works();
    assert!(gate.end().success());
}

// The server is silent, or does not listen.

#[test]
fn a_silent_server_is_told_that_nobody_waits() {
    let mut gate = Gate::ready(&["--call-timeout-ms", "1500"]);
    let answer = gate.call("a \"call\"", "silent", json!({}));
    assert_contains(&error(&answer), "1500 ms");
    wait_until("the server is told", || {
        let heard = gate.heard();
        let cancelled = heard.iter().find(|message| message["method"] == "notifications/cancelled");
        cancelled.is_some_and(|message| message["params"]["requestId"] == "a \"call\"")
    });
    assert!(gate.end().success());
}

#[test]
fn progress_keeps_a_call_alive() {
    let mut gate = Gate::ready(&["--call-timeout-ms", "1200"]);
    let mut message = tool_call(1, "progress", json!({"count": 8, "ms": 300}));
    message["params"]["_meta"] = json!({"progressToken": "p"});
    let answer = gate.ask(&message);
    assert_eq!(text(&answer), "made progress");
    assert_eq!(gate.others().len(), 8);
    // Without a token, the same time is too long.
    let answer = gate.call(2, "slow", json!({"ms": 3000}));
    assert_contains(&error(&answer), "1200 ms");
    // The late answer finds nobody, or the client ignores it; what counts is that all goes on.
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_server_that_never_reads_does_not_stop_the_gateway() {
    let mut gate = Gate::ready(&["--call-timeout-ms", "1500", "--shutdown-ms", "500"]);
    assert_eq!(text(&gate.call(1, "deaf", json!({}))), "deaf from now on");
    gate.send(&tool_call(2, "echo", json!({})));
    let mut input = gate.input.take().unwrap();
    let large = tool_call(3, "echo", json!({"text": "x".repeat(50 << 20)})).to_string();
    let writer = std::thread::spawn(move || {
        // The gateway may end meanwhile.
        let _ = input.write_all(format!("{large}\n").as_bytes());
        let _ = input.write_all(format!("{}\n", tool_call(4, "echo", json!({}))).as_bytes());
        input
    });
    for id in 2..4 {
        assert_contains(&error(&gate.answer(&json!(id))), "1500 ms");
    }
    signal("-TERM", gate.pid());
    assert!(gate.wait(PATIENCE).success());
    assert_eq!(gate.servers(), [0; 0]);
    drop(writer.join().unwrap());
}

#[test]
fn a_client_that_leaves_a_server_that_never_reads() {
    let mut gate = Gate::ready(&["--call-timeout-ms", "1500", "--shutdown-ms", "500"]);
    assert_eq!(text(&gate.call(1, "deaf", json!({}))), "deaf from now on");
    let mut input = gate.input.take().unwrap();
    let large = tool_call(2, "echo", json!({"text": "x".repeat(5 << 20)})).to_string();
    input.write_all(format!("{large}\n").as_bytes()).unwrap();
    drop(input);
    assert_contains(&error(&gate.answer(&json!(2))), "before it answered");
    gate.wait(PATIENCE);
    assert_eq!(gate.servers(), [0; 0]);
}

#[test]
fn a_flood_of_notifications() {
    let mut gate = Gate::ready(&[]);
    let watch = gate.watch();
    gate.send(&tool_call(1, "flood", json!({"count": 100_000})));
    for number in 0..100_000 {
        let line = gate.line();
        assert!(line.starts_with(br#"{"jsonrpc":"2.0","method":"notifications/message""#), "line {number}");
    }
    gate.answer(&json!(1));
    watch.stays_under(64);
    assert!(gate.end().success());
}

// The client is slow, or gone.

#[test]
fn a_client_that_reads_slowly_gets_everything() {
    let mut gate = Gate::ready(&["--mode", "never"]);
    let watch = gate.watch();
    gate.send(&tool_call(1, "flood", json!({"count": 2000, "size": 20_000})));
    // Nobody reads for a while; the server has to wait, the gateway must not collect.
    std::thread::sleep(Duration::from_millis(700));
    for number in 0..2000 {
        let line = gate.line();
        let message: Value = serde_json::from_slice(&line).unwrap();
        assert_contains(message["params"]["data"].as_str().unwrap(), &format!("{number} n"));
    }
    gate.answer(&json!(1));
    watch.stays_under(64);
    assert!(gate.end().success());
}

#[test]
fn a_client_that_does_not_read_does_not_keep_the_gateway_from_ending() {
    let mut gate = Gate::stdio(&["--shutdown-ms", "500"]);
    gate.send(&request(1, "initialize", initialize()));
    gate.send(&tool_call(2, "flood", json!({"count": 500, "size": 20_000})));
    gate.send(&tool_call(3, "silent", json!({})));
    std::thread::sleep(Duration::from_millis(700));
    // The pipe is full, and stays so.
    signal("-TERM", gate.pid());
    gate.wait(PATIENCE);
    assert_eq!(gate.servers(), [0; 0]);
}

#[test]
fn a_client_that_goes_away_in_the_middle_of_a_reply() {
    let mut gate = Gate::ready(&["--mode", "never", "--shutdown-ms", "1000"]);
    gate.send(&tool_call(1, "huge", json!({"bytes": 50 << 20})));
    std::thread::sleep(Duration::from_millis(300));
    // Its end of both pipes closes as a killed process closes them.
    drop(gate.input.take());
    drop(gate.lines.take());
    drop(gate.output.take());
    gate.wait(PATIENCE);
    assert_eq!(gate.servers(), [0; 0]);
}

#[test]
fn a_client_that_closes_its_end_still_gets_its_answers() {
    let mut gate = Gate::ready(&[]);
    for id in 0..5 {
        gate.send(&tool_call(id, "slow", json!({"ms": 300 + 100 * id, "finish": true})));
    }
    gate.send(&tool_call(5, "records", json!({"count": 20_000, "finish": true})));
    drop(gate.input.take());
    for id in 0..5 {
        assert_eq!(text(&gate.answer(&json!(id))), "slept");
    }
    let large = gate.answer(&json!(5));
    assert!(is_descriptor(&text(&large)), "{large}");
    assert!(gate.end().success());
}

#[test]
fn a_call_with_a_reference_is_the_last_before_the_end_of_input() {
    let mut gate = Gate::ready(&[]);
    let descriptor: Value = serde_json::from_str(&text(&gate.call(1, "records", json!({"count": 5000})))).unwrap();
    let handle = descriptor["handle"].as_str().map(str::to_owned).unwrap_or_else(|| {
        let tenant = fs::read_dir(gate.directory()).unwrap().flatten().find(|entry| entry.path().is_dir()).unwrap();
        let offload = fs::read_dir(tenant.path()).unwrap().flatten().next().unwrap();
        offload.file_name().into_string().unwrap()
    });
    let section = descriptor["files"].as_object().unwrap().keys().next().unwrap().clone();
    let reference = format!("lro://{handle}/{section}");
    gate.send(&tool_call(2, "slow", json!({"ms": 500, "finish": true, "data": reference})));
    drop(gate.input.take());
    assert_eq!(text(&gate.answer(&json!(2))), "slept");
    assert!(gate.end().success());
}

#[test]
fn an_end_by_signal_lets_calls_in_flight_finish() {
    let mut gate = Gate::ready(&[]);
    gate.send(&tool_call(1, "slow", json!({"ms": 800, "finish": true})));
    std::thread::sleep(Duration::from_millis(200));
    signal("-TERM", gate.pid());
    assert_eq!(text(&gate.answer(&json!(1))), "slept");
    assert_eq!(gate.wait(PATIENCE).code(), Some(0));
    assert_eq!(gate.servers(), [0; 0]);
}

#[test]
fn an_end_by_signal_does_not_wait_longer_than_allowed() {
    let mut gate = Gate::ready(&["--shutdown-ms", "400"]);
    assert_eq!(text(&gate.call(0, "stubborn", json!({}))), "stubborn");
    gate.send(&tool_call(1, "slow", json!({"ms": 3_600_000, "finish": true})));
    std::thread::sleep(Duration::from_millis(200));
    signal("-TERM", gate.pid());
    // An error, and not the answer of the server, which comes in its own time.
    error(&gate.answer(&json!(1)));
    assert_eq!(gate.wait(PATIENCE).code(), Some(0));
    assert_eq!(gate.servers(), [0; 0]);
}

#[test]
fn children_of_wrappers_end_too() {
    let mark = new_mark();
    let script = format!("{} & wait; :", faulty(&[&mark]).join(" "));
    // A shell gives a job in the background no input, so that it is passed on by hand.
    let script = format!("exec 3<&0; {}", script.replacen(" & wait", " <&3 & wait", 1));
    let mut gate = Gate::start(&[], &words(&["sh", "-c", &script, &mark]), &mark, &Environment::new());
    gate.shake_hands();
    gate.call(1, "child", json!({}));
    wait_until("there are a shell, the server and its child", || gate.servers().len() == 3);
    assert!(gate.terminate(PATIENCE).success());
}

#[test]
fn what_a_server_leaves_behind_ends_with_it() {
    let mut gate = Gate::ready(&[]);
    gate.call(1, "child", json!({}));
    // A shell that has not yet executed its own child is there twice.
    wait_until("there are the server and its child", || gate.servers().len() == 2);
    gate.call(2, "exit", json!({"status": 0}));
    wait_until("no process is left", || gate.servers().is_empty());
    gate.works();
    assert!(gate.end().success());
}

// Bytes that are no messages.

#[test]
fn junk_between_messages() {
    let mut gate = Gate::ready(&[]);
    let mut bytes: Vec<u8> = (0..=255).filter(|byte| *byte != b'\n').collect();
    bytes.extend(b"\n\x00\x00\x00\n\xff\xfe{\"id\":\n[[[[[\n\n\r\nServer is listening!\n");
    bytes.extend(SHORT);
    bytes.extend(b"\n\x80\x81\n");
    let answer = gate.call(1, "raw", raw(&bytes));
    assert_eq!(text(&answer), "short");
    for line in gate.others() {
        let text = std::str::from_utf8(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert!(serde_json::from_str::<Value>(text).is_ok(), "{text}");
    }
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn bad_utf_8_in_a_result() {
    let mut gate = Gate::ready(&[]);
    for size in [10, 60_000, 200_000] {
        let mut bytes = br#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":""#.to_vec();
        bytes.extend(vec![b'x'; size]);
        bytes.extend(b"\xff\xc3(\xed\xa0\x80");
        bytes.extend(b"\"}]}}\n");
        gate.send(&tool_call(size, "raw", raw(&bytes)));
        let line = gate.line();
        assert_eq!(member(&String::from_utf8_lossy(&line), &["id"]), Some(&*size.to_string()));
        assert!(line.len() < 51_000, "{} bytes for {size}", line.len());
    }
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn json_without_its_end() {
    let mut gate = Gate::ready(&[]);
    for cut in [SHORT.len() - 1, SHORT.len() - 3, SHORT.len() - 10, 50] {
        let bytes = [&SHORT[..cut], b"\n"].concat();
        let answer = gate.call(cut, "raw", raw(&bytes));
        let message = error(&answer);
        assert!(message.contains("not a JSON-RPC message") || message.contains("cannot read"), "{message}");
    }
    // Inside of the result, where the envelope is whole.
    let bytes = br#"{"jsonrpc":"2.0","id":@ID@,"result":{"content":[{"type":"text","text":}]}}"#;
    let answer = gate.call(1, "raw", raw(&[bytes.as_slice(), b"\n"].concat()));
    assert!(answer["error"].is_object() || answer["result"].is_object(), "{answer}");
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn answers_to_nothing_and_twice_and_under_the_same_id() {
    let mut gate = Gate::ready(&[]);
    let nothing = br#"{"jsonrpc":"2.0","id":"nobody","result":{"content":[{"type":"text","text":"unasked"}]}}"#;
    let bytes = [nothing.as_slice(), b"\n", SHORT, b"\n", SHORT, b"\n"].concat();
    let answer = gate.call(1, "raw", raw(&bytes));
    assert_eq!(text(&answer), "short");
    assert!(gate.others().len() <= 2);
    // Two calls under one id: two answers.
    gate.send(&tool_call(2, "slow", json!({"ms": 200})));
    gate.send(&tool_call(2, "echo", json!({"text": "second"})));
    let texts = [text(&gate.answer(&json!(2))), text(&gate.answer(&json!(2)))];
    assert_eq!(texts, ["second", "slept"]);
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_large_answer_to_nothing_does_not_get_through() {
    let mut gate = Gate::ready(&[]);
    let records = json!((0..5000).map(|number| json!({"number": number})).collect::<Vec<_>>()).to_string();
    let unasked = json!({"jsonrpc": "2.0", "id": "nobody", "result": {"content": [{"type": "text", "text": records}]}});
    let answer = gate.call(1, "raw", raw(format!("{unasked}\n{}\n", String::from_utf8_lossy(SHORT)).as_bytes()));
    assert_eq!(text(&answer), "short");
    for line in gate.others() {
        assert!(line.len() < 51_000, "{} bytes", line.len());
    }
    assert!(gate.end().success());
}

#[test]
fn deep_nesting() {
    let mut gate = Gate::ready(&[]);
    let deep = [vec![b'['; 100_000], vec![b']'; 100_000]].concat();
    let inside = [
        br#"{"jsonrpc":"2.0","id":@ID@,"result":{"structuredContent":{"a":"#.as_slice(),
        &deep,
        b"},\"content\":[]}}\n",
    ]
    .concat();
    let answer = gate.call(1, "raw", raw(&inside)).to_string();
    assert!(answer.len() < 51_000, "{} bytes", answer.len());
    let notification = [br#"{"jsonrpc":"2.0","method":"x","params":"#.as_slice(), &deep, b"}\n", SHORT, b"\n"].concat();
    gate.call(2, "raw", raw(&notification));
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn junk_of_the_client() {
    let mut gate = Gate::ready(&[]);
    gate.send_bytes(b"\xff\xfe\x00junk\n{\"jsonrpc\":\"2.0\",\"id\":1,\"method\n[]\n\n{}\n\"text\"\n");
    gate.works();
    assert!(gate.end().success());
}

// Sizes.

#[test]
fn names_of_a_client_are_bounded() {
    let mut gate = Gate::ready(&[]);
    let long = "n".repeat(5_000);
    let answer = gate.call(1, &long, json!({}));
    assert_eq!(answer["error"]["code"], -32602, "{answer:.300}");
    assert_contains(&error(&answer), "`params.name` is longer than 4096 bytes");
    gate.send(&tool_call(long, "silent", json!({})));
    let answer = gate.answer(&Value::Null);
    assert_eq!(answer["error"]["code"], -32600, "{answer:.300}");
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_gigabyte_in_one_line() {
    let mut gate = Gate::ready(&["--message-bytes", "100000000"]);
    let watch = gate.watch();
    for (id, size, place) in [(1, 250_000_000_u64, "before"), (2, 1_000_000_000, "after")] {
        let answer = gate.call(id, "huge", json!({"bytes": size, "id": place}));
        let message = error(&answer);
        assert_contains(&message, "100000000");
        assert_contains(&message, "message-bytes");
    }
    watch.stays_under(64);
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn three_hundred_megabytes_offloaded() {
    let mut gate = Gate::ready(&[]);
    let watch = gate.watch();
    let answer = gate.call(1, "huge", json!({"bytes": 300_000_000}));
    assert!(is_descriptor(&text(&answer)), "{answer}");
    watch.stays_under(128);
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn slow_calls_and_large_results_do_not_block_others() {
    let mut gate = Gate::ready(&[]);
    gate.send(&tool_call("slow", "slow", json!({"ms": 3000})));
    gate.send(&tool_call("huge", "huge", json!({"bytes": 100_000_000})));
    let mut done = false;
    let mut id = 0;
    while !done {
        gate.call(id, "echo", json!({"text": "quick"}));
        id += 1;
        done = gate.has_answered("huge");
        assert!(id < 1_000_000, "the large result never comes");
    }
    assert!(id > 5, "{id} calls meanwhile");
    assert_eq!(text(&gate.answer(&json!("slow"))), "slept");
    assert!(gate.end().success());
}

// Disks.

fn assert_truncated(answer: &Value) {
    let text = text(answer);
    assert!(!is_descriptor(&text), "{text}");
    assert!(text.contains(r#""offloaded":false"#) || text.to_lowercase().contains("truncated"), "{text}");
    assert!(text.len() < 60_000, "{} bytes", text.len());
    assert_ne!(answer["result"]["isError"], true, "{answer}");
}

#[test]
fn the_output_directory_is_removed() {
    let mut gate = Gate::ready(&[]);
    assert!(is_descriptor(&text(&gate.call(1, "records", json!({"count": 5000})))));
    fs::remove_dir_all(gate.directory()).unwrap();
    assert!(is_descriptor(&text(&gate.call(2, "records", json!({"count": 5000})))));
    fs::rename(gate.directory(), gate.directory().with_extension("away")).unwrap();
    assert!(is_descriptor(&text(&gate.call(3, "huge", json!({"bytes": 10_000_000})))));
    assert!(is_descriptor(&text(&gate.call(4, "records", json!({"count": 5000})))));
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn a_file_is_in_the_place_of_the_output_directory() {
    let mut gate = Gate::ready(&[]);
    assert!(is_descriptor(&text(&gate.call(1, "records", json!({"count": 5000})))));
    fs::remove_dir_all(gate.directory()).unwrap();
    fs::write(gate.directory(), "in the way").unwrap();
    assert_truncated(&gate.call(2, "records", json!({"count": 5000})));
    // What does not fit into memory cannot be kept at all.
    let message = error(&gate.call(3, "huge", json!({"bytes": 10_000_000})));
    assert_contains(&message, "could not be stored in a file");
    assert_contains(&message, "`dir`");
    gate.works();
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn the_quota_of_the_tenant_is_too_small() {
    let mut gate = Gate::ready(&["--quota-tenant", "100000"]);
    assert_truncated(&gate.call(1, "records", json!({"count": 5000})));
    gate.works();
    assert!(gate.end().success());
}

#[test]
fn the_disk_is_full() {
    // In a namespace of its own, a small disk.
    let mark = new_mark();
    let disk = TempDir::new().unwrap();
    let mount = path_text(disk.path());
    let script = format!(
        "mount -t tmpfs -o size=8m,mode=700 tmpfs {mount} && MCP_LRO_DIR={mount} exec {} gateway --log warn -- {}",
        lro(),
        faulty(&[&mark]).join(" ")
    );
    let supported = Command::new("unshare").args(["-rm", "true"]).status();
    if !supported.is_ok_and(|status| status.success()) {
        eprintln!("no namespaces here");
        return;
    }
    let mut child = Command::new("unshare")
        .args(["-rm", "sh", "-c", &script])
        .env("XDG_CACHE_HOME", Path::new(env!("CARGO_TARGET_TMPDIR")).join("cache"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = read_lines(child.stdout.take().unwrap());
    let mut input = child.stdin.take().unwrap();
    let mut ask = |message: Value| -> Value {
        input.write_all(format!("{message}\n").as_bytes()).unwrap();
        serde_json::from_slice(&lines.recv_timeout(PATIENCE).unwrap().text).unwrap()
    };
    ask(request(0, "initialize", initialize()));
    let answer = ask(tool_call(1, "records", json!({"count": 5000})));
    assert!(is_descriptor(&text(&answer)), "{}", answer.to_string().chars().take(600).collect::<String>());
    // 3.6 MB are kept in memory until they are written; the files have no room for a third of them.
    let answers: Vec<Value> = (2..5).map(|id| ask(tool_call(id, "records", json!({"count": 42_000})))).collect();
    assert_truncated(&answers[2]);
    // What is larger than the disk.
    let answer = ask(tool_call(5, "huge", json!({"bytes": 20_000_000})));
    assert_contains(&error(&answer), "No space left");
    assert_eq!(text(&ask(tool_call(6, "echo", json!({"text": "on"})))), "on");
    drop(input);
    assert!(child.wait().unwrap().success());
    assert_eq!(processes(&mark), [0; 0]);
}
