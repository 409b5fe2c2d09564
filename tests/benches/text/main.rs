//! Measures texts, as ratios in the same run: searches beside `rg`, whole processes both, records from CSV beside
//! Python's `csv` and `json`, and the estimate of tokens beside a scan. The answers are compared first: a wrong answer ends the run.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=100000 make bench` for fewer lines.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that may stop at the first surprise"
)]

mod data;
#[path = "../shared/mod.rs"]
mod shared;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use lro_tests::synthetic;
use serde_json::Value;
use shared::{alternate, compared, measured, median, millis, sizes};
use tempfile::TempDir;

/// Runs of each search and of each CSV.
const REPETITIONS: usize = 5;

/// Bytes of CSV read at a time: a slice, as the policy reads it.
const SLICE_BYTES: usize = 1 << 20;

/// A search of the log by both programs, which print the number of matching lines.
struct Search {
    name: &'static str,
    /// Flags of `lro extract HANDLE --count`.
    ours: &'static [&'static str],
    /// Flags of `rg --count`.
    theirs: &'static [&'static str],
    /// Most time, of that of `rg`.
    asked: f64,
}

/// Passages for a question, beside one pass of `rg` for its words.
const WORDS: &str = "payment refused warsaw";
/// The same with a word that every line has.
const FREQUENT_WORDS: &str = "payment request warsaw";

const SEARCHES: [Search; 5] = [
    Search { name: "literal", ours: &["--search", data::NEEDLE], theirs: &["-F", data::NEEDLE], asked: 2.0 },
    Search {
        name: "literal, ignoring case",
        ours: &["--search", data::NEEDLE_SHOUTED, "-i"],
        theirs: &["-F", "-i", data::NEEDLE_SHOUTED],
        asked: 2.0,
    },
    Search {
        name: "regex with a literal of three bytes",
        ours: &["--search", "ms [a-z]+ of 99[0-9]", "--regex"],
        theirs: &["ms [a-z]+ of 99[0-9]"],
        asked: 3.0,
    },
    Search {
        name: "regex without a literal",
        ours: &["--search", "[0-9]{3}[a-f][0-9]{4}[a-f]{3}", "--regex"],
        theirs: &["[0-9]{3}[a-f][0-9]{4}[a-f]{3}"],
        asked: 2.5,
    },
    Search { name: "frequent literal", ours: &["--search", "GET"], theirs: &["-F", "GET"], asked: 2.0 },
];

/// Bytes at the beginning of a file whose tokens a policy estimates.
const SAMPLE_BYTES: usize = 64 * 1024;

fn main() {
    estimate();
    for lines in sizes(&[1_600_000]) {
        let directory = TempDir::new().unwrap();
        searches(&directory, lines);
        println!();
        for (name, csv) in data::tables(lines / 4) {
            records(&directory, name, &csv);
        }
    }
}

/// The estimate of tokens, of a whole result and of the beginning that a policy counts, beside one scan of the result.
fn estimate() {
    let json = synthetic::payload(100_000);
    let beginning = &json[..json.floor_char_boundary(SAMPLE_BYTES)];
    let [whole, sample, scan] = alternate(
        REPETITIONS,
        [
            &mut || _ = black_box(lro_jsonl::tokens(&json)),
            &mut || _ = black_box(lro_jsonl::tokens(beginning)),
            &mut || lro_json::validate(&json).unwrap(),
        ],
    );
    compared("tokens of a whole result", &whole, "scan", &scan);
    compared("tokens of a beginning", &sample, "scan", &scan);
    let [whole, sample, scan] = [whole, sample, scan].map(|times| median(&times));
    let speed = |time: Duration| json.len() as f64 / 1e6 / time.as_secs_f64();
    println!("\nTokens of {:.1} MB of JSON, native; medians in one run, one thread", json.len() as f64 / 1e6);
    println!("  the whole text is estimated at {:.0} MB/s, and scanned at {:.0} MB/s", speed(whole), speed(scan));
    let share = 100.0 * sample.as_secs_f64() / scan.as_secs_f64();
    println!("  what a policy counts of it takes {share:.2} % of a scan (asked: at most 10 %)");
}

/// All searches of a log of this many lines.
fn searches(directory: &TempDir, lines: usize) {
    let log = directory.path().join("log");
    std::fs::write(&log, data::log(lines)).unwrap();
    let bytes = std::fs::metadata(&log).unwrap().len();
    println!("\nA log of {lines} lines, {:.1} MB; medians in one run, whole processes, one thread", bytes as f64 / 1e6);
    let Some(rg) = rg() else {
        println!("  skipped: rg is not installed: run `make test-data`");
        return;
    };
    let handle = offloaded(directory, &log);
    // A file that changed just now could change again in the same tick of the clock, so it is not remembered as verified.
    std::thread::sleep(Duration::from_secs(3));
    println!("  {:<38} {:>12} {:>12} {:>9}  asked", "", "lro extract", "rg", "of rg");
    for Search { name, ours, theirs, asked } in &SEARCHES {
        let ours = [&["extract", &handle, "--section", "text", "--count"], *ours].concat();
        let theirs = [&["-j1", "--no-mmap", "--count"], *theirs, &[path_text(&log)]].concat();
        let count = |text: &str| serde_json::from_str::<Value>(text).unwrap()["count"].clone();
        assert_eq!(count(&lro(directory, &ours)).to_string(), printed(&rg, &theirs).trim(), "{name}");
        compare(name, *asked, || drop(lro(directory, &ours)), || drop(printed(&rg, &theirs)));
    }
    for (name, words) in [("ranked passages", WORDS), ("ranked passages, a frequent word", FREQUENT_WORDS)] {
        let ours = ["extract", &handle, "--section", "text", "--search", words, "--rank", "--limit", "5"];
        let any = words.replace(' ', "|");
        let theirs = ["-j1", "--no-mmap", "--count", "-i", &any, path_text(&log)];
        let best: Value = serde_json::from_str(lro(directory, &ours).lines().next().unwrap()).unwrap();
        assert!(best["text"].as_str().unwrap().contains("refused"), "{best}");
        compare(name, 3.0, || drop(lro(directory, &ours)), || drop(printed(&rg, &theirs)));
    }
}

/// Records of a CSV through the policy, to published files, beside Python.
fn records(directory: &TempDir, name: &str, csv: &str) {
    let filter = lro_tests::filter(&directory.path().join("records"));
    let request = lro_tests::request(lro_tests::always());
    let payload = lro_tests::text(csv.to_owned());
    let input = directory.path().join("table.csv");
    std::fs::write(&input, csv).unwrap();
    let python = |output: &str| {
        let arguments = [concat!(env!("CARGO_MANIFEST_DIR"), "/tools/csv_records.py"), path_text(&input), output];
        Duration::from_secs_f64(printed(Path::new("python3"), &arguments).trim().parse().unwrap())
    };

    let theirs = directory.path().join("table.jsonl");
    python(path_text(&theirs));
    let offload = lro_tests::offloaded(filter.apply(&request, &payload)).offload;
    let file = offload.record().files.iter().find(|file| file.section == "records").expect("records");
    let ours = std::fs::read_to_string(offload.path().join(&file.name)).unwrap();
    let expected = std::fs::read_to_string(&theirs).unwrap();
    let value = |line: &str| serde_json::from_str::<Value>(line).unwrap();
    assert_eq!(ours.lines().count() - 1, expected.lines().count());
    let as_text = |record: Value| -> Vec<String> {
        let fields = record.as_object().unwrap().values();
        fields.map(|field| field.as_str().map_or_else(|| field.to_string(), str::to_owned)).collect()
    };
    for (ours, theirs) in ours.lines().skip(1).zip(expected.lines()).step_by(997) {
        assert_eq!(as_text(value(ours)), as_text(value(theirs)));
    }

    let mut times = Vec::new();
    let [ours, reader, _] = alternate(
        REPETITIONS,
        [
            &mut || drop(lro_tests::offloaded(filter.apply(&request, &payload))),
            &mut || {
                black_box(read_alone(csv));
            },
            &mut || times.push(python("/dev/null")),
        ],
    );
    let theirs = median(&times);
    let size = format!("CSV, {name}, {:.1} MB", csv.len() as f64 / 1e6);
    for (how, ours) in [("through the policy", ours), ("reader alone, native", reader)] {
        compared(&format!("{size}, {how}"), &ours, "Python", &times);
        let ours = median(&ours);
        let ratio = theirs.as_secs_f64() / ours.as_secs_f64();
        println!(
            "  {:<54} {:>9.1} ms {:>9.1} ms {ratio:>7.1} ×  {}",
            format!("{size}, {how}"),
            millis(ours),
            millis(theirs),
            asked(10.0, ratio >= 10.0, "at least"),
        );
    }
}

/// Reads the records as Python does: without files, profile, digests, or the text beside them. Returns their bytes.
fn read_alone(csv: &str) -> usize {
    let head = &csv[..csv.floor_char_boundary(lro_text::HEAD_BYTES_MAX.min(csv.len()))];
    let form = lro_text::recognize(head, &lro_text::Hints::default()).expect("CSV");
    let (mut reader, mut bytes, mut rest) = (lro_text::Reader::new(&form), 0, csv);
    let mut out = |lines: &[u8]| {
        bytes += black_box(lines).len();
        Ok::<(), std::convert::Infallible>(())
    };
    while !rest.is_empty() {
        let (slice, after) = rest.split_at(rest.floor_char_boundary(SLICE_BYTES.min(rest.len())));
        reader.push(slice, &mut out).expect("CSV");
        rest = after;
    }
    reader.finish(&mut out).expect("CSV");
    bytes
}

fn compare(name: &str, most: f64, mut ours: impl FnMut(), mut theirs: impl FnMut()) {
    let [ours, theirs] = alternate(REPETITIONS, [&mut ours, &mut theirs]);
    compared(name, &ours, "rg", &theirs);
    let (ours, theirs) = (median(&ours), median(&theirs));
    let ratio = ours.as_secs_f64() / theirs.as_secs_f64();
    let asked = asked(most, ratio <= most, "at most");
    println!("  {name:<38} {:>9.1} ms {:>9.1} ms {ratio:>7.2} ×  {asked}", millis(ours), millis(theirs));
}

fn asked(bound: f64, is_met: bool, word: &str) -> String {
    format!("{word} {bound} × {}", if is_met { "met" } else { "MISSED" })
}

/// The handle of the file, which the command offloads.
fn offloaded(directory: &TempDir, file: &Path) -> String {
    let started = Instant::now();
    let handle = lro(directory, &["offload", "--handle", "--mode", "always", path_text(file)]);
    let time = millis(started.elapsed());
    measured("a log offloaded, compiling the policy included", time, "ms");
    println!("  offloaded with an outline in {time:.0} ms, compiling the policy included");
    handle.trim().to_owned()
}

fn lro(directory: &TempDir, arguments: &[&str]) -> String {
    let mut command = Command::new(lro_tests::target().join("release/lro"));
    command.env("MCP_LRO_DIR", directory.path().join("store")).env("XDG_CACHE_HOME", directory.path().join("cache"));
    output(command.args(arguments))
}

fn printed(program: &Path, arguments: &[&str]) -> String {
    output(Command::new(program).args(arguments))
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The `rg` that the set-up installs.
fn rg() -> Option<PathBuf> {
    let packages = lro_tests::target().join("test-data/mcp/node_modules/@vscode");
    let package = std::fs::read_dir(packages).ok()?.flatten().map(|entry| entry.path().join("bin/rg"));
    package.into_iter().find(|program| program.exists())
}

fn path_text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
