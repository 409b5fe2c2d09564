//! The public keys of an authorization server: a JSON Web Key Set (RFC 7517), from a file or a URL.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use std::{fs, io};

use arc_swap::ArcSwapOption;
use http_body_util::{BodyExt, Limited};
use jsonwebtoken::jwk::{Jwk, JwkSet};
use reqwest::{Client, Url};
use tokio::sync::Mutex;

use super::JwtError;
use crate::upstream::{Endpoint, EndpointError};

/// How long keys are not fetched again after an attempt, whatever tokens arrive.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// Timeout of a fetch.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum size of a key set, in bytes.
const SET_BYTES_MAX: usize = 1 << 20;

/// Why the keys of the authorization server cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// The file cannot be read.
    #[error("cannot read `{path}` (gateway.jwt-keys)")]
    File {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// The URL cannot be used.
    #[error(transparent)]
    Url(#[from] EndpointError),
    /// The keys cannot be fetched.
    #[error("cannot fetch the keys of the authorization server (gateway.jwt-keys): {0}")]
    Fetch(String),
    /// It is not a key set.
    #[error("gateway.jwt-keys is not a JSON Web Key Set")]
    NoSet(#[from] serde_json::Error),
}

/// Keys, read anew when they are old or none fits a token.
#[derive(Debug)]
pub(super) struct Keys {
    source: Source,
    fresh_for: Duration,
    current: ArcSwapOption<KeySet>,
    /// When the keys were last asked for. Held meanwhile, so that one request fetches for all.
    attempt: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum Source {
    File(PathBuf),
    Url(Box<(Url, Client)>),
}

#[derive(Debug)]
struct KeySet {
    keys: Vec<Jwk>,
    read: Instant,
}

impl Keys {
    /// Of a URL, or else a file, which is read now.
    pub(super) fn new(place: &str, fresh_for: Duration) -> Result<Self, KeysError> {
        let source = match place.contains("://") {
            true => {
                let endpoint = Endpoint::new(place, reqwest::header::HeaderMap::new())?;
                Source::Url(Box::new((endpoint.url(), endpoint.client().clone())))
            }
            false => Source::File(PathBuf::from(place)),
        };
        let keys = Self { source, fresh_for, current: ArcSwapOption::empty(), attempt: Mutex::default() };
        if let Source::File(path) = &keys.source {
            keys.current.store(Some(Arc::new(of_file(path)?)));
        }
        Ok(keys)
    }

    /// The keys that fit a token. While they cannot be read, or another request reads them, those before stay in use.
    pub(super) async fn that(&self, fits: impl Fn(&Jwk) -> bool) -> Result<Vec<Jwk>, JwtError> {
        let known = self.current.load_full();
        let is_fresh = known.as_ref().is_some_and(|set| set.read.elapsed() < self.fresh_for);
        let mut attempt = match known.as_ref().and_then(|set| set.that(&fits)) {
            Some(found) if is_fresh => return Ok(found),
            Some(found) => match self.attempt.try_lock() {
                Ok(attempt) => attempt,
                Err(_) => return Ok(found),
            },
            None => self.attempt.lock().await,
        };
        if attempt.is_none_or(|at| at.elapsed() >= RETRY_INTERVAL) {
            // A request that is given up has made an attempt, too.
            *attempt = Some(Instant::now());
            let read = self.read().await;
            // Those that have waited do not wait again.
            *attempt = Some(Instant::now());
            match read {
                Ok(set) => self.current.store(Some(Arc::new(set))),
                Err(error) if known.is_none() => return Err(error.into()),
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    tracing::warn!(error, "the keys of the authorization server are used as they were");
                }
            }
        }
        drop(attempt);
        self.current.load().as_ref().and_then(|set| set.that(&fits)).ok_or(JwtError::UnknownKey)
    }

    async fn read(&self) -> Result<KeySet, KeysError> {
        let (url, client) = match &self.source {
            Source::File(path) => return of_file(path),
            Source::Url(place) => place.as_ref(),
        };
        let failed = |error: reqwest::Error| KeysError::Fetch(Endpoint::explain(&error));
        let response = client.get(url.clone()).timeout(FETCH_TIMEOUT).send().await.map_err(failed)?;
        if !response.status().is_success() {
            return Err(KeysError::Fetch(format!("the status is {}", response.status())));
        }
        let body = Limited::new(reqwest::Body::from(response), SET_BYTES_MAX).collect().await;
        let body = body.map_err(|error| KeysError::Fetch(error.to_string()))?;
        KeySet::of(&body.to_bytes())
    }
}

fn of_file(path: &PathBuf) -> Result<KeySet, KeysError> {
    let text = fs::read(path).map_err(|source| KeysError::File { path: path.clone(), source })?;
    KeySet::of(&text)
}

impl KeySet {
    fn of(text: &[u8]) -> Result<Self, KeysError> {
        let JwkSet { keys } = serde_json::from_slice(text)?;
        Ok(Self { keys, read: Instant::now() })
    }

    /// The keys that fit; `None` if none does.
    fn that(&self, fits: impl Fn(&Jwk) -> bool) -> Option<Vec<Jwk>> {
        let found: Vec<Jwk> = self.keys.iter().filter(|key| fits(key)).cloned().collect();
        Some(found).filter(|found| !found.is_empty())
    }
}
