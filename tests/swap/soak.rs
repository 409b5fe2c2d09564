//! Calls, swaps and faults for a while: nothing piles up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lro_host::policy::{Admission, Slot, SlotSettings};
use lro_tests::{hostile_policy, rounds, wait_until};
use tempfile::TempDir;

use crate::support::{act, calling, filter, leftovers, policy, signed, strict, version};

/// Time between two swaps.
const SWAP_PERIOD: Duration = Duration::from_millis(100);

/// Faults that a policy can have at any time.
const FAULTS: [&str; 5] = ["trap", "inspect-trap", "memory", "many-files:1000000", "lie-size"];

/// What this process holds.
#[derive(Debug)]
struct Held {
    descriptors: usize,
    threads: usize,
    resident_kib: u64,
}

impl Held {
    fn now() -> Self {
        let count = |path: &str| std::fs::read_dir(path).unwrap().count();
        let resident_kib = lro_tests::status_kib(std::process::id(), "VmRSS").unwrap();
        Self { descriptors: count("/proc/self/fd"), threads: count("/proc/self/task"), resident_kib }
    }
}

// `LRO_SOAK_SECONDS` makes it as long as wanted.
#[test]
fn nothing_piles_up() {
    let root = TempDir::new().unwrap();
    let versions = [policy(&version(1)), policy(&version(2))];
    let slot: Arc<Slot> = versions[0].clone().into();
    let (done, calls) = (AtomicBool::new(false), AtomicU64::new(0));
    let whole = Duration::from_secs(rounds("LRO_SOAK_SECONDS", 6) as u64);
    let faulty = root.path().join("faulty");
    let (early, late) = thread::scope(|scope| {
        for client in 0..4 {
            let filter = filter(Arc::clone(&slot), &root.path().join(client.to_string()));
            let (done, calls) = (&done, &calls);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let decision = act(&filter, "sign");
                    signed(&decision);
                    let lro_host::filter::Outcome::Offload(offloaded) = decision.outcome else { unreachable!() };
                    std::fs::remove_dir_all(offloaded.offload.path()).unwrap();
                    calls.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        scope.spawn(|| {
            for fault in FAULTS.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                assert!(act(&strict(hostile_policy().into(), &faulty), fault).failure.is_some(), "{fault}");
            }
        });
        let started = Instant::now();
        let swap_until = |end: Duration| {
            let mut turn = 0;
            while started.elapsed() < end {
                thread::sleep(SWAP_PERIOD);
                turn += 1;
                slot.swap(versions[turn % 2].clone());
            }
            Held::now()
        };
        let (early, late) = (swap_until(whole / 3), swap_until(whole));
        done.store(true, Ordering::Relaxed);
        (early, late)
    });
    println!("{} calls; {early:?}, then {late:?}", calls.into_inner());
    // Other tests of this process hold something too.
    assert!(late.descriptors < early.descriptors + 100 && late.threads < early.threads + 50, "{early:?}, {late:?}");
    assert!(late.resident_kib < early.resident_kib + early.resident_kib / 2 + (64 << 10), "{early:?}, {late:?}");
    assert_eq!(leftovers(root.path()), 0);
}

// Whoever gives up leaves no permit taken and no directory behind.
#[test]
fn calls_that_are_given_up_leave_nothing() {
    let root = TempDir::new().unwrap();
    let settings = SlotSettings {
        admission: Admission { calls: 4, waiting: 10_000, ..Admission::default() },
        ..Default::default()
    };
    let slot = Arc::new(Slot::new(Some(hostile_policy()), settings));
    let filter = filter(slot, root.path());
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        for round in 0..rounds("LRO_CANCELS", 1000) {
            let call = tokio::spawn(calling(filter.clone()));
            if round % 3 == 0 {
                tokio::time::sleep(Duration::from_micros(200)).await;
            }
            call.abort();
        }
    });
    // Blocking work that began goes to its end.
    drop(runtime);
    wait_until("nothing is being written", || leftovers(root.path()) == 0);
    for _ in 0..8 {
        signed(&act(&filter, "sign"));
    }
}
