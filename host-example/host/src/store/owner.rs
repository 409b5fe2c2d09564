//! Owner files: distinguish the staging directories of live and dead stores.
//!
//! Each open store locks its own file in `{root}/.owners/`, and its staging directories contain the name of that file.
//! The system releases the lock when the process ends, also after a crash.

use std::fs::{File, TryLockError};
use std::io;

use super::directory::Directory;
use super::error::failed;
use super::{StoreError, Ulid};

/// Directory of the owner files, in the root.
const OWNERS: &str = ".owners";

/// The owner file of this store, removed when dropped.
#[derive(Debug)]
pub(super) struct Owner {
    directory: Directory,
    pub(super) id: Ulid,
    // Holds the lock.
    _file: File,
}

/// State of an owner file.
enum OwnerState {
    Alive,
    /// The store is gone. The file is now locked by the caller.
    Dead(File),
    Absent,
}

impl Owner {
    /// Creates an owner file and locks it.
    pub(super) fn create(root: &Directory) -> Result<Self, StoreError> {
        let directory = match root.create_directory(OWNERS)? {
            Some(created) => created,
            None => root.directory(OWNERS)?,
        };
        loop {
            let id = Ulid::generate().map_err(StoreError::Random)?;
            let name = id.to_string();
            let file = directory.create_file(&name)?;
            uninterrupted(|| file.lock()).map_err(failed("lock", directory.path.join(&name)))?;
            // Before the file was locked, a sweep may have removed it as that of a dead owner.
            if directory.names_file(&name, &file)? {
                return Ok(Self { directory, id, _file: file });
            }
        }
    }

    /// Whether the store with this owner file is gone.
    pub(super) fn is_dead(&self, id: Ulid) -> Result<bool, StoreError> {
        Ok(!matches!(self.state(id)?, OwnerState::Alive))
    }

    fn state(&self, id: Ulid) -> Result<OwnerState, StoreError> {
        let name = id.to_string();
        let file = match self.directory.file(&name) {
            Err(StoreError::NotFound { .. }) => return Ok(OwnerState::Absent),
            opened => opened?.0,
        };
        let locked = uninterrupted(|| match file.try_lock() {
            Err(TryLockError::Error(error)) => Err(error),
            Err(TryLockError::WouldBlock) => Ok(false),
            Ok(()) => Ok(true),
        });
        match locked.map_err(failed("lock", self.directory.path.join(&name)))? {
            true => Ok(OwnerState::Dead(file)),
            false => Ok(OwnerState::Alive),
        }
    }

    /// Removes the files of all dead owners.
    pub(super) fn remove_dead(&self) -> Result<(), StoreError> {
        for name in self.directory.names()? {
            let name = name?;
            let Some((name, id)) = name.to_str().and_then(|name| Some((name, name.parse().ok()?))) else { continue };
            let OwnerState::Dead(_locked) = self.state(id)? else { continue };
            match self.directory.remove_file(name) {
                Err(StoreError::NotFound { .. }) => {}
                removed => removed?,
            }
        }
        Ok(())
    }
}

/// Locks again whenever a signal interrupts it, which the standard library leaves to its callers.
fn uninterrupted<T>(mut lock: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            locked => return locked,
        }
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        match self.directory.remove_file(&self.id.to_string()) {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove the owner file"),
        }
    }
}
