//! Messages of a session as responses: one document, or a stream of events.

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
use crate::tenants::workers::Refused;
use crate::upstream::link::LinkError;
use lro_host::job::INLINE_BYTES;
use lro_transport::Permit;

/// How long a stream may be silent before a comment shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// Messages that wait for a client to read them before the server has to wait too.
pub(super) const STREAM_MESSAGES: usize = 64;

/// A message for a client, in pieces.
#[derive(Debug)]
pub(super) struct Out {
    pub(super) pieces: Vec<Bytes>,
    /// Whether it answers the request, so that nothing follows.
    pub(super) last: bool,
    /// The part of a stream's bytes that it takes up while it waits, if they are counted.
    #[expect(dead_code, reason = "it gives the bytes back when it is dropped")]
    pub(super) room: Option<OwnedSemaphorePermit>,
    /// And the part of the tenant's memory.
    #[expect(dead_code, reason = "it gives the memory back when it is dropped")]
    pub(super) memory: Option<Permit<String>>,
}

/// A message on its way to the server.
pub(super) enum Forwarded {
    /// It is there.
    Done,
    /// A thread of the tenant takes it there.
    Spawned(oneshot::Receiver<Result<(), Refusal>>),
}

impl Forwarded {
    /// Has a thread of the tenant with these rules take it there, as the server may not read.
    pub(super) fn spawn(rules: &Rules, forward: impl FnOnce() -> Result<(), Refusal> + Send + 'static) -> Self {
        let (done, ended) = oneshot::channel();
        rules.senders.run(move |turn| {
            let refused = |error: Refused| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            let _ = done.send(turn.map_err(refused).and_then(|()| forward()));
        });
        Self::Spawned(ended)
    }

    /// What became of it.
    pub(super) async fn end(self) -> Result<(), Refusal> {
        let Self::Spawned(ended) = self else { return Ok(()) };
        let failed = |_| Err(Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, Refused::Lost.to_string()));
        ended.await.unwrap_or_else(failed)
    }
}

/// The response to a request that is on its way to the server at the same time.
pub(super) async fn meanwhile(
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

/// The answer to a request whose messages come through a channel: one JSON document when the first message is the answer,
/// else an event stream. What `held` holds is dropped with the response.
pub(super) async fn of_messages<H: Send + 'static>(
    mut messages: Receiver<Out>,
    held: H,
    status: impl FnOnce(&Out) -> StatusCode,
) -> Response {
    let first = tokio::time::timeout(KEEP_ALIVE, messages.recv()).await;
    match first {
        Ok(Some(first)) if first.last => {
            drop(held);
            let status = status(&first);
            json(status, of_pieces(first.pieces))
        }
        Ok(None) => {
            let text = "the session ended before the answer came";
            Refusal::Status(StatusCode::BAD_GATEWAY, text.to_owned()).response()
        }
        Ok(Some(first)) => events(Some(first), messages, held),
        Err(_) => events(None, messages, held),
    }
}

/// An event stream of messages.
pub(super) fn events<H: Send + 'static>(first: Option<Out>, messages: Receiver<Out>, held: H) -> Response {
    struct Stream<H> {
        messages: Receiver<Out>,
        ready: Box<dyn Iterator<Item = Bytes> + Send>,
        done: bool,
        _held: H,
    }
    let done = first.as_ref().is_some_and(|first| first.last);
    let ready = first.map_or_else(|| encoded(Vec::new()), |first| encoded(first.pieces));
    let state = Stream { messages, ready, done, _held: held };
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

/// A message as an event, in pieces; none of an empty one.
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

/// A request that the server cannot take. Where its program lies concerns no client; the log has it.
pub(super) fn refused(error: &LinkError) -> Refusal {
    let text = match error {
        LinkError::Start { source, .. } => {
            tracing::warn!(%error, "request refused");
            format!("the server cannot be started: {source}")
        }
        error => error.to_string(),
    };
    Refusal::Status(StatusCode::BAD_GATEWAY, text)
}
