//! Removing what has expired and what dead processes left behind.

use std::{
    collections::{BTreeMap, HashSet},
    ffi::OsStr,
    fs,
    io::ErrorKind,
    path::{Path, PathBuf},
    time::SystemTime,
};

use tracing::{info, warn};

use super::{Store, StoreError, Ulid, directory::Directory, usage::Ledger};

/// What a sweep removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sweep {
    /// Offloads older than the time to live.
    pub expired: u64,
    /// Directories that a dead process had not published, or not removed to the end.
    pub orphans: u64,
    /// Bytes that all of them took up on the disk: see [`Usage`](super::Usage).
    pub bytes: u64,
}

/// A directory that a sweep removes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removal {
    /// Its path.
    pub path: PathBuf,
    /// Whether it is a published offload older than the time to live; otherwise a dead process left it.
    pub is_expired: bool,
    /// Bytes that it takes up on the disk: see [`Usage`](super::Usage).
    pub bytes: u64,
}

/// What a name in the directory of a tenant stands for. Other names are not the store's.
enum Name {
    Published(Ulid),
    Staging { owner: Ulid, id: Ulid },
    Removing(Ulid),
}

impl Name {
    fn parse(name: &OsStr) -> Option<Self> {
        let name = name.to_str()?;
        if let Some(rest) = name.strip_prefix(".staging-") {
            let (owner, id) = rest.split_once('-')?;
            return Some(Self::Staging { owner: owner.parse().ok()?, id: id.parse().ok()? });
        }
        match name.strip_prefix(REMOVING) {
            Some(id) => id.parse().ok().map(Self::Removing),
            None => name.parse().ok().map(Self::Published),
        }
    }
}

/// Beginning of the name of an offload that is being removed. Anybody may remove the rest of it.
const REMOVING: &str = ".removing-";

impl Store {
    /// Removes what has expired at `now` and what dead processes left behind, and counts anew what is held.
    ///
    /// A reader that has a file open keeps it. The staging directory of a process that lives, here or elsewhere, stays.
    /// A file or directory whose name the store would not give is never touched. A `now` far in the future empties the
    /// store. A directory that cannot be removed is logged and left to the next sweep.
    ///
    /// # Errors
    /// [`StoreError::Io`] when the root cannot be read.
    pub fn sweep(&self, now: SystemTime) -> Result<Sweep, StoreError> {
        let mut sweep = Sweep::default();
        self.present_place()?;
        let tenants = self.tenants()?;
        for tenant in &tenants {
            if let Err(error) = self.sweep_tenant(tenant, now, &mut sweep) {
                warn!(tenant, error = &error as &dyn std::error::Error, "directory not swept");
            }
        }
        let mut ledger = self.ledger();
        self.forget_absent(&mut ledger)?;
        ledger.set_fresh();
        drop(ledger);
        self.place()?.owner.remove_dead()?;
        Ok(sweep)
    }

    /// What [`Store::sweep`] would remove, in no order. Removes nothing.
    ///
    /// # Errors
    /// [`StoreError::Io`] when a directory cannot be read.
    pub fn removals(&self, now: SystemTime) -> Result<Vec<Removal>, StoreError> {
        let mut removals = Vec::new();
        for tenant in self.tenants()? {
            let Some(parent) = open_if_directory(&self.place()?.root, OsStr::new(&tenant))? else { continue };
            for name in parent.names()? {
                match self.removal(&parent, &name?, now) {
                    Ok(found) => removals.extend(found.map(|(_, removal)| removal)),
                    // Another process removed it meanwhile.
                    Err(StoreError::NotFound { .. }) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(removals)
    }

    fn sweep_tenant(&self, tenant: &str, now: SystemTime, sweep: &mut Sweep) -> Result<(), StoreError> {
        let Some(parent) = open_if_directory(&self.place()?.root, OsStr::new(tenant))? else { return Ok(()) };
        let mut removals = Vec::new();
        for name in parent.names()? {
            match self.take_away(&parent, &name?, tenant, now) {
                Ok(found) => removals.extend(found),
                // Another process removed it meanwhile.
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => warn!(tenant, error = &error as &dyn std::error::Error, "entry not swept"),
            }
        }
        self.count(&mut self.ledger(), Some(tenant))?;
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

    /// Takes what is to be removed away from its readers.
    fn take_away(
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
        }
        Ok(Some((id, removal)))
    }

    /// Whether something in the directory of a tenant is to be removed.
    fn removal(
        &self,
        parent: &Directory,
        name: &OsStr,
        now: SystemTime,
    ) -> Result<Option<(Ulid, Removal)>, StoreError> {
        let (is_expired, id) = match Name::parse(name) {
            Some(Name::Published(id)) if self.expires(id) <= now => (true, id),
            Some(Name::Removing(id)) => (false, id),
            Some(Name::Staging { owner, id }) if self.place()?.owner.is_dead(owner)? => (false, id),
            _ => return Ok(None),
        };
        // A file or a link of this name is not the store's.
        let Some(directory) = open_if_directory(parent, name)? else { return Ok(None) };
        let bytes = directory.bytes_on_disk()?;
        Ok(Some((id, Removal { path: directory.path, is_expired, bytes })))
    }

    /// Forgets the tenants whose directory is gone.
    fn forget_absent(&self, ledger: &mut Ledger) -> Result<(), StoreError> {
        let place = self.place()?;
        ledger.retain(|tenant| matches!(open_if_directory(&place.root, OsStr::new(tenant)), Ok(Some(_))));
        Ok(())
    }

    /// Counts what one tenant holds, or all. Sizes that are known are not looked up again: an offload never changes.
    pub(super) fn count(&self, ledger: &mut Ledger, tenant: Option<&str>) -> Result<(), StoreError> {
        let Some(tenant) = tenant else {
            self.forget_absent(ledger)?;
            self.tenants()?.iter().try_for_each(|tenant| self.count(ledger, Some(tenant)))?;
            ledger.set_fresh();
            return Ok(());
        };
        let mut found = BTreeMap::new();
        if let Some(parent) = open_if_directory(&self.place()?.root, OsStr::new(tenant))? {
            for name in parent.names()? {
                let name = name?;
                let Some(Name::Published(id)) = Name::parse(&name) else { continue };
                let bytes = match ledger.bytes_of(tenant, id) {
                    Some(bytes) => bytes,
                    // Another process may remove it meanwhile.
                    None => match parent.directory(&name).and_then(|directory| directory.bytes_on_disk()) {
                        Ok(bytes) => bytes,
                        Err(_) => continue,
                    },
                };
                found.insert(id, bytes);
            }
        }
        ledger.replace(tenant, found);
        Ok(())
    }

    /// Takes a published offload away from its readers. Returns where its files are until they are deleted.
    pub(super) fn detach(&self, parent: &Directory, id: Ulid) -> Result<PathBuf, StoreError> {
        let removing = format!("{REMOVING}{id}");
        parent.rename(&id.to_string(), &removing)?;
        Ok(parent.path.join(removing))
    }

    /// Waits until the disk has the names that [`Store::detach`] gave, so that no readable offload lacks a file whose
    /// removal alone the disk got before the power failed.
    pub(super) fn sync_detached(&self, parent: &Directory) -> Result<(), StoreError> {
        if self.inner.config.fsync { parent.sync() } else { Ok(()) }
    }

    /// Deletes a directory with everything in it, links not followed. Returns whether it was there and is gone.
    pub(super) fn delete(&self, path: &Path, tenant: &str, id: Ulid, bytes: u64) -> bool {
        match fs::remove_dir_all(path) {
            Ok(()) => true,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound {
                    warn!(tenant, %id, bytes, error = &error as &dyn std::error::Error, "directory not removed");
                }
                false
            }
        }
    }

    /// Names of the directories that may be those of tenants.
    fn tenants(&self) -> Result<HashSet<String>, StoreError> {
        let place = self.place()?;
        let names = place.root.names()?.map(|name| Ok(name?.into_string().ok()));
        let mut tenants = names.filter_map(Result::transpose).collect::<Result<HashSet<String>, StoreError>>()?;
        tenants.retain(|name| !name.starts_with('.'));
        Ok(tenants)
    }
}

/// Opens a directory. `None` when there is nothing of this name, or something else.
fn open_if_directory(parent: &Directory, name: &OsStr) -> Result<Option<Directory>, StoreError> {
    match parent.directory(name) {
        Ok(directory) => Ok(Some(directory)),
        Err(StoreError::NotFound { .. }) => Ok(None),
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::NotADirectory => Ok(None),
        Err(error) => Err(error),
    }
}
