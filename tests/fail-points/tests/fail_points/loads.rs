//! Loads and swaps: what served goes on serving, or the new policy serves; the report says which.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use lro_host::policy::{
    CompileCache, CompilePlace, Compiler, Conditions, LoadOptions, Loaded, Location, Registry, RegistryError,
    RegistrySettings, TenantPolicy, Watch,
};
use lro_tests::{patient_limits, sandbox};
use tempfile::TempDir;

use crate::support::{Action, DELAY, answers, filter, signature, version, wait_until, with, within};

/// What an error and a panic at a point lead to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    /// The policy is refused.
    Refused,
    /// The policy is refused after a panic; an error, if there is one, is no obstacle.
    RefusedByPanic,
    /// It serves; only the next start is without what could not be kept.
    Loaded,
}

/// Points of a load on a thread of the process, and by a child.
const ON_THREAD: [(&str, End); 7] = [
    ("policy::read", End::Refused),
    ("policy::verify", End::Refused),
    ("policy::compile", End::Refused),
    ("policy::compile-thread", End::RefusedByPanic),
    ("store::put", End::RefusedByPanic),
    ("policy::swap", End::RefusedByPanic),
    ("policy::keep", End::Loaded),
];
const BY_CHILD: [(&str, End); 3] = [
    ("policy::compile", End::Refused),
    ("policy::compiled-by-child", End::Refused),
    ("policy::load-code", End::Refused),
];

fn child() -> CompilePlace {
    let program = env!("CARGO_BIN_EXE_lro-fail-points").into();
    CompilePlace::Child { program, arguments: vec!["compile".into(), "--".into()] }
}

/// A registry that keeps code and policies below `root`.
pub(crate) fn registry(root: &Path, place: CompilePlace) -> Registry {
    let cache = CompileCache::open(root.join("code")).unwrap();
    let compiler = Compiler::new(place, patient_limits());
    let options = LoadOptions { cache: Some(cache), compiler, ..LoadOptions::default() };
    let settings = RegistrySettings { options, kept: Some(root.join("kept")), ..RegistrySettings::default() };
    Registry::new(sandbox().clone(), settings).unwrap()
}

/// A tenant whose policy is `policy.wasm`.
pub(crate) fn tenant(root: &Path) -> TenantPolicy {
    TenantPolicy { location: Location::File(root.join("policy.wasm")), ..TenantPolicy::default() }
}

// Each point, in a thread and in a child.
#[test]
fn every_failing_step_of_a_load_leaves_a_whole_policy() {
    let _scenario = fail::FailScenario::setup();
    for (place, points) in [(CompilePlace::Thread, &ON_THREAD[..]), (child(), &BY_CHILD)] {
        for &(point, end) in points {
            for action in Action::ALL {
                load(&place, point, end, action);
            }
        }
    }
}

fn load(place: &CompilePlace, point: &str, end: End, action: Action) {
    let what = format!("{action:?} at {point}");
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("policy.wasm"), version(1)).unwrap();
    let registry = registry(root.path(), place.clone());
    registry.add("acme", tenant(root.path())).unwrap();
    let slot = registry.slot("acme").unwrap();
    let filter = filter(Arc::clone(&slot), &root.path().join("store"));
    assert_eq!(answers(&filter), signature(1));

    fs::write(root.path().join("policy.wasm"), version(2)).unwrap();
    let (loaded, took) = with(point, action, || registry.reload_tenant("acme", Conditions::default()));
    let is_refused = match action {
        Action::Error => end == End::Refused,
        Action::Panic => end != End::Loaded,
        Action::Delay => false,
    };
    assert!(action != Action::Delay || took >= DELAY, "{what}: {took:?}");
    match &loaded {
        Err(RegistryError::Refused(refused)) if is_refused => {
            assert_eq!(refused.serving, Some(1), "{what}");
            let reason = format!("{:?}", refused.error);
            assert!(reason.contains("fail point") || reason.contains("panic"), "{what}: {reason}");
            assert_eq!(slot.status().refused, 1, "{what}");
        }
        Ok(Loaded::Swapped(_)) if !is_refused => assert_eq!(slot.status().refused, 0, "{what}"),
        other => panic!("{what}: {other:?}"),
    }
    within(&what, || assert_eq!(answers(&filter), signature(if is_refused { 1 } else { 2 }), "{what}"));
    within(&what, || {
        registry.reload_tenant("acme", Conditions::default()).unwrap_or_else(|error| panic!("{what}: {error}"))
    });
    assert_eq!(answers(&filter), signature(2), "{what}: the next load");
    registry.load("acme", &version(3)[..].into(), Conditions::default()).unwrap();
    assert_eq!(answers(&filter), signature(3), "{what}: the next version");
    assert!(registry.rollback("acme").is_ok(), "{what}");
    let unfinished = |name: &str| {
        let entries = fs::read_dir(root.path().join(name)).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|ending| ending == "tmp")).count()
    };
    assert_eq!(unfinished("kept") + unfinished("code"), 0, "{what}");
}

// A swap by digest and a step back that fail change nothing.
#[test]
fn a_failing_swap_changes_nothing() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("policy.wasm"), version(1)).unwrap();
    let registry = registry(root.path(), CompilePlace::Thread);
    registry.add("acme", tenant(root.path())).unwrap();
    registry.load("acme", &version(2)[..].into(), Conditions::default()).unwrap();
    let filter = filter(registry.slot("acme").unwrap(), &root.path().join("store"));
    let digest = lro_host::policy::Digest::of(&version(1));
    for point in ["policy::read", "policy::swap"] {
        let refused = |result: Result<Loaded, RegistryError>| matches!(result, Err(RegistryError::Refused(_)));
        assert!(refused(with(point, Action::Panic, || registry.rollback("acme")).0), "{point}");
        assert!(refused(with(point, Action::Panic, || registry.swap("acme", &digest, false)).0), "{point}");
        assert_eq!(answers(&filter), signature(2), "{point}");
    }
    registry.swap("acme", &digest, false).unwrap();
    assert_eq!(answers(&filter), signature(1));
}

// The watch goes on after a panic, and loads what it missed.
#[test]
fn the_watch_goes_on() {
    let _scenario = fail::FailScenario::setup();
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let registry = Arc::new(registry(root.path(), CompilePlace::Thread));
    registry.add("acme", tenant(root.path())).unwrap();
    let _watch = Watch::start(Arc::clone(&registry)).unwrap();
    let slot = registry.slot("acme").unwrap();
    let filter = filter(Arc::clone(&slot), &root.path().join("store"));
    let mut number = 1;
    for action in [Action::Panic, Action::Delay] {
        number += 1;
        with("policy::watch", action, || {
            fs::write(&file, version(number)).unwrap();
            wait_until("the new version", || answers(&filter) == signature(number));
        });
    }
    for action in [Action::Error, Action::Panic] {
        with("policy::verify", action, || {
            let refused = slot.status().refused;
            fs::write(&file, version(number + 1)).unwrap();
            wait_until("the refusal", || slot.status().refused > refused);
        });
        assert_eq!(answers(&filter), signature(number));
        number += 2;
        fs::write(&file, version(number)).unwrap();
        wait_until("the next version", || answers(&filter) == signature(number));
    }
}
