//! The redacting policy in the host: no secret reaches a file, a manifest, a descriptor, a note or a reply.

#![expect(clippy::unwrap_used, clippy::panic, reason = "these are tests")]

mod documents;
mod small;
mod speed;
mod texts;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use lro_host::filter::{Decision, Filter, Outcome};
use lro_host::policy::{DEFAULT_POLICY, Policy};
use lro_host::settings::{FailureMode, PolicySettings};
use lro_host::store::{Fsync, Store, StoreConfig};
use lro_tests::{
    always, default_policy, filter_with, imports, offloaded, patient, request, sandbox, settings, structured, target,
};
use tempfile::TempDir;

/// The replacement of a secret.
const REPLACEMENT: &str = "[redacted]";

/// A secret of each kind, none of which is ever escaped in JSON.
const SECRETS: [&str; 6] = [
    "nobody.s3cret@example.com",
    "4111111111111111",
    "5500-0000-0000-0004",
    "sk-s3cret0123456789abcdef",
    "AKIAS3CRETS3CRETS3CR",
    "eyJzM2NyZXQi.eyJzM2NyZXQi.czNjcmV0LXMzY3JldA",
];

/// Path of the component.
fn component() -> PathBuf {
    target().join("wasm32-unknown-unknown/component/lro_redact.wasm")
}

/// The redacting policy, compiled once.
fn redacting_policy() -> Policy {
    static POLICY: OnceLock<Policy> = OnceLock::new();
    let load = || {
        let hint = "cargo build --profile component --target wasm32-unknown-unknown -p lro-redact";
        Policy::from_file(sandbox(), &component(), &patient()).unwrap_or_else(|error| panic!("{error}: run `{hint}`"))
    };
    POLICY.get_or_init(load).clone()
}

/// A filter as an operator should configure it: results that cannot be redacted do not pass.
fn redacting(root: &Path) -> Filter {
    Filter { failure: FailureMode::Closed, ..filter_with(redacting_policy(), root) }
}

fn with_custom(settings: PolicySettings, custom: &str) -> PolicySettings {
    PolicySettings { custom: Some(custom.to_owned()), ..settings }
}

/// A text with the escapes of ASCII characters decoded, to reveal escaped secrets.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes).into_owned();
    (' '..='~')
        .fold(text, |text, character| text.replace(&format!("\\u{:04x}", u32::from(character)), &character.to_string()))
}

/// Panics when there is a secret in the output for a result: files, including the manifest, descriptor and notes.
fn assert_clean(decision: &Decision, root: &Path) {
    let mut seen = vec![(PathBuf::from("the decision"), shown(format!("{decision:?}").as_bytes()))];
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => directories.push(path.clone()),
                false => seen.push((path.clone(), shown(&std::fs::read(&path).unwrap()))),
            }
            seen.push((PathBuf::from("a name"), path.to_string_lossy().into_owned()));
        }
    }
    for (place, text) in seen {
        for secret in SECRETS.iter().chain(&["s3cret", "S3CRET"]) {
            assert!(!text.contains(secret), "{secret} in {}: {text:.3000}", place.display());
        }
    }
}

#[test]
fn the_component_imports_what_the_default_policy_imports() {
    let found = imports(&std::fs::read(component()).unwrap());
    assert!(!found.is_empty());
    assert_eq!(found, imports(DEFAULT_POLICY));
}

/// The records of the only section of an offload, without the header.
fn records(decision: Decision) -> Vec<serde_json::Value> {
    let offloaded = offloaded(decision);
    let file = std::fs::read_to_string(offloaded.offload.path().join("people.jsonl")).unwrap();
    file.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect()
}

// Two tenants of one store, each with a policy of its own.
#[test]
fn each_tenant_has_its_own_policy() {
    let person = |id: u32| {
        serde_json::json!({
            "id": id, "name": format!("Person {id}"), "mail": format!("nobody.s3cret{id}@example.com"),
            "password": {"old": ["s3cret"]}, "note": format!("pays with 4111 1111 1111 1111 since {id}"),
        })
    };
    let people: Vec<_> = (0..1000).map(person).collect();
    let document = serde_json::json!({ "people": people }).to_string();
    let root = TempDir::new().unwrap();
    let store = Store::open(StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root.path()) }).unwrap();
    let open = Filter { store: Ok(store.clone()), ..filter_with(default_policy(), root.path()) };
    let closed = Filter { store: Ok(store), ..redacting(root.path()) };
    let of = |tenant: &str, filter: &Filter| {
        let request = lro_host::filter::Request { tenant: tenant.to_owned(), ..request(settings()) };
        filter.apply(&request, &structured(document.clone()))
    };
    assert_eq!(records(of("open", &open)), people);
    let decision = of("closed", &closed);
    assert_clean(&decision, &root.path().join("closed"));
    for (record, person) in records(decision).iter().zip(&people) {
        let mut wanted = person.clone();
        wanted["mail"] = REPLACEMENT.into();
        wanted["password"] = REPLACEMENT.into();
        wanted["note"] = format!("pays with {REPLACEMENT} since {}", person["id"]).into();
        assert_eq!(*record, wanted);
    }
}

#[test]
fn unknown_and_malformed_settings_are_an_error() {
    for custom in ["x", "[]", r#"{"field":["a"]}"#, r#"{"patterns":["emails"]}"#] {
        let root = TempDir::new().unwrap();
        let decision = redacting(root.path()).apply(&request(with_custom(always(), custom)), &structured("[1]"));
        let Outcome::Fail(text) = &decision.outcome else { panic!("{custom}: {:?}", decision.outcome) };
        assert!(text.contains("custom: "), "{text}");
    }
}
