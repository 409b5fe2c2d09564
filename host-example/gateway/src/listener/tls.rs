//! TLS of the listener, with a certificate that is read again when its files change.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// How often the gateway checks whether the files have changed.
const RELOAD_INTERVAL: Duration = Duration::from_secs(1);

/// Why the listener cannot use TLS.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// The file of the certificates cannot be read.
    #[error("cannot read certificates from `{path}` (gateway.tls-certificate)")]
    Certificate {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// The file has no certificate.
    #[error("`{0}` (gateway.tls-certificate) has no certificate in PEM")]
    NoCertificate(PathBuf),
    /// The file of the key cannot be read.
    #[error("cannot read a private key from `{path}` (gateway.tls-key)")]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        #[source]
        source: pem::Error,
    },
    /// The key cannot be used with the certificate.
    #[error("the certificate and the key do not fit (gateway.tls-certificate, gateway.tls-key)")]
    Pair(#[from] rustls::Error),
}

/// The certificate and key of the listener.
#[derive(Debug)]
pub(crate) struct Certificate {
    files: Files,
    provider: Arc<CryptoProvider>,
    current: ArcSwap<CertifiedKey>,
}

#[derive(Clone, Debug)]
struct Files {
    certificate: PathBuf,
    key: PathBuf,
}

/// What changes when a file is written or replaced: size and time.
type State = [Option<(u64, Option<SystemTime>)>; 2];

impl Certificate {
    /// Reads the files: the certificate of the gateway and those that issued it, and its key, both in PEM.
    pub(crate) fn read(certificate: &Path, key: &Path) -> Result<Arc<Self>, TlsError> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let files = Files { certificate: certificate.to_owned(), key: key.to_owned() };
        let current = ArcSwap::from_pointee(files.read(&provider)?);
        Ok(Arc::new(Self { files, provider, current }))
    }

    /// What accepts connections with it, over HTTP/1.1.
    pub(crate) fn config(self: &Arc<Self>) -> Result<Arc<ServerConfig>, TlsError> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(&self.provider));
        let resolver: Arc<dyn ResolvesServerCert> = Arc::clone(self) as _;
        let mut config =
            builder.with_safe_default_protocol_versions()?.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Takes the files whenever they change. Until they can be read and fit, the certificate before stays in use.
    pub(crate) async fn watch(self: Arc<Self>) {
        let mut seen = self.files.state();
        loop {
            tokio::time::sleep(RELOAD_INTERVAL).await;
            let state = self.files.state();
            if state == seen {
                continue;
            }
            seen = state;
            match self.files.read(&self.provider) {
                Ok(certificate) => {
                    self.current.store(Arc::new(certificate));
                    tracing::info!("the certificate of the listener has changed");
                }
                Err(error) => tracing::warn!(
                    error = &error as &dyn std::error::Error,
                    "the certificate of the listener is used as it was"
                ),
            }
        }
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.load_full())
    }
}

impl Files {
    fn read(&self, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
        let failed = |source| TlsError::Certificate { path: self.certificate.clone(), source };
        let chain = CertificateDer::pem_file_iter(&self.certificate).map_err(failed)?;
        let chain = chain.collect::<Result<Vec<_>, _>>().map_err(failed)?;
        if chain.is_empty() {
            return Err(TlsError::NoCertificate(self.certificate.clone()));
        }
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|source| TlsError::Key { path: self.key.clone(), source })?;
        Ok(CertifiedKey::from_der(chain, key, provider)?)
    }

    fn state(&self) -> State {
        [&self.certificate, &self.key].map(|path| {
            let metadata = fs::metadata(path).ok()?;
            Some((metadata.len(), metadata.modified().ok()))
        })
    }
}
