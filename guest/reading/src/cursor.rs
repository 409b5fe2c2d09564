//! Signed cursors: where the next page begins. Clients cannot forge or change them.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, Mac};
use lro_contract::digest::Digest;
use lro_contract::ulid::Ulid;
use sha2::Sha256;

/// Domain separator: keeps the signature from being valid for anything else signed with the same key.
const CONTEXT: &[u8] = b"lro cursor 1\0";

/// Size of the signature: the first half of an HMAC-SHA256.
const SIGNATURE_BYTES: usize = 16;

/// Size of a cursor with a query and the signature.
const CURSOR_BYTES_MAX: usize = 114;

/// Size of the truncated digest of the tenant.
const TENANT_BYTES: usize = 16;

/// Where the next page begins, and what the cursor is valid for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The offload.
    pub offload: Ulid,
    /// Index of the file in the record of the offload.
    pub file: u16,
    /// Where the next page begins.
    pub position: Position,
    /// Size of the pages.
    pub size: PageSize,
    /// When the offload and the cursor expire, in whole milliseconds.
    pub expires: SystemTime,
    /// Digest of the query whose answer is paged; `None` for the section itself.
    pub query: Option<Digest>,
}

/// A position in a section.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Number of the record, counted from 0.
    pub record: u64,
    /// Offset in the record, in bytes.
    pub offset: u64,
}

/// The size of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    /// Maximum bytes.
    pub bytes: u32,
    /// Maximum records.
    pub records: u32,
}

/// Why a cursor is rejected. Reading neither continues nor restarts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// It is truncated or malformed.
    #[error("invalid cursor: it is truncated or malformed; pass `next` of the previous page unchanged")]
    Malformed,
    /// The signature does not match.
    #[error("invalid cursor: it was changed or signed with another key; pass `next` of the previous page unchanged")]
    Signature,
    /// It was made for another tenant.
    #[error("the cursor belongs to another tenant")]
    Tenant,
    /// Its offload has expired.
    #[error("the cursor has expired together with its offload")]
    Expired,
    /// It was made for another offload.
    #[error("the cursor belongs to another offload")]
    Offload,
    /// It was made for another section.
    #[error("the cursor belongs to another section")]
    Section,
    /// It was made for pages of another size.
    #[error("the cursor belongs to pages of another size: leave the size out")]
    PageSize,
    /// It was made for another query, or for none.
    #[error("the cursor belongs to another query")]
    Query,
}

/// The key that signs cursors: 32 random bytes.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

impl fmt::Debug for CursorKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    /// Wraps the given key.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Encodes and signs a cursor for a tenant: URL-safe base64 of 110 characters, or 152 with a query.
    pub fn sign(&self, tenant: &str, cursor: &Cursor) -> String {
        let mut bytes = Vec::with_capacity(CURSOR_BYTES_MAX);
        bytes.extend(cursor.offload.bits().to_be_bytes());
        bytes.extend(tenant_bytes(tenant));
        bytes.extend(cursor.file.to_be_bytes());
        bytes.extend(cursor.position.record.to_be_bytes());
        bytes.extend(cursor.position.offset.to_be_bytes());
        bytes.extend(cursor.size.bytes.to_be_bytes());
        bytes.extend(cursor.size.records.to_be_bytes());
        bytes.extend(milliseconds(cursor.expires).to_be_bytes());
        bytes.extend(cursor.query.iter().flat_map(|query| query.0));
        self.signed(CONTEXT, bytes)
    }

    /// Verifies and decodes a cursor of this tenant.
    ///
    /// # Errors
    /// When the text was not signed with this key, belongs to another tenant, or has expired by `now`. The caller
    /// compares the other fields.
    pub fn open(&self, tenant: &str, text: &str, now: SystemTime) -> Result<Cursor, CursorError> {
        let payload = self.verified(CONTEXT, text)?;
        let (cursor, of_tenant) = parse(&mut payload.as_slice()).ok_or(CursorError::Malformed)?;
        if of_tenant != tenant_bytes(tenant) {
            return Err(CursorError::Tenant);
        }
        if cursor.expires <= now {
            return Err(CursorError::Expired);
        }
        Ok(cursor)
    }

    /// Encodes bytes with their signature, which holds in this context only.
    pub(crate) fn signed(&self, context: &[u8], mut bytes: Vec<u8>) -> String {
        let signature = self.hmac(context, &bytes).finalize().into_bytes();
        bytes.extend(signature.iter().take(SIGNATURE_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// Decodes what [`signed`](Self::signed) returned for the same context.
    pub(crate) fn verified(&self, context: &[u8], text: &str) -> Result<Vec<u8>, CursorError> {
        let mut bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError::Malformed)?;
        let (payload, signature) = bytes.split_last_chunk::<SIGNATURE_BYTES>().ok_or(CursorError::Malformed)?;
        self.hmac(context, payload).verify_truncated_left(signature).map_err(|_| CursorError::Signature)?;
        bytes.truncate(payload.len());
        Ok(bytes)
    }

    fn hmac(&self, context: &[u8], bytes: &[u8]) -> Hmac<Sha256> {
        // HMAC pads a key shorter than a block with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(self.0).for_each(|(to, from)| *to = from);
        Hmac::<Sha256>::new(&block.into()).chain_update(context).chain_update(bytes)
    }
}

/// Decodes what [`CursorKey::sign`] writes before the signature.
fn parse(bytes: &mut &[u8]) -> Option<(Cursor, [u8; TENANT_BYTES])> {
    let offload = Ulid::from_bits(u128::from_be_bytes(take(bytes)?));
    let tenant = take(bytes)?;
    let file = u16::from_be_bytes(take(bytes)?);
    let position = Position { record: u64::from_be_bytes(take(bytes)?), offset: u64::from_be_bytes(take(bytes)?) };
    let size = PageSize { bytes: u32::from_be_bytes(take(bytes)?), records: u32::from_be_bytes(take(bytes)?) };
    let expires = UNIX_EPOCH.checked_add(Duration::from_millis(u64::from_be_bytes(take(bytes)?)))?;
    let query = if bytes.is_empty() { None } else { Some(Digest(take(bytes)?)) };
    bytes.is_empty().then_some((Cursor { offload, file, position, size, expires, query }, tenant))
}

pub(crate) fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// Truncated digest of a tenant, whose name can be of any length.
fn tenant_bytes(tenant: &str) -> [u8; TENANT_BYTES] {
    let Digest(digest) = Digest::of(tenant.as_bytes());
    std::array::from_fn(|at| digest[at])
}

pub(crate) fn milliseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
