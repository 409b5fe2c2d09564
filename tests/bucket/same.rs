//! What holds in a directory and in a bucket.

use std::time::{Duration, SystemTime};

use lro_host::read::{PageContent, PageRequest, Pages, Start};
use lro_host::store::{FileKind, QuotaKind, Store, StoreConfig, StoreError, TIME_TO_LIVE_MAX, Ulid, Usage};
use lro_tests::bucket::keys;

use crate::support::{
    HEADER, KINDS, Kind, Place, TEAM, content, file, id, id_of_age, is_absent, publish, record, rows, stage,
};

#[test]
fn an_offload_is_found_whole_by_every_store_and_for_its_tenant_alone() {
    for kind in KINDS {
        let place = Place::new(kind);
        let (store, other) = (place.open("one"), place.open("two"));
        let records = format!("{HEADER}{}", rows(20_000));
        let files = [("items.jsonl", records.as_str()), ("text.txt", "plain"), ("empty.txt", "")];
        let id = id();
        assert!(is_absent(&store.find(TEAM, id)), "{kind:?}");
        let published = publish(&store, id, &files).unwrap();
        for offload in [&published, &store.find(TEAM, id).unwrap(), &other.find(TEAM, id).unwrap()] {
            assert_eq!((offload.id(), offload.tenant()), (id, TEAM));
            assert_eq!(offload.expires(), id.time() + Duration::from_secs(3600));
            assert_eq!(offload.record().descriptor.get(), "{\"offloaded\":true,\"count\":12345678901234567890}");
            for (name, expected) in files {
                assert_eq!(content(offload, name).unwrap(), expected, "{kind:?} {name}");
            }
            assert!(matches!(offload.open("../x"), Err(StoreError::NotFound { .. })));
        }
        assert!(is_absent(&other.find("elsewhere", id)), "{kind:?}: another tenant");
        assert_eq!(store.list().iter().map(|listed| listed.id).collect::<Vec<_>>(), [id]);
    }
}

#[test]
fn what_the_record_does_not_say_is_refused_and_leaves_nothing() {
    for kind in KINDS {
        let place = Place::new(kind);
        let store = place.open("one");
        let one = || file("a.txt", FileKind::Text, "x");
        let staged = || stage(&store, id(), &[("a.txt", "x"), ("b.txt", "y")]).unwrap();
        assert!(matches!(staged().publish(record(vec![one()])), Err(StoreError::Unexpected { .. })));
        let missing = file("c.txt", FileKind::Text, "z");
        assert!(matches!(staged().publish(record(vec![one(), missing])), Err(StoreError::Unexpected { .. })));
        assert_eq!(store.usage(), Usage::default());
        if kind != Kind::Directory {
            assert_eq!(keys(&place.url), Vec::<String>::new());
        }
    }
}

#[test]
fn what_has_expired_is_swept_and_nothing_else() {
    for kind in KINDS {
        let place = Place::new(kind);
        let (store, other) = (place.open("one"), place.open("two"));
        let (old, young) = (id_of_age(3601, 1), id_of_age(3000, 2));
        publish(&store, old, &[("a.txt", "old")]).unwrap();
        publish(&store, young, &[("a.txt", "young")]).unwrap();
        assert!(matches!(other.find(TEAM, old), Err(StoreError::Expired { .. })), "{kind:?}");
        assert!(!other.removals(SystemTime::now()).unwrap().is_empty());
        let sweep = other.sweep(SystemTime::now()).unwrap();
        assert_eq!((sweep.expired, sweep.orphans), (1, 0), "{kind:?}");
        assert_eq!(other.list().iter().map(|listed| listed.id).collect::<Vec<_>>(), [young]);
        assert_eq!(content(&other.find(TEAM, young).unwrap(), "a.txt").unwrap(), "young");
        assert!(is_absent(&store.find(TEAM, old)));
        assert_eq!(other.sweep(SystemTime::now() + Duration::from_secs(7200)).unwrap().expired, 1);
        assert_eq!(other.usage(), Usage::default());
        if kind != Kind::Directory {
            assert_eq!(keys(&place.url), Vec::<String>::new());
        }
    }
}

#[test]
fn an_offload_may_have_its_own_time_to_live() {
    for kind in KINDS {
        let place = Place::new(kind);
        let store = place.open("one");
        let publish = |age, random, seconds| {
            let staging = stage(&store, id_of_age(age, random), &[("a.txt", "x")]).unwrap();
            let staging = staging.with_time_to_live(Some(Duration::from_secs(seconds)));
            staging.publish(record(vec![file("a.txt", FileKind::Text, "x")])).unwrap()
        };
        let (brief, lasting, endless) = (publish(70, 1, 60), publish(3700, 2, 7200), publish(3700, 3, u64::MAX));
        assert_eq!(endless.expires(), endless.id().time() + TIME_TO_LIVE_MAX);
        let other = Store::open_unswept(StoreConfig { time_to_live: Duration::from_secs(1), ..place.config("two") });
        let other = other.unwrap();
        assert!(matches!(other.find(TEAM, brief.id()), Err(StoreError::Expired { .. })), "{kind:?}");
        assert_eq!(other.sweep(SystemTime::now()).unwrap().expired, 1, "{kind:?}");
        for kept in [&lasting, &endless] {
            assert_eq!(other.find(TEAM, kept.id()).unwrap().expires(), kept.expires(), "{kind:?}");
        }
    }
}

#[test]
fn quotas_remove_the_oldest_first() {
    for kind in KINDS {
        let place = Place::new(kind);
        let text = "x".repeat(100_000);
        publish(&place.open("one"), id_of_age(50, 0), &[("a.txt", &text)]).unwrap();
        let one = {
            let store = place.open("one");
            store.sweep(SystemTime::now()).unwrap();
            store.usage().bytes
        };
        let quotas = StoreConfig { tenant_bytes_max: 3 * one + one / 2, ..place.config("one") };
        let store = Store::open(quotas).unwrap();
        let ids: Vec<Ulid> = (1..5).map(|n| id_of_age(50 - n, u128::from(n))).collect();
        for id in &ids {
            publish(&store, *id, &[("a.txt", &text)]).unwrap();
        }
        let listed: Vec<Ulid> = store.list().iter().map(|listed| listed.id).collect();
        assert_eq!(listed, ids[1..], "{kind:?}");
        let other = place.open("two");
        assert!(is_absent(&other.find(TEAM, ids[0])), "{kind:?}");
        for kept in &ids[1..] {
            assert_eq!(content(&other.find(TEAM, *kept).unwrap(), "a.txt").unwrap(), text, "{kind:?}");
        }
        let large = publish(&store, id(), &[("a.txt", &"x".repeat(500_000))]);
        assert!(matches!(large, Err(StoreError::Quota { which: QuotaKind::Tenant, .. })), "{kind:?} {large:?}");
        // The total one, by what a sweep has counted.
        let total = Store::open(StoreConfig { total_bytes_max: 2 * one + one / 2, ..place.config("one") }).unwrap();
        total.sweep(SystemTime::now()).unwrap();
        publish(&total, id(), &[("a.txt", &text)]).unwrap();
        assert_eq!(total.usage().offloads, 2, "{kind:?}");
        assert!(is_absent(&other.find(TEAM, ids[2])), "{kind:?}");
    }
}

#[test]
fn an_id_is_used_once() {
    for kind in KINDS {
        let place = Place::new(kind);
        let (store, other) = (place.open("one"), place.open("two"));
        let id = id();
        publish(&store, id, &[("a.txt", "first")]).unwrap();
        assert!(publish(&other, id, &[("a.txt", "second")]).is_err(), "{kind:?}");
        assert_eq!(content(&other.find(TEAM, id).unwrap(), "a.txt").unwrap(), "first", "{kind:?}");
    }
}

#[test]
fn pages_of_one_store_go_on_at_another_and_meet_every_record_once() {
    for kind in KINDS {
        let place = Place::new(kind);
        let stores = [place.open("one"), place.open("two")];
        // More than a record fits into one page.
        let records = format!("{}{{\"long\":\"{}\"}}\n{}", rows(3_000), "long ".repeat(60_000), rows(3_000));
        let id = id();
        publish(&stores[0], id, &[("items.jsonl", &format!("{HEADER}{records}"))]).unwrap();
        let mut request = PageRequest::new(TEAM, id, "items");
        let (mut read, mut pages) = (String::new(), 0);
        loop {
            let page = Pages::of(stores[pages % 2].clone()).page(&request).unwrap();
            match page.content {
                PageContent::Records(found) => found.iter().for_each(|line| read += &format!("{line}\n")),
                PageContent::Text(part) => {
                    read += &part.data;
                    if part.offset + part.bytes == part.record_bytes {
                        read.push('\n');
                    }
                }
                PageContent::Base64(part) => panic!("{part:?}"),
            }
            pages += 1;
            let Some(next) = page.next else { break };
            request.start = Start::Cursor(next);
        }
        assert!(pages > 10 && read == records, "{kind:?} {pages} pages");
    }
}
