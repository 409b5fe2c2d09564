//! Splits a byte stream into lines, one message each.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{MessageLimits, Spool, SpoolError};

/// Maximum size of [`Cut::head`]: 64 KiB.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Maximum size of [`Cut::tail`]: 4 KiB.
pub const TAIL_BYTES_MAX: usize = 4 << 10;

/// Size of the buffer that lines are split off from.
const BUFFER_BYTES: usize = 64 << 10;

/// Minimum free space in the buffer at each read, so that one read can return a line of this size.
const READ_BYTES_MIN: usize = 16 << 10;

/// Size of the buffer for a line that is collected in a [`Spool`].
const LONG_BUFFER_BYTES: usize = 256 << 10;

/// One line, without its line feed. A preceding carriage return is part of the line.
#[derive(Debug)]
pub enum Line {
    /// A complete line.
    Whole(Bytes),
    /// The last line of the stream, without a line feed.
    Partial(Bytes),
    /// A line that could not be stored.
    Cut(Cut),
}

/// Beginning and end of a line that could not be stored.
#[derive(Debug)]
pub struct Cut {
    /// The beginning of the line, at most [`HEAD_BYTES_MAX`] bytes.
    pub head: Bytes,
    /// The end of the line, at most [`TAIL_BYTES_MAX`] bytes. In a short line it may overlap `head`.
    pub tail: Bytes,
    /// Size of the whole line in bytes.
    pub bytes: u64,
    /// Why the line could not be stored.
    pub reason: SpoolError,
}

/// Reads lines. Blocks, so use it on a dedicated thread.
///
/// A line that fits into the buffer of 64 KiB is a slice of it, not a copy; a longer one is collected in a [`Spool`].
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    limits: Arc<MessageLimits>,
    /// Unreturned input, followed by initialized free space.
    buffer: BytesMut,
    /// Size of the input in `buffer`.
    filled: usize,
    /// Size of `buffer` before lines were split off.
    block_bytes: usize,
}

impl<R: Read> Lines<R> {
    /// Creates a reader of the lines of `reader`.
    pub fn new(reader: R, limits: Arc<MessageLimits>) -> Self {
        Self { reader, limits, buffer: BytesMut::new(), filled: 0, block_bytes: 0 }
    }

    /// Returns the next non-empty line; `None` at the end of the stream.
    ///
    /// A line that cannot be stored is returned as [`Line::Cut`], not as an error; the next call continues after it.
    ///
    /// # Errors
    /// Errors of the reader. An unspecified part of a line is lost.
    #[expect(clippy::should_implement_trait, reason = "an iterator would go on after an error and after the end")]
    pub fn next(&mut self) -> io::Result<Option<Line>> {
        let mut searched = 0;
        loop {
            let read = self.buffer.get(..self.filled).unwrap_or_default();
            if let Some(length) = memchr(b'\n', read.get(searched..).unwrap_or_default()) {
                let line = self.take(searched + length);
                if !line.is_empty() {
                    return Ok(Some(self.checked(line, Line::Whole)));
                }
                searched = 0;
            } else if self.filled > BUFFER_BYTES - READ_BYTES_MIN {
                return self.next_long().map(Some);
            } else {
                searched = self.filled;
                if self.read(BUFFER_BYTES)? == 0 {
                    let rest = self.take(self.filled);
                    return Ok((!rest.is_empty()).then(|| self.checked(rest, Line::Partial)));
                }
            }
        }
    }

    /// Reads a line that starts with the whole buffer and is longer.
    fn next_long(&mut self) -> io::Result<Line> {
        let mut line = LongLine::new(&self.limits);
        loop {
            line.push(self.buffer.get(..self.filled).unwrap_or_default());
            self.filled = 0;
            if self.read(LONG_BUFFER_BYTES)? == 0 {
                return Ok(line.finish(Line::Partial));
            }
            let read = self.buffer.get(..self.filled).unwrap_or_default();
            if let Some(length) = memchr(b'\n', read) {
                line.push(read.get(..length).unwrap_or_default());
                self.skip(length + 1);
                return Ok(line.finish(Line::Whole));
            }
        }
    }

    /// Reads once into the free space. Returns zero at the end of the stream.
    fn read(&mut self, buffer_bytes: usize) -> io::Result<usize> {
        if self.block_bytes < buffer_bytes || self.buffer.len() - self.filled < READ_BYTES_MIN {
            self.make_room(buffer_bytes);
        }
        let room = self.buffer.get_mut(self.filled..).unwrap_or_default();
        loop {
            match self.reader.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
                Ok(bytes) => {
                    // Do not trust a reader that claims to have read more.
                    let bytes = bytes.min(room.len());
                    self.filled += bytes;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Grows the buffer to this size again: reuses the memory if no line shares it any more.
    fn make_room(&mut self, buffer_bytes: usize) {
        self.buffer.truncate(self.filled);
        let more = buffer_bytes.saturating_sub(self.filled);
        if self.block_bytes == buffer_bytes && self.buffer.try_reclaim(more) {
            self.buffer.resize(buffer_bytes, 0);
            return;
        }
        let mut block = BytesMut::zeroed(self.filled + more);
        if let Some(start) = block.get_mut(..self.filled) {
            start.copy_from_slice(&self.buffer);
        }
        (self.buffer, self.block_bytes) = (block, buffer_bytes);
    }

    /// Splits off a line of this length and skips its line feed, if any.
    fn take(&mut self, length: usize) -> Bytes {
        self.filled -= length;
        let line = self.buffer.split_to(length).freeze();
        self.skip(self.filled.min(1));
        line
    }

    fn skip(&mut self, bytes: usize) {
        self.filled -= bytes;
        self.buffer.advance(bytes);
    }

    /// Checks a line from the buffer against the limit, which may be lower than the buffer size.
    fn checked(&self, line: Bytes, kind: fn(Bytes) -> Line) -> Line {
        let limit = self.limits.message_bytes;
        if line.len() as u64 <= limit {
            return kind(line);
        }
        Line::Cut(Cut {
            head: line.slice(..line.len().min(HEAD_BYTES_MAX)),
            tail: line.slice(line.len().saturating_sub(TAIL_BYTES_MAX)..),
            bytes: line.len() as u64,
            reason: SpoolError::TooLarge { limit },
        })
    }
}

/// A line collected in a [`Spool`], with its beginning and end in case that fails.
struct LongLine {
    spool: Result<Spool, SpoolError>,
    head: Vec<u8>,
    tail: Vec<u8>,
    bytes: u64,
}

impl LongLine {
    fn new(limits: &Arc<MessageLimits>) -> Self {
        Self { spool: Ok(Spool::new(Arc::clone(limits))), head: Vec::new(), tail: Vec::new(), bytes: 0 }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes = self.bytes.saturating_add(bytes.len() as u64);
        let head_room = HEAD_BYTES_MAX - self.head.len();
        self.head.extend_from_slice(bytes.get(..head_room).unwrap_or(bytes));
        let last = bytes.get(bytes.len().saturating_sub(TAIL_BYTES_MAX)..).unwrap_or_default();
        self.tail.drain(..(self.tail.len() + last.len()).saturating_sub(TAIL_BYTES_MAX));
        self.tail.extend_from_slice(last);
        if let Ok(spool) = &mut self.spool
            && let Err(error) = spool.push(bytes)
        {
            self.spool = Err(error);
        }
    }

    fn finish(self, kind: fn(Bytes) -> Line) -> Line {
        match self.spool.and_then(Spool::finish) {
            Ok(line) => kind(line),
            Err(reason) => Line::Cut(Cut { head: self.head.into(), tail: self.tail.into(), bytes: self.bytes, reason }),
        }
    }
}
