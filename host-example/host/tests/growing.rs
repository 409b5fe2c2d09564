//! Results that grow in the store: what readers find before, at and without their end.
#![expect(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use lro_host::read::{PageContent, PageRequest, Pages};
use lro_host::store::{
    Fsync, Growth, PARTIAL_SECTION, QuotaKind, Section, Store, StoreConfig, StoreError, TIME_TO_LIVE_DEFAULT, Ulid,
};
use tempfile::TempDir;

const TENANT: &str = "acme";

fn open(root: &Path) -> Store {
    Store::open(StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(root) }).unwrap()
}

fn id() -> Ulid {
    Ulid::generate().unwrap()
}

fn growth(store: &Store, id: Ulid) -> Option<Growth> {
    store.find(TENANT, id).unwrap().growth()
}

/// The records that a reader finds.
fn records(store: &Store, id: Ulid) -> Vec<String> {
    let page = Pages::of(store.clone()).page(&PageRequest::new(TENANT, id, PARTIAL_SECTION)).unwrap();
    match page.content {
        PageContent::Records(records) => records,
        content => panic!("{content:?}"),
    }
}

fn is_absent(store: &Store, id: Ulid) -> bool {
    matches!(store.find(TENANT, id), Err(StoreError::NotFound { .. } | StoreError::Expired { .. }))
}

#[test]
fn what_has_come_is_found_and_removed_or_kept() {
    let directory = TempDir::new().unwrap();
    let (store, id) = (open(directory.path()), id());
    let other = open(directory.path());
    let mut growing = store.grow(TENANT, id, "slow").unwrap();
    assert!(records(&store, id).is_empty());
    growing.push(b"{\"id\":0}\n{\"id\":1}\n").unwrap();
    let before = store.find(TENANT, id).unwrap();
    growing.push(b"{\"id\":2}\n").unwrap();
    for store in [&store, &other] {
        assert_eq!(records(store, id), ["{\"id\":0}", "{\"id\":1}", "{\"id\":2}"]);
        assert_eq!(growth(store, id), Some(Growth::Running));
        assert!(store.find("other", id).is_err(), "it is of its tenant");
    }
    assert_eq!(before.record().files[0].records, 2, "what was found does not change");
    assert_eq!(before.open(PARTIAL_SECTION).unwrap().lines(0, 10, 1000).unwrap().len(), 2);
    // Half a line is none.
    let file = before.path().join("partial.jsonl");
    fs::write(&file, fs::read_to_string(&file).unwrap() + "{\"id\":").unwrap();
    assert_eq!(records(&store, id).len(), 3);
    growing.keep().unwrap();
    assert_eq!(growth(&other, id), Some(Growth::Ended));
    let again = store.grow(TENANT, self::id(), "slow").unwrap();
    let dropped = again.id();
    drop(again);
    assert!(is_absent(&store, dropped));
    // It is there for its time to live.
    store.sweep(SystemTime::now()).unwrap();
    assert_eq!(records(&store, id).len(), 3);
    store.sweep(SystemTime::now() + TIME_TO_LIVE_DEFAULT + Duration::from_secs(1)).unwrap();
    assert!(is_absent(&store, id));
    assert_eq!(store.usage().bytes, 0);
}

#[test]
fn what_a_closed_store_leaves_is_lost() {
    let directory = TempDir::new().unwrap();
    let (store, [outlives, ends]) = (open(directory.path()), [id(), id()]);
    for id in [outlives, ends] {
        let mut growing = store.grow(TENANT, id, "slow").unwrap();
        growing.push(b"1\n").unwrap();
        if id == outlives {
            growing.outlive();
        }
    }
    drop(store);
    let store = open(directory.path());
    assert_eq!((growth(&store, outlives), records(&store, outlives)), (Some(Growth::Lost), vec!["1".to_owned()]));
    assert!(is_absent(&store, ends));
}

#[test]
fn what_grows_counts_toward_the_quotas() {
    let directory = TempDir::new().unwrap();
    let config =
        StoreConfig { file_bytes_max: 60_000, tenant_bytes_max: 100_000, ..StoreConfig::new(directory.path()) };
    let store = Store::open(StoreConfig { fsync: Fsync::Never, ..config }).unwrap();
    let line = [vec![b'1'; 49_999], vec![b'\n']].concat();
    let [first, second, third] = [id(), id(), id()];
    let mut runs = store.grow(TENANT, first, "slow").unwrap();
    runs.push(&line).unwrap();
    let met = runs.push(&line).unwrap_err();
    assert!(matches!(met, StoreError::Quota { which: QuotaKind::File, .. }), "{met}");
    assert!(store.usage().bytes > 50_000);
    // What still grows does not make room, and what has ended does.
    let mut refused = store.grow(TENANT, second, "slow").unwrap();
    let met = refused.push(&line).unwrap_err();
    assert!(matches!(met, StoreError::Quota { which: QuotaKind::Tenant, .. }), "{met}");
    assert_eq!(store.find(TENANT, first).unwrap().record().files[0].records, 1);
    drop(refused);
    runs.keep().unwrap();
    store.sweep(SystemTime::now()).unwrap();
    store.grow(TENANT, third, "slow").unwrap().push(&line).unwrap();
    assert!(is_absent(&store, first), "it made room");
}
