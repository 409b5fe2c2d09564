//! Checks the files of an offload against what the policy says of them, and writes its manifest and indexes.

use std::collections::{BTreeMap, BTreeSet};

use lro_contract::digest::{Checksum, Digest, FileDigest};
use lro_contract::manifest::{
    FileKind, FileRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, MANIFEST_VERSION, Manifest, OffloadRecord, check_origins,
    is_file_name, with_integrity,
};
use lro_contract::ulid::Ulid;
use serde_json::value::RawValue;

use crate::bindings::exports::lro::adapter::filter::Request;
use crate::bindings::lro::adapter::held::{self, Written};
use crate::bindings::lro::filter0_2_0::types;
use crate::filter::answered;

/// A recorded offload.
pub(crate) struct Recorded {
    pub(crate) descriptor: Shown,
    /// Name and size of every file, manifest and indexes included.
    pub(crate) files: Vec<(String, u64)>,
}

/// A descriptor, in two forms.
pub(crate) struct Shown {
    pub(crate) as_written: String,
    pub(crate) with_integrity: String,
}

/// Records an offload. The error is a sentence.
pub(crate) fn record(
    request: &Request,
    id: Ulid,
    time: &str,
    descriptor: types::Descriptor,
    written: Vec<Written>,
) -> Result<Recorded, String> {
    let types::Descriptor { content, files, .. } = descriptor;
    let mut files = files.into_iter().map(of_policy).collect::<Result<Vec<_>, _>>().map_err(answered)?;
    check_origins(&files).map_err(answered)?;
    let as_written = content.clone();
    let content = RawValue::from_string(content)
        .ok()
        // Also checks the nesting depth.
        .filter(|json| lro_json::members(json.get()).is_ok())
        .ok_or_else(|| answered("a descriptor that is not a JSON object".to_owned()))?;
    let indexes =
        complete(&mut files, written).map_err(|wrong| answered(format!("a false account of its files: {wrong}")))?;
    let with_integrity = with_integrity(&as_written, &files);
    let record = OffloadRecord {
        tool: request.tool.clone(),
        session: request.session.clone(),
        created: time.to_owned(),
        descriptor: content,
        files,
    };
    let manifest =
        Manifest { version: MANIFEST_VERSION, id, tenant: &*request.tenant, ttl_seconds: None, record: &record };
    let mut manifest =
        serde_json::to_vec(&manifest).map_err(|error| format!("the manifest cannot be written: {error}"))?;
    manifest.push(b'\n');
    if manifest.len() as u64 > MANIFEST_BYTES_MAX {
        return Err(answered("more than a manifest of 8 MiB has room for".to_owned()));
    }
    let mut all: Vec<_> = record.files.iter().map(|file| (file.name.clone(), file.bytes)).collect();
    for (name, bytes) in indexes.into_iter().chain([(MANIFEST_NAME.to_owned(), manifest)]) {
        held::add_file(&name, &bytes)?;
        all.push((name, bytes.len() as u64));
    }
    Ok(Recorded { descriptor: Shown { as_written, with_integrity }, files: all })
}

fn of_policy(file: types::File) -> Result<FileRecord, String> {
    let name = file.name.clone();
    FileRecord::try_from(file).map_err(|error| format!("`{name}`: {error}"))
}

/// Compares records with the files that were written, and completes them. Returns the indexes by name.
fn complete(files: &mut [FileRecord], written: Vec<Written>) -> Result<Vec<(String, Vec<u8>)>, String> {
    let mut written: BTreeMap<String, Written> =
        written.into_iter().map(|written| (written.name.clone(), written)).collect();
    let mut listed = BTreeSet::new();
    let mut indexes = Vec::new();
    for file in files {
        let wrong = |reason: &str| format!("{:?}: {reason}", file.name);
        if !is_file_name(&file.name) {
            return Err(wrong("its name is not allowed"));
        }
        if !listed.insert(file.name.clone()) {
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
        let name = file.index_name();
        indexes.extend(file.complete(digest(found)?).map(|index| (name, index)));
    }
    match written.keys().next() {
        Some(name) => Err(format!("{name:?}: it is not listed")),
        None => Ok(indexes),
    }
}

fn digest(written: Written) -> Result<FileDigest, String> {
    let Written { name, bytes, sha256, xxh3, digest_from, lines, index } = written;
    let sha256 = sha256.try_into().map_err(|_| format!("{name:?}: its digest has not 32 bytes"))?;
    Ok(FileDigest { sha256: Digest(sha256), xxh3: Checksum(xxh3), digest_from, bytes, lines, index })
}
