//! What an offload holds, as its `manifest.json` tells it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Ulid;
use crate::digest::{Digest, index_bytes};

/// Name of the manifest in the directory of an offload.
pub const MANIFEST_NAME: &str = "manifest.json";

/// Most bytes of a manifest: a descriptor of 1 MiB, and room for the schemas of its files.
pub const MANIFEST_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Most bytes of the name of a file in an offload.
pub const FILE_NAME_BYTES_MAX: usize = 128;

/// The form of manifest this module writes, and the only one it reads.
pub(super) const MANIFEST_VERSION: u32 = 1;

/// One offload: what was called, what the model was shown, and the files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OffloadRecord {
    /// Name of the tool.
    pub tool: String,
    /// The client's session, any text.
    pub session: Option<String>,
    /// Time of the result, RFC 3339 in UTC; see [`rfc3339`](super::rfc3339).
    pub created: String,
    /// The descriptor as it was shown: a JSON object, kept byte for byte.
    pub descriptor: Box<RawValue>,
    /// The files, in the order of the descriptor.
    pub files: Vec<FileRecord>,
}

/// One file of an offload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name in the directory: letters, digits, `-`, `_` and `.`, not beginning with `.`, at most
    /// [`FILE_NAME_BYTES_MAX`] bytes, and not the manifest's.
    pub name: String,
    /// What it holds.
    pub kind: FileKind,
    /// Key of the section in the descriptor.
    pub section: String,
    /// Index of the part of the tool result it came from.
    pub part: u32,
    /// JSON Pointer inside the part, for a file that came from one value of a JSON part.
    pub pointer: Option<String>,
    /// How that value became records.
    pub shape: Option<RecordShape>,
    /// Media type such as `application/jsonl`.
    pub media_type: String,
    /// Records of a JSONL file, its header line not counted; lines of a text file; otherwise 0.
    pub records: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// JSON Schema of a line.
    pub schema: Option<Box<RawValue>>,
    /// Queries over its records that a reader may run by name.
    pub queries: Vec<StoredQuery>,
    /// SHA-256 of the bytes from `digest_from` on, in the manifest as 64 hexadecimal digits. Set by
    /// [`Staging::publish`](super::Staging::publish): a published file always has one.
    ///
    /// The digest of a JSONL file covers its records, which are all bytes after the header line, because the header is
    /// completed in place once the records are written; `tail -n +2 FILE | sha256sum` checks it. The digest of any other
    /// file covers it whole.
    pub sha256: Option<Digest>,
    /// Offset of the first byte the digest covers: the length of the header line of a JSONL file with its line feed,
    /// otherwise 0. Set by publishing.
    pub digest_from: u64,
    /// Where the lines of a JSONL or text file of more than [`INDEX_STEP_BYTES`](super::INDEX_STEP_BYTES) begin. Set by
    /// publishing.
    pub index: Option<IndexRecord>,
}

impl FileRecord {
    /// Name of its index in the directory: no policy can take it, because it begins with a dot.
    pub(super) fn index_name(&self) -> String {
        format!(".{}.index", self.name)
    }

    /// Whether it is divided into lines that are counted.
    pub(crate) fn has_lines(&self) -> bool {
        matches!(self.kind, FileKind::Records | FileKind::Text)
    }

    /// Whether it is as publishing leaves it.
    pub(super) fn is_complete(&self) -> bool {
        is_file_name(&self.name)
            && self.sha256.is_some()
            && self.index.as_ref().is_none_or(|index| index.bytes == index_bytes(self.bytes))
    }
}

/// A query with a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredQuery {
    /// Its name, unique in the offload.
    pub name: String,
    /// One line that says what it answers.
    pub description: String,
    /// The query as JSON.
    pub query: Box<RawValue>,
}

/// The index of a file, in the directory as `.{name}.index`: 16 bytes for each started [`INDEX_STEP_BYTES`] of the file.
///
/// Entry `k` tells of the first line that begins at byte `k` × 65,536 or after it: its number and its offset, each 8 bytes,
/// little-endian. Lines are counted from 0, in a JSONL file behind its header line. Where no line begins any more, the entry
/// is the number of lines and the size of the file.
///
/// [`INDEX_STEP_BYTES`]: super::INDEX_STEP_BYTES
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexRecord {
    /// Its size.
    pub bytes: u64,
    /// SHA-256 of all of it.
    pub sha256: Digest,
}

/// What a file of an offload holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// JSON Lines: a header line, then one record a line.
    Records,
    /// A text, unchanged.
    Text,
    /// One JSON value on one line.
    Value,
    /// Bytes, unchanged.
    Bytes,
}

/// How a value became the records of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordShape {
    /// An array: one line an element.
    Elements,
    /// A keyed object: one line a member, `{"key": …, "value": …}`.
    Members,
}

/// The content of `manifest.json`. Generic so that it is written from borrowed data and read into owned.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Manifest<Text, Record> {
    pub(super) version: u32,
    pub(super) id: Ulid,
    pub(super) tenant: Text,
    pub(super) record: Record,
}

/// Whether a file of an offload may have this name.
pub(super) fn is_file_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=FILE_NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name != MANIFEST_NAME
        && name.bytes().all(allowed)
}
