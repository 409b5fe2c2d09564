//! Bearer tokens that an authorization server signs: JSON Web Tokens (RFC 7519), with the tenant in a claim.
//!
//! The gateway is the protected resource of the MCP authorization: it checks signature, issuer, audience and time, and names the
//! authorization server in its metadata (RFC 9728). It issues nothing.

mod keys;
mod verify;

use std::time::Duration;

use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
use serde_json::{Map, Value};

use self::keys::Keys;
pub use self::keys::KeysError;
use crate::settings::GatewaySettings;

/// Seconds by which the clocks of the authorization server and of this machine may differ.
const LEEWAY_SECONDS: u64 = 30;

/// Maximum length of a token, in bytes. A longer one is refused unread.
const TOKEN_BYTES_MAX: usize = 16 << 10;

/// Maximum length of a tenant's name in a token, in bytes.
const TENANT_BYTES_MAX: usize = 256;

/// Algorithms with a public key. With a shared secret, everyone who checks a token could make one.
const ALGORITHMS: [Algorithm; 9] = [
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
    Algorithm::ES256,
    Algorithm::ES384,
    Algorithm::EdDSA,
];

/// Checks tokens of one authorization server.
#[derive(Debug)]
pub struct Jwt {
    issuer: String,
    audience: Vec<String>,
    tenant_claim: String,
    keys: Keys,
}

/// Why a token is refused. The reason is for the log: the client learns that its token is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JwtError {
    #[error("the token has more than {TOKEN_BYTES_MAX} bytes")]
    TooLong,
    #[error("the token is signed by {0:?}; use an algorithm with a public key")]
    Algorithm(Algorithm),
    #[error("no key of the authorization server fits the token")]
    UnknownKey,
    #[error("the token is not valid")]
    Invalid(#[from] jsonwebtoken::errors::Error),
    #[error("the token has no tenant in its claim `{0}` (gateway.jwt-tenant-claim)")]
    NoTenant(String),
    #[error(transparent)]
    Keys(#[from] KeysError),
}

impl Jwt {
    /// As configured; `None` if tokens are not JSON Web Tokens.
    ///
    /// # Errors
    /// [`KeysError`] if the file of the keys cannot be read. Keys behind a URL are fetched for the first token.
    pub fn new(settings: &GatewaySettings) -> Result<Option<Self>, KeysError> {
        let (Some(issuer), Some(keys)) = (&settings.jwt_issuer, &settings.jwt_keys) else { return Ok(None) };
        verify::install();
        Ok(Some(Self {
            issuer: issuer.clone(),
            audience: settings.jwt_audience.clone(),
            tenant_claim: settings.jwt_tenant_claim.clone(),
            keys: Keys::new(keys, Duration::from_secs(settings.jwt_keys_seconds.get()))?,
        }))
    }

    /// The authorization server.
    pub(crate) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// The tenant of a valid token.
    pub(crate) async fn tenant(&self, token: &str) -> Result<String, JwtError> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(JwtError::TooLong);
        }
        let header = decode_header(token)?;
        if !ALGORITHMS.contains(&header.alg) {
            return Err(JwtError::Algorithm(header.alg));
        }
        let fits = |key: &Jwk| is_for(key, header.alg, header.kid.as_deref());
        let known = self.keys.that(fits).await?;
        let mut validation = Validation::new(header.alg);
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(&self.audience);
        validation.set_required_spec_claims(&["exp", "iss", "aud"]);
        validation.validate_nbf = true;
        validation.leeway = LEEWAY_SECONDS;
        let mut failure = JwtError::UnknownKey;
        for key in &known {
            match decode::<Map<String, Value>>(token, &DecodingKey::from_jwk(key)?, &validation) {
                Ok(decoded) => return self.tenant_of(&decoded.claims),
                Err(error) => failure = error.into(),
            }
        }
        Err(failure)
    }

    fn tenant_of(&self, claims: &Map<String, Value>) -> Result<String, JwtError> {
        let tenant = claims.get(&self.tenant_claim).and_then(Value::as_str);
        let tenant = tenant.filter(|name| !name.is_empty() && name.len() <= TENANT_BYTES_MAX);
        tenant.map(str::to_owned).ok_or_else(|| JwtError::NoTenant(self.tenant_claim.clone()))
    }
}

/// Whether a key can have signed a token.
fn is_for(key: &Jwk, algorithm: Algorithm, id: Option<&str>) -> bool {
    let common = &key.common;
    let is_named = id.is_none() || common.key_id.as_deref() == id;
    let is_algorithm = common.key_algorithm.is_none_or(|own| own == KeyAlgorithm::from(algorithm));
    let is_for_signatures = common.public_key_use.as_ref().is_none_or(|own| *own == PublicKeyUse::Signature);
    let family = DecodingKey::from_jwk(key).map(|key| key.family());
    is_named && is_algorithm && is_for_signatures && family.is_ok_and(|family| family == algorithm.family())
}
