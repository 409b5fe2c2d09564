//! Derived components, and calls that show which version answered.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lro_host::filter::{Decision, Filter, Outcome, Request};
use lro_host::policy::{Policy, RegistrySettings, Slot};
use lro_host::sandbox::{Limits, Payload};
use lro_host::settings::{FailureMode, PolicySettings};
use lro_tests::{always, filter_with, request, text};
pub(crate) use lro_tests::{patient, patient_limits, replaced, signature, version};

/// The component of `tests/policies`.
pub(crate) fn component() -> Vec<u8> {
    lro_tests::component("lro_test_policies.wasm")
}

/// Replaces every occurrence of a text with another of the same length.
pub(crate) fn all_replaced(bytes: &[u8], text: &str, by: &str) -> Vec<u8> {
    assert_eq!(text.len(), by.len());
    let mut bytes = bytes.to_vec();
    let places: Vec<_> = bytes.windows(text.len()).enumerate().filter(|(_, it)| *it == text.as_bytes()).collect();
    let places: Vec<_> = places.iter().map(|(at, _)| *at).collect();
    assert!(!places.is_empty());
    for at in places {
        bytes[at..at + by.len()].copy_from_slice(by.as_bytes());
    }
    bytes
}

/// A component with one more section at its end.
pub(crate) fn with_section(component: &[u8], id: u8, content: &[u8]) -> Vec<u8> {
    let mut bytes = component.to_vec();
    bytes.push(id);
    bytes.extend(leb128(content.len()));
    bytes.extend(content);
    bytes
}

/// A component with the same behaviour and another digest.
pub(crate) fn with_note(component: &[u8], note: &str) -> Vec<u8> {
    with_section(component, 0, &[&[4][..], b"note", note.as_bytes()].concat())
}

/// A component that traps on instantiation.
pub(crate) fn with_trap_at_start(component: &[u8]) -> Vec<u8> {
    // One type without parameters, one function of it that is `unreachable`, and it is the start function.
    let module = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x08\x01\0\x0a\x05\x01\x03\0\0\x0b";
    let index = modules(component);
    // Instantiates the module with this index, without arguments.
    let instance = [&[1, 0][..], &leb128(index), &[0]].concat();
    with_section(&with_section(component, 1, module), 2, &instance)
}

/// A component with an unused module that is slow to compile: a number of functions with a number of steps.
pub(crate) fn with_work(component: &[u8], functions: usize, steps: usize) -> Vec<u8> {
    // One local beside the parameter; each step multiplies, adds, and stores to one of them in turn.
    let step = b"\x20\0\x20\x01\x7e\x42\x07\x7c\x21\0\x20\x01\x20\0\x7c\x21\x01";
    let body = [&[1, 1, 0x7e][..], &step.repeat(steps), b"\x20\x01\x0b"].concat();
    let body = [leb128(body.len()), body].concat();
    let section = |id: u8, content: Vec<u8>| [vec![id], leb128(content.len()), content].concat();
    let module = [
        b"\0asm\x01\0\0\0".to_vec(),
        section(1, b"\x01\x60\x01\x7e\x01\x7e".to_vec()),
        section(3, [leb128(functions), vec![0; functions]].concat()),
        section(10, [leb128(functions), body.repeat(functions)].concat()),
    ];
    with_section(component, 1, &module.concat())
}

/// Core modules of the outermost component.
fn modules(component: &[u8]) -> usize {
    let (mut depth, mut modules) = (0, 0);
    for payload in wasmparser::Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            wasmparser::Payload::ModuleSection { .. } => {
                modules += usize::from(depth == 0);
                depth += 1;
            }
            wasmparser::Payload::ComponentSection { .. } => depth += 1,
            wasmparser::Payload::End(_) => depth -= 1,
            _ => {}
        }
    }
    modules
}

fn leb128(mut number: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number > 0x7f {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// A filter whose calls go through a slot, with long waits for a loaded machine.
pub(crate) fn filter(slot: Arc<Slot>, root: &Path) -> Filter {
    Filter { failure: FailureMode::Closed, ..filter_with(slot, root) }
}

/// As [`filter`], with low limits.
pub(crate) fn strict(slot: Arc<Slot>, root: &Path) -> Filter {
    let limits = Limits {
        wall_time: Duration::from_secs(1),
        memory_bytes: 8 << 20,
        written_bytes: 4 << 20,
        files: 16,
        crossing_bytes: 1 << 20,
        ..Limits::default()
    };
    Filter { limits, ..filter(slot, root) }
}

/// A call that selects a behaviour of the test policies.
pub(crate) fn acting(behaviour: &str) -> Request {
    request(PolicySettings { custom: Some(behaviour.to_owned()), ..always() })
}

/// A small result.
pub(crate) fn payload() -> Arc<Payload> {
    text("a result")
}

/// Puts a result through the filter.
pub(crate) fn act(filter: &Filter, behaviour: &str) -> Decision {
    filter.apply(&acting(behaviour), &payload())
}

/// The signature of a reply, which must be the same in plan, file and descriptor.
pub(crate) fn signed(decision: &Decision) -> String {
    let Outcome::Offload(offloaded) = &decision.outcome else { panic!("{decision:?}") };
    let descriptor: serde_json::Value = serde_json::from_str(&offloaded.descriptor).unwrap();
    let file = std::fs::read_to_string(offloaded.offload.path().join("signed.txt")).unwrap();
    assert_eq!(descriptor["planned"], file, "planned by another version");
    assert_eq!(descriptor["signed"], file, "written by two versions");
    file
}

/// The version that answers.
pub(crate) fn answers(filter: &Filter) -> String {
    signed(&act(filter, "sign"))
}

/// Settings of a registry with [`patient`] options.
pub(crate) fn registry_settings() -> RegistrySettings {
    RegistrySettings { options: patient(), ..RegistrySettings::default() }
}

/// Compiles a policy for the test engine.
pub(crate) fn policy(bytes: &[u8]) -> Policy {
    Policy::from_bytes(lro_tests::sandbox(), bytes, &patient()).unwrap()
}

/// A call that can be given up.
pub(crate) async fn calling(filter: Filter) {
    filter.apply_async(acting("sign"), payload()).await;
}

/// Directories that are being written, of all stores below a directory.
pub(crate) fn leftovers(directory: &Path) -> usize {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.file_name().to_string_lossy().starts_with(".staging-") {
            true => 1,
            false if entry.path().is_dir() => leftovers(&entry.path()),
            false => 0,
        })
        .sum()
}
