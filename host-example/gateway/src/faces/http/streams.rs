//! HTTP responses made of messages: one JSON document, or an event stream.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use lro_host::job::INLINE_BYTES;
use lro_transport::Permit;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::Receiver;

use crate::headers::ACCEL_BUFFERING;
use crate::listener::body;
use crate::listener::guard::{Refusal, json};

/// Interval of the comments that keep a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The content type of an event stream.
const EVENT_STREAM: &[u8] = b"text/event-stream";

/// What stands before a message in an event.
pub(super) const EVENT_BEGIN: &[u8] = b"event: message\ndata: ";
/// What ends an event.
pub(super) const EVENT_END: &[u8] = b"\n\n";

/// Number of messages that wait for a client to read before the server has to wait too.
pub(super) const STREAM_MESSAGES: usize = 64;

/// A message for a client, in pieces.
#[derive(Debug)]
pub(super) struct OutgoingMessage {
    pub(super) pieces: Vec<Bytes>,
    /// Whether this is the response, so that nothing follows.
    pub(super) last: bool,
    /// Permit for the bytes of the stream while the message waits, if they are limited.
    #[expect(dead_code, reason = "releases the bytes on drop")]
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// Share of the tenant's memory while the message waits.
    #[expect(dead_code, reason = "releases the memory on drop")]
    pub(super) memory: Option<Permit<String>>,
}

impl OutgoingMessage {
    /// A message that something follows, and that needs no permit.
    pub(super) fn new(message: Bytes) -> Self {
        Self { pieces: vec![message], last: false, room: None, memory: None }
    }
}

/// The response to a request whose messages arrive through a channel: one JSON document if the first message is the
/// response, else an event stream. `guard` is dropped with the response.
pub(super) async fn message_response<H: Send + 'static>(
    mut messages: Receiver<OutgoingMessage>,
    guard: H,
    status: impl FnOnce(&OutgoingMessage) -> StatusCode,
) -> Response {
    let first = tokio::time::timeout(KEEP_ALIVE, messages.recv()).await;
    match first {
        Ok(Some(first)) if first.last => {
            drop(guard);
            let status = status(&first);
            json(status, of_pieces(first.pieces))
        }
        Ok(None) => {
            let text = "the session ended before the server answered";
            Refusal::Status(StatusCode::BAD_GATEWAY, text.to_owned()).response()
        }
        Ok(Some(first)) => event_stream(Some(first), messages, guard),
        Err(_) => event_stream(None, messages, guard),
    }
}

/// An event stream of messages.
pub(super) fn event_stream<H: Send + 'static>(
    first: Option<OutgoingMessage>,
    messages: Receiver<OutgoingMessage>,
    guard: H,
) -> Response {
    struct Stream<H> {
        messages: Receiver<OutgoingMessage>,
        ready: Box<dyn Iterator<Item = Bytes> + Send>,
        done: bool,
        _guard: H,
    }
    let done = first.as_ref().is_some_and(|first| first.last);
    let ready = first.map_or_else(|| encoded(Vec::new()), |first| encoded(first.pieces));
    let state = Stream { messages, ready, done, _guard: guard };
    let pieces = stream::unfold(state, |mut state| async move {
        loop {
            if let Some(piece) = state.ready.next() {
                return Some((Ok::<_, std::convert::Infallible>(piece), state));
            }
            if state.done {
                return None;
            }
            match tokio::time::timeout(KEEP_ALIVE, state.messages.recv()).await {
                Ok(Some(out)) => {
                    state.done = out.last;
                    state.ready = encoded(out.pieces);
                }
                Ok(None) => return None,
                Err(_) => state.ready = Box::new(std::iter::once(Bytes::from_static(b":\n\n"))),
            }
        }
    });
    let mut response = Response::new(Body::from_stream(pieces));
    *response.headers_mut() = stream_headers();
    response
}

/// The headers of an event stream.
pub(super) fn stream_headers() -> HeaderMap {
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-cache"), (ACCEL_BUFFERING, "no")];
    headers.into_iter().map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

/// Whether these are the headers of an event stream.
pub(super) fn is_stream(headers: &HeaderMap) -> bool {
    let kind = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes).unwrap_or_default();
    kind.get(..EVENT_STREAM.len()).is_some_and(|kind| kind.eq_ignore_ascii_case(EVENT_STREAM))
}

/// Encodes a message, on one line, as an event.
pub(super) fn event_of(message: &[u8]) -> Bytes {
    [EVENT_BEGIN, message, EVENT_END].concat().into()
}

/// Encodes a message as an event, in pieces; an empty message as none.
fn encoded(message: Vec<Bytes>) -> Box<dyn Iterator<Item = Bytes> + Send> {
    let size: usize = message.iter().map(Bytes::len).sum();
    if size == 0 {
        return Box::new(std::iter::empty());
    }
    if size < INLINE_BYTES {
        return Box::new(std::iter::once(event_of(&body::on_one_line(message.concat().into()))));
    }
    let pieces = message.into_iter().flat_map(body::pieces).map(body::on_one_line);
    Box::new(std::iter::once(Bytes::from_static(EVENT_BEGIN)).chain(pieces).chain([Bytes::from_static(EVENT_END)]))
}

fn of_pieces(mut pieces: Vec<Bytes>) -> Body {
    match pieces.len() {
        1 => body::of_bytes(pieces.pop().unwrap_or_default()),
        _ => {
            let pieces: Vec<Bytes> = pieces.into_iter().flat_map(body::pieces).collect();
            Body::from_stream(stream::iter(pieces.into_iter().map(Ok::<_, std::convert::Infallible>)))
        }
    }
}

/// A response without a body.
pub(super) fn empty(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response
}
