//! Tokens and headers that authorize, and where the configuration says to find them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ffi::OsString;
use std::path::PathBuf;
use std::{fmt, fs};

use lro_host::store::Digest;
use reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize, Serializer};
use zeroize::Zeroizing;

use super::Config;
use super::gateway::{HEADERS_KEY, HIDDEN, TOKENS_KEY};
use super::layers::{Problem, SettingsError, key_text};
use super::variables::{GATEWAY_TABLE, VARIABLE_PREFIX};

/// The key of [`super::GatewaySettings::admin_token`].
const ADMIN_TOKEN_KEY: &str = "admin-token";
/// The key of [`super::GatewaySettings::metrics_token`].
const METRICS_TOKEN_KEY: &str = "metrics-token";

/// Where to find a bearer token. The configuration does not contain the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum Token {
    /// `env:NAME`: the trimmed value of this variable.
    Variable(String),
    /// `file:PATH`: the trimmed content of this file.
    File(PathBuf),
    /// `sha256:` and 64 hexadecimal digits: the SHA-256 of the token.
    Sha256(Digest),
}

impl fmt::Display for Token {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "env:{name}"),
            Self::File(path) => write!(formatter, "file:{}", path.display()),
            Self::Sha256(digest) => write!(formatter, "sha256:{digest}"),
        }
    }
}

impl Serialize for Token {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for Token {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        if let Some(name) = text.strip_prefix("env:") {
            return variable_name(name).map(Self::Variable);
        }
        match text.strip_prefix("file:") {
            Some("") => return Err("expected a path after `file:`"),
            Some(path) => return Ok(Self::File(path.into())),
            None => {}
        }
        if text.starts_with("sha256:") {
            return text.parse().map(Self::Sha256).map_err(|_| "expected 64 hexadecimal digits after `sha256:`");
        }
        Err("expected `env:NAME`, `file:PATH`, or `sha256:` and 64 hexadecimal digits: \
             the token itself does not belong in the file")
    }
}

impl Token {
    /// Returns the SHA-256 of the token.
    fn digest(&self, environment: impl Fn(&str) -> Option<OsString>) -> Result<Digest, String> {
        // This copy is wiped. The environment keeps the token, so the process must not be dumpable.
        let token = Zeroizing::new(match self {
            Self::Sha256(digest) => return Ok(*digest),
            Self::Variable(name) => environment(name).ok_or("the variable is not set")?.into_encoded_bytes(),
            Self::File(path) => fs::read(path).map_err(|error| format!("cannot read the file: {error}"))?,
        });
        match (token.trim_ascii(), self) {
            ([], Self::File(_)) => Err("the file is empty".to_owned()),
            ([], _) => Err("the variable is empty".to_owned()),
            (token, _) => Ok(Digest::of(token)),
        }
    }
}

/// The value of a header for the server. A literal text may be a secret, and is not displayed.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum UpstreamHeader {
    /// `env:NAME`: the trimmed value of this variable.
    Variable(String),
    /// Any other text: the value itself.
    Text(String),
}

impl fmt::Display for UpstreamHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable(name) => write!(formatter, "env:{name}"),
            Self::Text(_) => formatter.write_str(HIDDEN),
        }
    }
}

impl fmt::Debug for UpstreamHeader {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

impl Serialize for UpstreamHeader {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for UpstreamHeader {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, &'static str> {
        match text.strip_prefix("env:") {
            Some(name) => variable_name(name).map(Self::Variable),
            None => header_value(&text).map(|_| Self::Text(text)),
        }
    }
}

impl UpstreamHeader {
    fn value(&self, environment: impl Fn(&str) -> Option<OsString>) -> Result<HeaderValue, &'static str> {
        let text = match self {
            Self::Text(text) => text.clone(),
            Self::Variable(name) => {
                let value = environment(name).ok_or("the variable is not set")?;
                value.into_string().map_err(|_| "the variable is not UTF-8")?
            }
        };
        match (text.trim(), self) {
            ("", Self::Variable(_)) => Err("the variable is empty"),
            (text, _) => header_value(text),
        }
    }
}

fn header_value(text: &str) -> Result<HeaderValue, &'static str> {
    let mut value = HeaderValue::from_str(text).map_err(|_| "expected a header value without control characters")?;
    value.set_sensitive(true);
    Ok(value)
}

/// Validates the name of a variable. One with the prefix of the settings would be read as a setting.
fn variable_name(name: &str) -> Result<String, &'static str> {
    if name.is_empty() || name.contains(['=', '\0']) {
        Err("expected the name of a variable after `env:`")
    } else if name.starts_with(VARIABLE_PREFIX) {
        Err("expected a variable that does not begin with `MCP_LRO_`, as the settings do")
    } else {
        Ok(name.to_owned())
    }
}

/// Parses the name of a header.
pub(super) fn header_name(name: &str) -> Result<HeaderName, String> {
    name.parse().map_err(|_| format!("`{name}` is not a valid header name"))
}

impl Config {
    /// Returns the SHA-256 of each tenant's bearer token. `environment` is usually [`std::env::var_os`].
    ///
    /// # Errors
    /// [`SettingsError`] with all tokens whose variable or file is missing or empty, or that two tenants share.
    pub fn gateway_tokens(
        &self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<BTreeMap<String, Digest>, SettingsError> {
        let mut tenants: BTreeMap<[u8; 32], &str> = BTreeMap::new();
        let digests = self.resolve(TOKENS_KEY, &self.gateway.tokens, |tenant, token| {
            let digest = token.digest(&environment)?;
            match tenants.entry(digest.0) {
                Entry::Occupied(other) => Err(format!("tenant `{}` has the same token", other.get())),
                Entry::Vacant(free) => {
                    free.insert(tenant);
                    Ok((tenant.to_owned(), digest))
                }
            }
        })?;
        Ok(digests.into_iter().collect())
    }

    /// Returns the SHA-256 of the admin token. `environment` is usually [`std::env::var_os`].
    ///
    /// # Errors
    /// [`SettingsError`] if its variable or file is missing or empty.
    pub fn admin_token(&self, environment: impl Fn(&str) -> Option<OsString>) -> Result<Option<Digest>, SettingsError> {
        self.operator_token(ADMIN_TOKEN_KEY, self.gateway.admin_token.as_ref(), environment)
    }

    /// Returns the SHA-256 of the metrics token. `environment` is usually [`std::env::var_os`].
    ///
    /// # Errors
    /// [`SettingsError`] if its variable or file is missing or empty.
    pub fn metrics_token(
        &self,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Digest>, SettingsError> {
        self.operator_token(METRICS_TOKEN_KEY, self.gateway.metrics_token.as_ref(), environment)
    }

    fn operator_token(
        &self,
        key: &str,
        token: Option<&Token>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Option<Digest>, SettingsError> {
        let Some(token) = token else { return Ok(None) };
        token.digest(environment).map(Some).map_err(|message| {
            let key = key_text(&[GATEWAY_TABLE.to_owned(), key.to_owned()]);
            SettingsError { problems: vec![Problem::new(&key, token, self.origin(&key), message)] }
        })
    }

    /// Returns the headers to add to each request to the server, marked as sensitive. `environment` is usually
    /// [`std::env::var_os`].
    ///
    /// # Errors
    /// [`SettingsError`] with all headers whose variable is missing, empty, or not a valid header value.
    pub fn gateway_headers(&self, environment: impl Fn(&str) -> Option<OsString>) -> Result<HeaderMap, SettingsError> {
        let headers = self.resolve(HEADERS_KEY, &self.gateway.upstream_headers, |name, header| {
            Ok((header_name(name)?, header.value(&environment)?))
        })?;
        Ok(headers.into_iter().collect())
    }

    /// Resolves each value of a table of the gateway, and collects the problems.
    fn resolve<'a, V: fmt::Display, T>(
        &self,
        table: &str,
        entries: &'a BTreeMap<String, V>,
        mut look_up: impl FnMut(&'a str, &V) -> Result<T, String>,
    ) -> Result<Vec<T>, SettingsError> {
        let (mut found, mut problems) = (Vec::new(), Vec::new());
        for (name, value) in entries {
            match look_up(name, value) {
                Ok(one) => found.push(one),
                Err(message) => {
                    let key = key_text(&[GATEWAY_TABLE.to_owned(), table.to_owned(), name.clone()]);
                    problems.push(Problem::new(&key, value, self.origin(&key), message));
                }
            }
        }
        if problems.is_empty() { Ok(found) } else { Err(SettingsError { problems }) }
    }
}
