//! An event with long data, which the owner of what the policy reads holds.

use bytes::Bytes;
use lro_http::Event;
use memchr::{memchr2, memrchr2};

use crate::bindings::lro::adapter::messages::Message;
use crate::held;
use crate::stream::EventReader;

/// How an event ends whose last line is its data.
const ENDS: [&[u8]; 2] = [b"\n\n", b"\r\n\r\n"];

/// An event in whose last line there is more data than is collected here.
pub(crate) struct LongEvent {
    /// All before the data.
    head: Vec<u8>,
    data: Message,
    /// What of its end was there.
    tail: Vec<u8>,
}

/// What becomes of a long event with more bytes of the stream.
pub(crate) enum Pushed {
    /// It goes on.
    Open,
    /// It is complete.
    Closed,
    /// Another line follows its data.
    Other,
}

impl LongEvent {
    /// Takes an event that is open in its last line; gives it back if that line is not data.
    pub(crate) fn of(open: Vec<u8>) -> Result<Self, Vec<u8>> {
        let line = memrchr2(b'\n', b'\r', &open).map_or(0, |end| end + 1);
        let prefix = match open.get(line..) {
            Some([b'd', b'a', b't', b'a', b':', b' ', ..]) => 6,
            Some([b'd', b'a', b't', b'a', b':', ..]) => 5,
            _ => return Err(open),
        };
        let (head, data) = open.split_at(line + prefix);
        Ok(Self { head: head.to_vec(), data: held::of_bytes(data, 0), tail: Vec::new() })
    }

    /// Adds bytes of the stream; returns how many belong to the event.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> (usize, Pushed) {
        let mut used = 0;
        if self.tail.is_empty() {
            used = memchr2(b'\n', b'\r', bytes).unwrap_or(bytes.len());
            let (data, _) = bytes.split_at(used);
            if !data.is_empty() {
                self.data.append(data);
            }
        }
        for byte in bytes.iter().skip(used) {
            self.tail.push(*byte);
            used += 1;
            if ENDS.contains(&&self.tail[..]) {
                return (used, Pushed::Closed);
            }
            if !ENDS.iter().any(|end| end.starts_with(&self.tail)) {
                return (used, Pushed::Other);
            }
        }
        (used, Pushed::Open)
    }

    /// Bytes of its data so far.
    pub(crate) fn size(&self) -> u64 {
        self.data.size()
    }

    pub(crate) fn data(&self) -> &Message {
        &self.data
    }

    /// The event without its data; `None` if it has other data, too.
    pub(crate) fn frame(&self) -> Option<Event> {
        let (mut reader, mut events) = (EventReader::new(self.head.len() + self.tail.len()), Vec::new());
        reader.push(&self.head, &mut events).ok()?;
        reader.push(&self.tail, &mut events).ok()?;
        events.pop().filter(|event| events.is_empty() && event.data_lines() == 1)
    }

    /// All of it, in pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = Bytes> {
        let (head, tail) = (Bytes::copy_from_slice(&self.head), Bytes::copy_from_slice(&self.tail));
        std::iter::once(head).chain(held::pieces(&self.data).map(Bytes::from)).chain(std::iter::once(tail))
    }
}
