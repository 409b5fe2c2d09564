//! The files that a policy writes during one call: limits and digests.
//!
//! A thread writes and hashes the blocks of a large output while the policy produces the next one. At most
//! [`BLOCKS_IN_FLIGHT`] blocks are queued. A failure is returned to the policy from its next operation, and in any case
//! to the host at the end of the call. If publishing will wait for the disk, the system begins to write large blocks to it
//! while the policy still writes.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use lro_contract::digest::{FileDigest, FileHasher};
use lro_system::files::{IGNORES_CASE, append_at, begin_write_back, write_all_at};
use parking_lot::Mutex;

use super::Limits;
use super::state::Clock;
use crate::ahead::{Ahead, Arrival};
use crate::faults::fail_point;

/// Maximum bytes of one read: 256 KiB, as much as a search looks at, which stays in a processor's own cache on the way. The
/// function of wasmtime-wasi stops at 64 KiB, and clears the memory first.
const READ_BYTES_MAX: u64 = 256 << 10;

/// Maximum number of blocks queued for the writing thread.
const BLOCKS_IN_FLIGHT: usize = 3;

/// Block size from which on a thread is used: below it, starting one costs more than the write.
const THREAD_FROM_BYTES: usize = 128 << 10;

/// An exceeded limit of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Quota {
    /// [`Limits::written_bytes`].
    #[error("wrote more than {0} bytes (limit written-bytes)")]
    WrittenBytes(u64),
    /// [`Limits::files`].
    #[error("created more than {0} files (limit files)")]
    Files(u32),
    /// [`Limits::open_files`].
    #[error("held more than {0} files open at the same time (limit open-files)")]
    OpenFiles(u32),
}

/// Why a write failed.
#[derive(Debug)]
pub(super) enum WriteError {
    /// A limit of the call.
    Quota(Quota),
    /// The call ran out of time while waiting for the disk.
    Deadline,
    /// An error of the operating system.
    Io(io::Error),
}

/// What a policy has done to its files.
pub(crate) enum Change<'a> {
    /// These bytes of the file that was opened by this name are in it.
    Written { name: &'a str, offset: u64, bytes: u64 },
    /// A file was renamed, removed, or truncated.
    Replaced,
}

/// Learns of each change, in the order of writes.
pub(crate) type Watch = Arc<dyn Fn(Change<'_>) + Send + Sync>;

/// Number of a file of the call, in the order of opening. Names and handles can be reused; numbers cannot.
type FileNumber = u32;

/// One of [`Limits::open_files`] permits, released when dropped.
pub(super) struct OpenPermit {
    _counted: Arc<()>,
}

/// An open file, shared by its descriptor and all streams of it. Writes through any of them count here, and the file
/// counts as open until the last of them is dropped.
pub(super) struct OpenFile {
    number: FileNumber,
    name: Arc<str>,
    pub(super) file: Arc<File>,
    /// What another thread reads ahead of it.
    ahead: Mutex<Option<Ahead>>,
    /// How much of it another thread has written.
    arrival: Option<Arrival>,
    _permit: OpenPermit,
}

impl OpenFile {
    /// Reads up to so many bytes at an offset; none only at the end.
    pub(super) fn read(&self, offset: u64, bytes_max: u64, clock: &Clock) -> io::Result<Vec<u8>> {
        let mut ahead = self.ahead.lock();
        let given = ahead.as_mut().and_then(|ahead| ahead.take(offset, bytes_max));
        if let Some(block) = given {
            return Ok(block);
        }
        *ahead = None;
        let bytes_max = bytes_max.min(READ_BYTES_MAX);
        let arrived = self.arrival.as_ref().map(|arrival| clock.waiting(|| arrival.wait_behind(offset, bytes_max)));
        let bytes_max = bytes_max.min(arrived.unwrap_or(u64::MAX));
        let mut bytes = Vec::with_capacity(usize::try_from(bytes_max).unwrap_or_default());
        if bytes.capacity() > 0 {
            append_at(&self.file, offset, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Identifies the file within the call.
    pub(super) const fn number(&self) -> FileNumber {
        self.number
    }
}

/// A block to be written.
struct Block {
    number: FileNumber,
    name: Arc<str>,
    file: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
}

/// Writes blocks and computes digests.
#[derive(Default)]
struct Sink {
    hashers: BTreeMap<FileNumber, FileHasher>,
    watch: Option<Watch>,
    writes_back: bool,
}

impl Sink {
    fn write(&mut self, block: &Block) -> io::Result<()> {
        write_all_at(&block.file, block.offset, &block.bytes)?;
        if let Some(watch) = &self.watch {
            watch(Change::Written { name: &block.name, offset: block.offset, bytes: block.bytes.len() as u64 });
        }
        let hasher = self.hashers.entry(block.number);
        hasher.or_insert_with(|| FileHasher::new(block.name.ends_with(".jsonl"))).add(block.offset, &block.bytes);
        // A small block is not worth a call, and the beginning of a file is often written again.
        if self.writes_back && block.bytes.len() >= THREAD_FROM_BYTES {
            begin_write_back(&block.file, block.offset, block.bytes.len() as u64);
        }
        Ok(())
    }
}

/// Writes blocks inline or on a thread.
enum Writer {
    Inline(Sink),
    Thread { blocks: Option<Sender<Block>>, written: Receiver<io::Result<()>>, free: usize, sink: JoinHandle<Sink> },
}

/// The output of one call.
pub(super) struct Output {
    writer: Writer,
    deadline: Instant,
    limits: Limits,
    /// Bytes counted against the limit, including gaps.
    counted: u64,
    created: u32,
    /// Reference count of open files, directories and listings.
    open_count: Arc<()>,
    /// End of each file.
    ends: BTreeMap<FileNumber, u64>,
    /// Files by current name, as [`key`] has it.
    names: BTreeMap<String, FileNumber>,
    /// Files truncated after they were first opened.
    truncated: BTreeSet<FileNumber>,
    watch: Option<Watch>,
    opened: FileNumber,
    failed: Option<io::Error>,
    /// The first limit exceeded, even if the policy ignored the error.
    pub(super) exceeded: Option<Quota>,
    pub(super) bytes: u64,
}

impl Output {
    /// Creates the output of a call; with `writes_back`, the system writes large blocks to the disk while the policy writes.
    pub(super) fn new(limits: &Limits, deadline: Instant, writes_back: bool) -> Self {
        Self {
            writer: Writer::Inline(Sink { writes_back, ..Sink::default() }),
            deadline,
            limits: limits.clone(),
            counted: 0,
            created: 0,
            open_count: Arc::default(),
            ends: BTreeMap::new(),
            names: BTreeMap::new(),
            truncated: BTreeSet::new(),
            watch: None,
            opened: 0,
            failed: None,
            exceeded: None,
            bytes: 0,
        }
    }

    /// Has all changes watched. Nothing is written yet.
    pub(super) fn watch(&mut self, watch: Watch) {
        if let Writer::Inline(sink) = &mut self.writer {
            sink.watch = Some(Arc::clone(&watch));
        }
        self.watch = Some(watch);
    }

    fn replaced(&self) {
        if let Some(watch) = &self.watch {
            watch(Change::Replaced);
        }
    }

    /// Maximum length of the name of a new file, in bytes.
    pub(super) fn name_bytes(&self) -> usize {
        self.limits.name_bytes
    }

    /// Counts a file about to be created.
    pub(super) fn create(&mut self) -> Result<(), WriteError> {
        if self.created >= self.limits.files {
            return Err(WriteError::Quota(self.refuse(Quota::Files(self.limits.files))));
        }
        self.created += 1;
        Ok(())
    }

    /// Takes a permit for a file or listing about to be opened. Files kept open by pending writes are not counted: no
    /// blocks are queued when something is opened.
    pub(super) fn take_open_permit(&mut self) -> Result<OpenPermit, Quota> {
        // `open_count` itself holds one reference.
        if Arc::strong_count(&self.open_count) > self.limits.open_files as usize {
            return Err(self.refuse(Quota::OpenFiles(self.limits.open_files)));
        }
        Ok(OpenPermit { _counted: Arc::clone(&self.open_count) })
    }

    /// Registers a file that was opened by this name.
    pub(super) fn opened(
        &mut self,
        permit: OpenPermit,
        file: Arc<File>,
        (ahead, arrival): (Option<Ahead>, Option<Arrival>),
        name: &str,
        truncated: bool,
    ) -> OpenFile {
        let number = match self.names.get(&key(name)) {
            Some(number) => {
                if truncated {
                    self.truncated.insert(*number);
                    self.replaced();
                }
                *number
            }
            None => {
                self.opened += 1;
                self.names.insert(key(name), self.opened);
                self.opened
            }
        };
        OpenFile { number, name: name.into(), file, ahead: Mutex::new(ahead), arrival, _permit: permit }
    }

    pub(super) fn renamed(&mut self, old: &str, new: &str) {
        self.replaced();
        match self.names.remove(&key(old)) {
            Some(number) => self.names.insert(key(new), number),
            None => self.names.remove(&key(new)),
        };
    }

    pub(super) fn removed(&mut self, name: &str) {
        self.replaced();
        self.names.remove(&key(name));
    }

    /// Number of the file of this name; 0 if it was not opened in this call.
    pub(super) fn number_of_name(&self, name: &str) -> FileNumber {
        self.names.get(&key(name)).copied().unwrap_or_default()
    }

    /// Writes a block of a file, or queues it.
    pub(super) fn write(&mut self, to: &OpenFile, offset: u64, bytes: Vec<u8>) -> Result<u64, WriteError> {
        let length = bytes.len() as u64;
        self.count(to.number, offset, length)?;
        let (name, file) = (Arc::clone(&to.name), Arc::clone(&to.file));
        let block = Block { number: to.number, name, file, offset, bytes };
        if matches!(self.writer, Writer::Inline(_)) && block.bytes.len() >= THREAD_FROM_BYTES {
            self.start_thread().map_err(WriteError::Io)?;
        }
        match &mut self.writer {
            Writer::Inline(sink) => sink.write(&block).map_err(WriteError::Io)?,
            Writer::Thread { .. } => self.hand_over(block)?,
        }
        Ok(length)
    }

    /// Counts a write. A gap before it counts too, because readers read the whole file.
    fn count(&mut self, number: FileNumber, offset: u64, length: u64) -> Result<(), WriteError> {
        let reached = self.ends.entry(number).or_default();
        let end = offset.saturating_add(length);
        let counted = self.counted.saturating_add(length.max(end.saturating_sub(*reached)));
        if counted > self.limits.written_bytes || end == u64::MAX {
            return Err(WriteError::Quota(self.refuse(Quota::WrittenBytes(self.limits.written_bytes))));
        }
        *reached = end.max(*reached);
        self.counted = counted;
        self.bytes += length;
        Ok(())
    }

    fn refuse(&mut self, quota: Quota) -> Quota {
        *self.exceeded.get_or_insert(quota)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let Writer::Inline(sink) = &mut self.writer else { return Ok(()) };
        let mut sink = std::mem::take(sink);
        let (blocks, incoming) = mpsc::channel::<Block>();
        let (done, written) = mpsc::channel();
        let sink = thread::Builder::new().name("lro-write".into()).spawn(move || {
            for block in incoming {
                fail_point!("sandbox::write-thread");
                let result = sink.write(&block);
                // Its file closes before the policy goes on, which may remove it then: Windows removes no open file.
                drop(block);
                if done.send(result).is_err() {
                    break;
                }
            }
            sink
        })?;
        self.writer = Writer::Thread { blocks: Some(blocks), written, free: BLOCKS_IN_FLIGHT, sink };
        Ok(())
    }

    fn hand_over(&mut self, block: Block) -> Result<(), WriteError> {
        self.wait_until_free(1)?;
        if let Writer::Thread { blocks: Some(blocks), free, .. } = &mut self.writer {
            *free -= 1;
            // Fails only if the thread ended, which `wait_until_free` reports.
            let _ = blocks.send(block);
        }
        Ok(())
    }

    /// Waits until all blocks are written, and returns the first failure.
    pub(super) fn drain(&mut self) -> Result<(), WriteError> {
        self.wait_until_free(BLOCKS_IN_FLIGHT)
    }

    fn wait_until_free(&mut self, wanted: usize) -> Result<(), WriteError> {
        if let Writer::Thread { written, free, .. } = &mut self.writer {
            while *free < wanted {
                match written.recv_timeout(self.deadline.saturating_duration_since(Instant::now())) {
                    Ok(Ok(())) => *free += 1,
                    Ok(Err(error)) => {
                        *free += 1;
                        self.failed.get_or_insert(error);
                    }
                    Err(RecvTimeoutError::Timeout) => return Err(WriteError::Deadline),
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(WriteError::Io(io::Error::other("the writing thread ended")));
                    }
                }
            }
        }
        match &self.failed {
            Some(error) => Err(WriteError::Io(clone_error(error))),
            None => Ok(()),
        }
    }

    /// Completes the output. Returns the known digests by file name.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, FileDigest>, WriteError> {
        self.drain()?;
        fail_point!("sandbox::finish", WriteError::Io);
        let mut sink = match self.writer {
            Writer::Inline(sink) => sink,
            Writer::Thread { blocks, sink, .. } => {
                drop(blocks);
                sink.join().map_err(|_| WriteError::Io(io::Error::other("the writing thread panicked")))?
            }
        };
        sink.hashers.retain(|number, _| !self.truncated.contains(number));
        let known = |(name, number)| Some((name, sink.hashers.remove(&number)?.finish()?));
        Ok(self.names.into_iter().filter_map(known).collect())
    }
}

/// What is the same for all names of a file. Where that is not the name, a digest may not be found, and is computed again.
fn key(name: &str) -> String {
    if IGNORES_CASE { name.to_lowercase() } else { name.to_owned() }
}

fn clone_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}
