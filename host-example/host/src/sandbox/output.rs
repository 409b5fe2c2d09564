//! The files a policy writes during one call: how much, how many, and what their digests are.
//!
//! Blocks of a large output are written and hashed by a thread of the call's own while the policy goes on with the
//! next one. At most [`BLOCKS_IN_FLIGHT`] blocks wait; a failure is told to the policy at its next call and to the host at
//! the end of the call in any case. Where publishing will wait for the disk, the disk begins while the policy still writes.

use super::Limits;
use crate::digest::{FileDigest, FileHasher};
use crate::faults::fail_point;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Instant;

/// Blocks handed to the writing thread and not yet written.
const BLOCKS_IN_FLIGHT: usize = 3;

/// From this many bytes on a thread pays: below it, starting one costs more than the write.
const THREAD_FROM_BYTES: usize = 128 << 10;

/// Bytes after which a file that is being written is sent to the disk, unless the last such step still runs.
const WRITE_BACK_BYTES: usize = 8 << 20;

/// Which limit of the file system was met.
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

/// Why a write was refused or failed.
#[derive(Debug)]
pub(super) enum WriteError {
    /// A limit of the call.
    Quota(Quota),
    /// The call ran out of time while waiting for the disk.
    Deadline,
    /// The operating system's answer.
    Io(io::Error),
}

/// Number of a file of the call, in the order of opening. Names and handles change hands; numbers do not.
type FileNumber = u32;

/// One of [`Limits::open_files`]. Dropping it gives the place back.
pub(super) struct Held {
    _counted: Arc<()>,
}

/// A file that is open, for the descriptor it was opened with and for every stream made of that: what is written through
/// any of them is accounted here, and the file is open, and counted, until the last of them is gone.
pub(super) struct OpenFile {
    number: FileNumber,
    is_jsonl: bool,
    pub(super) file: Arc<File>,
    _held: Held,
}

impl OpenFile {
    /// Tells it from the other files of the call.
    pub(super) const fn number(&self) -> FileNumber {
        self.number
    }
}

/// A block on its way to the disk.
struct Block {
    number: FileNumber,
    is_jsonl: bool,
    file: Arc<File>,
    offset: u64,
    bytes: Vec<u8>,
}

/// Writes blocks and keeps the digests.
#[derive(Default)]
struct Sink {
    hashers: BTreeMap<FileNumber, FileHasher>,
    writes_back: bool,
    /// Bytes since the disk was last given something to do.
    kept_back: usize,
    writing_back: Option<JoinHandle<io::Result<()>>>,
}

impl Sink {
    fn write(&mut self, block: &Block) -> io::Result<()> {
        block.file.write_all_at(&block.bytes, block.offset)?;
        let hasher = self.hashers.entry(block.number).or_insert_with(|| FileHasher::new(block.is_jsonl));
        hasher.add(block.offset, &block.bytes);
        self.kept_back += block.bytes.len();
        if self.writes_back && self.kept_back >= WRITE_BACK_BYTES { self.write_back(&block.file) } else { Ok(()) }
    }

    /// Lets the disk have the file so far, on a thread that waits for it.
    fn write_back(&mut self, file: &Arc<File>) -> io::Result<()> {
        if self.writing_back.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.settle()?;
        self.kept_back = 0;
        let file = Arc::clone(file);
        // Without a thread, publishing waits for all of it.
        self.writing_back = thread::Builder::new().name("lro-sync".into()).spawn(move || file.sync_data()).ok();
        Ok(())
    }

    /// Waits for the disk. The system tells a failure once, so it must not get lost.
    fn settle(&mut self) -> io::Result<()> {
        let Some(thread) = self.writing_back.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that waits for the disk panicked")))
    }
}

/// Where the sink runs.
enum Place {
    Here(Sink),
    Thread { blocks: Option<Sender<Block>>, written: Receiver<io::Result<()>>, free: usize, sink: JoinHandle<Sink> },
}

/// The output of one call.
pub(super) struct Output {
    place: Place,
    deadline: Instant,
    limits: Limits,
    /// Bytes counted against the limit: written, or left out before what was written.
    counted: u64,
    created: u32,
    /// Shared with everything that is open: files, directories and listings.
    held: Arc<()>,
    /// How far each file reached.
    ends: BTreeMap<FileNumber, u64>,
    /// The files by their present names.
    names: BTreeMap<String, FileNumber>,
    /// The files that lost bytes after they were first opened.
    truncated: BTreeSet<FileNumber>,
    opened: FileNumber,
    failed: Option<io::Error>,
    /// The limit that was met first, whatever the policy made of it.
    pub(super) over_quota: Option<Quota>,
    pub(super) bytes: u64,
}

impl Output {
    /// The output of a call; `writes_back` tells whether its files are to reach the disk anyway.
    pub(super) fn new(limits: &Limits, deadline: Instant, writes_back: bool) -> Self {
        Self {
            place: Place::Here(Sink { writes_back, ..Sink::default() }),
            deadline,
            limits: limits.clone(),
            counted: 0,
            created: 0,
            held: Arc::default(),
            ends: BTreeMap::new(),
            names: BTreeMap::new(),
            truncated: BTreeSet::new(),
            opened: 0,
            failed: None,
            over_quota: None,
            bytes: 0,
        }
    }

    /// Most bytes of the name of a file that is created.
    pub(super) fn name_bytes(&self) -> usize {
        self.limits.name_bytes
    }

    /// Accounts for a file about to be created.
    pub(super) fn create(&mut self) -> Result<(), WriteError> {
        if self.created >= self.limits.files {
            return Err(WriteError::Quota(self.refuse(Quota::Files(self.limits.files))));
        }
        self.created += 1;
        Ok(())
    }

    /// Accounts for something about to be opened. What is on its way to the disk keeps its file open too and is not
    /// counted: of blocks there are none left when something is opened, and one file at most is being sent to the disk.
    pub(super) fn hold(&mut self) -> Result<Held, Quota> {
        // Its own share of the count is one more.
        if Arc::strong_count(&self.held) > self.limits.open_files as usize {
            return Err(self.refuse(Quota::OpenFiles(self.limits.open_files)));
        }
        Ok(Held { _counted: Arc::clone(&self.held) })
    }

    /// Accounts for a file that was opened by this name.
    pub(super) fn opened(&mut self, held: Held, file: Arc<File>, name: &str, truncated: bool) -> OpenFile {
        let number = match self.names.get(name) {
            Some(number) => {
                if truncated {
                    self.truncated.insert(*number);
                }
                *number
            }
            None => {
                self.opened += 1;
                self.names.insert(name.to_owned(), self.opened);
                self.opened
            }
        };
        OpenFile { number, is_jsonl: name.ends_with(".jsonl"), file, _held: held }
    }

    pub(super) fn renamed(&mut self, old: &str, new: &str) {
        match self.names.remove(old) {
            Some(number) => self.names.insert(new.to_owned(), number),
            None => self.names.remove(new),
        };
    }

    pub(super) fn removed(&mut self, name: &str) {
        self.names.remove(name);
    }

    /// The number of the file of this name; 0 for what was not opened in this call.
    pub(super) fn number_of_name(&self, name: &str) -> FileNumber {
        self.names.get(name).copied().unwrap_or_default()
    }

    /// Takes a block of a file.
    pub(super) fn write(&mut self, to: &OpenFile, offset: u64, bytes: Vec<u8>) -> Result<u64, WriteError> {
        let length = bytes.len() as u64;
        self.count(to.number, offset, length)?;
        let block = Block { number: to.number, is_jsonl: to.is_jsonl, file: Arc::clone(&to.file), offset, bytes };
        if matches!(self.place, Place::Here(_)) && block.bytes.len() >= THREAD_FROM_BYTES {
            self.start_thread().map_err(WriteError::Io)?;
        }
        match &mut self.place {
            Place::Here(sink) => sink.write(&block).map_err(WriteError::Io)?,
            Place::Thread { .. } => self.hand_over(block)?,
        }
        Ok(length)
    }

    /// Accounts for a write. A gap before it counts too: somebody reads the file from its beginning to its end.
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
        *self.over_quota.get_or_insert(quota)
    }

    fn start_thread(&mut self) -> io::Result<()> {
        let Place::Here(sink) = &mut self.place else { return Ok(()) };
        let mut sink = std::mem::take(sink);
        let (blocks, incoming) = mpsc::channel::<Block>();
        let (done, written) = mpsc::channel();
        let sink = thread::Builder::new().name("lro-write".into()).spawn(move || {
            for block in incoming {
                fail_point!("sandbox::write-thread");
                if done.send(sink.write(&block)).is_err() {
                    break;
                }
            }
            sink
        })?;
        self.place = Place::Thread { blocks: Some(blocks), written, free: BLOCKS_IN_FLIGHT, sink };
        Ok(())
    }

    fn hand_over(&mut self, block: Block) -> Result<(), WriteError> {
        self.wait_until_free(1)?;
        if let Place::Thread { blocks: Some(blocks), free, .. } = &mut self.place {
            *free -= 1;
            // A closed channel means that the thread ended, which `wait_until_free` reports.
            let _ = blocks.send(block);
        }
        Ok(())
    }

    /// Waits until every block is on its way to the operating system, and tells the first failure.
    pub(super) fn drain(&mut self) -> Result<(), WriteError> {
        self.wait_until_free(BLOCKS_IN_FLIGHT)
    }

    fn wait_until_free(&mut self, wanted: usize) -> Result<(), WriteError> {
        if let Place::Thread { written, free, .. } = &mut self.place {
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

    /// Ends the output and returns the digests that are known, by file name.
    pub(super) fn finish(mut self) -> Result<BTreeMap<String, FileDigest>, WriteError> {
        self.drain()?;
        fail_point!("sandbox::finish", WriteError::Io);
        let mut sink = match self.place {
            Place::Here(sink) => sink,
            Place::Thread { blocks, sink, .. } => {
                drop(blocks);
                sink.join().map_err(|_| WriteError::Io(io::Error::other("the writing thread panicked")))?
            }
        };
        sink.settle().map_err(WriteError::Io)?;
        sink.hashers.retain(|number, _| !self.truncated.contains(number));
        let known = |(name, number)| Some((name, sink.hashers.remove(&number)?.finish()?));
        Ok(self.names.into_iter().filter_map(known).collect())
    }
}

fn clone_error(error: &io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => error.kind().into(),
    }
}
