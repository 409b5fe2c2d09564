//! Many tenants, and what survives the end of a process.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{fs, thread};

use lro_host::filter::{Filter, Request};
use lro_host::policy::{
    BreakerSettings, CompileCache, Conditions, Digest, LoadError, LoadOptions, Loaded, Location, Registry,
    RegistryError, RegistrySettings, SlotSettings, TenantPolicy,
};
use lro_tests::{hostile_policy, rounds, sandbox, target, wait_until};
use tempfile::TempDir;

use crate::support::{
    act, acting, answers, filter, patient, payload, registry_settings, signature, signed, strict, version,
};

fn from(file: PathBuf) -> TenantPolicy {
    TenantPolicy { location: Location::File(file), ..TenantPolicy::default() }
}

/// A registry that remembers good policies below `root`.
fn remembering(root: &Path) -> Registry {
    let settings = RegistrySettings { kept: Some(root.join("kept")), ..registry_settings() };
    Registry::new(sandbox().clone(), settings).unwrap()
}

fn filter_of(registry: &Registry, tenant: &str, root: &Path) -> Filter {
    filter(registry.slot(tenant).unwrap(), &root.join("store"))
}

fn kept(root: &Path) -> Vec<String> {
    let entries = fs::read_dir(root.join("kept")).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| !name.ends_with(".json"));
    names.sort();
    names
}

// Whatever lies in the file at the next start, the last good version serves.
#[test]
fn the_last_good_version_survives_a_restart() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    for number in [1, 2] {
        fs::write(&file, version(number)).unwrap();
        let registry = remembering(root.path());
        registry.add("acme", from(file.clone())).unwrap();
    }
    fs::write(&file, &version(3)[..5000]).unwrap();
    let registry = remembering(root.path());
    assert!(matches!(*registry.add("acme", from(file.clone())).unwrap_err().error, LoadError::Malformed(_)));
    assert_eq!(answers(&filter_of(&registry, "acme", root.path())), signature(2));
    drop(registry);

    // A pin to something else holds for what was kept, too.
    let registry = remembering(root.path());
    let pinned = TenantPolicy { pin: Some(Digest::of(&version(3))), ..from(file.clone()) };
    registry.add("acme", pinned).unwrap_err();
    assert!(registry.slot("acme").unwrap().current().is_none());
    drop(registry);

    // So does its digest.
    let name = format!("kept/{}.wasm", Digest::of(&version(2)));
    fs::write(root.path().join(name), version(4)).unwrap();
    let registry = remembering(root.path());
    registry.add("acme", from(file)).unwrap_err();
    assert!(registry.slot("acme").unwrap().current().is_none());
}

// One step back, by name, and the file counts again once it changes.
#[test]
fn a_rollback_serves_the_version_before() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let registry = remembering(root.path());
    registry.add("acme", from(file.clone())).unwrap();
    let filter = filter_of(&registry, "acme", root.path());
    assert!(matches!(registry.rollback("acme"), Err(RegistryError::NoEarlier(_))));
    assert!(matches!(registry.rollback("nobody"), Err(RegistryError::Unknown(_))));
    for number in [2, 3] {
        fs::write(&file, version(number)).unwrap();
        registry.reload_tenant("acme", Conditions::default()).unwrap();
    }
    let Loaded::Swapped(version_now) = registry.rollback("acme").unwrap() else { panic!("not swapped") };
    assert_eq!((version_now.number, answers(&filter)), (4, signature(2)));
    registry.rollback("acme").unwrap();
    assert_eq!(answers(&filter), signature(3));
    let digests = [2, 3].map(|number| format!("{}.wasm", Digest::of(&version(number))));
    assert_eq!(kept(root.path()).len(), 2);
    assert!(digests.iter().all(|name| kept(root.path()).contains(name)), "{:?}", kept(root.path()));
    assert!(registry.remove("acme"));
    assert_eq!(kept(root.path()), [""; 0]);
    assert!(!registry.remove("acme"));
}

// A policy from elsewhere than the file, and one that serves already.
#[test]
fn a_policy_can_be_loaded_from_memory() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let registry = remembering(root.path());
    registry.add("acme", from(file)).unwrap();
    let filter = filter_of(&registry, "acme", root.path());
    let Loaded::Swapped(_) = registry.load("acme", &version(2)[..].into(), Conditions::default()).unwrap() else {
        panic!("not swapped")
    };
    assert_eq!(answers(&filter), signature(2));
    let Loaded::Unchanged(now) = registry.load("acme", &version(2)[..].into(), Conditions::default()).unwrap() else {
        panic!("swapped")
    };
    assert_eq!(now.number, 2);
    registry.load("acme", &version(2)[..100].into(), Conditions::default()).unwrap_err();
    let results = registry.reload();
    assert!(matches!(&results[..], [(tenant, Ok(Loaded::Swapped(_)))] if tenant == "acme"), "{results:?}");
    assert_eq!(answers(&filter), signature(1));
}

// Tenants come and go, and the same component is compiled once for all of them.
#[test]
fn the_same_component_is_compiled_once() {
    let root = TempDir::new().unwrap();
    let (one, other) = (root.path().join("one.wasm"), root.path().join("other.wasm"));
    fs::write(&one, version(1)).unwrap();
    fs::write(&other, version(2)).unwrap();
    let cache = CompileCache::open(root.path().join("compiled")).unwrap();
    let options = LoadOptions { cache: Some(cache), ..patient() };
    let registry =
        Registry::new(sandbox().clone(), RegistrySettings { options, ..RegistrySettings::default() }).unwrap();
    let tenants = (0..100).map(|number| (format!("t{number:02}"), from(one.clone())));
    let results = registry.add_all(tenants.collect());
    assert!(results.len() == 100 && results.iter().all(|(_, result)| matches!(result, Ok(Loaded::Swapped(_)))));
    let files = fs::read_dir(root.path().join("compiled")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(files.filter(|path| path.extension().is_some_and(|ending| ending == "cwasm")).count(), 1);
    let policies: Vec<_> = registry.slots().iter().map(|(_, slot)| slot.current().unwrap().policy.clone()).collect();
    // Tenants of one component share the time it took, to the nanosecond; the cache has none.
    assert!(policies.windows(2).all(|pair| pair[0].compile_time() == pair[1].compile_time()));
    assert!(policies[0].compile_time().is_some());

    registry.add("t00", from(other)).unwrap();
    assert_eq!(answers(&filter_of(&registry, "t00", root.path())), signature(2));
    assert_eq!(answers(&filter_of(&registry, "t01", root.path())), signature(1));
    let held = registry.slot("t02").unwrap();
    assert!(registry.remove("t02") && registry.slot("t02").is_none());
    assert_eq!(registry.slots().len(), 99);
    assert_eq!(answers(&filter(held, &root.path().join("held"))), signature(1));
}

/// Tenants that swap, in two halves.
const TENANTS: usize = 100;

/// Faults of the hostile tenant that the others meet at least, however slowly they come.
const ATTACKS_MIN: usize = 10;

/// Faults of the hostile tenant, in turn.
const FAULTS: [&str; 4] = ["trap", "memory", "many-files:1000000", "lie-size"];

// A hundred tenants that swap at random, and one that fails all the time, do not meet; run with --nocapture for
// the figures.
#[test]
fn tenants_that_swap_do_not_disturb_each_other() {
    let root = TempDir::new().unwrap();
    let breaker = BreakerSettings { failures: u32::MAX, ..BreakerSettings::default() };
    let slot = SlotSettings { breaker, ..SlotSettings::default() };
    let registry = Registry::new(sandbox().clone(), RegistrySettings { slot, ..registry_settings() }).unwrap();
    // Held here, both versions stay compiled.
    let versions = [version(1), version(2)];
    let _held = [1, 2].map(|number: usize| {
        let file = root.path().join(format!("{number}.wasm"));
        fs::write(&file, &versions[number - 1]).unwrap();
        registry.add(&format!("holder-{number}"), from(file)).unwrap()
    });
    let names: Vec<_> = (0..TENANTS).map(|number| format!("tenant-{number}")).collect();
    let tenants = names.iter().map(|name| (name.clone(), from(root.path().join("1.wasm"))));
    assert!(registry.add_all(tenants.collect()).iter().all(|(_, attempt)| attempt.is_ok()));
    registry.add("hostile", TenantPolicy::default()).unwrap();
    registry.slot("hostile").unwrap().swap(hostile_policy());

    let store = filter_of(&registry, "hostile", root.path());
    let calls = rounds("LRO_TENANT_CALLS", 2000);
    // A half of the tenants in an order without pattern; with swaps, every second call is preceded by one. After its calls it goes
    // on until it is enough.
    let half = |names: &[String], with_swaps: bool, is_enough: &(dyn Fn() -> bool + Sync)| {
        let (mut state, mut serving, mut times) = (1_u64, vec![1; names.len()], Vec::new());
        while times.len() < calls / 2 || !is_enough() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (at, to) = ((state >> 33) as usize % names.len(), (state >> 20 & 1) as usize);
            if with_swaps && state >> 21 & 1 == 1 {
                registry.load(&names[at], &versions[to][..].into(), Conditions::default()).unwrap();
                serving[at] = to as u32 + 1;
            }
            let filter = Filter { slot: registry.slot(&names[at]).unwrap(), ..store.clone() };
            let request = Request { tenant: names[at].clone(), ..acting("sign") };
            let started = Instant::now();
            let decision = filter.apply(&request, &payload());
            times.push(started.elapsed());
            assert_eq!(signed(&decision), signature(serving[at]), "{}", names[at]);
        }
        times
    };
    let both = |with_swaps: bool, is_enough: &(dyn Fn() -> bool + Sync)| {
        let (one, other) = names.split_at(TENANTS / 2);
        let mut times = thread::scope(|scope| {
            let other = scope.spawn(|| half(other, with_swaps, is_enough));
            [half(one, with_swaps, is_enough), other.join().unwrap()].concat()
        });
        times.sort();
        [50, 99].map(|percent| times[times.len() * percent / 100])
    };
    let alone = both(false, &|| true);
    let (done, attacks) = (AtomicBool::new(false), AtomicUsize::new(0));
    let beside = thread::scope(|scope| {
        let attacking = scope.spawn(|| {
            let hostile = strict(registry.slot("hostile").unwrap(), &root.path().join("hostile"));
            for fault in FAULTS.iter().cycle() {
                if done.load(Ordering::Relaxed) {
                    break;
                }
                assert!(act(&hostile, fault).failure.is_some());
                attacks.fetch_add(1, Ordering::Relaxed);
            }
        });
        // One that has panicked fails the test.
        let is_enough = || attacking.is_finished() || attacks.load(Ordering::Relaxed) >= ATTACKS_MIN;
        let beside = both(true, &is_enough);
        done.store(true, Ordering::Relaxed);
        beside
    });
    println!(
        "p50 and p99 of {calls} calls alone {alone:?}; with swaps beside {} attacks {beside:?}",
        attacks.into_inner()
    );
}

// The names of files are the names of tenants.
#[test]
fn a_directory_gives_each_file_a_tenant() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join("policies");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("a.wasm"), version(1)).unwrap();
    fs::write(directory.join(".hidden.wasm"), version(1)).unwrap();
    fs::write(directory.join("README.txt"), "no policy").unwrap();
    let registry = remembering(root.path());
    let results = registry.add_directory(&directory, TenantPolicy::default()).unwrap();
    assert_eq!(results.iter().map(|(tenant, _)| tenant.as_str()).collect::<Vec<_>>(), ["a"]);
    fs::write(directory.join("b.wasm"), version(2)).unwrap();
    fs::remove_file(directory.join("a.wasm")).unwrap();
    let results: BTreeMap<_, _> = registry.reload().into_iter().collect();
    assert!(results["a"].is_err() && results["b"].is_ok(), "{results:?}");
    assert_eq!(answers(&filter(registry.slot("a").unwrap(), &root.path().join("store-a"))), signature(1));
    assert_eq!(answers(&filter(registry.slot("b").unwrap(), &root.path().join("store-b"))), signature(2));
    assert!(registry.add_directory(&root.path().join("absent"), TenantPolicy::default()).is_err());
}

/// Names the directory in which a process of this test loads policies until it is killed.
const VICTIM: &str = "LRO_TEST_VICTIM";

/// Not a test on its own: what `a_killed_process_leaves_a_good_version` kills.
#[test]
fn victim() {
    let Some(root) = std::env::var_os(VICTIM).map(PathBuf::from) else { return };
    let registry = remembering(&root);
    let _ = registry.add("acme", from(root.join("policy.wasm")));
    fs::write(root.join("ready"), "").unwrap();
    for number in (1..3).cycle() {
        registry.load("acme", &version(number)[..].into(), Conditions::default()).unwrap();
    }
}

// Killed while it loads, a process leaves a version that serves at the next start.
#[test]
fn a_killed_process_leaves_a_good_version() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("policy.wasm"), version(1)).unwrap();
    assert!(target().exists());
    for kill in 0..rounds("LRO_KILLS", 5) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "registry::victim"])
            .env(VICTIM, root.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_until("the process loads", || root.path().join("ready").exists());
        thread::sleep(Duration::from_millis(50 + 37 * kill as u64 % 300));
        child.kill().unwrap();
        child.wait().unwrap();
        fs::remove_file(root.path().join("ready")).unwrap();
        fs::write(root.path().join("policy.wasm"), "cut").unwrap();
        let registry = remembering(root.path());
        registry.add("acme", from(root.path().join("policy.wasm"))).unwrap_err();
        let by = answers(&filter_of(&registry, "acme", root.path()));
        assert!([signature(1), signature(2)].contains(&by), "{by}");
    }
}
