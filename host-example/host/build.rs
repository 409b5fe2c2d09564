//! Builds the components of the workspace and takes them into the crate, with their digests, so that they are never older than
//! their sources.
//!
//! A second cargo builds them, beside the crates that this one does not need yet. A variable names another file in the place
//! of each component; with all of them set, nothing is built. A published crate has them in its folder `components`.
//! `LRO_COMPILED` names a directory with compiled components, as `lro generate compiled` writes them.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, io};

use sha2::{Digest, Sha256};

/// Each component, and the variable that names another file in its place.
const COMPONENTS: [(&str, &str); 16] = [
    ("lro_policy.wasm", "LRO_POLICY_COMPONENT"),
    ("lro_extract.wasm", "LRO_EXTRACT_COMPONENT"),
    ("lro_extract_sql.wasm", "LRO_EXTRACT_SQL_COMPONENT"),
    ("lro_document_text.wasm", "LRO_DOCUMENT_TEXT_COMPONENT"),
    ("lro_reader.wasm", "LRO_READER_COMPONENT"),
    ("lro_adapter.wasm", "LRO_ADAPTER_COMPONENT"),
    ("lro_bridge.wasm", "LRO_BRIDGE_COMPONENT"),
    ("lro_results_memory.wasm", "LRO_RESULTS_MEMORY_COMPONENT"),
    ("lro_results_directory.wasm", "LRO_RESULTS_DIRECTORY_COMPONENT"),
    ("lro_middleware.wasm", "LRO_MIDDLEWARE_COMPONENT"),
    ("lro_forward.wasm", "LRO_FORWARD_COMPONENT"),
    ("lro_store_memory.wasm", "LRO_STORE_MEMORY_COMPONENT"),
    ("lro_store_directory.wasm", "LRO_STORE_DIRECTORY_COMPONENT"),
    ("lro_act.wasm", "LRO_ACT_COMPONENT"),
    ("lro_act_directory.wasm", "LRO_ACT_DIRECTORY_COMPONENT"),
    ("lro_no_tools.wasm", "LRO_NO_TOOLS_COMPONENT"),
];

const TARGET: &str = "wasm32-unknown-unknown";

/// The same as `make component`, so that neither builds anew what the other has built.
#[rustfmt::skip]
const BUILD: [&str; 40] = [
    "build", "--locked", "--profile", "component", "--target", TARGET, "-p", "lro-policy", "-p", "lro-redact", "-p",
    "lro-extract", "-p", "lro-extract-sql", "-p", "lro-document-text", "-p", "lro-reader", "-p", "lro-adapter", "-p", "lro-bridge",
    "-p", "lro-results-memory", "-p", "lro-results-directory", "-p", "lro-middleware", "-p", "lro-forward",
    "-p", "lro-store-memory", "-p", "lro-store-directory", "-p", "lro-act", "-p", "lro-act-directory", "-p", "lro-no-tools",
];

/// What the outer cargo sets for its own compiler, flags and target.
const OUTER: [&str; 5] =
    ["CARGO_ENCODED_RUSTFLAGS", "RUSTC_WORKSPACE_WRAPPER", "RUSTC_WRAPPER", "RUSTFLAGS", "CARGO_BUILD_TARGET"];

fn main() {
    if let Err(error) = components() {
        println!(
            "cargo::error=the components are not built ({error}): run `make setup` once, and see `make component`"
        );
    }
    if let Err(error) = compiled() {
        println!("cargo::error=the directory that LRO_COMPILED names cannot be used: {error}");
    }
}

/// Writes the list of compiled components, an expression of Rust.
fn compiled() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=LRO_COMPILED");
    let mut list = String::new();
    if let Some(directory) = env::var_os("LRO_COMPILED").filter(|directory| !directory.is_empty()) {
        changes(Path::new(&directory));
        for file in fs::read_dir(&directory)? {
            let path = fs::canonicalize(file?.path())?;
            list += &format!("include_bytes!({path:?}),\n");
        }
    }
    fs::write(PathBuf::from(variable("OUT_DIR")?).join("compiled.rs"), format!("&[{list}]"))
}

fn components() -> io::Result<()> {
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let manifest = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let packed = manifest.join("components");
    let given = COMPONENTS.map(|(name, variable)| {
        println!("cargo::rerun-if-env-changed={variable}");
        let packed = || Some(packed.join(name)).filter(|path| path.exists());
        (name, env::var_os(variable).map(PathBuf::from).or_else(packed))
    });
    let workspace = manifest.join("../..");
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    if given.iter().any(|(_, path)| path.is_none()) {
        build(&workspace, &target)?;
    }
    let built = target.join(TARGET).join("component");
    for (name, path) in given {
        match &path {
            Some(path) => changes(path),
            None => sources(&built.join(name).with_extension("d"))?.iter().for_each(|path| changes(path)),
        }
        let component = path.unwrap_or_else(|| built.join(name));
        let bytes =
            fs::read(&component).map_err(|error| io::Error::other(format!("{}: {error}", component.display())))?;
        let copy = PathBuf::from(variable("OUT_DIR")?).join(name);
        fs::write(copy.with_extension("sha256"), Sha256::digest(&bytes))?;
        fs::write(copy, bytes)?;
    }
    Ok(())
}

fn build(workspace: &Path, target: &Path) -> io::Result<()> {
    let mut cargo = Command::new(variable("CARGO")?);
    OUTER.iter().for_each(|name| _ = cargo.env_remove(name));
    let status = cargo.args(BUILD).arg("--target-dir").arg(target).current_dir(workspace).status()?;
    changes(&workspace.join("Cargo.lock"));
    changes(&workspace.join("Cargo.toml"));
    for package in fs::read_dir(workspace.join("guest"))? {
        let manifest = package?.path().join("Cargo.toml");
        // A file that is missing would count as changed, always.
        if manifest.exists() {
            changes(&manifest);
        }
    }
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("cargo: {status}"))) }
}

/// The files that a component was made from, as cargo lists them beside it: `COMPONENT: FILE FILE …`, with `\ ` for a space.
fn sources(list: &Path) -> io::Result<Vec<PathBuf>> {
    let text = fs::read_to_string(list)?.replace("\\ ", "\0");
    let (_, files) = text.split_once(": ").ok_or_else(|| io::Error::other(format!("{} is empty", list.display())))?;
    Ok(files.split_whitespace().map(|file| PathBuf::from(file.replace('\0', " "))).collect())
}

fn changes(path: &Path) {
    println!("cargo::rerun-if-changed={}", path.display());
}

fn variable(name: &str) -> io::Result<OsString> {
    env::var_os(name).ok_or_else(|| io::Error::other(format!("cargo does not set {name}")))
}
