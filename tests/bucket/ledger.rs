//! What stores on one bucket share so that they need not list it: who sweeps, and how much each tenant has.

use std::collections::BTreeMap;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_host::store::{BucketConfig, Store, StoreConfig, StoreError, TIME_TO_LIVE_MAX, Ulid, Usage};
use lro_tests::bucket::{Fate, Proxy, Seen, get, keys, keys_with, put};
use lro_tests::wait_until;
use serde::Deserialize;
use serde_json::json;

use crate::support::{Place, TEAM, id, id_of_age, in_each_bucket, is_absent, publish};

const PERIOD: Duration = Duration::from_secs(60);
/// Longer than a test: a ledger is read once, and written when its store is closed.
const LONG: Duration = Duration::from_secs(3600);
const LEDGER: &str = "team/.ledger";

/// Long enough to ask again when moto has failed to list, which it does now and then while others write.
const RETRY: Duration = Duration::from_secs(1);

/// What the ledger of a tenant says.
#[derive(Deserialize)]
struct Ledger {
    bytes: u64,
    added: BTreeMap<u64, u64>,
}

fn ledger(place: &Place) -> Option<u64> {
    if keys_with(&place.url, LEDGER).is_empty() {
        return None;
    }
    let ledger: Ledger = serde_json::from_slice(&get(&place.url, LEDGER)).unwrap();
    Some(ledger.bytes + ledger.added.values().sum::<u64>())
}

fn put_ledger(place: &Place, age: Duration, bytes: u64) {
    let counted = (SystemTime::now() - age).duration_since(UNIX_EPOCH).unwrap().as_millis() as u64;
    put(&place.url, LEDGER, json!({"counted_ms": counted, "bytes": bytes, "added": {}}).to_string().as_bytes());
}

fn is_list(seen: &Seen) -> bool {
    ["list-type", "comp=list"].iter().any(|part| seen.target.contains(part))
}

/// The number of lists since the last look.
fn lists(proxy: &Proxy) -> usize {
    proxy.seen().iter().filter(|seen| is_list(seen)).count()
}

/// A store that reads and writes ledgers this often, with a quota of so many bytes for each tenant.
fn open(place: &Place, name: &str, port: u16, ledger_time: Duration, quota: u64) -> Store {
    let mut config = StoreConfig { tenant_bytes_max: quota, ..place.config_behind(name, port) };
    config.bucket = config.bucket.map(|bucket| BucketConfig { ledger_time, retry_time: RETRY, ..bucket });
    Store::open(config).unwrap()
}

fn add(store: &Store, id: Ulid) {
    publish(store, id, &[("a.txt", &"x".repeat(10_000))]).unwrap();
}

/// Ids from the oldest to the youngest.
fn ids<const COUNT: usize>() -> [Ulid; COUNT] {
    std::array::from_fn(|number| id_of_age(100 - number as u64, 0))
}

/// The size of an offload of [`add`], of a bucket that is empty before and after.
fn one(place: &Place) -> u64 {
    let store = place.open("one of them");
    add(&store, id());
    store.sweep(SystemTime::now()).unwrap();
    let bytes = store.usage().bytes;
    drop(store);
    place.open("one of them").sweep(SystemTime::now() + TIME_TO_LIVE_MAX).unwrap();
    assert_eq!(keys(&place.url), Vec::<String>::new());
    bytes
}

/// What a bucket has, from the oldest to the youngest.
fn listed(place: &Place) -> Vec<Ulid> {
    let parts = |key: &String| key.split('/').nth(1)?.parse().ok();
    let mut ids: Vec<Ulid> = keys_with(&place.url, "manifest.json").iter().filter_map(parts).collect();
    ids.sort();
    ids
}

#[test]
fn of_several_stores_one_sweeps_and_another_takes_over_when_it_is_gone() {
    in_each_bucket(|place| {
        let proxies = [place.proxy(), place.proxy(), place.proxy()];
        let names = ["one", "two", "three"];
        let mut stores: Vec<(Store, &Proxy)> = names
            .iter()
            .zip(&proxies)
            .map(|(name, proxy)| (open(place, name, proxy.port(), LONG, u64::MAX), proxy))
            .collect();
        add(&stores[0].0, id_of_age(3601, 1));
        add(&stores[0].0, id());
        proxies.iter().for_each(|proxy| drop(proxy.seen()));
        let listed_by =
            |stores: &[(Store, &Proxy)]| -> Vec<usize> { stores.iter().map(|(_, proxy)| lists(proxy)).collect() };
        let sweep_at_once = |stores: &[(Store, &Proxy)]| {
            let now = SystemTime::now();
            thread::scope(|scope| {
                let sweep = |store| scope.spawn(move || Store::sweep_in_turn(store, now, PERIOD).unwrap());
                let sweeping: Vec<_> = stores.iter().map(|(store, _)| sweep(store)).collect();
                assert!(sweeping.into_iter().all(|sweeping| sweeping.join().is_ok()));
            });
            listed_by(stores)
        };
        // One after the other: what the bucket says was written now, and by a clock that is ahead a turn is over at once.
        let sweep_at = |stores: &[(Store, &Proxy)], seconds: u64| {
            let now = SystemTime::now() + Duration::from_secs(seconds);
            for (store, _) in stores {
                store.sweep_in_turn(now, PERIOD).unwrap();
            }
            listed_by(stores)
        };
        let first = sweep_at_once(&stores);
        assert_eq!(first.iter().sum::<usize>(), 1, "{first:?}");
        assert_eq!(listed(place).len(), 1, "what has expired is gone");
        assert_eq!(sweep_at(&stores, 61), first, "the same again");
        let sweeper = first.iter().position(|lists| *lists == 1).unwrap();
        let counted = stores[sweeper].0.usage();
        assert!(counted.offloads == 1 && counted.bytes > 10_000, "{counted:?}");
        assert!(stores.iter().all(|(store, _)| store.usage() == counted), "the others know what it has counted");
        stores.remove(sweeper);
        proxies.iter().for_each(|proxy| drop(proxy.seen()));
        assert_eq!(sweep_at(&stores, 61), [0, 0], "it may only be slow");
        // One alone: for another that looks at its end later, that is long ago, too.
        assert_eq!(sweep_at(&stores[..1], 125), [1]);
        // An explicit sweep always lists.
        stores[0].0.sweep(SystemTime::now()).unwrap();
        assert_eq!(lists(stores[0].1), 1);
        put(&place.url, ".sweep", b"something else");
        assert_eq!(sweep_at_once(&stores).iter().sum::<usize>(), 1, "it is written anew");
    });
}

#[test]
fn a_sweep_that_ends_in_the_middle_is_made_by_another_store_once_its_turn_is_over() {
    in_each_bucket(|place| {
        let (broken, proxy) = (place.proxy(), place.proxy());
        let open = |name: &str, port| {
            place.open_behind(name, port, |bucket| {
                bucket.lease_time = Duration::from_secs(30);
                // moto itself fails to list, now and then, while others write.
                if name == "one" {
                    bucket.retry_time = Duration::ZERO;
                }
            })
        };
        let (one, two) = (open("one", broken.port()), open("two", proxy.port()));
        let mut is_gone = false;
        broken.decide(move |seen| {
            is_gone |= is_list(seen);
            if is_gone { Fate::Reset } else { Fate::Answered }
        });
        let now = SystemTime::now();
        assert!(matches!(one.sweep_in_turn(now, PERIOD), Err(StoreError::Bucket { .. })));
        two.sweep_in_turn(now, PERIOD).unwrap();
        assert_eq!(lists(&proxy), 0, "it may only be slow");
        two.sweep_in_turn(now + Duration::from_secs(40), PERIOD).unwrap();
        assert_eq!(lists(&proxy), 1);
    });
}

#[test]
fn a_long_sweep_keeps_its_turn() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = place.open_behind("one", proxy.port(), |bucket| bucket.lease_time = Duration::from_secs(3));
        add(&store, id_of_age(3601, 1));
        add(&store, id());
        proxy.seen();
        // Several requests one after the other, which take longer than a third of the time for which a turn holds.
        proxy.decide(|_| Fate::Late);
        assert_eq!(store.sweep_in_turn(SystemTime::now(), PERIOD).unwrap().expired, 1);
        let is_turn = |seen: &&Seen| seen.method == "PUT" && seen.target.contains(".sweep");
        let written = proxy.seen().iter().filter(is_turn).count();
        assert!(written >= 3, "its begin, its end and in between: {written}");
        proxy.decide(|_| Fate::Answered);
    });
}

#[test]
fn publications_list_nothing_and_share_a_write_of_the_ledger() {
    in_each_bucket(|place| {
        let (first, proxy) = (place.proxy(), place.proxy());
        let store = open(place, "one", first.port(), LONG, u64::MAX);
        (0..3).for_each(|_| add(&store, id()));
        assert_eq!(lists(&first), 1, "there was no ledger");
        drop(store);
        let before = ledger(place).unwrap();
        let store = open(place, "two", proxy.port(), LONG, u64::MAX);
        (0..3).for_each(|_| add(&store, id()));
        store.begin_job(TEAM, id(), b"begun").unwrap();
        drop(store);
        let seen = proxy.seen();
        let lists = seen.iter().filter(|seen| is_list(seen)).count();
        let of_ledger = |method| {
            let is_it = |seen: &&Seen| seen.method == method && seen.target.contains(LEDGER);
            seen.iter().filter(is_it).count()
        };
        assert_eq!((lists, of_ledger("GET"), of_ledger("PUT")), (0, 2, 1), "read before, and read and written after");
        assert_eq!(ledger(place).unwrap(), 2 * before + 5);
    });
}

#[test]
fn a_quota_is_exceeded_by_what_others_have_not_written_yet_alone() {
    in_each_bucket(|place| {
        let (one, ids) = (one(place), ids::<6>());
        let quota = 3 * one + one / 2;
        let other = open(place, "two", place.port(), LONG, u64::MAX);
        add(&other, ids[0]);
        other.sweep(SystemTime::now()).unwrap();
        let store = open(place, "one", place.port(), LONG, quota);
        // The first one reads the ledger; what the other adds then, it does not know.
        add(&store, ids[1]);
        add(&other, ids[2]);
        add(&other, ids[3]);
        add(&store, ids[4]);
        assert_eq!(listed(place), ids[..5]);
        // From the next look on, it does.
        drop((store, other));
        add(&open(place, "one", place.port(), LONG, quota), ids[5]);
        assert_eq!(listed(place), ids[3..]);
    });
}

#[test]
fn stores_that_add_for_a_tenant_at_its_quota_keep_within_it() {
    in_each_bucket(|place| {
        let (one, ids) = (one(place), ids::<8>());
        let quota = 3 * one + one / 2;
        let stores = ["one", "two"].map(|name| open(place, name, place.port(), Duration::ZERO, quota));
        for (number, id) in ids.iter().enumerate() {
            let before = (!keys_with(&place.url, LEDGER).is_empty()).then(|| get(&place.url, LEDGER));
            add(&stores[number % 2], *id);
            wait_until("the ledger is written", || ledger(place).is_some() && Some(get(&place.url, LEDGER)) != before);
            // What one has removed, the other still knows.
            let first = (number + 1).saturating_sub(3);
            assert_eq!(listed(place), ids[first..=number], "after {number}");
        }
    });
}

#[test]
fn a_ledger_that_is_wrong_is_counted_anew() {
    in_each_bucket(|place| {
        let (one, ids) = (one(place), ids::<8>());
        let quota = 3 * one + one / 2;
        let proxy = place.proxy();
        let open = || open(place, "one", proxy.port(), LONG, quota);
        ids[..2].iter().for_each(|id| add(&open(), *id));
        let large = "x".repeat(100_000);
        let wrong: [(&str, &dyn Fn()); 4] = [
            ("no ledger", &|| put(&place.url, LEDGER, b"[]")),
            ("too large", &|| put(&place.url, LEDGER, large.as_bytes())),
            ("too old", &|| put_ledger(place, Duration::from_secs(7200), 0)),
            ("too much", &|| put_ledger(place, Duration::ZERO, u64::MAX)),
        ];
        for (number, (what, write)) in wrong.iter().enumerate() {
            write();
            proxy.seen();
            let id = ids[2 + number];
            add(&open(), id);
            assert!(lists(&proxy) > 0, "{what}");
            assert_eq!(listed(place), ids[number..=2 + number], "{what}");
            assert!(ledger(place).unwrap() >= 3 * one && ledger(place).unwrap() < 6 * one, "{what}");
        }
        // What says too little is believed until the next sweep.
        put_ledger(place, Duration::ZERO, 0);
        add(&open(), ids[6]);
        assert_eq!(listed(place), ids[3..7]);
        open().sweep(SystemTime::now()).unwrap();
        add(&open(), ids[7]);
        assert_eq!(listed(place), ids[5..]);
    });
}

#[test]
fn a_ledger_that_cannot_be_written_costs_no_publication() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = open(place, "one", proxy.port(), Duration::ZERO, u64::MAX);
        add(&store, id());
        wait_until("the ledger is written", || ledger(place).is_some());
        let before = ledger(place).unwrap();
        proxy.decide(|seen| match seen.method.as_str() {
            "PUT" if seen.target.contains(LEDGER) => Fate::Reset,
            _ => Fate::Answered,
        });
        (0..2).for_each(|_| add(&store, id()));
        let mut attempts = 0;
        wait_until("it was tried several times", || {
            let is_attempt = |seen: &&Seen| seen.method == "PUT" && seen.target.contains(LEDGER);
            attempts += proxy.seen().iter().filter(is_attempt).count();
            attempts >= 3
        });
        assert_eq!(ledger(place), Some(before));
        proxy.decide(|_| Fate::Answered);
        wait_until("it is written", || ledger(place) == Some(3 * before));
        // One that cannot be read is as a count that fails.
        proxy.decide(|seen| if seen.target.contains(LEDGER) { Fate::Reset } else { Fate::Answered });
        let failed = publish(&store, id(), &[("a.txt", "x")]);
        assert!(matches!(failed, Err(StoreError::Bucket { .. })), "{failed:?}");
        assert_eq!(listed(place).len(), 3);
    });
}

#[test]
fn the_store_that_sweeps_makes_room_for_all_tenants() {
    in_each_bucket(|place| {
        let (one, ids) = (one(place), ids::<5>());
        let open =
            |name| Store::open(StoreConfig { total_bytes_max: 2 * one + one / 2, ..place.config(name) }).unwrap();
        let (sweeper, other) = (open("one"), open("two"));
        for store in [&sweeper, &other] {
            store.sweep_in_turn(SystemTime::now(), PERIOD).unwrap();
        }
        ids.iter().for_each(|id| add(&other, *id));
        assert_eq!(listed(place), ids, "they are of no other store");
        sweeper.sweep_in_turn(SystemTime::now(), PERIOD).unwrap();
        assert_eq!(listed(place), ids[3..]);
        assert_eq!(sweeper.usage().offloads, 2);
        other.sweep_in_turn(SystemTime::now(), PERIOD).unwrap();
        assert_eq!(other.usage(), sweeper.usage());
    });
}

#[test]
fn what_stores_share_is_not_taken_for_an_offload_or_a_left_over() {
    in_each_bucket(|place| {
        let store = open(place, "one", place.port(), LONG, u64::MAX);
        let offload = id();
        add(&store, offload);
        store.sweep_in_turn(SystemTime::now(), PERIOD).unwrap();
        assert_eq!(keys(&place.url).iter().filter(|key| !key.contains(&offload.to_string())).count(), 2);
        let far = SystemTime::now() + TIME_TO_LIVE_MAX;
        assert_eq!(store.list().iter().map(|listed| listed.id).collect::<Vec<_>>(), [offload]);
        assert_eq!(store.jobs(TEAM).unwrap(), []);
        let removals = store.removals(far).unwrap();
        assert!(removals.len() == 2 && removals.iter().all(|removal| removal.is_expired), "with a copy: {removals:?}");
        let swept = store.sweep(far).unwrap();
        assert_eq!((swept.expired, swept.orphans, store.usage()), (1, 0, Usage::default()));
        assert!(is_absent(&store.find(TEAM, offload)));
        assert_eq!(keys(&place.url), [".sweep"], "a tenant that has nothing needs no ledger");
    });
}
