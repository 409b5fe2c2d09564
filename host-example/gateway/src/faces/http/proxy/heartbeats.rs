//! What a client hears while the gateway itself lets it wait: heartbeats of a call of the tool for jobs, and news of jobs.

use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use lro_host::mcp::{Id, Message};
use tokio::sync::watch;

use super::reply::respond;
use crate::faces::http::streams::{event_of, stream_headers};
use crate::session::{FromClient, SendOwn, Session, end_of_subscription};

/// How often subscriptions to jobs are checked.
pub(super) const UPDATE_POLL_INTERVAL: Duration = Duration::from_millis(500);

/// The decision about a message, which may take as long as a job.
type Deciding = std::pin::Pin<Box<dyn Future<Output = FromClient> + Send>>;

/// What becomes of a message from the client, or the response that it gets while that is being decided.
pub(super) enum Decided {
    Now(FromClient),
    Streaming(Response),
}

/// Decides about a message from the client. One whose answer takes longer than its heartbeat is answered by a stream.
pub(super) async fn decide(session: &Arc<Session>, message: Message, send: SendOwn) -> Decided {
    let id = message.id();
    let deciding_session = Arc::clone(session);
    let mut deciding: Deciding = Box::pin(async move { deciding_session.client_message_async(message, send).await });
    let waits = async {
        match &id {
            Some(id) => heartbeat_due(session, id).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        // First, as it registers the heartbeat.
        biased;
        decided = &mut deciding => return Decided::Now(decided),
        () = waits => {}
    }
    let state = (Arc::clone(session), id, Some(deciding));
    let events = stream::unfold(state, |(session, id, deciding)| async move {
        let (mut deciding, own) = (deciding?, id.clone()?);
        loop {
            tokio::select! {
                biased;
                decided = &mut deciding => {
                    return match decided {
                        FromClient::Answer(message) | FromClient::Open(message) => {
                            Some((event(&message), (session, id, None)))
                        }
                        // Only what the gateway answers itself has a heartbeat by now.
                        FromClient::Forward(_) | FromClient::Nothing => None,
                    };
                }
                () = heartbeat_due(&session, &own) => {
                    if let Some(heartbeat) = session.heartbeat_of(&own) {
                        return Some((event(&heartbeat), (session, id, Some(deciding))));
                    }
                }
            }
        }
    });
    Decided::Streaming(respond(StatusCode::OK, stream_headers(), Body::from_stream(events)))
}

/// The stream of a subscription to jobs, until `ending`.
pub(super) fn subscription(session: Arc<Session>, id: Id, first: Bytes, ending: watch::Receiver<bool>) -> Response {
    let state = (session, id, vec![first], Some(ending));
    let events = stream::unfold(state, |(session, id, ready, ending)| async move {
        let (mut ready, mut ending) = (ready, ending?);
        loop {
            if !ready.is_empty() {
                let events: Vec<u8> = ready.drain(..).flat_map(|message| event_of(&message)).collect();
                return Some((
                    Ok::<Bytes, std::convert::Infallible>(events.into()),
                    (session, id, ready, Some(ending)),
                ));
            }
            let is_ending = tokio::select! {
                _ = ending.wait_for(|ending| *ending) => true,
                () = tokio::time::sleep(UPDATE_POLL_INTERVAL) => false,
            };
            if is_ending {
                return Some((event(&end_of_subscription(&id)), (session, id, ready, None)));
            }
            ready = session.due_notifications().await;
        }
    });
    respond(StatusCode::OK, stream_headers(), Body::from_stream(events))
}

/// Waits until a heartbeat of the request is due; for ever if there is none.
pub(super) async fn heartbeat_due(session: &Session, id: &Id) {
    match session.next_beat_of(id) {
        Some(at) => tokio::time::sleep_until(at.max(Instant::now()).into()).await,
        None => std::future::pending().await,
    }
}

fn event(message: &Bytes) -> Result<Bytes, std::convert::Infallible> {
    Ok(event_of(message))
}
