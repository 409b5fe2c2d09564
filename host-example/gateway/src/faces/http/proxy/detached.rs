//! Calls that may become jobs. A task drives the exchange with the server, so that it goes on without the client.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use lro_host::mcp::{self, INTERNAL_ERROR, Id};
use tokio::sync::{mpsc, oneshot};
use tokio::task::AbortHandle;

use super::heartbeats::heartbeat_due;
use super::reply::respond;
use super::{PendingRequests, Proxy, RequestInfo};
use crate::faces::http::streams::{EVENT_BEGIN, EVENT_END, STREAM_MESSAGES, event_of, is_stream, stream_headers};
use crate::listener::body;
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
    /// The head of the server's response, if the client has a stream before it.
    head: Option<oneshot::Receiver<Head>>,
    form: Form,
    pieces: mpsc::Receiver<Bytes>,
    task: Task,
    session: Arc<Session>,
    id: Id,
    due: Instant,
    /// Whether the client has whole events so far, so that the gateway may add one.
    is_between: bool,
    /// Whether the body is an event stream.
    is_stream: bool,
}

/// What becomes of the body of the server's response.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// It goes to the client as it is.
    Unchanged,
    /// It is a message, which becomes an event. The flag says whether the event has begun.
    Message { has_begun: bool },
    /// Nothing follows.
    Ended,
}

impl Proxy {
    /// Forwards a call. The client gets the response of the server, or the descriptor of a job.
    pub(super) async fn forward_detachable(
        self: &Arc<Self>,
        call: Detachable,
        pending: PendingRequests,
    ) -> Result<Response, Refusal> {
        let (session, id, due) = (Arc::clone(&call.session), call.id.clone(), call.due);
        let (head, mut begun) = oneshot::channel();
        let (sender, pieces) = mpsc::channel(STREAM_MESSAGES);
        let task = tokio::spawn(Arc::clone(self).drive(call, pending, head, sender));
        let mut task = Task { handle: task.abort_handle(), is_detached: false };
        let head = tokio::select! {
            head = &mut begun => Some(head.unwrap_or_else(|_| Err(failed()))?),
            answer = session.late_answer(&id, due) => {
                task.is_detached = true;
                let recorded = session.recorded(answer).await.map_err(|_| failed())?;
                return Ok(json(StatusCode::OK, recorded));
            }
            () = heartbeat_due(&session, &id) => None,
        };
        let (status, headers, begun) = match head {
            Some((status, headers)) => (status, headers, None),
            None => (StatusCode::OK, stream_headers(), Some(begun)),
        };
        let (form, is_stream) = (Form::Unchanged, is_stream(&headers));
        let is_between = is_stream;
        let forwarding = Forwarding { head: begun, form, pieces, task, session, id, due, is_between, is_stream };
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
            // Each job has a watch: one that looked at the others too would take time that grows with their square.
            let Some(job) = &job else { continue };
            let cancellation = session.cancellation_of(id);
            if modern && cancellation.is_some() {
                drop(session.fail(id, CLOSED));
                return;
            }
            for message in cancellation.into_iter().chain(session.responses_of(job)) {
                // A server that cannot be reached does not go on either.
                let request = self.endpoint.client().post(self.endpoint.url());
                let request = request.headers(self.with_configured_headers(headers.clone())).body(message);
                let _ = self.send(request, self.call_timeout()).await;
            }
            if job.has_ended() {
                return;
            }
        }
    }
}

impl Forwarding {
    /// The next bytes for the client; the last are the descriptor if the call becomes a job.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            let Self { head, pieces, task, session, id, due, is_between, .. } = self;
            let is_between = *is_between;
            tokio::select! {
                head = of_head(head), if head.is_some() => {
                    self.head = None;
                    if let Some(error) = self.begin(head) {
                        return Some(error);
                    }
                }
                piece = pieces.recv(), if head.is_none() => return self.piece(piece),
                answer = session.late_answer(id, *due), if is_between => {
                    task.is_detached = true;
                    return Some(event_of(&session.recorded(answer).await.ok()?));
                }
                () = heartbeat_due(session, id), if is_between => {
                    if let Some(heartbeat) = session.heartbeat_of(id) {
                        return Some(event_of(&heartbeat));
                    }
                }
            }
        }
    }

    /// Takes the head of a response whose client has a stream already. Returns the event that ends it after an error.
    fn begin(&mut self, head: Head) -> Option<Bytes> {
        let reason = match head {
            Ok((_, headers)) if is_stream(&headers) => return None,
            Ok((status, _)) if status.is_success() => {
                self.form = Form::Message { has_begun: false };
                return None;
            }
            Ok((status, _)) => format!("the server answered with HTTP status {status}"),
            Err(Refusal::Status(_, reason)) => reason,
            Err(_) => "the server did not answer".to_owned(),
        };
        self.form = Form::Ended;
        drop(self.session.fail(&self.id, &reason));
        Some(event_of(&mcp::error_response(Some(&self.id), INTERNAL_ERROR, &reason)))
    }

    /// The bytes for the client that a piece of the body becomes; `None` stands for its end.
    fn piece(&mut self, piece: Option<Bytes>) -> Option<Bytes> {
        match (self.form, piece) {
            (Form::Unchanged, piece) => {
                let piece = piece?;
                let ends_event = || [&b"\n\n"[..], b"\r\n\r\n", b"\r\r"].iter().any(|end| piece.ends_with(end));
                self.is_between = self.is_stream && ends_event();
                Some(piece)
            }
            (Form::Message { has_begun }, Some(piece)) => {
                (self.form, self.is_between) = (Form::Message { has_begun: true }, false);
                let begin = if has_begun { b"" } else { EVENT_BEGIN };
                Some([begin, &body::on_one_line(piece)].concat().into())
            }
            (Form::Message { .. }, None) => {
                self.form = Form::Ended;
                Some(Bytes::from_static(EVENT_END))
            }
            (Form::Ended, _) => None,
        }
    }
}

/// The head of a response that is awaited.
async fn of_head(head: &mut Option<oneshot::Receiver<Head>>) -> Head {
    match head {
        Some(head) => head.await.unwrap_or_else(|_| Err(failed())),
        None => std::future::pending().await,
    }
}

fn failed() -> Refusal {
    Refusal::Status(StatusCode::INTERNAL_SERVER_ERROR, "internal error of the gateway: see its log".to_owned())
}
