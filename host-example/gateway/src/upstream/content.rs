//! Response bodies: removes the content encoding.

use std::io::Write;
use std::pin::Pin;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::{Stream, StreamExt, stream};
pub(crate) use lro_http::{BodyKind, Content, HeaderError, classify};

use crate::upstream::Endpoint;

/// Bytes decompressed in one step. They expand at most a thousandfold, and the limit of a message applies to the
/// output.
const STEP_BYTES: usize = 1 << 10;

/// A decompressed body, in chunks.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, ContentError>> + Send>>;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error("the server sent its response as invalid gzip: {0}")]
    Gzip(std::io::Error),
    #[error("the connection to the server failed: {0}")]
    Broken(String),
}

/// What the headers of a response say about its body.
///
/// # Errors
/// [`ContentError::Header`] if parsers may disagree about what the bytes say.
pub(crate) fn of_headers(headers: &HeaderMap) -> Result<Content, ContentError> {
    Ok(Content::of(&listed(headers, &CONTENT_TYPE), &listed(headers, &CONTENT_ENCODING))?)
}

/// The decompressed body of a response.
pub(crate) fn chunks(content: Content, response: reqwest::Response) -> Chunks {
    let broken = |error| ContentError::Broken(Endpoint::explain(&error));
    let chunks = response.bytes_stream().map(move |chunk| chunk.map_err(broken));
    if content.is_compressed { decompressed(Box::pin(chunks)) } else { Box::pin(chunks) }
}

/// All values of a header, in lower case, joined by commas.
fn listed(headers: &HeaderMap, name: &axum::http::HeaderName) -> String {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase());
    values.collect::<Vec<_>>().join(",")
}

/// A gzip stream being decompressed.
struct Gunzip {
    /// `None` at the end of the stream.
    chunks: Option<Chunks>,
    compressed: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
    has_begun: bool,
}

impl Gunzip {
    /// Decompresses the next step; `None` at the end, or if the body is empty.
    async fn next(&mut self) -> Option<Result<Bytes, ContentError>> {
        if self.compressed.is_empty() {
            match self.chunks.as_mut()?.next().await {
                Some(Ok(chunk)) => self.compressed = chunk,
                Some(Err(error)) => return Some(Err(error)),
                None => {
                    self.chunks = None;
                    if !self.has_begun {
                        return None;
                    }
                    let finished = self.decoder.try_finish().map_err(ContentError::Gzip);
                    return Some(finished.map(|()| std::mem::take(self.decoder.get_mut()).into()));
                }
            }
        }
        self.has_begun = true;
        let step = self.compressed.split_to(self.compressed.len().min(STEP_BYTES));
        let written = self.decoder.write_all(&step).and_then(|()| self.decoder.flush());
        // A few bytes can expand to a lot: let other tasks run.
        tokio::task::yield_now().await;
        Some(written.map(|()| std::mem::take(self.decoder.get_mut()).into()).map_err(ContentError::Gzip))
    }
}

fn decompressed(chunks: Chunks) -> Chunks {
    let decoder = MultiGzDecoder::new(Vec::new());
    let gunzip = Gunzip { chunks: Some(chunks), compressed: Bytes::new(), decoder, has_begun: false };
    Box::pin(stream::unfold(Some(gunzip), |gunzip| async move {
        let mut gunzip = gunzip?;
        let piece = gunzip.next().await?;
        let rest = piece.is_ok().then_some(gunzip);
        Some((piece, rest))
    }))
}
