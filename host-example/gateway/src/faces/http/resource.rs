//! What clients learn of the authorization that they need: the metadata of a protected resource (RFC 9728).

use axum::body::Body;
use axum::http::request::Parts;
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::Response;
use serde_json::json;

use crate::listener::guard::json as response;

/// The path of the metadata. The path of the endpoint may follow.
const PATH: &str = "/.well-known/oauth-protected-resource";

/// The gateway as a protected resource.
#[derive(Debug)]
pub(super) struct ProtectedResource {
    path: String,
    url: String,
    metadata: String,
}

impl ProtectedResource {
    /// Of the endpoint `path` beneath the URL `base`, for tokens of this issuer.
    pub(super) fn new(base: &str, path: &str, issuer: &str) -> Self {
        let metadata = json!({
            "resource": format!("{base}{path}"),
            "authorization_servers": [issuer],
            "bearer_methods_supported": ["header"],
        });
        Self { path: format!("{PATH}{path}"), url: format!("{base}{PATH}{path}"), metadata: metadata.to_string() }
    }

    /// The answer to a request for the metadata.
    pub(super) fn metadata(&self, head: &Parts) -> Option<Response> {
        let asked = head.uri.path();
        let is_read = matches!(head.method, Method::GET | Method::HEAD);
        (is_read && (asked == PATH || asked == self.path))
            .then(|| response(StatusCode::OK, Body::from(self.metadata.clone())))
    }

    /// The header `WWW-Authenticate` for a request without a valid token.
    pub(super) fn demand(&self, is_invalid: bool) -> HeaderValue {
        let error = if is_invalid { ", error=\"invalid_token\"" } else { "" };
        let value = format!("Bearer resource_metadata=\"{}\"{error}", self.url);
        HeaderValue::try_from(value).unwrap_or(HeaderValue::from_static("Bearer"))
    }
}
