//! Measures the pages of a tool, collected by the gateway and fetched one after the other by the same client without it; and
//! several pages at a time from a server that takes a while for each.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=100000 make bench` for other sizes.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a program that may stop at the first surprise")]

#[expect(dead_code, reason = "what it measures does not run in turn")]
#[path = "../shared/mod.rs"]
mod shared;
mod upstream;

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use shared::{compared, measured, median, millis, sizes};
use upstream::{BY_CURSOR, BY_PAGE, PAGE_RECORDS};

/// Measurements of each way, of which the median counts.
const ROUNDS: usize = 3;

/// Pages from the server that takes a while for each.
const SLOW_PAGES: u64 = 100;

/// Required values: collected beside fetched, and four pages at a time beside one.
const TIMES_FETCHED: f64 = 1.2;
const TIMES_FASTER: f64 = 3.0;

fn main() {
    if std::env::args().any(|argument| argument == upstream::ARGUMENT) {
        return upstream::serve();
    }
    println!("\npages of {PAGE_RECORDS} records each, as text and structured content; medians");
    for records in sizes(&[1_000_000]) {
        collected_beside_fetched(records as u64 / PAGE_RECORDS);
    }
    several_at_a_time();
}

fn collected_beside_fetched(pages: u64) {
    let directory = tempfile::tempdir().unwrap();
    let (mut fetched, mut collected) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let mut direct = Client::start(&mut server());
        fetched.push(timed(|| direct.fetch(pages)));
        let mut gateway = Client::start(&mut gateway(directory.path(), 1));
        collected.push(timed(|| gateway.collect(BY_CURSOR, pages)));
    }
    compared(&format!("{pages} pages collected"), &collected, "fetched by a client", &fetched);
    let (fetched, collected) = (millis(median(&fetched)), millis(median(&collected)));
    println!("  {pages} pages, fetched one after the other: {fetched:>9.1} ms");
    println!("  {pages} pages, collected by the gateway:    {collected:>9.1} ms");
    asked("collected / fetched", collected / fetched, "<", TIMES_FETCHED);
}

fn several_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let times = [1, 4].map(|concurrency| {
        let mut client = Client::start(&mut gateway(directory.path(), concurrency));
        client.collect(BY_PAGE, 1);
        let times: Vec<Duration> = (0..ROUNDS).map(|_| timed(|| client.collect(BY_PAGE, SLOW_PAGES))).collect();
        let time = millis(median(&times));
        println!("  {SLOW_PAGES} pages that take 20 ms each, {concurrency} at a time: {time:>9.1} ms");
        times
    });
    compared(&format!("{SLOW_PAGES} slow pages, four at a time"), &times[1], "one at a time", &times[0]);
    let times = times.map(|times| millis(median(&times)));
    asked("one at a time / four", times[0] / times[1], ">", TIMES_FASTER);
}

fn timed(act: impl FnOnce()) -> Duration {
    let started = Instant::now();
    act();
    started.elapsed()
}

fn asked(what: &str, found: f64, relation: &str, limit: f64) {
    let is_met = if relation == "<" { found < limit } else { found > limit };
    measured(what, found, "×");
    println!("    {what:<24} {found:>7.2} ×  asked {relation} {limit} ×  {}", if is_met { "met" } else { "MISSED" });
}

fn server() -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(upstream::ARGUMENT);
    command
}

fn gateway(directory: &Path, concurrency: usize) -> Command {
    let settings = directory.join("lro.toml");
    let collect = format!("milliseconds-max = 600_000\nconcurrency = {concurrency}\n");
    let tool = |name, more| format!("[tools.{name}.collect]\n{more}{collect}");
    std::fs::write(&settings, tool(BY_CURSOR, "") + &tool(BY_PAGE, "style = \"page\"\n")).unwrap();
    let mut command = Command::new(lro_tests::target().join("release/lro"));
    command.args(["gateway", "--"]).arg(std::env::current_exe().unwrap()).arg(upstream::ARGUMENT);
    command.env("MCP_LRO_DIR", directory.join("store")).env("MCP_LRO_CONFIG", settings).env("LRO_LOG", "error");
    command
}

/// A client that reads every answer as JSON, as clients do.
struct Client {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Client {
    fn start(command: &mut Command) -> Self {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("run `make build`");
        let output = BufReader::with_capacity(1 << 20, process.stdout.take().unwrap());
        let mut client = Self { input: process.stdin.take().unwrap(), output, process };
        let info = json!({"name": "bench", "version": "1"});
        client.ask("initialize", &json!({"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}));
        writeln!(client.input, r#"{{"jsonrpc":"2.0","method":"notifications/initialized"}}"#).unwrap();
        client.ask("tools/list", &json!({}));
        client
    }

    fn ask(&mut self, method: &str, params: &Value) -> Value {
        writeln!(self.input, "{}", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).unwrap();
        loop {
            let mut line = Vec::new();
            assert!(self.output.read_until(b'\n', &mut line).unwrap() > 0, "the server closed its output");
            let mut answer: Value = serde_json::from_slice(&line).unwrap();
            if answer["method"].is_null() {
                return answer["result"].take();
            }
        }
    }

    /// Fetches all pages, each after the one before.
    fn fetch(&mut self, pages: u64) {
        let mut records = 0;
        let mut arguments = json!({ "pages": pages });
        loop {
            let page = self.ask("tools/call", &json!({"name": BY_CURSOR, "arguments": arguments}));
            let page = &page["structuredContent"];
            records += page["items"].as_array().unwrap().len() as u64;
            if page["nextCursor"].is_null() {
                break;
            }
            arguments["cursor"] = page["nextCursor"].clone();
        }
        assert_eq!(records, pages * PAGE_RECORDS);
    }

    /// Has the gateway collect all pages.
    fn collect(&mut self, tool: &str, pages: u64) {
        let result = self.ask("tools/call", &json!({"name": tool, "arguments": {"pages": pages}}));
        let records = format!("\\\"records\\\":{},\\\"complete\\\":true", pages * PAGE_RECORDS);
        assert!(pages == 1 || result.to_string().contains(&records), "{result}");
    }
}
