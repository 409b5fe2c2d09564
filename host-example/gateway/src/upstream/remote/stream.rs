//! Streams of events: those of responses, which are resumed, and the one for messages that belong to no request.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use lro_host::mcp::{Id, Message};
use lro_transport::{Event, EventReader};
use reqwest::header::{ACCEPT, HeaderValue};
use reqwest::{Response, StatusCode};

use super::{ExchangeError, Inner};
use crate::headers::LAST_EVENT_ID;
use crate::upstream::content::{self, Content};
use crate::upstream::endpoint::Endpoint;
use crate::upstream::link::Receive;

/// Delay before reconnecting to a stream that ended, unless the server has said another one.
const RECONNECT_DELAY: Duration = Duration::from_secs(1);

/// Minimum delay before reconnecting, whatever the server has said: its streams may end at once.
const RECONNECT_DELAY_MIN: Duration = Duration::from_millis(100);

/// Maximum delay before trying again to open a stream that the server did not open. It doubles from [`RECONNECT_DELAY`] on.
const RECONNECT_DELAY_MAX: Duration = Duration::from_secs(60);

/// Where a stream has ended.
#[derive(Clone, Debug, Default)]
pub(super) struct StreamEnd {
    /// The id of the last event that had one.
    pub(super) last: Option<String>,
    /// How long to wait before it is opened again, as the server said last.
    retry: Option<Duration>,
}

impl StreamEnd {
    fn note(&mut self, event: &Event) {
        if let Some(id) = event.id() {
            self.last = Some(id.to_owned());
        }
        self.retry = event.retry().or(self.retry);
    }

    fn pause(&self) -> Duration {
        self.retry.unwrap_or(RECONNECT_DELAY).max(RECONNECT_DELAY_MIN)
    }
}

impl<R: Receive + 'static> Inner<R> {
    /// Forwards the events of a response, which goes on after `end`. Returns where it has ended, and whether one of them
    /// answers the request.
    pub(super) async fn events(
        self: &Arc<Self>,
        content: Content,
        response: Response,
        id: Option<&Id>,
        mut end: StreamEnd,
    ) -> Result<(StreamEnd, bool), ExchangeError> {
        let mut chunks = content::chunks(content, response);
        let mut reader = EventReader::new(Arc::clone(&self.session.rules.limits));
        let (mut events, mut answered) = (Vec::new(), false);
        while let Some(chunk) = chunks.next().await {
            let chunk = match chunk {
                Ok(chunk) => chunk,
                Err(_) if end.last.is_some() || answered => return Ok((end, answered)),
                Err(error) => return Err(error.into()),
            };
            let read = reader.push(&chunk, &mut events);
            for event in events.drain(..) {
                end.note(&event);
                if let Some(data) = event.data() {
                    answered |= self.receive(data, id);
                }
            }
            read?;
        }
        if let Some(data) = self.data_of_rest(reader) {
            answered |= self.receive(data, id);
        }
        Ok((end, answered))
    }

    /// The data of the last event of a stream, behind which the blank line may be missing.
    fn data_of_rest(&self, reader: EventReader) -> Option<Bytes> {
        let rest = reader.finish().ok().flatten()?;
        let data = EventReader::event_of_rest(&rest, &self.session.rules.limits).ok()?.data()?;
        Message::read(data.clone()).fault().is_none().then_some(data)
    }

    /// The first event that is wanted, however long the stream goes on behind it.
    pub(super) async fn event_that(
        &self,
        content: Content,
        response: Response,
        is_wanted: impl Fn(&Message) -> bool,
    ) -> Result<Option<Message>, ExchangeError> {
        let mut chunks = content::chunks(content, response);
        let mut reader = EventReader::new(Arc::clone(&self.session.rules.limits));
        let mut events = Vec::new();
        while let Some(chunk) = chunks.next().await {
            let read = reader.push(&chunk?, &mut events);
            let mut messages = events.drain(..).filter_map(|event| event.data()).map(Message::read);
            if let Some(found) = messages.find(&is_wanted) {
                return Ok(Some(found));
            }
            read?;
        }
        Ok(self.data_of_rest(reader).map(Message::read).filter(|message| is_wanted(message)))
    }

    /// Resumes a stream that ended before the response arrived, for as long as the response is awaited.
    pub(super) async fn resume(self: &Arc<Self>, mut end: StreamEnd, id: &Id) -> Result<bool, ExchangeError> {
        while self.session.is_pending(id) {
            let opened = self.opened(&end, end.pause(), || self.session.is_pending(id)).await;
            let Some(response) = opened else { return Ok(!self.session.is_pending(id)) };
            let content = content::of_headers(response.headers())?;
            let answered;
            (end, answered) = self.events(content, response, Some(id), end).await?;
            if answered {
                break;
            }
        }
        Ok(true)
    }

    /// Opens a stream behind `end` after a pause, and after longer ones while the server may open it later. `None` if it does
    /// not, and when the stream is not wanted any more.
    async fn opened(&self, end: &StreamEnd, mut pause: Duration, is_wanted: impl Fn() -> bool) -> Option<Response> {
        loop {
            tokio::time::sleep(pause).await;
            match self.get(end.last.as_deref()).await {
                Ok(response) if response.status().is_success() => return Some(response),
                Ok(response) if !may_open_later(response.status()) => return None,
                // The server may be starting anew.
                Ok(_) | Err(_) if is_wanted() => pause = longer(pause),
                Ok(_) | Err(_) => return None,
            }
        }
    }

    async fn get(&self, last: Option<&str>) -> Result<Response, ExchangeError> {
        let request = self.with_session(self.endpoint.client().get(self.endpoint.url()));
        let request = request.header(ACCEPT, "text/event-stream");
        let request = match last.and_then(|last| HeaderValue::from_str(last).ok()) {
            Some(last) => request.header(LAST_EVENT_ID, last),
            None => request,
        };
        request.send().await.map_err(|error| ExchangeError::Unreachable(Endpoint::explain(&error)))
    }

    /// Opens the stream for messages that belong to no request, if the server has one.
    pub(super) fn listen(self: &Arc<Self>) {
        if std::mem::replace(&mut self.state().is_listening, true) {
            return;
        }
        let inner = Arc::clone(self);
        tokio::spawn(async move {
            let (mut end, mut pause) = (StreamEnd::default(), Duration::ZERO);
            while let Some(response) = inner.opened(&end, pause, || true).await {
                let Ok(content) = content::of_headers(response.headers()) else { break };
                if let Ok((next, _)) = inner.events(content, response, None, end.clone()).await {
                    end = next;
                }
                pause = end.pause();
            }
            inner.state().is_listening = false;
        });
    }
}

/// Whether a server that has answered the request for a stream so may open it later.
fn may_open_later(status: StatusCode) -> bool {
    status.is_server_error() || matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::TOO_MANY_REQUESTS)
}

/// The pause after one in vain.
fn longer(pause: Duration) -> Duration {
    (pause * 2).clamp(RECONNECT_DELAY, RECONNECT_DELAY_MAX.max(pause))
}
