//! A tool result as a policy sees it: parts that are read in slices and never copied as a whole.

mod size;

use std::ops::{Range, RangeInclusive};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};
use bytes::Bytes;
use lro_json::{StringError, check_string, decode_string};
pub use size::{Size, SizeUnit};

/// Most bytes that one read returns, as `wit/types.wit` states it: 1 MiB.
pub const SLICE_BYTES_MAX: u32 = 1 << 20;

/// Distance in bytes of two checkpoints inside an escaped text. Bounds the cost of seeking backwards: a checkpoint
/// takes 16 bytes, and a seek decodes at most this much.
const CHECKPOINT_BYTES: usize = 1 << 20;

/// Smallest escaped text, in bytes, that two threads check in parallel.
const PARALLEL_BYTES_MIN: usize = 1 << 20;

/// Escaped bytes of a text that is decoded as a whole when it is first read: a policy reads a text that it writes to files
/// about three times.
const WHOLE_BYTES: RangeInclusive<usize> = 64 << 10..=1 << 20;

/// Fewest remaining bytes of an escaped text for which a thread that decodes ahead of the reader pays off.
const AHEAD_BYTES_MIN: u64 = 512 << 10;

/// Shortest slice, in bytes, for which decoding ahead pays off.
const AHEAD_SLICE_BYTES_MIN: usize = 32 << 10;

/// Most slices decoded ahead of the reader.
const SLICES_AHEAD: usize = 2;

const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Kind of a part of a tool result, as in `wit/types.wit`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PartKind {
    /// Text, which may be JSON.
    Text,
    /// Structured content: one JSON value.
    Structured,
    /// Decoded bytes.
    Binary,
    /// The JSON of a content block of any other type.
    Block,
    /// The JSON of the metadata object.
    Meta,
}

/// One part of a tool result. Its bytes are shared with the message they came from.
#[derive(Clone, Debug)]
pub struct Part {
    /// The kind of content.
    pub kind: PartKind,
    /// Media type such as `image/png`, when the result gives it.
    pub media_type: Option<String>,
    /// URI or name of an embedded resource, when the result gives it. Not safe as a file name.
    pub name: Option<String>,
    source: Source,
}

/// The bytes of a part, in the encoding they arrived in.
#[derive(Clone, Debug)]
enum Source {
    /// Valid UTF-8.
    Text(Bytes),
    /// The inside of a JSON string literal, valid UTF-8 with valid escapes.
    JsonString {
        escaped: Bytes,
        size: u64,
        checkpoints: Vec<Position>,
    },
    Binary(Bytes),
    /// Valid base64, without its padding.
    Base64 {
        text: Bytes,
        size: u64,
    },
}

/// A position in decoded and in escaped bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    decoded: u64,
    escaped: usize,
}

/// The reason why a part is invalid. Offsets are in bytes from its start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PartError {
    /// The bytes are not UTF-8.
    #[error("not UTF-8 at byte {0}")]
    NotUtf8(usize),
    /// An invalid escape sequence, a control character or an unescaped quotation mark.
    #[error("not the inside of a JSON string at byte {0}")]
    NotJsonString(usize),
    /// An escape of half a surrogate pair, which has no UTF-8 encoding.
    #[error("half a surrogate pair at byte {0}")]
    LoneSurrogate(usize),
    /// Not base64 in the standard alphabet.
    #[error("not base64: {0}")]
    NotBase64(base64::DecodeError),
}

impl From<StringError> for PartError {
    fn from(error: StringError) -> Self {
        match error {
            StringError::Invalid(at) => Self::NotJsonString(at),
            StringError::LoneSurrogate(at) => Self::LoneSurrogate(at),
        }
    }
}

/// The reason why a slice cannot be read: the cases of `read-error` in `wit/types.wit` that occur in memory, and a bug.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadError {
    /// No part has this index.
    #[error("no such part")]
    NoSuchPart,
    /// Text was read as bytes, or binary as text.
    #[error("the part is of another kind")]
    WrongKind,
    /// The offset lies inside the character that starts at this byte.
    #[error("the offset lies inside the character at byte {0}")]
    InsideCharacter(u64),
    /// The part cannot be decoded although it was checked on creation: a bug in the host. It ends the call, because a
    /// policy must not mistake the bytes so far for the whole part.
    #[error("the part cannot be decoded at byte {0}: a bug in the host")]
    Undecodable(u64),
}

impl Part {
    /// A part whose text lies in memory unescaped.
    ///
    /// # Errors
    ///
    /// [`PartError::NotUtf8`].
    pub fn text(kind: PartKind, text: Bytes) -> Result<Self, PartError> {
        check_utf8(&text)?;
        Ok(Self::new(kind, Source::Text(text)))
    }

    /// As [`Part::text`], for text that the caller has checked to be UTF-8.
    pub const fn checked_text(kind: PartKind, text: Bytes) -> Self {
        Self::new(kind, Source::Text(text))
    }

    /// A part whose text is the inside of a JSON string literal, with its escapes and without its quotation marks.
    ///
    /// # Errors
    ///
    /// [`PartError::NotUtf8`], [`PartError::NotJsonString`] or [`PartError::LoneSurrogate`].
    pub fn json_string(kind: PartKind, escaped: Bytes) -> Result<Self, PartError> {
        let (valid, part) =
            join(escaped.len(), || check_utf8(&escaped), || Self::checked_json_string(kind, escaped.clone()));
        valid.and(part)
    }

    /// As [`Part::json_string`], for text that the caller checks to be UTF-8, before or at the same time.
    ///
    /// # Errors
    ///
    /// [`PartError::NotJsonString`] or [`PartError::LoneSurrogate`].
    pub fn checked_json_string(kind: PartKind, escaped: Bytes) -> Result<Self, PartError> {
        let (size, checkpoints) = measure(&escaped)?;
        if size == escaped.len() as u64 {
            return Ok(Self::new(kind, Source::Text(escaped)));
        }
        Ok(Self::new(kind, Source::JsonString { escaped, size, checkpoints }))
    }

    /// A binary part whose bytes lie in memory.
    pub fn binary(bytes: Bytes) -> Self {
        Self::new(PartKind::Binary, Source::Binary(bytes))
    }

    /// A binary part given as base64: standard alphabet, padded or not, no white space.
    ///
    /// # Errors
    ///
    /// [`PartError::NotBase64`].
    pub fn base64(text: Bytes) -> Result<Self, PartError> {
        // Decodes everything once in steps, so that a later read cannot fail.
        let mut size = 0;
        let mut scratch = [0; 3 << 10];
        for (index, step) in text.chunks(4 << 10).enumerate() {
            let last = (index + 1) * (4 << 10) >= text.len();
            let decoded = BASE64.decode_slice(step, &mut scratch).map_err(not_base64)?;
            if !last && decoded != scratch.len() {
                return Err(PartError::NotBase64(base64::DecodeError::InvalidPadding));
            }
            size += decoded as u64;
        }
        let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
        let text = text.slice(..text.len() - padding);
        Ok(Self::new(PartKind::Binary, Source::Base64 { text, size }))
    }

    /// The part with a media type.
    #[must_use]
    pub fn with_media_type(mut self, media_type: impl Into<String>) -> Self {
        self.media_type = Some(media_type.into());
        self
    }

    /// The part with a URI or a name.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Bytes of the text as UTF-8, or of the decoded binary part.
    pub fn size(&self) -> u64 {
        match &self.source {
            Source::Text(bytes) | Source::Binary(bytes) => bytes.len() as u64,
            Source::JsonString { size, .. } | Source::Base64 { size, .. } => *size,
        }
    }

    /// The text as a whole, for parts that are known to be small.
    ///
    /// # Errors
    ///
    /// [`ReadError::WrongKind`] for a binary part, and [`ReadError::Undecodable`].
    pub fn into_text(self) -> Result<String, ReadError> {
        match self.source {
            Source::Text(text) => to_text(&text, 0),
            Source::JsonString { escaped, .. } => {
                decode_slice(&escaped, Position::default(), escaped.len(), &mut Vec::new()).map(|(text, _)| text)
            }
            Source::Binary(_) | Source::Base64 { .. } => Err(ReadError::WrongKind),
        }
    }

    const fn new(kind: PartKind, source: Source) -> Self {
        Self { kind, media_type: None, name: None, source }
    }
}

fn not_base64(error: base64::DecodeSliceError) -> PartError {
    match error {
        base64::DecodeSliceError::DecodeError(error) => PartError::NotBase64(error),
        base64::DecodeSliceError::OutputSliceTooSmall => PartError::NotBase64(base64::DecodeError::InvalidPadding),
    }
}

/// Runs two checks of a text of this length in bytes, in parallel when it is long enough for a second thread.
pub fn join<A: Send, B>(bytes: usize, one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    if bytes < PARALLEL_BYTES_MIN || cfg!(target_family = "wasm") {
        return (one(), other());
    }
    thread::scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        // Joining fails only after a panic, which resumes here.
        (one.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), other)
    })
}

/// Checks the inside of a JSON string; returns its decoded size in bytes, and the checkpoints.
fn measure(escaped: &[u8]) -> Result<(u64, Vec<Position>), PartError> {
    let mut checkpoints = Vec::with_capacity(escaped.len() / CHECKPOINT_BYTES);
    let mut position = Position::default();
    while position.escaped < escaped.len() {
        if position.escaped > 0 {
            checkpoints.push(position);
        }
        let mut until = escaped.len().min(position.escaped + CHECKPOINT_BYTES);
        while is_continuation(escaped, until) {
            until += 1;
        }
        let (end, decoded) = check_string(escaped, position.escaped, until)?;
        position = Position { decoded: position.decoded + decoded, escaped: end };
    }
    Ok((position.decoded, checkpoints))
}

fn check_utf8(bytes: &[u8]) -> Result<(), PartError> {
    simdutf8::compat::from_utf8(bytes).map(drop).map_err(|error| PartError::NotUtf8(error.valid_up_to()))
}

/// The parts of one tool result: immutable, shared by the calls that read it.
#[derive(Clone, Debug, Default)]
pub struct Payload {
    parts: Vec<Part>,
    /// The last text that was decoded as a whole. One alone, so that a result of many texts takes no more memory.
    whole: Arc<Mutex<Option<Whole>>>,
}

/// The decoded text of a part.
#[derive(Debug)]
struct Whole {
    part: u32,
    text: Arc<String>,
}

impl Payload {
    /// A tool result of these parts.
    pub fn new(parts: Vec<Part>) -> Self {
        Self { parts, whole: Arc::default() }
    }

    /// The decoded text of a part that is `escaped`.
    fn whole(&self, part: u32, escaped: &[u8]) -> Result<Arc<String>, ReadError> {
        let mut whole = self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        match &*whole {
            Some(whole) if whole.part == part => Ok(Arc::clone(&whole.text)),
            _ => {
                let (text, _) = decode_slice(escaped, Position::default(), escaped.len(), &mut Vec::new())?;
                let text = Arc::new(text);
                *whole = Some(Whole { part, text: Arc::clone(&text) });
                Ok(text)
            }
        }
    }

    /// The parts in the order of the result.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Decoded size of all parts in bytes.
    pub fn size(&self) -> u64 {
        self.parts.iter().map(Part::size).sum()
    }
}

/// Reads the parts of one payload. It remembers where the last read ended: a sequential read decodes only its slice, a
/// read elsewhere at most 1 MiB more.
///
/// When a large text is read sequentially in slices of one length, a thread decodes the next slices ahead.
#[derive(Debug)]
pub struct PayloadReader {
    payload: Arc<Payload>,
    part: u32,
    position: Position,
    /// Buffer for decoding, reused between slices.
    buffer: Vec<u8>,
    ahead: Option<Ahead>,
}

/// The slices after a reader's position, each with its end, decoded by a thread.
#[derive(Debug)]
struct Ahead {
    length: usize,
    slices: Receiver<Result<(String, Position), ReadError>>,
}

impl Ahead {
    /// Starts the thread; `None` when the system cannot start one.
    fn start(escaped: Bytes, size: u64, mut position: Position, length: usize) -> Option<Self> {
        let (decoded, slices) = mpsc::sync_channel(SLICES_AHEAD);
        let decode = move || {
            let mut buffer = Vec::new();
            while position.decoded < size {
                let slice = decode_slice(&escaped, position, length, &mut buffer);
                let Ok((_, end)) = &slice else { return drop(decoded.send(slice)) };
                position = *end;
                if decoded.send(slice).is_err() {
                    return;
                }
            }
        };
        thread::Builder::new().name("lro-decode".into()).spawn(decode).ok()?;
        Some(Self { length, slices })
    }
}

impl PayloadReader {
    /// A reader at the start of the payload.
    pub fn new(payload: Arc<Payload>) -> Self {
        Self { payload, part: 0, position: Position::default(), buffer: Vec::new(), ahead: None }
    }

    /// The payload.
    pub fn payload(&self) -> &Arc<Payload> {
        &self.payload
    }

    /// Up to `length` bytes of a part that is not binary, from byte `offset` on.
    ///
    /// The slice ends between two characters and holds at least one, even when `length` is smaller than it. It is empty
    /// only at or past the end of the part, and never longer than [`SLICE_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// [`ReadError`]; [`ReadError::WrongKind`] for a binary part.
    pub fn read_text(&mut self, part: u32, offset: u64, length: u32) -> Result<String, ReadError> {
        let payload = Arc::clone(&self.payload);
        let length = length.min(SLICE_BYTES_MAX) as usize;
        match &payload.parts.get(part as usize).ok_or(ReadError::NoSuchPart)?.source {
            Source::Text(text) => read_plain(text, offset, length),
            Source::JsonString { escaped, size, checkpoints } => {
                if offset >= *size {
                    return Ok(String::new());
                }
                if WHOLE_BYTES.contains(&escaped.len()) {
                    let text = payload.whole(part, escaped)?;
                    let slice = slice(text.as_bytes(), offset, length)?;
                    return text.get(slice).map(str::to_owned).ok_or(ReadError::Undecodable(offset));
                }
                let sequential = offset > 0 && part == self.part && offset == self.position.decoded;
                self.ahead = self.ahead.take().filter(|ahead| sequential && ahead.length == length);
                let (text, end) = match self.ahead.as_ref().and_then(|ahead| ahead.slices.recv().ok()) {
                    Some(slice) => slice?,
                    None => {
                        let near = self.nearest(part, offset, checkpoints);
                        let start = seek(escaped, near, offset)?;
                        let (text, end) = decode_slice(escaped, start, length, &mut self.buffer)?;
                        let left = size.saturating_sub(end.decoded);
                        if sequential && left >= AHEAD_BYTES_MIN && length >= AHEAD_SLICE_BYTES_MIN {
                            self.ahead = Ahead::start(escaped.clone(), *size, end, length);
                        }
                        (text, end)
                    }
                };
                (self.part, self.position) = (part, end);
                Ok(text)
            }
            Source::Binary(_) | Source::Base64 { .. } => Err(ReadError::WrongKind),
        }
    }

    /// Up to `length` bytes of a binary part, from byte `offset` on; empty only at or past its end or when `length` is
    /// 0, and never longer than [`SLICE_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// [`ReadError`]; [`ReadError::WrongKind`] for a part that is not binary.
    pub fn read_bytes(&mut self, part: u32, offset: u64, length: u32) -> Result<Vec<u8>, ReadError> {
        let source = &self.payload.parts.get(part as usize).ok_or(ReadError::NoSuchPart)?.source;
        let (Source::Binary(_) | Source::Base64 { .. }) = source else {
            return Err(ReadError::WrongKind);
        };
        let Ok(start) = usize::try_from(offset) else { return Ok(Vec::new()) };
        let length = length.min(SLICE_BYTES_MAX) as usize;
        if length == 0 {
            return Ok(Vec::new());
        }
        let end = start.saturating_add(length);
        Ok(match source {
            Source::Base64 { text, size } if offset < *size => {
                let groups = text.get(start / 3 * 4..text.len().min(end.div_ceil(3) * 4));
                let decoded = groups.and_then(|groups| BASE64.decode(groups).ok());
                // Too short to reach the offset in its group, or empty although bytes are left.
                let bytes = decoded.as_ref().and_then(|bytes| bytes.get(start % 3..)).filter(|bytes| !bytes.is_empty());
                let bytes = bytes.ok_or(ReadError::Undecodable(offset))?;
                bytes.get(..length).unwrap_or(bytes).to_vec()
            }
            Source::Binary(bytes) => bytes.get(start..bytes.len().min(end)).unwrap_or_default().to_vec(),
            _ => Vec::new(),
        })
    }

    /// The last known position at or before `offset`.
    fn nearest(&self, part: u32, offset: u64, checkpoints: &[Position]) -> Position {
        let after = checkpoints.partition_point(|checkpoint| checkpoint.decoded <= offset);
        let checkpoint = after.checked_sub(1).and_then(|index| checkpoints.get(index)).copied().unwrap_or_default();
        let here = self.part == part && (checkpoint.decoded..=offset).contains(&self.position.decoded);
        if here { self.position } else { checkpoint }
    }
}

/// A slice of text that needs no decoding.
fn read_plain(text: &Bytes, offset: u64, length: usize) -> Result<String, ReadError> {
    to_text(text.get(slice(text, offset, length)?).ok_or(ReadError::Undecodable(offset))?, offset)
}

/// Where the slice of a text is that [`PayloadReader::read_text`] returns.
fn slice(text: &[u8], offset: u64, length: usize) -> Result<Range<usize>, ReadError> {
    let Some(start) = usize::try_from(offset).ok().filter(|start| *start < text.len()) else {
        return Ok(text.len()..text.len());
    };
    if is_continuation(text, start) {
        let character = (0..start).rev().find(|index| !is_continuation(text, *index)).unwrap_or_default();
        return Err(ReadError::InsideCharacter(character as u64));
    }
    let mut end = text.len().min(start + length);
    while end > start && is_continuation(text, end) {
        end -= 1;
    }
    if end == start {
        end = (start + 1..text.len()).find(|index| !is_continuation(text, *index)).unwrap_or(text.len());
    }
    Ok(start..end)
}

fn is_continuation(text: &[u8], index: usize) -> bool {
    text.get(index).is_some_and(|byte| byte & 0xC0 == 0x80)
}

/// Decodes and discards the text from `position` to `offset`.
fn seek(escaped: &[u8], mut position: Position, offset: u64) -> Result<Position, ReadError> {
    let mut scratch = [0; 16 << 10];
    while position.decoded < offset {
        let room = usize::try_from(offset - position.decoded).unwrap_or(usize::MAX).min(scratch.len());
        let undecodable = ReadError::Undecodable(position.decoded);
        let rest = escaped.get(position.escaped..).ok_or(undecodable)?;
        let (taken, put) = decode_string(rest, scratch.get_mut(..room).ok_or(undecodable)?);
        if put == 0 {
            return Err(ReadError::InsideCharacter(position.decoded));
        }
        position = Position { decoded: position.decoded + put as u64, escaped: position.escaped + taken };
    }
    Ok(position)
}

/// Decodes up to `length` bytes, but at least one character, which must exist. `output` is a scratch buffer.
fn decode_slice(
    escaped: &[u8],
    start: Position,
    length: usize,
    output: &mut Vec<u8>,
) -> Result<(String, Position), ReadError> {
    let undecodable = ReadError::Undecodable(start.decoded);
    let rest = escaped.get(start.escaped..).ok_or(undecodable)?;
    output.resize(length.min(rest.len()), 0);
    let (mut taken, mut put) = decode_string(rest, output);
    let mut room = length;
    while put == 0 && room < 4 {
        // The next character is longer than `length`; no character has more than 4 bytes.
        room += 1;
        output.resize(room, 0);
        (taken, put) = decode_string(rest, output);
    }
    let decoded = output.get(..put).filter(|decoded| !decoded.is_empty()).ok_or(undecodable)?;
    let text = to_text(decoded, start.decoded)?;
    Ok((text, Position { decoded: start.decoded + put as u64, escaped: start.escaped + taken }))
}

/// The text of the bytes from `offset` on, which were checked on creation of the part.
fn to_text(bytes: &[u8], offset: u64) -> Result<String, ReadError> {
    simdutf8::basic::from_utf8(bytes).map(str::to_owned).map_err(|_| ReadError::Undecodable(offset))
}
