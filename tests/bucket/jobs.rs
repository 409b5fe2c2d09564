//! Records of jobs, which all stores on a bucket read.

use std::time::{Duration, SystemTime};

use lro_host::store::{JobState, Store, StoreError, Ulid};
use lro_tests::bucket::{Fate, Proxy, Seen, keys_with};
use lro_tests::wait_until;

use crate::support::{KINDS, Place, TEAM, id, in_each_bucket};

/// The lease of the stores here, far from those of others on a busy machine.
const LEASE: Duration = Duration::from_secs(5);

const RUNNING_HERE: JobState = JobState::Running { is_own: true };
const RUNNING_THERE: JobState = JobState::Running { is_own: false };

fn state(store: &Store, id: Ulid) -> Option<JobState> {
    match store.job(TEAM, id, 0) {
        Err(StoreError::NotFound { .. }) => None,
        found => Some(found.unwrap().state),
    }
}

/// The first is the oldest, also where all are of one moment.
fn three_ids() -> [Ulid; 3] {
    let mut ids = [id(), id(), id()];
    ids.sort();
    ids
}

fn open(place: &Place, name: &str, port: u16) -> Store {
    place.open_behind(name, port, |bucket| {
        bucket.lease_time = LEASE;
        // Of faults on the way. moto itself fails to list, now and then, while others write.
        if port != place.port() {
            bucket.retry_time = Duration::ZERO;
        }
    })
}

/// A job runs while its lease is written so many times. It is written three times while it holds, or more often if answers are lost.
fn keeps_running_while_renewed(proxy: &Proxy, times: usize, state: impl Fn() -> Option<JobState>) {
    let is_renewal = |seen: &Seen| seen.method == "PUT" && seen.target.contains(".leases/");
    let mut renewals = 0;
    wait_until("the lease is written", || {
        assert_eq!(state(), Some(RUNNING_THERE));
        renewals += proxy.seen().iter().filter(|seen| is_renewal(seen)).count();
        renewals >= times
    });
}

#[test]
fn a_job_of_one_store_is_read_by_another() {
    for kind in KINDS {
        let place = Place::new(kind);
        let (one, two) = (place.open("one"), place.open("two"));
        let jobs = three_ids();
        for job in &jobs {
            assert_eq!(state(&two, *job), None);
            one.begin_job(TEAM, *job, b"begun").unwrap();
            assert_eq!((state(&one, *job), state(&two, *job)), (Some(RUNNING_HERE), Some(RUNNING_THERE)), "{kind:?}");
            assert_eq!(two.job(TEAM, *job, 3).unwrap().bytes, b"beg");
        }
        for job in &jobs {
            one.end_job(TEAM, *job, b"ended, with its result", 2).unwrap();
        }
        let (kept, gone) = (jobs[1..].to_vec(), jobs[0]);
        for store in [&one, &two] {
            assert_eq!(store.jobs(TEAM).unwrap(), kept.iter().rev().copied().collect::<Vec<_>>(), "{kind:?}");
            assert_eq!(state(store, gone), None, "two are kept");
            for job in &kept {
                let found = store.job(TEAM, *job, u64::MAX).unwrap();
                assert_eq!((found.state, found.bytes), (JobState::Ended, b"ended, with its result".to_vec()));
            }
        }
        assert!(one.job("other", jobs[1], 0).is_err());
        // Records expire as offloads do, by when they were written.
        two.sweep(SystemTime::now() + Duration::from_secs(3500)).unwrap();
        assert_eq!(two.jobs(TEAM).unwrap().len(), 2);
        two.sweep(SystemTime::now() + Duration::from_secs(3700)).unwrap();
        assert!(two.jobs(TEAM).unwrap().is_empty());
    }
}

#[test]
fn records_of_jobs_count_toward_the_quotas() {
    in_each_bucket(|place| {
        let mut config = place.config("one");
        config.tenant_bytes_max = 1_000;
        let store = Store::open(config).unwrap();
        let refused = store.begin_job(TEAM, id(), &[b'x'; 1_001]);
        assert!(matches!(refused, Err(StoreError::Quota { .. })), "{refused:?}");
        let jobs = three_ids();
        for job in &jobs {
            store.begin_job(TEAM, *job, b"begun").unwrap();
            store.end_job(TEAM, *job, &[b'x'; 400], 10).unwrap();
        }
        assert_eq!(store.jobs(TEAM).unwrap(), [jobs[2], jobs[1]], "the oldest made room");
        let running = id();
        store.begin_job(TEAM, running, &[b'x'; 150]).unwrap();
        let refused = store.begin_job(TEAM, id(), &[b'x'; 900]);
        assert!(matches!(refused, Err(StoreError::Quota { .. })), "what runs makes no room: {refused:?}");
        assert_eq!(state(&store, running), Some(RUNNING_HERE));
    });
}

#[test]
fn a_job_whose_store_is_gone_is_lost_for_all_others() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let one = open(place, "one", proxy.port());
        let [two, three] = ["two", "three"].map(|name| open(place, name, place.port()));
        let (lost, ended) = (id(), id());
        one.begin_job(TEAM, lost, b"begun").unwrap();
        one.begin_job(TEAM, ended, b"begun").unwrap();
        one.end_job(TEAM, ended, b"ended", 10).unwrap();
        // Longer than the lease.
        keeps_running_while_renewed(&proxy, 7, || state(&two, lost));
        drop(one);
        wait_until("the job is lost", || state(&two, lost) == Some(JobState::Lost));
        assert_eq!(state(&three, lost), Some(JobState::Lost), "for all");
        assert_eq!((state(&two, ended), state(&three, ended)), (Some(JobState::Ended), Some(JobState::Ended)));
        // From the sweep on, the record itself says so, and its time to live begins.
        two.sweep(SystemTime::now()).unwrap();
        let records = keys_with(&place.url, &lost.to_string());
        assert!(records.len() == 1 && records[0].ends_with("/lost"), "{records:?}");
        assert_eq!(three.job(TEAM, lost, 100).unwrap().bytes, b"begun");
        three.sweep(SystemTime::now() + Duration::from_secs(3700)).unwrap();
        assert_eq!(state(&two, lost), None);
        assert_eq!(keys_with(&place.url, ".leases/").len(), 1, "it is not old enough");
        let store = place.open_behind("four", place.port(), |bucket| {
            (bucket.lease_time, bucket.left_age) = (Duration::ZERO, Duration::ZERO);
        });
        wait_until("the lease is removed", || {
            store.sweep(SystemTime::now()).unwrap();
            keys_with(&place.url, ".leases/").is_empty()
        });
    });
}

#[test]
fn a_store_whose_lease_was_over_learns_of_it() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let (one, two) = (open(place, "one", proxy.port()), open(place, "two", place.port()));
        let before = id();
        one.begin_job(TEAM, before, b"begun").unwrap();
        proxy.decide(|_| Fate::Reset);
        wait_until("the job is lost", || state(&two, before) == Some(JobState::Lost));
        proxy.decide(|_| Fate::Answered);
        // Its holder takes another one, and what was lost does not run again.
        wait_until("the store has another lease", || {
            let after = id();
            one.begin_job(TEAM, after, b"begun").unwrap();
            state(&two, after) == Some(RUNNING_THERE)
        });
        assert_eq!((state(&one, before), state(&two, before)), (Some(JobState::Lost), Some(JobState::Lost)));
        // A result that comes after all is better than none.
        one.end_job(TEAM, before, b"ended", 10).unwrap();
        assert_eq!(two.job(TEAM, before, 10).unwrap().bytes, b"ended");
    });
}

#[test]
fn a_lease_outlives_answers_that_are_lost() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let (one, two) = (open(place, "one", proxy.port()), open(place, "two", place.port()));
        let job = id();
        one.begin_job(TEAM, job, b"begun").unwrap();
        proxy.seen();
        let mut count = 0;
        proxy.decide(move |seen| {
            let is_renewal = seen.method == "PUT" && seen.target.contains(".leases/");
            count += u32::from(is_renewal);
            if is_renewal && count % 2 == 1 { Fate::AnswerLost } else { Fate::Answered }
        });
        keeps_running_while_renewed(&proxy, 18, || state(&two, job));
    });
}
