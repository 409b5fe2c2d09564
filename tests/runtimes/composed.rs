//! The runner of the vectors of replies for the composed component in Rust, as the others in this folder:
//!
//!     composed COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//!
//! The component is a policy, which is composed first. Its time is that of a whole result of 100,000 records, from its JSON to the
//! reply and the files in a directory, whose digests are computed here.

#![expect(clippy::unwrap_used, reason = "a test program stops at the first surprise")]

#[path = "../composed/support.rs"]
#[expect(dead_code, reason = "tests use the rest")]
mod support;

use std::path::{Path, PathBuf};
use std::time::Instant;

use lro_host::compose::Files;
use lro_host::policy::Digest;
use serde_json::{Value, json};
use support::{Composed, Outcome, Request, request};

/// How often the large result is filtered; the first time warms up.
const ROUNDS: usize = 6;

fn main() {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [component, folder, inputs] = arguments.as_slice() else {
        eprintln!("usage: composed COMPONENT.wasm VECTORS_DIR INPUTS_DIR");
        std::process::exit(2);
    };
    let policy = std::fs::read(component).unwrap();
    let composed = Composed::new(&policy, Files::Directory);
    let mut vectors: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    vectors.sort();
    let failed: Vec<Value> = vectors.iter().filter_map(|vector| failure(&composed, vector)).collect();
    let report = json!({
        "runtime": concat!("composed component in Rust, lro-host ", env!("CARGO_PKG_VERSION")),
        "component": Digest::of(&policy).to_string(),
        "passed": vectors.len() - failed.len(),
        "failed": failed,
        "milliseconds": milliseconds(&composed, &inputs.join("records-100000.json")),
        "peak_bytes": peak_bytes(),
    });
    println!("{report}");
    std::process::exit(i32::from(!failed.is_empty()));
}

/// The vector and why it is not passed.
fn failure(composed: &Composed, path: &Path) -> Option<Value> {
    let vector: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let result = vector["result"].as_str().unwrap();
    let differs = |case: &&Value| {
        let request = Request {
            session: Some("s 1".to_owned()),
            query: Some(r#"{"q":"x"}"#.to_owned()),
            tool: "list items".to_owned(),
            ..request(&case["settings"].to_string())
        };
        let found = composed.instance().outcomes(&request, result);
        let reply = case["reply"].as_str().unwrap_or(result);
        let expected = case["files"].as_object().unwrap();
        let same = |(name, bytes): (&String, &Vec<u8>)| {
            expected.get(name).is_some_and(|file| file["sha256"] == Digest::of(bytes).to_string())
        };
        found.reply != reply || found.files.len() != expected.len() || !found.files.iter().all(same)
    };
    let case = vector["cases"].as_array().unwrap().iter().find(differs)?;
    Some(json!({ "vector": path.file_stem().unwrap().to_string_lossy(), "reason": case["settings"].to_string() }))
}

/// Median time of the large result.
fn milliseconds(composed: &Composed, records: &Path) -> Option<f64> {
    let records = std::fs::read_to_string(records).ok()?;
    let result = format!(r#"{{"content":[],"structuredContent":{records}}}"#);
    let filter = || {
        let started = Instant::now();
        let reply = composed.instance().filter_with_digests(&request("{}"), &result).unwrap();
        assert_eq!(reply.outcome, Outcome::Offload);
        started.elapsed().as_secs_f64() * 1e3
    };
    let mut times: Vec<f64> = (0..ROUNDS).map(|_| filter()).skip(1).collect();
    times.sort_by(f64::total_cmp);
    Some(times[times.len() / 2])
}

/// Peak resident memory of this process, as Linux reports it.
fn peak_bytes() -> Option<u64> {
    Some(lro_tests::status_kib(std::process::id(), "VmHWM")? * 1024)
}
