//! Signed cursors of lists that are known only as a whole, such as the tools of a server.

use lro_contract::digest::Digest;

use crate::cursor::take;
use crate::{CursorError, CursorKey};

/// Domain separator, as for cursors of sections.
const CONTEXT: &[u8] = b"lro list cursor 1\0";

/// Where the next page of a list begins. It does not expire: it is valid as long as the list is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListCursor {
    /// Number of the next item, counted from 0.
    pub item: u32,
    /// Digest of the whole list.
    pub list: Digest,
}

impl CursorKey {
    /// Encodes and signs a cursor for a tenant and a list of this name: URL-safe base64 of 70 characters.
    pub fn sign_list(&self, tenant: &str, name: &str, cursor: &ListCursor) -> String {
        self.signed(&context(tenant, name), [&cursor.item.to_be_bytes()[..], &cursor.list.0].concat())
    }

    /// Verifies and decodes a cursor of this tenant and list. The caller compares the digest.
    ///
    /// # Errors
    /// [`CursorError::Malformed`], or [`CursorError::Signature`] when the text was not signed with this key for this tenant
    /// and list.
    pub fn open_list(&self, tenant: &str, name: &str, text: &str) -> Result<ListCursor, CursorError> {
        let bytes = self.verified(&context(tenant, name), text)?;
        let rest = &mut bytes.as_slice();
        let (item, list) = take(rest).zip(take(rest)).filter(|_| rest.is_empty()).ok_or(CursorError::Malformed)?;
        Ok(ListCursor { item: u32::from_be_bytes(item), list: Digest(list) })
    }
}

/// What the signature covers besides the cursor: names cannot run into each other, as their length stands before them.
fn context(tenant: &str, name: &str) -> Vec<u8> {
    let mut context = CONTEXT.to_vec();
    for name in [tenant, name] {
        context.extend((name.len() as u64).to_be_bytes());
        context.extend(name.as_bytes());
    }
    context
}
