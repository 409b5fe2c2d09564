//! The content of an offload, as recorded in its `manifest.json`.

use std::collections::HashSet;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use crate::digest::{Checksum, Digest, FileDigest, INDEX_STEP_BYTES, index_bytes};
use crate::ulid::Ulid;

/// File name of the manifest.
pub const MANIFEST_NAME: &str = "manifest.json";

/// Maximum size of a manifest, in bytes: a descriptor of 1 MiB, and the schemas of its files.
pub const MANIFEST_BYTES_MAX: u64 = 8 * 1024 * 1024;

/// Maximum length of a file name in an offload, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 128;

/// Version of the manifest format that this module writes.
pub const MANIFEST_VERSION: u32 = 2;

/// The first version of the manifest format, which it reads too: an entry names one `part`, and has no origin.
pub const MANIFEST_VERSION_MIN: u32 = 1;

/// One offload: the call, the descriptor and the files.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OffloadRecord {
    /// Name of the tool.
    pub tool: String,
    /// Session of the client, any text.
    pub session: Option<String>,
    /// Time of the result, RFC 3339 in UTC; see [`rfc3339`](crate::ulid::rfc3339).
    pub created: String,
    /// The descriptor as the policy wrote it: a JSON object, kept byte for byte.
    pub descriptor: Box<RawValue>,
    /// The files, in the order of the descriptor.
    pub files: Vec<FileRecord>,
}

impl OffloadRecord {
    /// Returns the file of this name, or else that of the first section of this name.
    pub fn file(&self, name: &str) -> Option<&FileRecord> {
        self.files.iter().find(|file| file.name == name).or_else(|| self.files.iter().find(|file| file.section == name))
    }

    /// The file that a reader means who names none: the only one that is not made from another.
    ///
    /// # Errors
    /// The sections to choose from, none or several.
    pub fn only_file(&self) -> Result<&FileRecord, Vec<&str>> {
        let mut content = self.files.iter().filter(|file| file.origin == Origin::Content);
        match (content.next(), content.next()) {
            (Some(only), None) => Ok(only),
            _ => Err(self.files.iter().map(|file| file.section.as_str()).collect()),
        }
    }
}

/// One file of an offload.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FileRecord {
    /// Name in the directory: letters, digits, `-`, `_` and `.`, not beginning with `.`, at most
    /// [`FILE_NAME_BYTES_MAX`] bytes, and not the manifest's.
    pub name: String,
    /// What the file contains.
    pub kind: FileKind,
    /// Key of the section in the descriptor.
    pub section: String,
    /// Indices of the source parts in the tool result, ascending.
    #[serde(alias = "part", deserialize_with = "one_or_several")]
    pub parts: Vec<u32>,
    /// Where its lines come from.
    #[serde(default)]
    pub origin: Origin,
    /// How its records stand in the text they were read from.
    #[serde(default)]
    pub form: Option<Form>,
    /// Name of the file of this offload that keeps the original bytes of a file of another origin than
    /// [`Origin::Content`].
    #[serde(default)]
    pub derived_from: Option<String>,
    /// JSON Pointer to the source value, for a file made from one value of a JSON part; of several parts, in each.
    pub pointer: Option<String>,
    /// How that value was split into records.
    pub shape: Option<RecordShape>,
    /// Media type, such as `application/jsonl`.
    pub media_type: String,
    /// Number of records in a JSONL file, without the header line, or of lines in a text file; otherwise 0.
    pub records: u64,
    /// Size of the file in bytes.
    pub bytes: u64,
    /// JSON Schema of a line.
    pub schema: Option<Box<RawValue>>,
    /// Stored queries over its records, which a reader may run by name.
    pub queries: Vec<StoredQuery>,
    /// SHA-256 of the bytes from `digest_from` on, as 64 hexadecimal digits. Set by
    /// [`FileRecord::complete`], so every published file has one.
    ///
    /// The digest of a JSONL file covers its records, that is all bytes after the header line, because the header is
    /// completed in place after the records are written. `tail -n +2 FILE | sha256sum` checks it. The digest of any
    /// other file covers the whole file.
    pub sha256: Option<Digest>,
    /// XXH3 checksum of the same bytes, as 16 hexadecimal digits. Set by publishing; files of other writers may have
    /// none, and are verified by their digest.
    #[serde(default)]
    pub xxh3: Option<Checksum>,
    /// Offset of the first byte that the digest covers: the length of a JSONL file's header line including the line
    /// feed, otherwise 0. Set by publishing.
    pub digest_from: u64,
    /// Line index of a JSONL or text file larger than [`INDEX_STEP_BYTES`]. Set by publishing.
    pub index: Option<IndexRecord>,
}

impl FileRecord {
    /// File name of its index. It begins with a dot, so no policy can use it.
    pub fn index_name(&self) -> String {
        format!(".{}.index", self.name)
    }

    /// Whether its lines are counted.
    pub fn has_lines(&self) -> bool {
        matches!(self.kind, FileKind::Records | FileKind::Text)
    }

    /// Sets digest, checksum, index and number of lines from the bytes of the file. Returns the index, if it needs one.
    pub fn complete(&mut self, digest: FileDigest) -> Option<Vec<u8>> {
        self.sha256 = Some(digest.sha256);
        self.xxh3 = Some(digest.xxh3);
        self.digest_from = digest.digest_from;
        self.index = None;
        if !self.has_lines() {
            return None;
        }
        self.records = digest.lines;
        if self.bytes <= INDEX_STEP_BYTES {
            return None;
        }
        self.index = Some(IndexRecord { bytes: digest.index.len() as u64, sha256: Digest::of(&digest.index) });
        Some(digest.index)
    }

    /// Whether it has all that publishing sets.
    pub fn is_complete(&self) -> bool {
        is_file_name(&self.name)
            && self.sha256.is_some()
            && self.index.as_ref().is_none_or(|index| index.bytes == index_bytes(self.bytes))
    }
}

/// A named query.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoredQuery {
    /// Its name, unique in the offload.
    pub name: String,
    /// What it answers, in one line.
    pub description: String,
    /// The query as JSON.
    pub query: Box<RawValue>,
}

/// The line index of a file, stored as `.{name}.index`: 16 bytes for each started [`INDEX_STEP_BYTES`] of the file.
///
/// Entry `k` is the number and the offset of the first line that begins at or after byte `k` × 65,536, each 8 bytes,
/// little-endian. Lines are counted from 0, in a JSONL file after its header line. If no such line exists, the entry is
/// the number of lines and the size of the file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct IndexRecord {
    /// Size of the index in bytes.
    pub bytes: u64,
    /// SHA-256 of the index.
    pub sha256: Digest,
}

/// What a file of an offload contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// JSON Lines: a header line, then one record per line.
    Records,
    /// Unchanged text.
    Text,
    /// One JSON value on one line.
    Value,
    /// Unchanged bytes.
    Bytes,
}

/// How a value was split into records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RecordShape {
    /// An array: one line per element.
    Elements,
    /// A keyed object: one line per member, `{"key": …, "value": …}`.
    Members,
    /// Any value: one line, the value itself.
    Value,
}

/// Where the lines of a file come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// From the result: nothing else keeps this data.
    #[default]
    Content,
    /// They are the records of a text that another file keeps.
    RecordsOfText,
    /// They say what is where in another file.
    Outline,
}

/// How records stand in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// One JSON value a line.
    JsonLines,
    /// JSON values one after another.
    JsonSequence,
    /// JSON with other text around it.
    JsonWithin,
    /// CSV, TSV and the like.
    Delimited {
        /// The character between two fields.
        delimiter: char,
        /// Whether the first line has the names of the fields.
        header: bool,
    },
    /// A table of Markdown.
    MarkdownTable,
    /// Columns aligned by spaces.
    AlignedTable,
    /// A literal of Python.
    PythonLiteral,
    /// A list or mapping in YAML.
    Yaml,
    /// Tables of HTML, or repeated elements of XML.
    Markup,
    /// JSON whose records are spread over arrays.
    JsonColumns,
    /// Blocks of lines that each name a value.
    KeyedBlocks,
}

/// Reads a list of numbers, or one number for a list of it.
fn one_or_several<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Parts {
        One(u32),
        Several(Vec<u32>),
    }
    Ok(match Parts::deserialize(deserializer)? {
        Parts::One(part) => vec![part],
        Parts::Several(parts) => parts,
    })
}

/// The content of `manifest.json`. Generic, to write borrowed data and read owned data.
#[derive(Debug, Serialize, Deserialize)]
pub struct Manifest<Text, Record> {
    /// [`MANIFEST_VERSION`], or an older one.
    pub version: u32,
    /// Id of the offload.
    pub id: Ulid,
    /// The tenant that owns it.
    pub tenant: Text,
    /// Seconds from the time in the id to the end, of an offload in a bucket that has its own time to live.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds: Option<u64>,
    /// An [`OffloadRecord`].
    pub record: Record,
}

/// Whether this is a valid file name in an offload.
pub fn is_file_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=FILE_NAME_BYTES_MAX).contains(&name.len())
        && !name.starts_with('.')
        && name != MANIFEST_NAME
        && name.bytes().all(allowed)
}

/// Checks that every file which is not content of the result is derived from one that is.
///
/// # Errors
/// What is wrong with which file.
pub fn check_origins(files: &[FileRecord]) -> Result<(), String> {
    let content = files.iter().filter(|file| file.origin == Origin::Content);
    let originals: HashSet<&str> = content.map(|file| file.name.as_str()).collect();
    for file in files {
        let wrong = match (file.origin, &file.derived_from) {
            (Origin::Content, None) => continue,
            (Origin::Content, Some(_)) => "content that is derived from a file",
            (_, Some(original)) if originals.contains(original.as_str()) => continue,
            (_, Some(_)) => "derived from a file that keeps no content of the result",
            (_, None) => "derived from no file",
        };
        return Err(format!("`{}`: {wrong}", file.name));
    }
    Ok(())
}

/// Appends size and digest of each file to a descriptor, as its last member.
pub fn with_integrity(descriptor: &str, files: &[FileRecord]) -> String {
    let entry = |file: &FileRecord| {
        let value = serde_json::json!({ "bytes": file.bytes, "sha256": file.sha256, "digest_from": file.digest_from });
        (file.name.clone(), value)
    };
    let integrity: serde_json::Map<String, serde_json::Value> = files.iter().map(entry).collect();
    let members = descriptor.trim_end().strip_suffix('}').unwrap_or(descriptor);
    format!("{members},\"integrity\":{}}}", serde_json::Value::Object(integrity))
}
