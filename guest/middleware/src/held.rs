//! Long bodies: the component that owns what the policy reads holds them, and this one does not.

use wit_bindgen::{StreamReader, StreamResult};

use crate::bindings::lro::adapter::messages::Message;
use crate::bindings::wit_stream;
use crate::body::{self, Read, SLICE_BYTES};

/// Bytes of a body that are still collected here.
const SHORT_BYTES_MAX: usize = 256 << 10;

/// Bytes given or taken at a time.
const PIECE_BYTES: u32 = 256 << 10;

/// A body that was read.
pub(crate) enum Body {
    Short(Vec<u8>),
    Long(Message),
    /// It is longer than the limit.
    Longer,
}

/// Reads a body of at most `limit` bytes. `expected` is its length, if it is known.
pub(crate) async fn read(body: &mut StreamReader<u8>, limit: usize, expected: Option<usize>) -> Body {
    if expected.is_some_and(|expected| expected > limit) {
        return Body::Longer;
    }
    let beginning = match body::read(body, SHORT_BYTES_MAX.min(limit), expected.filter(is_short)).await {
        Read::Whole(bytes) => return Body::Short(bytes),
        Read::Longer(beginning) => beginning,
    };
    let message = of_bytes(&beginning, expected.unwrap_or_default());
    let mut bytes = beginning.len();
    let mut slice = beginning;
    while bytes <= limit {
        slice.clear();
        slice.reserve(SLICE_BYTES);
        let (result, read) = body.read(slice).await;
        slice = read;
        if !matches!(result, StreamResult::Complete(_)) {
            return Body::Long(message);
        }
        message.append(&slice);
        bytes += slice.len();
    }
    Body::Longer
}

fn is_short(expected: &usize) -> bool {
    *expected <= SHORT_BYTES_MAX
}

/// A message of these bytes, with room for `expected`.
pub(crate) fn of_bytes(bytes: &[u8], expected: usize) -> Message {
    let message = Message::new(expected.max(bytes.len()) as u64);
    bytes.chunks(PIECE_BYTES as usize).for_each(|piece| message.append(piece));
    message
}

/// The pieces of a message, in their order.
pub(crate) fn pieces(message: &Message) -> impl Iterator<Item = Vec<u8>> {
    let mut offset = 0;
    std::iter::from_fn(move || {
        let piece = message.read(offset, PIECE_BYTES);
        offset += piece.len() as u64;
        (!piece.is_empty()).then_some(piece)
    })
}

/// The message as a body.
pub(crate) fn as_body(message: Message) -> StreamReader<u8> {
    let (mut writer, reader) = wit_stream::new();
    wit_bindgen::spawn_local(async move {
        for piece in pieces(&message) {
            if !body::write(&mut writer, piece).await {
                return;
            }
        }
    });
    reader
}

/// All bytes of a message.
pub(crate) fn bytes(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.reserve_exact(usize::try_from(message.size()).unwrap_or_default());
    pieces(message).for_each(|piece| bytes.extend(piece));
    bytes
}
