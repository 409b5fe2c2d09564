//! Collects one message: in memory, and past a limit in a file.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use memmap2::Mmap;

use super::{Place, Pool};

/// Default of [`MessageLimits::memory_bytes`]: 4 MiB.
pub const MEMORY_BYTES_DEFAULT: usize = 4 << 20;

/// Default of [`MessageLimits::message_bytes`]: 1 GiB.
pub const MESSAGE_BYTES_DEFAULT: u64 = 1 << 30;

/// Default of [`MessageLimits::disk`]: 4 GiB.
pub const DISK_BYTES_DEFAULT: u64 = 4 << 30;

/// Once there is a file, shorter pieces than this are put together before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// Bytes of a message that need no part of a [`Share`].
const FREE_BYTES: usize = 64 << 10;

/// Memory for messages, and who takes of it.
#[derive(Clone, Debug)]
pub struct Share {
    /// Bytes of memory that several share.
    pub pool: Arc<Pool<String>>,
    /// One of them.
    pub holder: String,
}

impl Default for Share {
    /// As much as there is.
    fn default() -> Self {
        Self { pool: Pool::new(u64::MAX), holder: String::new() }
    }
}

impl Share {
    /// Takes memory, if there is some left.
    pub fn take(&self, bytes: usize) -> Option<Place<String>> {
        self.pool.take(&self.holder, bytes as u64)
    }
}

/// How large messages may be, and where large ones are kept.
#[derive(Clone, Debug)]
pub struct MessageLimits {
    /// Bytes of one message that are kept in memory. A longer one is moved to a file.
    pub memory_bytes: usize,
    /// Bytes of one message. A longer one is refused.
    pub message_bytes: u64,
    /// Bytes of all messages in files at the same time. One that needs more is refused.
    pub disk: DiskBudget,
    /// Where the files are made, by default the system's directory for temporary files. They have no names there and
    /// vanish with the message, also when the process is killed. The directory is made when it is missing, with mode 0700.
    pub directory: PathBuf,
    /// What the memory is taken of, for as long as a message lasts. When there is none left, a message of more than 64 KiB is
    /// moved to a file. By default only the size of a message counts.
    pub share: Share,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            message_bytes: MESSAGE_BYTES_DEFAULT,
            disk: DiskBudget::new(DISK_BYTES_DEFAULT),
            directory: std::env::temp_dir(),
            share: Share::default(),
        }
    }
}

/// Bytes of files that messages share. A clone shares them with its original.
#[derive(Clone, Debug)]
pub struct DiskBudget {
    bytes_max: u64,
    used: Arc<AtomicU64>,
}

impl DiskBudget {
    /// So many bytes, of which nothing is used.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, used: Arc::default() }
    }

    /// As many bytes as these, and not the same ones.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.bytes_max)
    }
}

/// What the file of one message has of a budget. Dropped, it gives everything back.
#[derive(Debug)]
struct OnDisk {
    budget: DiskBudget,
    bytes: u64,
}

impl OnDisk {
    /// Takes more, if there is as much.
    fn grow(&mut self, bytes: u64) -> Result<(), SpoolError> {
        let limit = self.budget.bytes_max;
        let more = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let grown = self.budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        grown.map_err(|_| SpoolError::Full { limit })?;
        self.bytes += bytes;
        Ok(())
    }
}

impl Drop for OnDisk {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Why a message could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The message is longer than [`MessageLimits::message_bytes`].
    #[error("the message has more than {limit} bytes; it would need a higher limit `gateway.message-bytes`")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// With this message, [`MessageLimits::disk`] would be exceeded.
    #[error(
        "messages in files would have more than {limit} bytes together; call again when others have ended, or raise the limit \
         `gateway.message-disk`"
    )]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The file could not be made, written or mapped.
    // Clients read this: where the directory lies does not concern them.
    #[error(
        "the message could not be kept in a file: {error}; it would need room in the directory `dir` of the gateway, which \
         must be one that it can write to"
    )]
    Io {
        /// [`MessageLimits::directory`].
        directory: PathBuf,
        /// The answer of the system. It is part of the text, so it is not the source.
        error: io::Error,
    },
}

/// Memory that a message takes of a [`Share`].
#[derive(Debug, Default)]
struct Taken {
    bytes: usize,
    places: Vec<Place<String>>,
}

/// A message in memory, with the places that it takes.
struct Kept {
    message: Bytes,
    _taken: Taken,
}

impl AsRef<[u8]> for Kept {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl Taken {
    /// Tells whether a message may take so much memory. Each time it takes twice as much, so that it does so seldom.
    fn grow(&mut self, bytes: usize, limits: &MessageLimits) -> bool {
        if bytes <= self.bytes.max(FREE_BYTES) {
            return true;
        }
        let more = bytes.max(2 * self.bytes).min(limits.memory_bytes.max(bytes)) - self.bytes;
        let Some(place) = limits.share.take(more) else { return false };
        self.bytes += more;
        self.places.push(place);
        true
    }
}

/// Collects the bytes of one message.
///
/// It holds at most [`MessageLimits::memory_bytes`] in memory, or 64 KiB once there is a file.
#[derive(Debug)]
pub struct Spool {
    limits: Arc<MessageLimits>,
    /// The last bytes, or all of them while there is no file.
    memory: BytesMut,
    /// Memory taken for them.
    taken: Taken,
    file: Option<File>,
    on_disk: OnDisk,
    bytes: u64,
}

/// A message in a file, which has its share of the budget as long as it exists.
struct Mapped {
    map: Mmap,
    _on_disk: OnDisk,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Spool {
    /// An empty message. Allocates nothing.
    pub fn new(limits: Arc<MessageLimits>) -> Self {
        let on_disk = OnDisk { budget: limits.disk.clone(), bytes: 0 };
        Self { limits, memory: BytesMut::new(), taken: Taken::default(), file: None, on_disk, bytes: 0 }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the message grows past its limit, or that of all in files, or its file cannot be written. It is of no more use
    /// then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limits.message_bytes {
            return Err(SpoolError::TooLarge { limit: self.limits.message_bytes });
        }
        let room = if self.file.is_some() { WRITE_BYTES } else { self.limits.memory_bytes };
        let is_full = bytes.len() > room.saturating_sub(self.memory.len());
        if is_full || !self.taken.grow(self.memory.len() + bytes.len(), &self.limits) {
            return self.write(bytes);
        }
        self.memory.extend_from_slice(bytes);
        Ok(())
    }

    /// Bytes so far.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether there are no bytes so far.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// The message as one piece: memory, or a map of the file. The file lasts as long as the bytes and their clones.
    ///
    /// # Errors
    /// When the file cannot be written or mapped.
    pub fn finish(mut self) -> Result<Bytes, SpoolError> {
        if self.file.is_none() {
            let message = self.memory.freeze();
            let is_free = self.taken.places.is_empty();
            return Ok(if is_free { message } else { Bytes::from_owner(Kept { message, _taken: self.taken }) });
        }
        self.write(&[])?;
        let Some(file) = self.file.take() else { return Ok(Bytes::new()) };
        let map = map(file).map_err(|error| self.failed(error))?;
        Ok(Bytes::from_owner(Mapped { map, _on_disk: self.on_disk }))
    }

    /// Writes what is in memory, and `bytes` after it unless they are few.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let (now, later) = if bytes.len() < WRITE_BYTES { (&[][..], bytes) } else { (bytes, &[][..]) };
        self.on_disk.grow((self.memory.len() + now.len()) as u64)?;
        self.write_out(now).map_err(|error| self.failed(error))?;
        self.memory.extend_from_slice(later);
        Ok(())
    }

    /// Writes what is in memory, which is empty then, and `bytes` after it.
    fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(nameless_file(&self.limits.directory)?),
        };
        file.write_all(&self.memory)?;
        self.taken = Taken::default();
        if self.memory.capacity() > WRITE_BYTES {
            self.memory = BytesMut::new();
        } else {
            self.memory.clear();
        }
        file.write_all(bytes)
    }

    fn failed(&self, error: io::Error) -> SpoolError {
        SpoolError::Io { directory: self.limits.directory.clone(), error }
    }
}

fn nameless_file(directory: &Path) -> io::Result<File> {
    match tempfile::tempfile_in(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
            tempfile::tempfile_in(directory)
        }
        result => result,
    }
}

#[expect(unsafe_code, reason = "a large message must not take up memory that only swapping frees")]
fn map(file: File) -> io::Result<Mmap> {
    // SAFETY: the file has no name and was opened by this process alone, and its only handle is dropped here, after the
    // last write. So nothing can change or shorten it under the map.
    unsafe { Mmap::map(&file) }
}
