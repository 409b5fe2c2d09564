//! Measures offloads in a bucket, as ratios to the transfer alone in the same run: the same bytes, the same server, the same
//! client.
//!
//! `make bench`, or `LRO_BENCH_RECORDS=1000,100000 make bench` for other sizes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a program that may stop at the first surprise"
)]

mod scale;
mod server;
#[path = "../shared/mod.rs"]
mod shared;

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use lro_gateway::settings::{DecisionMode, FailureMode, PolicySettings};
use lro_host::extract::{Budget, Query, Question, Sql, Tables};
use lro_host::filter::{Filter, Outcome, Request};
use lro_host::sandbox::{Limits, Payload};
use lro_host::store::{BucketConfig, Offload, Store, StoreConfig, Ulid};
use lro_tests::bucket::{self, Fate, Service};
use lro_tests::{default_policy, extractor, settings, synthetic};
use object_store::aws::AmazonS3Builder;
use object_store::path::Path as Key;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload, WriteMultipart};
use shared::{alternate, compared, measured, median, millis, sizes};
use tempfile::TempDir;
use tokio::runtime::Runtime;

const TENANT: &str = "bench";
/// As that of the store.
const PART_BYTES: usize = 8 << 20;

/// The same client as the store's, without the store.
struct Client {
    store: Arc<dyn ObjectStore>,
    prefix: String,
    runtime: Runtime,
}

fn main() {
    let mut arguments = std::env::args().skip_while(|argument| argument != server::ARGUMENT);
    if arguments.next().is_some() {
        return server::serve(arguments);
    }
    // First, as the memory that others leave is used again.
    scale::measure();
    for records in sizes(&[100_000, 1_000_000]) {
        measure(records);
    }
}

fn measure(records: usize) {
    let directory = TempDir::new().unwrap();
    let url = Service::S3.new_bucket();
    let open = |name: &str, port: Option<u16>| {
        // The server takes long to put the parts of an upload together on a busy machine.
        let request_time = Duration::from_secs(120);
        let bucket = port.map(|port| BucketConfig { request_time, ..bucket::config(&url, port) });
        Store::open(StoreConfig { bucket, ..StoreConfig::new(directory.path().join(name)) }).unwrap()
    };
    let (port, network) = (Service::S3.port(), Service::S3.proxy());
    network.decide(|_| Fate::AnswerPaced);
    let (local, writer) = (open("local", None), open("writer", Some(port)));
    let (reader, far_reader) = (open("reader", Some(port)), open("far", Some(network.port())));
    // After the stores, which choose the TLS that it would use.
    let (client, far_client) = (Client::open(&url, port), Client::open(&url, network.port()));
    let text = synthetic::payload(records);
    println!("\n{records} records, {:.1} MB; a server of the S3 API on this machine", text.len() as f64 / 1e6);
    let payload = lro_tests::text(text);
    let id = publish(&writer, &payload).id();
    let repetitions = if records > 200_000 { 5 } else { 15 };
    let of = format!("of {records} records");
    let bytes = questions(&client, &reader, id, &of, repetitions);
    questions(&far_client, &far_reader, id, &format!("{of} at 1 Gbit/s"), 5);

    let [transfer, in_directory, in_bucket] = alternate(
        repetitions,
        [&mut || client.put("plain", &bytes), &mut || forget(publish(&local, &payload).path()), &mut || {
            forget(publish(&writer, &payload).path());
        }],
    );
    let both: Vec<Duration> = transfer.iter().zip(&in_directory).map(|(one, other)| *one + *other).collect();
    row(&format!("an upload {of}, in parts"), &transfer, None);
    row(&format!("an offload {of}, in a directory"), &in_directory, None);
    row(&format!("an offload {of}, in the bucket"), &in_bucket, Some(("both", &both)));
}

/// Questions about an offload by a store, beside the transfer of its file by a client. Returns that file.
fn questions(client: &Client, store: &Store, id: Ulid, of: &str, repetitions: usize) -> Vec<u8> {
    let offload = store.find(TENANT, id).unwrap();
    let file = &offload.record().files[0];
    let key = format!("{TENANT}/{id}/{}", file.name);
    let bytes = client.get(&key);
    assert_eq!(bytes.len() as u64, file.bytes);
    let extractor = extractor();
    let question = serde_json::json!({"where": [{"field": "category", "op": "eq", "value": "audit"}], "count": true});
    let question = Question::Query(Query::read(&question.to_string()).unwrap());
    let ask = || {
        let offload = store.find(TENANT, id).unwrap();
        drop(extractor.ask(&offload, None, &question, Budget::default()).unwrap());
    };
    let query = "SELECT count(*) AS n FROM records WHERE category = 'audit'".to_owned();
    let sql = Sql { query, offset: 0, limit: None };
    let ask_sql = || {
        let table = Tables { offload: store.find(TENANT, id).unwrap(), section: None, name: None };
        drop(extractor.sql(&[table], &sql, Budget::default()).unwrap());
    };
    // What removes a copy takes no part of a question.
    let [transfer, _, cold, warm, _, cold_sql, warm_sql] = alternate(
        repetitions,
        [
            &mut || drop(client.get(&key)),
            &mut || forget(offload.path()),
            &mut || ask(),
            &mut || ask(),
            &mut || forget(offload.path()),
            &mut || ask_sql(),
            &mut || ask_sql(),
        ],
    );
    row(&format!("one GET {of}"), &transfer, None);
    row(&format!("a question {of}, nothing on this machine"), &cold, Some(("transfer", &transfer)));
    row(&format!("a question {of}, with a copy"), &warm, Some(("transfer", &transfer)));
    row(&format!("SQL {of}, nothing on this machine"), &cold_sql, Some(("transfer", &transfer)));
    row(&format!("SQL {of}, with a copy"), &warm_sql, Some(("transfer", &transfer)));
    bytes
}

fn publish(store: &Store, payload: &Arc<Payload>) -> Offload {
    let (failure, documents) = (FailureMode::Closed, None);
    let (slot, limits) = (default_policy().into(), Limits::default());
    let filter = Filter { slot, store: Ok(store.clone()), limits, failure, documents };
    let settings = PolicySettings { mode: DecisionMode::Always, ..settings() };
    let request = Request { settings: Arc::new(settings), ..Request::new(TENANT, "bench") };
    match filter.apply(&request, payload).outcome {
        Outcome::Offload(offloaded) => offloaded.offload,
        other => panic!("{other:?}"),
    }
}

/// Removes an offload, or a copy of one.
fn forget(path: &Path) {
    if path.exists() {
        fs::remove_dir_all(path).unwrap();
    }
}

fn row(name: &str, times: &[Duration], baseline: Option<(&str, &[Duration])>) {
    print!("  {name:<68} {:>9.1} ms", millis(median(times)));
    match baseline {
        Some((with, other)) => {
            println!("  {:>5.2} × {with}", median(times).as_secs_f64() / median(other).as_secs_f64());
            compared(name, times, with, other);
        }
        None => {
            println!();
            measured(name, millis(median(times)), "ms");
        }
    }
}

impl Client {
    fn open(url: &str, port: u16) -> Self {
        let mut builder = AmazonS3Builder::new().with_url(url);
        builder = builder.with_config("timeout".parse().unwrap(), "120s");
        for (name, value) in Service::S3.variables(port) {
            builder = builder.with_config(name.to_lowercase().parse().unwrap(), value);
        }
        let prefix = url.strip_prefix("s3://").unwrap().split_once('/').unwrap().1.to_owned();
        Self { store: Arc::new(builder.build().unwrap()), prefix, runtime: Runtime::new().unwrap() }
    }

    fn key(&self, key: &str) -> Key {
        Key::from(format!("{}/{key}", self.prefix))
    }

    fn get(&self, key: &str) -> Vec<u8> {
        let read = async { self.store.get(&self.key(key)).await.unwrap().bytes().await.unwrap() };
        self.runtime.block_on(read).into()
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.runtime.block_on(async {
            let key = self.key(key);
            if bytes.len() <= PART_BYTES {
                self.store.put(&key, PutPayload::from(bytes.to_vec())).await.unwrap();
                return;
            }
            let upload = self.store.put_multipart(&key).await.unwrap();
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            for part in bytes.chunks(PART_BYTES) {
                upload.wait_for_capacity(2).await.unwrap();
                upload.write(part);
            }
            upload.finish().await.unwrap();
        });
    }
}
