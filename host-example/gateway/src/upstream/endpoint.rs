//! The endpoint of a server over HTTP.

use std::fmt::Write;
use std::sync::Once;
use std::time::Duration;

use reqwest::header::HeaderMap;
use reqwest::{Client, Url, redirect};

/// Timeout of connecting.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server's URL, and the headers to send with each request.
#[derive(Clone, Debug)]
pub struct Endpoint {
    url: Url,
    headers: HeaderMap,
    client: Client,
}

/// Why an [`Endpoint`] cannot be created.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EndpointError {
    /// Not a URL.
    #[error("`{url}` is not a URL: {reason}")]
    Url {
        /// The text given.
        url: String,
        /// Why it is not a URL.
        reason: String,
    },
    /// The HTTP client cannot be created, for example without root certificates.
    #[error("cannot create an HTTP client: {0}")]
    Client(String),
}

impl Endpoint {
    /// Creates an endpoint that sends these headers with each request.
    ///
    /// # Errors
    /// [`EndpointError`] if the URL is invalid or the HTTP client cannot be created.
    pub fn new(url: &str, headers: HeaderMap) -> Result<Self, EndpointError> {
        static PROVIDER: Once = Once::new();
        // Fails only if the program has installed a provider already, which serves as well.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let parsed =
            url.parse().map_err(|error| EndpointError::Url { url: url.to_owned(), reason: format!("{error}") });
        let client = Self::new_client()?;
        Ok(Self { url: parsed?, headers, client })
    }

    /// The same endpoint with a new HTTP client, for use on another runtime: a connection ends with the runtime that opened
    /// it.
    pub(crate) fn with_own_connections(&self) -> Result<Self, EndpointError> {
        Ok(Self { client: Self::new_client()?, ..self.clone() })
    }

    fn new_client() -> Result<Client, EndpointError> {
        // A redirect would turn a POST into a GET.
        let client = Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirect::Policy::none());
        client.build().map_err(|error| EndpointError::Client(Self::explain(&error)))
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

    /// Formats an error with its causes, without the URL, which may hold a secret.
    pub(crate) fn explain(error: &reqwest::Error) -> String {
        let mut text = String::from(if error.is_connect() { "connection failed" } else { "the request failed" });
        let mut cause = std::error::Error::source(error);
        while let Some(error) = cause {
            let _ = write!(text, ": {error}");
            cause = error.source();
        }
        text
    }
}
