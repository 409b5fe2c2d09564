//! What becomes of a message. The session decides it; a face only moves the bytes.

use std::fmt;

use bytes::{Bytes, BytesMut};
use lro_host::job::Job;
use lro_host::mcp::Id;

use crate::session::own::OwnCall;

/// What becomes of a message from the client.
#[derive(Debug)]
pub enum FromClient {
    /// Send this to the server.
    Forward(Bytes),
    /// Send this to the client, and nothing to the server.
    Answer(Bytes),
    /// Send nothing: the client has its answer.
    Nothing,
    /// Send this notification to the client, and nothing to the server. The request stays open: it is a subscription.
    Open(Bytes),
}

/// What becomes of a message from the server.
#[derive(Debug)]
pub enum FromServer {
    /// Send this to the client: the message itself, or what replaces it.
    Pass(Bytes),
    /// Send only the errors in this to the client.
    Refuse(Refused),
    /// Send nothing: the message was for the gateway.
    Nothing,
}

impl FromServer {
    /// The messages for the client, in order.
    pub fn into_messages(self) -> Vec<Bytes> {
        match self {
            Self::Pass(message) => vec![message],
            Self::Refuse(refused) => refused.failures.into_iter().map(|failure| failure.error).collect(),
            Self::Nothing => Vec::new(),
        }
    }
}

/// A refused message.
#[derive(Debug)]
pub struct Refused {
    /// The requests that the message would have answered.
    pub failures: Vec<Failure>,
    /// Why the message is refused.
    pub reason: String,
}

/// A request that failed, and is no longer pending.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Its id, as the client sent it.
    pub id: Id,
    /// The error for the client.
    pub error: Bytes,
}

/// What becomes of the text of an HTTP error response to a tool call.
#[derive(Debug)]
pub(crate) enum ErrorPage {
    /// The text may go to the client in any form.
    Unchanged,
    /// The client gets this message, and nothing of the text.
    Replaced(Bytes),
}

/// A message from the client: decided, or after a call that may take long.
#[derive(Debug)]
pub(crate) enum ClientDecision {
    Ready(FromClient),
    Work(Box<OwnCall>),
}

/// A message from the server: decided, or after a run of the policy.
#[derive(Debug)]
pub(crate) enum ServerDecision {
    Ready(FromServer),
    Filter(Filtering),
}

/// A message with tool results to filter.
pub(crate) struct Filtering {
    pub(crate) message: Bytes,
    pub(crate) job: Job<FromServer>,
    /// Whether the client has its answer already, because the call has become a job.
    pub(crate) is_answered: bool,
}

impl fmt::Debug for Filtering {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Filtering").field("bytes", &self.message.len()).finish_non_exhaustive()
    }
}

impl From<FromClient> for ClientDecision {
    fn from(decided: FromClient) -> Self {
        Self::Ready(decided)
    }
}

impl From<OwnCall> for ClientDecision {
    fn from(call: OwnCall) -> Self {
        Self::Work(Box::new(call))
    }
}

impl From<FromServer> for ServerDecision {
    fn from(decided: FromServer) -> Self {
        Self::Ready(decided)
    }
}

impl From<Filtering> for ServerDecision {
    fn from(filtering: Filtering) -> Self {
        Self::Filter(filtering)
    }
}

/// A batch of these messages.
pub(crate) fn batch_of(messages: &[Bytes]) -> Bytes {
    let mut batch = BytesMut::with_capacity(messages.iter().map(|message| message.len() + 1).sum::<usize>() + 1);
    batch.extend_from_slice(b"[");
    for (index, message) in messages.iter().enumerate() {
        batch.extend_from_slice(if index == 0 { b"" } else { b"," });
        batch.extend_from_slice(message);
    }
    batch.extend_from_slice(b"]");
    batch.freeze()
}
