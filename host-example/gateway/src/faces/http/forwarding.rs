//! Moves messages between HTTP clients and a server that is a child process.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{Kind, Message};
use tokio::sync::oneshot;

use crate::listener::body;
use crate::listener::guard::Refusal;
use crate::session::{ClientDecision, FromClient, Session};
use crate::tenants::rules::Rules;
use crate::tenants::workers::QueueError;
use crate::upstream::connection::Connection;
use crate::upstream::link::{Expects, LinkError, Receive};

/// The log reason for output that is not a message, and for messages that match no request.
pub(super) const STRAY_OUTPUT: &str = "it answers no request";

/// A message being sent to the server.
pub(super) enum Forwarded {
    /// The message is sent.
    Done,
    /// A thread of the tenant sends it.
    Spawned(oneshot::Receiver<Result<(), Refusal>>),
}

impl Forwarded {
    /// Sends a message on a thread of the tenant, as the server may not read.
    pub(super) fn spawn(rules: &Rules, forward: impl FnOnce() -> Result<(), Refusal> + Send + 'static) -> Self {
        let (done, ended) = oneshot::channel();
        rules.senders.run(move |turn| {
            let refused = |error: QueueError| Refusal::Status(StatusCode::SERVICE_UNAVAILABLE, error.to_string());
            let _ = done.send(turn.map_err(refused).and_then(|()| forward()));
        });
        Self::Spawned(ended)
    }

    /// Sends a message: a small one at once if that does not block, any other by `proceed` on a thread of the tenant.
    pub(super) fn start<R: Receive + 'static>(
        session: &Arc<Session>,
        connection: &Connection<R>,
        message: Message,
        proceed: impl FnOnce(ClientDecision) -> Result<(), Refusal> + Send + 'static,
    ) -> Self {
        if message.bytes().len() > INLINE_BYTES {
            let deciding = Arc::clone(session);
            return Self::spawn(&session.rules, move || proceed(deciding.decide_client(message)));
        }
        match session.decide_client(message) {
            ClientDecision::Ready(FromClient::Forward(message))
                if connection.try_send(&body::on_one_line(message.clone())) =>
            {
                Self::Done
            }
            decision => Self::spawn(&session.rules, move || proceed(decision)),
        }
    }

    /// Waits until the message is sent.
    pub(super) async fn end(self) -> Result<(), Refusal> {
        let Self::Spawned(ended) = self else { return Ok(()) };
        let failed = |_| Err(Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, QueueError::Panicked.to_string()));
        ended.await.unwrap_or_else(failed)
    }

    /// Waits for the response to the message while it is still being sent. Fails if sending does.
    pub(super) async fn respond(self, response: impl Future<Output = Response>) -> Result<Response, Refusal> {
        let (mut response, forwarded) = (std::pin::pin!(response), std::pin::pin!(self.end()));
        tokio::select! {
            response = &mut response => return Ok(response),
            forwarded = forwarded => forwarded?,
        }
        Ok(response.await)
    }
}

/// Sends a client's message, or returns the message for the client that answers it already. Blocks while the server
/// does not read.
pub(super) fn forward<R: Receive + 'static>(
    session: &Session,
    connection: &Connection<R>,
    decided: FromClient,
    expects: &Expects,
) -> Result<Option<Bytes>, Refusal> {
    match decided {
        FromClient::Forward(message) => {
            let failure = connection.forward(session, &body::on_one_line(message), expects);
            Ok(failure.map_err(|error| refused(&error))?.map(|failure| failure.error))
        }
        FromClient::Answer(answer) | FromClient::Open(answer) => Ok(Some(answer)),
        FromClient::Nothing => Ok(None),
    }
}

/// Sends a message of the gateway itself, without waiting for the server to read. A request that cannot be sent fails.
/// `connection` is that of the owner.
pub(super) fn send_own<R: Receive + 'static>(
    session: &Arc<Session>,
    owner: Arc<R>,
    connection: fn(&R) -> &Connection<R>,
    message: Bytes,
) {
    let message = body::on_one_line(message);
    if connection(&owner).try_send(&message) {
        return;
    }
    let own = Arc::clone(session);
    session.rules.senders.run(move |turn| {
        let expects = Expects::of(&Message::read(message.clone()));
        match (turn, &expects) {
            // An error is logged, and nobody waits for a response.
            (Ok(()), _) => drop(connection(&owner).forward(&own, &message, &expects)),
            (Err(refused), Expects::Response(id)) => drop(own.fail(id, &refused.to_string())),
            (Err(_), _) => {}
        }
    });
}

/// The messages of a line from the server, apart if it is a batch, without output that is not a message.
pub(super) fn messages_of(line: Bytes, rules: &Rules) -> Vec<Message> {
    let message = Message::read(line);
    let mut messages = match message.batch() {
        Some(elements) => elements.into_iter().map(Message::read).collect(),
        None => vec![message],
    };
    messages.retain(|message| {
        let is_stray = is_stray_output(message);
        if is_stray {
            rules.record_dropped(message, STRAY_OUTPUT);
        }
        !is_stray
    });
    messages
}

/// Whether a line is not a message but output meant for people, such as a log line.
fn is_stray_output(message: &Message) -> bool {
    message.kind() == Kind::Response && message.id().is_none() && message.value(&["jsonrpc"]).is_none()
}

/// Refuses a request that the server cannot receive. The log names the program of the server; clients do not learn it.
pub(super) fn refused(error: &LinkError) -> Refusal {
    let text = match error {
        LinkError::Start { source, .. } => {
            tracing::warn!(%error, "refused a request");
            format!("the server cannot be started: {source}")
        }
        error => error.to_string(),
    };
    Refusal::Status(StatusCode::BAD_GATEWAY, text)
}
