//! Calls that may become jobs. A task drives the exchange with the server, so that it goes on without the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use lro_host::mcp::Id;
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::reply::respond;
use super::{PendingRequests, Proxy, RequestInfo};
use crate::faces::http::streams::{STREAM_MESSAGES, event_of};
use crate::listener::guard::{Refusal, json};
use crate::session::Session;

/// How often a job is checked for its cancellation and its longest time.
const JOB_POLL_INTERVAL: Duration = Duration::from_millis(250);

/// Reason of a job whose cancellation closed the connection, as revisions from 2026-07-28 on cancel.
const CLOSED: &str = "the connection to the server was closed, which cancels the call";

/// Reason of a job whose response ended too early. A client could resume it, but there is none.
const UNANSWERED: &str = "the server ended its response without the result";

/// A call that may become a job, on its way to the server.
pub(super) struct Detachable {
    pub(super) session: Arc<Session>,
    pub(super) id: Id,
    /// When it becomes a job.
    pub(super) due: Instant,
    pub(super) request_info: RequestInfo,
    pub(super) message: Bytes,
    /// The client's headers to forward.
    pub(super) headers: HeaderMap,
}

/// The beginning of the response to the client.
type Head = Result<(StatusCode, HeaderMap), Refusal>;

/// The task of an exchange. It ends with its client, unless the call has become a job.
struct Task {
    handle: AbortHandle,
    is_detached: bool,
}

impl Drop for Task {
    fn drop(&mut self) {
        if !self.is_detached {
            self.handle.abort();
        }
    }
}

/// What the client gets of an exchange.
struct Forwarding {
    pieces: mpsc::Receiver<Bytes>,
    task: Task,
    session: Arc<Session>,
    id: Id,
    due: Instant,
    /// Whether the client has whole events so far.
    is_between: bool,
}

impl Proxy {
    /// Forwards a call. The client gets the response of the server, or the descriptor of a job.
    pub(super) async fn forward_detachable(
        self: &Arc<Self>,
        call: Detachable,
        pending: PendingRequests,
    ) -> Result<Response, Refusal> {
        let (session, id, due) = (Arc::clone(&call.session), call.id.clone(), call.due);
        let (head, begun) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(STREAM_MESSAGES);
        let task = tokio::spawn(Arc::clone(self).drive(call, pending, head, sender));
        let mut task = Task { handle: task.abort_handle(), is_detached: false };
        let head: Head = tokio::select! {
            head = begun => head.unwrap_or_else(|_| Err(failed())),
            answer = session.late_answer(&id, due) => {
                task.is_detached = true;
                let recorded = session.recorded(answer).await.map_err(|_| failed())?;
                return Ok(json(StatusCode::OK, recorded));
            }
        };
        let (status, headers) = head?;
        let forwarding = Forwarding { pieces, task, session, id, due, is_between: true };
        let pieces = stream::unfold(Some(forwarding), |forwarding| async {
            let mut forwarding = forwarding?;
            let piece = forwarding.next().await?;
            let rest = (!forwarding.task.is_detached).then_some(forwarding);
            Some((Ok::<_, std::convert::Infallible>(piece), rest))
        });
        Ok(respond(status, headers, Body::from_stream(pieces)))
    }

    /// Drives an exchange to its end, with the client or without.
    async fn drive(
        self: Arc<Self>,
        call: Detachable,
        pending: PendingRequests,
        head: oneshot::Sender<Head>,
        pieces: mpsc::Sender<Bytes>,
    ) {
        let Detachable { session, id, request_info, message, headers, .. } = call;
        let (modern, cancel_headers) = (request_info.modern, headers.clone());
        let exchange = async {
            let exchange = self.exchange(Arc::clone(&session), request_info, message, headers, pending, None);
            let response = match exchange.await {
                Ok(response) => response,
                Err(refusal) => return drop(head.send(Err(refusal))),
            };
            let (parts, body) = response.into_parts();
            let _ = head.send(Ok((parts.status, parts.headers)));
            let mut body = body.into_data_stream();
            while let Some(Ok(piece)) = body.next().await {
                // A client that is gone has its answer.
                let _ = pieces.send(piece).await;
            }
            if session.job_of(&id).is_some() {
                drop(session.fail(&id, UNANSWERED));
            }
        };
        tokio::select! {
            () = exchange => {}
            () = self.watch(&session, &id, modern, cancel_headers) => {}
        }
    }

    /// Cancels the job of a call when that is asked for. Returns when nothing is to be expected from the server.
    async fn watch(&self, session: &Arc<Session>, id: &Id, modern: bool, headers: HeaderMap) {
        let mut job = None;
        loop {
            tokio::time::sleep(JOB_POLL_INTERVAL).await;
            job = job.or_else(|| session.job_of(id));
            for cancellation in session.cancellations() {
                if modern {
                    drop(session.fail(id, CLOSED));
                    return;
                }
                // A server that cannot be reached does not go on either.
                let request = self.endpoint.client().post(self.endpoint.url());
                let request = request.headers(self.with_configured_headers(headers.clone())).body(cancellation);
                let _ = self.send(request, self.call_timeout()).await;
            }
            if job.as_ref().is_some_and(|job| job.has_ended()) {
                return;
            }
        }
    }
}

impl Forwarding {
    /// The next bytes for the client; the last are the descriptor if the call becomes a job.
    async fn next(&mut self) -> Option<Bytes> {
        let Self { pieces, task, session, id, due, is_between } = self;
        tokio::select! {
            piece = pieces.recv() => {
                let piece = piece?;
                *is_between = [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"].iter().any(|end| piece.ends_with(end));
                Some(piece)
            }
            answer = session.late_answer(id, *due), if *is_between => {
                task.is_detached = true;
                Some(event_of(&session.recorded(answer).await.ok()?))
            }
        }
    }
}

fn failed() -> Refusal {
    Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the gateway: see its log".to_owned())
}
