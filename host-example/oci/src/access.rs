//! Requests to one registry, with the authorization that it asks for.

use std::collections::BTreeMap;
use std::sync::Once;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reqwest::header::{AUTHORIZATION, HeaderValue, WWW_AUTHENTICATE};
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode, Url, redirect};
use serde::Deserialize;

use crate::credentials::Login;
use crate::error::{Error, Step};
use crate::reference::{Reference, is_loopback};
use crate::registries::Registries;

/// Timeout of connecting.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of redirects, which lead to the storage of a registry.
const REDIRECTS_MAX: usize = 5;

/// Maximum size of the answer with a token: 64 KiB.
const TOKEN_BYTES_MAX: u64 = 64 << 10;

/// Maximum length of text of a registry in an error, in characters.
const QUOTE_MAX: usize = 200;

/// Access to one artifact.
pub(crate) struct Access {
    http: Client,
    base: Url,
    registry: String,
    login: Option<Login>,
    plain: Vec<String>,
    authorization: Option<HeaderValue>,
}

/// The answer of a token server.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl Access {
    pub(crate) fn new(reference: &Reference, registries: &Registries) -> Result<Self, Error> {
        static PROVIDER: Once = Once::new();
        // Fails only if the program has installed a provider already, which serves as well.
        PROVIDER.call_once(|| drop(rustls::crypto::ring::default_provider().install_default()));
        let registry = reference.registry.clone();
        let plain = registries.plain_http.clone();
        let is_plain = may_be_plain(&registry, &plain);
        let host = if registry == "docker.io" { "registry-1.docker.io" } else { &registry };
        let scheme = if is_plain { "http" } else { "https" };
        let invalid = |error| Error::Client(format!("`{registry}` is not a host: {error}"));
        let base = format!("{scheme}://{host}/v2/{}/", reference.name).parse().map_err(invalid)?;
        let allowed = plain.clone();
        let redirects = redirect::Policy::custom(move |attempt| {
            if attempt.previous().len() > REDIRECTS_MAX {
                return attempt.error("too many redirects");
            }
            match check_scheme(attempt.url(), &allowed) {
                Ok(()) => attempt.follow(),
                Err(error) => attempt.error(error),
            }
        });
        let mut builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirects);
        if is_plain {
            // A proxy could read what is not encrypted.
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|error| Error::Client(causes(&error)))?;
        let login = registries.credentials.of(reference).cloned();
        Ok(Self { http, base, registry, login, plain, authorization: None })
    }

    /// The URL of something of the artifact by its path below the name, or of what the registry names.
    pub(crate) fn url(&self, location: &str) -> Result<Url, Error> {
        let url = self.base.join(location).map_err(|_| self.invalid("it names a location that is not a URL"))?;
        check_scheme(&url, &self.plain)?;
        Ok(url)
    }

    /// Drops the authorization, so that the next request asks which one it needs.
    pub(crate) fn forget(&mut self) {
        self.authorization = None;
    }

    /// Sends a request, a second time with authorization if the registry asks for it.
    pub(crate) async fn send(
        &mut self,
        method: Method,
        url: &Url,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Error> {
        let response = self.send_once(method.clone(), url, &with).await?;
        if response.status() != StatusCode::UNAUTHORIZED || self.authorization.is_some() {
            return Ok(response);
        }
        let challenges: Vec<String> = response
            .headers()
            .get_all(WWW_AUTHENTICATE)
            .iter()
            .filter_map(|value| value.to_str().ok().map(str::to_owned))
            .collect();
        match self.authorized(&challenges).await? {
            None => Ok(response),
            Some(authorization) => {
                self.authorization = Some(authorization);
                self.send_once(method, url, &with).await
            }
        }
    }

    async fn send_once(
        &self,
        method: Method,
        url: &Url,
        with: impl Fn(RequestBuilder) -> RequestBuilder,
    ) -> Result<Response, Error> {
        let mut request = with(self.http.request(method, url.clone()));
        // Storage that a registry names elsewhere has its own authorization, in the URL.
        let is_registry = url.origin() == self.base.origin();
        if let Some(authorization) = self.authorization.as_ref().filter(|_| is_registry) {
            request = request.header(AUTHORIZATION, authorization);
        }
        request.send().await.map_err(|error| self.unreachable(&error))
    }

    /// The authorization that one of these challenges asks for. `None` if there are no credentials for it.
    async fn authorized(&self, challenges: &[String]) -> Result<Option<HeaderValue>, Error> {
        let challenges = || challenges.iter().filter_map(|text| challenge(text));
        if let Some((_, parameters)) = challenges().find(|(scheme, _)| scheme == "bearer") {
            return self.token(&parameters).await.map(Some);
        }
        let login = self.login.as_ref().filter(|_| challenges().any(|(scheme, _)| scheme == "basic"));
        Ok(login.and_then(|Login { user, password }| {
            let encoded = STANDARD.encode(format!("{user}:{password}"));
            secret(&format!("Basic {encoded}"))
        }))
    }

    async fn token(&self, parameters: &BTreeMap<String, String>) -> Result<HeaderValue, Error> {
        let realm =
            parameters.get("realm").ok_or_else(|| self.invalid("it asks for a token and does not say where"))?;
        let mut url: Url = realm.parse().map_err(|_| self.invalid("it asks for a token from what is not a URL"))?;
        check_scheme(&url, &self.plain)?;
        for name in ["service", "scope"] {
            if let Some(value) = parameters.get(name) {
                url.query_pairs_mut().append_pair(name, value);
            }
        }
        let mut request = self.http.get(url);
        if let Some(Login { user, password }) = &self.login {
            request = request.basic_auth(user, Some(password));
        }
        let response = request.send().await.map_err(|error| self.unreachable(&error))?;
        let response = self.expect(response, Step::Token, || "token server where it says".to_owned())?;
        let answer = self.read(response, TOKEN_BYTES_MAX).await?;
        let Token { token, access_token } =
            serde_json::from_slice(&answer).map_err(|_| self.invalid("its token is not JSON"))?;
        let token = token.or(access_token).and_then(|token| secret(&format!("Bearer {token}")));
        token.ok_or_else(|| self.invalid("the answer to the request for a token has none"))
    }

    /// An answer that says yes.
    pub(crate) fn expect(
        &self,
        response: Response,
        step: Step,
        missing: impl FnOnce() -> String,
    ) -> Result<Response, Error> {
        let registry = self.registry.clone();
        match response.status() {
            status if status.is_success() => Ok(response),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(Error::Denied { registry, status: status.as_u16(), with_credentials: self.login.is_some() })
            }
            StatusCode::NOT_FOUND => Err(Error::NotFound { registry, missing: missing() }),
            status => Err(Error::Status { registry, status: status.as_u16(), step }),
        }
    }

    /// Reads a whole body of at most `limit` bytes.
    pub(crate) async fn read(&self, response: Response, limit: u64) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.stream(response, |chunk| {
            if (bytes.len() + chunk.len()) as u64 > limit {
                return Err(Error::TooLarge { limit, found: None });
            }
            bytes.extend_from_slice(chunk);
            Ok(())
        })
        .await?;
        Ok(bytes)
    }

    /// Passes on a body as it arrives.
    pub(crate) async fn stream(
        &self,
        mut response: Response,
        mut take: impl FnMut(&[u8]) -> Result<(), Error>,
    ) -> Result<(), Error> {
        while let Some(chunk) = response.chunk().await.map_err(|error| self.unreachable(&error))? {
            take(&chunk)?;
        }
        Ok(())
    }

    pub(crate) fn invalid(&self, reason: &str) -> Error {
        Error::Invalid { registry: self.registry.clone(), reason: reason.to_owned() }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Error {
        let what = if error.is_connect() {
            "cannot be reached"
        } else if error.is_redirect() {
            "redirects to where it must not"
        } else {
            "breaks off"
        };
        Error::Unreachable { registry: self.registry.clone(), reason: format!("{what}{}", causes(error)) }
    }
}

/// Whether a registry is spoken to in plain HTTP.
fn may_be_plain(registry: &str, plain: &[String]) -> bool {
    is_loopback(registry) || plain.iter().any(|name| name == registry)
}

/// Checks that a URL has TLS, or needs none.
fn check_scheme(url: &Url, plain: &[String]) -> Result<(), Error> {
    let host = url.host_str().unwrap_or_default();
    let registry = url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
    match url.scheme() {
        "https" => Ok(()),
        "http" if may_be_plain(&registry, plain) => Ok(()),
        _ => Err(Error::Plain(printable(&registry))),
    }
}

/// The scheme of a challenge in lower case, and its parameters.
fn challenge(text: &str) -> Option<(String, BTreeMap<String, String>)> {
    let (scheme, mut rest) = text.trim().split_once(' ').unwrap_or((text.trim(), ""));
    let mut parameters = BTreeMap::new();
    while let Some((name, value)) = rest.split_once('=') {
        let (value, after) = match value.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => value.split_at(value.find(',').unwrap_or(value.len())),
        };
        parameters.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
        rest = after.trim_start().trim_start_matches(',');
    }
    Some((scheme.to_ascii_lowercase(), parameters))
}

/// A header that is not shown.
fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Text of a registry, for an error.
pub(crate) fn printable(text: &str) -> String {
    text.chars().take(QUOTE_MAX).flat_map(char::escape_debug).collect()
}

/// The causes of an error, without its URL, which may hold a secret.
fn causes(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges_are_read() {
        let text =
            r#"Bearer realm="https://auth.example.com/token",service="a, b",scope="repository:a:pull,push", error=x"#;
        let (scheme, parameters) = challenge(text).unwrap();
        let parameters: Vec<_> = parameters.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let expected = [
            ("error", "x"),
            ("realm", "https://auth.example.com/token"),
            ("scope", "repository:a:pull,push"),
            ("service", "a, b"),
        ];
        assert_eq!((scheme.as_str(), parameters.as_slice()), ("bearer", &expected[..]));
        assert_eq!(challenge("Basic realm=\"x\"").unwrap().0, "basic");
        assert_eq!(challenge("Negotiate").unwrap(), ("negotiate".to_owned(), BTreeMap::new()));
        assert_eq!(challenge("Bearer realm=\"open"), None);
    }

    #[test]
    fn only_named_hosts_are_asked_without_tls() {
        let plain = vec!["registry.internal:5000".to_owned()];
        let check = |url: &str| check_scheme(&url.parse().unwrap(), &plain);
        for good in ["https://a.example.com/x", "http://127.0.0.1:5000/x", "http://registry.internal:5000/x"] {
            assert!(check(good).is_ok(), "{good}");
        }
        for bad in
            ["http://a.example.com/x", "http://registry.internal/x", "http://registry.internal:5001/", "ftp://a/"]
        {
            assert!(matches!(check(bad), Err(Error::Plain(_))), "{bad}");
        }
    }
}
