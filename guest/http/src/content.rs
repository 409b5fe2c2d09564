//! What the body of a response is: by its headers, and by its bytes, as parsers may go by either.

/// Charsets that agree with ASCII, so that all parsers find the same message.
const CHARSETS: [&str; 7] = ["utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin1", "windows-1252"];

/// Field names that can start a line of an event stream.
const FIELDS: [&[u8]; 4] = [b"data", b"event", b"id", b"retry"];

/// Why parsers may disagree about what a body says.
#[derive(Debug, thiserror::Error)]
pub enum HeaderError {
    /// An encoding that few parsers undo.
    #[error("the server sent its response with the content encoding `{0}`, which is not supported: use gzip or none")]
    Encoding(String),
    /// A charset in which the bytes of a message mean something else.
    #[error("the server sent its response in the charset `{0}`, which is not supported: MCP messages are UTF-8")]
    Charset(String),
}

/// What the headers of a response say about its body.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    /// Whether a parser could treat the body as an event stream.
    pub is_stream: bool,
    /// Whether it is compressed, by gzip.
    pub is_compressed: bool,
}

impl Content {
    /// Reads the values of the headers `content-type` and `content-encoding`: in lower case, those of several headers joined by
    /// commas.
    ///
    /// # Errors
    /// [`HeaderError`] if parsers may disagree about what the bytes say.
    pub fn of(content_type: &str, content_encoding: &str) -> Result<Self, HeaderError> {
        for parameter in content_type.split([';', ',']) {
            let Some((name, value)) = parameter.split_once('=') else { continue };
            let charset = value.trim().trim_matches(['"', '\'']);
            if name.trim().starts_with("charset") && !CHARSETS.contains(&charset) {
                return Err(HeaderError::Charset(charset.to_owned()));
            }
        }
        let is_compressed = match content_encoding.trim() {
            "" | "identity" => false,
            "gzip" | "x-gzip" => true,
            other => return Err(HeaderError::Encoding(other.to_owned())),
        };
        Ok(Self { is_stream: content_type.contains("text/event-stream"), is_compressed })
    }
}

/// The kind of a body, by its first bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyKind {
    /// JSON, complete or not.
    Message,
    /// Lines of an event stream.
    Events,
    /// UTF-16 or UTF-32, which some parsers detect.
    Wide,
    /// Anything else.
    Text,
}

/// Classifies a body by its first bytes that are not white space.
pub fn classify(body: &[u8]) -> BodyKind {
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
