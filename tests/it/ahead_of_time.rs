//! Components that are compiled when the command is built, and loaded where it runs.

use std::env::consts::{ARCH, OS};

use lro_host::documents::DOCUMENT_COMPONENT;
use lro_host::extract::{EXTRACT_COMPONENT, SQL_COMPONENT};
use lro_host::policy::{DEFAULT_POLICY, Digest, compile_ahead};
use lro_host::sandbox::{Limits, Sandbox};
use wasmtime::component::Component;

/// Loads the code of a file that `compile_ahead` made.
fn load(sandbox: &Sandbox, file: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: wasmtime made the code, in this process.
    #[expect(unsafe_code, reason = "as the host does")]
    unsafe {
        Component::deserialize(sandbox.engine(), &file[32..])
    }
}

#[test]
fn what_is_compiled_for_this_platform_runs_in_the_sandbox() {
    let platform = match OS {
        "windows" => "pc-windows-gnu",
        "macos" => "apple-darwin",
        _ => "unknown-linux-musl",
    };
    let (sandbox, target) = (Sandbox::new().unwrap(), format!("{ARCH}-{platform}"));
    let made = [DEFAULT_POLICY, EXTRACT_COMPONENT, SQL_COMPONENT, DOCUMENT_COMPONENT].map(|component| {
        let file = compile_ahead(component, &target).unwrap();
        assert_eq!(file[..32], Digest::of(component).0);
        file
    });
    let [policy, extract, sql, document] = made.each_ref().map(|file| load(&sandbox, file).unwrap());
    sandbox.prepare(&policy).unwrap().instantiate(&Limits::default()).unwrap();
    sandbox.prepare_extraction(&extract).unwrap();
    sandbox.prepare_extraction(&sql).unwrap();
    sandbox.prepare_document_reader(&document).unwrap();
    // A sandbox with other settings takes none of it, and compiles.
    let counting = Sandbox::with_fuel().unwrap();
    assert!(made.iter().all(|file| load(&counting, file).is_err()));
}

#[test]
fn a_target_without_a_compiler_is_an_error_that_names_it() {
    let error = compile_ahead(DEFAULT_POLICY, "powerpc-unknown-linux-gnu").unwrap_err().to_string();
    assert!(error.contains("for powerpc-unknown-linux-gnu"), "{error}");
}
