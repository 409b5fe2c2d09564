//! Measures a call through the gateway, without it, and through other gateways in the same run: on pipes and over HTTP,
//! for results of 1.3 KB to 200 MB, and under the load of the MCP inspector.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=5,1000 make bench` for other sizes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that may stop at the first surprise"
)]

mod client;
mod jobs;
mod load;
mod neighbours;
mod peers;
#[expect(dead_code, reason = "jobs in turn are not all it measures")]
#[path = "../shared/mod.rs"]
mod shared;
mod soak;
mod stages;
mod upstream;

use std::time::Duration;

use peers::{Peer, Running};
use shared::{compared, measured, median, millis, percentile, sizes};

/// Calls at the smallest size.
const SMALL_CALLS: usize = 600;

/// Records of a result that passes, about 1.3 KB.
const SMALL_RECORDS: usize = 5;

/// Calls for a result of so many records.
const fn calls(records: usize) -> usize {
    if records <= SMALL_RECORDS {
        SMALL_CALLS
    } else if records < LARGE_RECORDS {
        30
    } else {
        3
    }
}

/// Least number of records for which a call through our gateway may take at most twice the time of a direct one.
const LARGE_RECORDS: usize = 100_000;

/// Required values.
const ADDED_MILLIS: f64 = 0.1;
const AS_LITTLE_AS_FASTMCP: f64 = 10.0;
const TIMES_DIRECT: f64 = 2.0;
const MEMORY_MIB: f64 = 128.0;

/// Most records that a peer handles within half a minute.
const fn most_records(peer: Peer, structured: bool) -> usize {
    match peer {
        Peer::Direct | Peer::Ours | Peer::OursAfter | Peer::OursHttp => usize::MAX,
        Peer::FastMcp if structured => 10_000,
        Peer::FastMcp => 100_000,
        Peer::McpProxy => 70_000,
    }
}

/// Measurements of a peer.
struct Row {
    peer: Peer,
    times: Vec<Duration>,
    median: Duration,
    bytes: usize,
    memory_mib: f64,
}

fn main() {
    if std::env::args().any(|argument| argument == upstream::ARGUMENT) {
        return upstream::serve();
    }
    if std::env::args().any(|argument| argument == stages::ARGUMENT) {
        return stages::measure();
    }
    if std::env::args().any(|argument| argument == soak::ARGUMENT) {
        return soak::measure();
    }
    println!("\none call through a gateway before a server that replays bytes; medians, and peak anonymous memory");
    let mut peers = vec![Peer::Direct];
    for peer in [Peer::Ours, Peer::OursAfter, Peer::FastMcp, Peer::OursHttp, Peer::McpProxy] {
        match peer.missing() {
            None => peers.push(peer),
            Some(reason) if peer == Peer::Ours => panic!("{reason}"),
            Some(reason) => println!("  skipped: {peer}: {reason}"),
        }
    }
    for records in sizes(&[SMALL_RECORDS, 2_000, 10_000, 100_000, 1_000_000]) {
        for structured in [false, true] {
            measure(&peers, records, structured);
        }
    }
    neighbours::measure();
    jobs::measure();
    load::measure();
    stages::measure();
}

/// Measures all peers with one result, in turn, so that a slow moment of the machine affects them all.
fn measure(peers: &[Peer], records: usize, structured: bool) {
    let directory = tempfile::tempdir().unwrap();
    let shape = if structured { "text and structuredContent" } else { "text" };
    println!("\n{records} records as {shape}");
    let can = |peer: &&Peer| records <= most_records(**peer, structured);
    for peer in peers.iter().filter(|peer| !can(peer)) {
        let most = most_records(*peer, structured);
        println!("  {peer:<24} left out: no answer to more than {most} records, or none within half a minute");
    }
    let mut running: Vec<Running> = peers.iter().filter(can).map(|peer| peer.start(directory.path())).collect();
    let rows = alternate(&mut running, records, structured);
    for row in &rows {
        print_row(row, &rows[0]);
    }
    for row in &rows[1..] {
        let name = format!("{records} records as {shape}, {}", row.peer);
        compared(&name, &row.times, "direct", &rows[0].times);
        measured(&format!("{name}: memory"), row.memory_mib, "MiB");
    }
    print_asked(&rows, records);
}

fn alternate(running: &mut [Running], records: usize, structured: bool) -> Vec<Row> {
    let calls = calls(records);
    let mut times = vec![Vec::with_capacity(calls); running.len()];
    let mut bytes = vec![0; running.len()];
    for round in 0..=calls {
        for (index, one) in running.iter_mut().enumerate() {
            // FastMCP takes over ten seconds for a large result: one call is enough, without a warm-up.
            if one.peer == Peer::FastMcp && records >= LARGE_RECORDS && round != 1 {
                continue;
            }
            let answer = one.client.call(records, structured);
            check(one.peer, &answer.bytes, records);
            bytes[index] = answer.bytes.len();
            // The first round is a warm-up, in which the server builds its result.
            if round > 0 {
                times[index].push(answer.time);
            }
        }
    }
    let row = |((one, times), bytes): ((&mut Running, Vec<Duration>), usize)| Row {
        peer: one.peer,
        median: median(&times),
        times,
        bytes,
        memory_mib: one.memory.peak_mib(),
    };
    running.iter_mut().zip(times).zip(bytes).map(row).collect()
}

/// Panics unless it is the expected answer of this peer.
fn check(peer: Peer, answer: &[u8], records: usize) {
    let has = |text: &[u8]| answer.windows(text.len()).any(|window| window == text);
    let beginning = String::from_utf8_lossy(&answer[..answer.len().min(300)]);
    let is_replaced = peer.is_ours() && records > SMALL_RECORDS;
    if is_replaced {
        assert!(answer.len() < 20_000 && has(br#""offloaded\":true"#), "{peer}: {beginning}");
    } else if !(peer == Peer::FastMcp && records > SMALL_RECORDS) {
        assert!(answer.len() > 200 * records && beginning.contains("result"), "{peer}: {beginning}");
    }
}

fn print_row(row: &Row, direct: &Row) {
    let (time, base) = (millis(row.median), millis(direct.median));
    print!(
        "  {:<24} {time:>10.3} ms  p99 {:>10.3} ms  {:>11} bytes",
        row.peer,
        millis(percentile(&row.times, 99)),
        row.bytes
    );
    if row.peer == Peer::Direct {
        println!();
    } else {
        println!("  +{:>9.3} ms  {:>7.2} × direct  {:>7.1} MiB", time - base, time / base, row.memory_mib);
    }
}

fn print_asked(rows: &[Row], records: usize) {
    let find = |peer| rows.iter().find(|row| row.peer == peer);
    let direct = millis(rows[0].median);
    let added = |row: &Row| millis(row.median) - direct;
    let Some(ours) = find(Peer::Ours) else { return };
    if records == SMALL_RECORDS {
        asked("added by us", added(ours), "<", ADDED_MILLIS, "ms");
        if let Some(fastmcp) = find(Peer::FastMcp) {
            asked("added by FastMCP / by us", added(fastmcp) / added(ours), ">", AS_LITTLE_AS_FASTMCP, "×");
        }
        if let (Some(ours), Some(proxy)) = (find(Peer::OursHttp), find(Peer::McpProxy)) {
            asked("ours / mcp-proxy, HTTP", millis(ours.median) / millis(proxy.median), "<", 1.0, "×");
        }
    }
    if records >= LARGE_RECORDS {
        asked("ours / direct", millis(ours.median) / direct, "<", TIMES_DIRECT, "×");
    }
    for row in [find(Peer::Ours), find(Peer::OursHttp)].into_iter().flatten() {
        asked(&format!("memory, {}", row.peer), row.memory_mib, "<", MEMORY_MIB, "MiB");
    }
}

/// A measured value beside the required one.
pub(crate) fn asked(what: &str, found: f64, relation: &str, limit: f64, unit: &str) {
    let is_met = if relation == "<" { found < limit } else { found > limit };
    let verdict = if is_met { "met" } else { "MISSED" };
    println!("    {what:<36} {found:>9.3} {unit:<3} asked {relation} {limit} {unit:<3} {verdict}");
}
