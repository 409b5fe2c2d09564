//! A connection to a server, however it is reached.

use std::io;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::HeaderMap;
use tokio::runtime::{Builder, Runtime};

use super::link::{Expects, Link, LinkError, Receive};
use super::none::NoServer;
use super::remote::{Challenge, Remote};
use super::{Endpoint, Launch, Upstream};
use crate::session::{Failure, Session};
use crate::translate::Translator;

/// Threads of a connection over HTTP. Each has its own, so that a client that does not read delays no other.
const HTTP_THREADS: usize = 2;

pub(crate) enum Connection<R> {
    Child(Link<R>),
    Remote(Remote<R>),
    None(Box<NoServer<R>>),
}

/// What a connection needs.
pub(crate) enum Prepared {
    Child(Launch),
    Remote(Endpoint, Runtime),
    None,
}

impl Prepared {
    /// # Errors
    /// If the threads for HTTP connections cannot be started.
    pub(crate) fn of(upstream: Upstream) -> io::Result<Self> {
        Ok(match upstream {
            Upstream::Command(launch) => Self::Child(launch),
            Upstream::None => Self::None,
            Upstream::Http(endpoint) => {
                let runtime = Builder::new_multi_thread().worker_threads(HTTP_THREADS).enable_all().build()?;
                Self::Remote(endpoint, runtime)
            }
        })
    }
}

impl<R: Receive + 'static> Connection<R> {
    pub(crate) fn new(prepared: Prepared, session: Arc<Session>, receiver: Weak<R>, translator: Translator) -> Self {
        match prepared {
            Prepared::Child(launch) => Self::Child(Link::new(launch, session, receiver, translator)),
            Prepared::None => Self::None(Box::new(NoServer::new(session, receiver, translator))),
            Prepared::Remote(endpoint, runtime) => {
                Self::Remote(Remote::new(runtime, endpoint, session, receiver, translator))
            }
        }
    }

    /// Sends a message that expects no response. Blocks while the server does not read.
    pub(crate) fn send(&self, message: &Bytes) -> Result<(), LinkError> {
        match self {
            Self::Child(link) => link.send(message),
            Self::Remote(remote) => {
                remote.send(message.clone());
                Ok(())
            }
            Self::None(none) => {
                none.send(message);
                Ok(())
            }
        }
    }

    /// Sends a client's message. Returns the failure of a request that cannot be sent. Blocks while the server does not
    /// read.
    ///
    /// # Errors
    /// If a message without a response cannot be sent.
    pub(crate) fn forward(
        &self,
        session: &Session,
        message: &Bytes,
        expects: &Expects,
    ) -> Result<Option<Failure>, LinkError> {
        match self {
            Self::Child(link) => link.forward(session, message, expects),
            Self::Remote(_) | Self::None(_) => self.send(message).map(|()| None),
        }
    }

    /// Sends a message without blocking. Returns whether it was sent.
    pub(crate) fn try_send(&self, message: &Bytes) -> bool {
        match self {
            Self::Child(link) => link.try_send(message),
            Self::Remote(remote) => remote.try_send(message.clone()),
            Self::None(none) => {
                none.send(message);
                true
            }
        }
    }

    /// Sends these headers with the messages that follow, if the server is reached over HTTP.
    pub(crate) fn set_client_headers(&self, headers: HeaderMap) {
        if let Self::Remote(remote) = self {
            remote.set_client_headers(headers);
        }
    }

    /// The server's demand for authorization since the last call of this function, if there was one.
    pub(crate) fn take_challenge(&self) -> Option<Challenge> {
        match self {
            Self::Child(_) | Self::None(_) => None,
            Self::Remote(remote) => remote.take_challenge(),
        }
    }

    pub(crate) fn translator(&self) -> &Translator {
        match self {
            Self::Child(link) => link.translator(),
            Self::Remote(remote) => remote.translator(),
            Self::None(none) => none.translator(),
        }
    }

    /// Does what is due because time has passed.
    pub(crate) fn poll(&self) {
        match self {
            Self::Child(link) => link.poll(),
            Self::Remote(remote) => remote.poll(),
            Self::None(_) => {}
        }
    }

    /// Stops the server, and kills it after the timeout; over HTTP, ends the session with it.
    pub(crate) fn stop(&self, timeout: Duration) {
        match self {
            Self::Child(link) => link.stop(timeout),
            Self::Remote(remote) => remote.end_session(),
            Self::None(_) => {}
        }
    }
}
