//! Thousands of swaps under calls that never pause.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread;
use std::time::Duration;

use lro_host::policy::{Slot, Version};
use lro_tests::{hostile_policy, rounds};
use tempfile::TempDir;

use crate::support::{act, filter, patient, policy, signature, signed, strict, version};

const CLIENTS: usize = 8;

// No call is lost, fails, or is answered by two versions.
#[test]
fn ten_thousand_swaps_under_load() {
    let root = TempDir::new().unwrap();
    let versions = [policy(&version(1)), policy(&version(2))];
    let slot: Arc<Slot> = versions[0].clone().into();
    let (done, calls, changes) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    let swaps = rounds("LRO_SWAPS", 10_000);
    thread::scope(|scope| {
        for client in 0..CLIENTS {
            let filter = filter(Arc::clone(&slot), &root.path().join(client.to_string()));
            let (done, calls, changes) = (&done, &calls, &changes);
            scope.spawn(move || {
                let mut last = String::new();
                while !done.load(Ordering::Relaxed) {
                    let decision = act(&filter, "sign");
                    let by = signed(&decision);
                    assert!([signature(1), signature(2)].contains(&by), "{by}");
                    calls.fetch_add(1, Ordering::Relaxed);
                    changes.fetch_add(u64::from(by != last), Ordering::Relaxed);
                    last = by;
                    let lro_host::filter::Outcome::Offload(offloaded) = decision.outcome else { unreachable!() };
                    std::fs::remove_dir_all(offloaded.offload.path()).unwrap();
                }
            });
        }
        for swap in 0..swaps {
            slot.swap(versions[(swap + 1) % 2].clone());
            // Calls get their turn between two swaps, whatever the number of processors.
            thread::sleep(Duration::from_micros(500));
        }
        done.store(true, Ordering::Relaxed);
    });
    let (calls, changes) = (calls.into_inner(), changes.into_inner());
    println!("{swaps} swaps, {calls} calls, the version changed {changes} times");
    assert_eq!(slot.current().unwrap().number, swaps as u64 + 1);
    assert!(changes > 100 && calls > 1000, "{changes} changes in {calls} calls");
}

// A version lives as long as its last call, and no longer.
#[test]
fn old_versions_are_freed() {
    let root = TempDir::new().unwrap();
    let slot: Arc<Slot> = hostile_policy().into();
    let filter = strict(Arc::clone(&slot), root.path());
    let mut old: Vec<Weak<Version>> = Vec::new();
    for number in 0..20 {
        old.push(Arc::downgrade(&slot.current().unwrap()));
        slot.swap(policy(&version(number)));
        assert_eq!(signed(&act(&filter, "sign")), signature(number));
    }
    assert!(old.iter().all(|version| version.upgrade().is_none()));

    let next = policy(&version(20));
    let slow = thread::spawn({
        let filter = filter.clone();
        move || act(&filter, "loop")
    });
    let running = Arc::downgrade(&slot.current().unwrap());
    thread::sleep(Duration::from_millis(100));
    slot.swap(next);
    assert!(running.upgrade().is_some(), "freed under a call");
    slow.join().unwrap();
    assert!(running.upgrade().is_none(), "kept after its last call");
}

// Memory is flat after a thousand swaps of policies that are compiled anew.
#[test]
fn memory_is_flat_over_swaps() {
    let root = TempDir::new().unwrap();
    let slot: Arc<Slot> = hostile_policy().into();
    let filter = filter(Arc::clone(&slot), root.path());
    let cache = lro_host::policy::CompileCache::open(root.path().join("compiled")).unwrap();
    let options = lro_host::policy::LoadOptions { cache: Some(cache), ..patient() };
    let versions = [version(1), version(2)];
    // Each load makes a component anew, from compiled code.
    let load = |number: usize| {
        let bytes = &versions[number % 2];
        slot.swap(lro_host::policy::Policy::from_bytes(lro_tests::sandbox(), bytes, &options).unwrap());
        signed(&act(&filter, "sign"))
    };
    let seen: BTreeSet<_> = (0..100).map(load).collect();
    assert_eq!(seen.len(), 2);
    let (before, loads) = (pieces_of_code(), rounds("LRO_LOADS", 500));
    (0..loads).for_each(|number| drop(load(number)));
    let after = pieces_of_code();
    println!("pieces of code: {before} before, {after} after");
    // Other tests of this process load some meanwhile.
    assert!(before > 0 && after < before + loads / 4, "{before}, then {after}");
}

/// Executable memory of this process that comes from no file.
fn pieces_of_code() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains(" r-xp ") && line.split_whitespace().count() == 5).count()
}
