//! A new policy beside the old one.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lro_host::filter::Filter;
use lro_host::policy::{
    Conditions, Digest, Loaded, Location, Registry, RegistrySettings, Slot, TRIAL_EXAMPLES_MAX, TRIAL_QUEUE_MAX,
    TenantPolicy, Trial, TrialOutcome, TrialReport,
};
use lro_tests::{hostile_policy, sandbox, wait_until};
use tempfile::TempDir;

use crate::support::{
    act, acting, answers, component, filter, payload, policy, registry_settings, signature, strict, version, with_note,
};

const PROMOTE: Trial = Trial { calls: Some(10), time: None, promote: true };

fn slot_and_filter(root: &Path) -> (Arc<Slot>, Filter) {
    let slot: Arc<Slot> = policy(&version(1)).into();
    (Arc::clone(&slot), filter(slot, root))
}

fn report(slot: &Slot) -> TrialReport {
    slot.status().trial.expect("a trial")
}

/// Puts so many results through, one after the other, so that none finds the trial busy.
fn feed(slot: &Slot, filter: &Filter, behaviour: &str, count: u64) {
    for _ in 0..count {
        let seen = |report: &TrialReport| report.same + report.different + report.failed;
        let before = seen(&report(slot));
        act(filter, behaviour);
        wait_until("a comparison", || seen(&report(slot)) > before || report(slot).outcome.is_some());
    }
}

// A policy that decides alike takes over; the old one answers until then.
#[test]
fn a_trial_without_differences_promotes() {
    let root = TempDir::new().unwrap();
    let (slot, filter) = slot_and_filter(root.path());
    let same = policy(&with_note(&version(1), "new"));
    slot.begin_trial(same.clone(), PROMOTE).unwrap();
    feed(&slot, &filter, "sign", 9);
    assert_eq!((slot.current().unwrap().number, report(&slot).outcome), (1, None));
    feed(&slot, &filter, "sign", 1);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    let found = report(&slot);
    assert_eq!((found.same, found.different, found.failed, found.skipped), (10, 0, 0, 0), "{found:?}");
    assert_eq!((found.digest, found.outcome), (*same.digest(), Some(TrialOutcome::Promoted(2))));
    assert_eq!(slot.current().unwrap().policy.digest(), same.digest());
    assert_eq!(answers(&filter), signature(1));
    // Of what it wrote nothing is left.
    let left = fs::read_dir(root.path().join(lro_tests::TENANT)).unwrap();
    assert!(left.map(|entry| entry.unwrap().file_name()).all(|name| !name.to_string_lossy().starts_with('.')));
}

// A policy that differs is dropped, and the report says where.
#[test]
fn a_trial_with_differences_is_dropped() {
    let root = TempDir::new().unwrap();
    let (slot, filter) = slot_and_filter(root.path());
    let many = Trial { calls: Some(TRIAL_EXAMPLES_MAX as u64 + 5), ..PROMOTE };
    slot.begin_trial(policy(&version(2)), many).unwrap();
    for _ in 0..TRIAL_EXAMPLES_MAX + 5 {
        feed(&slot, &filter, "sign", 1);
    }
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    let found = report(&slot);
    assert_eq!((found.same, found.different, found.failed), (0, TRIAL_EXAMPLES_MAX as u64 + 5, 0));
    assert_eq!(found.examples.len(), TRIAL_EXAMPLES_MAX);
    assert_eq!((found.examples[0].tool.as_str(), found.examples[0].what.as_str()), ("tool", "file `signed.txt`"));
    assert_eq!(found.outcome, Some(TrialOutcome::Dropped));
    assert_eq!(answers(&filter), signature(1));
}

// Verdicts and failures are compared, and a failure of the new policy reaches nobody.
#[test]
fn a_trial_compares_verdicts_and_failures() {
    let root = TempDir::new().unwrap();
    let slot: Arc<Slot> = lro_tests::default_policy().into();
    let filter = strict(Arc::clone(&slot), root.path());
    slot.begin_trial(hostile_policy(), Trial { calls: Some(4), ..PROMOTE }).unwrap();
    feed(&slot, &filter, "inspect-directories", 1);
    feed(&slot, &filter, "trap", 2);
    feed(&slot, &filter, "loop", 1);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    let found = report(&slot);
    assert_eq!((found.same, found.different, found.failed), (0, 1, 3), "{found:?}");
    assert_eq!(found.examples[0].what, "verdict: reject with \"0\", not offload");
    assert!(found.examples[1].what.contains("the policy failed"), "{found:?}");
    assert_eq!(found.outcome, Some(TrialOutcome::Dropped));
    assert!(slot.status().parked_for.is_none());

    // The other way round: the old one fails, the new one does not; then both fail alike.
    let slot: Arc<Slot> = hostile_policy().into();
    let filter = strict(Arc::clone(&slot), &root.path().join("other"));
    slot.begin_trial(lro_tests::default_policy(), Trial { calls: Some(1), ..PROMOTE }).unwrap();
    feed(&slot, &filter, "trap", 1);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!(report(&slot).examples[0].what, "succeeds where the current policy fails (trap)");
    slot.begin_trial(policy(&with_note(&component(), "2")), Trial { calls: Some(1), ..PROMOTE }).unwrap();
    feed(&slot, &filter, "trap", 1);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!(report(&slot).same, 1);
}

// Time ends a trial, a swap ends it, a report alone changes nothing, and calls never wait for it.
#[test]
fn a_trial_ends_in_time_and_holds_up_nobody() {
    let root = TempDir::new().unwrap();
    let (slot, filter) = slot_and_filter(root.path());
    let short = Trial { calls: None, time: Some(Duration::from_millis(300)), promote: false };
    slot.begin_trial(policy(&with_note(&version(1), "same")), short).unwrap();
    feed(&slot, &filter, "sign", 3);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!((report(&slot).outcome, slot.current().unwrap().number), (Some(TrialOutcome::Dropped), 1));

    slot.begin_trial(policy(&with_note(&version(1), "idle")), Trial { time: short.time, ..PROMOTE }).unwrap();
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!(report(&slot).outcome, Some(TrialOutcome::Dropped), "promoted without a single comparison");

    // The policy on trial loops until its deadline of a second, whereas the default policy answers.
    let slot: Arc<Slot> = lro_tests::default_policy().into();
    let filter = strict(Arc::clone(&slot), &root.path().join("other"));
    slot.begin_trial(hostile_policy(), Trial { calls: None, time: None, promote: true }).unwrap();
    for _ in 0..TRIAL_QUEUE_MAX + 30 {
        assert!(filter.apply(&acting("loop"), &payload()).failure.is_none());
    }
    // A call that waited for its turn in the trial would not have been left out.
    assert!(report(&slot).skipped >= 10, "{:?}", report(&slot));
    slot.swap(policy(&version(3)));
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!((report(&slot).outcome, slot.current().unwrap().number), (Some(TrialOutcome::Ended), 2));
}

// A tenant may want a trial for every new version; one that takes over is remembered.
#[test]
fn a_new_file_goes_on_trial() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    let next = with_note(&version(1), "next");
    let settings = || RegistrySettings { kept: Some(root.path().join("kept")), ..registry_settings() };
    let from =
        || TenantPolicy { location: Location::File(file.clone()), trial: Some(PROMOTE), ..TenantPolicy::default() };
    fs::write(&file, version(1)).unwrap();
    let registry = Registry::new(sandbox().clone(), settings()).unwrap();
    assert!(matches!(registry.add("acme", from()).unwrap(), Loaded::Swapped(_)), "there is nothing to compare with");
    fs::write(&file, &next).unwrap();
    assert!(
        matches!(registry.reload_tenant("acme", Conditions::default()).unwrap(), Loaded::OnTrial(digest) if digest == Digest::of(&next))
    );
    let slot = registry.slot("acme").unwrap();
    let filter = filter(Arc::clone(&slot), &root.path().join("store"));
    feed(&slot, &filter, "sign", 10);
    wait_until("the trial's end", || report(&slot).outcome.is_some());
    assert_eq!(slot.current().unwrap().number, 2);

    drop(registry);
    fs::write(&file, "cut").unwrap();
    let registry = Registry::new(sandbox().clone(), settings()).unwrap();
    registry.add("acme", from()).unwrap_err();
    let serving = registry.slot("acme").unwrap().current().unwrap();
    assert_eq!(*serving.policy.digest(), Digest::of(&next));
}
