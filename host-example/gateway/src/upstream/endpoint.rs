//! The address of a server behind HTTP.

use std::fmt::Write;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Url, redirect};

/// How long a connection may take.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's address, and what is sent with each request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    client: Client,
}

/// Why there is no such endpoint.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL.
    #[error("`{url}` is not a URL: {reason}")]
    Url {
        /// As it was given.
        url: String,
        /// What is wrong.
        reason: String,
    },
    /// The client for it cannot be made, such as without certificates.
    #[error("no client for HTTP: {0}")]
    Client(String),
}

impl Endpoint {
    /// An endpoint with headers for each request to it.
    ///
    /// # Errors
    /// [`EndpointError`].
    pub fn new(url: &str, headers: HeaderMap) -> Result<Self, EndpointError> {
        static PROVIDER: Once = Once::new();
        // Fails only when the program has one already, which serves as well.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let parsed =
            url.parse().map_err(|error| EndpointError::Url { url: url.to_owned(), reason: format!("{error}") });
        // A redirect would send a POST again as a GET.
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirect::Policy::none());
        let client = client.build().map_err(|error| EndpointError::Client(Self::explain(&error)))?;
        Ok(Self { url: parsed?, headers, client })
    }

    pub(crate) fn url(&self) -> Url {
        self.url.clone()
    }

    pub(crate) const fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) const fn client(&self) -> &Client {
        &self.client
    }

    /// An error with its causes, and without the address, which may hold a secret.
    pub(crate) fn explain(error: &reqwest::Error) -> String {
        let mut text = String::from(if error.is_connect() { "no connection" } else { "the request failed" });
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        text
    }
}
