//! Stores in a directory and in a bucket, and offloads for them.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_host::store::{
    BucketConfig, FileKind, FileRecord, Fsync, Offload, OffloadRecord, Origin, Section, Staging, Store, StoreConfig,
    StoreError, Ulid, rfc3339,
};
use lro_tests::bucket::{self, Proxy, SERVICES, Service};
use serde_json::value::RawValue;
use tempfile::TempDir;

pub(crate) const TEAM: &str = "team";
pub(crate) const HEADER: &str = "{\"type\":\"mcp_lro\"}\n";

/// Where the offloads of a test lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Directory,
    Bucket(Service),
}

pub(crate) const KINDS: [Kind; 4] =
    [Kind::Directory, Kind::Bucket(Service::S3), Kind::Bucket(Service::Google), Kind::Bucket(Service::Azure)];

/// A place that several stores can be opened on.
pub(crate) struct Place {
    pub(crate) kind: Kind,
    directory: TempDir,
    /// Without meaning for a directory.
    pub(crate) url: String,
}

impl Place {
    pub(crate) fn new(kind: Kind) -> Self {
        let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
        let url = if let Kind::Bucket(service) = kind { service.new_bucket() } else { String::new() };
        Self { kind, directory, url }
    }

    /// The service of a bucket.
    pub(crate) fn service(&self) -> Service {
        match self.kind {
            Kind::Bucket(service) => service,
            Kind::Directory => panic!("no bucket"),
        }
    }

    /// The port of the server of a bucket.
    pub(crate) fn port(&self) -> u16 {
        self.service().port()
    }

    /// A proxy before the server of a bucket.
    pub(crate) fn proxy(&self) -> Proxy {
        self.service().proxy()
    }

    /// Settings of a store. In a bucket, each name has its own root, as another machine has.
    pub(crate) fn config(&self, name: &str) -> StoreConfig {
        self.config_behind(name, if self.kind == Kind::Directory { 0 } else { self.port() })
    }

    /// As [`Place::config`], behind this port.
    pub(crate) fn config_behind(&self, name: &str, port: u16) -> StoreConfig {
        let (root, bucket) = match self.kind {
            Kind::Directory => ("root", None),
            Kind::Bucket(_) => (name, Some(bucket::config(&self.url, port))),
        };
        StoreConfig { fsync: Fsync::Never, bucket, ..StoreConfig::new(self.directory.path().join(root)) }
    }

    pub(crate) fn open(&self, name: &str) -> Store {
        Store::open(self.config(name)).unwrap()
    }

    /// A store behind this port, with other settings of the bucket.
    pub(crate) fn open_behind(&self, name: &str, port: u16, change: impl FnOnce(&mut BucketConfig)) -> Store {
        let mut config = self.config_behind(name, port);
        if let Some(bucket) = &mut config.bucket {
            change(bucket);
        }
        Store::open(config).unwrap()
    }
}

/// Runs a test for each service of buckets, at the same time, as most of them wait.
pub(crate) fn in_each_bucket(test: impl Fn(&Place) + Sync) {
    let failed = thread::scope(|scope| {
        let run = |service| test(&Place::new(Kind::Bucket(service)));
        let running = SERVICES.map(|service| (service, scope.spawn(move || run(service))));
        running.into_iter().filter_map(|(service, running)| running.join().err().map(|_| service)).collect::<Vec<_>>()
    });
    assert!(failed.is_empty(), "in {failed:?}");
}

pub(crate) fn id() -> Ulid {
    Ulid::generate().unwrap()
}

pub(crate) fn id_of_age(seconds: u64, random: u128) -> Ulid {
    let time = SystemTime::now() - Duration::from_secs(seconds);
    Ulid::from_parts(time.duration_since(UNIX_EPOCH).unwrap().as_millis(), random)
}

/// Records, from 0 on.
pub(crate) fn rows(count: usize) -> String {
    (0..count).map(|n| format!("{{\"id\":{n},\"name\":\"row {n}\"}}\n")).collect()
}

/// The record of a file of records behind a header line, or of a text.
pub(crate) fn file(name: &str, kind: FileKind, content: &str) -> FileRecord {
    let has_header = kind == FileKind::Records;
    FileRecord {
        name: name.to_owned(),
        kind,
        section: name.split('.').next().unwrap().to_owned(),
        parts: vec![0],
        origin: Origin::Content,
        form: None,
        derived_from: None,
        pointer: None,
        shape: None,
        media_type: "text/plain".to_owned(),
        records: content.lines().skip(usize::from(has_header)).count() as u64,
        bytes: content.len() as u64,
        schema: None,
        sha256: None,
        xxh3: None,
        digest_from: 0,
        index: None,
        queries: Vec::new(),
    }
}

pub(crate) fn record(files: Vec<FileRecord>) -> OffloadRecord {
    OffloadRecord {
        tool: "search".to_owned(),
        session: None,
        created: rfc3339(SystemTime::now()),
        descriptor: RawValue::from_string("{\"offloaded\":true,\"count\":12345678901234567890}".to_owned()).unwrap(),
        files,
    }
}

/// Stages files by name.
pub(crate) fn stage(store: &Store, id: Ulid, files: &[(&str, &str)]) -> Result<Staging, StoreError> {
    let staging = store.stage(TEAM, id)?;
    for (name, content) in files {
        fs::write(staging.path().join(name), content).unwrap();
    }
    Ok(staging)
}

/// Publishes files by name: those that end in `.jsonl` are records, others are texts.
pub(crate) fn publish(store: &Store, id: Ulid, files: &[(&str, &str)]) -> Result<Offload, StoreError> {
    let kind = |name: &str| if name.ends_with(".jsonl") { FileKind::Records } else { FileKind::Text };
    let records = files.iter().map(|(name, content)| file(name, kind(name), content)).collect();
    stage(store, id, files)?.publish(record(records))
}

/// The whole file.
pub(crate) fn content(offload: &Offload, name: &str) -> Result<String, StoreError> {
    let reader = offload.open(name)?;
    reader.verify()?;
    Ok(String::from_utf8(reader.bytes(0, usize::MAX)?).unwrap())
}

/// Removes the copies of a store, as a machine that is new has none.
pub(crate) fn forget_copies(store: &Store) {
    for id in fs::read_dir(store.root().join(TEAM)).unwrap().map(|entry| entry.unwrap().path()) {
        fs::remove_dir_all(id).unwrap();
    }
}

pub(crate) fn is_absent(found: &Result<Offload, StoreError>) -> bool {
    matches!(found, Err(StoreError::NotFound { .. } | StoreError::Expired { .. }))
}

/// Whether there is a copy of the offload.
pub(crate) fn has_copy(store: &Store, id: Ulid) -> bool {
    Path::new(&store.shown_path(TEAM, id)).exists()
}
