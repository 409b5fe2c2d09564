//! Where a policy component is.

use std::fmt;
use std::path::PathBuf;

use lro_oci::{ParseReferenceError, Reference, SCHEME};
use serde::{Deserialize, Serialize};

/// Where a policy component is: a path, or `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`, an artifact in an OCI registry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "PathBuf")]
pub enum PolicyPlace {
    /// A file.
    File(PathBuf),
    /// An artifact in a registry.
    Registry(Reference),
}

impl TryFrom<PathBuf> for PolicyPlace {
    type Error = ParseReferenceError;

    fn try_from(path: PathBuf) -> Result<Self, Self::Error> {
        match path.to_str().filter(|text| text.starts_with(SCHEME)) {
            Some(reference) => reference.parse().map(Self::Registry),
            None => Ok(Self::File(path)),
        }
    }
}

impl From<PolicyPlace> for String {
    fn from(place: PolicyPlace) -> Self {
        place.to_string()
    }
}

impl fmt::Display for PolicyPlace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(formatter),
            Self::Registry(reference) => reference.fmt(formatter),
        }
    }
}
