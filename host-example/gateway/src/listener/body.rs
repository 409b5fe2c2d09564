//! HTTP bodies: read within the limits, and written in pieces.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use lro_host::job::INLINE_BYTES;
use lro_transport::{MessageLimits, Spool, SpoolError};
use memchr::memchr2;

use super::connections::PROGRESS_BYTES;
use super::guard::Refusal;
use crate::tenants::rules::Rules;

/// Size of the pieces in which a large message is written, in bytes.
pub(crate) const PIECE_BYTES: usize = 256 << 10;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BodyError {
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("the body is incomplete: {0}")]
    Broken(String),
}

/// Reads a whole body, into memory or a file.
pub(crate) async fn collect<E: std::fmt::Display>(
    mut stream: impl Stream<Item = Result<Bytes, E>> + Unpin,
    limits: &Arc<MessageLimits>,
) -> Result<Bytes, BodyError> {
    let mut spool = Spool::new(Arc::clone(limits));
    let mut only = None;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| BodyError::Broken(error.to_string()))?;
        let is_small = chunk.len() <= INLINE_BYTES && chunk.len() as u64 <= limits.message_bytes;
        if spool.is_empty() && only.is_none() && is_small {
            only = Some(chunk);
            continue;
        }
        if let Some(first) = only.take() {
            spool.push(&first)?;
        }
        spool.push(&chunk)?;
    }
    match only {
        Some(only) => Ok(only),
        None => Ok(spool.finish()?),
    }
}

/// Reads the body of a client's request, within the timeout of a call and with minimum progress in each interval.
pub(crate) async fn of_request(body: Body, rules: &Rules) -> Result<Bytes, Refusal> {
    let (whole, interval) = (rules.config.gateway.call_timeout_ms.get(), rules.config.gateway.body_timeout_ms.get());
    let received = AtomicUsize::new(0);
    let count = |chunk: &Result<Bytes, _>| {
        received.fetch_add(chunk.as_ref().map_or(0, Bytes::len), Ordering::Relaxed);
    };
    let late = |millis: u64, limit| {
        let text = format!("the body did not arrive within {millis} ms (limit {limit})");
        Err(Refusal::Status(StatusCode::REQUEST_TIMEOUT, text))
    };
    let collected = tokio::select! {
        collected = collect(body.into_data_stream().inspect(count), &rules.limits) => collected,
        () = stalled(&received, Duration::from_millis(interval)) => return late(interval, "gateway.body-timeout-ms"),
        () = tokio::time::sleep(Duration::from_millis(whole)) => return late(whole, "gateway.call-timeout-ms"),
    };
    collected.map_err(|error| match error {
        BodyError::Spool(error @ SpoolError::TooLarge { .. }) => {
            Refusal::Status(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
        }
        BodyError::Spool(error) => Refusal::Status(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        BodyError::Broken(_) => Refusal::Status(StatusCode::BAD_REQUEST, error.to_string()),
    })
}

/// Waits for an interval in which fewer than [`PROGRESS_BYTES`] arrive.
async fn stalled(received: &AtomicUsize, interval: Duration) {
    loop {
        let before = received.load(Ordering::Relaxed);
        tokio::time::sleep(interval).await;
        if received.load(Ordering::Relaxed) - before < PROGRESS_BYTES {
            return;
        }
    }
}

/// A body of these bytes. A large one is written in pieces, so that a message in a file is not loaded into memory.
pub(crate) fn of_bytes(bytes: Bytes) -> Body {
    if bytes.len() <= PIECE_BYTES {
        return Body::from(bytes);
    }
    Body::from_stream(futures_util::stream::iter(pieces(bytes).map(Ok::<_, std::convert::Infallible>)))
}

/// A body that ends early when `end` is ready. `end` is dropped with it.
pub(crate) fn until(body: Body, end: impl Future<Output = ()> + Send + 'static) -> Body {
    Body::new(BodyUntil { body, end: Box::pin(end) })
}

struct BodyUntil {
    body: Body,
    end: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl HttpBody for BodyUntil {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.end.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// Splits bytes into pieces that share the buffer.
pub(crate) fn pieces(bytes: Bytes) -> impl Iterator<Item = Bytes> + Send {
    (0..bytes.len()).step_by(PIECE_BYTES).map(move |start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES)))
}

/// Replaces line breaks in a message, or in a piece of one, by spaces. JSON allows line breaks only between tokens,
/// where a space means the same.
pub(crate) fn on_one_line(bytes: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &bytes).is_none() {
        return bytes;
    }
    bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
