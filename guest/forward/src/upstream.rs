//! The server that requests are forwarded to.

use crate::bindings::wasi::cli0_3_0::environment::get_environment;
use crate::bindings::wasi::http::types::Scheme;

/// The server.
pub(crate) struct Upstream {
    pub(crate) scheme: Scheme,
    pub(crate) authority: String,
    /// Where all requests go, if it is set.
    path: Option<String>,
}

impl Upstream {
    /// Reads `LRO_UPSTREAM`. The error names it.
    pub(crate) fn of_environment() -> Result<Self, String> {
        let url = get_environment().into_iter().find(|(name, _)| name == "LRO_UPSTREAM").map(|(_, value)| value);
        let url = url.ok_or("LRO_UPSTREAM is not set: expected the URL of the server")?;
        let (scheme, rest) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
            (Some(rest), _) => (Scheme::Https, rest),
            (_, Some(rest)) => (Scheme::Http, rest),
            _ => return Err(format!("LRO_UPSTREAM is `{url}`: expected http:// or https://")),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, Some(format!("/{path}"))),
            None => (rest, None),
        };
        if authority.is_empty() || rest.contains(['?', '#']) {
            return Err(format!("LRO_UPSTREAM is `{url}`: expected a host, and no query"));
        }
        Ok(Self { scheme, authority: authority.to_owned(), path })
    }

    /// The path with query that a request goes to.
    pub(crate) fn path_for(&self, path: &str) -> String {
        match (&self.path, path.split_once('?')) {
            (None, _) => path.to_owned(),
            (Some(own), Some((_, query))) => format!("{own}?{query}"),
            (Some(own), None) => own.clone(),
        }
    }
}
