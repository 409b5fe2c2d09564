//! Faults of the network and of the server, at every request: nothing torn, nothing lost, nothing twice.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use lro_host::store::{Store, StoreError, Ulid};
use lro_tests::bucket::{Fate, Proxy, Seen, keys};
use lro_tests::rounds;

use crate::support::{HEADER, Place, TEAM, content, forget_copies, id, in_each_bucket, is_absent, publish, rows};

const FATES: [Fate; 9] = [
    Fate::Answered,
    Fate::Late,
    Fate::Reset,
    Fate::Busy,
    Fate::Failed,
    Fate::AnswerLost,
    Fate::AnswerCut,
    Fate::AnswerSlow,
    Fate::AnswerDamaged,
];

/// Numbers that are the same in every run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn open(place: &Place, name: &str, proxy: &Proxy, retry: Duration) -> Store {
    place.open_behind(name, proxy.port(), |bucket| {
        bucket.retry_time = retry;
        bucket.request_time = Duration::from_secs(10);
    })
}

/// The manifests in a bucket.
fn manifests(place: &Place) -> usize {
    keys(&place.url).iter().filter(|key| key.ends_with("/manifest.json")).count()
}

#[test]
fn no_fault_tears_loses_or_doubles_an_offload() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let records = format!("{HEADER}{}", rows(5_000));
        let files = [("items.jsonl", records.as_str()), ("text.txt", "plain")];
        // Half of the stores repeat nothing, so that faults reach them.
        let stores =
            [open(place, "patient", &proxy, Duration::from_secs(30)), open(place, "hasty", &proxy, Duration::ZERO)];
        let mut numbers = Numbers(7);
        proxy.decide(move |_| match numbers.below(4) {
            0 => FATES[numbers.below(FATES.len() as u64) as usize],
            _ => Fate::Answered,
        });
        let mut outcomes: BTreeMap<Ulid, bool> = BTreeMap::new();
        for round in 0..rounds("LRO_BUCKET_ROUNDS", 60) {
            let (store, id) = (&stores[round % 2], id());
            outcomes.insert(id, publish(store, id, &files).is_ok());
            // What is read in the storm is right, or an error.
            forget_copies(store);
            for (name, expected) in files {
                if let Ok(read) = store.find(TEAM, id).and_then(|offload| content(&offload, name)) {
                    assert_eq!(read, expected);
                }
            }
        }
        proxy.decide(|_| Fate::Answered);
        let (calm, mut found) = (place.open("calm"), 0);
        for (id, is_published) in &outcomes {
            match calm.find(TEAM, *id) {
                Ok(offload) => {
                    found += 1;
                    files.iter().for_each(|(name, expected)| assert_eq!(content(&offload, name).unwrap(), *expected));
                    offload.directory().unwrap();
                }
                absent => assert!(!is_published && is_absent(&absent), "{id} was published: {absent:?}"),
            }
        }
        let published = outcomes.values().filter(|is_published| **is_published).count();
        assert_eq!(manifests(place), found);
        assert!(published > outcomes.len() / 4 && published < outcomes.len(), "{published} of {}", outcomes.len());
        assert_eq!(calm.sweep(SystemTime::now()).unwrap().expired, 0);
        assert_eq!(calm.usage().offloads, found as u64);
    });
}

/// Publishes while each request that fits has this fate, the first `times` times. Expects that it succeeds, once.
fn publish_with(place: &Place, fate: Fate, times: usize, fits: fn(&Seen) -> bool) {
    let proxy = place.proxy();
    let store = open(place, "one", &proxy, Duration::from_secs(30));
    let (before, mut left) = (manifests(place), times);
    proxy.decide(move |seen| {
        if left > 0 && fits(seen) {
            left -= 1;
            return fate;
        }
        Fate::Answered
    });
    let records = format!("{HEADER}{}", rows(280_000));
    let id = id();
    publish(&store, id, &[("items.jsonl", &records)]).unwrap_or_else(|error| panic!("{fate:?}: {error:?}"));
    let other = place.open("two");
    assert_eq!(content(&other.find(TEAM, id).unwrap(), "items.jsonl").unwrap(), records, "{fate:?}");
    assert_eq!(manifests(place), before + 1, "{fate:?}");
}

#[test]
fn an_answer_that_is_lost_after_the_manifest_is_there_costs_nothing() {
    in_each_bucket(|place| {
        for fate in [Fate::AnswerLost, Fate::AnswerCut, Fate::Reset, Fate::Busy] {
            publish_with(place, fate, 2, |seen| seen.method == "PUT" && seen.target.contains("manifest.json"));
        }
    });
}

#[test]
fn faults_in_the_middle_of_an_upload_of_several_parts_are_overcome() {
    in_each_bucket(|place| {
        for fate in [Fate::AnswerLost, Fate::Reset, Fate::Busy, Fate::Failed, Fate::Late, Fate::AnswerSlow] {
            publish_with(place, fate, 3, |seen| seen.target.contains("items.jsonl"));
        }
    });
}

#[test]
fn an_upload_that_fails_for_good_publishes_nothing() {
    in_each_bucket(|place| {
        // In Azure, parts have names.
        let is_part = |seen: &Seen| {
            seen.method == "PUT" && ["partNumber=2", "comp=block&"].iter().any(|one| seen.target.contains(one))
        };
        let proxy = place.proxy();
        let store = open(place, "one", &proxy, Duration::ZERO);
        proxy.decide(move |seen| if is_part(seen) { Fate::Failed } else { Fate::Answered });
        let records = format!("{HEADER}{}", rows(280_000));
        let published = publish(&store, id(), &[("items.jsonl", &records)]);
        assert_eq!(store.usage().bytes, 0, "it does not count any more");
        assert!(matches!(published, Err(StoreError::Bucket { .. })), "{published:?}");
        assert_eq!(keys(&place.url), Vec::<String>::new(), "the parts of an upload are no object");
    });
}
