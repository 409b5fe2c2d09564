//! Crates from elsewhere: their licenses, where they come from, and those that the command contains more than once. The version
//! of this workspace.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod imports;
mod license;
mod versions;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::Command;

use lro_tests::workspace;
use serde_json::Value;

/// The platform that the dependencies are resolved for.
const PLATFORM: &str = "x86_64-unknown-linux-gnu";

const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Licenses that ask for no more than naming the authors. Others need a decision.
const LICENSES: [&str; 8] =
    ["Apache-2.0", "Apache-2.0 WITH LLVM-exception", "BSD-3-Clause", "CC0-1.0", "ISC", "MIT", "Unicode-3.0", "Zlib"];

/// Crates that the command contains in several versions, and which of its dependencies is behind the others.
const DUPLICATES: [(&str, &str); 22] = [
    ("base64", "metrics-exporter-prometheus, and so we, use 0.22"),
    ("block-buffer", "for digest"),
    ("cpufeatures", "chacha20 uses 0.3, and sha2 0.2"),
    ("crypto-common", "for digest"),
    ("digest", "md-5, for object_store, uses 0.11, and sha2 0.10"),
    ("embedded-io", "postcard offers its users both"),
    ("getrandom", "ring uses 0.2, and rand 0.9 uses 0.3"),
    ("hashbrown", "gimli and metrics-util use 0.16"),
    ("io-lifetimes", "fs-set-times uses 2"),
    ("itertools", "wasmtime uses 0.14"),
    ("lock_api", "for parking_lot"),
    ("parking_lot", "object_store uses 0.12"),
    ("parking_lot_core", "for parking_lot"),
    ("rand", "metrics-util uses 0.9, and the fail points of tests 0.8"),
    ("rand_chacha", "for rand"),
    ("rand_core", "for rand"),
    ("syn", "macros of wasmtime and tracing use 2"),
    ("thiserror", "wac-graph uses 1"),
    ("thiserror-impl", "for thiserror"),
    ("wasm-encoder", "wac-graph uses 0.258, wasmtime and we 0.254"),
    ("wasm-metadata", "for wac-graph"),
    ("wasmparser", "wac-graph uses 0.258, wasmtime and we 0.254"),
];

/// What cargo knows of the workspace and its dependencies.
fn metadata() -> Value {
    let mut command = Command::new(env!("CARGO"));
    command.args(["metadata", "--locked", "--format-version", "1", "--filter-platform", PLATFORM]);
    let output = command.current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().unwrap()
}

/// The ids of a package and all it is built with, without what only its tests need.
fn built_with<'a>(metadata: &'a Value, name: &str) -> BTreeSet<&'a str> {
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let nodes: HashMap<&str, &Value> = nodes.iter().map(|node| (node["id"].as_str().unwrap(), node)).collect();
    let package = packages(metadata).iter().find(|package| package["name"] == name).unwrap();
    let mut todo = vec![package["id"].as_str().unwrap()];
    let mut found = BTreeSet::new();
    while let Some(id) = todo.pop() {
        if !found.insert(id) {
            continue;
        }
        let is_for_tests = |kind: &Value| kind["kind"] == "dev";
        let dependencies = nodes[id]["deps"].as_array().unwrap().iter();
        let built = dependencies.filter(|one| !one["dep_kinds"].as_array().unwrap().iter().all(is_for_tests));
        todo.extend(built.map(|dependency| dependency["pkg"].as_str().unwrap()));
    }
    found
}

#[test]
fn licenses_are_permissive() {
    let metadata = metadata();
    let is_permissive =
        |package: &&Value| package["license"].as_str().is_some_and(|text| license::allows(text, &LICENSES));
    let others = packages(&metadata).iter().filter(|package| !is_permissive(package));
    let others: Vec<String> = others.map(|package| format!("{}: {}", package["name"], package["license"])).collect();
    assert!(others.is_empty(), "licenses that are not in LICENSES: {others:#?}");
}

#[test]
fn crates_come_from_crates_io() {
    let metadata = metadata();
    let is_ours = |package: &Value| {
        package["manifest_path"].as_str().is_some_and(|path| path.starts_with(workspace().to_str().unwrap()))
    };
    let is_known = |package: &&Value| match package["source"].as_str() {
        None => is_ours(package),
        Some(source) => source == CRATES_IO,
    };
    let others: Vec<&Value> =
        packages(&metadata).iter().filter(|package| !is_known(package)).map(|package| &package["id"]).collect();
    assert!(others.is_empty(), "{others:#?}");
}

#[test]
fn duplicates_are_explained() {
    let metadata = metadata();
    let built = built_with(&metadata, "lro");
    let mut versions: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for package in packages(&metadata).iter().filter(|package| built.contains(package["id"].as_str().unwrap())) {
        versions.entry(package["name"].as_str().unwrap()).or_default().insert(package["version"].as_str().unwrap());
    }
    versions.retain(|_, versions| versions.len() > 1);
    let explained: BTreeSet<&str> = DUPLICATES.iter().map(|(name, _)| *name).collect();
    let found: BTreeSet<&str> = versions.keys().copied().collect();
    let new: Vec<_> = versions.iter().filter(|(name, _)| !explained.contains(*name)).collect();
    assert!(new.is_empty(), "take one version of these, or explain them in DUPLICATES: {new:?}");
    let gone: Vec<_> = explained.difference(&found).collect();
    assert!(gone.is_empty(), "there is one version of these: remove them from DUPLICATES: {gone:?}");
}
