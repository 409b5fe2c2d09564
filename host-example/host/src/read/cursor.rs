//! Cursors: where a walk goes on, signed so that nobody can make or change one.

use crate::store::{Digest, Ulid};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What the signature covers besides the cursor, so that it stands for nothing else signed with the same key.
const CONTEXT: &[u8] = b"lro cursor 1\0";

/// Bytes of the signature: the first half of an HMAC-SHA256.
const SIGNATURE_BYTES: usize = 16;

/// Bytes of a cursor with a query, and its signature.
const CURSOR_BYTES_MAX: usize = 114;

/// Bytes that stand for the tenant.
const TENANT_BYTES: usize = 16;

/// Where a walk through a section goes on, and what it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// The offload.
    pub offload: Ulid,
    /// Index of the file in the record of the offload.
    pub file: u16,
    /// Where the next page begins.
    pub position: Position,
    /// The size of the pages.
    pub size: PageSize,
    /// When the offload expires, and the cursor with it; to the millisecond.
    pub expires: SystemTime,
    /// What tells the query whose answer is walked through; none when it is the section itself.
    pub query: Option<Digest>,
}

/// A place in a section.
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
    /// Most bytes.
    pub bytes: u32,
    /// Most records.
    pub records: u32,
}

/// Why a cursor is refused. The walk does not go on, and does not begin anew either.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CursorError {
    /// It is no cursor at all.
    #[error("the cursor is not valid: it was cut, or is none")]
    Malformed,
    /// The signature is not of this key, or not of this text.
    #[error("the cursor is not valid: it was changed, or signed with another key")]
    Signature,
    /// It was made for another tenant.
    #[error("the cursor belongs to another tenant")]
    Tenant,
    /// Its offload has expired.
    #[error("the cursor has expired with its offload")]
    Expired,
    /// It was made for another offload.
    #[error("the cursor belongs to another offload")]
    Offload,
    /// It was made for another section.
    #[error("the cursor belongs to another section")]
    Section,
    /// It was made for pages of another size.
    #[error("the cursor belongs to pages of another size")]
    PageSize,
    /// It was made for another query, or for none.
    #[error("the cursor belongs to another query")]
    Query,
}

/// The key that cursors are signed with: 32 random bytes.
#[derive(Clone)]
pub struct CursorKey([u8; 32]);

impl fmt::Debug for CursorKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("CursorKey(…)")
    }
}

impl CursorKey {
    /// A key that is given.
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The text of a cursor for a tenant: URL-safe base64 of 110 characters, or 152 with a query.
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
        let signature = self.hmac(&bytes).finalize().into_bytes();
        bytes.extend(signature.iter().take(SIGNATURE_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The cursor that a text was made from, for the same tenant.
    ///
    /// # Errors
    /// When the text was not signed with this key, or is for another tenant, or has expired by `now`. What else the
    /// cursor must fit is the caller's to compare.
    pub fn open(&self, tenant: &str, text: &str, now: SystemTime) -> Result<Cursor, CursorError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| CursorError::Malformed)?;
        let (mut payload, signature) = bytes.split_last_chunk::<SIGNATURE_BYTES>().ok_or(CursorError::Malformed)?;
        self.hmac(payload).verify_truncated_left(signature).map_err(|_| CursorError::Signature)?;
        let (cursor, of_tenant) = parse(&mut payload).ok_or(CursorError::Malformed)?;
        if of_tenant != tenant_bytes(tenant) {
            return Err(CursorError::Tenant);
        }
        if cursor.expires <= now {
            return Err(CursorError::Expired);
        }
        Ok(cursor)
    }

    fn hmac(&self, bytes: &[u8]) -> Hmac<Sha256> {
        // A key shorter than a block counts as if it were filled up with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(self.0).for_each(|(to, from)| *to = from);
        Hmac::<Sha256>::new(&block.into()).chain_update(CONTEXT).chain_update(bytes)
    }
}

/// What [`CursorKey::sign`] wrote before the signature.
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

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// What stands for a tenant: its name can be of any length.
fn tenant_bytes(tenant: &str) -> [u8; TENANT_BYTES] {
    let Digest(digest) = Digest::of(tenant.as_bytes());
    std::array::from_fn(|at| digest[at])
}

fn milliseconds(time: SystemTime) -> u64 {
    u64::try_from(time.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis()).unwrap_or(u64::MAX)
}
