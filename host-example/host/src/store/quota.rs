//! Making room for an offload within the quotas.

use std::{collections::BTreeSet, fmt, path::PathBuf};

use tracing::warn;

use super::{Store, StoreError, Ulid, usage::Ledger};

/// The quota that an offload met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Bytes of one file.
    File,
    /// Bytes that all offloads of one tenant take up on the disk.
    Tenant,
    /// Bytes that all offloads take up on the disk.
    Total,
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::File => "one file",
            Self::Tenant => "one tenant",
            Self::Total => "all tenants",
        })
    }
}

/// An offload that readers cannot find any more, and whose files are still to be deleted.
struct Detached {
    path: PathBuf,
    tenant: String,
    id: Ulid,
    bytes: u64,
}

impl Store {
    /// Counts the bytes of an offload that is about to be published, and removes the oldest offloads that are in its way:
    /// of this tenant for the tenant's quota, then of any for the total.
    pub(super) fn reserve(&self, tenant: &str, id: Ulid, needed: u64) -> Result<(), StoreError> {
        let config = &self.inner.config;
        let quotas = [
            (QuotaKind::Tenant, config.tenant_bytes_max, Some(tenant)),
            (QuotaKind::Total, config.total_bytes_max, None),
        ];
        if let Some((which, limit, _)) = quotas.into_iter().find(|(_, limit, _)| needed > *limit) {
            return Err(StoreError::Quota { which, limit, needed });
        }
        let mut detached = Vec::new();
        let mut ledger = self.ledger();
        let room = quotas.into_iter().try_for_each(|(which, limit, of)| {
            if self.make_room(&mut ledger, limit - needed, of, &mut detached)? {
                Ok(())
            } else {
                Err(StoreError::Quota { which, limit, needed })
            }
        });
        if room.is_ok() {
            ledger.reserve(tenant, id, needed);
        }
        // Files may be large: others need not wait until they are deleted.
        drop(ledger);
        self.delete_detached(&detached);
        room
    }

    /// Deletes what was detached. What cannot be is left to the next sweep.
    fn delete_detached(&self, detached: &[Detached]) {
        let tenants: BTreeSet<&str> = detached.iter().map(|detached| detached.tenant.as_str()).collect();
        for tenant in tenants {
            let parent = self.place().and_then(|place| place.root.directory(tenant));
            if let Err(error) = parent.and_then(|parent| self.sync_detached(&parent)) {
                warn!(tenant, error = &error as &dyn std::error::Error, "offloads not removed");
                continue;
            }
            for Detached { path, id, bytes, .. } in detached.iter().filter(|detached| detached.tenant == tenant) {
                self.delete(path, tenant, *id, *bytes);
            }
        }
    }

    /// Detaches the oldest offloads, of one tenant or of all, until no more than `bytes_max` are held. Returns whether
    /// that could be reached.
    fn make_room(
        &self,
        ledger: &mut Ledger,
        bytes_max: u64,
        of: Option<&str>,
        detached: &mut Vec<Detached>,
    ) -> Result<bool, StoreError> {
        if ledger.bytes(of) > bytes_max && !ledger.is_fresh(of) {
            // Other processes add and remove too: nothing is removed on the ground of an old count.
            self.count(ledger, of)?;
        }
        while ledger.bytes(of) > bytes_max {
            let Some((tenant, id)) = ledger.oldest(of) else { return Ok(false) };
            let bytes = ledger.remove(&tenant, id);
            let parent = self.place().and_then(|place| place.root.directory(&tenant));
            match parent.and_then(|parent| self.detach(&parent, id)) {
                Ok(path) => detached.push(Detached { path, tenant, id, bytes }),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(tenant, %id, bytes, error, "offload not removed");
                }
            }
        }
        Ok(true)
    }
}
