//! Disk usage by tenant, as far as this process knows.

use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant, SystemTime};

use super::{Ulid, Usage};

/// Something that is removed to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A published offload.
    Offload,
    /// The record of a job that has ended.
    Record,
    /// What has come of a result whose rest did not.
    Growing,
}

/// What one tenant has on disk, as counted.
#[derive(Debug, Default)]
pub(super) struct Counted {
    /// Bytes of what can be removed to make room.
    pub(super) removable: BTreeMap<(Ulid, Kind), u64>,
    /// Bytes of records of jobs that run, and of results that grow.
    pub(super) running: u64,
}

impl Counted {
    pub(super) fn bytes(&self) -> u64 {
        self.removable.values().sum::<u64>() + self.running
    }
}

/// The offloads and records of jobs of all tenants, by directory name of the tenant.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    tenants: HashMap<String, Tenant>,
    bytes: u64,
    /// When all tenants were counted.
    counted: Option<Instant>,
    /// All tenants, as another store on the bucket has counted them since.
    elsewhere: Option<Usage>,
}

#[derive(Debug, Default)]
struct Tenant {
    /// Bytes of published offloads and of records, oldest first.
    removable: BTreeMap<(Ulid, Kind), u64>,
    /// Bytes of offloads about to be published.
    pending: BTreeMap<Ulid, u64>,
    /// Bytes of records of jobs that run, and of results that grow.
    running: u64,
    /// All of these.
    bytes: u64,
    /// When this tenant was counted.
    counted: Option<Instant>,
}

impl Ledger {
    /// Bytes of one tenant, or of all, including pending offloads.
    pub(super) fn bytes(&self, tenant: Option<&str>) -> u64 {
        match tenant {
            Some(tenant) => self.tenants.get(tenant).map_or(0, |tenant| tenant.bytes),
            None => self.bytes,
        }
    }

    /// Whether the last count of one tenant, or of all, is at most this old.
    pub(super) fn is_fresh(&self, tenant: Option<&str>, valid: Duration) -> bool {
        let counted = match tenant {
            Some(tenant) => self.tenants.get(tenant).and_then(|tenant| tenant.counted),
            None => self.counted,
        };
        counted.is_some_and(|counted| counted.elapsed() < valid)
    }

    /// Records that all tenants were counted.
    pub(super) fn set_fresh(&mut self) {
        self.counted = Some(Instant::now());
        self.elsewhere = None;
    }

    /// Records what another store has counted. Of what is known here, offloads stay that were published after `time` and are not
    /// in an earlier count of all tenants.
    pub(super) fn set_elsewhere(&mut self, usage: Usage, time: SystemTime) {
        let forgets_all = self.counted.take().is_some();
        self.elsewhere = Some(usage);
        for tenant in self.tenants.values_mut() {
            tenant.removable.retain(|(id, _), _| !forgets_all && id.time() > time);
            if forgets_all {
                (tenant.running, tenant.counted) = (0, None);
            }
            tenant.bytes = tenant.removable.values().chain(tenant.pending.values()).sum::<u64>() + tenant.running;
        }
        self.tenants.retain(|_, tenant| tenant.bytes > 0 || !tenant.pending.is_empty());
        self.bytes = self.tenants.values().map(|tenant| tenant.bytes).sum();
    }

    /// Whether another store has counted all tenants since this one did.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.elsewhere.is_some()
    }

    /// Usage of all tenants.
    pub(super) fn usage(&self) -> Usage {
        let offloads = || self.tenants.values().map(|tenant| tenant.offloads().count() as u64).sum();
        self.elsewhere.unwrap_or_else(|| Usage { offloads: offloads(), bytes: self.bytes })
    }

    /// Bytes of offloads of a tenant that are about to be published.
    pub(super) fn pending(&self, tenant: &str) -> u64 {
        self.tenants.get(tenant).map_or(0, |tenant| tenant.pending.values().sum())
    }

    /// Adds an offload about to be published.
    pub(super) fn reserve(&mut self, tenant: &str, id: Ulid, bytes: u64) {
        let entry = self.tenants.entry(tenant.to_owned()).or_default();
        entry.pending.insert(id, bytes);
        entry.bytes += bytes;
        self.bytes += bytes;
    }

    /// Ends a reservation: the offload is published, or no longer counts.
    pub(super) fn settle(&mut self, tenant: &str, id: Ulid, published: bool) {
        let Some(entry) = self.tenants.get_mut(tenant) else { return };
        let Some(bytes) = entry.pending.remove(&id) else { return };
        if published {
            entry.removable.insert((id, Kind::Offload), bytes);
        } else {
            entry.bytes -= bytes;
            self.bytes -= bytes;
        }
    }

    /// Bytes of a published or pending offload.
    pub(super) fn bytes_of(&self, tenant: &str, id: Ulid) -> Option<u64> {
        let entry = self.tenants.get(tenant)?;
        entry.removable.get(&(id, Kind::Offload)).or_else(|| entry.pending.get(&id)).copied()
    }

    /// Adds bytes of the record of a job that runs, or of a result that grows.
    pub(super) fn add_running(&mut self, tenant: &str, bytes: u64) {
        let entry = self.tenants.entry(tenant.to_owned()).or_default();
        entry.running += bytes;
        entry.bytes += bytes;
        self.bytes += bytes;
    }

    /// Removes bytes of a result that grew.
    pub(super) fn remove_running(&mut self, tenant: &str, bytes: u64) {
        let Some(entry) = self.tenants.get_mut(tenant) else { return };
        let bytes = bytes.min(entry.running);
        entry.running -= bytes;
        entry.bytes -= bytes;
        self.bytes -= bytes;
    }

    /// Adds the record of a job that has ended, in place of that with which it ran.
    pub(super) fn add_ended(&mut self, tenant: &str, id: Ulid, bytes: u64, running: u64) {
        let entry = self.tenants.entry(tenant.to_owned()).or_default();
        let running = running.min(entry.running);
        let before = entry.removable.insert((id, Kind::Record), bytes).unwrap_or(0) + running;
        entry.running -= running;
        entry.bytes = entry.bytes + bytes - before;
        self.bytes = self.bytes + bytes - before;
    }

    /// What was published or recorded first, of one tenant or of all.
    pub(super) fn oldest(&self, tenant: Option<&str>) -> Option<(String, Ulid, Kind)> {
        let first = |name: &str, tenant: &Tenant| Some((*tenant.removable.first_key_value()?.0, name.to_owned()));
        let ((id, kind), tenant) = match tenant {
            Some(name) => first(name, self.tenants.get(name)?)?,
            None => self.tenants.iter().filter_map(|(name, tenant)| first(name, tenant)).min()?,
        };
        Some((tenant, id, kind))
    }

    /// Removes a published offload or a record. Returns its bytes.
    pub(super) fn remove(&mut self, tenant: &str, id: Ulid, kind: Kind) -> u64 {
        let Some(entry) = self.tenants.get_mut(tenant) else { return 0 };
        let bytes = entry.removable.remove(&(id, kind)).unwrap_or(0);
        entry.bytes -= bytes;
        self.bytes -= bytes;
        bytes
    }

    /// Replaces what is known of a tenant by what was found on disk. Pending offloads stay.
    pub(super) fn replace(&mut self, tenant: &str, mut found: Counted) {
        let entry = self.tenants.entry(tenant.to_owned()).or_default();
        found.removable.retain(|(id, kind), _| *kind != Kind::Offload || !entry.pending.contains_key(id));
        let bytes = found.bytes() + entry.pending.values().sum::<u64>();
        self.bytes = self.bytes - entry.bytes + bytes;
        *entry = Tenant {
            removable: found.removable,
            pending: std::mem::take(&mut entry.pending),
            running: found.running,
            bytes,
            counted: Some(Instant::now()),
        };
    }

    /// Removes tenants whose directory is gone, and those without anything.
    pub(super) fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        let bytes = &mut self.bytes;
        self.tenants.retain(|name, tenant| {
            let keep = !tenant.pending.is_empty() || (is_there(name) && tenant.bytes > 0);
            if !keep {
                *bytes -= tenant.bytes;
            }
            keep
        });
    }

    /// All published offloads, oldest first.
    pub(super) fn published(&self) -> Vec<(Ulid, String, u64)> {
        let of_tenant = |(name, tenant): (&String, &Tenant)| {
            tenant.offloads().map(|(id, bytes)| (id, name.clone(), bytes)).collect::<Vec<_>>()
        };
        let mut all: Vec<_> = self.tenants.iter().flat_map(of_tenant).collect();
        all.sort();
        all
    }
}

impl Tenant {
    /// The published offloads.
    fn offloads(&self) -> impl Iterator<Item = (Ulid, u64)> {
        let offloads = self.removable.iter().filter(|((_, kind), _)| *kind == Kind::Offload);
        offloads.map(|((id, _), bytes)| (*id, *bytes))
    }
}
