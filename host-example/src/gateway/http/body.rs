//! Bodies: collected within the limits, or given out in pieces.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, StreamExt};
use memchr::memchr2;

use super::guard::Refusal;
use crate::gateway::Rules;
use crate::transport::{MessageLimits, Spool, SpoolError};

/// Bytes of a large message that are handed on at a time.
const PIECE_BYTES: usize = 256 << 10;

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum BodyError {
    #[error(transparent)]
    Spool(#[from] SpoolError),
    #[error("the body ended too early: {0}")]
    Broken(String),
}

/// All of a body.
pub(super) async fn collect<E: std::fmt::Display>(
    mut stream: impl Stream<Item = Result<Bytes, E>> + Unpin,
    limits: &Arc<MessageLimits>,
) -> Result<Bytes, BodyError> {
    let mut spool = Spool::new(Arc::clone(limits));
    let mut only = None;
    while let Some(chunk) = stream.next().await {
        let chunk = chunk.map_err(|error| BodyError::Broken(error.to_string()))?;
        if spool.is_empty() && only.is_none() && chunk.len() as u64 <= limits.message_bytes {
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

/// The body of a client's request, which must come within the time of a call.
pub(super) async fn of_request(body: Body, rules: &Rules) -> Result<Bytes, Refusal> {
    let patience = Duration::from_millis(rules.config.gateway.call_timeout_ms.get());
    let collected = tokio::time::timeout(patience, collect(body.into_data_stream(), &rules.limits)).await;
    let slow = |_| Refusal::Status(StatusCode::REQUEST_TIMEOUT, "the body did not come in time".to_owned());
    collected.map_err(slow)?.map_err(|error| match error {
        BodyError::Spool(error @ SpoolError::TooLarge { .. }) => {
            Refusal::Status(StatusCode::PAYLOAD_TOO_LARGE, error.to_string())
        }
        BodyError::Spool(error) => Refusal::Status(StatusCode::INSUFFICIENT_STORAGE, error.to_string()),
        BodyError::Broken(_) => Refusal::Status(StatusCode::BAD_REQUEST, error.to_string()),
    })
}

/// A body of these bytes; large ones go out in pieces, so that they need not be in memory.
pub(super) fn of_bytes(bytes: Bytes) -> Body {
    if bytes.len() <= PIECE_BYTES {
        return Body::from(bytes);
    }
    Body::from_stream(futures_util::stream::iter(pieces(bytes).map(Ok::<_, std::convert::Infallible>)))
}

/// The bytes in pieces that share them.
pub(super) fn pieces(bytes: Bytes) -> impl Iterator<Item = Bytes> + Send {
    (0..bytes.len()).step_by(PIECE_BYTES).map(move |start| bytes.slice(start..bytes.len().min(start + PIECE_BYTES)))
}

/// A message, or a piece of one, as part of one line. JSON has line breaks between tokens only, where a space is as good.
pub(super) fn on_one_line(bytes: Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', &bytes).is_none() {
        return bytes;
    }
    bytes.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
