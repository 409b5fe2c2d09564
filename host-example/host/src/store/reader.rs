//! Reads published files: verifies them, reads lines and ranges.

use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::SystemTime;

use lro_contract::digest::index_entries;
use lro_reading::Section;
use lro_system::files::read_at;
use memchr::memchr;

use super::copies::CopyOf;
use super::directory::Directory;
use super::error::failed;
use super::ranges::RangeReader;
use super::verified::{FileState, Verified};
use super::{Digest, FileKind, FileRecord, StoreError};
use crate::ahead::{Arrival, Giver};
use crate::digest;

/// An open file of a published offload. It stays readable after the offload is removed, unless it is read from a bucket.
///
/// Do not return anything read before [`Reader::verify`] has succeeded. Reading has no file position, and of a file on disk
/// takes no lock, so one thread can verify while another reads. Of a bucket, one thread at a time reads.
#[derive(Debug)]
pub struct Reader {
    record: FileRecord,
    source: Source,
    /// The copy that it is a file of, if it is one.
    copy: Option<CopyOf>,
}

/// What a file is read from.
#[derive(Debug)]
enum Source {
    Disk(OpenFile),
    Bucket(Box<RangeReader>),
    Arriving(ArrivingFile),
}

/// A file on the disk that is being copied from a bucket.
#[derive(Debug)]
struct ArrivingFile {
    file: File,
    path: PathBuf,
    arrival: Arrival,
}

/// A file on the disk.
#[derive(Debug)]
struct OpenFile {
    file: File,
    path: PathBuf,
    index: Option<Index>,
    /// Number and offset of indexed lines, in order, including the first line.
    known: OnceLock<Vec<(u64, u64)>>,
    verified: Arc<Verified>,
}

/// The open index of a file.
#[derive(Debug)]
struct Index {
    file: File,
    path: PathBuf,
    bytes: u64,
    sha256: Digest,
}

impl Reader {
    pub(super) fn open(
        directory: &Directory,
        record: &FileRecord,
        verified: &Arc<Verified>,
    ) -> Result<Self, StoreError> {
        let path = directory.path.join(&record.name);
        let (file, size) = match record.sha256 {
            Some(sha256) => open_published(directory, &record.name, record.bytes, sha256)?,
            // More may have come since it was found.
            None => (directory.file(&record.name)?.0, record.bytes),
        };
        let index = match &record.index {
            Some(index) => {
                let (name, (bytes, sha256)) = (record.index_name(), (index.bytes, index.sha256));
                let (file, _) = open_published(directory, &name, bytes, sha256)?;
                Some(Index { file, path: directory.path.join(name), bytes, sha256 })
            }
            None => None,
        };
        let opened = OpenFile { file, path, index, known: OnceLock::new(), verified: Arc::clone(verified) };
        let reader = Self { record: record.clone(), source: Source::Disk(opened), copy: None };
        if size != reader.record.bytes {
            reader.verify()?;
        }
        Ok(reader)
    }

    pub(super) fn of_copy(self, copy: CopyOf) -> Self {
        Self { copy: Some(copy), ..self }
    }

    pub(super) fn in_bucket(source: RangeReader, record: &FileRecord) -> Self {
        Self { record: record.clone(), source: Source::Bucket(Box::new(source)), copy: None }
    }

    pub(super) fn arriving(record: &FileRecord, file: File, path: PathBuf, arrival: Arrival) -> Self {
        let source = Source::Arriving(ArrivingFile { file, path, arrival });
        Self { record: record.clone(), source, copy: None }
    }

    /// Compares the file with its checksum, or with its SHA-256 if it has none. Reads the whole file, unless this store
    /// has verified it before and its device, inode, size and timestamps are unchanged. The header line of a JSONL file
    /// is not covered.
    ///
    /// Ranges of a file in a bucket are verified as they are read, and this reads nothing. If a copy of such a file has changed, it
    /// is removed: what is opened next is read from the bucket.
    ///
    /// The checksum detects every change by accident. Against a forger the digest would not help either: who can write
    /// the file can write its manifest.
    ///
    /// # Errors
    /// [`StoreError::Changed`], and [`StoreError::Io`] when the file cannot be read.
    pub fn verify(&self) -> Result<(), StoreError> {
        self.verify_and_give(Giver::nobody())
    }

    /// As [`Reader::verify`]; hands the blocks on that the checksum covers, if it reads them.
    pub(crate) fn verify_and_give(&self, giver: Giver) -> Result<(), StoreError> {
        let verified = match &self.source {
            Source::Disk(file) => file.verify(&self.record, giver),
            // Whoever copies a file verifies it.
            Source::Bucket(_) | Source::Arriving(_) => Ok(()),
        };
        verified.inspect_err(|error| {
            self.copy.iter().for_each(|copy| copy.forget_if(error));
        })
    }
}

impl OpenFile {
    fn verify(&self, record: &FileRecord, mut giver: Giver) -> Result<(), StoreError> {
        // Every published file has one; what grows has none yet.
        let Some(expected) = record.sha256 else { return Ok(()) };
        let state = self.state()?;
        if self.verified.contains(state, expected) {
            return Ok(());
        }
        let is_settled = state.is_settled(SystemTime::now());
        if !self.has_checksum(record, &mut giver)? {
            self.compare_digest(record, expected)?;
        }
        if is_settled && self.state()? == state {
            self.verified.insert(state, expected);
        }
        Ok(())
    }

    /// Whether the file has the checksum in the manifest, and its header line the length there.
    fn has_checksum(&self, record: &FileRecord, giver: &mut Giver) -> Result<bool, StoreError> {
        let FileRecord { xxh3, digest_from, bytes, .. } = record;
        let Some(expected) = xxh3 else { return Ok(false) };
        let header = self.bytes(0, usize::try_from(*digest_from.min(bytes)).unwrap_or(usize::MAX))?;
        let header_bytes = memchr(b'\n', &header).map_or(0, |feed| feed + 1);
        let found = digest::checksum(&self.file, *digest_from, giver).map_err(failed("read", &self.path))?;
        Ok(header_bytes as u64 == *digest_from && found == (*expected, *bytes))
    }

    fn compare_digest(&self, record: &FileRecord, expected: Digest) -> Result<(), StoreError> {
        let has_header = record.kind == FileKind::Records;
        let found = digest::digest(&self.file, has_header).map_err(failed("read", &self.path))?;
        let listed = (expected, record.digest_from, record.bytes);
        let found = match found {
            Some(found) if (found.sha256, found.digest_from, found.bytes) == listed => return Ok(()),
            Some(found) => describe(found.bytes, found.sha256),
            None => "no header line".to_owned(),
        };
        Err(StoreError::Changed { path: self.path.clone(), expected: describe(record.bytes, expected), found })
    }

    fn state(&self) -> Result<FileState, StoreError> {
        FileState::of(&self.file).map_err(failed("examine", &self.path))
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        read(&self.file, offset, length).map_err(failed("read", &self.path))
    }

    /// The index, read and checked on first use.
    fn known(&self, record: &FileRecord) -> Result<&[(u64, u64)], StoreError> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let first = vec![(0, record.digest_from)];
        let known = self.index.as_ref().map_or(Ok(first), Index::read)?;
        Ok(self.known.get_or_init(|| known))
    }
}

impl ArrivingFile {
    /// Waits for the bytes; returns fewer if no more come.
    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        self.arrival.wait_behind(offset, length as u64);
        read(&self.file, offset, length).map_err(failed("read", &self.path))
    }
}

impl Section for Reader {
    type Error = StoreError;

    fn record(&self) -> &FileRecord {
        &self.record
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, StoreError> {
        let rest = self.record.bytes.saturating_sub(offset);
        let length = length.min(usize::try_from(rest).unwrap_or(usize::MAX));
        match &self.source {
            Source::Disk(file) => file.bytes(offset, length),
            Source::Bucket(file) => file.bytes(offset, length),
            Source::Arriving(file) => file.bytes(offset, length),
        }
    }

    fn known(&self) -> Result<&[(u64, u64)], StoreError> {
        match &self.source {
            Source::Disk(file) => file.known(&self.record),
            Source::Bucket(file) => file.lines(),
            Source::Arriving(_) => Ok(&[]),
        }
    }
}

impl Index {
    fn read(&self) -> Result<Vec<(u64, u64)>, StoreError> {
        let length = usize::try_from(self.bytes).unwrap_or(usize::MAX);
        let content = read(&self.file, 0, length).map_err(failed("read", &self.path))?;
        let found = Digest::of(&content);
        if found != self.sha256 {
            let (expected, found) = (describe(self.bytes, self.sha256), describe(content.len() as u64, found));
            return Err(StoreError::Changed { path: self.path.clone(), expected, found });
        }
        Ok(index_entries(&content))
    }
}

/// Opens a published file, and returns its size. A file that is missing, not regular or linked twice has changed.
fn open_published(directory: &Directory, name: &str, bytes: u64, sha256: Digest) -> Result<(File, u64), StoreError> {
    let found = match directory.file(name) {
        Ok((file, metadata)) => return Ok((file, metadata.len())),
        Err(StoreError::NotFound { .. }) => "no file".to_owned(),
        Err(StoreError::Unexpected { reason, .. }) => format!("something else: {reason}"),
        Err(error) => return Err(error),
    };
    Err(StoreError::Changed { path: directory.path.join(name), expected: describe(bytes, sha256), found })
}

fn describe(bytes: u64, sha256: Digest) -> String {
    format!("{bytes} bytes of SHA-256 {sha256}")
}

/// Reads `length` bytes; fewer at the end of the file.
fn read(file: &File, offset: u64, length: usize) -> io::Result<Vec<u8>> {
    let (mut bytes, mut filled) = (vec![0; length], 0);
    while let Some(room) = bytes.get_mut(filled..).filter(|room| !room.is_empty()) {
        match read_at(file, offset + filled as u64, room)? {
            0 => break,
            length => filled += length,
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}
