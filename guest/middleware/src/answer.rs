//! The response to the client: a whole body, or an error.

use bytes::Bytes;
use lro_http::{BodyKind, Content, HeaderError, classify};
use lro_mcp::{Fault, INVALID_REQUEST, Message, error_response, response, tool_error};
use wit_bindgen::StreamReader;

use crate::bindings::wasi::http::types::{Fields, Response};
use crate::body::{self, Trailers};
use crate::held::{self, Body};
use crate::message::{Decided, Exchange, batch_of};
use crate::stream;

/// Headers that describe the bytes of a body.
const BODY_HEADERS: [&str; 8] = [
    "content-encoding",
    "content-md5",
    "content-digest",
    "repr-digest",
    "digest",
    "etag",
    "accept-ranges",
    "content-range",
];

/// All values of a header, in lower case, joined by commas.
pub(crate) fn listed(headers: &Fields, name: &str) -> String {
    let values = headers.get(name);
    values.iter().map(|value| String::from_utf8_lossy(value).to_lowercase()).collect::<Vec<_>>().join(",")
}

/// The length of a body, if the headers say it.
pub(crate) fn length(headers: &Fields) -> Option<usize> {
    listed(headers, "content-length").parse().ok()
}

/// The response to the client, from that of the server.
pub(crate) async fn of(mut exchange: Exchange, response: Response) -> Response {
    let headers = response.get_headers();
    match Content::of(&listed(&headers, "content-type"), &listed(&headers, "content-encoding")) {
        Ok(Content { is_compressed: true, .. }) => failed(
            &mut exchange,
            "the server sent its response as gzip, though it was asked for one that is not compressed",
        ),
        Ok(Content { is_stream: true, .. }) => stream::of(exchange, response),
        Ok(_) => whole(exchange, response).await,
        Err(error) => failed(&mut exchange, &error.to_string()),
    }
}

/// The response to the client, from the whole body of the server's.
async fn whole(mut exchange: Exchange, response: Response) -> Response {
    let (status, headers) = (response.get_status_code(), response.get_headers());
    let limit = exchange.settings.message_bytes;
    let (mut body, trailers) = body::of_response(response);
    let read = held::read(&mut body, limit, length(&headers)).await;
    if matches!(read, Body::Longer) {
        let reason = format!("the message has more than {limit} bytes: raise the limit `LRO_MESSAGE_BYTES`");
        return failed(&mut exchange, &reason);
    }
    if let Err(error) = trailers.await {
        return failed(&mut exchange, &format!("the connection to the server failed: {error}"));
    }
    let bytes: Bytes = match read {
        Body::Short(bytes) => bytes.into(),
        Body::Long(message) => match exchange.decide_held(&message) {
            Some(Decided::Pass) => {
                let length = message.size();
                return with_stream(status, headers.clone(), length, held::as_body(message));
            }
            Some(decided) => return decided_response(exchange, decided, status, &headers, Bytes::new()),
            None => held::bytes(&message).into(),
        },
        Body::Longer => Bytes::new(),
    };
    // What still held the body would have it copied when it goes on.
    let fault = Message::read(bytes.clone()).fault();
    let decided = match (classify(&bytes), fault) {
        (BodyKind::Wide, _) => return failed(&mut exchange, &HeaderError::Charset("utf-16".to_owned()).to_string()),
        (BodyKind::Events, _) => {
            return failed(&mut exchange, "the server sent an event stream with another content type");
        }
        (BodyKind::Text, _) | (BodyKind::Message, Some(Fault::NoKind)) => {
            return page(exchange, bytes, status, headers);
        }
        (BodyKind::Message, _) => exchange.decide(&bytes),
    };
    decided_response(exchange, decided, status, &headers, bytes)
}

/// The response for what was decided about the message `bytes`.
fn decided_response(mut exchange: Exchange, decided: Decided, status: u16, headers: &Fields, bytes: Bytes) -> Response {
    match decided {
        Decided::Pass => with_body(status, headers.clone(), bytes),
        Decided::Replace(reply) => {
            // A result that replaces an error is not an error.
            let is_error = (400..500).contains(&status) && Message::read(reply.clone()).result().is_some();
            replaced(if is_error { 200 } else { status }, headers, reply)
        }
        Decided::Refuse { errors, reason } => match errors.as_slice() {
            [] => failed(&mut exchange, &reason),
            [error] => replaced(200, headers, error.clone()),
            errors => replaced(200, headers, batch_of(errors)),
        },
    }
}

/// The response for a body that is not a message. The client of a call could read it as its result.
fn page(mut exchange: Exchange, bytes: Bytes, status: u16, headers: Fields) -> Response {
    let Some(id) = exchange.asked.only.clone() else { return with_body(status, headers.clone(), bytes) };
    if (200..300).contains(&status) {
        let kind = headers.get("content-type").pop().unwrap_or_else(|| b"none".to_vec());
        let kind = String::from_utf8_lossy(&kind).into_owned();
        let reason =
            format!("the server answered with something that is not a JSON-RPC message, of content type {kind:?}");
        return failed(&mut exchange, &reason);
    }
    let shown = response(&id, &tool_error(&String::from_utf8_lossy(&bytes)));
    match exchange.decide(&shown) {
        Decided::Replace(reply) => json(200, reply),
        _ => with_body(status, headers.clone(), bytes),
    }
}

/// An error in the place of the server's response, whose body is not read any further.
pub(crate) fn failed(exchange: &mut Exchange, reason: &str) -> Response {
    match exchange.fail(reason) {
        Some(error) => json(200, error),
        None => refusal(502, reason),
    }
}

/// An error that answers no message.
pub(crate) fn refusal(status: u16, reason: &str) -> Response {
    json(status, error_response(None, INVALID_REQUEST, reason))
}

pub(crate) fn json(status: u16, body: Bytes) -> Response {
    let headers = Fields::new();
    let _ = headers.set("content-type", &[b"application/json".to_vec()]);
    with_body(status, headers, body)
}

/// A response with the headers of another one.
fn replaced(status: u16, headers: &Fields, body: Bytes) -> Response {
    let headers = headers.clone();
    BODY_HEADERS.iter().for_each(|name| drop(headers.delete(name)));
    with_body(status, headers, body)
}

fn with_body(status: u16, headers: Fields, body: Bytes) -> Response {
    if body.is_empty() {
        return of_parts(status, headers, None, body::no_trailers());
    }
    let length = body.len() as u64;
    let (body, _) = body::of_bytes(body.into());
    with_stream(status, headers, length, body)
}

fn with_stream(status: u16, headers: Fields, length: u64, body: StreamReader<u8>) -> Response {
    let _ = headers.set("content-length", &[length.to_string().into_bytes()]);
    of_parts(status, headers, Some(body), body::no_trailers())
}

pub(crate) fn of_parts(status: u16, headers: Fields, body: Option<StreamReader<u8>>, trailers: Trailers) -> Response {
    let (response, _) = Response::new(headers, body, trailers);
    // It is the status of a response.
    let _ = response.set_status_code(status);
    response
}
