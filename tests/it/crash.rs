//! Killed at any moment, a writer leaves nothing half visible and nothing behind for long.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use lro_host::filter::Filter;
use lro_host::policy::{CompileCache, DEFAULT_POLICY, LoadOptions, Policy};
use lro_host::store::{MANIFEST_NAME, Store, StoreConfig, Ulid};
use lro_tests::{TENANT, always, filter, filter_with, offloaded, patient, request, sandbox, structured};
use tempfile::TempDir;

/// Where the child of this test writes. Set, [`child`] never ends by itself.
const ROOT_VARIABLE: &str = "LRO_TEST_CRASH_ROOT";

const KILLS: u32 = 200;

/// What the child says once it is about to write.
const READY: &str = "writing from now on";

fn document(records: usize) -> String {
    let rows = (0..records).map(|id| format!(r#"{{"id":{id},"text":"{}"}}"#, "x".repeat(id % 200)));
    format!(r#"{{"rows":[{}],"more":[{}]}}"#, rows.collect::<Vec<_>>().join(","), vec!["12345678"; 2000].join(","))
}

/// The process that [`a_killed_writer_leaves_nothing_half_done`] kills. It does nothing when it runs as a test.
#[test]
fn child() {
    let Some(root) = std::env::var_os(ROOT_VARIABLE) else { return };
    let root = Path::new(&root);
    let cache = CompileCache::open(root.join("compiled")).unwrap();
    let options = LoadOptions { cache: Some(cache), ..patient() };
    let policy = Policy::from_bytes(sandbox(), DEFAULT_POLICY, &options).unwrap();
    let store = Ok(Store::open(StoreConfig::new(root.join("store"))).unwrap());
    let filter = Filter { store, ..filter_with(policy, &root.join("unused")) };
    let payload = structured(document(5000));
    println!("{READY}");
    loop {
        offloaded(filter.apply(&request(always()), &payload));
    }
}

fn start(root: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "crash::child", "--nocapture", "--test-threads=1"])
        .env(ROOT_VARIABLE, root)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains(READY)), "the child ended too soon");
    child
}

/// Names in the tenant's directory, those of the published offloads first.
fn names(root: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let Ok(entries) = std::fs::read_dir(root.join(TENANT)) else { return Default::default() };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.partition(|name| name.parse::<Ulid>().is_ok())
}

/// Checks the manifest, and every file's size and digest. The store's own check is used only after the directory was compared
/// with the manifest.
fn check_whole(store: &Store, root: &Path, name: &str) {
    let directory = root.join(TENANT).join(name);
    let text = std::fs::read(directory.join(MANIFEST_NAME)).unwrap_or_else(|error| panic!("{name}: {error}"));
    let manifest: serde_json::Value = serde_json::from_slice(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let files = manifest["record"]["files"].as_array().unwrap();
    let indexes = files.iter().filter(|file| !file["index"].is_null()).count();
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), files.len() + indexes + 1, "{name}");
    for file in files {
        let size = std::fs::metadata(directory.join(file["name"].as_str().unwrap())).unwrap().len();
        assert_eq!(Some(size), file["bytes"].as_u64(), "{name}");
    }
    let offload = store.find(TENANT, name.parse().unwrap()).unwrap();
    for file in &offload.record().files {
        offload.open(&file.name).unwrap().verify().unwrap();
    }
}

#[test]
fn a_killed_writer_leaves_nothing_half_done() {
    let directory = TempDir::new().unwrap();
    let root = directory.path().join("store");
    let (mut published, mut torn, mut seed) = (0, 0, 0x9E37_79B9_7F4A_7C15_u64);
    // Held open, it sees what the children publish and what they leave.
    let store = Store::open(StoreConfig::new(&root)).unwrap();
    for round in 0..KILLS {
        let mut child = start(directory.path());
        let before = names(&root).1;
        assert!(before.len() <= 1, "round {round}: orphans are left after a start: {before:?}");
        // xorshift: any sequence will do, but the same each time.
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        let wanted = (seed % 3) as usize;
        while names(&root).0.len() < wanted {
            assert_eq!(child.try_wait().unwrap(), None, "the writer ended");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(seed % 41));
        child.kill().unwrap();
        child.wait().unwrap();
        let (whole, left) = names(&root);
        for name in &whole {
            check_whole(&store, &root, name);
            std::fs::remove_dir_all(root.join(TENANT).join(name)).unwrap();
        }
        published += whole.len();
        torn += left.len();
    }
    drop(store);
    drop(Store::open(StoreConfig::new(&root)).unwrap());
    let (_, left) = names(&root);
    assert_eq!(left, BTreeSet::new(), "orphans survive a start");
    assert_eq!(std::fs::read_dir(root.join(".owners")).unwrap().count(), 0, "owner files survive");
    println!("{KILLS} kills, {published} offloads published whole, {torn} torn ones removed");
    assert!(
        published > KILLS as usize / 2 && torn > 20,
        "{published} published, {torn} torn: the kills missed the writing"
    );
}

#[test]
fn a_reader_never_sees_a_partial_line() {
    let directory = TempDir::new().unwrap();
    let filter = filter(directory.path());
    let done = AtomicBool::new(false);
    let (mut polls, mut lines) = (0_u64, 0_u64);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let payload = structured(document(400));
            let started = Instant::now();
            for _ in 0..300 {
                offloaded(filter.apply(&request(always()), &payload));
                if started.elapsed() > Duration::from_secs(20) {
                    break;
                }
            }
            done.store(true, Ordering::Release);
        });
        let mut seen = BTreeSet::new();
        while !done.load(Ordering::Acquire) {
            polls += 1;
            for name in names(directory.path()).0.into_iter().filter(|name| !seen.contains(name)).collect::<Vec<_>>() {
                for entry in std::fs::read_dir(directory.path().join(TENANT).join(&name)).unwrap() {
                    let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
                    assert!(text.ends_with('\n'), "{name}: a line without its end");
                    for line in text.lines() {
                        serde_json::from_str::<&serde_json::value::RawValue>(line)
                            .unwrap_or_else(|error| panic!("{name}: {error}"));
                        lines += 1;
                    }
                }
                seen.insert(name);
            }
        }
        assert!(seen.len() > 50, "only {} offloads seen", seen.len());
    });
    println!("{polls} polls, {lines} lines");
}
