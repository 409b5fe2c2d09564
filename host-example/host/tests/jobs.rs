//! Records of jobs in the store: what is found of them while they run, after their end, and after a restart.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use lro_host::store::{
    Fsync, JobRecord, JobState, QuotaKind, Store, StoreConfig, StoreError, TIME_TO_LIVE_DEFAULT, Ulid,
};
use tempfile::TempDir;

const TENANT: &str = "acme";

fn config(root: impl Into<PathBuf>) -> StoreConfig {
    StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root) }
}

fn open() -> (TempDir, Store) {
    let directory = TempDir::new().unwrap();
    let store = Store::open(config(directory.path().join("root"))).unwrap();
    (directory, store)
}

fn id() -> Ulid {
    Ulid::generate().unwrap()
}

fn found(store: &Store, id: Ulid) -> (JobState, String) {
    let JobRecord { state, bytes } = store.job(TENANT, id, u64::MAX).unwrap();
    (state, String::from_utf8(bytes).unwrap())
}

fn is_unknown(store: &Store, tenant: &str, id: Ulid) -> bool {
    matches!(store.job(tenant, id, u64::MAX), Err(StoreError::NotFound { .. }))
}

#[test]
fn a_job_runs_and_ends() {
    let (_directory, store) = open();
    let id = id();
    assert!(is_unknown(&store, TENANT, id));
    store.begin_job(TENANT, id, b"begun").unwrap();
    assert_eq!(found(&store, id), (JobState::Running { is_own: true }, "begun".to_owned()));
    // Another store on the same root, as another process has it.
    let other = Store::open(config(store.root())).unwrap();
    assert_eq!(found(&other, id).0, JobState::Running { is_own: false });
    store.end_job(TENANT, id, b"ended", 10).unwrap();
    for store in [&store, &other] {
        assert_eq!(found(store, id), (JobState::Ended, "ended".to_owned()));
        assert_eq!(store.jobs(TENANT).unwrap(), [id]);
        assert!(is_unknown(store, "other", id), "it is of its tenant");
        assert_eq!(store.jobs("other").unwrap(), []);
    }
    assert_eq!(store.job(TENANT, id, 2).unwrap().bytes, b"en", "no more than asked for");
    assert_eq!(store.usage().offloads, 0, "a record is no offload");
}

#[test]
fn a_job_whose_store_is_gone_is_lost() {
    let (directory, store) = open();
    let [runs, ended] = [id(), id()];
    for id in [runs, ended] {
        store.begin_job(TENANT, id, b"begun").unwrap();
    }
    store.end_job(TENANT, ended, b"ended", 10).unwrap();
    drop(store);
    // Whether or not a sweep has come by.
    let unswept = Store::open_unswept(config(directory.path().join("root"))).unwrap();
    assert_eq!(found(&unswept, runs), (JobState::Lost, "begun".to_owned()));
    let store = Store::open(config(directory.path().join("root"))).unwrap();
    for _ in 0..2 {
        assert_eq!(found(&store, runs), (JobState::Lost, "begun".to_owned()));
        assert_eq!(found(&store, ended), (JobState::Ended, "ended".to_owned()));
        assert_eq!(store.jobs(TENANT).unwrap(), [ended, runs], "newest first");
        store.sweep(SystemTime::now()).unwrap();
    }
}

#[test]
fn records_expire_after_the_end_alone() {
    let (_directory, store) = open();
    let [runs, ended] = [id(), id()];
    store.begin_job(TENANT, runs, b"begun").unwrap();
    store.begin_job(TENANT, ended, b"begun").unwrap();
    store.end_job(TENANT, ended, b"ended", 10).unwrap();
    store.sweep(SystemTime::now() + TIME_TO_LIVE_DEFAULT - Duration::from_secs(60)).unwrap();
    assert_eq!(found(&store, ended).0, JobState::Ended);
    store.sweep(SystemTime::now() + TIME_TO_LIVE_DEFAULT + Duration::from_secs(60)).unwrap();
    assert!(is_unknown(&store, TENANT, ended));
    assert_eq!(found(&store, runs).0, JobState::Running { is_own: true });
    assert_eq!(store.jobs(TENANT).unwrap(), [runs]);
}

#[test]
fn the_oldest_records_make_room() {
    let (_directory, store) = open();
    // One that runs is no candidate, however old; and what counts is the end.
    let [runs, long] = [id(), id()];
    store.begin_job(TENANT, runs, b"begun").unwrap();
    store.begin_job(TENANT, long, b"begun").unwrap();
    let ids: Vec<Ulid> = (0..5).map(|_| id()).collect();
    for id in ids.iter().chain([&long]) {
        store.begin_job(TENANT, *id, b"begun").unwrap();
        store.end_job(TENANT, *id, b"ended", 3).unwrap();
        // The times of two files differ.
        std::thread::sleep(Duration::from_millis(20));
    }
    let mut kept = store.jobs(TENANT).unwrap();
    kept.retain(|id| *id != runs);
    assert_eq!(kept, [ids[4], ids[3], long]);
    assert!(is_unknown(&store, TENANT, ids[0]));
    assert_eq!(found(&store, runs).0, JobState::Running { is_own: true });
}

// Files that the store does not name are never touched.
#[test]
fn other_files_stay() {
    let (_directory, store) = open();
    let id = id();
    store.end_job(TENANT, id, b"ended", 10).unwrap();
    let jobs = store.root().join(TENANT).join(".jobs");
    for name in ["notes.txt", &format!("{id}.other"), &format!("{id}.running-x")] {
        std::fs::write(jobs.join(name), "mine").unwrap();
    }
    store.sweep(SystemTime::now() + 10 * TIME_TO_LIVE_DEFAULT).unwrap();
    assert!(is_unknown(&store, TENANT, id));
    assert_eq!(std::fs::read_dir(jobs).unwrap().count(), 3);
}

#[test]
fn records_count_toward_the_quotas() {
    let directory = TempDir::new().unwrap();
    // One block and an inode each.
    let one = 8192;
    let quota = StoreConfig { tenant_bytes_max: 4 * one, ..config(directory.path()) };
    let store = Store::open(quota.clone()).unwrap();
    let [first, second, third, fourth, fifth] = [(); 5].map(|()| id());
    for id in [first, second] {
        store.begin_job(TENANT, id, b"begun").unwrap();
    }
    assert_eq!((store.usage().bytes, store.usage().offloads), (2 * one, 0));
    for id in [first, second, third, fourth] {
        store.end_job(TENANT, id, b"ended", 100).unwrap();
    }
    assert_eq!(store.usage().bytes, 4 * one, "the record of a job that runs gives way to that of its end");
    store.end_job("other", id(), b"ended", 100).unwrap();
    assert_eq!(store.jobs(TENANT).unwrap(), [fourth, third, second, first], "each tenant has its own quota");
    store.end_job(TENANT, fifth, &[b'x'; 4097], 100).unwrap();
    assert_eq!(store.jobs(TENANT).unwrap(), [fifth, fourth, third], "the oldest made room for one of two blocks");
    // Those that run do not make room.
    for running in [first, second] {
        store.begin_job(TENANT, running, b"begun").unwrap();
    }
    assert_eq!(store.jobs(TENANT).unwrap(), [fifth, second, first]);
    let refused = store.begin_job(TENANT, third, &[b'x'; 16384]).unwrap_err();
    assert!(
        matches!(refused, StoreError::Quota { which: QuotaKind::Tenant, limit, .. } if limit == 4 * one),
        "{refused}"
    );
    assert!(is_unknown(&store, TENANT, third));
    // Another process counts the same.
    let other = Store::open(quota).unwrap();
    assert_eq!(other.usage().bytes, store.usage().bytes);
}
