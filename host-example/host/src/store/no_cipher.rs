//! Without the feature `object-store`, nothing is encrypted.

use std::path::PathBuf;

use super::{MANIFEST_BYTES_MAX, StoreError};

pub(super) const SEALED_MANIFEST_BYTES_MAX: u64 = MANIFEST_BYTES_MAX;

#[derive(Clone, Debug)]
pub(super) struct TenantKeys(pub(super) PathBuf);

/// Never made.
#[derive(Clone, Debug)]
pub(super) enum OffloadCipher {}

/// Never made.
#[derive(Debug)]
pub(super) enum ObjectCipher {}

/// Never made.
pub(super) struct Opening(ObjectCipher);

impl TenantKeys {
    pub(super) fn encrypting(&self, _: &str) -> Result<OffloadCipher, StoreError> {
        Err(StoreError::NotFound { path: self.0.clone() })
    }

    pub(super) fn decrypting(
        &self,
        _: &str,
        _: &str,
        _: &[u8],
        path: PathBuf,
    ) -> Result<(Vec<u8>, OffloadCipher), StoreError> {
        Err(StoreError::NotFound { path })
    }
}

impl OffloadCipher {
    pub(super) fn object(&self, _: &str) -> Result<ObjectCipher, StoreError> {
        match *self {}
    }

    pub(super) fn seal_manifest(&self, _: &str, _: &[u8]) -> Result<Vec<u8>, StoreError> {
        match *self {}
    }
}

impl ObjectCipher {
    pub(super) fn seal(&self, _: u64, _: &[u8]) -> Result<Vec<u8>, StoreError> {
        match *self {}
    }

    pub(super) fn open(&self, _: u64, _: Vec<u8>) -> Option<Vec<u8>> {
        match *self {}
    }
}

impl Opening {
    pub(super) fn new(cipher: ObjectCipher, _: PathBuf) -> Self {
        Self(cipher)
    }

    pub(super) fn add(
        &mut self,
        _: &[u8],
        _: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        match self.0 {}
    }

    pub(super) fn finish(self, _: &mut impl FnMut(&[u8]) -> Result<(), StoreError>) -> Result<(), StoreError> {
        match self.0 {}
    }
}

pub(super) fn is_encrypted(_: &[u8]) -> bool {
    false
}

pub(super) const fn sealed_bytes(bytes: u64) -> u64 {
    bytes
}
