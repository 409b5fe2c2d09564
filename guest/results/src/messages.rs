//! Messages, put together from their pieces.

use std::cell::RefCell;
use std::marker::PhantomData;

use bytes::Bytes;
use lro_mcp::Kind;

use crate::bindings::exports::lro::adapter::messages;
use crate::{Results, Storage};

/// Most bytes of one read.
const READ_BYTES_MAX: u32 = 1 << 20;

/// Least room for further pieces of a message whose size nobody knew.
const ROOM_BYTES_MIN: usize = 256 << 10;

/// A message of a host's. What was taken from it for a call is released with it.
pub struct Message<S: Storage> {
    content: RefCell<Content>,
    /// Whether its size was known from the beginning.
    is_sized: bool,
    storage: PhantomData<S>,
}

enum Content {
    Incomplete(Vec<u8>),
    Complete(Bytes),
}

impl<S: Storage> Message<S> {
    /// The whole message, which shares its bytes.
    pub(crate) fn bytes(&self) -> Bytes {
        let content = &mut *self.content.borrow_mut();
        let bytes = match content {
            Content::Incomplete(bytes) => Bytes::from(std::mem::take(bytes)),
            Content::Complete(bytes) => std::mem::take(bytes),
        };
        *content = Content::Complete(bytes.clone());
        bytes
    }

    fn add(&self, piece: Vec<u8>) {
        let content = &mut *self.content.borrow_mut();
        let mut bytes = match content {
            Content::Incomplete(bytes) => std::mem::take(bytes),
            Content::Complete(bytes) => std::mem::take(bytes).into(),
        };
        let length = piece.len();
        if bytes.capacity() - bytes.len() < length {
            bytes.reserve_exact(length.max(bytes.len() / 8));
        }
        bytes.extend_from_slice(&piece);
        drop(piece);
        if !self.is_sized && bytes.capacity() - bytes.len() < length {
            make_room(&mut bytes, length);
        }
        *content = Content::Incomplete(bytes);
    }
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

impl<S: Storage> Drop for Message<S> {
    fn drop(&mut self) {
        let bytes = self.bytes();
        S::with(|state| state.result.release(&bytes));
    }
}

impl<S: Storage> messages::Guest for Results<S> {
    type Message = Message<S>;
}

impl<S: Storage> messages::GuestMessage for Message<S> {
    fn new(bytes: u64) -> Self {
        let room = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
        Self { content: RefCell::new(Content::Incomplete(room)), is_sized: bytes > 0, storage: PhantomData }
    }

    fn append(&self, bytes: Vec<u8>) {
        self.add(bytes);
    }

    fn append_text(&self, text: String) {
        self.add(text.into_bytes());
    }

    fn size(&self) -> u64 {
        self.bytes().len() as u64
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
