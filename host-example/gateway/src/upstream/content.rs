//! The body of a server's response: without its encoding, and for what it is, whatever its headers say.

use std::io::Write;
use std::pin::Pin;

use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use futures_util::{Stream, StreamExt, stream};

use crate::upstream::Endpoint;

/// Bytes that are unpacked in one step: they become a thousand times as many at most, which the limit of a message stops.
const PACKED_BYTES: usize = 1 << 10;

/// Charsets in which every character of ASCII is itself, so that all readers find the same message.
const CHARSETS: [&str; 7] = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"];

/// Fields that a line of an event stream begins with.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// The bytes of a body, unpacked, in pieces.
pub(crate) type Chunks = Pin<Box<dyn Stream<Item = Result<Bytes, ContentError>> + Send>>;

/// Why a body cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentError {
    #[error("the server sent its answer with the content encoding `{0}`, which was not asked for; only gzip is undone")]
    Encoding(String),
    #[error("the server sent its answer in the charset `{0}`; a message is UTF-8")]
    Charset(String),
    #[error("the server sent its answer as gzip that cannot be unpacked: {0}")]
    Gzip(std::io::Error),
    #[error("the connection to the server broke: {0}")]
    Broken(String),
}

/// What the headers say of a body.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Content {
    /// Some reader takes it for an event stream.
    pub(crate) is_stream: bool,
    pub(crate) is_packed: bool,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// JSON, whole or not.
    Message,
    /// Lines of an event stream.
    Events,
    /// UTF-16 or UTF-32, which some readers recognise.
    Wide,
    /// Anything else.
    Text,
}

impl Content {
    /// Of a body with these headers.
    ///
    /// # Errors
    /// When readers may disagree about what the bytes say.
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
        let is_packed = match encoding.trim() {
            "" | "identity" => false,
            "gzip" | "x-gzip" => true,
            other => return Err(ContentError::Encoding(other.to_owned())),
        };
        Ok(Self { is_stream: kind.contains("text/event-stream"), is_packed })
    }

    /// The body of a response with such headers.
    pub(crate) fn chunks(self, response: reqwest::Response) -> Chunks {
        let broken = |error| ContentError::Broken(Endpoint::explain(&error));
        let chunks = response.bytes_stream().map(move |chunk| chunk.map_err(broken));
        if self.is_packed { unpacked(Box::pin(chunks)) } else { Box::pin(chunks) }
    }
}

/// All values of a header, in lower case and with commas between them.
fn listed(headers: &HeaderMap, name: &axum::http::HeaderName) -> String {
    let values = headers.get_all(name).iter().map(|value| String::from_utf8_lossy(value.as_bytes()).to_lowercase());
    values.collect::<Vec<_>>().join(",")
}

/// What a body is by its first bytes that are not white space.
pub(crate) fn form(body: &[u8]) -> Form {
    let is_wide =
        body.starts_with(b"\xFE\xFF") || body.starts_with(b"\xFF\xFE") || body.iter().take(4).any(|byte| *byte == 0);
    if is_wide {
        return Form::Wide;
    }
    let mut text = body.trim_ascii_start();
    while let Some(rest) = text.strip_prefix(b"\xEF\xBB\xBF") {
        text = rest.trim_ascii_start();
    }
    match text {
        [b'{' | b'[', ..] => Form::Message,
        [b':', ..] => Form::Events,
        _ if FIELDS.iter().any(|field| text.strip_prefix(*field).is_some_and(|rest| rest.starts_with(b":"))) => {
            Form::Events
        }
        _ => Form::Text,
    }
}

/// Chunks of gzip on their way.
struct Gunzip {
    /// None at their end.
    chunks: Option<Chunks>,
    packed: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
    has_begun: bool,
}

impl Gunzip {
    /// Goes on by one step; none when there was nothing to unpack.
    async fn next(&mut self) -> Option<Result<Bytes, ContentError>> {
        if self.packed.is_empty() {
            match self.chunks.as_mut()?.next().await {
                Some(Ok(chunk)) => self.packed = chunk,
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
        let step = self.packed.split_to(self.packed.len().min(PACKED_BYTES));
        let written = self.decoder.write_all(&step).and_then(|()| self.decoder.flush());
        // What a few bytes become may take long: others have their turn.
        tokio::task::yield_now().await;
        Some(written.map(|()| std::mem::take(self.decoder.get_mut()).into()).map_err(ContentError::Gzip))
    }
}

fn unpacked(chunks: Chunks) -> Chunks {
    let decoder = MultiGzDecoder::new(Vec::new());
    let gunzip = Gunzip { chunks: Some(chunks), packed: Bytes::new(), decoder, has_begun: false };
    Box::pin(stream::unfold(Some(gunzip), |gunzip| async move {
        let mut gunzip = gunzip?;
        let piece = gunzip.next().await?;
        let rest = piece.is_ok().then_some(gunzip);
        Some((piece, rest))
    }))
}
