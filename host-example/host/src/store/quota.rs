//! Quotas: removes old offloads and records of jobs to make room for new ones.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use tracing::warn;

use super::jobs::remove_record;
use super::usage::{Kind, Ledger};
use super::{Store, StoreError, Ulid};

/// How long a count is valid for deciding what to remove. Counting takes time proportional to the number of offloads,
/// and a tenant at its quota removes something with every offload. Removals by other processes are noticed at once
/// anyway.
const COUNT_VALID: Duration = Duration::from_secs(1);

/// A quota of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QuotaKind {
    /// Size of one file.
    File,
    /// Disk usage of all offloads and records of jobs of one tenant.
    Tenant,
    /// Disk usage of all offloads and records of jobs.
    Total,
    /// Disk usage of what a store with a bucket keeps on this machine.
    Copies,
}

impl fmt::Display for QuotaKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::File => "one file",
            Self::Tenant => "one tenant",
            Self::Total => "all tenants",
            Self::Copies => "copies on this machine",
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
    /// Reserves the bytes of an offload about to be published: see [`Store::make_room_for`].
    pub(super) fn reserve(&self, tenant: &str, id: Ulid, needed: u64) -> Result<(), StoreError> {
        self.make_room_for(tenant, needed, |ledger| ledger.reserve(tenant, id, needed))
    }

    /// Makes room for bytes on disk, and counts them with `add`. Removes the oldest offloads and records of ended jobs as
    /// needed: of this tenant for the tenant quota, then of all tenants for the total.
    pub(super) fn make_room_for(
        &self,
        tenant: &str,
        needed: u64,
        add: impl FnOnce(&mut Ledger),
    ) -> Result<(), StoreError> {
        let config = &self.inner.config;
        let quotas = match &config.bucket {
            // The others are those of the bucket.
            Some(bucket) => vec![(QuotaKind::Copies, bucket.copies_bytes_max, None)],
            None => vec![
                (QuotaKind::Tenant, config.tenant_bytes_max, Some(tenant)),
                (QuotaKind::Total, config.total_bytes_max, None),
            ],
        };
        if let Some(&(which, limit, _)) = quotas.iter().find(|(_, limit, _)| needed > *limit) {
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
            add(&mut ledger);
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

    /// Detaches the oldest offloads and removes the oldest records, of one tenant or of all, until what is there uses at
    /// most `bytes_max`. Returns whether that succeeded.
    fn make_room(
        &self,
        ledger: &mut Ledger,
        bytes_max: u64,
        of: Option<&str>,
        detached: &mut Vec<Detached>,
    ) -> Result<bool, StoreError> {
        if ledger.bytes(of) > bytes_max && !ledger.is_fresh(of, COUNT_VALID) {
            // Other processes add and remove offloads too: never remove based on an old count.
            self.count(ledger, of)?;
        }
        while ledger.bytes(of) > bytes_max {
            let Some((tenant, id, kind)) = ledger.oldest(of) else { return Ok(false) };
            let bytes = ledger.remove(&tenant, id, kind);
            let parent = self.opened().and_then(|opened| opened.root.directory(&tenant));
            let removed = parent.and_then(|parent| match kind {
                Kind::Offload => self.detach(&parent, id).map(Some),
                Kind::Record => remove_record(&parent, id).map(|()| None),
                Kind::Growing => self.detach_growing(&parent, id).map(Some),
            });
            match removed {
                Ok(path) => detached.extend(path.map(|path| Detached { path, tenant, id, bytes })),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => {
                    let error = &error as &dyn std::error::Error;
                    warn!(tenant, %id, bytes, error, "cannot remove an offload or the record of a job");
                }
            }
        }
        Ok(true)
    }
}
