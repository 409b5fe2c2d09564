//! The runner of the vectors for the Rust host, as the others in `tests/runtimes`:
//!
//!     vectors COMPONENT.wasm VECTORS_DIR INPUTS_DIR
//!
//! prints one JSON object about the vectors this component passes, the time it takes for the large one, and memory. Inputs that
//! are too long for a vector are written into the folder of inputs first, for all runners.

#![expect(clippy::expect_used, reason = "a test program stops at the first surprise")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use lro_host::policy::{Digest, LoadOptions, Policy};
use lro_tests::sandbox;
use lro_tests::vectors::{self, LARGE, Vector};
use serde_json::{Value, json};
use tempfile::TempDir;

/// How often the large vector is written; the first time warms up.
const ROUNDS: usize = 6;

fn main() -> ExitCode {
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let [component, folder, inputs] = arguments.as_slice() else {
        eprintln!("usage: vectors COMPONENT.wasm VECTORS_DIR INPUTS_DIR");
        return ExitCode::from(2);
    };
    let bytes = std::fs::read(component).expect("the component can be read");
    let policy = Policy::from_bytes(sandbox(), &bytes, &LoadOptions::default()).expect("the component is a policy");
    let is_default = folder.join(LARGE).with_extension("json").exists();
    let vectors = if is_default { vectors::default_policy() } else { vectors::redacting_policy() };
    std::fs::create_dir_all(inputs).expect("the folder of inputs can be made");
    for (name, text) in vectors.iter().flat_map(Vector::inputs) {
        std::fs::write(inputs.join(name), text).expect("an input can be written");
    }
    let failed: Vec<Value> = vectors.iter().filter_map(|vector| failure(&policy, vector, folder)).collect();
    let large = vectors.iter().find(|vector| vector.name == LARGE);
    let report = json!({
        "runtime": concat!("Rust host, lro-host ", env!("CARGO_PKG_VERSION")),
        "component": Digest::of(&bytes).to_string(),
        "passed": vectors.len() - failed.len(),
        "failed": failed,
        "milliseconds": large.map(|large| milliseconds(&policy, large)),
        "peak_bytes": peak_bytes(),
    });
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

/// Peak resident memory of this process, as Linux reports it.
fn peak_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? * 1024)
}
