//! Sessions of gateways on one bucket: what one of them keeps, so that another goes on where it ended.
//!
//! A session is the object `{tenant}/.sessions/{digest of its id}`: a line with the [lease](super::lease) of the store that holds
//! it, empty if none does, and what that store keeps of it. It is written when the session begins and when it changes hands, and
//! removed a day after that.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::bucket::{Bucket, Object, Version};
use super::{Digest, Store, StoreError, Ulid, tenant_name};

/// Directory of the sessions of a tenant.
const SESSIONS: &str = ".sessions";

/// Maximum size of what is kept of a session, in bytes: 64 KiB. Nothing is kept of a larger one.
pub const SESSION_BYTES_MAX: usize = 64 << 10;

/// Age from which on a sweep removes what was kept: 24 hours. Most sessions end before, and are removed then.
const KEPT: Duration = Duration::from_secs(24 * 60 * 60);

/// Size of the line with the lease.
const HOLDER_BYTES_MAX: usize = 64;

impl Store {
    /// Whether sessions are kept: offloads lie in a bucket.
    pub fn keeps_sessions(&self) -> bool {
        self.inner.config.bucket.is_some()
    }

    /// Keeps `session` of the session `id` of this tenant, in the place of what was kept before. With `is_held` no other
    /// store [takes it over](Store::take_session) while this one goes on.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn keep_session(&self, tenant: &str, id: &str, session: &[u8], is_held: bool) -> Result<(), StoreError> {
        let Some(bucket) = self.bucket()?.filter(|_| session.len() <= SESSION_BYTES_MAX) else { return Ok(()) };
        let holder = is_held.then(|| bucket.lease()).transpose()?;
        bucket.objects.put(&key(&tenant_name(tenant), id), kept(holder, session))
    }

    /// What was kept of a session, whoever holds it; `None` if nothing was.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn find_session(&self, tenant: &str, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(bucket) = self.bucket()? else { return Ok(None) };
        let Some((found, _)) = bucket.find_session(&key(&tenant_name(tenant), id))? else { return Ok(None) };
        Ok(Some(found.session))
    }

    /// Takes a session over from a store that is gone or holds it no longer, and returns what that one kept of it. `None` if
    /// nothing was kept, or another store holds it and goes on. Of several stores that try, one gets it.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn take_session(&self, tenant: &str, id: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some(bucket) = self.bucket()? else { return Ok(None) };
        bucket.take_session(&key(&tenant_name(tenant), id))
    }

    /// Removes what was kept of a session.
    ///
    /// # Errors
    /// [`StoreError::Bucket`].
    pub fn forget_session(&self, tenant: &str, id: &str) -> Result<(), StoreError> {
        let Some(bucket) = self.bucket()? else { return Ok(()) };
        bucket.objects.delete(&[key(&tenant_name(tenant), id)])
    }
}

/// What an object says of a session.
struct KeptSession {
    holder: Option<Ulid>,
    session: Vec<u8>,
}

impl KeptSession {
    /// `None` if the object is not one that a store wrote.
    fn of(mut bytes: Vec<u8>) -> Option<Self> {
        let end = bytes.iter().take(HOLDER_BYTES_MAX).position(|byte| *byte == b'\n')?;
        let session = bytes.split_off(end + 1);
        let holder = str::from_utf8(bytes.get(..end)?).ok()?;
        Some(Self { holder: (!holder.is_empty()).then(|| holder.parse()).transpose().ok()?, session })
    }
}

impl Bucket {
    fn find_session(&self, key: &str) -> Result<Option<(KeptSession, Version)>, StoreError> {
        match self.objects.find(key, (HOLDER_BYTES_MAX + SESSION_BYTES_MAX) as u64) {
            Err(StoreError::NotFound { .. }) => Ok(None),
            found => {
                let found = found?;
                Ok(KeptSession::of(found.bytes).map(|session| (session, found.version)))
            }
        }
    }

    fn take_session(self: &Arc<Self>, key: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let Some((KeptSession { holder, session }, version)) = self.find_session(key)? else { return Ok(None) };
        // Its own lease is of a session that it has begun to take over and does not know.
        let other = holder.filter(|holder| !self.has_lease(*holder));
        if other.map_or(Ok(false), |holder| self.holds(holder))? {
            return Ok(None);
        }
        let taken = self.objects.put_if(key, kept(Some(self.lease()?), &session), Some(&version))?;
        Ok(taken.map(|_| session))
    }
}

/// Whether an object is a session.
pub(super) fn is_session(object: &Object) -> bool {
    let in_tenant = object.key.split_once('/').and_then(|(_, rest)| rest.strip_prefix(SESSIONS));
    in_tenant.is_some_and(|rest| rest.starts_with('/'))
}

/// Whether a session was kept so long ago that it is removed.
pub(super) fn has_expired(session: &Object, now: SystemTime) -> bool {
    session.modified + KEPT <= now
}

/// Key of a session. Its id is any text, and lets its bearer in.
fn key(tenant: &str, id: &str) -> String {
    format!("{tenant}/{SESSIONS}/{}", Digest::of(id.as_bytes()))
}

fn kept(holder: Option<Ulid>, session: &[u8]) -> Vec<u8> {
    let holder = holder.map(|holder| holder.to_string()).unwrap_or_default();
    [holder.as_bytes(), b"\n", session].concat()
}
