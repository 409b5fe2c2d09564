//! Settings of the gateway that go together.

use super::GatewayError;
use crate::faces::http;
use crate::settings::GatewaySettings;

/// A key, and what is wrong with its value or without it.
type Problem = (&'static str, &'static str);

/// Checks that settings fit each other.
///
/// # Errors
/// [`GatewayError::Setting`] for the first that does not.
pub(super) fn check(settings: &GatewaySettings) -> Result<(), GatewayError> {
    match downloads(settings).or_else(|| tls(settings)).or_else(|| jwt(settings)) {
        Some((key, reason)) => Err(GatewayError::Setting { key, reason: reason.to_owned() }),
        None => Ok(()),
    }
}

/// Whether addresses of downloads lead nowhere, or others can read them on the way.
fn downloads(settings: &GatewaySettings) -> Option<Problem> {
    match (settings.listen, &settings.public_url) {
        _ if !settings.file_transfer => None,
        (None, _) => Some((
            "gateway.file-transfer",
            "downloads need HTTP, and this gateway is served on stdio: set gateway.listen, or turn it off",
        )),
        (Some(address), None) if !address.ip().is_loopback() => Some((
            "gateway.public-url",
            "addresses of downloads need the URL of a proxy with TLS before gateway.listen: set it to https://…",
        )),
        _ if http::is_download(&settings.path) => Some(("gateway.path", "this is the path of downloads: use another")),
        _ => None,
    }
}

/// Whether TLS lacks something that it needs.
fn tls(settings: &GatewaySettings) -> Option<Problem> {
    Some(match (settings.listen, &settings.tls_certificate, &settings.tls_key) {
        (_, None, None) | (Some(_), Some(_), Some(_)) => return None,
        (_, Some(_), None) => ("gateway.tls-certificate", "TLS needs the key of the certificate: set gateway.tls-key"),
        (_, None, Some(_)) => ("gateway.tls-key", "TLS needs a certificate: set gateway.tls-certificate"),
        (None, ..) => {
            ("gateway.tls-certificate", "TLS needs HTTP, and this gateway is served on stdio: set gateway.listen")
        }
    })
}

/// Whether tokens of an authorization server cannot be checked.
fn jwt(settings: &GatewaySettings) -> Option<Problem> {
    Some(match (&settings.jwt_issuer, &settings.jwt_keys, settings.jwt_audience.is_empty()) {
        (None, None, true) => return None,
        (None, ..) => ("gateway.jwt-issuer", "tokens have an issuer: set it as they name it in `iss`"),
        (Some(_), None, _) => ("gateway.jwt-keys", "set the URL or file of the issuer's keys, a JSON Web Key Set"),
        (Some(_), Some(_), true) => ("gateway.jwt-audience", "set what tokens for this gateway name in `aud`"),
        (Some(_), Some(_), false) if settings.listen.is_none() => {
            ("gateway.jwt-issuer", "tokens need HTTP, and this gateway is served on stdio: set gateway.listen")
        }
        (Some(_), Some(_), false) => return None,
    })
}
