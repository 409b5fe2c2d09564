//! Where the time of one result goes: each stage measured alone, beside the whole, in one run.
//!
//! With `LRO_WRITE_STAGES` set, the table and the plot of `host-example/docs/explanation/where-time-goes.md` are written anew.

use std::fmt::Write as _;
use std::fs;
use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::filter::Filter;
use lro_host::mcp::ToolResult;
use lro_host::sandbox::Limits;
use lro_host::settings::FailureMode;
use lro_host::store::{Store, StoreConfig};
use lro_tests::{call_of, default_policy, request, settings, synthetic, workspace};
use serde_json::json;

use crate::client::Client;
use crate::peers::{Process, lro};
use crate::shared::measured;
use crate::upstream;

/// The argument that measures stages alone.
pub(crate) const ARGUMENT: &str = "--stages";

const PAGE: &str = "host-example/docs/explanation/where-time-goes.md";
const PLOT: &str = "host-example/docs/explanation/where-time-goes.svg";
const BEGIN: &str = "<!-- stages: begin -->\n";
const END: &str = "<!-- stages: end -->\n";
const WRITE: &str = "LRO_WRITE_STAGES";

/// Numbers of records, and how often to call with each.
const SIZES: [(usize, usize); 2] = [(crate::SMALL_RECORDS, 2_000), (100_000, 15)];

/// A stage, and its time in microseconds.
type Stage = (&'static str, f64);

/// What became of a result of so many bytes.
struct Way {
    bytes: usize,
    stages: Vec<Stage>,
    /// Bytes that the gateway had the kernel read and write, for each byte of the result.
    copied: [f64; 2],
}

impl Way {
    fn whole(&self) -> f64 {
        self.stages.iter().map(|(_, time)| time).sum()
    }
}

/// Measures both sizes.
pub(crate) fn measure() {
    let ways = SIZES.map(|(records, calls)| way(records, calls));
    let table = table(&ways);
    println!("\nwhere the time of a result goes\n\n{table}");
    if std::env::var_os(WRITE).is_some() {
        let page = lro_tests::read(&workspace().join(PAGE));
        let (before, rest) = page.split_once(BEGIN).expect("the begin of the table");
        let (_, after) = rest.split_once(END).expect("the end of the table");
        fs::write(workspace().join(PAGE), [before, BEGIN, &table, END, after].concat()).unwrap();
        fs::write(workspace().join(PLOT), plot(&ways)).unwrap();
    }
}

fn way(records: usize, calls: usize) -> Way {
    let directory = tempfile::tempdir().unwrap();
    let server = std::env::current_exe().unwrap();
    let mut direct = Process(quiet(Command::new(&server).arg(upstream::ARGUMENT)).spawn().unwrap());
    let mut gateways = ["false", "true"].map(|enabled| {
        let mut command = Command::new(lro());
        command.args(["gateway", "--"]).arg(&server).arg(upstream::ARGUMENT);
        command.env("MCP_LRO_ENABLED", enabled).env("MCP_LRO_DIR", directory.path().join(enabled));
        Process(quiet(&mut command).spawn().unwrap())
    });
    let gateway = gateways[1].0.id();
    let [off, on] = &mut gateways;
    let mut clients = [&mut direct.0, &mut off.0, &mut on.0].map(Client::on_pipes);
    let (mut times, mut before) = ([const { Vec::new() }; 3], [0; 2]);
    for round in 0..=calls {
        for (client, times) in clients.iter_mut().zip(&mut times) {
            let time = client.call(records, false).time;
            // The first round is a warm-up, in which the server builds its result.
            if round > 0 {
                times.push(time);
            }
        }
        if round == 0 {
            before = transferred(gateway);
        }
    }
    let after = transferred(gateway);
    let [direct, off, on] = times.map(|times| least(&times));
    let message = message(records);
    let copied = std::array::from_fn(|way| (after[way] - before[way]) as f64 / (calls * message.len()) as f64);
    let inside = inside(directory.path(), &message, calls);
    let known: f64 = inside.iter().map(|(_, time)| time).sum();
    let mut stages = vec![
        ("the server and two pipes, without a gateway", direct),
        ("two more pipes and a process that moves lines", off - direct),
    ];
    stages.extend(inside);
    stages.push(("the rest: session, settings, counters, reply, waiting", on - off - known));
    measured(&format!("{records} records through the gateway"), on / 1e3, "ms");
    Way { bytes: message.len(), stages, copied }
}

fn quiet(command: &mut Command) -> &mut Command {
    command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null())
}

fn message(records: usize) -> Bytes {
    let text = json!(synthetic::payload(records));
    Bytes::from(format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{text}}}],"isError":false}}}}"#
    ))
}

/// The stages inside the gateway, one after the other and each alone.
fn inside(directory: &Path, message: &Bytes, calls: usize) -> Vec<Stage> {
    let result = ToolResult::parse(message.clone()).unwrap();
    let (limits, policy) = (Limits::default(), default_policy());
    let (call, asked, prepared) = (call_of(request(settings())), request(settings()), policy.prepared());
    // As the gateway does by default, it waits for the disk.
    let store = Store::open(StoreConfig::new(directory.join("filter"))).unwrap();
    let slot = policy.clone().into();
    let filter = Filter { slot, store: Ok(store), limits: limits.clone(), failure: FailureMode::Open, documents: None };
    let parsed = timed(calls, || drop(black_box(ToolResult::parse(message.clone()).unwrap())));
    let instance = timed(calls, || prepared.instantiate(&limits).unwrap());
    let inspected = timed(calls, || drop(prepared.inspect(&limits, &call, result.payload()).unwrap()));
    let applied = timed(calls, || drop(black_box(filter.apply(&asked, result.payload()))));
    vec![
        ("the result is taken apart", parsed),
        ("a fresh instance of the policy", instance),
        ("the policy decides", inspected - instance),
        ("the host around it; files of a large result, written and published", applied - inspected),
    ]
}

/// The least time of a job, in microseconds.
fn timed(calls: usize, mut job: impl FnMut()) -> f64 {
    let time = |_| {
        let started = Instant::now();
        job();
        started.elapsed()
    };
    // The first is a warm-up.
    let times: Vec<Duration> = (0..=calls).map(time).skip(1).collect();
    least(&times)
}

/// The least of some times, in microseconds: what a stage takes when nothing else runs.
fn least(times: &[Duration]) -> f64 {
    times.iter().min().unwrap().as_secs_f64() * 1e6
}

/// Bytes that a process has read and written, from anywhere to anywhere.
fn transferred(process: u32) -> [u64; 2] {
    let counts = fs::read_to_string(format!("/proc/{process}/io")).unwrap();
    ["rchar: ", "wchar: "].map(|name| counts.lines().find_map(|line| line.strip_prefix(name)?.parse().ok()).unwrap())
}

fn table(ways: &[Way]) -> String {
    let sizes: Vec<String> = ways.iter().map(|way| size(way.bytes)).collect();
    let mut table = format!("| stage | {} |\n|---|{}\n", sizes.join(" | "), "--:|".repeat(ways.len()));
    for (stage, (name, _)) in ways[0].stages.iter().enumerate() {
        let times: Vec<String> = ways.iter().map(|way| time(way.stages[stage].1)).collect();
        writeln!(table, "| {name} | {} |", times.join(" | ")).unwrap();
    }
    let wholes: Vec<String> = ways.iter().map(|way| time(way.whole())).collect();
    writeln!(table, "| **the whole call** | {} |", wholes.join(" | ")).unwrap();
    let copied = |at: usize| ways.iter().map(|way| format!("{:.2}", way.copied[at])).collect::<Vec<_>>().join(" | ");
    writeln!(table, "| bytes that the gateway reads, for each byte of the result | {} |", copied(0)).unwrap();
    writeln!(table, "| bytes that it writes, for each byte | {} |", copied(1)).unwrap();
    table
}

fn size(bytes: usize) -> String {
    if bytes < 1_000_000 { format!("{:.1} KB", bytes as f64 / 1e3) } else { format!("{:.1} MB", bytes as f64 / 1e6) }
}

fn time(micros: f64) -> String {
    if micros.abs() < 1_000.0 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1e3) }
}

/// A bar for each size, of its stages in turn.
fn plot(ways: &[Way]) -> String {
    const WIDTH: f64 = 640.0;
    const BAR: f64 = 34.0;
    const LINE: f64 = 18.0;
    const COLOURS: [&str; 7] = ["#b9c2cc", "#8fa3b5", "#0b6e4f", "#4c9f70", "#f2c14e", "#f78154", "#b4436c"];
    let legend = 40.0 + (BAR + 46.0) * ways.len() as f64;
    let height = legend + LINE * ways[0].stages.len() as f64 + 8.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Stages of a small and of a large result through the gateway</title>\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        WIDTH + 40.0,
    );
    for (row, way) in ways.iter().enumerate() {
        let y = 24.0 + (BAR + 46.0) * row as f64;
        let whole: f64 = way.stages.iter().map(|(_, time)| time.max(0.0)).sum();
        writeln!(svg, "<text x=\"20\" y=\"{}\">{}: {}</text>", y - 6.0, size(way.bytes), time(way.whole())).unwrap();
        let mut x = 20.0;
        for ((name, micros), colour) in way.stages.iter().zip(COLOURS) {
            let width = micros.max(0.0) / whole * WIDTH;
            let label = if width > 44.0 { time(*micros) } else { String::new() };
            writeln!(
                svg,
                "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"><title>{name}: {}</title></rect>\
                 <text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\">{label}</text>",
                time(*micros),
                x + width / 2.0,
                y + BAR / 2.0 + 4.0,
            )
            .unwrap();
            x += width;
        }
    }
    for (index, ((name, _), colour)) in ways[0].stages.iter().zip(COLOURS).enumerate() {
        let y = legend + LINE * index as f64;
        let key = format!("<rect x=\"20\" y=\"{}\" width=\"12\" height=\"12\" fill=\"{colour}\"/>", y - 10.0);
        writeln!(svg, "{key}<text x=\"40\" y=\"{y}\">{name}</text>").unwrap();
    }
    svg + "</svg>\n"
}
