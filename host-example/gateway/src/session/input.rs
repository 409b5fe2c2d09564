//! Requests of a server to the model or the user of its client.

use lro_host::mcp::{self, INTERNAL_ERROR, Kind, Message, method};

use super::Session;
use super::decision::FromServer;
use super::job::asks_for_input;

impl Session {
    /// What becomes of a request of the server. For one above `input-limit` the server gets an error.
    pub(super) fn server_request(&self, message: &Message) -> FromServer {
        self.measure_request(message);
        let asked = message.method();
        let is_input = matches!(asked.as_deref(), Some(method::SAMPLING | method::ELICITATION));
        let excess = self.input_excess(message).filter(|_| is_input);
        let Some((reason, id)) = excess.zip(message.id()) else { return FromServer::Pass(message.bytes().clone()) };
        match self.send() {
            Some(send) => send(mcp::error_response(Some(&id), INTERNAL_ERROR, &reason)),
            None => tracing::warn!(tenant = self.tenant(), "the server cannot be told that its request is refused"),
        }
        FromServer::Nothing
    }

    /// An answer of the server; an error in place of one that asks for more input than `input-limit` allows.
    pub(super) fn bounded_input(&self, message: Message) -> Message {
        let excess = if asks_for_input(&message) { self.input_excess(&message) } else { None };
        match excess {
            Some(reason) => Message::read(mcp::error_response(message.id().as_ref(), INTERNAL_ERROR, &reason)),
            None => message,
        }
    }

    /// Why a message that asks for input is refused; `None` if it is not.
    fn input_excess(&self, message: &Message) -> Option<String> {
        let limit = self.limit(self.rules.config.input_limit)?;
        if !self.client().tokenizer.exceeds(message.bytes(), limit) {
            return None;
        }
        let bytes = message.bytes().len();
        let what = if message.kind() == Kind::Request { "request" } else { "result" };
        tracing::warn!(
            tenant = self.tenant(),
            bytes,
            "refused a {what} of the server that asks for input (input-limit)"
        );
        Some(format!("the {what} asks for input with {bytes} bytes, more than the setting `input-limit` allows"))
    }
}
