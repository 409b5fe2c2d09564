//! What attacks leave behind in the process: nothing that adds up.

use std::time::Duration;

use lro_host::sandbox::Limits;
use lro_host::settings::FailureMode;

use crate::attacks;
use crate::support::{Place, alone};

/// Growth that the allocator and the pool of instances may show without there being a leak.
const GROWTH_BYTES_MAX: usize = 48 << 20;

// No descriptor, thread or memory is left after a thousand attacks.
#[test]
fn a_thousand_attacks_leave_nothing_behind() {
    let _alone = alone();
    let place = Place::new();
    let run = |calls: usize| {
        for attack in attacks::all().iter().cycle().take(calls) {
            let limits = Limits { wall_time: Duration::from_millis(20), ..attack.limits.clone() };
            drop(place.attack(&attack.policy, &limits, FailureMode::Truncate, attack.name));
            place.filter.restock();
        }
        // A writing thread may still have its last block.
        std::thread::sleep(Duration::from_millis(200));
    };
    run(attacks::all().len() * 2);
    let (descriptors, threads, bytes) = used();
    let calls = attacks::repetitions();
    run(calls);
    let (descriptors_after, threads_after, bytes_after) = used();
    println!("{calls} attacks: descriptors {descriptors} to {descriptors_after}, threads {threads} to {threads_after}");
    println!("resident memory {} to {} KiB", bytes >> 10, bytes_after >> 10);
    assert!(descriptors_after <= descriptors, "{descriptors} descriptors became {descriptors_after}");
    assert!(threads_after <= threads, "{threads} threads became {threads_after}");
    assert!(bytes_after < bytes + GROWTH_BYTES_MAX, "{bytes} bytes became {bytes_after}");
}

/// Descriptors, threads and resident bytes of this process.
fn used() -> (usize, usize, usize) {
    let entries = |directory: &str| std::fs::read_dir(directory).unwrap().count();
    let memory = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = memory.split(' ').nth(1).unwrap().parse().unwrap();
    (entries("/proc/self/fd"), entries("/proc/self/task"), pages * 4096)
}
