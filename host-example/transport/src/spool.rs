//! Collects one message, in memory or, past a limit, in a file.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use lro_http::Buffer;
use lro_system::files::private_directories;
use memmap2::Mmap;

use super::{Permit, Pool};

/// Default of [`MessageLimits::memory_bytes`]: 4 MiB.
pub const MEMORY_BYTES_DEFAULT: usize = 4 << 20;

/// Default of [`MessageLimits::message_bytes`]: 1 GiB.
pub const MESSAGE_BYTES_DEFAULT: u64 = 1 << 30;

/// Default of [`MessageLimits::disk`]: 4 GiB.
pub const DISK_BYTES_DEFAULT: u64 = 4 << 30;

/// Shorter pieces than this are buffered before they are written to a file.
const WRITE_BYTES: usize = 64 << 10;

/// Size up to which a message takes nothing from its [`Share`].
const FREE_BYTES: usize = 64 << 10;

/// A holder's share of a memory pool for messages.
#[derive(Clone, Debug)]
pub struct Share {
    /// Pool of bytes of memory.
    pub pool: Arc<Pool<String>>,
    /// The holder.
    pub holder: String,
}

impl Default for Share {
    /// Unlimited.
    fn default() -> Self {
        Self { pool: Pool::new(u64::MAX), holder: String::new() }
    }
}

impl Share {
    /// Takes memory, if available.
    pub fn take(&self, bytes: usize) -> Option<Permit<String>> {
        self.pool.take(&self.holder, bytes as u64)
    }
}

/// Size limits of messages, and where large ones are stored.
#[derive(Clone, Debug)]
pub struct MessageLimits {
    /// Maximum bytes of one message in memory. A longer one is moved to a file.
    pub memory_bytes: usize,
    /// Maximum bytes of one message. A longer one is rejected.
    pub message_bytes: u64,
    /// Maximum bytes of all messages in files at the same time. A message that exceeds it is rejected.
    pub disk: DiskBudget,
    /// Directory of the files. Default: the system's directory for temporary files. The files are anonymous and vanish
    /// with the message, also if the process is killed. The directory is created with mode 0700 if it is missing.
    pub directory: PathBuf,
    /// What the memory of a message is taken from, for its lifetime. If none is left, a message of more than
    /// 64 KiB is moved to a file. Default: unlimited.
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

/// Budget of bytes in files. Clones share it.
#[derive(Clone, Debug)]
pub struct DiskBudget {
    bytes_max: u64,
    used: Arc<AtomicU64>,
}

impl DiskBudget {
    /// Creates an unused budget.
    pub fn new(bytes_max: u64) -> Self {
        Self { bytes_max, used: Arc::default() }
    }

    /// Creates an independent budget of the same size.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.bytes_max)
    }
}

/// Budget used by the file of one message, released when dropped.
#[derive(Debug)]
struct OnDisk {
    budget: DiskBudget,
    bytes: u64,
}

impl OnDisk {
    /// Takes more bytes, if available.
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

/// Why a message could not be stored.
#[derive(Debug, thiserror::Error)]
pub enum SpoolError {
    /// The message is longer than [`MessageLimits::message_bytes`].
    #[error("the message has more than {limit} bytes: raise the limit `gateway.message-bytes`")]
    TooLarge {
        /// The limit.
        limit: u64,
    },
    /// This message would exceed [`MessageLimits::disk`].
    #[error(
        "messages in files would exceed {limit} bytes in total: call again when others have ended, or raise the limit \
        `gateway.message-disk`"
    )]
    Full {
        /// The limit.
        limit: u64,
    },
    /// The file could not be created, written or mapped.
    // Clients read this message, so it does not include the path.
    #[error(
        "the message could not be stored in a file: {error}: make room in the directory `dir` of the gateway, and check that \
        the gateway can write to it"
    )]
    Io {
        /// [`MessageLimits::directory`].
        directory: PathBuf,
        /// The error of the system. It is part of the message, so it is not the source.
        error: io::Error,
    },
}

/// Memory that a message has taken from a [`Share`].
#[derive(Debug, Default)]
struct MemoryPermits {
    bytes: usize,
    permits: Vec<Permit<String>>,
}

/// A message in memory, with its permits.
struct InMemory {
    message: Bytes,
    _permits: MemoryPermits,
}

impl AsRef<[u8]> for InMemory {
    fn as_ref(&self) -> &[u8] {
        &self.message
    }
}

impl MemoryPermits {
    /// Takes memory for a message. Returns false if none is left. The amount doubles each time, so that this is rare.
    fn grow(&mut self, bytes: usize, limits: &MessageLimits) -> bool {
        if bytes <= self.bytes.max(FREE_BYTES) {
            return true;
        }
        let more = bytes.max(2 * self.bytes).min(limits.memory_bytes.max(bytes)) - self.bytes;
        let Some(permit) = limits.share.take(more) else { return false };
        self.bytes += more;
        self.permits.push(permit);
        true
    }
}

/// Collects the bytes of one message.
///
/// Holds at most [`MessageLimits::memory_bytes`] in memory, or 64 KiB once it uses a file.
#[derive(Debug)]
pub struct Spool {
    limits: Arc<MessageLimits>,
    /// The unwritten bytes, or all bytes if there is no file.
    memory: BytesMut,
    /// Permits for that memory.
    memory_permits: MemoryPermits,
    file: Option<File>,
    on_disk: OnDisk,
    bytes: u64,
}

/// A message in a file, with its share of the budget.
struct Mapped {
    map: Mmap,
    /// Windows removes the file when it is closed, unless it is still mapped.
    #[cfg(windows)]
    _file: File,
    _on_disk: OnDisk,
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        &self.map
    }
}

impl Buffer for Spool {
    type Limits = Arc<MessageLimits>;
    type Error = SpoolError;

    fn new(limits: &Self::Limits) -> Self {
        Self::new(Arc::clone(limits))
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.push(bytes)
    }

    fn is_empty(&self) -> bool {
        self.is_empty()
    }

    fn finish(self) -> Result<Bytes, SpoolError> {
        self.finish()
    }
}

impl Spool {
    /// Creates an empty message. Does not allocate.
    pub fn new(limits: Arc<MessageLimits>) -> Self {
        let on_disk = OnDisk { budget: limits.disk.clone(), bytes: 0 };
        Self {
            limits,
            memory: BytesMut::new(),
            memory_permits: MemoryPermits::default(),
            file: None,
            on_disk,
            bytes: 0,
        }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the message exceeds its limit, or all messages in files exceed theirs, or the file cannot be written. The
    /// spool must not be used any more then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limits.message_bytes {
            return Err(SpoolError::TooLarge { limit: self.limits.message_bytes });
        }
        let room = if self.file.is_some() { WRITE_BYTES } else { self.limits.memory_bytes };
        let is_full = bytes.len() > room.saturating_sub(self.memory.len());
        if is_full || !self.memory_permits.grow(self.memory.len() + bytes.len(), &self.limits) {
            return self.write(bytes);
        }
        self.memory.extend_from_slice(bytes);
        Ok(())
    }

    /// Size so far, in bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Whether the message is empty so far.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Returns the message: in memory, or as a map of the file, which exists as long as the returned bytes and their
    /// clones.
    ///
    /// # Errors
    /// When the file cannot be written or mapped.
    pub fn finish(mut self) -> Result<Bytes, SpoolError> {
        if self.file.is_none() {
            let message = self.memory.freeze();
            let is_free = self.memory_permits.permits.is_empty();
            return Ok(if is_free {
                message
            } else {
                Bytes::from_owner(InMemory { message, _permits: self.memory_permits })
            });
        }
        self.write(&[])?;
        let Some(file) = self.file.take() else { return Ok(Bytes::new()) };
        let map = map(&file).map_err(|error| self.failed(error))?;
        Ok(Bytes::from_owner(Mapped {
            map,
            #[cfg(windows)]
            _file: file,
            _on_disk: self.on_disk,
        }))
    }

    /// Writes the buffer to the file, and then `bytes`, or buffers them if they are few.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let (now, later) = if bytes.len() < WRITE_BYTES { (&[][..], bytes) } else { (bytes, &[][..]) };
        self.on_disk.grow((self.memory.len() + now.len()) as u64)?;
        self.write_out(now).map_err(|error| self.failed(error))?;
        self.memory.extend_from_slice(later);
        Ok(())
    }

    /// Writes and clears the buffer, then writes `bytes`.
    fn write_out(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(anonymous_file(&self.limits.directory)?),
        };
        file.write_all(&self.memory)?;
        self.memory_permits = MemoryPermits::default();
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

fn anonymous_file(directory: &Path) -> io::Result<File> {
    match tempfile::tempfile_in(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            private_directories().recursive(true).create(directory)?;
            tempfile::tempfile_in(directory)
        }
        result => result,
    }
}

#[expect(unsafe_code, reason = "a large message must not occupy memory that only swapping can free")]
fn map(file: &File) -> io::Result<Mmap> {
    // SAFETY: the file is anonymous and only this process has opened it, and nothing is written through its only handle any
    // more. So nothing can change or shorten it under the map.
    unsafe { Mmap::map(file) }
}
