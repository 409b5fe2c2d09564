//! Policies that fail time after time, and tenants that call too often.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lro_host::filter::{Filter, FilterError, Outcome};
use lro_host::policy::{Admission, BreakerSettings, Policy, Slot, SlotError, SlotSettings};
use lro_host::sandbox::{CallError, Limits, Sandbox};
use lro_host::settings::FailureMode;
use lro_tests::{hostile_policy, processor_time};
use tempfile::TempDir;

use crate::support::{act, acting, component, filter, patient, payload, policy, signed, strict, version};

fn kind(filter: &Filter, behaviour: &str) -> &'static str {
    act(filter, behaviour).failure.as_ref().map_or("none", FilterError::kind)
}

fn slot(breaker: BreakerSettings) -> Arc<Slot> {
    Arc::new(Slot::new(Some(hostile_policy()), SlotSettings { breaker, ..SlotSettings::default() }))
}

fn breaking(root: &Path, pause: Duration, pause_max: Duration) -> (Arc<Slot>, Filter) {
    let slot = slot(BreakerSettings { failures: 3, pause, pause_max });
    (Arc::clone(&slot), strict(slot, root))
}

// After failures in a row the policy is not asked any more, and an answer costs next to nothing.
#[test]
fn a_failing_policy_is_parked() {
    let root = TempDir::new().unwrap();
    let (slot, filter) = breaking(root.path(), Duration::from_secs(600), Duration::from_secs(600));
    for _ in 0..3 {
        assert_eq!(kind(&filter, "trap"), "trap");
    }
    assert!(slot.status().parked_for.is_some_and(|left| left > Duration::from_secs(500)));
    let open = Filter { failure: FailureMode::Open, ..filter.clone() };
    let (request, result) = (acting("loop"), payload());
    let used = processor_time();
    for _ in 0..1000 {
        let decision = open.apply(&request, &result);
        assert!(matches!(decision.outcome, Outcome::Pass));
        assert_eq!(decision.failure.unwrap().kind(), "parked");
    }
    let used = processor_time() - used;
    assert!(used < Duration::from_millis(500), "1,000 answers took {used:?}");
    let decision = act(&filter, "sign");
    assert!(matches!(&decision.outcome, Outcome::Fail(text) if text.contains("parked")), "{decision:?}");

    slot.swap(policy(&version(7)));
    assert_eq!(signed(&act(&filter, "sign")), crate::support::signature(7));
}

// One call is let through at the end of each pause; pauses double up to their limit, and a success ends them.
#[test]
fn a_parked_policy_is_tried_again() {
    let root = TempDir::new().unwrap();
    let pause = Duration::from_millis(500);
    let (slot, filter) = breaking(root.path(), pause, pause * 3);
    (0..3).for_each(|_| assert_eq!(kind(&filter, "trap"), "trap"));
    for longest in [pause * 2, pause * 3, pause * 3] {
        thread::sleep(slot.status().parked_for.unwrap_or_default());
        assert_eq!(kind(&filter, "trap"), "trap", "one is let through");
        assert_eq!(kind(&filter, "trap"), "parked", "and no other one");
        let left = slot.status().parked_for.unwrap();
        assert!(left <= longest && left > longest - pause, "{left:?} of {longest:?}");
    }
    thread::sleep(slot.status().parked_for.unwrap_or_default());
    assert_eq!(kind(&filter, "sign"), "none");
    // The count begins anew.
    assert_eq!([(); 3].map(|()| kind(&filter, "trap")), ["trap"; 3]);
    assert_eq!(kind(&filter, "trap"), "parked");
}

// Only what is the policy's fault counts, and only in a row.
#[test]
fn what_is_not_the_policys_fault_does_not_park_it() {
    let root = TempDir::new().unwrap();
    let (_, filter) = breaking(root.path(), Duration::from_secs(600), Duration::from_secs(600));
    for (behaviour, expected) in
        [("no-such-behaviour", "refused"), ("many-files:99", "quota"), ("many-bytes:9", "quota")]
    {
        (0..5).for_each(|_| assert_eq!(kind(&filter, behaviour), expected));
    }
    for _ in 0..3 {
        (0..2).for_each(|_| assert_eq!(kind(&filter, "trap"), "trap"));
        assert_eq!(kind(&filter, "sign"), "none");
    }
    let missing = lro_host::store::StoreError::NotFound { path: "gone".into() };
    let homeless = Filter { store: Err(Arc::new(missing)), ..filter };
    (0..5).for_each(|_| assert_eq!(kind(&homeless, "sign"), "store"));
}

// Each kind of fault parks.
#[test]
fn every_fault_of_a_policy_parks_it() {
    let root = TempDir::new().unwrap();
    let faults = [
        ("inspect-trap", "trap"),
        ("inspect-loop", "deadline"),
        ("memory", "memory"),
        ("stack", "stack"),
        ("big-descriptor:1200000", "crossing"),
        ("lie-not-json", "answer"),
    ];
    for (number, (behaviour, expected)) in faults.into_iter().enumerate() {
        let (_, filter) =
            breaking(&root.path().join(number.to_string()), Duration::from_secs(600), Duration::from_secs(600));
        (0..3).for_each(|_| assert_eq!(kind(&filter, behaviour), expected));
        assert_eq!(kind(&filter, "sign"), "parked", "after {behaviour}");
    }
}

// Tables, instances and instructions beyond their limits are the policy's fault too.
#[test]
fn bombs_park_a_policy() {
    let root = TempDir::new().unwrap();
    let counting = Sandbox::with_fuel().unwrap();
    let counted = Policy::from_bytes(&counting, &component(), &patient()).unwrap();
    let bounds = |limits: Limits| Limits { wall_time: Duration::from_secs(10), ..limits };
    for (policy, limits, expected) in [
        // Every policy has more elements and instances than that.
        (hostile_policy(), Limits { table_elements: 1, ..Limits::default() }, "table"),
        (hostile_policy(), Limits { instances: 1, ..Limits::default() }, "instances"),
        (counted, Limits { fuel: Some(1000), ..Limits::default() }, "fuel"),
    ] {
        let breaker = BreakerSettings { failures: 3, pause: Duration::from_secs(600), ..BreakerSettings::default() };
        let slot = Arc::new(Slot::new(Some(policy), SlotSettings { breaker, ..SlotSettings::default() }));
        let filter = Filter { limits: bounds(limits), ..filter(slot, &root.path().join(expected)) };
        (0..3).for_each(|_| assert_eq!(kind(&filter, "sign"), expected));
        assert_eq!(kind(&filter, "sign"), "parked", "after {expected}");
    }
}

// Those beyond the bounds get the failure mode's answer while the others still run, none is lost, and the neighbour is
// answered meanwhile.
#[test]
fn a_tenant_has_a_bounded_number_of_calls() {
    const CALLS: usize = 400;
    let root = TempDir::new().unwrap();
    let admission = Admission { calls: 16, waiting: 64, wait: Duration::from_millis(50) };
    let breaker = BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() };
    let slot = Arc::new(Slot::new(Some(hostile_policy()), SlotSettings { admission, breaker }));
    let strict = strict(slot, &root.path().join("crowded"));
    // Each call that is let through runs until its deadline, which is after the last one has asked.
    let limits = Limits { wall_time: Duration::from_secs(30), ..strict.limits.clone() };
    let crowded = Filter { failure: FailureMode::Open, limits, ..strict };
    let neighbour = filter(hostile_policy().into(), &root.path().join("neighbour"));
    let (all_there, ended) = (Barrier::new(CALLS + 1), AtomicUsize::new(0));
    let (mut ran, mut refused) = (0, 0);
    thread::scope(|scope| {
        let call = || {
            all_there.wait();
            let decision = act(&crowded, "inspect-loop");
            if matches!(decision.failure, Some(FilterError::Call(_))) {
                ended.fetch_add(1, Ordering::SeqCst);
            }
            decision
        };
        let calls: Vec<_> = (0..CALLS).map(|_| scope.spawn(call)).collect();
        all_there.wait();
        for _ in 0..5 {
            signed(&act(&neighbour, "sign"));
        }
        assert_eq!(ended.load(Ordering::SeqCst), 0, "the neighbour waited for the end of a call");
        for call in calls {
            let decision = call.join().unwrap();
            match decision.failure.unwrap() {
                // What the policy never saw does not pass, whatever the mode.
                FilterError::Slot(SlotError::Busy(16)) if matches!(decision.outcome, Outcome::Truncate { .. }) => {
                    refused += 1;
                }
                FilterError::Call(CallError::Deadline(_)) if matches!(decision.outcome, Outcome::Pass) => ran += 1,
                other => panic!("{other}"),
            }
        }
    });
    assert_eq!((ran, refused), (16, CALLS - 16));
}
