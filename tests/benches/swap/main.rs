//! Measures the cost of a swap for callers, and the time and memory of a tenant.
//!
//! `LRO_SWAPS` swaps, 10,000 by default, while 8 clients call; `LRO_TENANTS` tenants with a module each, 1,000 by
//! default, and ten times as many with a single module.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a benchmark that cannot go on ends")]

#[expect(dead_code, reason = "it has records and jobs of its own")]
#[path = "../shared/mod.rs"]
mod shared;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use lro_host::filter::{Filter, Outcome, Request};
use lro_host::policy::{CompileCache, LoadOptions, Location, Policy, Registry, RegistrySettings, Slot, TenantPolicy};
use lro_host::sandbox::{Limits, Payload, Sandbox};
use lro_host::settings::{FailureMode, PolicySettings};
use lro_host::store::{Store, StoreConfig};
use lro_tests::{always, request, sandbox, target, text};
use shared::{compared, measured, millis, percentile};
use tempfile::TempDir;

const CLIENTS: usize = 8;
const MARKER: &[u8] = b"SIGNATURE-AAAAAAAA";

/// Greatest ratio of the p99 of calls with swaps to that without.
const RATIO_MAX: f64 = 1.2;
/// Longest start time of 1,000 tenants from compiled code.
const WARM_START_MAX: Duration = Duration::from_secs(2);

fn main() {
    let root = TempDir::new().unwrap();
    swaps(root.path());
    density(root.path());
}

fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// A version of the test policies that signs with its number.
fn version(number: usize) -> Vec<u8> {
    let path = target().join("wasm32-unknown-unknown/component/lro_test_policies.wasm");
    let mut bytes = fs::read(path).unwrap();
    let at = bytes.windows(MARKER.len()).position(|window| window == MARKER).unwrap();
    bytes[at..at + MARKER.len()].copy_from_slice(format!("SIGNATURE-{number:08}").as_bytes());
    bytes
}

fn signing() -> Request {
    request(PolicySettings { custom: Some("sign".to_owned()), ..always() })
}

fn filter(slot: Arc<Slot>, root: &Path) -> Filter {
    let store = Store::open(StoreConfig { fsync: false, ..StoreConfig::new(root) }).unwrap();
    Filter { slot, store: Ok(store), limits: Limits::default(), failure: FailureMode::Closed, documents: None }
}

/// The signature of one call, whose offload is removed.
fn call(filter: &Filter, request: &Request, payload: &Arc<Payload>) -> String {
    let decision = filter.apply(request, payload);
    let Outcome::Offload(offloaded) = decision.outcome else { panic!("{decision:?}") };
    fs::remove_dir_all(offloaded.offload.path()).unwrap();
    offloaded.descriptor
}

fn swaps(root: &Path) {
    let count = number("LRO_SWAPS", 10_000);
    let versions =
        [1, 2].map(|number| Policy::from_bytes(sandbox(), &version(number), &LoadOptions::default()).unwrap());
    let slot: Arc<Slot> = versions[0].clone().into();
    // As long without swaps as with them; the first round is a warm-up.
    let pace = Duration::from_micros(500);
    let mut quiet = Vec::new();
    for round in 0..2 {
        quiet = calls(&slot, &root.join(format!("quiet-{round}")), || (0..count).for_each(|_| thread::sleep(pace)));
    }
    let memory = resident();
    let mut swapping = Vec::new();
    let busy = calls(&slot, &root.join("busy"), || {
        for swap in 0..count {
            let started = Instant::now();
            slot.swap(versions[(swap + 1) % 2].clone());
            swapping.push(started.elapsed());
            thread::sleep(pace);
        }
    });
    let ratio = percentile(&busy, 99).as_secs_f64() / percentile(&quiet, 99).as_secs_f64();
    compared("calls with swaps", &busy, "calls without swaps", &quiet);
    measured("p99 of calls with swaps / without", ratio, "");
    measured("a swap", millis(percentile(&swapping, 50)), "ms");
    let line = |name: &str, times: &[Duration]| {
        let [median, most, all] = [50, 99, 100].map(|percent| percentile(times, percent));
        println!(
            "{name:<28} {:>8} times  median {median:>10.1?}  p99 {most:>10.1?}  longest {all:>10.1?}",
            times.len()
        );
    };
    line("calls without swaps", &quiet);
    line("calls with swaps", &busy);
    line("swaps", &swapping);
    println!("p99 of calls with swaps to without: {ratio:.2} (at most {RATIO_MAX}){}", verdict(ratio <= RATIO_MAX));
    println!("memory before and after {count} swaps: {} and {} KiB", memory >> 10, resident() >> 10);
}

/// The times of the calls of 8 clients that never pause, during a job.
fn calls(slot: &Arc<Slot>, root: &Path, work: impl FnOnce()) -> Vec<Duration> {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|client| {
                let (done, filter) = (&done, filter(Arc::clone(slot), &root.join(client.to_string())));
                scope.spawn(move || {
                    let (request, payload, mut times) = (signing(), text("a result"), Vec::new());
                    while !done.load(Ordering::Relaxed) {
                        let started = Instant::now();
                        let descriptor = call(&filter, &request, &payload);
                        times.push(started.elapsed());
                        let signed: serde_json::Value = serde_json::from_str(&descriptor).unwrap();
                        assert_eq!(signed["planned"], signed["signed"]);
                    }
                    times
                })
            })
            .collect();
        work();
        done.store(true, Ordering::Relaxed);
        clients.into_iter().flat_map(|client| client.join().unwrap()).collect()
    })
}

fn verdict(is_so: bool) -> &'static str {
    if is_so { "" } else { "  MISSED" }
}

fn density(root: &Path) {
    let count = number("LRO_TENANTS", 1000);
    let directory = root.join("policies");
    fs::create_dir(&directory).unwrap();
    for number in 0..count {
        fs::write(directory.join(format!("{number:05}.wasm")), version(number)).unwrap();
    }
    let compiled = root.join("compiled");
    let cold =
        tenants("distinct modules, cold", count, &compiled, |number| directory.join(format!("{number:05}.wasm")));
    let warm =
        tenants("distinct modules, warm", count, &compiled, |number| directory.join(format!("{number:05}.wasm")));
    println!("cold to warm: {:.0} times", cold.as_secs_f64() / warm.as_secs_f64());
    if count == 1000 {
        println!("warm start of 1,000 (at most {WARM_START_MAX:?}): {warm:.2?}{}", verdict(warm <= WARM_START_MAX));
    }
    tenants("one module, warm", count * 10, &compiled, |_| directory.join("00000.wasm"));
}

/// Starts a number of tenants, and calls the first and the last of them.
fn tenants(name: &str, count: usize, compiled: &Path, file: impl Fn(usize) -> std::path::PathBuf) -> Duration {
    let root = TempDir::new().unwrap();
    let options = LoadOptions { cache: Some(CompileCache::open(compiled).unwrap()), ..LoadOptions::default() };
    let before = resident();
    let settings = RegistrySettings { options, ..RegistrySettings::default() };
    let registry = Registry::new(Sandbox::new().unwrap(), settings).unwrap();
    let from = |number| TenantPolicy { location: Location::File(file(number)), ..TenantPolicy::default() };
    let all: BTreeMap<_, _> = (0..count).map(|number| (format!("{number:05}"), from(number))).collect();
    let started = Instant::now();
    let loaded = registry.add_all(all);
    let took = started.elapsed();
    assert!(loaded.iter().all(|(_, result)| result.is_ok()));
    let memory = resident().saturating_sub(before) / count as u64;
    let (request, payload) = (signing(), text("a result"));
    let first_calls = [0, count - 1].map(|number| {
        let filter = filter(registry.slot(&format!("{number:05}")).unwrap(), &root.path().join(number.to_string()));
        let started = Instant::now();
        call(&filter, &request, &payload);
        started.elapsed()
    });
    measured(&format!("{count} tenants, {name}"), millis(took), "ms");
    measured(&format!("{count} tenants, {name}: memory of each"), memory as f64, "bytes");
    let each = took / u32::try_from(count).unwrap();
    println!(
        "{name:<28} {count:>8} tenants  started in {took:.2?}, {each:.1?} each  {memory} bytes each  first calls {first_calls:.1?}"
    );
    took
}

/// Resident memory of this process, in bytes.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * page_bytes()
}

/// Bytes of a page, from `getconf`.
fn page_bytes() -> u64 {
    let output = std::process::Command::new("getconf").arg("PAGESIZE").output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().parse().unwrap()
}
