//! Requests of the command to a gateway.

use reqwest::{Client, ClientBuilder};

/// Installs the cryptography of TLS, which all clients of the process share.
pub(crate) fn install_cryptography() {
    // Fails only if the program has installed a provider already, which serves as well.
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A client without a proxy, as only the gateway may see what is sent to it.
pub(crate) fn client() -> ClientBuilder {
    install_cryptography();
    Client::builder().no_proxy()
}

/// Waits for an exchange.
pub(crate) fn wait<T>(exchange: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(exchange)
}
