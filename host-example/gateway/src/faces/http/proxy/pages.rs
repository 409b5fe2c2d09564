//! Requests of the gateway itself to an HTTP server, on behalf of a client's call.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use bytes::Bytes;
use futures_util::StreamExt;
use lro_host::mcp::{Id, Kind, Message};
use lro_transport::EventReader;
use tokio::runtime::Handle;

use super::Proxy;
use crate::headers::{METHOD, NAME, encoded};
use crate::listener::body;
use crate::session::{SendOwn, Session};
use crate::trace;
use crate::upstream::content;
use crate::upstream::{Endpoint, retry};

impl Proxy {
    /// Sends messages with the headers of the client's call, as long as the session is there. Must be called on a thread of
    /// the runtime.
    pub(super) fn sending(&self, session: &Arc<Session>, headers: &HeaderMap) -> SendOwn {
        let endpoint = self.endpoint.clone();
        let (timeout, of_jobs) = (self.call_timeout(), self.timeout_of_jobs());
        let headers = self.with_configured_headers(headers.clone());
        let (session, runtime) = (Arc::downgrade(session), Handle::current());
        Arc::new(move |message| {
            let Some(session) = session.upgrade() else { return };
            let timeout = if session.has_jobs() { of_jobs } else { timeout };
            let (endpoint, headers) = (endpoint.clone(), headers.clone());
            runtime.spawn(async move { exchange(&endpoint, headers, &session, message, timeout).await });
        })
    }
}

/// Sends a message. The response to a request goes to the session, and so does the reason why there is none. A request
/// whose answer nobody awaits any more ends, which closes its connection.
async fn exchange(
    endpoint: &Endpoint,
    mut headers: HeaderMap,
    session: &Arc<Session>,
    message: Bytes,
    timeout: Duration,
) {
    let read_message = Message::read(message.clone());
    name_request(&mut headers, &read_message);
    headers.extend(trace::headers(&read_message));
    let id = read_message.id().filter(|_| read_message.kind() == Kind::Request);
    let request = endpoint.client().post(endpoint.url()).headers(headers).body(message);
    let answered = async {
        let response = request.send().await.map_err(|error| Endpoint::explain(&error))?;
        match &id {
            Some(id) => read(session, id, response).await,
            None => Ok(()),
        }
    };
    let answered = tokio::select! {
        answered = tokio::time::timeout(timeout, answered) => answered,
        () = unwanted(session, id.as_ref()) => return,
    };
    let answered = answered.unwrap_or_else(|_| Err(format!("no response within {} ms", timeout.as_millis())));
    if let (Err(reason), Some(id)) = (answered, id) {
        drop(session.fail(&id, &reason));
    }
}

/// Waits until nobody waits for the answer to a request.
async fn unwanted(session: &Session, id: Option<&Id>) {
    match id {
        Some(id) => session.until_answered(id).await,
        None => std::future::pending().await,
    }
}

/// Corrects the headers that repeat what the message asks for, from revision 2026-07-28 on.
fn name_request(headers: &mut HeaderMap, message: &Message) {
    let Some(method) = message.method().filter(|_| headers.contains_key(&METHOD)) else { return };
    headers.remove(&NAME);
    let params = message.params();
    if let Some(name) = params.subject(&method).and_then(encoded) {
        headers.insert(NAME, name);
    }
    if let Ok(method) = method.parse() {
        headers.insert(METHOD, method);
    }
}

/// Reads a response until it answers the request.
async fn read(session: &Arc<Session>, id: &Id, response: reqwest::Response) -> Result<(), String> {
    let (status, limits) = (response.status(), &session.rules.limits);
    let retry = retry::note(status, response.headers());
    if !retry.is_empty() {
        return Err(format!("{retry}the server answered with HTTP status {status}"));
    }
    let content = content::of_headers(response.headers()).map_err(|error| error.to_string())?;
    let mut chunks = content::chunks(content, response);
    if !content.is_stream {
        let message = Message::read(body::collect(chunks, limits).await.map_err(|error| error.to_string())?);
        let answers = message.kind() == Kind::Response && message.id().as_ref() == Some(id);
        if !answers {
            return Err(format!("the server answered with HTTP status {status}"));
        }
        drop(session.server_message_async(message).await);
        return Ok(());
    }
    let (mut reader, mut events) = (EventReader::new(Arc::clone(limits)), Vec::new());
    while let Some(chunk) = chunks.next().await {
        let chunk = chunk.map_err(|error| error.to_string())?;
        reader.push(&chunk, &mut events).map_err(|error| error.to_string())?;
        for data in events.drain(..).filter_map(|event| event.data()) {
            let message = Message::read(data);
            match message.kind() {
                Kind::Response if message.id().as_ref() == Some(id) => {
                    drop(session.server_message_async(message).await);
                    return Ok(());
                }
                Kind::Request => drop(session.ask_job(&message, None)),
                // Its client hears of it as the progress of a job.
                Kind::Notification => drop(session.server_message_async(message).await),
                _ => {}
            }
        }
    }
    Err("the server ended the stream before it answered".to_owned())
}
