//! Many tenants and offloads on one bucket: what a sweep, a count and a publication take in time, requests and memory. Beside it, a
//! tenth of them in a directory.

use std::fs;
use std::time::{Duration, Instant, SystemTime};

use lro_host::store::{Store, StoreConfig};
use lro_tests::synthetic;
use tempfile::TempDir;

use crate::server::{Requests, Server, id};
use crate::shared::{measured, millis};

/// Offloads, and tenants that have them: as many as can be made up each time. `LRO_BENCH_OFFLOADS` is another number of offloads, or 0 to
/// leave this out.
const OFFLOADS: usize = 100_000;
const TENANTS: usize = 10_000;
/// Of sweeps, as for a gateway with the default time to live.
const PERIOD: Duration = Duration::from_secs(60);

pub(crate) fn measure() {
    let offloads = std::env::var("LRO_BENCH_OFFLOADS").map_or(OFFLOADS, |count| count.parse().unwrap());
    if offloads == 0 {
        return;
    }
    let tenants = TENANTS.min(offloads);
    println!("\n{offloads} offloads of {tenants} tenants in a bucket in memory, half of them expired");
    let (server, directory) = (Server::start(tenants, offloads / tenants), TempDir::new().unwrap());
    let open = |name: &str| {
        let bucket = lro_tests::bucket::config("s3://bench/scale", server.port);
        let config = StoreConfig { total_bytes_max: u64::MAX, ..StoreConfig::new(directory.path().join(name)) };
        Store::open_unswept(StoreConfig { bucket: Some(bucket), ..config }).unwrap()
    };
    let small = lro_tests::text(synthetic::payload(200));
    // Compiles the policy.
    drop(crate::publish(&Store::open(StoreConfig::new(directory.path().join("local"))).unwrap(), &small));
    let of = format!("{offloads} offloads");
    let (one, two) = (open("one"), open("two"));
    let step = |name: &str, run: &mut dyn FnMut()| step(name, &|| server.seen(), run);
    step(&format!("a sweep of {of}, half of them removed"), &mut || {
        assert_eq!(sweep(&one), offloads / 2);
    });
    step(&format!("a sweep of {}, none removed", offloads / 2), &mut || assert_eq!(sweep(&one), 0));
    let in_turn = |store: &Store| assert_eq!(store.sweep_in_turn(SystemTime::now(), PERIOD).unwrap().expired, 0);
    step("the same, by the gateway whose turn it is", &mut || in_turn(&one));
    step("by one whose turn it is not", &mut || in_turn(&two));
    step("the first offload of a tenant", &mut || drop(crate::publish(&two, &small)));
    step("a further offload", &mut || drop(crate::publish(&two, &small)));
    in_directory(tenants, (offloads / 10 / tenants).max(1));
}

fn in_directory(tenants: usize, offloads: usize) {
    let of = format!("{} offloads", tenants * offloads);
    println!("\n{of} of {tenants} tenants in a directory, half of them expired");
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    for (tenant, offload) in (0..tenants).flat_map(|tenant| (0..offloads).map(move |offload| (tenant, offload))) {
        let of_tenant = directory.path().join(format!("tenant-{tenant}"));
        let path = of_tenant.join(id(tenant, tenant * offloads + offload).to_string());
        fs::create_dir_all(&path).unwrap();
        for name in ["items.jsonl", "manifest.json"] {
            fs::write(path.join(name), "{}\n").unwrap();
        }
    }
    let store = Store::open_unswept(StoreConfig::new(directory.path())).unwrap();
    let step = |name: &str, run: &mut dyn FnMut()| step(name, &Requests::new, run);
    step(&format!("a sweep of {of} in a directory, half removed"), &mut || {
        assert_eq!(sweep(&store), tenants * offloads / 2);
    });
    step("another, none removed", &mut || assert_eq!(sweep(&store), 0));
}

/// The number of offloads that had expired.
fn sweep(store: &Store) -> usize {
    usize::try_from(store.sweep(SystemTime::now()).unwrap().expired).unwrap()
}

/// Prints what a step takes, with the requests since the last time.
fn step(name: &str, seen: &dyn Fn() -> Requests, run: &mut dyn FnMut()) {
    seen();
    reset_peak();
    let (before, started) = (mib("VmRSS"), Instant::now());
    run();
    let time: Duration = started.elapsed();
    let (memory, seen) = (mib("VmHWM") - before, seen());
    let requests: Vec<String> = seen.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
    println!("  {name:<58} {:>9.1} ms  +{memory:>6.1} MiB  {}", millis(time), requests.join(", "));
    measured(name, millis(time), "ms");
}

/// From now on, the peak is that from now on.
fn reset_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

fn mib(name: &str) -> f64 {
    lro_tests::status_kib(std::process::id(), name).unwrap() as f64 / 1024.0
}
