//! Checks the files of an offload against what the policy says of them, and writes its manifest and indexes.

use std::collections::{BTreeMap, BTreeSet};

use lro_contract::digest::{Checksum, Digest, FileDigest, FileSummary};
use lro_contract::manifest::{
    FileKind, FileRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OffloadRecord, check_origins,
    is_file_name, with_integrity,
};
use lro_contract::ulid::Ulid;
use serde_json::value::RawValue;

use crate::bindings::exports::lro::adapter::filter::{File, Request};
use crate::bindings::lro::adapter::held::{self, Written};
use crate::bindings::lro::filter0_2_0::types;
use crate::filter::Reason;

/// What the policy says of an offload, which is true of what it wrote.
pub(crate) struct Checked {
    as_written: String,
    content: Box<RawValue>,
    files: Vec<FileRecord>,
    /// The same files in the same order.
    pub(crate) written: Vec<Written>,
}

/// A recorded offload.
pub(crate) struct Recorded {
    pub(crate) descriptor: Shown,
    /// All files, manifest and indexes included.
    pub(crate) files: Vec<File>,
}

/// A descriptor, in two forms.
pub(crate) struct Shown {
    pub(crate) as_written: String,
    pub(crate) with_integrity: String,
}

/// Compares what the policy says with the files that it wrote.
pub(crate) fn check(descriptor: types::Descriptor, written: Vec<Written>) -> Result<Checked, Reason> {
    let types::Descriptor { content: as_written, files, .. } = descriptor;
    let files = files.into_iter().map(of_policy).collect::<Result<Vec<_>, _>>().map_err(Reason::Answer)?;
    check_origins(&files).map_err(Reason::Answer)?;
    let content = RawValue::from_string(as_written.clone())
        .ok()
        // Also checks the nesting depth.
        .filter(|json| lro_json::members(json.get()).is_ok())
        .ok_or_else(|| Reason::Answer("a descriptor that is not a JSON object".to_owned()))?;
    let written =
        listed(&files, written).map_err(|wrong| Reason::Answer(format!("a false account of its files: {wrong}")))?;
    Ok(Checked { as_written, content, files, written })
}

/// Records an offload, whose files have their digests.
pub(crate) fn record(request: Request, id: Ulid, time: String, checked: Checked) -> Result<Recorded, Reason> {
    let Checked { as_written, content, mut files, written } = checked;
    let mut indexes = Vec::new();
    for (file, written) in files.iter_mut().zip(written) {
        let name = file.index_name();
        indexes.extend(file.complete(digest(written).map_err(Reason::Other)?).map(|index| (name, index)));
    }
    let with_integrity = with_integrity(&as_written, &files);
    let Request { tool, session, tenant, .. } = request;
    let record = OffloadRecord { tool, session, created: time, descriptor: content, files };
    let manifest = Manifest { version: MANIFEST_VERSION, id, tenant: &*tenant, record: &record };
    let mut manifest = serde_json::to_vec(&manifest)
        .map_err(|error| Reason::Other(format!("the manifest cannot be written: {error}")))?;
    manifest.push(b'\n');
    if manifest.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(Reason::Answer("more than a manifest of 8 MiB has room for".to_owned()));
    }
    let file = |name: String, bytes, digest_from| File { name, bytes, digest_from };
    let mut all: Vec<_> =
        record.files.iter().map(|listed| file(listed.name.clone(), listed.bytes, listed.digest_from)).collect();
    for (name, bytes) in indexes.into_iter().chain([(MANIFEST_NAME.to_owned(), manifest)]) {
        held::add_file(&name, &bytes).map_err(Reason::Other)?;
        all.push(file(name, bytes.len() as u64, 0));
    }
    Ok(Recorded { descriptor: Shown { as_written, with_integrity }, files: all })
}

fn of_policy(file: types::File) -> Result<FileRecord, String> {
    let name = file.name.clone();
    FileRecord::try_from(file).map_err(|error| format!("`{name}`: {error}"))
}

/// The files that were written, in the order of the records, with which they agree.
fn listed(files: &[FileRecord], written: Vec<Written>) -> Result<Vec<Written>, String> {
    let mut written: BTreeMap<String, Written> =
        written.into_iter().map(|written| (written.name.clone(), written)).collect();
    let mut names = BTreeSet::new();
    let mut listed = Vec::with_capacity(files.len());
    for file in files {
        let wrong = |reason: &str| format!("{:?}: {reason}", file.name);
        if !is_file_name(&file.name) {
            return Err(wrong("its name is not allowed"));
        }
        if !names.insert(&file.name) {
            return Err(wrong("it is listed twice"));
        }
        let Some(found) = written.remove(&file.name) else { return Err(wrong("it is listed and absent")) };
        if found.bytes != file.bytes {
            return Err(wrong("its size is not the listed one"));
        }
        let is_records = file.kind == FileKind::Records;
        if is_records != (found.digest_from > 0) {
            return Err(wrong(if is_records { "it has no header line" } else { "it has a header line" }));
        }
        if is_records && found.lines != file.records {
            return Err(wrong("its number of records is not the listed one"));
        }
        listed.push(found);
    }
    match written.keys().next() {
        Some(name) => Err(format!("{name:?}: it is not listed")),
        None => Ok(listed),
    }
}

fn digest(written: Written) -> Result<FileDigest, String> {
    let Written { name, bytes, sha256, xxh3, digest_from, lines, index } = written;
    let sha256 = sha256.and_then(|sha256| sha256.try_into().ok());
    let sha256 = sha256.ok_or_else(|| format!("{name:?}: its digest has not 32 bytes"))?;
    let summary = FileSummary { xxh3: Checksum(xxh3), digest_from, bytes, lines, index };
    Ok(summary.with_sha256(Digest(sha256)))
}
