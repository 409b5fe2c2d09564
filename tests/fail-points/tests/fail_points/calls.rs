//! Calls: the failure mode answers, nothing half is published, nothing is lost.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use lro_host::filter::{Decision, Filter, FilterError, Outcome};
use lro_host::policy::{Admission, Policy, Slot, SlotSettings, Trial, TrialOutcome};
use lro_host::settings::FailureMode;
use lro_host::store::FileKind;
use lro_tests::{TENANT, always, default_policy, patient, request, sandbox, text};
use tempfile::TempDir;

use crate::support::{Action, DELAY, filter, leftovers, version, with, within};

/// Points of a call, the kinds of failure that an error and a panic there are, and whether it was decided to write by then.
const POINTS: [(&str, Option<&str>, &str, bool); 9] = [
    ("sandbox::instantiate", Some("output"), "panic", false),
    ("sandbox::inspect", Some("output"), "panic", false),
    ("store::stage", Some("store"), "panic", true),
    ("sandbox::write", Some("output"), "panic", true),
    // It has no errors of its own, and its panic is found by who waits for it.
    ("sandbox::write-thread", None, "output", true),
    ("sandbox::finish", Some("output"), "panic", true),
    ("store::write", Some("store"), "panic", true),
    ("store::publish", Some("store"), "panic", true),
    ("store::published", Some("store"), "panic", true),
];

/// One call at a time: a place that is not given back is missed by the next one.
fn filter_of_one(root: &Path) -> Filter {
    let admission = Admission { calls: 1, waiting: 0, ..Admission::default() };
    let settings = SlotSettings { admission, ..SlotSettings::default() };
    filter(Arc::new(Slot::new(Some(default_policy()), settings)), root)
}

/// A result that is large enough for a thread that writes.
fn call(filter: &Filter) -> Decision {
    filter.apply(&request(always()), &text("a line of a result\n".repeat(20_000)))
}

/// Descriptors and threads of this process.
fn held() -> (usize, usize) {
    let count = |path: &str| std::fs::read_dir(path).unwrap().count();
    (count("/proc/self/fd"), count("/proc/self/task"))
}

/// Reads every published file with its digest compared, and nothing else lies there.
fn check_store(filter: &Filter, root: &Path, what: &str) -> usize {
    let store = filter.store.as_ref().unwrap();
    store.sweep(std::time::SystemTime::now()).unwrap();
    assert_eq!(leftovers(root), [""; 0], "{what}");
    let listed = store.list();
    for offload in &listed {
        let found = store.find(TENANT, offload.id).unwrap();
        let files = &found.record().files;
        assert!(!files.is_empty() && files.iter().all(|file| file.kind == FileKind::Text), "{what}");
        for file in files {
            let mut bytes = Vec::new();
            std::fs::File::open(found.path().join(&file.name)).unwrap().read_to_end(&mut bytes).unwrap();
            assert_eq!(file.sha256, Some(lro_host::store::Digest::of(&bytes)), "{what}");
        }
    }
    assert_eq!(store.usage().bytes, listed.iter().map(|offload| offload.bytes).sum::<u64>(), "{what}: counted");
    listed.len()
}

// Each point in each mode; a host that panics is a failure like others.
#[test]
fn every_failing_step_of_a_call_has_the_answer_of_the_mode() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    let mut before = (0, 0);
    for mode in [FailureMode::Open, FailureMode::Closed] {
        let filter = Filter { failure: mode, ..filter_of_one(&root.path().join(format!("{mode:?}"))) };
        let mut published = 0;
        for (point, error, panic, wrote) in POINTS {
            for action in Action::ALL {
                let what = format!("{action:?} at {point}, {mode:?}");
                let (decision, took) = with(point, action, || call(&filter));
                let kind = decision.failure.as_ref().map(FilterError::kind);
                match action {
                    Action::Error => assert_eq!(kind, error, "{what}: {decision:?}"),
                    Action::Panic => assert_eq!(kind, Some(panic), "{what}: {decision:?}"),
                    Action::Delay => assert!(kind.is_none() && took >= DELAY, "{what}: {took:?}, {decision:?}"),
                }
                let is_right = match (&decision.outcome, kind, mode) {
                    (Outcome::Offload(_), None, _) => true,
                    (Outcome::Pass, Some(_), FailureMode::Open) => !wrote,
                    (Outcome::Truncate { warning: Some(_), .. }, Some(_), FailureMode::Open) => wrote,
                    (Outcome::Fail(_), Some(_), FailureMode::Closed) => true,
                    _ => false,
                };
                assert!(is_right, "{what}: {decision:?}");
                published += usize::from(kind.is_none());
                within(&what, || assert!(call(&filter).failure.is_none(), "{what}: the next call"));
                published += 1;
            }
            assert_eq!(check_store(&filter, root.path(), point), published, "{point}");
            if before == (0, 0) {
                before = held();
            }
        }
    }
    let after = held();
    // The second store holds its root and its owner file; everything of a call is gone.
    assert!(after.0 <= before.0 + 4 && after.1 <= before.1, "{before:?}, then {after:?}");
}

// Who asks for a verdict alone, and who makes ready for the next call.
#[test]
fn a_panic_stays_in_its_call() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    let filter = filter_of_one(root.path());
    let (request, result) = (request(always()), text("a result"));
    let (inspected, _) = with("sandbox::inspect", Action::Panic, || filter.inspect(&request, &result));
    let error = inspected.unwrap_err();
    assert!(matches!(&error, FilterError::Panic(text) if text.contains("sandbox::inspect")), "{error}");
    with("sandbox::instantiate", Action::Panic, || filter.restock());
    filter.inspect(&request, &result).unwrap();
    filter.restock();
    assert!(call(&filter).failure.is_none());
    assert!(filter.slot.status().parked_for.is_none());
}

// A trial whose comparison panics goes on, ends, and promotes nothing.
#[test]
fn a_trial_survives_a_panic() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    let filter = filter_of_one(root.path());
    let other = Policy::from_bytes(sandbox(), &version(2), &patient()).unwrap();
    let trial = Trial { calls: Some(2), time: None, promote: true };
    filter.slot.begin_trial(other, trial).unwrap();
    let report = || filter.slot.status().trial.unwrap();
    with("policy::trial", Action::Panic, || {
        assert!(call(&filter).failure.is_none());
        crate::support::wait_until("the comparison", || report().failed == 1);
    });
    assert!(report().examples[0].what.contains("the host panicked"), "{:?}", report());
    assert!(call(&filter).failure.is_none());
    crate::support::wait_until("the end of the trial", || report().outcome.is_some());
    assert_eq!((report().outcome, filter.slot.current().unwrap().number), (Some(TrialOutcome::Dropped), 1));
}
