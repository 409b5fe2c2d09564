//! Metered policies: they answer as before, and one that loops ends although nothing else bounds its time.

use std::num::NonZeroU64;
use std::time::Duration;

use lro_host::policy::Policy;
use lro_host::sandbox::{CallError, Limits};
use lro_meter::metered;
use lro_tests::vectors::{self, Vector};
use lro_tests::{call_of, component, patient, request, sandbox, settings, text};
use tempfile::TempDir;

/// More than any vector needs.
const ENOUGH: NonZeroU64 = NonZeroU64::MIN.saturating_add(4_000_000_000);

fn policy(name: &str, fuel: NonZeroU64) -> Policy {
    let metered = metered(&component(name), fuel).unwrap();
    Policy::from_bytes(sandbox(), &metered, &patient()).unwrap()
}

#[test]
fn metered_policies_give_the_vectors() {
    let of_default = (policy("lro_policy.wasm", ENOUGH), vectors::default_policy(), Vector::folder());
    let of_redact = (policy("lro_redact.wasm", ENOUGH), vectors::redacting_policy(), Vector::folder().join("redact"));
    for (policy, vectors, folder) in [of_default, of_redact] {
        for vector in vectors {
            let directory = TempDir::new().unwrap();
            let expected = std::fs::read_to_string(folder.join(&vector.name).with_extension("json")).unwrap();
            assert!(vector.outcome(&policy, directory.path()) == expected, "{}", vector.name);
        }
    }
}

#[test]
fn policies_that_loop_end() {
    let hostile = policy("lro_test_policies.wasm", NonZeroU64::new(50_000_000).unwrap());
    let limits = Limits { wall_time: Duration::from_secs(600), ..Limits::default() };
    let payload = text("some text");
    for behaviour in ["inspect-loop", "inspect-read", "inspect-read-bytewise"] {
        let mut settings = settings();
        settings.custom = Some(behaviour.to_owned());
        let call = call_of(request(settings));
        for round in 0..2 {
            let error = hostile.prepared().inspect(&limits, &call, &payload).map(drop).unwrap_err();
            assert!(matches!(error, CallError::Trap(_)), "{behaviour}, round {round}: {error}");
        }
    }
}
