//! Large files, of which parts are uploaded while a policy writes them. The policies are those of `tests/policies`.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;

use lro_host::filter::{Decision, Filter, Request};
use lro_host::policy::{Slot, Trial};
use lro_host::sandbox::Limits;
use lro_host::settings::{FailureMode, PolicySettings};
use lro_host::store::{Section, Store, Ulid};
use lro_tests::bucket::{Proxy, Seen, Service, keys};
use lro_tests::{always, hostile_policy, offloaded, request, text, wait_until};

use crate::encrypted::{FIRST, key_directory};
use crate::support::{Place, TEAM, in_each_bucket};

const MIB: usize = 1 << 20;
/// Three parts of 8 MiB.
const BLOCKS: usize = 24;

/// What a policy does with a result, with the limits of a call.
fn decide(store: Store, behaviour: &str, limits: Limits) -> Decision {
    decide_with(hostile_policy().into(), store, behaviour, limits)
}

fn decide_with(slot: Arc<Slot>, store: Store, behaviour: &str, limits: Limits) -> Decision {
    let filter = Filter { slot, store: Ok(store), limits, failure: FailureMode::Open, documents: None };
    let settings = PolicySettings { custom: Some(format!("{behaviour}:{BLOCKS}")), ..always() };
    filter.apply(&Request { tenant: TEAM.to_owned(), ..request(settings) }, &text("a result"))
}

/// The bytes of a file, as a new machine reads them from the bucket.
fn read(place: &Place, keys: Option<PathBuf>, id: Ulid, name: &str) -> Vec<u8> {
    let reader = place.open_behind("two", place.port(), |bucket| bucket.keys = keys);
    let reader = reader.find(TEAM, id).unwrap().open(name).unwrap();
    reader.verify().unwrap();
    reader.bytes(0, usize::MAX).unwrap()
}

/// The parts that were sent through a proxy, each as often as it was.
fn parts(proxy: &Proxy) -> Vec<String> {
    proxy.seen().into_iter().filter(is_part).map(|seen| seen.target).collect()
}

fn is_part(seen: &Seen) -> bool {
    seen.method == "PUT" && ["partNumber=", "comp=block&"].iter().any(|one| seen.target.contains(one))
}

#[test]
fn each_part_of_a_large_file_is_sent_once() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = place.open_behind("one", proxy.port(), |_| {});
        let id = offloaded(decide(store, "many-bytes", Limits::default())).offload.id();
        let parts = parts(&proxy);
        let distinct: HashSet<&String> = parts.iter().collect();
        assert_eq!((parts.len(), distinct.len()), (3, 3), "{parts:?}");
        assert!(read(place, None, id, "big.bin") == vec![b'x'; BLOCKS * MIB]);
    });
}

#[test]
fn nothing_of_a_trial_is_uploaded() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = place.open_behind("one", proxy.port(), |_| {});
        let slot: Arc<Slot> = hostile_policy().into();
        slot.begin_trial(hostile_policy(), Trial { calls: Some(1), time: None, promote: false }).unwrap();
        offloaded(decide_with(Arc::clone(&slot), store, "many-bytes", Limits::default()));
        let report = || slot.status().trial.unwrap();
        wait_until("the trial's end", || report().outcome.is_some());
        assert_eq!((report().same, parts(&proxy).len()), (1, 3), "{:?}", report());
    });
}

#[test]
fn parts_are_sent_while_the_policy_writes_and_aborted_when_it_fails() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = place.open_behind("one", proxy.port(), |_| {});
        let limits = Limits { written_bytes: 20 * MIB as u64, ..Limits::default() };
        let decision = decide(store, "many-bytes", limits);
        assert!(decision.failure.is_some(), "{:?}", decision.outcome);
        let mut seen = Vec::new();
        wait_until("the upload is aborted", || {
            seen.extend(proxy.seen());
            // In Azure, parts that are not committed are removed by the service.
            let is_abort = |one: &Seen| one.method == "DELETE" && one.target.contains("uploadId=");
            seen.iter().any(is_part) && (place.service() == Service::Azure || seen.iter().any(is_abort))
        });
        assert_eq!(keys(&place.url), Vec::<String>::new());
    });
}

#[test]
fn what_is_not_appended_is_uploaded_as_it_is_at_the_end() {
    in_each_bucket(|place| {
        let secret = key_directory(&[FIRST]);
        for keys in [None, Some(secret.path().to_owned())] {
            let offload = |behaviour| {
                let store = place.open_behind("one", place.port(), |bucket| bucket.keys.clone_from(&keys));
                offloaded(decide(store, behaviour, Limits::default())).offload.id()
            };
            let mut expected = vec![b'x'; BLOCKS * MIB];
            let id = offload("many-bytes");
            assert!(read(place, keys.clone(), id, "big.bin") == expected);
            let id = offload("rename-large");
            assert!(read(place, keys.clone(), id, "other.bin") == expected);
            assert_eq!(read(place, keys.clone(), id, "big.bin"), b"another");
            let middle = BLOCKS * MIB / 2;
            expected[middle..middle + 7].copy_from_slice(b"changed");
            assert!(read(place, keys.clone(), offload("rewrite"), "big.bin") == expected);
        }
    });
}
