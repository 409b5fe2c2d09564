//! Stores and offloads for the tests that read them.
#![expect(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;
use std::time::SystemTime;

use lro_host::store::{FileKind, FileRecord, Fsync, Offload, OffloadRecord, Origin, Store, StoreConfig, Ulid, rfc3339};
use serde_json::value::RawValue;
use tempfile::TempDir;

pub(crate) const HEADER: &str = "{\"type\":\"mcp_lro\"}\n";

pub(crate) fn open() -> (TempDir, Store) {
    let directory = TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap();
    let store =
        Store::open(StoreConfig { fsync: Fsync::Never, ..StoreConfig::new(directory.path().join("root")) }).unwrap();
    (directory, store)
}

/// Publishes one file, of records with a header line before them or of text, as the section `items`.
pub(crate) fn publish(store: &Store, kind: FileKind, content: &[u8]) -> Offload {
    publish_as(store, Ulid::generate().unwrap(), kind, content)
}

pub(crate) fn publish_as(store: &Store, id: Ulid, kind: FileKind, content: &[u8]) -> Offload {
    let staging = store.stage("team", id).unwrap();
    let header = if kind == FileKind::Records { HEADER } else { "" };
    let bytes = [header.as_bytes(), content].concat();
    fs::write(staging.path().join("a.jsonl"), &bytes).unwrap();
    let file = FileRecord {
        name: "a.jsonl".to_owned(),
        kind,
        section: "items".to_owned(),
        parts: vec![0],
        origin: Origin::Content,
        form: None,
        derived_from: None,
        pointer: None,
        shape: None,
        media_type: "text/plain".to_owned(),
        records: lines_of(content).len() as u64,
        bytes: bytes.len() as u64,
        schema: None,
        sha256: None,
        xxh3: None,
        digest_from: 0,
        index: None,
        queries: Vec::new(),
    };
    let record = OffloadRecord {
        tool: "search".to_owned(),
        session: None,
        created: rfc3339(SystemTime::now()),
        descriptor: RawValue::from_string("{}".to_owned()).unwrap(),
        files: vec![file],
    };
    staging.publish(record).unwrap()
}

/// The lines of a naive split.
pub(crate) fn lines_of(content: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = content.split(|byte| *byte == b'\n').collect();
    if lines.last().is_some_and(|last| last.is_empty()) {
        lines.pop();
    }
    lines
}

pub(crate) fn rows(count: usize) -> Vec<u8> {
    (0..count).flat_map(|n| format!("{{\"id\":{n},\"name\":\"row {n}\"}}\n").into_bytes()).collect()
}
