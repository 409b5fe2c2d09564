//! Components written as text, for what no compiler would make.

use std::path::{Path, PathBuf};

use lro_host::policy::{LoadError, Policy};
use lro_tests::{patient, read, sandbox, workspace};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};
use wit_parser_new::{Resolve, SourceMap, UnresolvedPackageGroup};

/// A policy of the world `lro-policy` from the body of a core module. Each of memory, allocator and exports is the harmless
/// one unless the body brings its own.
pub(crate) fn component(body: &str) -> Vec<u8> {
    component_of(body, None)
}

/// As [`component`], but of the world `policy` of a package that builds on the contract, if there is one.
pub(crate) fn component_of(body: &str, package: Option<&str>) -> Vec<u8> {
    let release = r#"(import "lro:filter/types@0.2.0" "[resource-drop]tool-result" (func $release (param i32)))"#;
    let mut text = format!("(module {release} {body}");
    let mut add = |export: &str, definition: &str| {
        if !body.contains(&format!("(export \"{export}\"")) {
            text.push_str(definition);
        }
    };
    add("memory", r#"(memory (export "memory") 2)"#);
    // All that the host passes lies in one place.
    add("cabi_realloc", r#"(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) i32.const 65536)"#);
    for export in ["inspect-result", "write-sections"] {
        let export = format!("lro:filter/lro-filter@0.2.0#{export}");
        add(&export, &format!("(func (export \"{export}\") (param i32) (result i32) unreachable)"));
    }
    text.push(')');
    let mut module = wat::parse_str(&text).unwrap_or_else(|error| panic!("{error}"));
    let (mut resolve, contract) = contract();
    let (package, name) = match package {
        Some(text) => (resolve.push_str("policy.wit", text).unwrap(), "policy"),
        None => (contract, "lro-policy"),
    };
    let world = resolve.select_world(&[package], Some(name)).unwrap();
    embed_component_metadata(&mut module, &resolve, world, StringEncoding::UTF8, false).unwrap();
    ComponentEncoder::default().module(&module).unwrap().encode().unwrap()
}

/// The policy, or why it is not loaded.
pub(crate) fn load(component: &[u8]) -> Result<Policy, LoadError> {
    Policy::from_bytes(sandbox(), component, &patient())
}

fn contract() -> (Resolve, wit_parser_new::PackageId) {
    let main = group(&wit_files(&workspace().join("wit")));
    let dependencies = wit_files(&workspace().join("wit/deps")).into_iter().map(|file| group(&[file])).collect();
    let mut resolve = Resolve::default();
    let package = resolve.push_groups(main, dependencies).unwrap();
    (resolve, package)
}

fn wit_files(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "wit")).collect()
}

fn group(files: &[PathBuf]) -> UnresolvedPackageGroup {
    let mut sources = SourceMap::default();
    for file in files {
        sources.push_str(&file.display().to_string(), read(file));
    }
    sources.parse().map_err(|(sources, error)| error.render(&sources)).unwrap()
}

/// A component with so many more instances of a core module, which has a memory of so many pages unless that is none.
pub(crate) fn with_instances(component: &[u8], instances: u8, pages: Option<u8>) -> Vec<u8> {
    let mut module = b"\0asm\x01\0\0\0".to_vec();
    if let Some(pages) = pages {
        // A memory section: one memory without a maximum.
        module.extend([5, 3, 1, 0, pages]);
    }
    let index = core_modules(component);
    let instance = [0, index, 0];
    let mut extended = component.to_vec();
    extended.extend([1, u8::try_from(module.len()).unwrap()]);
    extended.extend(module);
    let size = 1 + instance.len() * usize::from(instances);
    extended.extend([2, u8::try_from(size).unwrap(), instances]);
    extended.extend(instance.repeat(usize::from(instances)));
    assert!(size < 128, "sizes of one byte");
    extended
}

/// Core modules of the outermost component.
fn core_modules(component: &[u8]) -> u8 {
    let (mut depth, mut modules) = (0, 0);
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } => {
                modules += u8::from(depth == 0);
                depth += 1;
            }
            wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    modules
}

/// Gives the tool result back, which is the only handle of the instance.
const RELEASE: &str = "(call $release (i32.const 1))";

/// Body of a module whose verdict is `reject` with a text of this place and length.
fn rejects(address: u32, length: u32, before: &str) -> String {
    inspects(&format!(
        "{before} (i32.store8 (i32.const 8) (i32.const 3)) (i32.store (i32.const 16) (i32.const {address}))
         (i32.store (i32.const 20) (i32.const {length})) {RELEASE} (i32.const 0)"
    ))
}

/// Body of a module with this `inspect-result`.
pub(crate) fn inspects(instructions: &str) -> String {
    format!("(func (export \"lro:filter/lro-filter@0.2.0#inspect-result\") (param i32) (result i32) {instructions})")
}

/// Name, body, and the kind of failure, of attacks by modules.
pub(crate) fn attacks() -> Vec<(&'static str, String, &'static str)> {
    let post = "cabi_post_lro:filter/lro-filter@0.2.0#inspect-result";
    let grow = "(drop (memory.grow (i32.const 16000)))";
    let fill = "(memory.fill (i32.const 0) (i32.const 0) (i32.const 131072))";
    vec![
        (
            "loop in the allocator",
            r#"(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (loop (br 0)) unreachable)"#
                .to_owned(),
            "deadline",
        ),
        (
            "loop after the answer",
            format!("{} (func (export \"{post}\") (param i32) (loop (br 0)))", rejects(32, 4, "")),
            "deadline",
        ),
        ("loop of bulk operations", inspects(&format!("(loop {fill} (br 0)) unreachable")), "deadline"),
        (
            "table that grows",
            format!(
                "(table $t 1 funcref) {}",
                inspects(
                    "(loop (br_if 0 (i32.ne (table.grow $t (ref.null func) (i32.const 10000)) (i32.const -1)))) unreachable",
                )
            ),
            "table",
        ),
        ("memory that begins large", r#"(memory (export "memory") 1000)"#.to_owned(), "memory"),
        ("answer of 1 GB", rejects(0, 1_000_000_000, grow), "crossing"),
        ("answer outside its memory", rejects(0, 1_000_000_000, ""), "trap"),
        ("answer that is not UTF-8", rejects(24, 1, "(i32.store8 (i32.const 24) (i32.const 255))"), "trap"),
        (
            "answer of no known kind",
            inspects(&format!("(i32.store8 (i32.const 0) (i32.const 77)) {RELEASE} (i32.const 0)")),
            "trap",
        ),
        ("answer at the end of memory", inspects(&format!("{RELEASE} (i32.const -8)")), "trap"),
        ("answer at an odd address", inspects(&format!("{RELEASE} (i32.const 3)")), "trap"),
        (
            "allocator that points outside",
            r#"(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (i32.const -16))"#.to_owned(),
            "trap",
        ),
        ("recursion without a frame", format!("(func $f (call $f)) {}", inspects("(call $f) unreachable")), "stack"),
        ("result that is kept", inspects("(i32.store8 (i32.const 8) (i32.const 0)) (i32.const 0)"), "trap"),
        ("division by nothing", inspects("(i32.div_u (i32.const 1) (i32.const 0))"), "trap"),
    ]
}
