//! Policies from OCI registries.

use std::env;
use std::time::Duration;
use std::{io, thread};

use lro_host::policy::{ComponentCache, Digest, Fetch, Freshness, LoadError, SIGNATURE_BYTES_MAX, Source};
use lro_oci::{Credentials, CredentialsError, Reference, Registries};

use super::parts;
use crate::settings::Config;

/// Why an artifact is not pulled or pushed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistriesError {
    /// The registry does not give or take it.
    #[error("cannot use {reference}")]
    Registry {
        /// The artifact.
        reference: Box<Reference>,
        /// The reason.
        #[source]
        source: lro_oci::Error,
    },
    /// Its signature is larger than [`SIGNATURE_BYTES_MAX`].
    #[error("{0}: its signature has more than {SIGNATURE_BYTES_MAX} bytes")]
    Signature(Box<Reference>),
    /// The credentials cannot be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// It took longer than `loading.fetch-ms`.
    #[error("{reference}: the registry took longer than {} ms (loading.fetch-ms)", .limit.as_millis())]
    Time {
        /// The artifact.
        reference: Box<Reference>,
        /// The limit.
        limit: Duration,
    },
    /// The thread for it cannot be started.
    #[error("cannot speak to registries")]
    System(#[source] io::Error),
}

/// Pulls and pushes policies. Credentials are read anew each time: they may expire while a gateway runs.
#[derive(Debug)]
pub struct PolicyRegistries {
    plain_http: Vec<String>,
    limit: Duration,
    bytes_max: u64,
    cache: Option<ComponentCache>,
}

impl PolicyRegistries {
    /// As configured. Pulled components are cached beside compiled code; without the cache, which is logged, every start
    /// pulls them.
    pub fn new(config: &Config) -> Self {
        let cache = parts::cache_directory(parts::COMPONENTS).and_then(|directory| {
            let opened = ComponentCache::open(directory);
            opened.inspect_err(|error| tracing::warn!(%error, "cannot cache fetched policies")).ok()
        });
        Self {
            plain_http: config.loading.plain_http.clone(),
            limit: Duration::from_millis(config.loading.fetch_ms.get()),
            bytes_max: config.loading.component_bytes.get(),
            cache,
        }
    }

    /// The component that a reference stands for now, and the reference with the digest of its manifest.
    ///
    /// # Errors
    /// [`RegistriesError`] if the registry does not give it.
    pub fn pull(&self, reference: &Reference) -> Result<(Reference, Source), RegistriesError> {
        self.within_limit(reference, async |registries: Registries| {
            let artifact = registries.resolve(reference).await.map_err(refused(reference))?;
            let signature = artifact.signature.clone();
            if signature.as_ref().is_some_and(|text| text.len() as u64 > SIGNATURE_BYTES_MAX) {
                return Err(RegistriesError::Signature(Box::new(reference.clone())));
            }
            let pinned = reference.with_digest(artifact.digest);
            let digest = Digest(artifact.component.0);
            let cached = self.cache.as_ref().and_then(|cache| cache.component(&digest, self.bytes_max));
            let bytes = match cached {
                Some(bytes) => bytes,
                None => artifact.download(self.bytes_max).await.map_err(refused(reference))?,
            };
            let source = Source { bytes, signature };
            if let Some(cache) = &self.cache {
                cache.put(&reference.to_string(), &source);
            }
            Ok((pinned, source))
        })
    }

    /// Pushes a component and its signature. Returns the reference with the digest of its manifest.
    ///
    /// # Errors
    /// [`RegistriesError`] if the registry does not take it.
    pub fn push(&self, reference: &Reference, source: &Source) -> Result<Reference, RegistriesError> {
        let Source { bytes, signature } = source;
        self.within_limit(reference, async |registries: Registries| {
            let pushed = registries.push(reference, bytes, signature.as_deref()).await;
            Ok(reference.with_digest(pushed.map_err(refused(reference))?))
        })
    }

    /// The component that a reference stands for, as policies are loaded: what has a digest does not change, so that a
    /// cached one needs no registry.
    ///
    /// # Errors
    /// [`LoadError::Fetch`] if the registry does not give it.
    pub fn source(&self, reference: &Reference) -> Result<Source, LoadError> {
        if reference.digest.is_some()
            && let Some(source) = self.last(reference)
        {
            return Ok(source);
        }
        let pulled = self.pull(reference);
        let name = || reference.to_string();
        pulled.map(|(_, source)| source).map_err(|error| LoadError::Fetch { name: name(), reason: reason(&error) })
    }

    /// Fetches the policies of tenants.
    pub(super) fn into_fetch(self) -> Fetch {
        Fetch::new(move |name, freshness| {
            let failed = |reason| LoadError::Fetch { name: name.to_owned(), reason };
            let reference: Reference = name.parse().map_err(|error| failed(format!("{error}")))?;
            match freshness {
                Freshness::Newest => self.source(&reference),
                Freshness::LastFetched => {
                    self.last(&reference).ok_or_else(|| failed("it is not in the cache either".to_owned()))
                }
            }
        })
    }

    fn last(&self, reference: &Reference) -> Option<Source> {
        self.cache.as_ref()?.last(&reference.to_string(), self.bytes_max)
    }

    /// Speaks to a registry on a new thread: the calling one may belong to a runtime, which must not wait.
    fn within_limit<T: Send>(
        &self,
        reference: &Reference,
        speak: impl AsyncFnOnce(Registries) -> Result<T, RegistriesError> + Send,
    ) -> Result<T, RegistriesError> {
        let credentials = Credentials::load(|name| env::var_os(name))?;
        let registries = Registries { credentials, plain_http: self.plain_http.clone() };
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(RegistriesError::System)?.block_on(async {
                let spoken = tokio::time::timeout(self.limit, speak(registries)).await;
                let late = |_| RegistriesError::Time { reference: Box::new(reference.clone()), limit: self.limit };
                spoken.map_err(late)?
            })
        };
        thread::scope(|scope| {
            let thread = thread::Builder::new().name("lro-fetch".into());
            let started = thread.spawn_scoped(scope, run).map_err(RegistriesError::System)?;
            started.join().unwrap_or_else(|_| Err(RegistriesError::System(io::Error::other("the thread panicked"))))
        })
    }
}

fn refused(reference: &Reference) -> impl FnOnce(lro_oci::Error) -> RegistriesError {
    move |source| RegistriesError::Registry { reference: Box::new(reference.clone()), source }
}

/// The reason alone, where the reference is named already.
fn reason(error: &RegistriesError) -> String {
    match error {
        RegistriesError::Registry { source, .. } => source.to_string(),
        RegistriesError::Time { limit, .. } => {
            format!("the registry took longer than {} ms (loading.fetch-ms)", limit.as_millis())
        }
        error => error.to_string(),
    }
}
