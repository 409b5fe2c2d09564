//! Signatures in the format of minisign, made here so that each test has keys of its own.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use lro_host::policy::PublicKey;
use ring::signature::{Ed25519KeyPair, KeyPair};

/// A pair of keys.
pub(crate) struct Signer {
    /// Which key it is, as signatures name it.
    id: [u8; 8],
    pair: Ed25519KeyPair,
}

impl Signer {
    /// The keys of this number.
    pub(crate) fn new(number: u8) -> Self {
        Self { id: [number; 8], pair: Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap() }
    }

    /// The key that verifies.
    pub(crate) fn public(&self) -> PublicKey {
        let key = [b"Ed", &self.id[..], self.pair.public_key().as_ref()].concat();
        PublicKey::from_base64(&STANDARD.encode(key)).unwrap()
    }

    /// The text of a signature file.
    pub(crate) fn sign(&self, bytes: &[u8]) -> String {
        self.sign_with(bytes, "made by a test")
    }

    /// The text of a signature file with this trusted comment.
    pub(crate) fn sign_with(&self, bytes: &[u8], comment: &str) -> String {
        self.text(b"ED", blake2b_simd::blake2b(bytes).as_bytes(), comment)
    }

    /// The same in the legacy form, which is not prehashed.
    pub(crate) fn sign_legacy(&self, bytes: &[u8]) -> String {
        self.text(b"Ed", bytes, "made by a test")
    }

    fn text(&self, algorithm: &[u8], signed: &[u8], comment: &str) -> String {
        let signature = self.pair.sign(signed);
        let global = self.pair.sign(&[signature.as_ref(), comment.as_bytes()].concat());
        let first = STANDARD.encode([algorithm, &self.id, signature.as_ref()].concat());
        let last = STANDARD.encode(global.as_ref());
        format!("untrusted comment: signature\n{first}\ntrusted comment: {comment}\n{last}\n")
    }
}
