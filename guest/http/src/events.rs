//! Server-sent events: parses a `text/event-stream` as defined by the WHATWG HTML standard.

use std::ops::Range;
use std::time::Duration;
use std::{iter, mem};

use bytes::Bytes;
use memchr::{memchr, memchr2};

/// A stream may begin with it; it is not part of the first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

const DATA: &[u8] = b"data";
const EVENT: &[u8] = b"event";
const ID: &[u8] = b"id";
const RETRY: &[u8] = b"retry";

/// One event, or some comments, with the blank line at the end; or only a blank line.
#[derive(Clone, Debug)]
pub struct Event {
    raw: Bytes,
    data: Bytes,
    data_lines: usize,
    has_braces_beside: bool,
    name: Range<usize>,
    id: Option<Range<usize>>,
    retry: Option<Duration>,
    /// Bytes before the data.
    before: Bytes,
    /// Bytes after the data, starting with a line break.
    after: Bytes,
    line_break_bytes: usize,
}

/// Where bytes are collected until they are a whole event.
pub trait Buffer: Sized {
    /// What bounds it.
    type Limits: Clone;
    /// Why bytes cannot be collected.
    type Error;

    /// An empty one.
    fn new(limits: &Self::Limits) -> Self;

    /// Appends bytes.
    ///
    /// # Errors
    /// When they do not fit. Nothing more is pushed then.
    fn push(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Whether there are no bytes.
    fn is_empty(&self) -> bool;

    /// The bytes.
    ///
    /// # Errors
    /// When they cannot be had back.
    fn finish(self) -> Result<Bytes, Self::Error>;
}

/// Splits an event stream into events. Every byte belongs to one, or to the rest that [`EventReader::finish`] returns.
///
/// The bytes of the current event are collected in a [`Buffer`].
#[derive(Debug)]
pub struct EventReader<B: Buffer> {
    limits: B::Limits,
    buffer: B,
    position: LinePosition,
    /// Rest of the byte order mark that may still follow.
    mark: &'static [u8],
    /// Bytes of the byte order mark in the current event.
    mark_bytes: usize,
    has_failed: bool,
}

/// Position in a line.
#[derive(Clone, Copy, Debug)]
enum LinePosition {
    /// At the start of a line.
    Start,
    /// Inside a line.
    Inside,
    /// After a carriage return that ended a non-empty line; a line feed may follow.
    AfterReturn,
}

impl<B: Buffer> EventReader<B> {
    /// Creates a reader for a new stream.
    pub fn new(limits: B::Limits) -> Self {
        Self {
            buffer: B::new(&limits),
            limits,
            position: LinePosition::Start,
            mark: BYTE_ORDER_MARK,
            mark_bytes: 0,
            has_failed: false,
        }
    }

    /// Parses a chunk and appends the events that it completes, at most one per byte.
    ///
    /// Chunk boundaries do not change the meaning of the events. An event that ends in a carriage return does not wait
    /// for a line feed: if that comes in the next chunk, it is a separate event, a blank line.
    ///
    /// # Errors
    /// When an event cannot be stored. The reader then ignores all further input.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), B::Error> {
        if self.has_failed {
            return Ok(());
        }
        let result = self.read(chunk, events);
        self.has_failed = result.is_err();
        result
    }

    /// Returns the bytes after the last event; `None` if there are none, or after a failure.
    ///
    /// # Errors
    /// When they cannot be stored.
    pub fn finish(self) -> Result<Option<Bytes>, B::Error> {
        if self.has_failed || self.buffer.is_empty() {
            return Ok(None);
        }
        self.buffer.finish().map(Some)
    }

    /// Parses the incomplete end of a stream, as returned by [`EventReader::finish`], as an event, as some clients do.
    ///
    /// # Errors
    /// When it cannot be stored.
    pub fn event_of_rest(rest: &Bytes, limits: &B::Limits) -> Result<Event, B::Error> {
        let mut buffer = B::new(limits);
        buffer.push(rest)?;
        buffer.push(b"\n\n")?;
        let mark_bytes = if rest.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
        Event::read::<B>(buffer.finish()?, mark_bytes, limits)
    }

    /// Takes away the bytes of an event that is incomplete in the middle of a line, as if they had not been pushed: for a caller that
    /// reads on by itself until it ends. `None` elsewhere, and behind a byte order mark.
    pub fn take_open(&mut self) -> Option<B> {
        let is_inside = matches!(self.position, LinePosition::Inside) && self.mark.is_empty() && self.mark_bytes == 0;
        is_inside.then(|| {
            self.position = LinePosition::Start;
            mem::replace(&mut self.buffer, B::new(&self.limits))
        })
    }

    fn read(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), B::Error> {
        let mut rest = self.skip_mark(chunk)?;
        let mut end = 0;
        while let Some(next) = rest.get(end..).filter(|next| !next.is_empty()) {
            let (bytes, closes) = self.step(next);
            end += bytes;
            if closes {
                let (last, others) = rest.split_at_checked(end).unwrap_or((rest, &[]));
                self.buffer.push(last)?;
                events.push(self.close()?);
                (rest, end) = (others, 0);
            }
        }
        self.buffer.push(rest)
    }

    /// Consumes a byte order mark, or a part of it. Returns the rest.
    fn skip_mark<'a>(&mut self, chunk: &'a [u8]) -> Result<&'a [u8], B::Error> {
        let bytes = iter::zip(self.mark, chunk).take_while(|(one, other)| one == other).count();
        let (mark, rest) = chunk.split_at_checked(bytes).unwrap_or((chunk, &[]));
        self.buffer.push(mark)?;
        self.mark_bytes += bytes;
        self.mark = self.mark.get(bytes..).unwrap_or_default();
        if !self.mark.is_empty() && !rest.is_empty() {
            if self.mark_bytes > 0 {
                self.position = LinePosition::Inside;
            }
            (self.mark, self.mark_bytes) = (&[], 0);
        }
        Ok(rest)
    }

    /// Advances in non-empty `bytes`, past at most one line break. Returns how far, and whether the event ends there.
    fn step(&mut self, bytes: &[u8]) -> (usize, bool) {
        match (self.position, bytes) {
            (LinePosition::AfterReturn, [b'\n', ..]) => {
                self.position = LinePosition::Start;
                (1, false)
            }
            (LinePosition::Start | LinePosition::AfterReturn, [b'\r', b'\n', ..]) => (2, true),
            (LinePosition::Start | LinePosition::AfterReturn, [b'\n' | b'\r', ..]) => (1, true),
            _ => {
                let Some(end) = memchr2(b'\n', b'\r', bytes) else {
                    self.position = LinePosition::Inside;
                    return (bytes.len(), false);
                };
                self.position =
                    if bytes.get(end) == Some(&b'\n') { LinePosition::Start } else { LinePosition::AfterReturn };
                (end + 1, false)
            }
        }
    }

    fn close(&mut self) -> Result<Event, B::Error> {
        self.position = LinePosition::Start;
        let buffer = mem::replace(&mut self.buffer, B::new(&self.limits));
        Event::read::<B>(buffer.finish()?, mem::take(&mut self.mark_bytes), &self.limits)
    }
}

impl Event {
    /// Parses the lines from `start` on; the last is blank.
    fn read<B: Buffer>(raw: Bytes, start: usize, limits: &B::Limits) -> Result<Self, B::Error> {
        let (mut data, mut before) = (Pieces::<B>::of(&raw, limits), Pieces::<B>::of(&raw, limits));
        let (mut name, mut id, mut retry) = (0..0, None, None);
        let (mut data_lines, mut has_braces_beside) = (0, false);
        let (mut line, mut blank) = (start, 0..0);
        // Line break after the last line of data.
        let mut data_end: Option<Range<usize>> = None;
        while let Some(end) = line_break(&raw, line) {
            let text = raw.get(line..end.start).unwrap_or_default();
            let data_value = value(text, DATA);
            has_braces_beside |= data_value.is_none() && memchr(b'{', text).is_some();
            if let Some(value) = data_value {
                data_lines += 1;
                if data_end.is_some() {
                    data.push(b"\n")?;
                }
                before.add(data_end.map_or(0, |end| end.end)..line)?;
                data.add(line + value..end.start)?;
                data_end = Some(end.clone());
            } else if let Some(value) = value(text, EVENT) {
                name = line + value..end.start;
            } else if let Some(value) = value(text, ID).filter(|_| memchr(0, text).is_none()) {
                id = Some(line + value..end.start);
            } else if let Some(value) = value(text, RETRY) {
                retry = text.get(value..).and_then(milliseconds).or(retry);
            }
            (line, blank) = (end.end, end);
        }
        let (after, line_break_bytes) = match data_end {
            Some(end) => (raw.slice(end.start..), end.len()),
            None => {
                before.add(0..blank.start)?;
                (raw.get(blank.clone()).unwrap_or_default().repeat(2).into(), blank.len())
            }
        };
        let (data, before) = (data.finish()?, before.finish()?);
        Ok(Self { raw, data, data_lines, has_braces_beside, name, id, retry, before, after, line_break_bytes })
    }

    /// Number of data lines.
    pub const fn data_lines(&self) -> usize {
        self.data_lines
    }

    /// Whether a line other than data, such as a comment, contains a brace: a lenient client may find a message there.
    pub const fn has_braces_beside(&self) -> bool {
        self.has_braces_beside
    }

    /// The raw bytes.
    pub fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// The data, with a line feed between lines; `None` if it is empty. A single line shares the memory of
    /// [`Event::raw`].
    pub fn data(&self) -> Option<Bytes> {
        (!self.data.is_empty()).then(|| self.data.clone())
    }

    /// The event type; `None` if it has none, which means `message`, or if it is not UTF-8.
    pub fn name(&self) -> Option<&str> {
        self.text(self.name.clone()).filter(|name| !name.is_empty())
    }

    /// The id, which may be empty; `None` if it has none or if it is not UTF-8.
    pub fn id(&self) -> Option<&str> {
        self.id.clone().and_then(|id| self.text(id))
    }

    /// How long to wait before connecting again when the stream ends; `None` if it does not say.
    pub const fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Replaces the data. Returns pieces to be sent in order. The other lines stay unchanged and in order. The data
    /// takes one line, or several if it contains line breaks.
    pub fn with_data(&self, data: &Bytes) -> Vec<Bytes> {
        let mut pieces = vec![self.before.clone()];
        if self.before.starts_with(BYTE_ORDER_MARK) && !self.raw.starts_with(BYTE_ORDER_MARK) {
            // A mark that was behind data must not begin the stream: put a blank line before it.
            pieces.insert(0, Bytes::from_static(b"\n"));
        }
        let mut line = 0;
        while let Some(end) = line_break(data, line) {
            pieces.extend([Bytes::from_static(b"data: "), data.slice(line..end.start)]);
            pieces.push(self.after.slice(..self.line_break_bytes));
            line = end.end;
        }
        pieces.extend([Bytes::from_static(b"data: "), data.slice(line..), self.after.clone()]);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }

    fn text(&self, range: Range<usize>) -> Option<&str> {
        self.raw.get(range).and_then(|text| std::str::from_utf8(text).ok())
    }
}

/// Concatenates parts of a text. Adjacent parts are not copied.
struct Pieces<'a, B: Buffer> {
    text: &'a Bytes,
    limits: &'a B::Limits,
    range: Range<usize>,
    joined: Option<B>,
}

impl<'a, B: Buffer> Pieces<'a, B> {
    fn of(text: &'a Bytes, limits: &'a B::Limits) -> Self {
        Self { text, limits, range: 0..0, joined: None }
    }

    /// Appends a part of the text.
    fn add(&mut self, range: Range<usize>) -> Result<(), B::Error> {
        if range.is_empty() {
            return Ok(());
        }
        let is_first = self.range.is_empty();
        if self.joined.is_some() || !is_first && self.range.end != range.start {
            return self.push(self.text.get(range).unwrap_or_default());
        }
        self.range = if is_first { range } else { self.range.start..range.end };
        Ok(())
    }

    /// Appends other bytes.
    fn push(&mut self, bytes: &[u8]) -> Result<(), B::Error> {
        if let Some(joined) = &mut self.joined {
            return joined.push(bytes);
        }
        let joined = self.joined.insert(B::new(self.limits));
        joined.push(self.text.get(self.range.clone()).unwrap_or_default())?;
        joined.push(bytes)
    }

    fn finish(self) -> Result<Bytes, B::Error> {
        self.joined.map_or_else(|| Ok(self.text.slice(self.range)), B::finish)
    }
}

/// The first line break at or after `start`.
fn line_break(text: &[u8], start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let end = memchr2(b'\n', b'\r', rest)?;
    let bytes = if rest.get(end..)?.starts_with(b"\r\n") { 2 } else { 1 };
    Some(start + end..start + end + bytes)
}

/// A number of milliseconds, which has only digits.
fn milliseconds(text: &[u8]) -> Option<Duration> {
    let digits = text.iter().all(u8::is_ascii_digit).then(|| std::str::from_utf8(text).ok())??;
    digits.parse().ok().map(Duration::from_millis)
}

/// Offset of the value in a line, if it is a field of this name.
fn value(line: &[u8], name: &[u8]) -> Option<usize> {
    match line.strip_prefix(name)? {
        [] => Some(name.len()),
        [b':', b' ', ..] => Some(name.len() + 2),
        [b':', ..] => Some(name.len() + 1),
        _ => None,
    }
}
