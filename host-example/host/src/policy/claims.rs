//! What a signature says about a policy besides its bytes: words of its trusted comment.
//!
//! | word | meaning |
//! |---|---|
//! | `tenant=NAME` | only this tenant may load it |
//! | `version=1.4.0` | it does not replace a later version |
//! | `expires=2027-01-31T00:00:00Z` | it is not loaded from this time on |
//!
//! Words are separated by white space. Others are ignored: by default, minisign writes `timestamp:…` and `file:…`.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;
use std::time::SystemTime;

use chrono::DateTime;
use serde::{Deserialize, Serialize};

use super::LoadError;
use crate::store::rfc3339;

/// What the trusted comment of a valid signature says. Default: nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// The only tenant that may load the policy.
    pub tenant: Option<String>,
    /// Its version.
    pub version: Option<SignedVersion>,
    /// When it may no longer be loaded. A loaded policy serves on.
    pub expires: Option<SystemTime>,
}

impl Claims {
    /// Reads the words of a trusted comment.
    pub(super) fn parse(comment: &str) -> Result<Self, LoadError> {
        let mut claims = Self::default();
        for word in comment.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else { continue };
            let wrong = |expected| LoadError::Claim { word: word.to_owned(), expected };
            let is_repeated = match name {
                "tenant" if value.is_empty() => return Err(wrong("the name of a tenant")),
                "tenant" => claims.tenant.replace(value.to_owned()).is_some(),
                "version" => claims.version.replace(value.parse().map_err(wrong)?).is_some(),
                "expires" => {
                    let time = DateTime::parse_from_rfc3339(value).map_err(|_| wrong("a time as in RFC 3339"))?;
                    claims.expires.replace(time.into()).is_some()
                }
                _ => false,
            };
            if is_repeated {
                return Err(wrong("it once"));
            }
        }
        Ok(claims)
    }

    /// Checks that the policy may be loaded now, for a tenant if one is given.
    pub(super) fn check(&self, tenant: Option<&str>, now: SystemTime) -> Result<(), LoadError> {
        if let (Some(signed), Some(tenant)) = (&self.tenant, tenant)
            && signed != tenant
        {
            return Err(LoadError::Tenant { signed: signed.clone(), tenant: tenant.to_owned() });
        }
        match self.expires.filter(|expires| *expires <= now) {
            Some(expires) => Err(LoadError::Expired { expires: rfc3339(expires), now: rfc3339(now) }),
            None => Ok(()),
        }
    }
}

/// The version of a policy in its signature: decimal numbers below 2^64 with dots between them. They are compared from
/// left to right as numbers; missing ones are 0, so that `1.2` and `1.2.0` are the same, and `1.10` is later than `1.9`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SignedVersion(Vec<u64>);

impl SignedVersion {
    fn significant(&self) -> &[u64] {
        let zeros = self.0.iter().rev().take_while(|number| **number == 0).count();
        self.0.get(..self.0.len() - zeros).unwrap_or_default()
    }
}

impl FromStr for SignedVersion {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |part: &str| {
            let is_decimal = part.bytes().all(|byte| byte.is_ascii_digit());
            part.parse().ok().filter(|_| is_decimal)
        };
        text.split('.').map(number).collect::<Option<_>>().map(Self).ok_or("numbers with dots between them")
    }
}

impl TryFrom<String> for SignedVersion {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<SignedVersion> for String {
    fn from(version: SignedVersion) -> Self {
        version.to_string()
    }
}

impl fmt::Display for SignedVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.0.iter().enumerate() {
            let dot = if at == 0 { "" } else { "." };
            write!(formatter, "{dot}{number}")?;
        }
        Ok(())
    }
}

impl PartialEq for SignedVersion {
    fn eq(&self, other: &Self) -> bool {
        self.significant() == other.significant()
    }
}

impl Eq for SignedVersion {}

impl PartialOrd for SignedVersion {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SignedVersion {
    fn cmp(&self, other: &Self) -> Ordering {
        self.significant().cmp(other.significant())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> SignedVersion {
        text.parse().unwrap()
    }

    #[test]
    fn versions_are_compared_as_numbers() {
        let rising = ["0", "0.0.1", "0.9", "0.10", "1", "1.0.1", "1.2", "1.10.3", "2", "18446744073709551615"];
        assert!(rising.map(version).is_sorted_by(|one, next| one < next));
        for same in [["1", "1.0.0"], ["0", "0.0"], ["1.2", "1.02"]] {
            assert_eq!(version(same[0]), version(same[1]));
        }
        assert_eq!(version("1.20.0").to_string(), "1.20.0");
        for wrong in ["", "1.", ".1", "1..2", "v1", "1.2-rc", "+1", "18446744073709551616"] {
            assert!(wrong.parse::<SignedVersion>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn unknown_words_are_ignored_and_wrong_ones_are_not() {
        let comment = "timestamp:1700000000\tfile:a=b.wasm\thashed tenant=acme color=red version=1.4";
        let claims = Claims::parse(comment).unwrap();
        let expected = Claims { tenant: Some("acme".into()), version: Some(version("1.4.0")), expires: None };
        assert_eq!(claims, expected);
        assert_eq!(Claims::parse("made by hand").unwrap(), Claims::default());
        for wrong in ["tenant=", "version=latest", "expires=tomorrow", "version=1 version=2"] {
            let error = Claims::parse(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong.split(' ').next_back().unwrap()), "{error}");
        }
    }
}
