//! The client's request: read, sent on, and answered.

use std::rc::Rc;

use bytes::Bytes;
use lro_http::{BodyKind, classify};
use lro_mcp::{Fault, Message};
use wit_bindgen::StreamReader;

use crate::answer::{self, length, listed};
use crate::asked::{Asked, is_foreign};
use crate::bindings::wasi::http::handler::handle;
use crate::bindings::wasi::http::types::{ErrorCode, Fields, Method, Request, RequestOptions, Response, Scheme};
use crate::body::{self, Read, Trailers};
use crate::message::Exchange;
use crate::own;
use crate::settings::Settings;

/// Answers a request.
pub(crate) async fn answer(settings: Rc<Settings>, request: Request) -> Result<Response, ErrorCode> {
    match request.get_method() {
        Method::Post => post(settings, request).await,
        // What answers a call may come again on a stream of another request.
        Method::Get => {
            let is_stream = listed(&request.get_headers(), "accept").contains("text/event-stream");
            let exchange = Exchange::new(settings, &request.get_headers(), Asked::default());
            let request = if is_stream { changed(request) } else { request };
            let response = handle(request).await?;
            match listed(&response.get_headers(), "content-type").contains("text/event-stream") {
                true => Ok(answer::of(exchange, response).await),
                false => Ok(response),
            }
        }
        _ => handle(request).await,
    }
}

async fn post(settings: Rc<Settings>, request: Request) -> Result<Response, ErrorCode> {
    let (headers, head) = (request.get_headers(), Head::of(&request));
    let limit = settings.request_bytes;
    let (mut body, trailers) = body::of_request(request);
    let bytes = match body::read(&mut body, limit, length(&headers)).await {
        Read::Whole(bytes) => Bytes::from(bytes),
        Read::Longer(beginning) => {
            let beginning = match beginning.is_empty() {
                true => body::read_some(&mut body).await,
                false => beginning,
            };
            if classify(&beginning) != BodyKind::Text {
                let reason = format!("the message has more than {limit} bytes: raise the limit `LRO_REQUEST_BYTES`");
                return Ok(answer::refusal(413, &reason));
            }
            return handle(head.request(headers.clone(), Some(body::of_rest(beginning, body)), trailers)).await;
        }
    };
    let message = Message::read(bytes.clone());
    let is_foreign = is_foreign(&message);
    if let Some(fault) = message.fault().filter(|_| !is_foreign) {
        return Ok(answer::refusal(400, &format!("the body is not a JSON-RPC message: {fault}")));
    }
    // What is not one object may still have a message in it.
    let is_unread = is_foreign && (message.fault() != Some(Fault::NotOne) || classify(&bytes) == BodyKind::Text);
    if let Some(answered) = own::answer(&settings, &message).or_else(|| own::refusal(&settings, &message)) {
        return Ok(answer::json(200, answered));
    }
    let mut exchange = Exchange::new(settings, &headers, Asked::of(&message));
    let (body, _) = body::of_bytes(bytes.into());
    if is_unread {
        return handle(head.request(headers.clone(), Some(body), trailers)).await;
    }
    match handle(head.request(plain(&headers), Some(body), trailers)).await {
        Ok(response) => Ok(answer::of(exchange, response).await),
        Err(error) => {
            let reason = format!("the server cannot be reached, or closed before it had read the request: {error}");
            Ok(answer::failed(&mut exchange, &reason))
        }
    }
}

/// A request that asks for an answer that is not compressed.
fn changed(request: Request) -> Request {
    let (headers, head) = (plain(&request.get_headers()), Head::of(&request));
    let (body, trailers) = body::of_request(request);
    // Without a length there is no body, and an empty one would be announced to the server.
    let body = length(&headers).map(|_| body);
    head.request(headers, body, trailers)
}

/// The headers of a request for an answer that is not compressed.
fn plain(headers: &Fields) -> Fields {
    let headers = headers.clone();
    // Refused only for names that are not allowed, or values that are not.
    let _ = headers.set("accept-encoding", &[b"identity".to_vec()]);
    headers
}

/// A request without headers and body.
struct Head {
    method: Method,
    path: Option<String>,
    scheme: Option<Scheme>,
    authority: Option<String>,
    options: Option<RequestOptions>,
}

impl Head {
    fn of(request: &Request) -> Self {
        Self {
            method: request.get_method(),
            path: request.get_path_with_query(),
            scheme: request.get_scheme(),
            authority: request.get_authority(),
            options: request.get_options(),
        }
    }

    fn request(self, headers: Fields, body: Option<StreamReader<u8>>, trailers: Trailers) -> Request {
        let (request, _) = Request::new(headers, body, trailers, self.options);
        // They were valid in the request that they are from.
        let _ = request.set_method(&self.method);
        let _ = request.set_path_with_query(self.path.as_deref());
        let _ = request.set_scheme(self.scheme.as_ref());
        let _ = request.set_authority(self.authority.as_deref());
        request
    }
}
