//! Response bodies: removes the content encoding, and classifies the body by its bytes rather than its headers.

use std::io::Write;
use std::pin::Pin;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::{Stream, StreamExt, stream};

use crate::upstream::Endpoint;

/// Bytes decompressed in one step. They expand at most a thousandfold, and the limit of a message applies to the
/// output.
const STEP_BYTES: usize = 1 << 10;

/// Charsets that agree with ASCII, so that all parsers find the same message.
const CHARSETS: [&str; 7] = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"];

/// Field names that can start a line of an event stream.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// A decompressed body, in chunks.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, ContentError>> + Send>>;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error("the server sent its response with the content encoding `{0}`, which is not supported: use gzip or none")]
    Encoding(String),
    #[error("the server sent its response in the charset `{0}`, which is not supported: MCP messages are UTF-8")]
    Charset(String),
    #[error("the server sent its response as invalid gzip: {0}")]
    Gzip(std::io::Error),
    #[error("the connection to the server failed: {0}")]
    Broken(String),
}

/// What the response headers say about the body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// Whether a parser could treat the body as an event stream.
    pub(crate) is_stream: bool,
    pub(crate) is_compressed: bool,
}

/// The kind of a body, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    /// JSON, complete or not.
    Message,
    /// Lines of an event stream.
    Events,
    /// UTF-16 or UTF-32, which some parsers detect.
    Wide,
    /// Anything else.
    Text,
}

impl Content {
    /// Reads the content type and the content encoding.
    ///
    /// # Errors
    /// [`ContentError`] if parsers may disagree about what the bytes say.
    pub(crate) fn of(headers: &HeaderMap) -> Result<Self, ContentError> {
        let kind = listed(headers, &CONTENT_TYPE);
        for parameter in kind.split([';', ',']) {
            let Some((name, value)) = parameter.split_once('=') else { continue };
            let charset = value.trim().trim_matches(['"', '\'']);
            if name.trim().starts_with("charset") && !CHARSETS.contains(&charset) {
                return Err(ContentError::Charset(charset.to_owned()));
            }
        }
        let encoding = listed(headers, &CONTENT_ENCODING);
        let is_compressed = match encoding.trim() {
            "" | "identity" => false,
            "gzip" | "x-gzip" => true,
            other => return Err(ContentError::Encoding(other.to_owned())),
        };
        Ok(Self { is_stream: kind.contains("text/event-stream"), is_compressed })
    }

    /// The decompressed body of the response.
    pub(crate) fn chunks(self, response: reqwest::Response) -> Chunks {
        let broken = |error| ContentError::Broken(Endpoint::explain(&error));
        let chunks = response.bytes_stream().map(move |chunk| chunk.map_err(broken));
        if self.is_compressed { decompressed(Box::pin(chunks)) } else { Box::pin(chunks) }
    }
}

/// All values of a header, in lower case, joined by commas.
fn listed(headers: &HeaderMap, name: &axum::http::HeaderName) -> String {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase());
    values.collect::<Vec<_>>().join(",")
}

/// Classifies a body by its first bytes that are not white space.
pub(crate) fn classify(body: &[u8]) -> BodyKind {
    let is_wide =
        body.starts_with(b"\xFE\xFF") || body.starts_with(b"\xFF\xFE") || body.iter().take(4).any(|byte| *byte == 0);
    if is_wide {
        return BodyKind::Wide;
    }
    let mut text = body.trim_ascii_start();
    while let Some(rest) = text.strip_prefix(b"\xEF\xBB\xBF") {
        text = rest.trim_ascii_start();
    }
    match text {
        [b'{' | b'[', ..] => BodyKind::Message,
        [b':', ..] => BodyKind::Events,
        _ if FIELDS.iter().any(|field| text.strip_prefix(*field).is_some_and(|rest| rest.starts_with(b":"))) => {
            BodyKind::Events
        }
        _ => BodyKind::Text,
    }
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
