//! The URL under which clients reach the gateway, and names of hosts.

use serde::{Deserialize, Serialize};

use super::gateway::{authority, check_authority, without_scheme};

/// The URL of the gateway for clients: `https://`, or `http://` with a loopback name, without a query. It has no slash at
/// the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub struct PublicUrl(String);

impl PublicUrl {
    /// The whole URL.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Its host, with the port if it names one.
    pub(crate) fn host(&self) -> &str {
        authority(without_scheme(&self.0).unwrap_or_default())
    }
}

impl TryFrom<String> for PublicUrl {
    type Error = &'static str;

    fn try_from(url: String) -> Result<Self, &'static str> {
        let rest = without_scheme(&url).ok_or("expected https:// at the beginning")?;
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#\"<>\\".contains(&byte)) {
            return Err("expected a URL of visible ASCII characters without `?` and `#`");
        }
        check_authority(authority(rest))?;
        let is_plain = url.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http:"));
        if is_plain && !is_loopback(without_port(authority(rest))) {
            return Err("expected https://: addresses of downloads need no token, so nobody else may read them");
        }
        Ok(Self(url.trim_end_matches('/').to_owned()))
    }
}

/// Host names that only this machine can use.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];

pub(crate) fn is_loopback(host: &str) -> bool {
    LOOPBACK.iter().any(|name| name.eq_ignore_ascii_case(host))
}

pub(crate) fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}
