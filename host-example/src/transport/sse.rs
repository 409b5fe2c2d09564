//! Event streams, as the WHATWG HTML standard defines them (section 9.2, server-sent events).

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use memchr::memchr2;

use super::spool::{MessageLimits, Spool, SpoolError};

/// What a stream may begin with, and what is no part of its first line.
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// Takes an event stream apart into its events. Everything that was read is in one of them: comments too, and white space.
#[derive(Debug)]
pub struct EventReader {
    limits: Arc<MessageLimits>,
    spool: Spool,
    /// Bytes of the line at hand.
    line_bytes: u64,
    /// The last byte was a carriage return, so that a line feed ends no line.
    after_return: bool,
}

/// One event, or some comments.
#[derive(Clone, Debug)]
pub struct Event {
    raw: Bytes,
    data: Vec<Range<usize>>,
}

impl EventReader {
    /// A reader at the beginning of a stream.
    pub fn new(limits: Arc<MessageLimits>) -> Self {
        Self { spool: Spool::new(Arc::clone(&limits)), limits, line_bytes: 0, after_return: false }
    }

    /// Reads on; adds the events that are complete now.
    ///
    /// # Errors
    /// When an event cannot be kept. Nothing more can be read then.
    pub fn push(&mut self, chunk: &[u8], events: &mut Vec<Event>) -> Result<(), SpoolError> {
        let mut rest = chunk;
        while let Some(first) = rest.first() {
            if self.after_return && *first == b'\n' {
                rest = self.take(rest, 1)?;
                self.after_return = false;
                continue;
            }
            self.after_return = false;
            let Some(end) = memchr2(b'\n', b'\r', rest) else {
                self.line_bytes += rest.len() as u64;
                return self.spool.push(rest);
            };
            let is_blank = self.line_bytes + end as u64 == 0;
            self.after_return = rest.get(end) == Some(&b'\r');
            // The line feed behind a carriage return still belongs to this event, if it is at hand.
            let with_feed = self.after_return && rest.get(end + 1) == Some(&b'\n');
            self.after_return &= !with_feed;
            rest = self.take(rest, end + 1 + usize::from(with_feed))?;
            self.line_bytes = 0;
            if is_blank {
                let raw = std::mem::replace(&mut self.spool, Spool::new(Arc::clone(&self.limits))).finish()?;
                events.push(Event::of(raw));
            }
        }
        Ok(())
    }

    /// What is left at the end of the stream: an event that never became complete.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub fn finish(self) -> Result<Option<Bytes>, SpoolError> {
        if self.spool.is_empty() { Ok(None) } else { self.spool.finish().map(Some) }
    }

    fn take<'a>(&mut self, bytes: &'a [u8], count: usize) -> Result<&'a [u8], SpoolError> {
        let (taken, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
        self.spool.push(taken)?;
        Ok(rest)
    }
}

impl Event {
    fn of(raw: Bytes) -> Self {
        let data = lines(&raw).filter_map(|line| value(&raw, line, b"data")).collect();
        Self { raw, data }
    }

    /// The bytes that it came in, with the blank line that ended it.
    pub const fn raw(&self) -> &Bytes {
        &self.raw
    }

    /// Its data; none when it has none, or no more than an empty line of it.
    pub fn data(&self) -> Option<Bytes> {
        match self.data.as_slice() {
            [] => None,
            [only] if only.is_empty() => None,
            [only] => Some(self.raw.slice(only.clone())),
            lines => {
                let mut joined = BytesMut::new();
                for (index, line) in lines.iter().enumerate() {
                    if index > 0 {
                        joined.extend_from_slice(b"\n");
                    }
                    joined.extend_from_slice(self.raw.get(line.clone()).unwrap_or_default());
                }
                Some(joined.freeze())
            }
        }
    }

    /// The value of the last field `id`.
    pub fn id(&self) -> Option<&str> {
        let id = lines(&self.raw).filter_map(|line| value(&self.raw, line, b"id")).last()?;
        std::str::from_utf8(self.raw.get(id)?).ok()
    }

    /// The event with other data; its other fields stay, byte for byte and in their order. In pieces that share the bytes.
    pub fn with_data(&self, data: &Bytes) -> Vec<Bytes> {
        let mut pieces = Vec::new();
        let mut told = false;
        for line in lines(&self.raw) {
            if value(&self.raw, line.clone(), b"data").is_none() {
                pieces.push(self.raw.slice(line.clone()));
                pieces.push(self.raw.slice(line.end..line_end(&self.raw, line.end)));
            } else if !told {
                told = true;
                for part in data.split(|byte| matches!(byte, b'\n' | b'\r')) {
                    pieces.extend([Bytes::from_static(b"data: "), data.slice_ref(part), Bytes::from_static(b"\n")]);
                }
            }
        }
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

/// The lines, without what ends them.
fn lines(raw: &Bytes) -> impl Iterator<Item = Range<usize>> + '_ {
    let mut at = if raw.starts_with(BYTE_ORDER_MARK) { BYTE_ORDER_MARK.len() } else { 0 };
    std::iter::from_fn(move || {
        let rest = raw.get(at..).filter(|rest| !rest.is_empty())?;
        let end = at + memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        let line = at..end;
        at = line_end(raw, end);
        Some(line)
    })
}

/// Where the line break at `end` ends.
fn line_end(raw: &[u8], end: usize) -> usize {
    match (raw.get(end), raw.get(end + 1)) {
        (Some(b'\r'), Some(b'\n')) => end + 2,
        (Some(_), _) => end + 1,
        (None, _) => end,
    }
}

/// The value of a line that is a field of this name.
fn value(raw: &[u8], line: Range<usize>, name: &[u8]) -> Option<Range<usize>> {
    let rest = raw.get(line.clone())?.strip_prefix(name)?;
    match rest {
        [] => Some(line.end..line.end),
        [b':', b' ', ..] => Some(line.start + name.len() + 2..line.end),
        [b':', ..] => Some(line.start + name.len() + 1..line.end),
        _ => None,
    }
}
