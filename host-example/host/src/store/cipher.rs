//! Encryption of the offloads of a tenant, for a bucket that is trusted with nothing.
//!
//! A manifest begins with a header: what it is, the id of the key of the tenant, and random bytes. From these and the key of the
//! tenant, HKDF-SHA256 over the name of an object derives the key of that object. It is encrypted in blocks by
//! AES-256-GCM, with the number of the block as nonce: a block can be read alone, and belongs to no other place. The manifest says
//! how long a file is.

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::mem;
use std::path::PathBuf;

use lro_contract::digest::ParseDigestError;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use ring::hkdf::{HKDF_SHA256, Prk, Salt};

use super::error::failed;
use super::key::KEY_BYTES;
use super::ranges::BLOCK_BYTES;
use super::{Digest, INDEX_STEP_BYTES, MANIFEST_BYTES_MAX, StoreError};

/// Bytes by which a block of an object is longer than that of the file.
const TAG_BYTES: usize = 16;
/// Size of a block of an object.
const SEALED_BYTES: usize = BLOCK_BYTES + TAG_BYTES;
/// What an encrypted manifest begins with. No other begins so.
const MAGIC: &[u8; 8] = b"lro-aes1";
const ID_BYTES: usize = 8;
const SALT_BYTES: usize = 32;
/// Size of the header of an encrypted manifest.
const HEADER_BYTES: usize = MAGIC.len() + ID_BYTES + SALT_BYTES;
/// Maximum size of a manifest in a bucket.
pub(super) const SEALED_MANIFEST_BYTES_MAX: u64 = HEADER_BYTES as u64 + sealed_bytes(MANIFEST_BYTES_MAX);
/// End of the name of the file with the keys of a tenant.
const SUFFIX: &str = ".key";

/// The keys of tenants: in a directory, a file for each.
#[derive(Clone, Debug)]
pub(super) struct TenantKeys(pub(super) PathBuf);

/// What encrypts the objects of one offload.
#[derive(Clone)]
pub(super) struct OffloadCipher {
    header: [u8; HEADER_BYTES],
    secret: Prk,
}

/// What encrypts one object.
#[derive(Debug)]
pub(super) struct ObjectCipher(LessSafeKey);

/// Decrypts an object that arrives in pieces.
pub(super) struct Opening {
    cipher: ObjectCipher,
    /// Its address.
    place: PathBuf,
    /// The number of the next block, and what has come of it.
    next: u64,
    sealed: Vec<u8>,
}

/// Without the key, which must not get into a log.
impl fmt::Debug for OffloadCipher {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("OffloadCipher(…)")
    }
}

impl TenantKeys {
    /// For a new offload, by the first key of its tenant.
    pub(super) fn encrypting(&self, tenant: &str) -> Result<OffloadCipher, StoreError> {
        let keys = self.of(tenant)?;
        let first = keys.first().ok_or_else(|| self.missing(tenant))?;
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| StoreError::Random(error.into()))?;
        Ok(OffloadCipher::new(&first.0, salt))
    }

    /// For the offload with this manifest, by the key that it names; and the manifest in clear. `key` is that of the manifest,
    /// `place` its address.
    pub(super) fn decrypting(
        &self,
        tenant: &str,
        key: &str,
        manifest: &[u8],
        place: PathBuf,
    ) -> Result<(Vec<u8>, OffloadCipher), StoreError> {
        let refused = |reason| StoreError::Unexpected { path: place.clone(), reason };
        let Some((header, sealed)) = manifest.split_first_chunk::<HEADER_BYTES>().filter(|_| is_encrypted(manifest))
        else {
            return Err(refused("it is not encrypted, as all offloads have to be with `store-keys`"));
        };
        let salt = *header.last_chunk::<SALT_BYTES>().unwrap_or(&[0; SALT_BYTES]);
        let keys = self.of(tenant)?;
        let mut ciphers = keys.iter().map(|secret| OffloadCipher::new(&secret.0, salt));
        let cipher = ciphers.find(|cipher| cipher.header == *header);
        let cipher = cipher.ok_or_else(|| refused("it was encrypted with another key than those of its tenant"))?;
        let opened = cipher.object(key)?.open(0, sealed.to_vec()).ok_or_else(|| refused("it is damaged"))?;
        Ok((opened, cipher))
    }

    /// The keys of a tenant, by the name of its directory.
    fn of(&self, tenant: &str) -> Result<Vec<Digest>, StoreError> {
        let path = self.path(tenant);
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(self.missing(tenant)),
            read => read.map_err(failed("read", &path))?,
        };
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        let keys: Result<Vec<Digest>, ParseDigestError> = lines.map(str::parse).collect();
        keys.map_err(|_| StoreError::WrongKey { path })
    }

    fn path(&self, tenant: &str) -> PathBuf {
        self.0.join(format!("{tenant}{SUFFIX}"))
    }

    fn missing(&self, tenant: &str) -> StoreError {
        StoreError::NoKey { tenant: tenant.to_owned(), path: self.path(tenant) }
    }
}

impl OffloadCipher {
    fn new(secret: &[u8; KEY_BYTES], salt: [u8; SALT_BYTES]) -> Self {
        let id = Digest::of(&[b"id of a key of lro-filter", &secret[..]].concat());
        let mut header = [0; HEADER_BYTES];
        let parts = MAGIC.iter().chain(&id.0[..ID_BYTES]).chain(&salt);
        header.iter_mut().zip(parts).for_each(|(to, from)| *to = *from);
        Self { header, secret: Salt::new(HKDF_SHA256, &salt).extract(secret) }
    }

    /// For the object with this key.
    pub(super) fn object(&self, key: &str) -> Result<ObjectCipher, StoreError> {
        let info = [key.as_bytes()];
        let expanded = self.secret.expand(&info, &AES_256_GCM).map_err(|error| refused(error, key))?;
        Ok(ObjectCipher(LessSafeKey::new(UnboundKey::from(expanded))))
    }

    /// The manifest with this key, as it stands in the bucket.
    pub(super) fn seal_manifest(&self, key: &str, manifest: &[u8]) -> Result<Vec<u8>, StoreError> {
        Ok([&self.header[..], &self.object(key)?.seal(0, manifest)?].concat())
    }
}

impl ObjectCipher {
    /// Encrypts bytes, from the block of this number on.
    pub(super) fn seal(&self, first: u64, bytes: &[u8]) -> Result<Vec<u8>, StoreError> {
        let mut sealed = Vec::with_capacity(bytes.len() + bytes.len().div_ceil(BLOCK_BYTES) * TAG_BYTES);
        for (number, block) in (first..).zip(bytes.chunks(BLOCK_BYTES)) {
            let mut block = block.to_vec();
            self.0
                .seal_in_place_append_tag(nonce(number), Aad::empty(), &mut block)
                .map_err(|error| refused(error, "a block"))?;
            sealed.extend(block);
        }
        Ok(sealed)
    }

    /// Decrypts whole blocks, from that of this number on. `None` if they are others.
    pub(super) fn open(&self, first: u64, mut sealed: Vec<u8>) -> Option<Vec<u8>> {
        let mut opened = Vec::with_capacity(sealed.len());
        for (number, block) in (first..).zip(sealed.chunks_mut(SEALED_BYTES)) {
            opened.extend_from_slice(self.0.open_in_place(nonce(number), Aad::empty(), block).ok()?);
        }
        Some(opened)
    }
}

impl Opening {
    pub(super) fn new(cipher: ObjectCipher, place: PathBuf) -> Self {
        Self { cipher, place, next: 0, sealed: Vec::new() }
    }

    /// Adds a piece, and passes on what is complete.
    pub(super) fn add(
        &mut self,
        piece: &[u8],
        pass_on: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.sealed.extend_from_slice(piece);
        let whole = self.sealed.len() / SEALED_BYTES * SEALED_BYTES;
        let rest = self.sealed.split_off(whole);
        let blocks = mem::replace(&mut self.sealed, rest);
        self.pass_on(blocks, pass_on)
    }

    /// Passes on the last block.
    pub(super) fn finish(
        mut self,
        pass_on: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let last = mem::take(&mut self.sealed);
        self.pass_on(last, pass_on)
    }

    fn pass_on(
        &mut self,
        blocks: Vec<u8>,
        pass_on: &mut impl FnMut(&[u8]) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let (number, count) = (self.next, blocks.len().div_ceil(SEALED_BYTES) as u64);
        self.next += count;
        let changed = || StoreError::Changed {
            path: self.place.clone(),
            expected: "what was encrypted".to_owned(),
            found: "other bytes".to_owned(),
        };
        pass_on(&self.cipher.open(number, blocks).ok_or_else(changed)?)
    }
}

/// What cannot happen with blocks and names of these sizes.
fn refused(error: Unspecified, what: &str) -> StoreError {
    StoreError::bucket("encrypt", PathBuf::from(what), error.into())
}

/// Whether a manifest is encrypted.
pub(super) fn is_encrypted(manifest: &[u8]) -> bool {
    manifest.starts_with(MAGIC)
}

/// Size of the object for so many bytes.
pub(super) const fn sealed_bytes(bytes: u64) -> u64 {
    bytes + bytes.div_ceil(INDEX_STEP_BYTES) * TAG_BYTES as u64
}

fn nonce(number: u64) -> Nonce {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(nonce)
}
