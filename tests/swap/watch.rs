//! Files that change under the eyes of a registry.

use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use lro_host::filter::Filter;
use lro_host::policy::{DEBOUNCE, Location, Registry, SlotStatus, TenantPolicy, Watch};
use lro_tests::{sandbox, wait_until};
use tempfile::TempDir;

use crate::signing::Signer;
use crate::support::{answers, filter, registry_settings, signature, version};

fn from(file: PathBuf) -> TenantPolicy {
    TenantPolicy { location: Location::File(file), ..TenantPolicy::default() }
}

fn registry() -> Arc<Registry> {
    Arc::new(Registry::new(sandbox().clone(), registry_settings()).unwrap())
}

/// A registry with one tenant, whose file is watched, and a filter of that tenant.
fn watched(file: PathBuf, root: &Path) -> (Arc<Registry>, Watch, Filter) {
    let registry = registry();
    registry.add("acme", from(file)).unwrap();
    let watch = Watch::start(Arc::clone(&registry)).unwrap();
    let filter = filter(registry.slot("acme").unwrap(), &root.join("store"));
    (registry, watch, filter)
}

fn status(registry: &Registry, tenant: &str) -> SlotStatus {
    registry.slot(tenant).unwrap().status()
}

fn wait_for(registry: &Registry, tenant: &str, number: u64) {
    wait_until("a version", || status(registry, tenant).version.is_some_and(|version| version.number >= number));
    assert_eq!(status(registry, tenant).version.unwrap().number, number);
}

/// Long enough for anything that was going to be loaded.
fn settle() {
    thread::sleep(DEBOUNCE * 4);
}

fn replace(file: &Path, bytes: &[u8]) {
    let new = file.with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(&new, file).unwrap();
}

// Each new content is loaded once, however it came; none of it costs a call.
#[test]
fn a_new_file_is_loaded_exactly_once() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let (registry, _watch, filter) = watched(file.clone(), root.path());

    replace(&file, &version(2));
    wait_for(&registry, "acme", 2);
    assert_eq!(answers(&filter), signature(2));

    // Truncated and written anew, in steps shorter than the moment of quiet.
    let bytes = version(3);
    let mut writing = File::create(&file).unwrap();
    let mut longest = Duration::ZERO;
    for block in bytes.chunks(bytes.len() / 20) {
        let written = Instant::now();
        writing.write_all(block).unwrap();
        thread::sleep(DEBOUNCE / 10);
        longest = longest.max(written.elapsed());
    }
    wait_for(&registry, "acme", 3);
    let refused = status(&registry, "acme").refused;
    // A busy machine may make a pause that is a moment of quiet.
    assert!(refused == 0 || longest > DEBOUNCE / 2, "a part of a file was taken for a policy");

    // A thousand touches, a delete, and the same content again.
    for _ in 0..1000 {
        File::open(&file).unwrap().set_modified(std::time::SystemTime::now()).unwrap();
    }
    settle();
    fs::remove_file(&file).unwrap();
    settle();
    assert_eq!(answers(&filter), signature(3));
    replace(&file, &version(3));
    settle();
    let now = status(&registry, "acme");
    assert_eq!((now.loaded, now.version.unwrap().number), (3, 3));

    // Back to an earlier one, then on again: new contents each.
    replace(&file, &version(1));
    wait_for(&registry, "acme", 4);
    assert_eq!(answers(&filter), signature(1));
}

// Half a file stays refused, tried once, until there is another.
#[test]
fn a_file_that_stays_cut_is_refused_once() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    fs::write(&file, version(1)).unwrap();
    let (registry, _watch, filter) = watched(file.clone(), root.path());
    let bytes = version(2);
    // Moved to its place: an empty file that is seen before the first half would be refused, too.
    replace(&file, &bytes[..bytes.len() / 2]);
    wait_until("the refusal", || status(&registry, "acme").refused == 1);
    let mut writing = File::options().append(true).open(&file).unwrap();
    writing.set_modified(std::time::SystemTime::now()).unwrap();
    settle();
    assert_eq!(status(&registry, "acme").refused, 1);
    assert_eq!(answers(&filter), signature(1));
    writing.write_all(&bytes[bytes.len() / 2..]).unwrap();
    wait_for(&registry, "acme", 2);
    assert_eq!(answers(&filter), signature(2));
}

// Links that are exchanged, as the volumes of Kubernetes are.
#[test]
fn links_are_followed() {
    let root = TempDir::new().unwrap();
    let volume = root.path().join("volume");
    fs::create_dir_all(volume.join("..1")).unwrap();
    fs::write(volume.join("..1/policy.wasm"), version(1)).unwrap();
    symlink("..1", volume.join("..data")).unwrap();
    symlink("..data/policy.wasm", volume.join("policy.wasm")).unwrap();
    let (registry, _watch, filter) = watched(volume.join("policy.wasm"), root.path());

    fs::create_dir(volume.join("..2")).unwrap();
    fs::write(volume.join("..2/policy.wasm"), version(2)).unwrap();
    symlink("..2", volume.join("..data_new")).unwrap();
    fs::rename(volume.join("..data_new"), volume.join("..data")).unwrap();
    fs::remove_dir_all(volume.join("..1")).unwrap();
    wait_for(&registry, "acme", 2);
    assert_eq!(answers(&filter), signature(2));

    // Where the link leads now is watched as well.
    replace(&volume.join("..2/policy.wasm"), &version(3));
    wait_for(&registry, "acme", 3);
    assert_eq!(answers(&filter), signature(3));
}

// Tenants that come with a file or by name while files are watched.
#[test]
fn tenants_may_come_later() {
    let root = TempDir::new().unwrap();
    let directory = root.path().join("policies");
    fs::create_dir(&directory).unwrap();
    fs::write(directory.join("a.wasm"), version(1)).unwrap();
    let registry = registry();
    registry.add_directory(&directory, TenantPolicy::default()).unwrap();
    let _watch = Watch::start(Arc::clone(&registry)).unwrap();
    replace(&directory.join("b.wasm"), &version(2));
    wait_until("the tenant", || registry.slot("b").is_some_and(|slot| slot.current().is_some()));
    replace(&directory.join("b.wasm"), &version(3));
    wait_for(&registry, "b", 2);
    assert_eq!(status(&registry, "a").loaded, 1);

    // Its directory is found at the next look for new ones.
    let elsewhere = root.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let file = elsewhere.join("c.wasm");
    fs::write(&file, version(4)).unwrap();
    registry.add("c", from(file.clone())).unwrap();
    replace(&file, &version(5));
    wait_for(&registry, "c", 2);
}

// A signature that comes after its component is reason enough to look again.
#[test]
fn a_late_signature_counts() {
    let root = TempDir::new().unwrap();
    let file = root.path().join("policy.wasm");
    let beside = root.path().join("policy.wasm.minisig");
    let signer = Signer::new(1);
    fs::write(&file, version(1)).unwrap();
    fs::write(&beside, signer.sign(&version(1))).unwrap();
    let signers = vec![signer.public()];
    let registry = registry();
    registry.add("acme", TenantPolicy { signers, ..from(file.clone()) }).unwrap();
    let _watch = Watch::start(Arc::clone(&registry)).unwrap();
    replace(&file, &version(2));
    wait_until("the refusal", || status(&registry, "acme").refused == 1);
    fs::write(&beside, signer.sign(&version(2))).unwrap();
    wait_for(&registry, "acme", 2);
}
