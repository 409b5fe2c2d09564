//! Signatures of tokens are checked by `ring`, which the gateway has for TLS.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature as ring;

static PROVIDER: CryptoProvider =
    CryptoProvider { signer_factory: signer, verifier_factory: verifier, key_utils: KeyUtils::new_unimplemented() };

/// Makes it the provider of the process, unless the program has installed another.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

/// The public key of an authorization server.
struct PublicKey {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, Error> {
    match key.family() == algorithm.family() {
        true => Ok(Box::new(PublicKey { algorithm: *algorithm, key: key.clone() })),
        false => Err(ErrorKind::InvalidKeyFormat.into()),
    }
}

fn signer(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>, Error> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

impl Verifier<Vec<u8>> for PublicKey {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let verified = match self.key.kind() {
            DecodingKeyKind::RsaModulusExponent { n, e } => {
                let parameters = rsa(self.algorithm).ok_or_else(SignatureError::new)?;
                ring::RsaPublicKeyComponents { n, e }.verify(parameters, message, signature)
            }
            DecodingKeyKind::SecretOrDer(key) => {
                let algorithm = curve(self.algorithm).ok_or_else(SignatureError::new)?;
                ring::UnparsedPublicKey::new(algorithm, key).verify(message, signature)
            }
        };
        verified.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for PublicKey {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}

fn rsa(algorithm: Algorithm) -> Option<&'static ring::RsaParameters> {
    Some(match algorithm {
        Algorithm::RS256 => &ring::RSA_PKCS1_2048_8192_SHA256,
        Algorithm::RS384 => &ring::RSA_PKCS1_2048_8192_SHA384,
        Algorithm::RS512 => &ring::RSA_PKCS1_2048_8192_SHA512,
        Algorithm::PS256 => &ring::RSA_PSS_2048_8192_SHA256,
        Algorithm::PS384 => &ring::RSA_PSS_2048_8192_SHA384,
        Algorithm::PS512 => &ring::RSA_PSS_2048_8192_SHA512,
        _ => return None,
    })
}

fn curve(algorithm: Algorithm) -> Option<&'static dyn ring::VerificationAlgorithm> {
    Some(match algorithm {
        Algorithm::ES256 => &ring::ECDSA_P256_SHA256_FIXED,
        Algorithm::ES384 => &ring::ECDSA_P384_SHA384_FIXED,
        Algorithm::EdDSA => &ring::ED25519,
        _ => return None,
    })
}
