//! Sessions, which one store on a bucket takes over from another.

use std::time::{Duration, SystemTime};

use lro_host::store::{SESSION_BYTES_MAX, Store};
use lro_tests::bucket::{Fate, keys_with};
use lro_tests::wait_until;

use crate::support::{Kind, Place, TEAM, in_each_bucket};

const SESSION: &[u8] = b"{\"method\":\"initialize\"}\nand more";

fn found(session: &[u8]) -> Option<Vec<u8>> {
    Some(session.to_vec())
}

/// What each of these stores gets when all try at the same time.
fn all_take(stores: &[&Store], id: &str) -> Vec<Option<Vec<u8>>> {
    std::thread::scope(|scope| {
        let taking: Vec<_> = stores.iter().map(|store| scope.spawn(|| store.take_session(TEAM, id).unwrap())).collect();
        taking.into_iter().map(|taking| taking.join().unwrap()).collect()
    })
}

#[test]
fn a_session_changes_hands_when_its_store_lets_go_or_is_gone() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let open = |name, port| {
            place.open_behind(name, port, |bucket| {
                (bucket.lease_time, bucket.retry_time) = (Duration::from_secs(5), Duration::ZERO);
            })
        };
        let one = open("one", proxy.port());
        let [two, three, four] = ["two", "three", "four"].map(|name| open(name, place.port()));
        assert_eq!(two.take_session(TEAM, "a").unwrap(), None);
        one.keep_session(TEAM, "a", SESSION, true).unwrap();
        assert_eq!(all_take(&[&two, &three, &four], "a"), [None, None, None], "its store goes on");
        assert_eq!(one.take_session(TEAM, "a").unwrap(), found(SESSION));
        assert_eq!(two.find_session(TEAM, "a").unwrap(), found(SESSION));
        assert_eq!(two.find_session("another team", "a").unwrap(), None);
        one.keep_session(TEAM, "a", SESSION, false).unwrap();
        let taken = all_take(&[&two, &three, &four], "a");
        assert_eq!(taken.iter().flatten().count(), 1, "{taken:?}");
        assert_eq!(one.take_session(TEAM, "a").unwrap(), None);
        one.keep_session(TEAM, "b", b"", true).unwrap();
        proxy.decide(|_| Fate::Reset);
        drop(one);
        wait_until("the lease is over", || two.take_session(TEAM, "b").unwrap() == found(b""));
        assert_eq!(three.take_session(TEAM, "b").unwrap(), None);
        three.forget_session(TEAM, "b").unwrap();
        three.forget_session(TEAM, "b").unwrap();
        assert_eq!(two.take_session(TEAM, "b").unwrap(), None);
    });
}

#[test]
fn what_is_kept_of_a_session_is_bounded_and_expires() {
    in_each_bucket(|place| {
        let (one, two) = (place.open("one"), place.open("two"));
        let largest = vec![b'x'; SESSION_BYTES_MAX];
        one.keep_session(TEAM, "large", &largest, true).unwrap();
        assert_eq!(two.find_session(TEAM, "large").unwrap(), found(&largest));
        one.keep_session(TEAM, "larger", &[largest, b"x".to_vec()].concat(), true).unwrap();
        assert_eq!(two.find_session(TEAM, "larger").unwrap(), None);
        let sessions = || keys_with(&place.url, "/.sessions/").len();
        two.sweep(SystemTime::now()).unwrap();
        assert_eq!(sessions(), 1);
        two.sweep(SystemTime::now() + Duration::from_secs(25 * 3600)).unwrap();
        assert_eq!((sessions(), two.find_session(TEAM, "large").unwrap()), (0, None));
    });
}

#[test]
fn a_directory_keeps_no_sessions() {
    let store = Place::new(Kind::Directory).open("one");
    assert!(!store.keeps_sessions());
    store.keep_session(TEAM, "a", SESSION, true).unwrap();
    assert_eq!((store.find_session(TEAM, "a").unwrap(), store.take_session(TEAM, "a").unwrap()), (None, None));
    store.forget_session(TEAM, "a").unwrap();
}
