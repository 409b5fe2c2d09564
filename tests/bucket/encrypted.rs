//! Offloads that are encrypted with the key of their tenant.

use std::fs;
use std::path::PathBuf;

use lro_host::extract::{Budget, Query, Question};
use lro_host::filter::{Filter, FilterError, Request};
use lro_host::read::{PageContent, PageRequest, Pages, Start};
use lro_host::store::{Store, StoreError, Ulid};
use lro_tests::bucket::{get, keys, put};
use lro_tests::{always, default_policy, extractor, filter_with, request, text};
use tempfile::TempDir;

use crate::support::{HEADER, Place, TEAM, content, forget_copies, id, in_each_bucket, publish, rows};

pub(crate) const FIRST: &str = "11223344556677889900aabbccddeeff11223344556677889900aabbccddeeff";
const SECOND: &str = "ffffffffffffffffffffffffffffffff00000000000000000000000000000000";

/// A directory with the keys of the tenant.
pub(crate) fn key_directory(keys: &[&str]) -> TempDir {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join(format!("{TEAM}.key")), keys.join("\n")).unwrap();
    directory
}

fn open(place: &Place, name: &str, keys: Option<&TempDir>) -> Store {
    open_behind(place, name, keys, place.port())
}

fn open_behind(place: &Place, name: &str, keys: Option<&TempDir>, port: u16) -> Store {
    let keys: Option<PathBuf> = keys.map(|keys| keys.path().to_owned());
    place.open_behind(name, port, |bucket| bucket.keys = keys)
}

fn last_row(store: &Store, id: Ulid, row: u32) -> String {
    let query = serde_json::json!({"where": [{"field": "id", "op": "eq", "value": row}]});
    let question = Question::Query(Query::read(&query.to_string()).unwrap());
    extractor().ask(&store.find(TEAM, id).unwrap(), None, &question, Budget::default()).unwrap().lines
}

#[test]
fn nothing_of_an_encrypted_offload_is_in_the_bucket_in_clear() {
    in_each_bucket(|place| {
        let secret = key_directory(&[FIRST]);
        let id = id();
        // Several parts, and a last block that is not full; one of a block; an empty one.
        let records = format!("{HEADER}{}", rows(400_000));
        let files = [("items.jsonl", records.as_str()), ("small.txt", "row 1 of a text"), ("empty.txt", "")];
        let writer = open(place, "one", Some(&secret));
        let published = publish(&writer, id, &files).unwrap();
        let objects: Vec<Vec<u8>> = keys(&place.url).iter().map(|key| get(&place.url, key)).collect();
        assert_eq!(objects.len(), 5, "three files, ranges and a manifest");
        for object in &objects {
            for text in ["row 1", "mcp_lro", "offloaded", "search", "items"] {
                assert!(!object.windows(text.len()).any(|window| window == text.as_bytes()), "{text}");
            }
        }
        forget_copies(&writer);
        let reader = open(place, "two", Some(&secret));
        for offload in [&published, &reader.find(TEAM, id).unwrap()] {
            for (name, expected) in files {
                assert_eq!(content(offload, name).unwrap(), expected, "{name}");
            }
        }
        // A page costs what it costs in clear.
        let proxy = place.proxy();
        let paging = open_behind(place, "three", Some(&secret), proxy.port());
        let request = PageRequest { start: Start::Record(359_990), ..PageRequest::new(TEAM, id, "items") };
        let PageContent::Records(found) = Pages::of(paging.clone()).page(&request).unwrap().content else {
            panic!("no records")
        };
        assert_eq!(found[0], "{\"id\":359990,\"name\":\"row 359990\"}");
        let requests = proxy.seen().iter().filter(|seen| !seen.target.contains("cursor-key")).count();
        assert_eq!(requests, 3, "manifest, ranges and a range");
        assert_eq!(last_row(&paging, id, 399_999), "{\"id\":399999,\"name\":\"row 399999\"}\n");
    });
}

fn reason(found: Result<lro_host::store::Offload, StoreError>) -> String {
    found.unwrap_err().to_string()
}

#[test]
fn without_its_key_an_offload_is_refused_and_says_why() {
    in_each_bucket(|place| {
        let (secret, other) = (key_directory(&[FIRST]), key_directory(&[SECOND]));
        let (encrypted, clear) = (id(), id());
        publish(&open(place, "one", Some(&secret)), encrypted, &[("a.txt", "secret")]).unwrap();
        publish(&open(place, "two", None), clear, &[("a.txt", "clear")]).unwrap();
        let wrong = open(place, "three", Some(&other));
        assert!(reason(wrong.find(TEAM, encrypted)).contains("another key"));
        assert!(
            reason(wrong.find(TEAM, clear)).contains("not encrypted"),
            "nobody replaces an offload by one in clear"
        );
        assert!(reason(open(place, "four", None).find(TEAM, encrypted)).contains("`store-keys`"));
        let none = open(place, "five", Some(&TempDir::new().unwrap()));
        assert!(reason(none.find(TEAM, encrypted)).contains("team.key"));
        let before = keys(&place.url);
        assert!(reason(publish(&none, id(), &[("a.txt", "x")])).contains("team.key"));
        // The policy that wrote the files is not at fault.
        let filter = Filter { store: Ok(none), ..filter_with(default_policy(), TempDir::new().unwrap().path()) };
        let request = Request { tenant: TEAM.to_owned(), ..request(always()) };
        let error = filter.apply(&request, &text("a result")).failure.unwrap();
        assert!(matches!(error, FilterError::Store(_)) && !error.is_fault_of_policy(), "{error:?}");
        assert!(error.to_string().starts_with("tenant `team` has no key: create "), "{error}");
        let bad = key_directory(&["12"]);
        assert!(
            reason(publish(&open(place, "six", Some(&bad)), id(), &[("a.txt", "x")])).contains("64 hexadecimal digits")
        );
        assert_eq!(keys(&place.url), before, "nothing is uploaded without a key");
    });
}

#[test]
fn a_key_is_replaced_while_offloads_of_the_one_before_are_read() {
    in_each_bucket(|place| {
        let secret = key_directory(&[FIRST]);
        let store = open(place, "one", Some(&secret));
        let (before, after) = (id(), id());
        publish(&store, before, &[("a.txt", "before")]).unwrap();
        fs::write(secret.path().join(format!("{TEAM}.key")), format!("{SECOND}\n{FIRST}\n")).unwrap();
        publish(&store, after, &[("a.txt", "after")]).unwrap();
        forget_copies(&store);
        assert_eq!(content(&store.find(TEAM, before).unwrap(), "a.txt").unwrap(), "before");
        assert_eq!(content(&store.find(TEAM, after).unwrap(), "a.txt").unwrap(), "after");
        fs::write(secret.path().join(format!("{TEAM}.key")), SECOND).unwrap();
        assert!(reason(store.find(TEAM, before)).contains("another key"));
        assert_eq!(content(&store.find(TEAM, after).unwrap(), "a.txt").unwrap(), "after");
    });
}

#[test]
fn blocks_and_objects_in_another_place_are_refused() {
    in_each_bucket(|place| {
        let secret = key_directory(&[FIRST]);
        let store = open(place, "one", Some(&secret));
        let (one, two) = (id(), id());
        let records = format!("{HEADER}{}", rows(20_000));
        for id in [one, two] {
            publish(&store, id, &[("items.jsonl", &records)]).unwrap();
        }
        forget_copies(&store);
        let key = |id: Ulid, name: &str| format!("{TEAM}/{id}/{name}");
        let sealed = get(&place.url, &key(one, "items.jsonl"));
        let check = || {
            let offload = store.find(TEAM, one).unwrap();
            for read in [content(&offload, "items.jsonl").map(drop), offload.directory().map(drop)] {
                assert!(read.is_err(), "it was read");
            }
        };
        let block = (64 << 10) + 16;
        let mut swapped = sealed.clone();
        let (first, second) = swapped.split_at_mut(block);
        first.swap_with_slice(&mut second[..block]);
        for other in [swapped, get(&place.url, &key(two, "items.jsonl")), sealed[..block].to_vec()] {
            put(&place.url, &key(one, "items.jsonl"), &other);
            check();
        }
        put(&place.url, &key(one, "items.jsonl"), &sealed);
        assert_eq!(content(&store.find(TEAM, one).unwrap(), "items.jsonl").unwrap(), records);
        put(&place.url, &key(one, "manifest.json"), &get(&place.url, &key(two, "manifest.json")));
        assert!(reason(store.find(TEAM, one)).contains("damaged"), "the manifest of another offload");
    });
}
