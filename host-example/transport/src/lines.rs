//! Lines of a byte stream, one message each.

use std::io::{self, ErrorKind, Read};
use std::os::fd::AsFd;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use memchr::memchr;

use super::{MessageLimits, Spool, SpoolError};

/// Most bytes of [`Cut::head`]: 64 KiB.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

/// Most bytes of [`Cut::tail`]: 4 KiB.
pub const TAIL_BYTES_MAX: usize = 4 << 10;

/// Bytes of the buffer that lines are split off from.
const BUFFER_BYTES: usize = 64 << 10;

/// Bytes that are free in the buffer at each read, so that a line of up to this size comes with one read.
const READ_BYTES_MIN: usize = 16 << 10;

/// Bytes of the buffer for a line that is collected in a [`Spool`].
const LONG_BUFFER_BYTES: usize = 256 << 10;

const PIPE_BYTES: usize = 1 << 20;

/// One line, without the line feed at its end. A carriage return before that is part of the line.
#[derive(Debug)]
pub enum Line {
    /// A line that ended.
    Whole(Bytes),
    /// The stream ended in the middle of this line.
    Partial(Bytes),
    /// A line that could not be kept.
    Cut(Cut),
}

/// What is left of a line that could not be kept.
#[derive(Debug)]
pub struct Cut {
    /// The beginning of the line, [`HEAD_BYTES_MAX`] of it at most.
    pub head: Bytes,
    /// The end of the line, [`TAIL_BYTES_MAX`] of it at most. Of a short line it may be a part of `head`.
    pub tail: Bytes,
    /// Bytes of the whole line.
    pub bytes: u64,
    /// Why it could not be kept.
    pub reason: SpoolError,
}

/// Reads lines. It blocks, so it belongs on a thread of its own.
///
/// A line that fits the buffer of 64 KiB shares it and is not copied; a longer one goes through a [`Spool`].
#[derive(Debug)]
pub struct Lines<R> {
    reader: R,
    limits: Arc<MessageLimits>,
    /// What was read and not handed out, then room for more. All of it is initialized.
    buffer: BytesMut,
    /// Bytes of `buffer` that were read.
    filled: usize,
    /// Bytes that `buffer` had before lines were split off.
    block_bytes: usize,
}

impl<R: Read> Lines<R> {
    /// The lines of `reader`.
    pub fn new(reader: R, limits: Arc<MessageLimits>) -> Self {
        Self { reader, limits, buffer: BytesMut::new(), filled: 0, block_bytes: 0 }
    }

    /// The next line that is not empty; none at the end of the stream.
    ///
    /// A line that cannot be kept is no error: it comes as [`Line::Cut`], and the next call goes on after it.
    ///
    /// # Errors
    /// Those of the reader; how much of a line is lost is left open.
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

    /// The line that begins with all of the buffer and does not end there.
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

    /// Reads once, as much as there is room for. Zero at the end of the stream.
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
                    // A reader that claims to have read more is not believed.
                    let bytes = bytes.min(room.len());
                    self.filled += bytes;
                    return Ok(bytes);
                }
            }
        }
    }

    /// Makes the buffer as large as that again: the same memory when no line shares it any more, else new memory.
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

    /// Splits off the line of that length and skips its line feed, if there is one.
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

    /// A line from the buffer, which may still be longer than a very low limit.
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

/// A line on its way into a [`Spool`], and what stays of it when that fails.
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

/// Asks for room for 1 MiB in a pipe, so that a large message crosses it in fewer switches between processes. It stays as
/// it is when it is no pipe or the system has no such room to give.
pub fn widen_pipe(pipe: impl AsFd) {
    let _ = rustix::pipe::fcntl_setpipe_size(pipe, PIPE_BYTES);
}
