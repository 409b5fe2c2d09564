//! Measures offloading, as ratios to baselines in the same run: a plain write of the same bytes, the same code native,
//! and the minimum of a Python program.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=1000,100000 make bench` for other sizes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that may stop at the first surprise"
)]

mod native;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use lro_gateway::settings::{Config, FailureMode, PolicySettings};
use lro_host::filter::{Filter, Outcome, Request};
use lro_host::mcp::{self, ToolResult};
use lro_host::policy::{CompileCache, DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::sandbox::types::{self, Abilities, Call, PlannedPart, PlannedSection, SectionShape};
use lro_host::sandbox::{Cost, Limits, Part, PartKind, Payload, Plan, Sandbox};
use lro_host::store::{Fsync, Store, StoreConfig};
use lro_tests::synthetic;
use shared::{alternate, compared, measured, median, millis, sizes};

/// Bytes of one write of the baseline, as of the splitter.
const BLOCK_BYTES: usize = 256 * 1024;

/// Records of the largest result that is also indented, as its value takes gigabytes.
const INDENTED_RECORDS_MAX: usize = 100_000;

/// A given JSON Schema, so that none is inferred.
const SCHEMA: &str = r#"{"type":"object"}"#;

/// The policies and directories of a run.
struct Bench {
    policy: Policy,
    directory: tempfile::TempDir,
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let Some(at) = arguments.iter().position(|argument| argument == "--one-result") {
        return one_result(Path::new(&arguments[at + 1]));
    }
    let sandbox = Sandbox::new().unwrap();
    let bench = Bench {
        policy: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default()).unwrap(),
        directory: tempfile::tempdir().unwrap(),
    };
    println!("policy: {} bytes, compiled in {:.0?}", bench.policy.bytes(), bench.policy.compile_time().unwrap());
    small_result(&bench);
    warm_start(bench.directory.path());
    middle_result(&bench);
    for records in sizes(&[100_000, 1_000_000]) {
        large_result(&bench, records);
    }
}

/// A result that passes: the minimum cost of a call.
fn small_result(bench: &Bench) {
    let text = synthetic::payload(5);
    let (payload, limits) = (text_payload(text), Limits::default());
    let call = call(&settings(false));
    let prepared = bench.policy.prepared();
    let [bare, inspected] = alternate(
        2000,
        [&mut || prepared.instantiate(&limits).unwrap(), &mut || {
            drop(prepared.inspect(&limits, &call, &payload).unwrap());
        }],
    );
    println!("\nsmall result ({} bytes), fresh store and instance each time", payload.size());
    compared("instantiate and inspect-result", &inspected, "instantiate alone", &bare);
    println!("  {:<42} {:>9.1} µs", "instantiate alone", micros(median(&bare)));
    println!("  {:<42} {:>9.1} µs", "instantiate and inspect-result", micros(median(&inspected)));
}

/// Start-up of a policy until it can be called, with compiled code on disk.
fn warm_start(directory: &Path) {
    let options =
        LoadOptions { cache: Some(CompileCache::open(directory.join("compiled")).unwrap()), ..LoadOptions::default() };
    let start = || {
        let sandbox = Sandbox::new().unwrap();
        let policy = Policy::from_bytes(&sandbox, DEFAULT_POLICY, &options).unwrap();
        policy.prepared().instantiate(&Limits::default()).unwrap();
        policy
    };
    let cold = Instant::now();
    assert!(start().compile_time().is_some());
    let cold = cold.elapsed();
    // To end them is not part of a start.
    let mut started = Vec::new();
    let [warm] = alternate(20, [&mut || started.push(start())]);
    assert!(started.iter().all(|policy| policy.compile_time().is_none()));
    let warm = median(&warm);
    measured("start with nothing cached", millis(cold), "ms");
    measured("start with compiled code cached", millis(warm), "ms");
    println!("\nstart: engine, policy, first instance");
    println!("  {:<42} {:>9.1} ms", "nothing cached", millis(cold));
    println!("  {:<42} {:>9.1} ms", "compiled code cached", millis(warm));
}

/// 200 records of 620 bytes: the middle size of the LRO paper, which reports 23.9 ms for writing its file.
fn middle_result(bench: &Bench) {
    let record = format!(r#"{{"id":1,"title":"memory","body":"{}"}}"#, "x".repeat(620 - 36));
    let text = format!(r#"{{"results":[{}]}}"#, vec![record; 200].join(","));
    let payload = text_payload(text);
    let request = request(settings(true));
    println!("\n200 records of 620 bytes, inspected, written and published");
    for fsync in [Fsync::Never, Fsync::After, Fsync::Before] {
        let filter = bench.filter(fsync);
        let [time] = alternate(50, [&mut || assert_offloaded(&filter.apply(&request, &payload).outcome)]);
        let (how, time) = (format!("fsync {fsync:?}").to_lowercase(), millis(median(&time)));
        measured(&format!("200 records of 620 bytes, {how}"), time, "ms");
        println!("  {how:<42} {time:>9.2} ms");
    }
}

fn large_result(bench: &Bench, records: usize) {
    let text = synthetic::payload(records);
    let bytes = text.len();
    let input = bench.directory.path().join("input.json");
    std::fs::write(&input, &text).unwrap();
    println!("\n{records} records, {:.1} MB", bytes as f64 / 1e6);
    let python = python(&input, if records > 200_000 { 1 } else { 3 });
    let payload = text_payload(text.clone());
    let repetitions = if records > 200_000 { 5 } else { 15 };

    let given = bench.write_sections(false);
    let inferred = bench.write_sections(true);
    let (mut given_cost, mut inferred_cost) = (Cost::default(), Cost::default());
    let output = bench.directory.path().join("plain");
    let [plain, native_given, native_inferred, component_given, component_inferred] = alternate(
        repetitions,
        [
            &mut || write_plainly(&output, text.as_bytes()),
            &mut || native::split(&output, &text, false),
            &mut || native::split(&output, &text, true),
            &mut || given_cost = given(&payload),
            &mut || inferred_cost = inferred(&payload),
        ],
    );
    let row = |name: &str, times: &[Duration], native: Option<&[Duration]>| {
        let (size, time) = (format!("{records} records: {name}"), median(times));
        compared(&size, times, "write() of the input", &plain);
        print!("  {name:<42} {:>9.1} ms {:>6.0} MB/s", millis(time), bytes as f64 / 1e6 / time.as_secs_f64());
        print!("  {:>5.2} × write", median(&plain).as_secs_f64() / time.as_secs_f64());
        if let Some(native) = native {
            compared(&size, times, "native", native);
            print!("  {:>5.2} × native", median(native).as_secs_f64() / time.as_secs_f64());
        }
        match python {
            Some((offload, _)) => println!("  {:>6.1} × Python", offload / time.as_secs_f64()),
            None => println!(),
        }
    };
    row("write() of the input", &plain, None);
    row("native, schema given, nothing inferred", &native_given, None);
    row("native, schema and summary inferred", &native_inferred, None);
    row("write-sections, schema given, nothing inferred", &component_given, Some(&native_given));
    row("write-sections, schema and summary inferred", &component_inferred, Some(&native_inferred));
    if records <= INDENTED_RECORDS_MAX {
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let indented = text_payload(serde_json::to_string_pretty(&document).unwrap());
        let [compact, indented] =
            alternate(repetitions, [&mut || _ = inferred(&payload), &mut || _ = inferred(&indented)]);
        compared(&format!("{records} records: a line for each member"), &indented, "compact", &compact);
        let (time, compact) = (millis(median(&indented)), millis(median(&compact)));
        println!("  {:<42} {time:>9.1} ms {:>21.2} × compact", "the last one, a line for each member", time / compact);
    }
    let memory = given_cost.memory_bytes.max(inferred_cost.memory_bytes);
    let memory = memory as f64 / 1048576.0;
    measured(&format!("{records} records: linear memory of the policy"), memory, "MiB");
    println!("  {:<42} {memory:>9.2} MiB", "linear memory of the policy");
    whole_way(&input, bytes, python.map(|(_, gateway)| gateway));
}

/// From the bytes of a tool result to published files and the reply, in a separate process to measure its memory.
fn whole_way(input: &Path, bytes: usize, python: Option<f64>) {
    let message = input.with_file_name("message.json");
    let text = std::fs::read_to_string(input).unwrap();
    let escaped = serde_json::to_string(&text).unwrap();
    let envelope = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{escaped}}}],"isError":false}}}}"#
    );
    std::fs::write(&message, envelope).unwrap();
    let exe = std::env::current_exe().unwrap();
    let output = Command::new(exe).arg("--one-result").arg(&message).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let mut fields = printed.split_whitespace().map(|field| field.parse::<f64>().unwrap());
    let (seconds, above_input_mib) = (fields.next().unwrap(), fields.next().unwrap());
    measured(&format!("{bytes} bytes of a tool result to files and reply"), seconds * 1e3, "ms");
    measured(&format!("{bytes} bytes of a tool result: peak memory above the input"), above_input_mib, "MiB");
    print!(
        "  {:<42} {:>9.1} ms {:>6.0} MB/s",
        "bytes of a tool result to files and reply",
        seconds * 1e3,
        bytes as f64 / 1e6 / seconds
    );
    match python {
        Some(python) => println!("  {:>37.1} × Python", python / seconds),
        None => println!(),
    }
    println!("  {:<42} {:>9.1} MiB", "peak memory above the input", above_input_mib);
}

/// The child of [`whole_way`]: prints the median seconds and the peak memory above the message, in MiB.
fn one_result(message: &Path) {
    let sandbox = Sandbox::new().unwrap();
    let bench = Bench {
        policy: Policy::from_bytes(&sandbox, DEFAULT_POLICY, &LoadOptions::default()).unwrap(),
        directory: tempfile::tempdir().unwrap(),
    };
    let filter = bench.filter(Fsync::Never);
    let request = request(settings(true));
    let message = bytes::Bytes::from(std::fs::read(message).unwrap());
    let mut times = Vec::new();
    for _ in 0..5 {
        let started = Instant::now();
        let result = ToolResult::parse(message.clone()).unwrap();
        let outcome = filter.apply(&request, result.payload()).outcome;
        assert!(mcp::answer(&result, &outcome).len() < 10_000);
        times.push(started.elapsed());
        let Outcome::Offload(offloaded) = outcome else { panic!("not offloaded") };
        std::fs::remove_dir_all(offloaded.offload.path()).unwrap();
    }
    let peak = lro_tests::status_kib(std::process::id(), "VmHWM").unwrap() as f64;
    println!("{} {}", median(&times).as_secs_f64(), peak / 1024.0 - message.len() as f64 / 1048576.0);
}

impl Bench {
    fn filter(&self, fsync: Fsync) -> Filter {
        let root = self.directory.path().join(format!("store-{fsync:?}"));
        let store = Store::open(StoreConfig { fsync, ..StoreConfig::new(root) }).unwrap();
        Filter {
            slot: self.policy.clone().into(),
            store: Ok(store),
            limits: Limits::default(),
            failure: FailureMode::Closed,
            documents: None,
        }
    }

    /// The second call alone, into an empty directory, with the plan already made.
    fn write_sections(&self, infer: bool) -> impl Fn(&Arc<Payload>) -> Cost {
        let call = call(&settings(infer));
        let plan = Plan {
            parts: vec![PlannedPart::Sections(vec![PlannedSection {
                pointer: "/results".to_owned(),
                shape: SectionShape::Elements,
                name: "results".to_owned(),
            }])],
        };
        move |payload| {
            let directory = tempfile::tempdir_in(self.directory.path()).unwrap();
            let limits = Limits::default();
            let (written, cost) =
                self.policy.prepared().write(&limits, &call, payload, &plan, directory.path()).unwrap();
            assert_eq!(written.descriptor.files.len(), 1);
            cost
        }
    }
}

fn settings(infer: bool) -> PolicySettings {
    let mut config = Config::load([("HOME".into(), "/".into())], &[]).unwrap();
    config.infer = infer;
    if !infer {
        let rule = serde_json::json!({ "key": "results", "schema": SCHEMA });
        config.sections = vec![serde_json::from_value(rule).unwrap()];
    }
    config.for_tool("bench")
}

fn request(settings: PolicySettings) -> Request {
    Request { settings: Arc::new(settings), ..Request::new("bench", "bench") }
}

fn call(settings: &PolicySettings) -> Call {
    Call {
        id: "01JD0000000000000000000000".to_owned(),
        time: "2026-11-20T09:30:00Z".to_owned(),
        tenant: "bench".to_owned(),
        session: None,
        tool: "bench".to_owned(),
        query: None,
        input_schema: None,
        is_error: false,
        shown_path: "/offloads/bench/01JD0000000000000000000000".to_owned(),
        reader: types::Reader { abilities: Abilities::SHELL, limit: None },
        settings: types::Settings::from(settings),
    }
}

fn text_payload(text: String) -> Arc<Payload> {
    Arc::new(Payload::new(vec![Part::text(PartKind::Text, text.into()).unwrap()]))
}

fn assert_offloaded(outcome: &Outcome) {
    assert!(matches!(outcome, Outcome::Offload(_)), "{outcome:?}");
}

fn write_plainly(path: &Path, bytes: &[u8]) {
    let mut file = File::create(path).unwrap();
    bytes.chunks(BLOCK_BYTES).for_each(|block| file.write_all(block).unwrap());
}

/// Median seconds of the two rows of the baseline; `None` without Python.
fn python(input: &Path, repetitions: u32) -> Option<(f64, f64)> {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tools/baseline.py");
    let output = Command::new("python3").arg(script).arg(input).arg(repetitions.to_string()).output();
    let Ok(output) = output.inspect_err(|error| println!("  no Python rows: python3: {error}")) else { return None };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let times: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let (offload, gateway) = (times["offload"].as_f64().unwrap(), times["gateway"].as_f64().unwrap());
    println!("  {:<42} {:>9.1} ms", "Python, from objects to a file", offload * 1e3);
    println!("  {:<42} {:>9.1} ms", "Python, from bytes to a file and a reply", gateway * 1e3);
    Some((offload, gateway))
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
