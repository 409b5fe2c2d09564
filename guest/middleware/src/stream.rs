//! The response to the client: an event stream. Events go on at once and byte for byte, unless one has the result of a tool that is
//! replaced.

use bytes::Bytes;
use lro_http::{BodyKind, Buffer, Event, classify};
use lro_mcp::Message;
use memchr::{memchr, memchr2};
use wit_bindgen::{StreamReader, StreamResult, StreamWriter};

use crate::answer::of_parts;
use crate::bindings::wasi::http::types::Response;
use crate::bindings::{wit_future, wit_stream};
use crate::body::{self, SLICE_BYTES, Trailers};
use crate::long::{LongEvent, Pushed};
use crate::message::{Decided, Exchange};

/// Number of leading bytes that classify a stream.
const HEAD_BYTES: usize = 8;

/// Bytes of an event that are collected here before another component holds its data.
pub(crate) const SHORT_BYTES_MAX: usize = 256 << 10;

pub(crate) type EventReader = lro_http::EventReader<Memory>;

/// An event in memory, of at most so many bytes.
pub(crate) struct Memory {
    limit: usize,
    bytes: Vec<u8>,
}

/// An event is larger than the limit.
pub(crate) struct TooLarge;

/// The client is gone, or an event too large.
enum Ended {
    Client,
    TooLarge,
}

impl From<TooLarge> for Ended {
    fn from(_: TooLarge) -> Self {
        Self::TooLarge
    }
}

impl Buffer for Memory {
    type Limits = usize;
    type Error = TooLarge;

    fn new(limit: &usize) -> Self {
        Self { limit: *limit, bytes: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) -> Result<(), TooLarge> {
        if bytes.len() > self.limit.saturating_sub(self.bytes.len()) {
            return Err(TooLarge);
        }
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    fn finish(self) -> Result<Bytes, TooLarge> {
        Ok(self.bytes.into())
    }
}

/// A stream on its way to the client.
struct Events {
    exchange: Exchange,
    reader: EventReader,
    /// The event under way, if it is long.
    long: Option<LongEvent>,
    /// Bytes of the event under way that the reader has.
    collected: usize,
    /// Whether the event under way is of a form in which it is collected, however long.
    is_collected: bool,
    /// The first bytes, until they show whether this is an event stream.
    head: Option<Vec<u8>>,
    /// Whether events have ids, so that the client can resume the stream.
    has_event_id: bool,
}

/// The response to the client, whose body follows that of the server.
pub(crate) fn of(exchange: Exchange, response: Response) -> Response {
    let (status, headers) = (response.get_status_code(), response.get_headers().clone());
    // It is that of another body.
    let _ = headers.delete("content-length");
    let (body, trailers) = body::of_response(response);
    let (writer, reader) = wit_stream::new();
    let (ended, end) = wit_future::new(|| Ok(None));
    let events = Events {
        reader: EventReader::new(exchange.settings.message_bytes),
        exchange,
        long: None,
        collected: 0,
        is_collected: false,
        head: Some(Vec::new()),
        has_event_id: false,
    };
    wit_bindgen::spawn_local(async move {
        events.forward(body, trailers, writer).await;
        drop(ended);
    });
    of_parts(status, headers, Some(reader), end)
}

impl Events {
    /// Forwards the stream until it ends, or the client is gone.
    async fn forward(mut self, mut body: StreamReader<u8>, trailers: Trailers, mut writer: StreamWriter<u8>) {
        let mut slice = Vec::with_capacity(SLICE_BYTES);
        loop {
            let (result, read) = body.read(slice).await;
            slice = read;
            if !matches!(result, StreamResult::Complete(_)) {
                break;
            }
            if self.is_not_a_stream(&slice) {
                let reason = "the server declared its response as an event stream, but it is not one";
                return self.fail(reason, &mut writer).await;
            }
            match self.read(&slice, &mut writer).await {
                Ok(()) => slice.clear(),
                Err(Ended::Client) => return,
                Err(Ended::TooLarge) => return self.too_large(&mut writer).await,
            }
        }
        if let Some(long) = self.long.take() {
            match self.collect(&long, &mut writer).await {
                Ok(()) => {}
                Err(Ended::Client) => return,
                Err(Ended::TooLarge) => return self.too_large(&mut writer).await,
            }
        }
        let reason = match trailers.await {
            Ok(_) => "the server ended the stream before it answered".to_owned(),
            Err(error) => format!("the connection to the server failed: {error}"),
        };
        self.end(&reason, &mut writer).await;
    }

    /// Reads bytes of the stream, and writes what becomes of the events that end in them.
    async fn read(&mut self, mut bytes: &[u8], writer: &mut StreamWriter<u8>) -> Result<(), Ended> {
        while !bytes.is_empty() {
            let Some(mut long) = self.long.take() else {
                self.push(bytes, writer).await?;
                return self.hold().map_err(Ended::from);
            };
            let (used, pushed) = long.push(bytes);
            bytes = bytes.get(used..).unwrap_or_default();
            match pushed {
                Pushed::Open if long.size() > self.exchange.settings.message_bytes as u64 => {
                    return Err(Ended::TooLarge);
                }
                Pushed::Open => self.long = Some(long),
                Pushed::Closed => self.long_event(long, writer).await?,
                Pushed::Other => self.collect(&long, writer).await?,
            }
        }
        Ok(())
    }

    /// Gives bytes to the reader of events.
    async fn push(&mut self, bytes: &[u8], writer: &mut StreamWriter<u8>) -> Result<(), Ended> {
        let mut events = Vec::new();
        let read = self.reader.push(bytes, &mut events);
        self.collected += bytes.len();
        if !events.is_empty() {
            (self.collected, self.is_collected) = (bytes.len(), false);
        }
        for event in events {
            if !self.event(event, writer).await {
                return Err(Ended::Client);
            }
        }
        read.map_err(Ended::from)
    }

    /// Lets another component hold the data of an event that becomes long.
    fn hold(&mut self) -> Result<(), TooLarge> {
        if self.is_collected || self.collected <= SHORT_BYTES_MAX {
            return Ok(());
        }
        let Some(open) = self.reader.take_open() else { return Ok(()) };
        match LongEvent::of(open.bytes) {
            Ok(long) => self.long = Some(long),
            Err(open) => {
                self.is_collected = true;
                self.reader.push(&open, &mut Vec::new())?;
            }
        }
        self.collected = 0;
        Ok(())
    }

    /// Gives an event that was held to the reader of events.
    async fn collect(&mut self, long: &LongEvent, writer: &mut StreamWriter<u8>) -> Result<(), Ended> {
        self.is_collected = true;
        for piece in long.pieces() {
            self.push(&piece, writer).await?;
        }
        Ok(())
    }

    /// Writes a long event, or what replaces it.
    async fn long_event(&mut self, long: LongEvent, writer: &mut StreamWriter<u8>) -> Result<(), Ended> {
        let frame = long.frame().filter(|frame| !frame.has_braces_beside());
        let Some((frame, decided)) = frame.and_then(|frame| Some((frame, self.exchange.decide_held(long.data())?)))
        else {
            return self.collect(&long, writer).await;
        };
        self.has_event_id |= frame.id().is_some_and(|id| !id.is_empty());
        let is_there = match decided {
            Decided::Replace(message) => write(frame.with_data(&message), writer).await,
            Decided::Pass | Decided::Refuse { .. } => write(long.pieces(), writer).await,
        };
        if is_there { Ok(()) } else { Err(Ended::Client) }
    }

    /// Whether a stream starts with bytes that some parsers take for a single message.
    fn is_not_a_stream(&mut self, slice: &[u8]) -> bool {
        let Some(head) = &mut self.head else { return false };
        let slice = if head.is_empty() { slice.trim_ascii_start() } else { slice };
        head.extend(slice.iter().take(HEAD_BYTES - head.len()));
        let form = classify(head);
        if head.len() >= HEAD_BYTES {
            self.head = None;
        }
        matches!(form, BodyKind::Message | BodyKind::Wide)
    }

    /// Writes an event, or what replaces it. Returns whether the client is still there.
    async fn event(&mut self, event: Event, writer: &mut StreamWriter<u8>) -> bool {
        let pieces = self.replacement(&event).unwrap_or_else(|| vec![event.raw().clone()]);
        drop(event);
        write(pieces, writer).await
    }

    /// The replacement of an event; `None` to forward it unchanged.
    fn replacement(&mut self, event: &Event) -> Option<Vec<Bytes>> {
        self.has_event_id |= event.id().is_some_and(|id| !id.is_empty());
        if event.has_braces_beside() {
            // A lenient client could find a message there.
            return Some(Vec::new());
        }
        // Data without an object cannot be a message.
        let data = event.data().filter(|data| memchr(b'{', data).is_some())?;
        match self.exchange.decide(&data) {
            Decided::Pass if event.data_lines() > 1 && has_message_line(&data) => {
                Some(event.with_data(&on_one_line(&data)))
            }
            Decided::Pass => None,
            Decided::Replace(message) => Some(event.with_data(&message)),
            Decided::Refuse { errors, .. } => {
                let Some((first, others)) = errors.split_first() else { return Some(Vec::new()) };
                Some(event.with_data(first).into_iter().chain(others.iter().map(event_of)).collect())
            }
        }
    }

    /// The end of the stream. A client that can resume it gets no error.
    async fn end(mut self, reason: &str, writer: &mut StreamWriter<u8>) {
        let limit = self.exchange.settings.message_bytes;
        let reader = std::mem::replace(&mut self.reader, EventReader::new(limit));
        let rest = reader.finish().ok().flatten();
        let event = rest.as_ref().and_then(|rest| EventReader::event_of_rest(rest, &limit).ok());
        let replaced = match &event {
            Some(event) => self.replacement(event),
            None => Some(Vec::new()),
        };
        let goes_on = replaced.is_none();
        let mut pieces = replaced.unwrap_or_default();
        let is_resumable = self.has_event_id && !self.exchange.asked.is_modern;
        let failure = if is_resumable { None } else { self.exchange.fail(reason) };
        match failure {
            Some(failure) => pieces.push(event_of(&failure)),
            None if goes_on => pieces.extend(rest),
            None => {}
        }
        write(pieces, writer).await;
    }

    async fn too_large(self, writer: &mut StreamWriter<u8>) {
        let limit = self.exchange.settings.message_bytes;
        let reason = format!("the message has more than {limit} bytes: raise the limit `LRO_MESSAGE_BYTES`");
        self.fail(&reason, writer).await;
    }

    async fn fail(mut self, reason: &str, writer: &mut StreamWriter<u8>) {
        write(self.exchange.fail(reason).iter().map(event_of), writer).await;
    }
}

/// Writes pieces. Returns whether the client is still there.
async fn write(pieces: impl IntoIterator<Item = Bytes>, writer: &mut StreamWriter<u8>) -> bool {
    for piece in pieces {
        if !body::write(writer, piece.into()).await {
            return false;
        }
    }
    true
}

/// A message as an event.
fn event_of(message: &Bytes) -> Bytes {
    [b"event: message\ndata: ", &message[..], b"\n\n"].concat().into()
}

/// Whether a line of a text is a message by itself, which a client that does not join data lines would read.
fn has_message_line(text: &Bytes) -> bool {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| memchr(b'{', line).is_some() && Message::read(text.slice_ref(line)).fault().is_none())
}

/// Replaces line breaks in a message by spaces. JSON allows line breaks only between tokens, where a space means the same.
fn on_one_line(text: &Bytes) -> Bytes {
    if memchr2(b'\n', b'\r', text).is_none() {
        return text.clone();
    }
    text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }).collect()
}
