//! The files of a call: their names, the bounds of the call, and their digests.
//!
//! Bytes are counted while they are written, by file and not by handle, and hashed while they are written in order.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use lro_contract::digest::{Digest, FileDigest, FileHasher, FileSummarizer, FileSummary};
use lro_contract::manifest::MANIFEST_NAME;

use crate::bindings::exports::lro::adapter::held::{Bounds, CloseError};
use crate::{ErrorCode, Storage};

/// Bytes read at a time to hash a file that was not written in order.
const BLOCK_BYTES: u64 = 256 << 10;

/// A file of the call. Handles share it.
pub(crate) type Shared<S> = Rc<RefCell<Open<S>>>;

/// A file, whether or not it still has a name.
pub(crate) struct Open<S: Storage> {
    /// Identifies the file within the call: names can be reused.
    pub(crate) number: u32,
    pub(crate) bytes: u64,
    file: S::File,
    hasher: Hasher,
    is_jsonl: bool,
}

/// What becomes known of a file while it is written.
enum Hasher {
    WithDigest(FileHasher),
    /// The host computes the digest.
    WithoutDigest(FileSummarizer),
}

impl Hasher {
    fn new(is_jsonl: bool, has_digest: bool) -> Self {
        match has_digest {
            true => Self::WithDigest(FileHasher::new(is_jsonl)),
            false => Self::WithoutDigest(FileSummarizer::new(is_jsonl)),
        }
    }

    fn add(&mut self, offset: u64, bytes: &[u8]) {
        match self {
            Self::WithDigest(hasher) => hasher.add(offset, bytes),
            Self::WithoutDigest(summarizer) => _ = summarizer.add(offset, bytes),
        }
    }

    /// `None` if the file was not written in order, or has no header line.
    fn finish(self) -> Option<Known> {
        match self {
            Self::WithDigest(hasher) => {
                let FileDigest { sha256, xxh3, digest_from, bytes, lines, index } = hasher.finish()?;
                Some((FileSummary { xxh3, digest_from, bytes, lines, index }, Some(sha256)))
            }
            Self::WithoutDigest(summarizer) => Some((summarizer.finish()?, None)),
        }
    }
}

/// What is known of a file, with its digest unless the host computes it.
pub(crate) type Known = (FileSummary, Option<Digest>);

/// One of the handles that may be open at the same time, released when dropped.
pub(crate) type Permit = Rc<()>;

/// The directory of a call.
pub(crate) struct Directory<S: Storage> {
    pub(crate) storage: S,
    pub(crate) is_open: bool,
    /// Whether the digests of files are computed here.
    has_digests: bool,
    bounds: Bounds,
    files: BTreeMap<String, Shared<S>>,
    /// Bytes counted against the bound, gaps included.
    counted: u64,
    created: u32,
    /// Held once by this, and once by each open handle.
    permits: Permit,
    /// The first bound that was met, even if the policy took no note of it.
    exceeded: Option<String>,
}

impl<S: Storage> Default for Directory<S> {
    fn default() -> Self {
        Self::new(Bounds { written_bytes: 0, files: 0, open_files: 0, name_bytes: 0 })
    }
}

impl<S: Storage> Directory<S> {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self {
            storage: S::default(),
            is_open: false,
            has_digests: true,
            bounds,
            files: BTreeMap::new(),
            counted: 0,
            created: 0,
            permits: Rc::default(),
            exceeded: None,
        }
    }

    pub(crate) fn open(&mut self, has_digests: bool) -> Result<(), String> {
        self.has_digests = has_digests;
        self.storage.open()?;
        // The first file of the directory tells the host that the policy was asked to write.
        let manifest = self.storage.create(MANIFEST_NAME).map_err(|code| format!("{MANIFEST_NAME}: {code}"))?;
        drop(manifest);
        self.is_open = true;
        Ok(())
    }

    /// A permit for a handle.
    pub(crate) fn permit(&mut self) -> Result<Permit, ErrorCode> {
        if Rc::strong_count(&self.permits) > self.bounds.open_files as usize {
            let limit = self.bounds.open_files;
            return Err(self.refuse(format!("held more than {limit} files open at the same time (limit open-files)")));
        }
        Ok(Rc::clone(&self.permits))
    }

    fn refuse(&mut self, limit: String) -> ErrorCode {
        self.exceeded.get_or_insert(limit);
        ErrorCode::Quota
    }

    /// Checks the name of a new file: one without a meaning to a terminal, a shell or another system.
    pub(crate) fn check_new_name(&self, name: &str) -> Result<(), ErrorCode> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.len() > self.bounds.name_bytes as usize {
            return Err(ErrorCode::NameTooLong);
        }
        if name.is_empty() || name.starts_with('.') || name == MANIFEST_NAME || !name.bytes().all(allowed) {
            return Err(ErrorCode::NotPermitted);
        }
        Ok(())
    }

    /// Counts a file that may be created.
    pub(crate) fn count_file(&mut self) -> Result<(), ErrorCode> {
        if self.created >= self.bounds.files {
            return Err(self.refuse(format!("created more than {} files (limit files)", self.bounds.files)));
        }
        self.created += 1;
        Ok(())
    }

    pub(crate) fn create(&mut self, name: &str) -> Result<Shared<S>, ErrorCode> {
        let file = self.storage.create(name)?;
        let is_jsonl = name.ends_with(".jsonl");
        let open = Open { number: self.created, bytes: 0, file, hasher: self.hasher(is_jsonl), is_jsonl };
        let shared = Rc::new(RefCell::new(open));
        self.files.insert(name.to_owned(), Rc::clone(&shared));
        Ok(shared)
    }

    pub(crate) fn file(&self, name: &str) -> Option<&Shared<S>> {
        self.files.get(name)
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.files.keys()
    }

    pub(crate) fn write(&mut self, file: &Shared<S>, offset: u64, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        let file = &mut *file.borrow_mut();
        let length = bytes.len() as u64;
        let end = offset.saturating_add(length);
        // A gap counts too, because readers read the whole file.
        let counted = self.counted.saturating_add(length.max(end.saturating_sub(file.bytes)));
        if counted > self.bounds.written_bytes || end == u64::MAX {
            let limit = self.bounds.written_bytes;
            return Err(self.refuse(format!("wrote more than {limit} bytes (limit written-bytes)")));
        }
        self.counted = counted;
        while file.bytes < offset {
            let gap = (offset - file.bytes).min(BLOCK_BYTES);
            self.put(file, file.bytes, vec![0; usize::try_from(gap).unwrap_or_default()])?;
        }
        self.put(file, offset, bytes)
    }

    fn put(&mut self, file: &mut Open<S>, offset: u64, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        file.hasher.add(offset, &bytes);
        let end = offset + bytes.len() as u64;
        self.storage.write(&mut file.file, offset, bytes)?;
        file.bytes = file.bytes.max(end);
        Ok(())
    }

    pub(crate) fn read(&self, file: &Shared<S>, offset: u64, length: u64) -> Result<Vec<u8>, ErrorCode> {
        self.storage.read(&file.borrow().file, offset, length)
    }

    pub(crate) fn clear(&mut self, file: &Shared<S>) -> Result<(), ErrorCode> {
        let file = &mut *file.borrow_mut();
        self.storage.clear(&mut file.file)?;
        (file.bytes, file.hasher) = (0, self.hasher(file.is_jsonl));
        Ok(())
    }

    pub(crate) fn rename(&mut self, old: &str, new: &str) -> Result<(), ErrorCode> {
        if !self.files.contains_key(old) {
            return Err(ErrorCode::NoEntry);
        }
        self.storage.rename(old, new)?;
        if let Some(file) = self.files.remove(old) {
            self.files.insert(new.to_owned(), file);
        }
        Ok(())
    }

    pub(crate) fn remove(&mut self, name: &str) -> Result<(), ErrorCode> {
        if !self.files.contains_key(name) {
            return Err(ErrorCode::NoEntry);
        }
        self.storage.remove(name)?;
        self.files.remove(name);
        Ok(())
    }

    /// Takes the directory away from the policy; returns its files by name.
    pub(crate) fn close(&mut self) -> Result<Vec<(String, Known)>, CloseError> {
        self.is_open = false;
        if let Some(bound) = self.exceeded.take() {
            return Err(CloseError::Bound(bound));
        }
        let files: Vec<_> = self.files.iter().map(|(name, file)| (name.clone(), Rc::clone(file))).collect();
        let known = |(name, file): (String, _)| self.known(&name, &file).map(|known| (name, known));
        files.into_iter().map(known).collect::<Result<_, _>>().map_err(CloseError::Unreadable)
    }

    fn hasher(&self, is_jsonl: bool) -> Hasher {
        Hasher::new(is_jsonl, self.has_digests)
    }

    /// What is known of a file. One that was not written in order, or renamed to or from JSON lines, is read again.
    fn known(&self, name: &str, file: &Shared<S>) -> Result<Known, String> {
        let file = &mut *file.borrow_mut();
        let is_jsonl = name.ends_with(".jsonl");
        let hasher = std::mem::replace(&mut file.hasher, self.hasher(is_jsonl));
        let written = if file.is_jsonl == is_jsonl { hasher.finish() } else { None };
        let known = match written.filter(|(summary, _)| summary.bytes == file.bytes) {
            Some(known) => Some(known),
            None => self
                .read_again(file, is_jsonl)
                .map_err(|code| format!("wrote `{name}`, which cannot be read: {code}"))?,
        };
        known.ok_or_else(|| format!("wrote `{name}` without a header line"))
    }

    fn read_again(&self, file: &Open<S>, is_jsonl: bool) -> Result<Option<Known>, ErrorCode> {
        let (mut hasher, mut offset) = (self.hasher(is_jsonl), 0);
        while offset < file.bytes {
            let block = self.storage.read(&file.file, offset, BLOCK_BYTES)?;
            if block.is_empty() {
                return Err(ErrorCode::Io);
            }
            hasher.add(offset, &block);
            offset += block.len() as u64;
        }
        Ok(hasher.finish())
    }

    /// Adds a file of the adapter's.
    pub(crate) fn add(&mut self, name: &str, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        if name == MANIFEST_NAME {
            self.storage.remove(name)?;
        }
        let file = self.create(name)?;
        let mut open = file.borrow_mut();
        self.put(&mut open, 0, bytes)
    }

    /// Removes all files. A file that cannot be removed stays for the host, which removes the directory.
    pub(crate) fn discard(&mut self) {
        self.is_open = false;
        for name in std::mem::take(&mut self.files).into_keys() {
            let _ = self.storage.remove(&name);
        }
        let _ = self.storage.remove(MANIFEST_NAME);
    }
}
