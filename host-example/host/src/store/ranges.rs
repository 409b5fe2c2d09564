//! Ranges of a file in a bucket, each block verified by its own checksum.

use std::ops::Range;
use std::sync::{Arc, OnceLock};

use lro_contract::digest::index_entries;
use parking_lot::Mutex;
use twox_hash::XxHash3_64;

use super::bucket::Bucket;
use super::cipher::{ObjectCipher, OffloadCipher, sealed_bytes};
use super::{Digest, FileRecord, INDEX_STEP_BYTES, StoreError};

/// Size of a block: that for which the index has an entry.
pub(super) const BLOCK_BYTES: usize = INDEX_STEP_BYTES as usize;

/// Bytes that are read at least, from the block on in which the index says that a line is: a page of default size, and what is
/// before it.
const READ_BYTES_MIN: u64 = 4 * INDEX_STEP_BYTES;

/// Size of the seal at the end of the object with the checksums.
const SEAL_BYTES: usize = 32;

/// What is known of a file of more than one block: its index, and the checksums of its blocks.
#[derive(Debug)]
pub(super) struct Ranges {
    lines: Vec<(u64, u64)>,
    sums: Vec<u64>,
}

impl Ranges {
    /// Name of the object for a file. It begins with a dot, so no policy can use it.
    pub(super) fn name(file: &str) -> String {
        format!(".{file}.ranges")
    }

    /// Size of the object for a file; 0 if it needs none.
    pub(super) fn size(record: &FileRecord) -> u64 {
        if record.bytes <= INDEX_STEP_BYTES {
            return 0;
        }
        let index = record.index.as_ref().map_or(0, |index| index.bytes);
        index + record.bytes.div_ceil(INDEX_STEP_BYTES) * 8 + SEAL_BYTES as u64
    }

    /// The object: the index, the checksums, and a SHA-256 over that of the file and these.
    pub(super) fn write(record: &FileRecord, index: &[u8], sums: &[u64]) -> Vec<u8> {
        let mut bytes = index.to_vec();
        bytes.extend(sums.iter().flat_map(|sum| sum.to_le_bytes()));
        let seal = seal(record, &bytes);
        bytes.extend(seal.0);
        bytes
    }

    /// `None` if it is not the object for this file.
    fn read(record: &FileRecord, bytes: &[u8]) -> Option<Self> {
        if bytes.len() as u64 != Self::size(record) {
            return None;
        }
        let (content, found) = bytes.split_at_checked(bytes.len() - SEAL_BYTES)?;
        if seal(record, content).0 != found {
            return None;
        }
        let index_bytes = record.index.as_ref().map_or(0, |index| index.bytes);
        let (index, sums) = content.split_at_checked(usize::try_from(index_bytes).ok()?)?;
        let mut lines = index_entries(index);
        if lines.is_empty() {
            lines.push((0, record.digest_from));
        }
        Some(Self { lines, sums: sums.as_chunks().0.iter().map(|sum| u64::from_le_bytes(*sum)).collect() })
    }
}

fn seal(record: &FileRecord, content: &[u8]) -> Digest {
    let file = record.sha256.map_or([0; 32], |digest| digest.0);
    Digest::of(&[&file, content].concat())
}

/// Reads a file in a bucket.
#[derive(Debug)]
pub(super) struct RangeReader {
    bucket: Arc<Bucket>,
    /// Key of its offload.
    offload: String,
    record: FileRecord,
    ciphers: Option<Ciphers>,
    /// Read on first use.
    ranges: OnceLock<Arc<Ranges>>,
    /// The blocks that were read last, and their offset.
    last: Mutex<(u64, Vec<u8>)>,
}

/// Those of the object of a file, and of that with its ranges.
#[derive(Debug)]
struct Ciphers {
    file: ObjectCipher,
    ranges: ObjectCipher,
}

impl RangeReader {
    pub(super) fn new(
        bucket: Arc<Bucket>,
        offload: String,
        record: FileRecord,
        cipher: Option<&OffloadCipher>,
    ) -> Result<Self, StoreError> {
        let object = |cipher: &OffloadCipher, name: &str| cipher.object(&format!("{offload}/{name}"));
        let ciphers = cipher.map(|cipher| {
            let (file, ranges) = (object(cipher, &record.name)?, object(cipher, &Ranges::name(&record.name))?);
            Ok::<_, StoreError>(Ciphers { file, ranges })
        });
        let ciphers = ciphers.transpose()?;
        Ok(Self { bucket, offload, record, ciphers, ranges: OnceLock::new(), last: Mutex::default() })
    }

    /// Reads a range within the file.
    pub(super) fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        if length == 0 {
            return Ok(Vec::new());
        }
        let end = offset + length as u64;
        let mut last = self.last.lock();
        if offset < last.0 || end > last.0 + last.1.len() as u64 {
            let start = offset / INDEX_STEP_BYTES * INDEX_STEP_BYTES;
            let end = end.max(start + READ_BYTES_MIN).next_multiple_of(INDEX_STEP_BYTES).min(self.record.bytes);
            *last = (start, self.read(start..end)?);
        }
        let from = usize::try_from(offset - last.0).unwrap_or(usize::MAX);
        Ok(last.1.get(from..from.saturating_add(length)).unwrap_or_default().to_vec())
    }

    /// Numbers and offsets of the indexed lines.
    pub(super) fn lines(&self) -> Result<&[(u64, u64)], StoreError> {
        Ok(&self.ranges()?.lines)
    }

    /// Reads whole blocks and verifies them.
    fn read(&self, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let first_block = range.start / INDEX_STEP_BYTES;
        let sealed = match &self.ciphers {
            Some(_) => sealed_bytes(range.start)..sealed_bytes(range.end),
            None => range.clone(),
        };
        let bytes = match self.bucket.objects.range(&self.key(), sealed) {
            Err(StoreError::NotFound { .. }) => return Err(self.changed("no object")),
            read => read?,
        };
        let bytes = match &self.ciphers {
            Some(ciphers) => ciphers.file.open(first_block, bytes).ok_or_else(|| self.changed("other bytes"))?,
            None => bytes,
        };
        let is_right = if self.record.bytes <= INDEX_STEP_BYTES {
            let from = usize::try_from(self.record.digest_from).unwrap_or(usize::MAX);
            bytes.get(from..).map(Digest::of) == self.record.sha256
        } else {
            let first = usize::try_from(first_block).unwrap_or(usize::MAX);
            let expected = self.ranges()?.sums.get(first..).unwrap_or_default();
            let mut blocks = bytes.chunks(BLOCK_BYTES).zip(expected);
            blocks.all(|(block, sum)| XxHash3_64::oneshot(block) == *sum)
        };
        if is_right && bytes.len() as u64 == range.end - range.start {
            Ok(bytes)
        } else {
            Err(self.changed("other bytes"))
        }
    }

    fn ranges(&self) -> Result<&Ranges, StoreError> {
        if let Some(ranges) = self.ranges.get() {
            return Ok(ranges);
        }
        let ranges = if Ranges::size(&self.record) == 0 {
            Arc::new(Ranges { lines: vec![(0, self.record.digest_from)], sums: Vec::new() })
        } else {
            self.bucket.ranges(&self.key(), || {
                let key = format!("{}/{}", self.offload, Ranges::name(&self.record.name));
                let bytes = match self.bucket.objects.get(&key, sealed_bytes(Ranges::size(&self.record))) {
                    Err(StoreError::NotFound { .. }) => return Err(self.changed("no checksums")),
                    read => read?,
                };
                let bytes = match &self.ciphers {
                    Some(ciphers) => ciphers.ranges.open(0, bytes).ok_or_else(|| self.changed("other checksums"))?,
                    None => bytes,
                };
                Ranges::read(&self.record, &bytes).ok_or_else(|| self.changed("other checksums"))
            })?
        };
        Ok(self.ranges.get_or_init(|| ranges))
    }

    /// Key of the file.
    fn key(&self) -> String {
        format!("{}/{}", self.offload, self.record.name)
    }

    fn changed(&self, found: &str) -> StoreError {
        let path = self.bucket.objects.place(&self.key());
        let sha256 = self.record.sha256.map(|sha256| sha256.to_string()).unwrap_or_default();
        let expected = format!("{} bytes of SHA-256 {sha256}", self.record.bytes);
        StoreError::Changed { path, expected, found: found.to_owned() }
    }
}
