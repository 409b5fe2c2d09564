//! The store through its public face: publishing, refusals, expiry, orphans, quotas, concurrency.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
#[cfg(unix)]
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_host::store::{
    FileKind, FileRecord, Fsync, MANIFEST_NAME, Offload, OffloadRecord, Origin, QuotaKind, Section, Staging, Store,
    StoreConfig, StoreError, TIME_TO_LIVE_MAX, Ulid, rfc3339, safe_name,
};
use serde_json::value::RawValue;
use tempfile::TempDir;

/// Tells the test `child` what to do, and in which root.
const CHILD_TASK: &str = "LRO_STORE_TEST_CHILD";
const CHILD_ROOT: &str = "LRO_STORE_TEST_ROOT";

const HEADER: &str = "{\"type\":\"mcp_lro\"}\n";

fn config(root: impl Into<PathBuf>) -> StoreConfig {
    StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root) }
}

/// A directory in memory where there is one: these tests are about order, not about disks.
fn directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

fn open() -> (TempDir, Store) {
    let directory = directory();
    let store = Store::open(config(directory.path().join("root"))).unwrap();
    (directory, store)
}

fn file(name: &str, content: &str, digest_from: usize) -> FileRecord {
    FileRecord {
        name: name.to_owned(),
        kind: if digest_from > 0 { FileKind::Records } else { FileKind::Text },
        section: name.to_owned(),
        parts: vec![0],
        origin: Origin::Content,
        form: None,
        derived_from: None,
        pointer: Some("/items".to_owned()),
        shape: None,
        media_type: "application/jsonl".to_owned(),
        records: content.lines().skip(usize::from(digest_from > 0)).count() as u64,
        bytes: content.len() as u64,
        schema: Some(RawValue::from_string("{\"type\":\"object\"}".to_owned()).unwrap()),
        sha256: None,
        xxh3: None,
        digest_from: 0,
        index: None,
        queries: Vec::new(),
    }
}

fn record(files: Vec<FileRecord>) -> OffloadRecord {
    OffloadRecord {
        tool: "search".to_owned(),
        session: None,
        created: rfc3339(SystemTime::now()),
        descriptor: RawValue::from_string("{\"offloaded\":true,\"count\":12345678901234567890}".to_owned()).unwrap(),
        files,
    }
}

/// Stages an offload with one text file.
fn stage(store: &Store, tenant: &str, id: Ulid, content: &str) -> Staging {
    let staging = store.stage(tenant, id).unwrap();
    fs::write(staging.path().join("a.txt"), content).unwrap();
    staging
}

fn publish(store: &Store, tenant: &str, id: Ulid, content: &str) -> Result<Offload, StoreError> {
    stage(store, tenant, id, content).publish(record(vec![file("a.txt", content, 0)]))
}

fn id_of_age(seconds: u64, random: u128) -> Ulid {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    Ulid::from_parts(time.duration_since(UNIX_EPOCH).unwrap().as_millis(), random)
}

#[cfg(unix)]
fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

fn names(path: &Path) -> HashSet<String> {
    fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// The command that runs the test `child` of this very program.
fn child_command(task: &str, root: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture", "--test-threads=1"]);
    command.env(CHILD_TASK, task).env(CHILD_ROOT, root);
    command
}

/// The other process of some tests; without its variable it has nothing to do.
#[test]
fn child() {
    let Ok(task) = std::env::var(CHILD_TASK) else { return };
    let root = PathBuf::from(std::env::var(CHILD_ROOT).unwrap());
    match task.as_str() {
        #[cfg(unix)]
        "umask" => {
            rustix::process::umask(rustix::fs::Mode::empty());
            let store = Store::open(config(&root)).unwrap();
            publish(&store, "team", Ulid::generate().unwrap(), "open to all").unwrap();
        }
        "hold" => {
            let store = Store::open(config(&root)).unwrap();
            let staging = stage(&store, "team", Ulid::generate().unwrap(), "half");
            println!("\nstaged {}", staging.path().display());
            thread::sleep(Duration::from_secs(60));
        }
        "publish" => {
            let store = Store::open(StoreConfig::new(&root)).unwrap();
            let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
            fs::write(staging.path().join("one.txt"), "1").unwrap();
            fs::write(staging.path().join("two.txt"), "22").unwrap();
            staging.publish(record(vec![file("one.txt", "1", 0), file("two.txt", "22", 0)])).unwrap();
        }
        "full" => {
            let store = Store::open(config(&root)).unwrap();
            let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
            let path = staging.path().to_owned();
            let mut filler = File::create(path.join("a.txt")).unwrap();
            let mut bytes = 0;
            while let Ok(length @ 1..) = filler.write(&[b'x'; 1024]) {
                bytes += length as u64;
            }
            // An open file keeps its space.
            drop(filler);
            let listed = FileRecord { bytes, ..file("a.txt", "", 0) };
            let error = staging.publish(record(vec![listed])).unwrap_err();
            assert!(matches!(error, StoreError::NoSpace { .. }), "{error:?}");
            assert!(!path.exists());
            publish(&store, "team", Ulid::generate().unwrap(), "room again").unwrap();
        }
        other => panic!("no task {other}"),
    }
}

/// Starts a process that holds a staging directory, and waits until it does.
fn hold(root: &Path) -> (Child, PathBuf) {
    let mut child = child_command("hold", root).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let staged = lines.map_while(Result::ok).find_map(|line| line.strip_prefix("staged ").map(PathBuf::from));
    (child, staged.unwrap())
}

#[test]
fn publishes_a_private_directory_and_finds_it_again() {
    let (directory, store) = open();
    let id = Ulid::generate().unwrap();
    let staging = store.stage("team/a", id).unwrap();
    let staged = staging.path().to_owned();
    let (records, text) = (format!("{HEADER}{{\"n\":1}}\n{{\"n\":1.0}}\n"), "plain");
    fs::write(staged.join("items.jsonl"), &records).unwrap();
    fs::write(staged.join("text.txt"), text).unwrap();
    assert_eq!(staging.id(), id);
    #[cfg(unix)]
    assert_eq!(mode(&staged), 0o700);
    assert!(matches!(store.find("team/a", id), Err(StoreError::NotFound { .. })));

    let files = vec![file("items.jsonl", &records, HEADER.len()), file("text.txt", text, 0)];
    let published = staging.publish(record(files)).unwrap();
    let found = store.find("team/a", id).unwrap();
    for offload in [&published, &found] {
        assert_eq!(offload.path(), store.shown_path("team/a", id));
        assert_eq!((offload.tenant(), offload.id()), ("team/a", id));
        assert_eq!(offload.expires(), id.time() + Duration::from_secs(3600));
        assert_eq!(offload.record().descriptor.get(), "{\"offloaded\":true,\"count\":12345678901234567890}");
        assert_eq!(offload.open("items.jsonl").unwrap().bytes(0, usize::MAX).unwrap(), records.as_bytes());
        offload.open("items.jsonl").unwrap().verify().unwrap();
        offload.open("text.txt").unwrap().verify().unwrap();
        assert!(matches!(offload.open(MANIFEST_NAME), Err(StoreError::NotFound { .. })));
        assert!(matches!(offload.open("../x"), Err(StoreError::NotFound { .. })));
    }
    assert!(!staged.exists());
    assert_eq!(names(found.path()), HashSet::from(["items.jsonl", "text.txt", MANIFEST_NAME].map(str::to_owned)));
    assert_eq!(names(directory.path()), HashSet::from(["root".to_owned()]), "nothing beside the root");
    let usage = store.usage();
    assert_eq!((usage.offloads, usage.bytes), (1, store.list().first().unwrap().bytes));
    assert!(matches!(store.find("team/b", id), Err(StoreError::NotFound { .. })), "another tenant");
}

#[cfg(unix)]
#[test]
fn modes_are_private_whatever_the_umask() {
    let directory = directory();
    let root = directory.path().join("root");
    let output = child_command("umask", &root).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let store = Store::open(config(&root)).unwrap();
    let listed = store.list();
    let offload = store.find("team", listed.first().unwrap().id).unwrap();
    for path in [&root, &root.join(".owners"), &root.join("team"), offload.path()] {
        assert_eq!(mode(path), 0o700, "{}", path.display());
    }
    for name in ["a.txt", MANIFEST_NAME] {
        assert_eq!(mode(&offload.path().join(name)), 0o600, "{name}");
    }
}

// Windows has none of the commands.
#[cfg(unix)]
#[test]
fn the_digest_of_records_is_the_one_that_sha256sum_gives() {
    let (_directory, store) = open();
    let content = format!("{HEADER}{}", "{\"n\":1}\n".repeat(20_000));
    let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
    fs::write(staging.path().join("items.jsonl"), &content).unwrap();
    let offload = staging.publish(record(vec![file("items.jsonl", &content, HEADER.len())])).unwrap();
    let path = offload.path().join("items.jsonl");
    let script = format!("tail -n +2 '{}' | sha256sum", path.display());
    let output = Command::new("sh").args(["-c", &script]).output().unwrap();
    let expected = String::from_utf8(output.stdout).unwrap();
    let manifest: serde_json::Value =
        serde_json::from_slice(&fs::read(offload.path().join(MANIFEST_NAME)).unwrap()).unwrap();
    let digest = manifest.pointer("/record/files/0/sha256").unwrap().as_str().unwrap();
    assert_eq!(expected.split(' ').next().unwrap(), digest);
    // As `xxhsum -H3` prints it.
    assert_eq!(manifest.pointer("/record/files/0/xxh3").unwrap(), "863ad69c7564bd1f");

    fs::write(&path, content.replacen("{\"n\":1}", "{\"n\":2}", 1)).unwrap();
    let error = offload.open("items.jsonl").unwrap().verify().unwrap_err();
    assert!(error.to_string().contains(digest), "{error}");
}

/// Publishes what a policy left, and expects a refusal that leaves nothing behind.
fn refused(reason: &str, files: Vec<FileRecord>, plant: impl FnOnce(&Path)) {
    let (directory, store) = open();
    let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
    plant(staging.path());
    let error = staging.publish(record(files)).unwrap_err();
    assert!(matches!(error, StoreError::Unexpected { .. }), "{error:?}");
    assert!(error.to_string().contains(reason), "{error}");
    assert!(!error.to_string().contains('\u{1b}'), "{error}");
    assert_eq!(names(&directory.path().join("root/team")), HashSet::new());
    assert_eq!(store.usage().bytes, 0);
}

#[test]
fn refuses_what_the_record_does_not_say() {
    let write = |name: &'static str| move |path: &Path| fs::write(path.join(name), "four").unwrap();
    let listed = |name: &str| vec![file(name, "four", 0)];
    refused("not listed", vec![], write("a"));
    refused("not listed", vec![], write(MANIFEST_NAME));
    refused("not listed", vec![], |path| fs::create_dir_all(path.join("d/e/f")).unwrap());
    refused("listed and absent", listed("a"), |_| ());
    refused("listed twice", [listed("a"), listed("a")].concat(), write("a"));
    refused("size", vec![file("a", "five!", 0)], write("a"));
    refused("no header line", vec![file("a", "four", 1)], write("a"));
    let two = FileRecord { records: 2, ..file("a", "head\n1\n2\n3", 5) };
    refused("number of records", vec![two], |path| fs::write(path.join("a"), "head\n1\n2\n3").unwrap());
    refused("not a regular file", listed("a"), |path| fs::create_dir(path.join("a")).unwrap());
    refused("another name", listed("a"), |path| {
        fs::write(path.parent().unwrap().join("victim"), "four").unwrap();
        fs::hard_link(path.parent().unwrap().join("victim"), path.join("a")).unwrap();
        fs::rename(path.parent().unwrap().join("victim"), path.parent().unwrap().join("../victim")).unwrap();
    });
    for name in ["", ".a", "..", "a/b", "../a", "a b", "ä", MANIFEST_NAME, "x".repeat(129).as_str()] {
        refused("name is not allowed", listed(name), |_| ());
    }
    // The longest name that is allowed.
    let (_directory, store) = open();
    let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
    fs::write(staging.path().join("x".repeat(128)), "four").unwrap();
    staging.publish(record(listed(&"x".repeat(128)))).unwrap();
}

#[cfg(unix)]
#[test]
fn refuses_what_only_unix_has() {
    let listed = || vec![file("a", "four", 0)];
    refused("not listed", vec![], |path| fs::write(path.join("\u{1b}[2J\n"), "four").unwrap());
    refused("symbolic link", listed(), |path| symlink("/etc/passwd", path.join("a")).unwrap());
    refused("not a regular file", listed(), |path| {
        let made = Command::new("mkfifo").arg(path.join("a")).status().unwrap();
        assert!(made.success() && fs::metadata(path.join("a")).unwrap().file_type().is_fifo());
    });
}

#[cfg(unix)]
#[test]
fn removing_never_follows_a_planted_link() {
    let (directory, store) = open();
    let secret = directory.path().join("secret");
    fs::create_dir(&secret).unwrap();
    fs::write(secret.join("key"), "kept").unwrap();
    let staging = stage(&store, "team", Ulid::generate().unwrap(), "x");
    let path = staging.path().to_owned();
    symlink(&secret, path.join("link")).unwrap();
    fs::create_dir(path.join("d")).unwrap();
    symlink(&secret, path.join("d/link")).unwrap();
    drop(staging);
    assert!(!path.exists());
    assert_eq!(fs::read_to_string(secret.join("key")).unwrap(), "kept");
}

#[test]
fn sweeps_what_has_expired_and_nothing_else() {
    let (directory, store) = open();
    let (old, young) = (id_of_age(3601, 1), id_of_age(3590, 2));
    let expired = publish(&store, "team", old, "old").unwrap();
    publish(&store, "team", young, "young").unwrap();
    // On Windows, an open file is in the way of its removal.
    let reader = cfg!(unix).then(|| File::open(expired.path().join("a.txt")).unwrap());
    let team = directory.path().join("root/team");
    let foreign = ["notes.txt", "01ARZ3NDEKTSV4RRFFQ69G5FA", "01arz3ndektsv4rrffq69g5fav", ".staging-x"];
    for name in foreign {
        fs::create_dir(team.join(name)).unwrap();
        fs::write(team.join(name).join("content"), "foreign").unwrap();
    }
    let left: HashSet<String> = foreign.map(str::to_owned).into_iter().chain([young.to_string()]).collect();
    #[cfg(unix)]
    let left = {
        let link = id_of_age(9999, 3).to_string();
        symlink(directory.path(), team.join(&link)).unwrap();
        left.into_iter().chain([link]).collect()
    };
    fs::write(directory.path().join("root/file"), "foreign").unwrap();
    fs::create_dir(team.join(format!(".removing-{}", id_of_age(1, 4)))).unwrap();

    assert!(matches!(store.find("team", old), Err(StoreError::Expired { .. })));
    let held = store.usage();
    let sweep = store.sweep(SystemTime::now()).unwrap();
    assert_eq!((sweep.expired, sweep.orphans), (1, 1));
    // The orphan, an empty directory, did not count as held.
    assert_eq!(store.usage().bytes, held.bytes - (sweep.bytes - 4096));
    store.find("team", young).unwrap().open("a.txt").unwrap().verify().unwrap();
    assert_eq!(names(&team), left);
    assert!(matches!(store.find("team", old), Err(StoreError::Expired { .. })), "after the removal too");
    if let Some(reader) = reader {
        assert_eq!(std::io::read_to_string(reader).unwrap(), "old", "a reader keeps what it has open");
    }

    assert_eq!(store.sweep(SystemTime::now() + Duration::from_secs(7200)).unwrap().expired, 1);
    assert_eq!(store.usage(), Default::default());
}

#[test]
fn an_offload_may_have_its_own_time_to_live() {
    let (directory, store) = open();
    let publish = |age, random, seconds| {
        let staging = stage(&store, "team", id_of_age(age, random), "x");
        let staging = staging.with_time_to_live(Some(Duration::from_secs(seconds)));
        staging.publish(record(vec![file("a.txt", "x", 0)])).unwrap()
    };
    let (brief, brief_and_young) = (publish(70, 1, 60), publish(50, 2, 60));
    let (lasting, endless) = (publish(3700, 3, 7200), publish(3700, 4, u64::MAX));
    assert_eq!(lasting.expires(), lasting.id().time() + Duration::from_secs(7200));
    assert_eq!(endless.expires(), endless.id().time() + TIME_TO_LIVE_MAX);
    // A store with another time to live, as another process may have it.
    let other = StoreConfig { time_to_live: Duration::from_secs(1), ..config(directory.path().join("root")) };
    for store in [&store, &Store::open_unswept(other).unwrap()] {
        assert!(matches!(store.find("team", brief.id()), Err(StoreError::Expired { .. })));
        for kept in [&brief_and_young, &lasting, &endless] {
            assert_eq!(store.find("team", kept.id()).unwrap().expires(), kept.expires());
        }
        let removals = store.removals(SystemTime::now()).unwrap();
        assert_eq!(removals.iter().map(|removal| removal.path.as_path()).collect::<Vec<_>>(), [brief.path()]);
    }
    assert_eq!(store.sweep(SystemTime::now()).unwrap().expired, 1);
    assert!(matches!(store.find("team", brief.id()), Err(StoreError::NotFound { .. })), "younger than others may be");
    store.find("team", lasting.id()).unwrap().open("a.txt").unwrap().verify().unwrap();

    // Without a valid number, the time to live is that of the store.
    fs::write(lasting.path().join(".ttl-seconds"), "soon").unwrap();
    assert!(matches!(store.find("team", lasting.id()), Err(StoreError::Expired { .. })));
    assert_eq!(store.sweep(SystemTime::now()).unwrap().expired, 1);
}

#[test]
fn sweeps_the_staging_of_a_killed_process_and_never_of_a_live_one() {
    let directory = directory();
    let store = Store::open(config(directory.path())).unwrap();
    let own = stage(&store, "team", Ulid::generate().unwrap(), "own");
    let (mut child, staged) = hold(directory.path());
    assert_eq!(store.sweep(SystemTime::now()).unwrap().orphans, 0);
    drop(Store::open(config(directory.path())).unwrap());
    assert!(staged.join("a.txt").exists() && own.path().exists());
    assert_eq!(names(&directory.path().join(".owners")).len(), 2);

    child.kill().unwrap();
    child.wait().unwrap();
    assert!(staged.exists());
    let next = Store::open(config(directory.path())).unwrap();
    assert!(!staged.exists() && own.path().exists());
    drop(next);
    assert_eq!(names(&directory.path().join(".owners")).len(), 1, "only the owner file of the live store");
    drop(own);
    drop(store);
    assert_eq!(names(&directory.path().join(".owners")).len(), 0);
}

/// What an offload with a file of `length` bytes counts.
fn counted(length: usize) -> u64 {
    let (_directory, store) = open();
    publish(&store, "team", id_of_age(10, 0), &"x".repeat(length)).unwrap();
    store.usage().bytes
}

#[test]
fn quotas_remove_the_oldest_first() {
    let directory = directory();
    let (content, one) = ("x".repeat(1000), counted(1000));
    let quotas = StoreConfig {
        file_bytes_max: 100_000,
        tenant_bytes_max: 3 * one,
        total_bytes_max: 5 * one,
        ..config(directory.path())
    };
    let store = Store::open(quotas.clone()).unwrap();
    let other = Store::open(quotas).unwrap();
    let held = |store: &Store| store.list().into_iter().map(|listed| listed.id).collect::<Vec<_>>();
    let ids: Vec<Ulid> = (0..10).map(|n| id_of_age(100 - n, n.into())).collect();
    let [a, b, c, d, e, f, g, h, ..] = ids.as_slice() else { panic!() };

    // The oldest comes from another process, after this one counted.
    publish(&store, "te_2", *b, &content).unwrap();
    publish(&store, "te_2", *c, &content).unwrap();
    publish(&other, "te_2", *a, &content).unwrap();
    publish(&store, "te_2", *d, &content).unwrap();
    assert_eq!(held(&store), [*b, *c, *d], "full: {a} went, which no younger one did");
    publish(&store, "te_1", *e, &content).unwrap();
    publish(&store, "te_3", *f, &content).unwrap();
    assert_eq!(held(&store), [*b, *c, *d, *e, *f], "exactly the total");
    publish(&store, "te_3", *g, &content).unwrap();
    assert_eq!(held(&store), [*c, *d, *e, *f, *g], "for the total the oldest of any tenant went");
    // What another process removed leaves room: nothing need go.
    other.sweep(c.time() + Duration::from_secs(3600)).unwrap();
    publish(&store, "te_3", *h, &content).unwrap();
    assert_eq!(held(&store), [*d, *e, *f, *g, *h]);

    for (which, content) in [(QuotaKind::File, 100_001), (QuotaKind::Tenant, 100_000)] {
        let error = publish(&store, "te_3", ids[9], &"x".repeat(content)).unwrap_err();
        assert!(matches!(error, StoreError::Quota { which: met, .. } if met == which), "{error:?}");
    }
    assert_eq!(held(&store), [*d, *e, *f, *g, *h], "a refusal removes nothing");
    store.sweep(SystemTime::now()).unwrap();
    assert_eq!(store.usage().bytes, 5 * one);
}

#[test]
fn quotas_see_what_another_process_added() {
    let directory = directory();
    let one = counted(1000);
    let content = "x".repeat(1000);
    let quotas = StoreConfig { total_bytes_max: 3 * one, ..config(directory.path()) };
    let (store, other) = (Store::open(quotas.clone()).unwrap(), Store::open(quotas).unwrap());
    publish(&store, "ten1", id_of_age(50, 1), &content).unwrap();
    publish(&store, "ten1", id_of_age(40, 2), &content).unwrap();
    publish(&store, "ten1", id_of_age(30, 3), &content).unwrap();
    publish(&other, "ten2", id_of_age(60, 0), &content).unwrap();
    // The count made at opening is good for one second.
    thread::sleep(Duration::from_millis(1100));
    publish(&store, "ten1", id_of_age(20, 4), &content).unwrap();
    let tenants: Vec<_> = store.list().into_iter().map(|listed| listed.tenant).collect();
    assert_eq!(tenants, ["ten1"; 3], "the oldest was the other's, and after it this one's");
    assert_eq!(names(&directory.path().join("ten2")), HashSet::new());
}

/// Bytes of the blocks, and the number, of everything in a directory.
#[cfg(unix)]
fn on_disk(path: &Path) -> (u64, u64) {
    let (mut blocks, mut entries) = (0, 0);
    for entry in fs::read_dir(path).unwrap().map(Result::unwrap) {
        let metadata = entry.metadata().unwrap();
        let (inner_blocks, inner) = if metadata.is_dir() { on_disk(&entry.path()) } else { (0, 0) };
        blocks += metadata.blocks() * 512 + inner_blocks;
        entries += 1 + inner;
    }
    (blocks, entries)
}

// Many small files use up blocks and inodes before they use up bytes.
#[cfg(unix)]
#[test]
fn quotas_hold_on_the_disk() {
    const QUOTA: u64 = 2 << 20;
    let directory = directory();
    let store = Store::open(StoreConfig { tenant_bytes_max: QUOTA, ..config(directory.path()) }).unwrap();
    for number in 0..60 {
        let staging = store.stage("team", id_of_age(600, number)).unwrap();
        let files: Vec<FileRecord> = (0..100).map(|n| file(&format!("{n}.txt"), "small", 0)).collect();
        files.iter().for_each(|file| fs::write(staging.path().join(&file.name), "small").unwrap());
        staging.publish(record(files)).unwrap();
    }
    let team = directory.path().join("team");
    let (blocks, entries) = on_disk(&team);
    assert!(blocks <= QUOTA && entries <= QUOTA / 4096, "{blocks} bytes in {entries} entries");
    assert!(store.usage().offloads >= 2, "{:?}", store.usage());
    assert!(blocks + entries * 4096 <= store.usage().bytes, "{:?}", store.usage());
    // What is found again counts the same.
    let again = Store::open(StoreConfig { tenant_bytes_max: QUOTA, ..config(directory.path()) }).unwrap();
    assert_eq!(again.usage(), store.usage());
}

#[test]
fn the_total_quota_refuses_what_never_fits() {
    let directory = directory();
    let store = Store::open(StoreConfig { total_bytes_max: 1000, ..config(directory.path()) }).unwrap();
    let error = publish(&store, "team", id_of_age(1, 0), &"x".repeat(1000)).unwrap_err();
    assert!(matches!(error, StoreError::Quota { which: QuotaKind::Total, limit: 1000, needed: 1001.. }), "{error:?}");
}

#[test]
fn many_writers_never_clash() {
    let (_directory, store) = open();
    let publish_some = |thread: usize| {
        let published = (0..100).map(|n| {
            let content = format!("{thread} {n}");
            let id = Ulid::generate().unwrap();
            publish(&store, ["team", "a/b"][n % 2], id, &content).unwrap();
            (id, n, content)
        });
        published.collect::<Vec<_>>()
    };
    let publish_some = &publish_some;
    let all: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = (0..64).map(|thread| scope.spawn(move || publish_some(thread))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(all.iter().map(|(id, ..)| id).collect::<HashSet<_>>().len(), 6400);
    for (id, n, content) in all {
        let offload = store.find(["team", "a/b"][n % 2], id).unwrap();
        assert_eq!(fs::read_to_string(offload.path().join("a.txt")).unwrap(), content);
        offload.open("a.txt").unwrap().verify().unwrap();
    }
    let counted = store.usage();
    store.sweep(SystemTime::now()).unwrap();
    assert_eq!((store.usage(), counted.offloads), (counted, 6400));
}

#[test]
fn a_reader_never_sees_a_part() {
    let (directory, store) = open();
    let done = AtomicBool::new(false);
    let team = directory.path().join("root/team");
    let content = format!("{HEADER}{}", "{\"n\":1}\n".repeat(5_000));
    let (polls, seen) = thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut polls, mut seen) = (0, HashSet::new());
            loop {
                // Read first, so that the last poll comes after the last publishing.
                let last = done.load(Ordering::Acquire);
                polls += 1;
                for path in fs::read_dir(&team).into_iter().flatten().map(|entry| entry.unwrap().path()) {
                    let Some(id) = path.file_name().and_then(|name| name.to_str()?.parse::<Ulid>().ok()) else {
                        continue;
                    };
                    if seen.insert(id) {
                        assert_eq!(fs::read_to_string(path.join("items.jsonl")).unwrap(), content);
                        store.find("team", id).unwrap().open("items.jsonl").unwrap().verify().unwrap();
                    }
                }
                if last {
                    break;
                }
            }
            (polls, seen.len())
        });
        for _ in 0..300 {
            let staging = store.stage("team", Ulid::generate().unwrap()).unwrap();
            let mut output = File::create(staging.path().join("items.jsonl")).unwrap();
            content.as_bytes().chunks(4096).for_each(|chunk| output.write_all(chunk).unwrap());
            staging.publish(record(vec![file("items.jsonl", &content, HEADER.len())])).unwrap();
        }
        done.store(true, Ordering::Release);
        reader.join().unwrap()
    });
    assert_eq!(seen, 300, "in {polls} polls");
}

#[cfg(unix)]
#[test]
fn publishing_is_in_the_durable_order() {
    let directory = directory();
    let (root, log) = (directory.path().join("root"), directory.path().join("log"));
    let child = child_command("publish", &root);
    let mut traced = Command::new("strace");
    traced.args(["-f", "-y", "-e", "trace=/^(write|fsync|fdatasync|rename.*)$", "-o"]).arg(&log);
    traced.arg(child.get_program()).args(child.get_args());
    traced.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?)))).stdout(Stdio::null());
    if !traced.status().is_ok_and(|status| status.success()) {
        eprintln!("skipped: strace cannot trace here");
        return;
    }
    let log = fs::read_to_string(log).unwrap();
    let place = |call: &str, name: &str| {
        let found = log.lines().position(|line| line.contains(call) && line.contains(name));
        found.unwrap_or_else(|| panic!("no {call} of {name} in\n{log}"))
    };
    let renamed = place("rename", ".staging-");
    let names_synced = log.lines().position(|line| {
        let path = line.split_once("fsync(").and_then(|(_, call)| call.split_once("/.staging-"));
        path.and_then(|(_, rest)| rest.split_once('>')).is_some_and(|(name, _)| !name.contains('/'))
    });
    let names_synced = names_synced.unwrap_or_else(|| panic!("no fsync of the directory in\n{log}"));
    assert!(names_synced < renamed, "{log}");
    for name in ["/one.txt>", "/two.txt>", "/manifest.json>"] {
        let (written, synced) = (place("write(", name), place("fsync(", name));
        assert!(written < synced && synced < renamed && written < names_synced, "{name} in\n{log}");
    }
    assert!(renamed < place("fsync(", "/team>"), "{log}");
}

#[cfg(unix)]
#[test]
fn a_full_disk_is_no_space_and_leaves_nothing() {
    let directory = directory();
    let child = child_command("full", directory.path());
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", "mount -t tmpfs -o size=64k,mode=700 none \"$0\" || exit 99; exec \"$@\""]);
    command.arg(directory.path()).arg(child.get_program()).args(child.get_args());
    command.envs(child.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.output();
    match &output {
        Ok(output) if output.status.code() != Some(99) && !output.stderr.starts_with(b"unshare:") => {
            assert!(output.status.success(), "{output:?}");
        }
        _ => eprintln!("skipped: no file system can be mounted here: {output:?}"),
    }
}

#[cfg(unix)]
#[test]
fn refuses_an_unsafe_root() {
    let directory = directory();
    for bits in [0o777, 0o720, 0o1777] {
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(bits)).unwrap();
        let error = Store::open(config(directory.path())).unwrap_err();
        assert!(matches!(error, StoreError::UnsafeRoot { reason: "others can write to it", .. }), "{error:?}");
        assert_eq!(names(directory.path()), HashSet::new());
    }
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    Store::open(config(directory.path())).unwrap();
    // Only root can give a directory away; for anybody else `/` is another user's.
    let foreign = match std::os::unix::fs::chown(directory.path(), Some(12345), None) {
        Ok(()) => directory.path(),
        Err(_) => Path::new("/"),
    };
    let error = Store::open(config(foreign)).unwrap_err();
    assert!(matches!(error, StoreError::UnsafeRoot { reason: "it belongs to another user", .. }), "{error:?}");
}

#[test]
fn refuses_a_manifest_that_is_damaged() {
    let (_directory, store) = open();
    let id = Ulid::generate().unwrap();
    let offload = publish(&store, "team", id, "text").unwrap();
    let path = offload.path().join(MANIFEST_NAME);
    let manifest = fs::read_to_string(&path).unwrap();
    let changes = [("\"version\":2", "\"version\":3"), ("a.txt", "../a.txt"), ("\"record\"", "\"rekord\""), ("}", "")];
    for (from, to) in changes {
        fs::write(&path, manifest.replace(from, to)).unwrap();
        let error = store.find("team", id).unwrap_err();
        assert!(matches!(error, StoreError::Manifest { .. }), "{to}: {error:?}");
    }
    fs::write(&path, manifest.replace("\"tenant\":\"team\"", "\"tenant\":\"teem\"")).unwrap();
    assert!(matches!(store.find("team", id), Err(StoreError::NotFound { .. })));
    fs::write(&path, &manifest).unwrap();
    store.find("team", id).unwrap();
}

#[test]
fn an_id_is_used_once() {
    let (_directory, store) = open();
    let id = Ulid::generate().unwrap();
    let first = stage(&store, "team", id, "first");
    assert!(matches!(store.stage("team", id), Err(StoreError::Io { .. })));
    first.publish(record(vec![file("a.txt", "first", 0)])).unwrap();
    assert!(matches!(publish(&store, "team", id, "second"), Err(StoreError::Io { .. })));
    assert_eq!(fs::read_to_string(store.shown_path("team", id).join("a.txt")).unwrap(), "first");
    assert_eq!(store.usage().offloads, 1);
}

#[test]
fn ids_are_unique_and_in_order() {
    let made: Vec<Vec<Ulid>> = thread::scope(|scope| {
        let make = || (0..10_000 / 64 + 1).map(|_| Ulid::generate().unwrap()).collect();
        let threads: Vec<_> = (0..64).map(|_| scope.spawn(make)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(made.iter().all(|ids| ids.is_sorted_by(|one, next| one < next && one.to_string() < next.to_string())));
    let all: HashSet<Ulid> = made.iter().flatten().copied().collect();
    assert!(all.len() >= 10_000 && all.len() == made.iter().map(Vec::len).sum::<usize>());
    for id in all {
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!(SystemTime::now().duration_since(id.time()).unwrap_or_default() < Duration::from_secs(60));
    }
}

#[test]
fn ids_are_written_as_the_ulid_specification_says() {
    let id: Ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV".parse().unwrap();
    assert_eq!(id.time(), UNIX_EPOCH + Duration::from_millis(1_469_922_850_259));
    assert_eq!(Ulid::from_parts(0, 0).to_string(), "0".repeat(26));
    assert_eq!(Ulid::from_parts(u128::MAX, u128::MAX).to_string(), "7ZZZZZZZZZZZZZZZZZZZZZZZZZ");
    for text in [
        "",
        "8ZZZZZZZZZZZZZZZZZZZZZZZZZ",
        "01arz3ndektsv4rrffq69g5fav",
        "01ARZ3NDEKTSV4RRFFQ69G5FA",
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "ÄÄÄÄÄÄÄÄÄÄÄÄÄ",
    ] {
        assert!(text.parse::<Ulid>().is_err(), "{text}");
    }
}

#[test]
fn times_are_rfc_3339() {
    for (seconds, text) in [
        (0, "1970-01-01T00:00:00Z"),
        (951_782_399, "2000-02-28T23:59:59Z"),
        (951_782_400, "2000-02-29T00:00:00Z"),
        (1_795_166_999, "2026-11-20T09:29:59Z"),
        (4_107_542_400, "2100-03-01T00:00:00Z"),
    ] {
        assert_eq!(rfc3339(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + 999)), text);
    }
    assert_eq!(rfc3339(UNIX_EPOCH - Duration::from_millis(1)), "1970-01-01T00:00:00Z");
}

#[test]
fn names_are_safe_bounded_and_distinct() {
    assert_eq!((safe_name("team-a_1", 64), safe_name("", 64)), ("team-a_1".to_owned(), "none".to_owned()));
    let long = "x".repeat(5000);
    let cut = safe_name(&long, 64);
    let texts = [
        "../",
        "..",
        ".",
        "/",
        "a/b",
        "a_b",
        "a\0b",
        "a b",
        "a\nb",
        "ä",
        "日本",
        "$(rm -rf ~)",
        "`id`",
        "none",
        "",
        &long,
        &long[..4999],
        &long[..64],
        &long[..65],
        "-",
        "--help",
        cut.as_str(),
        &safe_name("../", 64),
        "a\u{1b}[2J",
        "CON",
    ];
    let mut names = HashSet::new();
    for text in texts {
        let name = safe_name(text, 64);
        assert!((1..=64).contains(&name.len()), "{name}");
        assert!(name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte)), "{name}");
        assert!(names.insert(name), "{text:?} has the name of another");
    }
    for bytes_max in 0..40 {
        assert!(safe_name(&long, bytes_max).len() <= bytes_max.max(16));
    }
}
