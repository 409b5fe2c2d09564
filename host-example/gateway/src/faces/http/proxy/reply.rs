//! The response to a client, made from the whole body of the server's.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use lro_host::mcp::{Fault, Id, Message};

use super::{BODY_HEADERS, RequestInfo};
use crate::listener::body::{self, BodyError};
use crate::listener::guard::{self, Refusal, json};
use crate::session::{ErrorPage, FromServer, Session, batch_of};
use crate::upstream::content::{self, BodyKind, HeaderError};

/// Forwards a response unchanged.
pub(super) fn pass_through(
    session: &Session,
    request_info: &RequestInfo,
    response: reqwest::Response,
    headers: HeaderMap,
) -> Response {
    request_info.id.iter().for_each(|id| session.forget(id));
    respond(response.status(), headers, Body::from_stream(response.bytes_stream()))
}

/// Decides about the whole body of a response.
pub(super) async fn of_body(
    session: &Arc<Session>,
    request_info: RequestInfo,
    bytes: Bytes,
    status: StatusCode,
    mut headers: HeaderMap,
) -> Result<Response, Refusal> {
    let message = session.parse_async(&bytes).await;
    let decided = match (content::classify(&bytes), message.fault()) {
        _ if session.rules.audits() => session.server_message_async(message).await,
        (BodyKind::Wide, _) => {
            return failed(session, request_info.id, &HeaderError::Charset("utf-16".to_owned()).to_string());
        }
        (BodyKind::Events, _) => {
            return failed(session, request_info.id, "the server sent an event stream with another content type");
        }
        (BodyKind::Text, _) | (BodyKind::Message, Some(Fault::NoKind)) => {
            return other_body(session, request_info, bytes, status, headers).await;
        }
        (BodyKind::Message, _) => session.server_message_async(message).await,
    };
    let (answer, mut status) = match decided {
        FromServer::Pass(answer) => (answer, status),
        FromServer::Refuse(refused) if refused.failures.is_empty() => {
            return failed(session, request_info.id, &refused.reason);
        }
        FromServer::Refuse(refused) => {
            let errors: Vec<Bytes> = refused.failures.into_iter().map(|failure| failure.error).collect();
            (if let [error] = errors.as_slice() { error.clone() } else { batch_of(&errors) }, StatusCode::OK)
        }
        FromServer::Nothing => return failed(session, request_info.id, "the server answered another request"),
    };
    // A result that replaces an error is not an error.
    let is_replaced = answer.as_ptr() != bytes.as_ptr() || answer.len() != bytes.len();
    if is_replaced {
        BODY_HEADERS.iter().for_each(|name| drop(headers.remove(name)));
        if status.is_client_error() && Message::read(answer.clone()).result().is_some() {
            status = StatusCode::OK;
        }
    }
    Ok(respond(status, headers, body::of_bytes(answer)))
}

/// Decides about a body that is not a message. If a tool call is pending, a client could read the body as its result.
async fn other_body(
    session: &Arc<Session>,
    request_info: RequestInfo,
    bytes: Bytes,
    status: StatusCode,
    headers: HeaderMap,
) -> Result<Response, Refusal> {
    let Some(id) = request_info.id else { return Ok(respond(status, headers, body::of_bytes(bytes))) };
    if status.is_success() {
        let kind = guard::text(&headers, &CONTENT_TYPE).unwrap_or("none");
        let reason =
            format!("the server answered with something that is not a JSON-RPC message, of content type {kind:?}");
        return failed(session, Some(id), &reason);
    }
    match session.error_page(&id, &bytes).await {
        Some(ErrorPage::Replaced(reply)) => return Ok(json(StatusCode::OK, body::of_bytes(reply))),
        Some(ErrorPage::Unchanged) => {}
        None => session.forget(&id),
    }
    Ok(respond(status, headers, body::of_bytes(bytes)))
}

pub(super) fn respond(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

pub(super) fn reason(error: &BodyError) -> String {
    match error {
        BodyError::Spool(error) => error.to_string(),
        BodyError::Broken(text) => text.clone(),
    }
}

pub(super) fn failed(session: &Session, id: Option<Id>, reason: &str) -> Result<Response, Refusal> {
    match id.and_then(|id| session.fail(&id, reason)) {
        Some(failure) => Ok(json(StatusCode::OK, failure.error)),
        None => Err(Refusal::Status(StatusCode::BAD_GATEWAY, reason.to_owned())),
    }
}
