//! Resources of the server in which results grow: while a call is a job, the gateway reads them again and again, and keeps what
//! is new.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use lro_host::mcp::{Id, Message, method};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use tokio::sync::Notify;

use super::server_task::own_request;
use crate::clock::Clock;
use crate::session::Session;
use crate::session::own_request::own_id;
use crate::session::pending::{Call, ToolCall};
use crate::tenants::jobs::RunningJob;

/// Time between two reads, unless the server says that the resource has changed.
const PAUSE: Duration = Duration::from_secs(2);

/// Least time between two reads, whatever the server says, and most.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(30);

/// Each read gets the whole resource: the pause after it is at least so many times as long as the read.
const PAUSE_FACTOR: u32 = 10;

/// A resource in which the result of a call grows.
#[derive(Debug)]
pub(in crate::session) struct GrowingResource {
    uri: String,
    changed: Notify,
}

/// What has been kept of a resource.
#[derive(Default)]
struct Kept {
    bytes: usize,
    digest: Sha256,
}

impl Kept {
    /// The whole lines that have come since the last time.
    ///
    /// # Errors
    /// When the text does not begin with what has been kept.
    fn new_lines<'a>(&mut self, text: &'a str) -> Result<&'a str, &'static str> {
        let grown = text.get(..self.bytes).zip(text.get(self.bytes..));
        let same = |(before, _): &(&str, &str)| Sha256::digest(before) == self.digest.clone().finalize();
        let (_, more) = grown.filter(same).ok_or("it does not begin with what it had any more")?;
        let lines = more.rfind('\n').map_or("", |end| &more[..=end]);
        self.bytes += lines.len();
        self.digest.update(lines);
        Ok(lines)
    }
}

impl Session {
    /// The resource in which the result of a call grows that may become a job.
    pub(super) fn growing_of(&self, tool: &ToolCall, message: &Message) -> Option<Arc<GrowingResource>> {
        let uri = self.rules.config.partial_resource(&tool.name)?.uri(message);
        if uri.is_none() {
            tracing::warn!(tool = tool.name, "the call lacks an argument that `partial-resource` names");
        }
        Some(Arc::new(GrowingResource { uri: uri?, changed: Notify::new() }))
    }

    /// Hears that a resource has changed.
    pub(in crate::session) fn hear_update(&self, notification: &Message) {
        let params = notification.params();
        let Some(uri) = params.uri.as_deref() else { return };
        let state = self.state();
        let calls = state.calls.values().flatten();
        let growing = calls.filter_map(|call| call.detachment.as_ref()?.growing.as_ref());
        growing.filter(|growing| growing.uri == uri).for_each(|growing| growing.changed.notify_one());
    }

    /// Reads the resource of a call that has become a job, until the job ends.
    pub(super) fn follow_resource(self: &Arc<Self>, call: &Call, job: &Arc<RunningJob>) {
        let growing = call.detachment.as_ref().and_then(|detachment| detachment.growing.clone());
        let Some(growing) = growing else { return };
        let (session, call, job) = (Arc::clone(self), call.clone(), Arc::clone(job));
        let follow = async move {
            if let Err(reason) = session.read_growing(&growing, &call, &job).await {
                let (tenant, uri) = (session.tenant(), &growing.uri);
                tracing::warn!(tenant, job = %job.handle, uri, reason, "does not follow a resource any more");
            }
        };
        self.rules.collectors.spawn(follow, drop);
    }

    async fn read_growing(
        self: &Arc<Self>,
        growing: &GrowingResource,
        call: &Call,
        job: &RunningJob,
    ) -> Result<(), String> {
        let clock = Clock::get().map_err(|error| format!("the gateway cannot start a thread: {error}"))?;
        let mut kept = Kept::default();
        while !job.has_ended() && !job.is_canceled() {
            let begun = Instant::now();
            match self.read_once(&growing.uri, call).await? {
                Some(text) => {
                    let lines = kept.new_lines(&text)?;
                    if let Ok(store) = &self.rules.filter.store
                        && job.parts.take_lines(lines)
                    {
                        job.parts.write(store);
                    }
                }
                None => tracing::debug!(uri = growing.uri, "a resource cannot be read, or has no text"),
            }
            let least = (begun.elapsed() * PAUSE_FACTOR).clamp(PAUSE_MIN, PAUSE_MAX);
            clock.sleep(least).await;
            clock.until(Some(Instant::now() + PAUSE), growing.changed.notified()).await;
        }
        Ok(())
    }

    /// The text of a resource; `None` if it has none now.
    ///
    /// # Errors
    /// Why it is not to be read again.
    async fn read_once(self: &Arc<Self>, uri: &str, call: &Call) -> Result<Option<String>, String> {
        #[derive(Deserialize)]
        struct Contents {
            contents: Vec<Content>,
        }
        #[derive(Deserialize)]
        struct Content {
            text: Option<String>,
        }
        let id: Id = own_id();
        let uri = serde_json::value::to_raw_value(uri).map_err(|error| error.to_string())?;
        let request: Option<Bytes> = own_request(call, &id, method::RESOURCES_READ, [("uri", uri)]);
        let request = request.ok_or("the call is too large to be kept (gateway.job-call-bytes)")?;
        let send = self.send().ok_or("the server is not connected")?;
        let answer = self.ask_own(&send, id, request).await?;
        let most = self.rules.config.gateway.message_memory.get();
        if answer.bytes().len() as u64 > most {
            return Err(format!("it has more than {most} bytes (gateway.message-memory)"));
        }
        let read: Option<Contents> = answer.result().and_then(|result| serde_json::from_slice(&result).ok());
        Ok(read.and_then(|read| read.contents.into_iter().find_map(|content| content.text)))
    }
}
