//! SHA-256 digests, XXH3 checksums and line indexes of files, computed in one sequential pass.
//!
//! The checksum takes about a tenth of the time of the digest, so readers compare it first.

use std::fmt;
use std::hash::Hasher as _;
use std::str::FromStr;

use memchr::{memchr, memchr_iter};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest as _, Sha256};
use twox_hash::XxHash3_64;

/// Distance in bytes between two positions of a file that its index has an entry for.
pub const INDEX_STEP_BYTES: u64 = 64 * 1024;

/// Size of an index entry: two numbers of 8 bytes.
pub const INDEX_ENTRY_BYTES: u64 = 16;

/// A SHA-256 digest, formatted and parsed as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// Computes the digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// The text is not a SHA-256 digest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a SHA-256: 64 hexadecimal digits")]
pub struct ParseDigestError(String);

impl FromStr for Digest {
    type Err = ParseDigestError;

    fn from_str(text: &str) -> Result<Self, ParseDigestError> {
        let bad = || ParseDigestError(text.to_owned());
        let digits = text.strip_prefix("sha256:").unwrap_or(text);
        if digits.len() != 64 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(bad());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let pair = digits.get(index * 2..index * 2 + 2).ok_or_else(bad)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Self(bytes))
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// An XXH3 checksum of 64 bits with the seed 0, formatted and parsed as 16 hexadecimal digits. It detects damage, not
/// forgery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checksum(pub u64);

impl Serialize for Checksum {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:016x}", self.0))
    }
}

impl<'de> Deserialize<'de> for Checksum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        u64::from_str_radix(&text, 16).map(Self).map_err(serde::de::Error::custom)
    }
}

/// The numbers and offsets of lines in the bytes of an index; see [`IndexRecord`](crate::manifest::IndexRecord).
pub fn index_entries(index: &[u8]) -> Vec<(u64, u64)> {
    let numbers = index.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect::<Vec<_>>();
    numbers.as_chunks().0.iter().map(|[number, offset]| (*number, *offset)).collect()
}

/// Digest, size and lines of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDigest {
    /// SHA-256 of the bytes from `digest_from` to the end.
    pub sha256: Digest,
    /// Checksum of the same bytes.
    pub xxh3: Checksum,
    /// Offset of the first byte that the digest covers, and of the first counted line: after the header line, or 0 in a
    /// file without one.
    pub digest_from: u64,
    /// Size of the file.
    pub bytes: u64,
    /// Number of lines from `digest_from` on. A last line without a line feed counts; an empty one after the last line
    /// feed does not.
    pub lines: u64,
    /// Start offsets of lines, little-endian; see [`IndexRecord`](crate::manifest::IndexRecord).
    pub index: Vec<u8>,
}

/// What [`FileDigest`] has besides the digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSummary {
    /// As in [`FileDigest`].
    pub xxh3: Checksum,
    /// As in [`FileDigest`].
    pub digest_from: u64,
    /// As in [`FileDigest`].
    pub bytes: u64,
    /// As in [`FileDigest`].
    pub lines: u64,
    /// As in [`FileDigest`].
    pub index: Vec<u8>,
}

impl FileSummary {
    /// The digest of the file with this summary.
    pub fn with_sha256(self, sha256: Digest) -> FileDigest {
        let Self { xxh3, digest_from, bytes, lines, index } = self;
        FileDigest { sha256, xxh3, digest_from, bytes, lines, index }
    }
}

/// Computes the digest of a file that is written sequentially.
pub struct FileHasher {
    sha256: Sha256,
    summary: FileSummarizer,
}

impl FileHasher {
    /// A hasher of an empty file; `has_header` says whether its first line is a header.
    pub fn new(has_header: bool) -> Self {
        Self { sha256: Sha256::new(), summary: FileSummarizer::new(has_header) }
    }

    /// Adds bytes written at `offset`. A gap or an overwrite makes the digest unknown, unless it completes the header
    /// line in place.
    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        self.sha256.update(self.summary.add(offset, bytes));
    }

    /// Returns the digest, unless it is unknown or the header line is incomplete.
    pub fn finish(self) -> Option<FileDigest> {
        Some(self.summary.finish()?.with_sha256(Digest(self.sha256.finalize().into())))
    }
}

/// Summarizes a file that is written sequentially, for whoever computes its digest in another way.
pub struct FileSummarizer {
    xxh3: XxHash3_64,
    /// End of the header line, once known.
    from: Option<u64>,
    next: u64,
    in_order: bool,
    lines: Lines,
}

impl FileSummarizer {
    /// As [`FileHasher::new`].
    pub fn new(has_header: bool) -> Self {
        let mut lines = Lines::default();
        let from = if has_header { None } else { Some(lines.begin(0)) };
        Self { xxh3: XxHash3_64::new(), from, next: 0, in_order: true, lines }
    }

    /// As [`FileHasher::add`]. Returns those of the bytes that the digest covers next.
    pub fn add<'a>(&mut self, offset: u64, bytes: &'a [u8]) -> &'a [u8] {
        if !self.in_order || bytes.is_empty() || self.completes_header(offset, bytes) {
            return &[];
        }
        if offset != self.next {
            self.in_order = false;
            return &[];
        }
        self.next += bytes.len() as u64;
        let body = match self.from {
            Some(_) => bytes,
            None => {
                let Some(feed) = memchr(b'\n', bytes) else { return &[] };
                self.from = Some(self.lines.begin(offset + feed as u64 + 1));
                bytes.get(feed + 1..).unwrap_or_default()
            }
        };
        self.xxh3.write(body);
        self.lines.add(self.next - body.len() as u64, body);
        body
    }

    /// Whether the bytes overwrite part of the header line without changing its length.
    fn completes_header(&self, offset: u64, bytes: &[u8]) -> bool {
        let end = offset + bytes.len() as u64;
        let Some(from) = self.from.filter(|from| end <= *from) else { return false };
        let line_end = memchr(b'\n', bytes).map(|feed| offset + feed as u64 + 1);
        line_end == (end == from).then_some(from)
    }

    /// As [`FileHasher::finish`].
    pub fn finish(self) -> Option<FileSummary> {
        let digest_from = self.from.filter(|_| self.in_order)?;
        let (lines, index) = self.lines.finish(self.next);
        Some(FileSummary { xxh3: Checksum(self.xxh3.finish()), digest_from, bytes: self.next, lines, index })
    }
}

/// Counts lines and builds their index.
#[derive(Default)]
struct Lines {
    ended: u64,
    /// Whether bytes follow the last line feed.
    is_open: bool,
    /// Position in the file that the next index entry is for.
    point: u64,
    index: Vec<u8>,
}

impl Lines {
    /// Records that a line begins at `offset`, and returns `offset`.
    fn begin(&mut self, offset: u64) -> u64 {
        while self.point <= offset {
            self.enter(self.ended, offset);
        }
        offset
    }

    fn enter(&mut self, number: u64, offset: u64) {
        self.index.extend(number.to_le_bytes());
        self.index.extend(offset.to_le_bytes());
        self.point += INDEX_STEP_BYTES;
    }

    /// Adds bytes that follow the previous ones.
    fn add(&mut self, mut offset: u64, mut bytes: &[u8]) {
        if let Some(last) = bytes.last() {
            self.is_open = *last != b'\n';
        }
        while !bytes.is_empty() {
            // The first line that begins at or after the position follows a line feed at `position - 1` or later.
            let before = usize::try_from((self.point - 1).saturating_sub(offset)).unwrap_or(usize::MAX);
            let (counted, rest) = bytes.split_at(before.min(bytes.len()));
            self.ended += memchr_iter(b'\n', counted).count() as u64;
            let Some(feed) = memchr(b'\n', rest) else { return };
            self.ended += 1;
            offset += (counted.len() + feed + 1) as u64;
            bytes = rest.get(feed + 1..).unwrap_or_default();
            self.begin(offset);
        }
    }

    /// Returns the number of lines and the index of a file of this size.
    fn finish(mut self, bytes: u64) -> (u64, Vec<u8>) {
        let lines = self.ended + u64::from(self.is_open);
        while self.point < bytes {
            self.enter(lines, bytes);
        }
        // The end of the file needs no entry.
        self.index.truncate(usize::try_from(index_bytes(bytes)).unwrap_or(usize::MAX));
        (lines, self.index)
    }
}

/// Size of the index of a file of `bytes` bytes.
pub fn index_bytes(bytes: u64) -> u64 {
    bytes.div_ceil(INDEX_STEP_BYTES) * INDEX_ENTRY_BYTES
}
