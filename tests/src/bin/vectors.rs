//! The runner of the vectors for the Rust host, as the others in `tests/runtimes`:
//!
//!     vectors COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//!
//! prints one JSON object about the vectors this component passes, the time it takes for the large one, alone and as a whole call,
//! and memory. Where the other components are beside it, also about policies that are swapped under load and one that loops. Inputs
//! that are too long for a vector are written into the folder of inputs first, for all runners.

#![expect(clippy::expect_used, reason = "a test program stops at the first surprise")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::extract::Budget;
use lro_host::filter::{Filter, Outcome};
use lro_host::mcp::{self, EXTRACT_TOOL, ToolResult, Tools};
use lro_host::policy::{Digest, Policy, Slot};
use lro_host::sandbox::Limits;
use lro_host::settings::{FailureMode, PolicySettings};
use lro_tests::vectors::{self, LARGE, Vector};
use lro_tests::{TENANT, always, extractor, filter_with, patient, request, sandbox, settings, structured};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often the large vector is written; the first time warms up.
const ROUNDS: usize = 6;

/// How often a policy takes the place of another while calls run, and how many calls run at a time.
const SWAPS: usize = 8;
const CALLERS: usize = 4;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [component, folder, inputs] = arguments.as_slice() else {
        eprintln!("usage: vectors COMPONENT.wasm VECTORS_DIR INPUTS_DIR");
        return ExitCode::from(2);
    };
    let bytes = std::fs::read(component).expect("the component can be read");
    let policy = Policy::from_bytes(sandbox(), &bytes, &patient()).expect("the component is a policy");
    let is_default = folder.join(LARGE).with_extension("json").exists();
    let vectors = if is_default { vectors::default_policy() } else { vectors::redacting_policy() };
    std::fs::create_dir_all(inputs).expect("the folder of inputs can be made");
    for (name, text) in vectors.iter().flat_map(Vector::inputs) {
        std::fs::write(inputs.join(name), text).expect("an input can be written");
    }
    let failed: Vec<Value> = vectors.iter().filter_map(|vector| failure(&policy, vector, folder)).collect();
    let large = vectors.iter().find(|vector| vector.name == LARGE);
    let mut report = json!({
        "runtime": concat!("Rust host, lro-host ", env!("CARGO_PKG_VERSION")),
        "component": Digest::of(&bytes).to_string(),
        "passed": vectors.len() - failed.len(),
        "failed": failed,
        "milliseconds": large.map(|large| milliseconds(&policy, large)),
        "whole_milliseconds": large.map(|_| whole_milliseconds(&policy, &inputs.join("records-100000.json"))),
        "peak_bytes": peak_bytes(),
    });
    let beside = |name: &str| {
        let path = component.with_file_name(name);
        path.exists().then(|| Policy::from_file(sandbox(), &path, &patient()).expect("a policy"))
    };
    if let (Some(_), Some(redact), Some(hostile)) = (large, beside("lro_redact.wasm"), beside("lro_test_policies.wasm"))
    {
        report["swap"] = swapped(&policy, &redact);
        report["looped_milliseconds"] = looped(hostile).into();
        report["read_back"] = is_read_back(&policy).into();
    }
    println!("{report}");
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The vector and why it is not passed.
fn failure(policy: &Policy, vector: &Vector, folder: &Path) -> Option<Value> {
    let directory = TempDir::new().expect("a directory");
    let outcome = vector.outcome(policy, directory.path());
    let reason = match std::fs::read_to_string(folder.join(&vector.name).with_extension("json")) {
        Ok(expected) if expected == outcome => return None,
        Ok(expected) => {
            let differs = expected.lines().zip(outcome.lines()).find(|(expected, found)| expected != found);
            differs.map_or_else(|| "another length".to_owned(), |(expected, found)| format!("{found}, not {expected}"))
        }
        Err(error) => error.to_string(),
    };
    Some(json!({ "vector": vector.name, "reason": reason }))
}

/// Median time of writing the large vector's files.
fn milliseconds(policy: &Policy, large: &Vector) -> f64 {
    let write = large.writer(policy).expect("the large vector is offloaded");
    let mut times: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let directory = TempDir::new().expect("a directory");
            let started = Instant::now();
            write(directory.path()).expect("the large vector is written");
            started.elapsed().as_secs_f64() * 1e3
        })
        .skip(1)
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Median time of a whole call: from the JSON of a result to the reply and the published files.
fn whole_milliseconds(policy: &Policy, records: &Path) -> f64 {
    let records = std::fs::read_to_string(records).expect("the records can be read");
    let result = Bytes::from(format!(r#"{{"content":[],"structuredContent":{records}}}"#));
    let root = TempDir::new().expect("a directory");
    let filter = filter_with(policy.clone(), root.path());
    let call = || {
        let started = Instant::now();
        let parsed = ToolResult::parse(result.clone()).expect("a result");
        let decision = filter.apply(&request(settings()), parsed.payload());
        assert!(matches!(decision.outcome, Outcome::Offload(_)), "{:?}", decision.failure);
        let reply = mcp::answer(&parsed, &decision.outcome);
        let time = started.elapsed().as_secs_f64() * 1e3;
        assert!(reply.len() < result.len());
        time
    };
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| call()).skip(1).collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// What became of calls while two policies took the place of each other, of which one replaces secrets: those that were lost,
/// that failed, and whose files are of both.
fn swapped(plain: &Policy, redact: &Policy) -> Value {
    let root = TempDir::new().expect("a directory");
    let slot = Arc::new(Slot::from(plain.clone()));
    let filter = Filter { failure: FailureMode::Closed, ..filter_with(Arc::clone(&slot), root.path()) };
    let custom = Some(r#"{"fields":["secret"]}"#.to_owned());
    let request = request(PolicySettings { custom, ..always() });
    let items: Vec<Value> = (0..2000).map(|id| json!({"id": id, "secret": format!("word {id}")})).collect();
    let payload = structured(json!({"items": items}).to_string());
    let is_over = AtomicBool::new(false);
    // What stands in the place of the secrets of a call; nothing if it failed.
    let call = || match filter.apply(&request, &payload).outcome {
        Outcome::Offload(offloaded) => first_words(offloaded.offload.path()),
        _ => BTreeSet::new(),
    };
    let caller = || {
        let mut found = Vec::new();
        while !is_over.load(Ordering::Relaxed) {
            found.push(call());
        }
        found
    };
    let found: Vec<BTreeSet<String>> = thread::scope(|scope| {
        let callers: Vec<_> = (0..CALLERS).map(|_| scope.spawn(caller)).collect();
        let mut found = Vec::new();
        for number in 0..SWAPS {
            slot.swap(if number % 2 == 0 { redact.clone() } else { plain.clone() });
            found.push(call());
        }
        is_over.store(true, Ordering::Relaxed);
        found.extend(callers.into_iter().flat_map(|caller| caller.join().expect("a caller")));
        found
    });
    let published = std::fs::read_dir(root.path().join(TENANT)).expect("the offloads can be listed").count();
    let failed = found.iter().filter(|words| words.is_empty()).count();
    let mixed = found.iter().filter(|words| words.len() > 1).count();
    json!({"calls": found.len(), "lost": found.len().abs_diff(published + failed), "failed": failed, "mixed": mixed})
}

/// The first words of the secrets in the file of an offload.
fn first_words(offload: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(offload.join("items.jsonl")).expect("the file can be read");
    let records = text.lines().skip(1).map(|line| serde_json::from_str(line).expect("a record"));
    let word = |record: Value| record["secret"].as_str().and_then(|secret| secret.split(' ').next().map(str::to_owned));
    records.filter_map(word).collect()
}

/// Time until a policy that loops has ended, with a limit of a second.
fn looped(hostile: Policy) -> f64 {
    let root = TempDir::new().expect("a directory");
    let limits = Limits { wall_time: Duration::from_secs(1), ..Limits::default() };
    let filter = Filter { limits, failure: FailureMode::Closed, ..filter_with(hostile, root.path()) };
    let request = request(PolicySettings { custom: Some("inspect-loop".to_owned()), ..always() });
    let started = Instant::now();
    let decision = filter.apply(&request, &structured("[1]"));
    assert!(matches!(decision.outcome, Outcome::Fail(_)), "{decision:?}");
    started.elapsed().as_secs_f64() * 1e3
}

/// Whether the tools of the host count the records of an offload.
fn is_read_back(policy: &Policy) -> bool {
    let root = TempDir::new().expect("a directory");
    let filter = filter_with(policy.clone(), root.path());
    let items: Vec<Value> = (0..2000).map(|id| json!({"id": id})).collect();
    let payload = structured(json!({"items": items}).to_string());
    let Outcome::Offload(offloaded) = filter.apply(&request(always()), &payload).outcome else { return false };
    let store = filter.store.expect("a store");
    let tools = Tools::new(store, extractor(), Budget::default());
    let question = json!({"handle": offloaded.offload.id().to_string(), "where": "id >= 500", "count": true});
    let answer = tools.call(TENANT, EXTRACT_TOOL, &question.to_string());
    answer.is_ok_and(|answer| answer.contains(r#""count":1500"#))
}

/// Peak resident memory of this process, as Linux reports it.
fn peak_bytes() -> Option<u64> {
    Some(lro_tests::status_kib(std::process::id(), "VmHWM")? * 1024)
}
