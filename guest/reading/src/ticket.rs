//! Signed tickets: which file may be downloaded without a token, and until when.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_contract::ulid::Ulid;

use crate::cursor::{milliseconds, take};
use crate::{CursorError, CursorKey};

/// Domain separator, as for cursors of sections.
const CONTEXT: &[u8] = b"lro download 1\0";

/// Allows whoever holds it to download one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ticket {
    /// The tenant that owns the offload.
    pub tenant: String,
    /// The offload.
    pub offload: Ulid,
    /// Index of the file in the record of the offload.
    pub file: u16,
    /// When the ticket expires, in whole milliseconds.
    pub expires: SystemTime,
}

/// Why a ticket is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TicketError {
    /// It is malformed, or was not signed with this key.
    #[error("invalid ticket: it was changed or signed with another key")]
    Forged,
    /// Its time is over.
    #[error("the ticket has expired: ask for another one")]
    Expired,
}

impl From<CursorError> for TicketError {
    fn from(_: CursorError) -> Self {
        Self::Forged
    }
}

impl CursorKey {
    /// Encodes and signs a ticket: URL-safe base64 of 56 characters, and 4 for each 3 bytes of the tenant's name.
    pub fn sign_ticket(&self, ticket: &Ticket) -> String {
        let mut bytes = ticket.offload.bits().to_be_bytes().to_vec();
        bytes.extend(ticket.file.to_be_bytes());
        bytes.extend(milliseconds(ticket.expires).to_be_bytes());
        bytes.extend(ticket.tenant.as_bytes());
        self.signed(CONTEXT, bytes)
    }

    /// Verifies and decodes a ticket.
    ///
    /// # Errors
    /// When the text was not signed with this key, or has expired by `now`.
    pub fn open_ticket(&self, text: &str, now: SystemTime) -> Result<Ticket, TicketError> {
        let bytes = self.verified(CONTEXT, text)?;
        let ticket = parse(&bytes).ok_or(TicketError::Forged)?;
        if ticket.expires <= now { Err(TicketError::Expired) } else { Ok(ticket) }
    }
}

fn parse(mut bytes: &[u8]) -> Option<Ticket> {
    let rest = &mut bytes;
    let offload = Ulid::from_bits(u128::from_be_bytes(take(rest)?));
    let file = u16::from_be_bytes(take(rest)?);
    let expires = UNIX_EPOCH.checked_add(Duration::from_millis(u64::from_be_bytes(take(rest)?)))?;
    Some(Ticket { tenant: String::from_utf8(rest.to_vec()).ok()?, offload, file, expires })
}
