//! HTTP responses made of messages: one JSON document, or an event stream.

use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::mpsc::Receiver;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::listener::body;
use crate::listener::guard::{Refusal, json};
use crate::tenants::rules::Rules;
use crate::tenants::workers::QueueError;
use crate::upstream::link::LinkError;
use lro_host::job::INLINE_BYTES;
use lro_transport::Permit;

/// Interval of the comments that keep a silent stream alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

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

/// A message being sent to the server.
pub(super) enum Forwarded {
    /// The message is sent.
    Done,
    /// A thread of the tenant sends it.
    Spawned(oneshot::Receiver<Result<(), Refusal>>),
}

impl Forwarded {
    /// Sends a message on a thread of the tenant, as the server may not read.
    pub(super) fn spawn(rules: &Rules, forward: impl FnOnce() -> Result<(), Refusal> + Send + 'static) -> Self {
        let (done, ended) = oneshot::channel();
        rules.senders.run(move |turn| {
            let refused = |error: QueueError| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            let _ = done.send(turn.map_err(refused).and_then(|()| forward()));
        });
        Self::Spawned(ended)
    }

    /// Waits until the message is sent.
    pub(super) async fn end(self) -> Result<(), Refusal> {
        let Self::Spawned(ended) = self else { return Ok(()) };
        let failed = |_| Err(Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, QueueError::Panicked.to_string()));
        ended.await.unwrap_or_else(failed)
    }
}

/// The response to a request while the request is still being sent. Fails if sending does.
pub(super) async fn while_forwarding(
    forwarded: Forwarded,
    response: impl Future<Output = Response>,
) -> Result<Response, Refusal> {
    let (mut response, forwarded) = (std::pin::pin!(response), std::pin::pin!(forwarded.end()));
    tokio::select! {
        response = &mut response => return Ok(response),
        forwarded = forwarded => forwarded?,
    }
    Ok(response.await)
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
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

/// Encodes a message as an event, in pieces; an empty message as none.
fn encoded(message: Vec<Bytes>) -> Box<dyn Iterator<Item = Bytes> + Send> {
    const BEFORE: &[u8] = b"event: message\ndata: ";
    const AFTER: &[u8] = b"\n\n";
    let size: usize = message.iter().map(Bytes::len).sum();
    if size == 0 {
        return Box::new(std::iter::empty());
    }
    if size < INLINE_BYTES {
        let message = body::on_one_line(message.concat().into());
        return Box::new(std::iter::once([BEFORE, &message, AFTER].concat().into()));
    }
    let pieces = message.into_iter().flat_map(body::pieces).map(body::on_one_line);
    Box::new(std::iter::once(Bytes::from_static(BEFORE)).chain(pieces).chain([Bytes::from_static(AFTER)]))
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

/// Refuses a request that the server cannot receive. The log names the program of the server; clients do not learn it.
pub(super) fn refused(error: &LinkError) -> Refusal {
    let text = match error {
        LinkError::Start { source, .. } => {
            tracing::warn!(%error, "refused a request");
            format!("the server cannot be started: {source}")
        }
        error => error.to_string(),
    };
    Refusal::Status(StatusCode::BAD_GATEWAY, text)
}
