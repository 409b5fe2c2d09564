//! Collects one message: in memory, and past a limit in a file.

use std::fs::{DirBuilder, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memmap2::Mmap;

/// Default of [`MessageLimits::memory_bytes`]: 4 MiB.
pub const MEMORY_BYTES_DEFAULT: usize = 4 << 20;

/// Default of [`MessageLimits::message_bytes`]: 1 GiB.
pub const MESSAGE_BYTES_DEFAULT: u64 = 1 << 30;

/// Once there is a file, shorter pieces than this are put together before they are written.
const WRITE_BYTES: usize = 64 << 10;

/// How large messages may be, and where large ones are kept.
#[derive(Clone, Debug)]
pub struct MessageLimits {
    /// Bytes of one message that are kept in memory. A longer one is moved to a file.
    pub memory_bytes: usize,
    /// Bytes of one message. A longer one is refused.
    pub message_bytes: u64,
    /// Where the files are made, by default the system's directory for temporary files. They have no names there and
    /// vanish with the message, also when the process is killed. The directory is made when it is missing, with mode 0700.
    pub directory: PathBuf,
}

impl Default for MessageLimits {
    fn default() -> Self {
        Self {
            memory_bytes: MEMORY_BYTES_DEFAULT,
            message_bytes: MESSAGE_BYTES_DEFAULT,
            directory: std::env::temp_dir(),
        }
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
    /// The file could not be made, written or mapped.
    #[error(
        "the message could not be kept in a file in {}: {error}; it would need a directory with room that can be written",
        directory.display()
    )]
    Io {
        /// [`MessageLimits::directory`].
        directory: PathBuf,
        /// The answer of the system. It is part of the text, so it is not the source.
        error: io::Error,
    },
}

/// Collects the bytes of one message.
///
/// It holds at most [`MessageLimits::memory_bytes`] in memory, or 64 KiB once there is a file.
#[derive(Debug)]
pub struct Spool {
    limits: Arc<MessageLimits>,
    /// The last bytes, or all of them while there is no file.
    memory: BytesMut,
    file: Option<File>,
    bytes: u64,
}

impl Spool {
    /// An empty message. Allocates nothing.
    pub fn new(limits: Arc<MessageLimits>) -> Self {
        Self { limits, memory: BytesMut::new(), file: None, bytes: 0 }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the message grows past its limit or its file cannot be written. It is of no more use then.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        if self.bytes > self.limits.message_bytes {
            return Err(SpoolError::TooLarge { limit: self.limits.message_bytes });
        }
        let room = if self.file.is_some() { WRITE_BYTES } else { self.limits.memory_bytes };
        if bytes.len() > room.saturating_sub(self.memory.len()) {
            return self.write(bytes).map_err(|error| self.failed(error));
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
            return Ok(self.memory.freeze());
        }
        self.write(&[]).and_then(|()| map(self.file.take())).map_err(|error| self.failed(error))
    }

    /// Writes what is in memory, and `bytes` after it.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            None => self.file.insert(nameless_file(&self.limits.directory)?),
        };
        file.write_all(&self.memory)?;
        if self.memory.capacity() > WRITE_BYTES {
            self.memory = BytesMut::new();
        } else {
            self.memory.clear();
        }
        if bytes.len() < WRITE_BYTES {
            self.memory.extend_from_slice(bytes);
            return Ok(());
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

fn map(file: Option<File>) -> io::Result<Bytes> {
    let Some(file) = file else { return Ok(Bytes::new()) };
    // SAFETY: the file has no name and was opened by this process alone, and its only handle is dropped here, after the
    // last write. So nothing can change or shorten it under the map.
    #[expect(unsafe_code, reason = "a large message must not take up memory that only swapping frees")]
    let map = unsafe { Mmap::map(&file)? };
    Ok(Bytes::from_owner(map))
}
