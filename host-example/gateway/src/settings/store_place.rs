//! Where offloads lie.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Schemes of addresses of buckets, and how names of the variables with their credentials begin.
const BUCKETS: [(&str, &str); 3] = [("s3", "AWS_"), ("gs", "GOOGLE_"), ("az", "AZURE_")];

/// Where offloads lie: `dir:PATH`, or a bucket, `s3://BUCKET/PREFIX`, `gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum StorePlace {
    /// A directory.
    Directory(PathBuf),
    /// The address of a bucket.
    Bucket(String),
}

impl StorePlace {
    /// How names of variables with credentials for it begin.
    pub(super) fn variables(&self) -> Option<&'static str> {
        match self {
            Self::Directory(_) => None,
            Self::Bucket(url) => variables(url),
        }
    }
}

fn variables(url: &str) -> Option<&'static str> {
    let (scheme, bucket) = url.split_once("://")?;
    let found = BUCKETS.into_iter().find(|(name, _)| *name == scheme).filter(|_| !bucket.starts_with(['/', '?', '#']));
    found.filter(|_| !bucket.is_empty()).map(|(_, variables)| variables)
}

/// The text says no place of a store.
#[derive(Debug, thiserror::Error)]
#[error("expected dir:PATH, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or az://CONTAINER/PREFIX, not `{0}`")]
pub struct ParsePlaceError(String);

impl TryFrom<String> for StorePlace {
    type Error = ParsePlaceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        if let Some(path) = text.strip_prefix("dir:").filter(|path| !path.is_empty()) {
            return Ok(Self::Directory(path.into()));
        }
        match variables(&text) {
            Some(_) => Ok(Self::Bucket(text)),
            None => Err(ParsePlaceError(text)),
        }
    }
}

impl From<StorePlace> for String {
    fn from(place: StorePlace) -> Self {
        place.to_string()
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => write!(formatter, "dir:{}", path.display()),
            Self::Bucket(url) => formatter.write_str(url),
        }
    }
}
