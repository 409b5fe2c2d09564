//! A program in a directory of its own takes the host as a dependency, and no more crates than it needs.
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

/// The program as a package, with the versions of this workspace.
fn package() -> TempDir {
    let package = TempDir::new().unwrap();
    let host = workspace().join("host-example/host");
    let manifest = format!(
        "[package]\nname = \"embedded\"\nedition = \"2024\"\n[workspace]\n[[bin]]\nname = \"embedded\"\npath = \"program.rs\"\n\
         [dependencies]\nlro-host = {{ path = {host:?} }}\n"
    );
    fs::write(package.path().join("Cargo.toml"), manifest).unwrap();
    fs::copy(workspace().join("tests/embed/program.rs"), package.path().join("program.rs")).unwrap();
    fs::copy(workspace().join("Cargo.lock"), package.path().join("Cargo.lock")).unwrap();
    package
}

/// Cargo in the package.
fn cargo(package: &TempDir, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO"));
    command.args(arguments).arg("--offline").current_dir(package.path());
    // With a file in the place of each, no component is built.
    let components = fs::read_dir(lro_tests::target().join("wasm32-unknown-unknown/component")).unwrap();
    for file in
        components.map(|entry| entry.unwrap().path()).filter(|file| file.extension().is_some_and(|e| e == "wasm"))
    {
        let name = file.file_stem().unwrap().to_str().unwrap().to_uppercase();
        command.env(format!("{name}_COMPONENT"), &file);
    }
    let output = command.env("CARGO_TARGET_DIR", lro_tests::target().join("embedded")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
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
#[ignore = "checks all crates of others anew: `make runtimes` runs it"]
fn it_compiles_in_a_directory_of_its_own() {
    cargo(&package(), &["check", "--quiet"]);
}

#[test]
fn it_compiles_no_crate_for_other_things() {
    let package = package();
    let tree = cargo(&package, &["tree", "--edges", "normal,build", "--prefix", "none", "--package", "lro-host"]);
    // A line is `name v1.2.3 (proc-macro) (*)`.
    let of_others = tree.lines().filter(|line| !line.starts_with("lro-"));
    let crates: BTreeSet<Vec<&str>> = of_others.map(|line| line.split(' ').take(2).collect()).collect();
    assert!(crates.len() <= CRATES_MAX, "{} crates: {crates:?}", crates.len());
    for foreign in FOREIGN {
        assert!(!crates.iter().any(|found| found[0] == foreign), "{foreign}");
    }
}
