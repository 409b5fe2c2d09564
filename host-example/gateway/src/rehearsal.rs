//! What a client gets of the answers of a server, without the server: each answer is known before it is asked for.

use std::path::Path;
use std::sync::{Arc, mpsc};

use bytes::Bytes;
use lro_host::mcp::Message;

use crate::assembly::{Gateway, GatewayError};
use crate::session::{FromClient, FromServer, Session, SessionOwner};
use crate::settings::Config;

/// One client's session with a server whose answers are given.
#[derive(Debug)]
pub struct Rehearsal(Arc<Session>);

impl Rehearsal {
    /// A session whose client has not introduced itself yet: see [`Gateway::new`] for `helper`. Offloads go to the directory of
    /// the configuration.
    ///
    /// # Errors
    /// [`GatewayError`] if the configuration cannot be used.
    pub fn new(config: &Config, helper: Option<&Path>) -> Result<Self, GatewayError> {
        let gateway = Gateway::without_server(config, helper)?;
        let owner = SessionOwner { tenant: config.gateway.tenant.clone(), session: None, local: true };
        Ok(Self(Arc::new(Session::new(gateway.rules(), owner))))
    }

    /// What the client gets for its request, of which `answer` is the server's response with the same id. `None` if that is
    /// nothing. Blocks.
    pub fn exchange(&self, request: Bytes, answer: Bytes) -> Option<Bytes> {
        let (done, decided) = mpsc::channel();
        let ignored = Arc::new(|_| {});
        self.0.client_message(Message::read(request), ignored, move |decided| drop(done.send(decided)));
        match decided.recv().ok()? {
            FromClient::Answer(message) | FromClient::Open(message) => return Some(message),
            FromClient::Nothing => return None,
            FromClient::Forward(_) => {}
        }
        let (done, decided) = mpsc::channel();
        self.0.server_message(Message::read(answer), || true, move |decided| drop(done.send(decided)));
        decided.recv().ok().map(FromServer::into_messages)?.into_iter().next()
    }
}
