//! What only a bucket has: ranges, copies, what a process leaves behind.

use std::collections::BTreeSet;
use std::fs;
use std::net::TcpListener;
use std::thread;
use std::time::{Duration, SystemTime};

use lro_host::extract::{Budget, Question};
use lro_host::read::{PageContent, PageRequest, Pages, Start};
use lro_host::store::{BucketConfig, QuotaKind, Section, Store, StoreConfig, StoreError, TIME_TO_LIVE_MAX};
use lro_tests::bucket::{BUCKET, Fate, Seen, keys, put};
use lro_tests::extractor;

use crate::support::{HEADER, TEAM, content, forget_copies, has_copy, id, in_each_bucket, is_absent, publish, rows};

/// Method, last part of the key and range.
fn shown(seen: &[Seen]) -> Vec<String> {
    let name = |target: &str| target.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    seen.iter().map(|seen| format!("{} {}", seen.method, name(&seen.target))).collect()
}

/// The number of bytes that a range asks for.
fn length(range: &str) -> u64 {
    let (start, end) = range.strip_prefix("bytes=").unwrap().split_once('-').unwrap();
    end.parse::<u64>().unwrap() + 1 - start.parse::<u64>().unwrap()
}

fn page(store: &Store, request: &PageRequest) -> (Vec<String>, Option<String>) {
    let page = Pages::of(store.clone()).page(request).unwrap();
    match page.content {
        PageContent::Records(records) => (records, page.next),
        content => panic!("{content:?}"),
    }
}

#[test]
fn a_page_far_away_costs_an_index_and_a_range() {
    in_each_bucket(|place| {
        let id = id();
        let records = format!("{HEADER}{}", rows(400_000));
        assert!(records.len() > 12 << 20, "several parts: {}", records.len());
        publish(&place.open("one"), id, &[("items.jsonl", &records)]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        let mut request = PageRequest { start: Start::Record(359_990), ..PageRequest::new(TEAM, id, "items") };
        let (found, next) = page(&store, &request);
        assert_eq!(found[0], "{\"id\":359990,\"name\":\"row 359990\"}");
        // The key signs the cursor, once in the life of a store.
        let seen: Vec<Seen> = proxy.seen();
        let without_key: Vec<String> = shown(&seen).into_iter().filter(|one| !one.ends_with("cursor-key")).collect();
        assert_eq!(without_key, ["GET manifest.json", "GET .items.jsonl.ranges", "GET items.jsonl"]);
        let ranges: Vec<u64> = seen.iter().filter_map(|seen| seen.range.as_deref()).map(length).collect();
        assert!(ranges.len() == 1 && ranges[0] <= 256 << 10, "{ranges:?}");
        request.start = Start::Cursor(next.unwrap());
        let after: Vec<String> = {
            let pages = Pages::of(store.clone());
            pages.page(&request).unwrap();
            shown(&proxy.seen()).into_iter().filter(|one| !one.ends_with("cursor-key")).collect()
        };
        assert_eq!(after, ["GET manifest.json", "GET items.jsonl"], "the index is kept");
        assert!(!has_copy(&store, id), "ranges alone were read");
    });
}

fn ask(store: &Store, id: lro_host::store::Ulid) -> Result<String, lro_host::extract::ExtractError> {
    ask_from(store, id, 19_998)
}

/// The records from one on, by a question.
fn ask_from(store: &Store, id: lro_host::store::Ulid, first: u32) -> Result<String, lro_host::extract::ExtractError> {
    let test = serde_json::json!({"where": [{"field": "id", "op": "ge", "value": first}], "limit": 5});
    let query = lro_host::extract::Query::read(&test.to_string()).unwrap();
    let offload = store.find(TEAM, id)?;
    Ok(extractor().ask(&offload, None, &Question::Query(query), Budget::default())?.lines)
}

#[test]
fn a_question_copies_its_offload_once() {
    in_each_bucket(|place| {
        let id = id();
        let records = format!("{HEADER}{}", rows(20_000));
        publish(&place.open("one"), id, &[("items.jsonl", &records)]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        let expected = "{\"id\":19998,\"name\":\"row 19998\"}\n{\"id\":19999,\"name\":\"row 19999\"}\n";
        thread::scope(|scope| {
            let asked: Vec<_> = (0..6).map(|_| scope.spawn(|| ask(&store, id).unwrap())).collect();
            asked.into_iter().for_each(|asked| assert_eq!(asked.join().unwrap(), expected));
        });
        let seen = shown(&proxy.seen());
        assert_eq!(seen.iter().filter(|one| *one == "GET items.jsonl").count(), 1, "{seen:?}");
        assert_eq!(seen.iter().filter(|one| *one == "GET manifest.json").count(), 6, "whether it is there: {seen:?}");
        assert!(has_copy(&store, id));
        let page = page(&store, &PageRequest { records: Some(1), ..PageRequest::new(TEAM, id, "items") });
        assert_eq!(page.0, ["{\"id\":0,\"name\":\"row 0\"}"]);
        assert!(!shown(&proxy.seen()).contains(&"GET items.jsonl".to_owned()), "the copy is read");
    });
}

#[test]
fn a_question_begins_with_what_has_arrived_and_ends_with_what_is_verified() {
    in_each_bucket(|place| {
        let id = id();
        let records = format!("{HEADER}{}", rows(400_000));
        let text = "word ".repeat(100_000);
        publish(&place.open("one"), id, &[("items.jsonl", &records), ("text.txt", &text)]).unwrap();
        let proxy = place.proxy();
        let store = place.open_behind("two", proxy.port(), |_| {});
        let expected = "{\"id\":399999,\"name\":\"row 399999\"}\n";
        let last = || ask_from(&store, id, 399_999);
        // The last record: all of the file has been read. It comes in pieces, and the connection breaks in between, once.
        let mut breaks = 1;
        proxy.decide(move |seen| match seen.target.contains("items.jsonl") {
            true if breaks > 0 => {
                breaks -= 1;
                Fate::AnswerCut
            }
            true => Fate::AnswerSlow,
            false => Fate::Answered,
        });
        assert_eq!(last().unwrap(), expected);
        let seen = proxy.seen();
        let ranges: Vec<&str> = seen
            .iter()
            .filter(|seen| seen.target.contains("/items.jsonl"))
            .filter_map(|seen| seen.range.as_deref())
            .collect();
        assert!(ranges.len() == 2 && ranges[0].starts_with("bytes=0-"), "{ranges:?}");
        assert!(!ranges[1].starts_with("bytes=0-"), "what has come is not asked for again: {ranges:?}");
        assert!(has_copy(&store, id));
        // The answer is right before the last byte, which is another.
        forget_copies(&store);
        let mut damaged = records.clone().into_bytes();
        *damaged.last_mut().unwrap() = b' ';
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), &damaged);
        let refused = ask_from(&store, id, 399_998).unwrap_err();
        assert!(refused.to_string().contains("has changed") && !has_copy(&store, id), "{refused}");
        // One that is too short ends too.
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), &damaged[..1_000_000]);
        assert!(last().is_err() && !has_copy(&store, id));
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), records.as_bytes());
        assert_eq!(last().unwrap(), expected);
    });
}

#[test]
fn a_damaged_copy_is_never_believed_and_is_read_from_the_bucket_again() {
    in_each_bucket(|place| {
        let (store, id) = (place.open("one"), id());
        let records = format!("{HEADER}{}", rows(20_000));
        publish(&store, id, &[("items.jsonl", &records)]).unwrap();
        let copy = store.shown_path(TEAM, id).join("items.jsonl");
        let expected = "{\"id\":19999,\"name\":\"row 19999\"}\n";
        // As a power failure leaves files that were not synchronized.
        for damage in
            [&[][..], &records.as_bytes()[..300_000], &vec![0; records.len()], records.replace("row", "ROW").as_bytes()]
        {
            fs::write(&copy, damage).unwrap();
            let refused = ask_from(&store, id, 19_999).unwrap_err();
            assert!(refused.to_string().contains("has changed") && !has_copy(&store, id), "{refused}");
            assert_eq!(ask_from(&store, id, 19_999).unwrap(), expected);
            assert!(has_copy(&store, id));
        }
    });
}

#[test]
fn copies_make_room_for_each_other_and_come_again() {
    in_each_bucket(|place| {
        let text = "x".repeat(100_000);
        let store = place.open_behind("one", place.port(), |bucket| bucket.copies_bytes_max = 300_000);
        let ids: Vec<_> = (0..5).map(|_| id()).collect();
        for id in &ids {
            publish(&store, *id, &[("a.txt", &text)]).unwrap();
        }
        let copies = |store: &Store| ids.iter().map(|id| has_copy(store, *id)).collect::<Vec<_>>();
        assert_eq!(copies(&store), [false, false, false, true, true]);
        assert_eq!(store.usage().offloads, 5, "what makes room for copies stays in the bucket");
        store.find(TEAM, ids[0]).unwrap().directory().unwrap();
        assert!(has_copy(&store, ids[0]));
        assert_eq!(copies(&store).iter().filter(|has_copy| **has_copy).count(), 2);
        for id in &ids {
            assert_eq!(content(&store.find(TEAM, *id).unwrap(), "a.txt").unwrap(), text);
        }
        let refused = publish(&store, id(), &[("a.txt", &"x".repeat(400_000))]);
        assert!(matches!(refused, Err(StoreError::Quota { which: QuotaKind::Copies, .. })), "{refused:?}");
        assert!(keys(&place.url).iter().all(|key| ids.iter().any(|id| key.contains(&id.to_string()))));
    });
}

#[test]
fn what_a_process_left_is_not_found_and_is_removed_in_time() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let store = place.open_behind("one", proxy.port(), |bucket| bucket.retry_time = Duration::ZERO);
        let (left, whole) = (id(), id());
        publish(&store, whole, &[("a.txt", "whole")]).unwrap();
        proxy.decide(|seen| match seen.method.as_str() {
            "PUT" if seen.target.contains("manifest.json") => Fate::Reset,
            _ => Fate::Answered,
        });
        let records = format!("{HEADER}{}", rows(10_000));
        let failed = publish(&store, left, &[("items.jsonl", &records)]);
        assert!(matches!(failed, Err(StoreError::Bucket { .. })), "{failed:?}");
        let other = place.open("two");
        let count = || keys(&place.url).iter().filter(|key| key.contains(&left.to_string())).count();
        assert!(is_absent(&other.find(TEAM, left)) && count() == 2, "its file and its ranges: {}", count());
        // It may be about to be published, even for one who removes everything.
        assert_eq!(other.sweep(SystemTime::now()).unwrap().orphans, 0);
        assert!(
            !other.removals(SystemTime::now() + TIME_TO_LIVE_MAX).unwrap().iter().any(|removal| !removal.is_expired)
        );
        let impatient = place.open_behind("three", place.port(), |bucket| bucket.left_age = Duration::from_secs(1));
        let mut orphans = 0;
        for _ in 0..100 {
            orphans += impatient.sweep(SystemTime::now()).unwrap().orphans;
            if orphans > 0 {
                break;
            }
            thread::sleep(Duration::from_millis(100));
        }
        assert_eq!((orphans, count()), (1, 0));
        assert_eq!(content(&other.find(TEAM, whole).unwrap(), "a.txt").unwrap(), "whole");
    });
}

#[test]
fn what_takes_so_long_that_a_sweep_could_remove_it_is_not_published() {
    in_each_bucket(|place| {
        let store = place.open_behind("one", place.port(), |bucket| bucket.left_age = Duration::ZERO);
        let id = id();
        let failed = publish(&store, id, &[("a.txt", "x")]).unwrap_err();
        assert!(matches!(failed, StoreError::Bucket { .. }), "{failed:?}");
        assert!(is_absent(&place.open("two").find(TEAM, id)) && !has_copy(&store, id));
    });
}

#[test]
fn the_key_of_cursors_is_made_once_and_checked() {
    in_each_bucket(|place| {
        let stores: Vec<Store> = (0..6).map(|number| place.open(&number.to_string())).collect();
        let made: BTreeSet<[u8; 32]> = thread::scope(|scope| {
            let made: Vec<_> = stores.iter().map(|store| scope.spawn(|| store.cursor_key().unwrap())).collect();
            made.into_iter().map(|made| made.join().unwrap()).collect()
        });
        assert_eq!(made.len(), 1);
        put(&place.url, ".cursor-key", b"short");
        assert!(matches!(stores[0].cursor_key(), Err(StoreError::Unexpected { .. })));
    });
}

#[test]
fn other_bytes_are_never_given_out() {
    in_each_bucket(|place| {
        let (store, id) = (place.open("one"), id());
        let records = format!("{HEADER}{}", rows(20_000));
        publish(&store, id, &[("items.jsonl", &records), ("small.txt", "small")]).unwrap();
        let other = place.open("two");
        let is_changed =
            |name: &str| matches!(content(&other.find(TEAM, id).unwrap(), name), Err(StoreError::Changed { .. }));
        assert!(!is_changed("items.jsonl") && !is_changed("small.txt"));
        let mut damaged = records.clone().into_bytes();
        damaged[300_000] ^= 1;
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), &damaged);
        put(&place.url, &format!("{TEAM}/{id}/small.txt"), b"SMALL");
        assert!(is_changed("items.jsonl") && is_changed("small.txt"));
        let reader = other.find(TEAM, id).unwrap().open("items.jsonl").unwrap();
        assert_eq!(
            reader.bytes(0, 1000).unwrap(),
            &records.as_bytes()[..1000],
            "blocks without the damage are as they were"
        );
        let asked = ask(&other, id).unwrap_err();
        assert!(asked.to_string().contains("has changed"), "{asked}");
        assert!(!has_copy(&other, id));
        put(&place.url, &format!("{TEAM}/{id}/items.jsonl"), records.as_bytes());
        put(&place.url, &format!("{TEAM}/{id}/.items.jsonl.ranges"), b"other");
        // What was read lately is known.
        assert!(!is_changed("items.jsonl"));
        let third = place.open("three");
        assert!(matches!(
            content(&third.find(TEAM, id).unwrap(), "items.jsonl"),
            Err(StoreError::Bucket { .. } | StoreError::Changed { .. })
        ));
        put(&place.url, &format!("{TEAM}/{id}/manifest.json"), b"{}");
        assert!(matches!(third.find(TEAM, id), Err(StoreError::Manifest { .. })));
    });
}

#[test]
fn objects_of_others_stay() {
    in_each_bucket(|place| {
        let store = place.open("one");
        publish(&store, id(), &[("a.txt", "x")]).unwrap();
        store.cursor_key().unwrap();
        let foreign = ["notes.txt", "team/01arz3ndektsv4rrffq69g5fav/manifest.json", "team/notes.txt"];
        foreign.iter().for_each(|key| put(&place.url, key, b"foreign"));
        assert_eq!(store.sweep(SystemTime::now() + TIME_TO_LIVE_MAX).unwrap().expired, 1);
        assert_eq!(keys(&place.url), [".cursor-key", "notes.txt", foreign[1], "team/notes.txt"]);
    });
}

#[test]
fn a_store_without_its_bucket_says_so() {
    in_each_bucket(|place| {
        // Nobody listens on a port that was just closed.
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let store = place.open_behind("one", port, |bucket| bucket.retry_time = Duration::ZERO);
        let failed = publish(&store, id(), &[("a.txt", "x")]).unwrap_err();
        assert!(matches!(failed, StoreError::Bucket { .. }), "{failed:?}");
        assert!(
            !failed.for_client().contains("127.0.0.1") && !failed.for_client().contains(BUCKET),
            "{}",
            failed.for_client()
        );
        assert!(matches!(store.find(TEAM, id()), Err(StoreError::Bucket { .. })));
        assert_eq!(fs::read_dir(store.root().join(TEAM)).unwrap().count(), 0, "nothing is left");
        let wrong = StoreConfig { bucket: Some(BucketConfig::new("s3://")), ..place.config("two") };
        assert!(matches!(Store::open(wrong.clone()), Err(StoreError::Bucket { .. })));
        let (store, error) = Store::open_or_retry(wrong);
        assert!(error.is_some() && publish(&store, id(), &[("a.txt", "x")]).is_err(), "never in the directory instead");
    });
}

#[test]
fn a_copy_that_is_gone_is_read_from_the_bucket() {
    in_each_bucket(|place| {
        let (store, id) = (place.open("one"), id());
        let offload = publish(&store, id, &[("a.txt", "kept")]).unwrap();
        forget_copies(&store);
        assert_eq!(content(&offload, "a.txt").unwrap(), "kept");
        offload.directory().unwrap();
        assert!(has_copy(&store, id));
    });
}
