//! What an offload holds, as its `manifest.json` tells it.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::Ulid;

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
    /// SHA-256 of the bytes from `digest_from` on, in the manifest as 64 hexadecimal digits. `None` asks
    /// [`Staging::publish`](super::Staging::publish) to compute it and, for records, `digest_from`; a published file always
    /// has one.
    ///
    /// The digest of a JSONL file covers its records, which are all bytes after the header line, because the header is
    /// completed in place once the records are written; `tail -n +2 FILE | sha256sum` checks it. The digest of any other
    /// file covers it whole.
    #[serde(with = "hexadecimal")]
    pub sha256: Option<[u8; 32]>,
    /// Offset of the first byte the digest covers: the length of the header line of a JSONL file with its line feed,
    /// otherwise 0.
    pub digest_from: u64,
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

/// A digest as 64 hexadecimal digits.
mod hexadecimal {
    use std::fmt::Write;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(digest: &Option<[u8; 32]>, serializer: S) -> Result<S::Ok, S::Error> {
        let Some(digest) = digest else { return serializer.serialize_none() };
        let mut text = String::with_capacity(64);
        for byte in digest {
            write!(text, "{byte:02x}").map_err(serde::ser::Error::custom)?;
        }
        serializer.serialize_str(&text)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<[u8; 32]>, D::Error> {
        let Some(text) = Option::<String>::deserialize(deserializer)? else { return Ok(None) };
        let digits: Option<Vec<u8>> = text.chars().map(|digit| digit.to_digit(16)?.try_into().ok()).collect();
        let bytes: Vec<u8> = digits
            .unwrap_or_default()
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |sum, digit| sum << 4 | digit))
            .collect();
        match <[u8; 32]>::try_from(bytes) {
            Ok(digest) if text.len() == 64 => Ok(Some(digest)),
            _ => Err(D::Error::custom("a SHA-256 is 64 hexadecimal digits")),
        }
    }
}
