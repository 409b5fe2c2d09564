//! What the client gets when a policy fails, by failure mode.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use lro_host::filter::{Filter, Outcome};
use lro_host::policy::{Conditions, LoadError, Location, Registry, TenantPolicy};
use lro_host::settings::FailureMode;
use lro_host::store::{Fsync, Store, StoreConfig};
use lro_tests::{hostile_policy, sandbox};
use tempfile::TempDir;

use crate::support::{act, component, filter, payload, registry_settings, strict, with_trap_at_start};

/// Behaviours, the kind of their failure, and whether the policy had decided to write by then.
const FAULTS: [(&str, &str, bool); 13] = [
    ("inspect-trap", "trap", false),
    ("inspect-loop", "deadline", false),
    ("inspect-memory", "memory", false),
    ("inspect-stack", "stack", false),
    ("inspect-advice:1200000", "crossing", false),
    ("trap", "trap", true),
    ("loop", "deadline", true),
    ("memory", "memory", true),
    ("stack", "stack", true),
    ("big-descriptor:1200000", "crossing", true),
    ("many-bytes:9", "quota", true),
    ("lie-size", "answer", true),
    ("no-such-behaviour", "refused", true),
];

// Each fault in each mode; nothing of a failed offload stays.
#[test]
fn every_failure_has_the_answer_of_its_mode() {
    let root = TempDir::new().unwrap();
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::Truncate] {
        for (behaviour, kind, wrote) in FAULTS {
            let directory = root.path().join(format!("{mode:?}-{}", behaviour.replace(':', "-")));
            let filter = Filter { failure: mode, ..strict(hostile_policy().into(), &directory) };
            check(&filter, behaviour, kind, wrote);
            assert_eq!(filter.store.as_ref().unwrap().list(), [], "{behaviour}");
        }
    }
}

// The store's faults follow the mode too.
#[test]
fn a_store_that_fails_has_the_answer_of_the_mode() {
    let root = TempDir::new().unwrap();
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::Truncate] {
        let directory = root.path().join(format!("{mode:?}"));
        let tiny = StoreConfig { total_bytes_max: 10, fsync: Fsync::Never, ..StoreConfig::new(&directory) };
        let filter = Filter { failure: mode, ..strict(hostile_policy().into(), &directory) };
        check(&Filter { store: Ok(Store::open(tiny).unwrap()), ..filter.clone() }, "sign", "store", true);
        let missing = lro_host::store::StoreError::NotFound { path: directory };
        check(&Filter { store: Err(Arc::new(missing)), ..filter }, "sign", "store", true);
    }
}

/// Names the directory that a process of this test may mount and unmount.
const MOUNTED: &str = "LRO_TEST_MOUNTED";

// A file system that may only be read, in each mode and both steps; when it may be written again, calls work.
#[test]
fn a_read_only_directory_has_the_answer_of_the_mode() {
    if let Some(mounted) = std::env::var_os(MOUNTED).map(PathBuf::from) {
        return read_only(&mounted);
    }
    let root = TempDir::new().unwrap();
    // A file system of its own, as whoever may do anything writes to a directory whatever its mode is.
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", r#"mount -t tmpfs tmpfs "$0" && exec "$@""#]).arg(root.path());
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "failure::a_read_only_directory_has_the_answer_of_the_mode"]);
    let output = command.env(MOUNTED, root.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.starts_with("unshare: ") || errors.starts_with("mount: ") {
        return println!("skipped: `unshare -rm` with a tmpfs does not work here: {errors}");
    }
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{errors}");
}

fn read_only(mounted: &Path) {
    let run = |program: &str, arguments: &[&str], directory: &Path| {
        let status = Command::new(program).args(arguments).arg(directory).status().unwrap();
        assert!(status.success(), "{program} {arguments:?}");
    };
    for mode in [FailureMode::Open, FailureMode::Closed, FailureMode::Truncate] {
        let filter = Filter { failure: mode, ..strict(hostile_policy().into(), &mounted.join(format!("{mode:?}"))) };
        assert!(act(&filter, "sign").failure.is_none());
        let tenant = mounted.join(format!("{mode:?}")).join(lro_tests::TENANT);
        run("mount", &["-t", "tmpfs", "-o", "ro", "tmpfs"], &tenant);
        check(&filter, "sign", "store", true);
        // Who only inspects writes nothing, and fails or not by itself.
        assert!(matches!(act(&filter, "inspect-directories").outcome, Outcome::Reject(found) if found == "0"));
        check(&filter, "inspect-trap", "trap", false);
        run("umount", &[], &tenant);
        assert!(act(&filter, "sign").failure.is_none(), "the next call");
    }
}

fn check(filter: &Filter, behaviour: &str, kind: &str, wrote: bool) {
    let decision = act(filter, behaviour);
    let failure = decision.failure.as_ref().unwrap_or_else(|| panic!("{behaviour}: {decision:?}"));
    assert_eq!(failure.kind(), kind, "{behaviour}: {failure}");
    let is_right = match (&decision.outcome, filter.failure) {
        (Outcome::Pass, FailureMode::Open) => !wrote,
        (Outcome::Truncate { warning: Some(warning), .. }, FailureMode::Open) => wrote && !warning.is_empty(),
        (Outcome::Truncate { warning: Some(warning), .. }, FailureMode::Truncate) => !warning.is_empty(),
        (Outcome::Fail(text), FailureMode::Closed) => !text.is_empty(),
        _ => false,
    };
    assert!(is_right, "{behaviour}: {:?} in mode {:?}", decision.outcome, filter.failure);
}

// A start with a bad policy is the failure mode's affair, and no other tenant's.
#[test]
fn a_tenant_without_a_good_policy_follows_its_failure_mode() {
    let root = TempDir::new().unwrap();
    let path = |name: &str| root.path().join(name);
    let registry = Registry::new(sandbox().clone(), registry_settings()).unwrap();
    fs::write(path("corrupt.wasm"), &component()[..1000]).unwrap();
    fs::write(path("trap.wasm"), with_trap_at_start(&component())).unwrap();
    fs::write(path("good.wasm"), component()).unwrap();
    for tenant in ["missing", "corrupt", "trap"] {
        let file = path(&format!("{tenant}.wasm"));
        let refused = registry
            .add(tenant, TenantPolicy { location: Location::File(file), ..TenantPolicy::default() })
            .unwrap_err();
        let is_right = match tenant {
            "missing" => matches!(*refused.error, LoadError::Read { .. }),
            "corrupt" => matches!(*refused.error, LoadError::Malformed(_)),
            _ => matches!(*refused.error, LoadError::Start(_)),
        };
        assert!(is_right, "{tenant}: {refused}");
        let slot = registry.slot(tenant).unwrap();
        assert_eq!(slot.status().refusal, Some(refused.error.to_string()));
        for mode in [FailureMode::Open, FailureMode::Closed] {
            let filter = Filter { failure: mode, ..filter(Arc::clone(&slot), &path(&format!("{tenant}-{mode:?}"))) };
            check(&filter, "sign", "absent", false);
        }
    }
    let good = TenantPolicy { location: Location::File(path("good.wasm")), ..TenantPolicy::default() };
    registry.add("good", good).unwrap();
    let filter = filter(registry.slot("good").unwrap(), &path("good"));
    assert!(filter.apply(&crate::support::acting("sign"), &payload()).failure.is_none());

    fs::write(path("corrupt.wasm"), component()).unwrap();
    registry.reload_tenant("corrupt", Conditions::default()).unwrap();
    assert_eq!(registry.slot("corrupt").unwrap().status().refusal, None);
}
