//! Buckets that are not there, and credentials that are refused: the error says what to do.

use std::error::Error;
use std::time::{Duration, SystemTime};

use lro_host::store::{BucketConfig, Store, StoreConfig, StoreError};
use lro_tests::bucket::{BUCKET, Fate, Service};

use crate::support::{Place, TEAM, id, in_each_bucket, publish};

/// The texts of an error of the bucket and of what has caused it.
fn said<T>(result: Result<T, StoreError>) -> String {
    let Err(error) = result else { panic!("it has succeeded") };
    assert!(matches!(error, StoreError::Bucket { .. }), "{error:?}");
    let mut said = String::new();
    let mut cause = Some(&error as &dyn Error);
    while let Some(error) = cause {
        said += &format!("{error}\n");
        cause = error.source();
    }
    said
}

/// What each kind of request says: of those that ask, write, list, read, and write with a condition.
fn all_said(store: &Store) -> [String; 5] {
    [
        said(store.ask_bucket()),
        said(publish(store, id(), &[("a.txt", "x")])),
        said(store.sweep(SystemTime::now())),
        said(store.find(TEAM, id())),
        said(store.begin_job(TEAM, id(), b"begun")),
    ]
}

fn open(place: &Place, port: u16, change: impl FnOnce(&mut BucketConfig)) -> Store {
    place.open_behind("one", port, |bucket| {
        bucket.retry_time = Duration::ZERO;
        change(bucket);
    })
}

#[test]
fn a_bucket_that_is_not_there_is_said() {
    in_each_bucket(|place| {
        let store = open(place, place.port(), |bucket| bucket.url = bucket.url.replace(BUCKET, "nothing-here"));
        for said in all_said(&store) {
            // Nothing follows: the service answers with a page of XML, which each cause of its error would repeat.
            assert_eq!(said.lines().last(), Some("the bucket does not exist: create it, or change `store`"), "{said}");
        }
    });
}

#[test]
fn credentials_that_are_refused_are_said_with_the_variables_that_have_them() {
    in_each_bucket(|place| {
        let proxy = place.proxy();
        let (option, wrong, variable) = match place.service() {
            Service::S3 => {
                eprintln!("moto takes any credentials: a proxy refuses these");
                proxy.decide(|_| Fate::Refused);
                ("aws_access_key_id", "other", "AWS_ACCESS_KEY_ID")
            }
            Service::Google => {
                eprintln!("fake-gcs-server takes any token: google.py refuses this one");
                ("google_bearer_token", "other", "GOOGLE_APPLICATION_CREDENTIALS")
            }
            Service::Azure => ("azure_storage_account_key", "b3RoZXI=", "AZURE_STORAGE_ACCOUNT_KEY"),
        };
        let store = open(place, proxy.port(), |bucket| {
            bucket.options.insert(option.to_owned(), wrong.to_owned());
        });
        for said in all_said(&store) {
            assert!(said.contains("the credentials are refused") && said.contains(variable), "{said}");
        }
    });
}

#[test]
fn what_is_missing_to_open_a_bucket_is_said() {
    in_each_bucket(|place| {
        let mut bucket = BucketConfig::new(&place.url);
        let said_variable = match place.service() {
            // Nothing is needed before a request: see the suite `gateway` for credentials that are missing then.
            Service::S3 => return,
            Service::Google => {
                bucket.options.insert("google_service_account".to_owned(), "/nothing/here.json".to_owned());
                "GOOGLE_SERVICE_ACCOUNT"
            }
            Service::Azure => "AZURE_STORAGE_ACCOUNT_NAME",
        };
        let config = StoreConfig { bucket: Some(bucket), ..place.config("one") };
        let said = said(Store::open(config));
        assert!(said.contains(said_variable) && said.contains("wrong or missing"), "{said}");
    });
}
