//! Takes the components of the workspace into the crate. They are built before it, by `make component` or by
//! `cargo build --profile component --target wasm32-unknown-unknown -p lro-policy -p lro-extract -p lro-extract-sql`.

use std::path::PathBuf;
use std::{env, fs};

const DIRECTORY: &str = "wasm32-unknown-unknown/component";

/// Each component, and the variable that names another file in its place.
const COMPONENTS: [(&str, &str); 3] = [
    ("lro_policy.wasm", "LRO_POLICY_COMPONENT"),
    ("lro_extract.wasm", "LRO_EXTRACT_COMPONENT"),
    ("lro_extract_sql.wasm", "LRO_EXTRACT_SQL_COMPONENT"),
];

fn main() {
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let Some(out) = env::var_os("OUT_DIR").map(PathBuf::from) else { return };
    for (name, variable) in COMPONENTS {
        println!("cargo::rerun-if-env-changed={variable}");
        let component = env::var_os(variable).map_or_else(|| target().join(DIRECTORY).join(name), PathBuf::from);
        println!("cargo::rerun-if-changed={}", component.display());
        if let Err(error) = fs::copy(&component, out.join(name)) {
            println!("cargo::error=the component {} is not built ({error}): run `make component`", component.display());
        }
    }
}

fn target() -> PathBuf {
    let workspace = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("../..");
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from)
}
