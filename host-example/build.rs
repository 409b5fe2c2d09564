//! Takes the default policy into the crate. The component is built before this crate, by `make component` or by
//! `cargo build --profile component --target wasm32-unknown-unknown -p lro-policy`.

use std::path::PathBuf;
use std::{env, fs};

const COMPONENT: &str = "wasm32-unknown-unknown/component/lro_policy.wasm";

fn main() {
    println!("cargo::rerun-if-env-changed=LRO_POLICY_COMPONENT");
    println!("cargo::rerun-if-env-changed=CARGO_TARGET_DIR");
    let component = env::var_os("LRO_POLICY_COMPONENT").map_or_else(default_component, PathBuf::from);
    println!("cargo::rerun-if-changed={}", component.display());
    let Some(out) = env::var_os("OUT_DIR") else { return };
    if let Err(error) = fs::copy(&component, PathBuf::from(out).join("lro_policy.wasm")) {
        println!(
            "cargo::error=the default policy {} is not built ({error}): run `make component`",
            component.display()
        );
    }
}

fn default_component() -> PathBuf {
    let workspace = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default()).join("..");
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from).join(COMPONENT)
}
