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
use crate::listener::body;
use crate::session::{SendOwn, Session};
use crate::upstream::content::Content;
use crate::upstream::{Endpoint, retry};

impl Proxy {
    /// Sends messages with the headers of the client's call. Must be called on a thread of the runtime.
    pub(super) fn sending(&self, session: &Arc<Session>, headers: &HeaderMap) -> SendOwn {
        let (endpoint, timeout) = (self.endpoint.clone(), self.call_timeout());
        let headers = self.with_configured_headers(headers.clone());
        let (session, runtime) = (Arc::clone(session), Handle::current());
        Arc::new(move |message| {
            let (endpoint, headers, session) = (endpoint.clone(), headers.clone(), Arc::clone(&session));
            runtime.spawn(async move { exchange(&endpoint, headers, &session, message, timeout).await });
        })
    }
}

/// Sends a message. The response to a request goes to the session, and so does the reason why there is none.
async fn exchange(endpoint: &Endpoint, headers: HeaderMap, session: &Arc<Session>, message: Bytes, timeout: Duration) {
    let id = Message::read(message.clone()).id();
    let request = endpoint.client().post(endpoint.url()).headers(headers).body(message);
    let answered = async {
        let response = request.send().await.map_err(|error| Endpoint::explain(&error))?;
        match &id {
            Some(id) => read(session, id, response).await,
            None => Ok(()),
        }
    };
    let answered = tokio::time::timeout(timeout, answered).await;
    let answered = answered.unwrap_or_else(|_| Err(format!("no response within {} ms", timeout.as_millis())));
    if let (Err(reason), Some(id)) = (answered, id) {
        drop(session.fail(&id, &reason));
    }
}

/// Reads a response until it answers the request.
async fn read(session: &Arc<Session>, id: &Id, response: reqwest::Response) -> Result<(), String> {
    let (status, limits) = (response.status(), &session.rules.limits);
    let retry = retry::note(status, response.headers());
    if !retry.is_empty() {
        return Err(format!("{retry}the server answered with HTTP status {status}"));
    }
    let content = Content::of(response.headers()).map_err(|error| error.to_string())?;
    let mut chunks = content.chunks(response);
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
            if message.kind() == Kind::Response && message.id().as_ref() == Some(id) {
                drop(session.server_message_async(message).await);
                return Ok(());
            }
        }
    }
    Err("the server ended the stream before it answered".to_owned())
}
