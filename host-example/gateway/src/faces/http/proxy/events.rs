//! An event stream on its way from the server to the client. Events stay as they are unless a tool result in them is replaced.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use lro_host::mcp::{Kind, Message};
use lro_transport::{Event, EventReader};
use memchr::memchr;
use tokio::sync::watch;

use super::RequestInfo;
use super::heartbeats::UPDATE_POLL_INTERVAL;
use crate::faces::http::streams::event_of;
use crate::listener::body;
use crate::session::{FromServer, Refused, Session, end_of_subscription};
use crate::upstream::content::{self, BodyKind, Chunks, ContentError};

/// Number of leading bytes that classify a stream.
const HEAD_BYTES: usize = 8;

/// An event stream being forwarded to the client.
pub(super) struct EventStream {
    chunks: Chunks,
    /// `None` at the end of the stream.
    reader: Option<EventReader>,
    ready: VecDeque<Bytes>,
    session: Arc<Session>,
    request_info: RequestInfo,
    /// How long the server may send nothing, if the stream is to end.
    idle_timeout: Option<Duration>,
    /// Signals the end of a long-lived stream.
    ending: Option<watch::Receiver<bool>>,
    /// The first bytes, until they show whether this is an event stream.
    head: Option<Vec<u8>>,
    /// Whether events have ids, so that the client can resume the stream.
    has_event_id: bool,
}

impl EventStream {
    /// `idle_timeout` bounds the silence of a stream that is to end, and `ending` ends one that is not.
    pub(super) fn new(
        session: Arc<Session>,
        request_info: RequestInfo,
        chunks: Chunks,
        idle_timeout: Option<Duration>,
        ending: Option<watch::Receiver<bool>>,
    ) -> Self {
        Self {
            chunks,
            reader: Some(EventReader::new(Arc::clone(&session.rules.limits))),
            ready: VecDeque::new(),
            head: session.rules.changes().then(Vec::new),
            session,
            request_info,
            idle_timeout,
            ending,
            has_event_id: false,
        }
    }

    /// The next bytes for the client; `None` at the end.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            if let Some(piece) = self.ready.pop_front() {
                return Some(piece);
            }
            self.reader.as_ref()?;
            match self.step().await {
                Step::Chunk(Ok(chunk)) => self.read(&chunk).await,
                Step::Chunk(Err(error)) => {
                    self.fail(&error.to_string());
                }
                Step::End => self.end().await,
                Step::Timeout(timeout) => {
                    self.fail(&format!("the server sent nothing for {} ms", timeout.as_millis()));
                }
                Step::Stop => self.stop(),
                Step::Look => {
                    let news = self.session.due_notifications().await;
                    self.ready.extend(news.iter().map(|message| event_of(message)));
                }
            }
        }
    }

    async fn step(&mut self) -> Step {
        let of_chunk = |chunk: Option<_>| chunk.map_or(Step::End, Step::Chunk);
        if let Some(timeout) = self.idle_timeout {
            let chunk = tokio::time::timeout(timeout, self.chunks.next()).await;
            return chunk.map_or(Step::Timeout(timeout), of_chunk);
        }
        let Some(ending) = &mut self.ending else { return of_chunk(self.chunks.next().await) };
        tokio::select! {
            chunk = self.chunks.next() => of_chunk(chunk),
            _ = ending.wait_for(|ending| *ending) => Step::Stop,
            // Events are forwarded whole, so others fit between them.
            () = tokio::time::sleep(UPDATE_POLL_INTERVAL) => Step::Look,
        }
    }

    /// Handles the end of the stream. A client that can resume the stream gets no error.
    async fn end(&mut self) {
        let rest = self.reader.take().and_then(|reader| reader.finish().ok().flatten());
        let event = rest.as_ref().and_then(|rest| EventReader::event_of_rest(rest, &self.session.rules.limits).ok());
        let replaced = match &event {
            Some(event) => self.replacement(event).await,
            None => Some(Vec::new()),
        };
        let goes_on = replaced.is_none();
        self.ready.extend(replaced.into_iter().flatten());
        let is_resumable = self.has_event_id && !self.request_info.modern;
        if (is_resumable || !self.fail("the server ended the stream before it answered")) && goes_on {
            self.ready.extend(rest);
        }
    }

    /// Ends a long-lived stream.
    fn stop(&mut self) {
        self.reader = None;
        if let Some(id) = self.request_info.id.as_ref().filter(|_| self.request_info.modern) {
            self.ready.push_back(event_of(&end_of_subscription(id)));
        }
    }

    async fn read(&mut self, chunk: &[u8]) {
        if self.is_not_a_stream(chunk) {
            self.fail("the server declared its response as an event stream, but it is not one");
            return;
        }
        let Some(reader) = &mut self.reader else { return };
        let mut events = Vec::new();
        let read = reader.push(chunk, &mut events);
        for event in events {
            self.event(&event).await;
        }
        if let Err(error) = read {
            self.fail(&error.to_string());
        }
    }

    /// Whether a stream starts with bytes that some parsers take for a single message.
    fn is_not_a_stream(&mut self, chunk: &[u8]) -> bool {
        let Some(head) = &mut self.head else { return false };
        let chunk = if head.is_empty() { chunk.trim_ascii_start() } else { chunk };
        head.extend(chunk.iter().take(HEAD_BYTES - head.len()));
        let form = content::classify(head);
        if head.len() >= HEAD_BYTES {
            self.head = None;
        }
        matches!(form, BodyKind::Message | BodyKind::Wide)
    }

    async fn event(&mut self, event: &Event) {
        match self.replacement(event).await {
            Some(pieces) => self.ready.extend(pieces),
            None => self.pass(event),
        }
    }

    /// The replacement of an event; `None` to forward it unchanged.
    async fn replacement(&mut self, event: &Event) -> Option<Vec<Bytes>> {
        self.has_event_id |= event.id().is_some_and(|id| !id.is_empty());
        let changes = self.session.rules.changes();
        if changes && event.has_braces_beside() {
            tracing::warn!("dropped an event from the server with message-like text outside its data");
            return Some(Vec::new());
        }
        // Data without an object cannot be a message.
        let data = event.data().filter(|data| !changes || memchr(b'{', data).is_some())?;
        let message = self.session.parse_async(&data).await;
        let call = self.request_info.id.as_ref().filter(|_| message.kind() == Kind::Request);
        if call.is_some_and(|call| self.session.ask_job(&message, Some(call))) {
            // The client of a job no longer reads its stream.
            return Some(Vec::new());
        }
        let answer = match self.session.server_message_async(message).await {
            FromServer::Pass(answer) => answer,
            FromServer::Refuse(refused) => return Some(replacements(event, &refused)),
            FromServer::Nothing => return Some(Vec::new()),
        };
        let is_same = answer.as_ptr() == data.as_ptr() && answer.len() == data.len();
        if is_same && changes && event.data_lines() > 1 && has_message_line(&data) {
            return Some(event.with_data(&body::on_one_line(data)));
        }
        (!is_same).then(|| event.with_data(&answer))
    }

    fn pass(&mut self, event: &Event) {
        self.ready.extend(body::pieces(event.raw().clone()));
    }

    /// Ends the stream with an error for the request, if it is pending. Returns whether it was.
    fn fail(&mut self, reason: &str) -> bool {
        self.reader = None;
        let failure = self.request_info.id.as_ref().and_then(|id| self.session.fail(id, reason));
        self.ready.extend(failure.as_ref().map(|failure| event_of(&failure.error)));
        failure.is_some()
    }
}

/// The next step of a stream.
enum Step {
    Chunk(Result<Bytes, ContentError>),
    End,
    Timeout(Duration),
    Stop,
    /// It is time to look for news of jobs.
    Look,
}

/// The errors that replace an event. The first keeps the other fields of the event.
fn replacements(event: &Event, refused: &Refused) -> Vec<Bytes> {
    let Some((first, others)) = refused.failures.split_first() else { return Vec::new() };
    event.with_data(&first.error).into_iter().chain(others.iter().map(|other| event_of(&other.error))).collect()
}

/// Whether a line of a text is a message by itself, which a client that does not join data lines would read.
fn has_message_line(text: &Bytes) -> bool {
    let mut lines = text.split(|byte| matches!(byte, b'\n' | b'\r'));
    lines.any(|line| memchr(b'{', line).is_some() && Message::read(text.slice_ref(line)).fault().is_none())
}
