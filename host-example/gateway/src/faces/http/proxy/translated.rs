//! Clients of another generation of the protocol than the server: the gateway translates, and opens the connection to the
//! server itself.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::body::{self, HttpBody};
use axum::http::StatusCode;
use axum::response::Response;
use lro_host::job::INLINE_BYTES;
use lro_host::mcp::{self, Message};

use super::{Proxy, RequestHead};
use crate::faces::http::bridge::Credentials;
use crate::faces::http::upstream;
use crate::listener::guard::{self, Refusal};
use crate::settings::TranslateMode;
use crate::translate::Translator;
use crate::upstream::remote::Challenge;

impl Proxy {
    /// Answers a request whose messages are translated; `None` if it goes to the server as it is.
    pub(super) async fn translated(
        &self,
        head: &RequestHead,
        message: Option<&Message>,
    ) -> Result<Option<Response>, Refusal> {
        let is_of_server = |id: &str| self.sessions.find(id, &head.holder.tenant).is_some();
        if let Some(session) = self.bridge.translated(head, self.credentials(head), is_of_server).await? {
            let answered = self.bridge.answer(head, message.cloned()).await;
            return challenged(session.take_challenge(), answered).map(Some);
        }
        let headers = &head.parts.headers;
        let may_differ = self.mode() == TranslateMode::Always && !self.is_modern.load(Ordering::Relaxed);
        let Some(message) = message.filter(|message| may_differ && guard::is_modern(headers, message)) else {
            return Ok(None);
        };
        guard::check_headers(headers, message, true)?;
        let shared = self.bridge.shared(&head.holder, self.credentials(head), message)?;
        let answered = shared.answer(message.clone(), head.address).await;
        if shared.is_understood() {
            self.is_modern.store(true, Ordering::Relaxed);
        }
        challenged(shared.take_challenge(), answered).map(Some)
    }

    /// Begins a session, translated if the server refuses the handshake and speaks the other generation.
    pub(super) async fn begin(self: &Arc<Self>, head: &RequestHead, initialize: Message) -> Result<Response, Refusal> {
        let response = self.post(head, initialize.clone()).await?;
        if self.mode() == TranslateMode::Never {
            return Ok(response);
        }
        let (response, is_refusal) = refuses(response).await;
        if !is_refusal {
            return Ok(response);
        }
        match self.bridge.begin_translated(&head.holder, self.credentials(head), initialize).await {
            Ok(Some(translated)) => Ok(translated),
            // The refusal of the server says more.
            Ok(None) | Err(_) => Ok(response),
        }
    }

    fn mode(&self) -> TranslateMode {
        Translator::mode(&self.rules)
    }

    /// What the server gets in the name of the client, whatever the request is.
    fn credentials(&self, head: &RequestHead) -> Credentials {
        let headers = self.request_headers(&head.parts.headers);
        let are_personal = upstream::may_identify_user(&headers);
        Credentials { headers: upstream::without_message_headers(&headers), are_personal }
    }
}

/// Whether a server refuses a handshake, with its response. A stream does not begin with a refusal.
async fn refuses(response: Response) -> (Response, bool) {
    match response.status() {
        StatusCode::BAD_REQUEST | StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => (response, true),
        StatusCode::OK if response.body().size_hint().exact().is_some_and(|size| size <= INLINE_BYTES as u64) => {
            let (parts, body) = response.into_parts();
            let bytes = body::to_bytes(body, INLINE_BYTES).await.unwrap_or_default();
            let code = Message::read(bytes.clone()).error_code();
            let is_refusal = code.is_some_and(|code| code != i64::from(mcp::INTERNAL_ERROR));
            (Response::from_parts(parts, bytes.into()), is_refusal)
        }
        _ => (response, false),
    }
}

/// The response to a request, or the server's demand for authorization in its place.
fn challenged(challenge: Option<Challenge>, answered: Result<Response, Refusal>) -> Result<Response, Refusal> {
    let Some(Challenge { status, headers }) = challenge else { return answered };
    let mut response = Refusal::Status(status, "the server requires authorization".to_owned()).response();
    response.headers_mut().extend(headers);
    Ok(response)
}
