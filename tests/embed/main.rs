//! A program takes the host as a dependency, and no more crates than it needs.
#![expect(clippy::unwrap_used, reason = "a helper that fails fails its test")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

/// Most crates of others that an embedding program compiles for the host.
const CRATES_MAX: usize = 184;

/// Crates for HTTP, metrics endpoints, settings and schemas: none of them filters results.
const FOREIGN: [&str; 7] = ["axum", "clap", "hyper", "jsonschema", "metrics-exporter-prometheus", "reqwest", "toml"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

#[test]
fn a_program_of_thirty_lines_filters_a_result() {
    assert!(fs::read_to_string(workspace().join("tests/embed/program.rs")).unwrap().lines().count() <= 30);
    let store = TempDir::new().unwrap();
    let mut program = Command::new(lro_tests::target().join("release/examples/embedded"));
    let mut program =
        program.arg(store.path().join("offloads")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let rows = json!((0..5_000).map(|id| json!({"id": id, "city": "Bern"})).collect::<Vec<_>>()).to_string();
    let message = json!({"content": [{"type": "text", "text": rows}]}).to_string();
    program.stdin.take().unwrap().write_all(message.as_bytes()).unwrap();
    let output = program.wait_with_output().unwrap();
    assert!(output.status.success());
    let reply: Value = serde_json::from_slice(&output.stdout).unwrap();
    let descriptor: Value = serde_json::from_str(reply["content"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(descriptor["offloaded"], true, "{reply}");
}

#[test]
fn it_compiles_no_crate_for_other_things() {
    let tree = "tree --locked --offline --edges normal,build --prefix none --package lro-host";
    let output = Command::new(env!("CARGO")).args(tree.split(' ')).current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let tree = String::from_utf8(output.stdout).unwrap();
    // A line is `name v1.2.3 (proc-macro) (*)`.
    let of_others = tree.lines().filter(|line| !line.starts_with("lro-"));
    let crates: BTreeSet<Vec<&str>> = of_others.map(|line| line.split(' ').take(2).collect()).collect();
    assert!(crates.len() <= CRATES_MAX, "{} crates: {crates:?}", crates.len());
    for foreign in FOREIGN {
        assert!(!crates.iter().any(|found| found[0] == foreign), "{foreign}");
    }
}
