//! Names of artifacts.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Begins a reference.
pub const SCHEME: &str = "oci://";

/// Maximum lengths of a name and of a tag, in bytes, as registries have them.
const NAME_BYTES_MAX: usize = 255;
const TAG_BYTES_MAX: usize = 128;

/// The tag of a reference that has neither tag nor digest.
const LATEST: &str = "latest";

/// A SHA-256 digest, written as `sha256:` and 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 32]);

impl Digest {
    /// The digest of bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl FromStr for Digest {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.strip_prefix("sha256:").unwrap_or_default().as_bytes();
        let nibble = |digit: &u8| match digit {
            b'0'..=b'9' => Some(digit - b'0'),
            b'a'..=b'f' => Some(digit - b'a' + 10),
            _ => None,
        };
        let bytes = digits.chunks_exact(2).map(|pair| match pair {
            [high, low] => Some(nibble(high)? << 4 | nibble(low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = bytes.collect();
        let whole = bytes.filter(|_| digits.len() == 64).and_then(|bytes| bytes.try_into().ok());
        whole.map(Self).ok_or("a digest is `sha256:` and 64 lower-case hexadecimal digits")
    }
}

impl Serialize for Digest {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

/// The name of an artifact: `oci://HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]`. Without tag and digest, the tag is `latest`.
/// With a digest, which is that of the manifest, the tag only documents.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Reference {
    /// The registry, a host with a port if it has one.
    pub registry: String,
    /// The name of the artifact there, such as `team/policy`.
    pub name: String,
    /// A name for a version, which can move to another one.
    pub tag: Option<String>,
    /// SHA-256 of the manifest.
    pub digest: Option<Digest>,
}

/// The text is not a reference.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a reference to an OCI artifact, {SCHEME}HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]: {reason}")]
pub struct ParseReferenceError {
    text: String,
    reason: &'static str,
}

impl Reference {
    /// What stands for the version in URLs: the digest, else the tag.
    pub(crate) fn version(&self) -> String {
        match (self.digest, &self.tag) {
            (Some(digest), _) => digest.to_string(),
            (None, Some(tag)) => tag.clone(),
            (None, None) => LATEST.to_owned(),
        }
    }

    /// The same artifact, by the digest of its manifest.
    pub fn with_digest(&self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self.clone() }
    }
}

/// Whether a registry is on this machine.
pub(crate) fn is_loopback(registry: &str) -> bool {
    let host = match registry.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => registry,
    };
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

impl FromStr for Reference {
    type Err = ParseReferenceError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let wrong = |reason| ParseReferenceError { text: text.to_owned(), reason };
        let rest = text.strip_prefix(SCHEME).ok_or_else(|| wrong("it begins with another scheme"))?;
        let (rest, digest) = match rest.split_once('@') {
            Some((rest, digest)) => (rest, Some(digest.parse().map_err(wrong)?)),
            None => (rest, None),
        };
        let (registry, path) = rest.split_once('/').ok_or_else(|| wrong("it has no name"))?;
        let (name, tag) = match path.rsplit_once(':') {
            Some((name, tag)) => (name, Some(tag.to_owned())),
            None => (path, None),
        };
        let is_of =
            |text: &str, others: &[u8]| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || others.contains(&byte));
        if registry.is_empty() || !is_of(registry, b".-:[]") {
            return Err(wrong("the host has other characters than letters, digits, `.` and `-`"));
        }
        let is_step = |step: &str| step.starts_with(|first: char| first.is_ascii_alphanumeric()) && is_of(step, b"._-");
        if name.len() > NAME_BYTES_MAX
            || name.bytes().any(|byte| byte.is_ascii_uppercase())
            || !name.split('/').all(is_step)
        {
            return Err(wrong("the name has other characters than lower-case letters, digits, `.`, `_`, `-` and `/`"));
        }
        if tag.as_ref().is_some_and(|tag| tag.is_empty() || tag.len() > TAG_BYTES_MAX || !is_of(tag, b"._-")) {
            return Err(wrong("the tag has other characters than letters, digits, `.`, `_` and `-`"));
        }
        Ok(Self { registry: registry.to_owned(), name: name.to_owned(), tag, digest })
    }
}

impl TryFrom<String> for Reference {
    type Error = ParseReferenceError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> Self {
        reference.to_string()
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { registry, name, tag, digest } = self;
        write!(formatter, "{SCHEME}{registry}/{name}")?;
        tag.iter().try_for_each(|tag| write!(formatter, ":{tag}"))?;
        digest.iter().try_for_each(|digest| write!(formatter, "@{digest}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_read_and_written() {
        let digest = Digest::of(b"");
        for text in [
            "oci://ghcr.io/team/policy",
            "oci://127.0.0.1:5000/policy:1.4.0",
            "oci://[::1]:5000/a/b_c/d-e.f:v1",
            &format!("oci://localhost/policy@{digest}"),
            &format!("oci://localhost:1/policy:stable@{digest}"),
        ] {
            assert_eq!(text.parse::<Reference>().unwrap().to_string(), text);
        }
        let reference: Reference = format!("oci://localhost:1/policy:stable@{digest}").parse().unwrap();
        assert_eq!((reference.version(), reference.tag.as_deref()), (digest.to_string(), Some("stable")));
        assert_eq!("oci://localhost/a".parse::<Reference>().unwrap().version(), "latest");
    }

    #[test]
    fn what_is_no_reference_says_why() {
        let upper = format!("oci://h/n@{}", Digest::of(b"").to_string().to_uppercase());
        for (text, reason) in [
            ("https://h/n", "scheme"),
            ("oci://h", "no name"),
            ("oci:///n", "host"),
            ("oci://user@h/n", "digest"),
            ("oci://h?/n", "host"),
            ("oci://h/", "name"),
            ("oci://h/a//b", "name"),
            ("oci://h/../b", "name"),
            ("oci://h/N", "name"),
            ("oci://h/n:", "tag"),
            ("oci://h/n:a b", "tag"),
            ("oci://h/n@sha256:12", "digest"),
            (&upper, "digest"),
        ] {
            let error = text.parse::<Reference>().unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn this_machine_is_known_by_its_addresses() {
        for local in ["localhost", "localhost:5000", "127.0.0.1:5000", "127.8.9.1", "[::1]:5000", "[::1]"] {
            assert!(is_loopback(local), "{local}");
        }
        for other in ["ghcr.io", "10.0.0.1:5000", "localhost.example.com", "127.0.0.1.example.com:80", "[::2]:1"] {
            assert!(!is_loopback(other), "{other}");
        }
    }
}
