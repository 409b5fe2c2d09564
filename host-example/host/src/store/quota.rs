//! Quotas: removes old offloads to make room for new ones.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use tracing::warn;

use super::usage::Ledger;
use super::{Store, StoreError, Ulid};

/// A quota of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Size of one file.
    File,
    /// Disk usage of all offloads of one tenant.
    Tenant,
    /// Disk usage of all offloads.
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

/// An offload that readers can no longer find, but whose files are not deleted yet.
struct Detached {
    path: PathBuf,
    tenant: String,
    id: Ulid,
    bytes: u64,
}

impl Store {
    /// Reserves the bytes of an offload about to be published. Removes the oldest offloads as needed: of this tenant
    /// for the tenant quota, then of all tenants for the total.
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
        let mut ledger = self.inner.ledger.lock();
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
        // Deleting large files takes time: do not hold the lock.
        drop(ledger);
        self.delete_detached(&detached);
        room
    }

    /// Deletes detached offloads. The next sweep retries failures.
    fn delete_detached(&self, detached: &[Detached]) {
        let tenants: BTreeSet<&str> = detached.iter().map(|detached| detached.tenant.as_str()).collect();
        for tenant in tenants {
            let parent = self.opened().and_then(|opened| opened.root.directory(tenant));
            if let Err(error) = parent.and_then(|parent| self.sync_detached(&parent)) {
                warn!(tenant, error = &error as &dyn std::error::Error, "cannot remove offloads");
                continue;
            }
            for Detached { path, id, bytes, .. } in detached.iter().filter(|detached| detached.tenant == tenant) {
                self.delete(path, tenant, *id, *bytes);
            }
        }
    }

    /// Detaches the oldest offloads, of one tenant or of all, until they use at most `bytes_max`. Returns whether that
    /// succeeded.
    fn make_room(
        &self,
        ledger: &mut Ledger,
        bytes_max: u64,
        of: Option<&str>,
        detached: &mut Vec<Detached>,
    ) -> Result<bool, StoreError> {
        if ledger.bytes(of) > bytes_max && !ledger.is_fresh(of) {
            // Other processes add and remove offloads too: never remove based on an old count.
            self.count(ledger, of)?;
        }
        while ledger.bytes(of) > bytes_max {
            let Some((tenant, id)) = ledger.oldest(of) else { return Ok(false) };
            let bytes = ledger.remove(&tenant, id);
            let parent = self.opened().and_then(|opened| opened.root.directory(&tenant));
            match parent.and_then(|parent| self.detach(&parent, id)) {
                Ok(path) => detached.push(Detached { path, tenant, id, bytes }),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(tenant, %id, bytes, error, "cannot remove an offload");
                }
            }
        }
        Ok(true)
    }
}
