//! Never a byte of another tenant, another session or an earlier call.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lro_host::filter::{Filter, Outcome};
use lro_host::sandbox::{Limits, Part, PartKind, Payload};
use lro_host::store::Ulid;
use lro_tests::{filter_with, hostile_policy, rounds};
use proptest::prelude::*;
use tempfile::TempDir;

use crate::support::{request, tight, together};

/// Tenants with names that are close to each other, or to a path.
const TENANTS: [&str; 6] = ["a", "b", "a/b", "A", "..", "a\u{0}"];

/// What a tenant does.
#[derive(Clone, Copy, Debug)]
enum Operation {
    /// Fills its memory and a file with its secret.
    Plant,
    /// Looks for any secret but its own.
    Snoop,
    /// The same, with an instance made in advance.
    SnoopAfterRestock,
    /// Asks for what another tenant published last.
    Read(usize),
}

fn operation() -> impl Strategy<Value = (usize, Operation)> {
    let operation = prop_oneof![
        Just(Operation::Plant),
        Just(Operation::Snoop),
        Just(Operation::SnoopAfterRestock),
        (0..TENANTS.len()).prop_map(Operation::Read),
    ];
    (0..TENANTS.len(), operation)
}

/// A secret of 20 bytes that tells its tenant.
fn secret(tenant: usize, number: usize) -> String {
    format!("SECRET-{tenant}-{number:011}")
}

fn act(filter: &Filter, tenant: usize, behaviour: &str, secret: &str) -> lro_host::filter::Offloaded {
    let payload = Arc::new(Payload::new(vec![Part::text(PartKind::Text, secret.to_owned().into()).unwrap()]));
    let decision = filter.apply(&request(TENANTS[tenant], behaviour), &payload);
    match decision.outcome {
        Outcome::Offload(offloaded) => *offloaded,
        other => panic!("{behaviour}: {other:?}, {:?}", decision.failure),
    }
}

/// All secrets in the files below a directory.
fn secrets(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            secrets(&path, found);
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            found.extend(text.match_indices("SECRET-").filter_map(|(at, _)| Some(text.get(at..at + 20)?.to_owned())));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: u32::try_from(rounds("LRO_ISOLATION_CASES", 24)).unwrap(), failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn no_tenant_sees_a_byte_of_another(operations in prop::collection::vec(operation(), 1..24)) {
        let _together = together();
        let root = TempDir::new().unwrap();
        let limits = Limits { memory_bytes: 16 << 20, wall_time: Duration::from_secs(10), ..tight() };
        let filter = Filter { limits, ..filter_with(hostile_policy(), root.path()) };
        let mut last: [Option<Ulid>; TENANTS.len()] = [None; TENANTS.len()];
        for (number, (tenant, operation)) in operations.into_iter().enumerate() {
            let own = secret(tenant, number);
            match operation {
                Operation::Plant => {
                    let planted = act(&filter, tenant, "plant-secret", &own).offload;
                    let mut found = Vec::new();
                    secrets(planted.path().parent().unwrap(), &mut found);
                    prop_assert!(found.contains(&own));
                    let is_own = |secret: &String| secret.starts_with(&format!("SECRET-{tenant}-"));
                    prop_assert!(found.iter().all(is_own), "tenant {tenant} has {found:?}");
                    last[tenant] = Some(planted.id());
                }
                Operation::Snoop | Operation::SnoopAfterRestock => {
                    if matches!(operation, Operation::SnoopAfterRestock) {
                        filter.restock();
                    }
                    let descriptor = act(&filter, tenant, "snoop", &own).descriptor;
                    prop_assert_eq!(descriptor, r#"{"found":[]}"#);
                }
                Operation::Read(other) => {
                    let Some(id) = last[other] else { continue };
                    let found = filter.store.as_ref().unwrap().find(TENANTS[tenant], id);
                    prop_assert_eq!(found.is_ok(), tenant == other, "tenant {} asks for one of {}", tenant, other);
                }
            }
        }
    }
}

// Pages that one call filled are empty for the next one, however often.
#[test]
fn no_memory_of_an_earlier_call_is_seen() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let limits = Limits { memory_bytes: 16 << 20, wall_time: Duration::from_secs(10), ..tight() };
    let filter = Filter { limits, ..filter_with(hostile_policy(), root.path()) };
    for number in 0..rounds("LRO_MEMORY_ROUNDS", 500) {
        act(&filter, 0, "plant-secret", &secret(0, number));
        assert_eq!(act(&filter, 1, "snoop", &secret(1, number)).descriptor, r#"{"found":[]}"#);
    }
}

// The search finds what is there, so that finding nothing means something.
#[test]
fn the_search_finds_a_secret() {
    let _together = together();
    let root = TempDir::new().unwrap();
    let limits = Limits { memory_bytes: 16 << 20, ..tight() };
    let filter = Filter { limits, ..filter_with(hostile_policy(), root.path()) };
    let (own, foreign) = (secret(0, 1), secret(1, 2));
    let text = format!("{own}{foreign}");
    let found = act(&filter, 0, "snoop", &text).descriptor;
    assert!(found.contains(&own) && found.contains(&foreign), "{found}");
}
