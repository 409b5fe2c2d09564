//! Offloads in preopened directories.

use std::cell::OnceCell;
use std::hash::Hasher as _;

use lro_contract::digest::{Checksum, Digest, FileHasher, index_entries};
use lro_contract::manifest::{
    FileKind, FileRecord, MANIFEST_BYTES_MAX, MANIFEST_NAME, MANIFEST_VERSION, MANIFEST_VERSION_MIN, Manifest,
    OffloadRecord,
};
use lro_contract::ulid::Ulid;
use lro_reading::Section;
use lro_reading::tool::{self, Failure};
use twox_hash::XxHash3_64;

use crate::bindings::exports::lro::adapter::reading::Caller;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// Bytes per read while a file is verified.
const BLOCK_BYTES: u64 = 256 * 1024;

/// An offload of the caller.
pub(crate) struct Offload {
    pub(crate) id: Ulid,
    /// When it expires, in milliseconds since 1970.
    pub(crate) expires: u64,
    /// Whether its store keeps every byte as it was written.
    intact: bool,
    /// Number of its directory among the preopened ones.
    pub(crate) directory: u32,
    pub(crate) record: OffloadRecord,
    preopened: Descriptor,
}

/// An open file of an offload.
pub(crate) struct File {
    file: Descriptor,
    record: FileRecord,
    /// Absent if the file has no index.
    index: Option<Descriptor>,
    known: OnceCell<Vec<(u64, u64)>>,
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("\"{0}\" has changed: its bytes are not those of the offload")]
    Changed(String),
    #[error("\"{name}\" cannot be read: {}", .code.message())]
    Io { name: String, code: ErrorCode },
    #[error("{0}")]
    Other(String),
}

impl From<FileError> for Failure {
    fn from(error: FileError) -> Self {
        Self::Tool(error.to_string())
    }
}

impl Offload {
    /// Finds the offload with this handle among those of the caller.
    pub(crate) fn find(caller: &Caller, handle: &str) -> Result<Self, Failure> {
        let id = tool::id(handle)?;
        let name = id.to_string();
        let missing = || Failure::Tool(tool::missing_offload(id));
        let listed = caller.offloads.iter().find(|offload| offload.handle == name).ok_or_else(missing)?;
        if listed.expires <= caller.now {
            return Err(Failure::Tool(tool::expired_offload(id)));
        }
        let directories = get_directories().into_iter();
        let found = (0..).zip(directories).find(|(_, (_, path))| path.trim_start_matches('/') == name);
        let (directory, (preopened, _)) = found.ok_or_else(missing)?;
        let manifest = read_all(&preopened, MANIFEST_NAME, MANIFEST_BYTES_MAX)?;
        let manifest: Option<Manifest<String, OffloadRecord>> = serde_json::from_slice(&manifest).ok();
        let is_valid = |manifest: &Manifest<String, OffloadRecord>| {
            (MANIFEST_VERSION_MIN..=MANIFEST_VERSION).contains(&manifest.version)
                && manifest.id == id
                && manifest.record.files.iter().all(FileRecord::is_complete)
        };
        let invalid = || Failure::Tool("the manifest of the offload is not valid".to_owned());
        let manifest = manifest.filter(is_valid).ok_or_else(invalid)?;
        // Tenants whose directory names collide still do not see each other's offloads.
        if manifest.tenant != caller.tenant {
            return Err(missing());
        }
        let (expires, intact) = (listed.expires, listed.intact);
        Ok(Self { id, expires, intact, directory, record: manifest.record, preopened })
    }

    /// Compares a file with its checksum before a part of it is read, unless the store does so.
    pub(crate) fn verify_part(&self, file: &File) -> Result<(), FileError> {
        if self.intact { Ok(()) } else { file.verify() }
    }

    /// Opens a file.
    pub(crate) fn open(&self, record: &FileRecord) -> Result<File, FileError> {
        let index = record.index.as_ref().map(|_| open(&self.preopened, &record.index_name())).transpose()?;
        let file = open(&self.preopened, &record.name)?;
        Ok(File { file, record: record.clone(), index, known: OnceCell::new() })
    }
}

impl File {
    /// Compares the file with its checksum, or with its digest if it has none. The header line of a JSONL file is not covered.
    pub(crate) fn verify(&self) -> Result<(), FileError> {
        let FileRecord { xxh3, sha256, digest_from, bytes, .. } = self.record;
        let is_same = match xxh3 {
            Some(expected) => {
                let mut hasher = XxHash3_64::new();
                let header = self.read(0, digest_from)?;
                let header_bytes = header.iter().position(|byte| *byte == b'\n').map_or(0, |feed| feed + 1);
                let end = self.each_block(digest_from, |_, block| hasher.write(block))?;
                header_bytes as u64 == digest_from && (Checksum(hasher.finish()), end) == (expected, bytes)
            }
            None => {
                let mut hasher = FileHasher::new(self.record.kind == FileKind::Records);
                self.each_block(0, |offset, block| hasher.add(offset, block))?;
                let found = hasher.finish();
                found.map(|found| (Some(found.sha256), found.digest_from, found.bytes))
                    == Some((sha256, digest_from, bytes))
            }
        };
        if is_same { Ok(()) } else { Err(FileError::Changed(self.record.name.clone())) }
    }

    /// Reads the file from an offset to its end, which it returns.
    fn each_block(&self, from: u64, mut read: impl FnMut(u64, &[u8])) -> Result<u64, FileError> {
        let mut next = from;
        loop {
            let (block, _) = self.file.read(BLOCK_BYTES, next).map_err(|code| self.failed(code))?;
            if block.is_empty() {
                return Ok(next);
            }
            read(next, &block);
            next += block.len() as u64;
        }
    }

    fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, FileError> {
        filled(&self.file, offset, length).map_err(|code| self.failed(code))
    }

    fn failed(&self, code: ErrorCode) -> FileError {
        FileError::Io { name: self.record.name.clone(), code }
    }
}

impl Section for File {
    type Error = FileError;

    fn record(&self) -> &FileRecord {
        &self.record
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Vec<u8>, FileError> {
        let rest = self.record.bytes.saturating_sub(offset);
        self.read(offset, rest.min(length as u64))
    }

    fn known(&self) -> Result<&[(u64, u64)], FileError> {
        if let Some(known) = self.known.get() {
            return Ok(known);
        }
        let known = match (&self.index, &self.record.index) {
            (Some(file), Some(record)) => {
                let content = filled(file, 0, record.bytes).map_err(|code| self.failed(code))?;
                if Digest::of(&content) != record.sha256 {
                    return Err(FileError::Changed(self.record.index_name()));
                }
                index_entries(&content)
            }
            _ => vec![(0, self.record.digest_from)],
        };
        Ok(self.known.get_or_init(|| known))
    }
}

fn open(directory: &Descriptor, name: &str) -> Result<Descriptor, FileError> {
    let opened = directory.open_at(PathFlags::empty(), name, OpenFlags::empty(), DescriptorFlags::READ);
    opened.map_err(|code| FileError::Io { name: name.to_owned(), code })
}

fn read_all(directory: &Descriptor, name: &str, bytes_max: u64) -> Result<Vec<u8>, FileError> {
    let file = open(directory, name)?;
    filled(&file, 0, bytes_max).map_err(|code| FileError::Io { name: name.to_owned(), code })
}

/// Reads `length` bytes from an offset on; fewer at the end of the file.
fn filled(file: &Descriptor, offset: u64, length: u64) -> Result<Vec<u8>, ErrorCode> {
    let mut bytes = Vec::new();
    while (bytes.len() as u64) < length {
        let wanted = (length - bytes.len() as u64).min(BLOCK_BYTES);
        let (block, is_end) = file.read(wanted, offset + bytes.len() as u64)?;
        if block.is_empty() {
            break;
        }
        bytes.extend(block);
        if is_end {
            break;
        }
    }
    Ok(bytes)
}
