//! Messages, put together from their pieces.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::mem;

use bytes::Bytes;
use lro_mcp::Kind;

use crate::bindings::exports::lro::adapter::messages;
use crate::{Results, State, Storage};

/// Most bytes of one read.
const READ_BYTES_MAX: u32 = 1 << 20;

/// Least room for further pieces of a message whose size nobody knew.
const ROOM_BYTES_MIN: usize = 256 << 10;

/// The messages that hosts hold, by their numbers.
#[derive(Default)]
pub(crate) struct Messages {
    held: BTreeMap<u32, Content>,
    last: u32,
}

enum Content {
    Incomplete {
        bytes: Vec<u8>,
        /// The size, if it was known from the beginning; otherwise 0.
        expected: usize,
    },
    Complete(Bytes),
}

/// A message of a host's. A call that is about it lets go of it with this.
pub struct Message<S: Storage> {
    number: u32,
    storage: PhantomData<S>,
}

impl Messages {
    /// The message with this number, complete.
    pub(crate) fn get(&mut self, number: u32) -> Option<Bytes> {
        let content = self.held.get_mut(&number)?;
        let bytes = match content {
            Content::Incomplete { bytes, .. } => Bytes::from(mem::take(bytes)),
            Content::Complete(bytes) => mem::take(bytes),
        };
        *content = Content::Complete(bytes.clone());
        Some(bytes)
    }

    fn add(&mut self, size: u64) -> u32 {
        let expected = usize::try_from(size).unwrap_or_default();
        // Numbers come again after four billion messages.
        while self.held.contains_key(&self.last) {
            self.last = self.last.wrapping_add(1);
        }
        self.held.insert(self.last, Content::Incomplete { bytes: Vec::new(), expected });
        self.last
    }

    fn append(&mut self, number: u32, piece: Vec<u8>) {
        let Some(content) = self.held.get_mut(&number) else { return };
        let (bytes, expected) = match content {
            Content::Incomplete { bytes, expected } => (mem::take(bytes), *expected),
            Content::Complete(bytes) => (mem::take(bytes).into(), bytes.len()),
        };
        // A message in one piece is held as it came.
        let is_whole = bytes.is_empty() && expected > 0 && piece.len() >= expected;
        let bytes = if is_whole { piece } else { joined(bytes, piece, expected) };
        *content = Content::Incomplete { bytes, expected };
    }
}

/// The message with one more piece; `expected` is its size, if that is known.
fn joined(mut bytes: Vec<u8>, piece: Vec<u8>, expected: usize) -> Vec<u8> {
    let length = piece.len();
    if bytes.capacity() - bytes.len() < length {
        let more = if bytes.is_empty() { expected } else { bytes.len() / 8 };
        bytes.reserve_exact(length.max(more));
    }
    bytes.extend_from_slice(&piece);
    drop(piece);
    if expected == 0 && bytes.capacity() - bytes.len() < length {
        make_room(&mut bytes, length);
    }
    bytes
}

/// Makes room for another piece of this length, and for an eighth more of the message.
///
/// Memory never shrinks, so a copy to another place costs the message once more. Now that the piece is gone, nothing is behind the
/// message: what is allocated and released there at once, it then grows into.
fn make_room(bytes: &mut Vec<u8>, length: usize) {
    let room = ROOM_BYTES_MIN.max(length).max(bytes.len() / 8);
    drop(Vec::<u8>::with_capacity(room));
    bytes.reserve_exact(room);
}

impl<S: Storage> Message<S> {
    fn bytes(&self) -> Bytes {
        S::with(|state| state.messages.get(self.number)).unwrap_or_default()
    }
}

impl<S: Storage> Drop for Message<S> {
    fn drop(&mut self) {
        S::with(|State { messages, result, .. }| {
            if let Some(bytes) = messages.get(self.number) {
                result.release(&bytes);
            }
            messages.held.remove(&self.number);
        });
    }
}

impl<S: Storage> messages::Guest for Results<S> {
    type Message = Message<S>;
}

impl<S: Storage> messages::GuestMessage for Message<S> {
    fn new(bytes: u64) -> Self {
        Self { number: S::with(|state| state.messages.add(bytes)), storage: PhantomData }
    }

    fn number(&self) -> u32 {
        self.number
    }

    fn append(&self, bytes: Vec<u8>) {
        S::with(|state| state.messages.append(self.number, bytes));
    }

    fn append_text(&self, text: String) {
        S::with(|state| state.messages.append(self.number, text.into_bytes()));
    }

    fn size(&self) -> u64 {
        S::with(|state| match state.messages.held.get(&self.number) {
            Some(Content::Incomplete { bytes, .. }) => bytes.len() as u64,
            Some(Content::Complete(bytes)) => bytes.len() as u64,
            None => 0,
        })
    }

    fn read(&self, offset: u64, length: u32) -> Vec<u8> {
        let bytes = self.bytes();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(bytes.len());
        let end = start.saturating_add(length.min(READ_BYTES_MAX) as usize).min(bytes.len());
        bytes.slice(start..end).to_vec()
    }

    fn response_id(&self) -> Option<String> {
        let bytes = self.bytes();
        let message = lro_mcp::Message::read(bytes.clone());
        let is_plain = message.kind() == Kind::Response && message.result().is_some();
        let is_versioned = message.value(&["jsonrpc"]).is_some();
        let id = message.id()?.json().to_owned();
        let is_unmarked = message.without_marks().bytes().len() == bytes.len();
        (is_plain && is_versioned && is_unmarked).then_some(id)
    }
}
