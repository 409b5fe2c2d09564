//! Removes expired offloads and the directories of dead processes.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use tracing::{info, warn};

use super::bucket::Bucket;
use super::directory::Directory;
use super::growing::{growing_id, growing_name};
use super::jobs::count_jobs;
use super::usage::{Counted, Kind, Ledger};
use super::{Store, StoreError, Ulid};

/// Result of a sweep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Number of expired offloads.
    pub expired: u64,
    /// Number of directories that dead processes left unpublished or partly removed.
    pub orphans: u64,
    /// Disk usage of all of them, in bytes: see [`Usage`](super::Usage).
    pub bytes: u64,
}

/// A directory, or what a bucket has of one offload, to be removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its path, or the address in the bucket.
    pub path: PathBuf,
    /// Whether it is an expired offload; otherwise a dead process left it.
    pub is_expired: bool,
    /// Disk usage in bytes: see [`Usage`](super::Usage).
    pub bytes: u64,
}

/// A directory name of the store in the directory of a tenant.
enum Name {
    Published(Ulid),
    Staging { owner: Ulid, id: Ulid },
    Removing(Ulid),
    Growing(Ulid),
}

impl Name {
    fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        if let Some(rest) = name.strip_prefix(".staging-") {
            let (owner, id) = rest.split_once('-')?;
            return Some(Self::Staging { owner: owner.parse().ok()?, id: id.parse().ok()? });
        }
        if let Some(id) = growing_id(name) {
            return Some(Self::Growing(id));
        }
        match name.strip_prefix(REMOVING) {
            Some(id) => id.parse().ok().map(Self::Removing),
            None => name.parse().ok().map(Self::Published),
        }
    }
}

/// Prefix of the name of an offload that is being removed. Any process may finish the removal.
const REMOVING: &str = ".removing-";

impl Store {
    /// Removes offloads expired at `now` and the directories of dead processes, and recounts the usage.
    ///
    /// Readers keep the files they have open. Staging directories of live processes stay. Files and directories with
    /// names that the store does not use are never touched. A `now` far in the future empties the store. A directory
    /// that cannot be removed is logged and left to the next sweep.
    ///
    /// In a bucket, lists all objects below its prefix. Objects without a manifest are removed an hour after the last of them
    /// was written.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the root cannot be read; [`StoreError::Bucket`] when the bucket cannot be listed.
    pub fn sweep(&self, now: SystemTime) -> Result<Sweep, StoreError> {
        self.sweep_with(now, |bucket| bucket.sweep(now, self.inner.config.time_to_live))
    }

    /// As [`Store::sweep`], for stores that share a bucket, each of which calls this once in a `period`: one of them sweeps it, and
    /// makes room for the [total quota](super::StoreConfig::total_bytes_max). Another takes over when that one has not for two
    /// periods, or once [its turn](super::BucketConfig::lease_time) is over if it ended in the middle of a sweep. The others list
    /// nothing. Clocks are compared with that of the bucket.
    ///
    /// # Errors
    /// As for [`Store::sweep`].
    pub fn sweep_in_turn(&self, now: SystemTime, period: Duration) -> Result<Sweep, StoreError> {
        self.sweep_with(now, |bucket| bucket.sweep_in_turn(now, period, self.quotas()))
    }

    fn sweep_with(
        &self,
        now: SystemTime,
        sweep: impl FnOnce(&Bucket) -> Result<Sweep, StoreError>,
    ) -> Result<Sweep, StoreError> {
        let here = self.sweep_directory(now)?;
        let Some(bucket) = self.bucket()? else { return Ok(here) };
        let there = sweep(bucket)?;
        // Copies that have expired are of the same offloads.
        let (orphans, bytes) = (here.orphans + there.orphans, here.bytes + there.bytes);
        Ok(Sweep { expired: there.expired, orphans, bytes })
    }

    pub(super) fn sweep_directory(&self, now: SystemTime) -> Result<Sweep, StoreError> {
        let mut sweep = Sweep::default();
        self.current_root()?;
        let tenants = self.tenants()?;
        for tenant in &tenants {
            if let Err(error) = self.sweep_tenant(tenant, now, &mut sweep) {
                warn!(tenant, error = &error as &dyn std::error::Error, "cannot sweep a directory");
            }
        }
        let mut ledger = self.inner.ledger.lock();
        self.forget_absent(&mut ledger)?;
        ledger.set_fresh();
        drop(ledger);
        self.opened()?.owner.remove_dead()?;
        Ok(sweep)
    }

    /// Lists what [`Store::sweep`] would remove, in no particular order.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a directory cannot be read, [`StoreError::Bucket`] when a bucket cannot.
    pub fn removals(&self, now: SystemTime) -> Result<Vec<Removal>, StoreError> {
        let mut removals = match self.bucket()? {
            Some(bucket) => bucket.removals(now, self.inner.config.time_to_live)?,
            None => Vec::new(),
        };
        for tenant in self.tenants()? {
            let Some(parent) = open_if_directory(&self.opened()?.root, OsStr::new(&tenant))? else { continue };
            for name in parent.names()? {
                match self.removal(&parent, &name?, now) {
                    Ok(found) => removals.extend(found.map(|(_, removal)| removal)),
                    // Another process removed it.
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removals)
    }

    fn sweep_tenant(&self, tenant: &str, now: SystemTime, sweep: &mut Sweep) -> Result<(), StoreError> {
        let Some(parent) = open_if_directory(&self.opened()?.root, OsStr::new(tenant))? else { return Ok(()) };
        let mut removals = Vec::new();
        for name in parent.names()? {
            match self.detach_expired(&parent, &name?, tenant, now) {
                Ok(found) => removals.extend(found),
                // Another process removed it.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => warn!(tenant, error = &error as &dyn std::error::Error, "cannot sweep an entry"),
            }
        }
        if let Err(error) = self.sweep_jobs(&parent, now) {
            warn!(tenant, error = &error as &dyn std::error::Error, "cannot sweep the records of jobs");
        }
        self.count(&mut self.inner.ledger.lock(), Some(tenant))?;
        if !removals.is_empty() {
            self.sync_detached(&parent)?;
        }
        for (id, Removal { path, is_expired, bytes }) in removals {
            if self.delete(&path, tenant, id, bytes) {
                sweep.expired += u64::from(is_expired);
                sweep.orphans += u64::from(!is_expired);
                sweep.bytes += bytes;
            }
        }
        Ok(())
    }

    /// Checks an entry, and detaches it if it is expired.
    fn detach_expired(
        &self,
        parent: &Directory,
        name: &OsStr,
        tenant: &str,
        now: SystemTime,
    ) -> Result<Option<(Ulid, Removal)>, StoreError> {
        let Some((id, mut removal)) = self.removal(parent, name, now)? else { return Ok(None) };
        if removal.is_expired {
            removal.path = self.detach(parent, id)?;
            info!(tenant, handle = %id, bytes = removal.bytes, "offload expired");
        } else if let Some(Name::Growing(id)) = Name::parse(name) {
            removal.path = self.detach_growing(parent, id)?;
        }
        Ok(Some((id, removal)))
    }

    /// Returns what to remove for an entry in the directory of a tenant.
    fn removal(
        &self,
        parent: &Directory,
        name: &OsStr,
        now: SystemTime,
    ) -> Result<Option<(Ulid, Removal)>, StoreError> {
        let (is_published, id) = match Name::parse(name) {
            Some(Name::Published(id)) => (true, id),
            Some(Name::Growing(id)) => {
                let Some(directory) = open_if_directory(parent, name)? else { return Ok(None) };
                if !self.is_over(&directory, now)? {
                    return Ok(None);
                }
                (false, id)
            }
            Some(Name::Removing(id)) => (false, id),
            Some(Name::Staging { owner, id }) if self.opened()?.owner.is_dead(owner)? => (false, id),
            _ => return Ok(None),
        };
        // A file or link of this name does not belong to the store.
        let Some(directory) = open_if_directory(parent, name)? else { return Ok(None) };
        if is_published && self.expires(id, directory.time_to_live()?) > now {
            return Ok(None);
        }
        let bytes = directory.bytes_on_disk()?;
        Ok(Some((id, Removal { path: directory.path, is_expired: is_published, bytes })))
    }

    /// Removes tenants without a directory from the ledger.
    fn forget_absent(&self, ledger: &mut Ledger) -> Result<(), StoreError> {
        let opened = self.opened()?;
        ledger.retain(|tenant| matches!(open_if_directory(&opened.root, OsStr::new(tenant)), Ok(Some(_))));
        Ok(())
    }

    /// Counts the usage of one tenant, or of all. Known sizes are reused, because an offload never changes.
    pub(super) fn count(&self, ledger: &mut Ledger, tenant: Option<&str>) -> Result<(), StoreError> {
        let Some(tenant) = tenant else {
            self.forget_absent(ledger)?;
            self.tenants()?.iter().try_for_each(|tenant| self.count(ledger, Some(tenant)))?;
            ledger.set_fresh();
            return Ok(());
        };
        let mut found = Counted::default();
        if let Some(parent) = open_if_directory(&self.opened()?.root, OsStr::new(tenant))? {
            for name in parent.names()? {
                let name = name?;
                let id = match Name::parse(&name) {
                    Some(Name::Published(id)) => id,
                    Some(Name::Growing(id)) => {
                        let directory = open_if_directory(&parent, &name)?;
                        directory.iter().for_each(|directory| self.count_growing(directory, id, &mut found));
                        continue;
                    }
                    _ => continue,
                };
                let bytes = match ledger.bytes_of(tenant, id) {
                    Some(bytes) => bytes,
                    // Another process may have removed it.
                    None => match parent.directory(&name).and_then(|directory| directory.bytes_on_disk()) {
                        Ok(bytes) => bytes,
                        Err(_) => continue,
                    },
                };
                found.removable.insert((id, Kind::Offload), bytes);
            }
            count_jobs(&parent, &mut found)?;
        }
        ledger.replace(tenant, found);
        Ok(())
    }

    /// Hides a published offload from readers. Returns the path of its files until they are deleted.
    pub(super) fn detach(&self, parent: &Directory, id: Ulid) -> Result<PathBuf, StoreError> {
        let removing = format!("{REMOVING}{id}");
        parent.rename(&id.to_string(), &removing)?;
        Ok(parent.path.join(removing))
    }

    /// As [`Store::detach`], for what has come of a result.
    pub(super) fn detach_growing(&self, parent: &Directory, id: Ulid) -> Result<PathBuf, StoreError> {
        // An offload of the same id may be under removal.
        let removing = format!("{REMOVING}{}", Ulid::generate().map_err(StoreError::Random)?);
        parent.rename(&growing_name(id), &removing)?;
        Ok(parent.path.join(removing))
    }

    /// Syncs the renames of [`Store::detach`] to disk, so that after a power failure no readable offload lacks a
    /// deleted file.
    pub(super) fn sync_detached(&self, parent: &Directory) -> Result<(), StoreError> {
        if self.inner.config.synchronizes() { parent.sync() } else { Ok(()) }
    }

    /// Deletes a directory with its content, without following links. Returns whether it existed and was deleted.
    pub(super) fn delete(&self, path: &Path, tenant: &str, id: Ulid, bytes: u64) -> bool {
        match fs::remove_dir_all(path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    warn!(tenant, %id, bytes, error = &error as &dyn std::error::Error, "cannot remove a directory");
                }
                false
            }
        }
    }

    /// Names that may be tenant directories.
    fn tenants(&self) -> Result<HashSet<String>, StoreError> {
        let opened = self.opened()?;
        let names = opened.root.names()?.map(|name| Ok(name?.into_string().ok()));
        let mut tenants = names.filter_map(Result::transpose).collect::<Result<HashSet<String>, StoreError>>()?;
        tenants.retain(|name| !name.starts_with('.'));
        Ok(tenants)
    }
}

/// Opens a directory. `None` if it does not exist or is not a directory.
pub(super) fn open_if_directory(parent: &Directory, name: &OsStr) -> Result<Option<Directory>, StoreError> {
    match parent.directory(name) {
        Ok(directory) => Ok(Some(directory)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}
