//! Telling the directories of live writers from those of dead ones.
//!
//! Each open store holds a lock on a file of its own in `{root}/.owners/`, and its staging directories carry the name of
//! that file. The system drops the lock when the process ends, however it ends.

use std::fs::File;

use rustix::{
    fs::{FlockOperation, flock},
    io::{Errno, retry_on_intr},
};

use super::{StoreError, Ulid, directory::Directory, error::failed};

/// Directory of the owner files, in the root.
const OWNERS: &str = ".owners";

/// The owner file of this store. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Owner {
    directory: Directory,
    pub(super) id: Ulid,
    // Holds the lock.
    _file: File,
}

/// What an owner file tells.
enum Look {
    Alive,
    /// The store is gone; the file is now locked by who looks.
    Dead(File),
    Absent,
}

impl Owner {
    /// Makes an owner file and locks it.
    pub(super) fn create(root: &Directory) -> Result<Self, StoreError> {
        let directory = match root.create_directory(OWNERS)? {
            Some(created) => created,
            None => root.directory(OWNERS)?,
        };
        loop {
            let id = Ulid::generate().map_err(failed("read", "/dev/urandom"))?;
            let name = id.to_string();
            let file = directory.create_file(&name)?;
            let locked = retry_on_intr(|| flock(&file, FlockOperation::LockExclusive));
            locked.map_err(failed("lock", directory.path.join(&name)))?;
            // Between creation and lock, a sweep may have taken the file for a dead owner's and removed it.
            if directory.names_file(&name, &file)? {
                return Ok(Self { directory, id, _file: file });
            }
        }
    }

    /// Whether the store of this owner file is gone.
    pub(super) fn is_dead(&self, id: Ulid) -> Result<bool, StoreError> {
        Ok(!matches!(self.look(id)?, Look::Alive))
    }

    fn look(&self, id: Ulid) -> Result<Look, StoreError> {
        let name = id.to_string();
        let file = match self.directory.file(&name) {
            Err(StoreError::NotFound { .. }) => return Ok(Look::Absent),
            opened => opened?.0,
        };
        match retry_on_intr(|| flock(&file, FlockOperation::NonBlockingLockExclusive)) {
            Err(Errno::WOULDBLOCK) => Ok(Look::Alive),
            locked => locked.map(|()| Look::Dead(file)).map_err(failed("lock", self.directory.path.join(&name))),
        }
    }

    /// Removes the files of all dead owners.
    pub(super) fn remove_dead(&self) -> Result<(), StoreError> {
        for name in self.directory.names()? {
            let name = name?;
            let Some((name, id)) = name.to_str().and_then(|name| Some((name, name.parse().ok()?))) else { continue };
            let Look::Dead(_locked) = self.look(id)? else { continue };
            match self.directory.remove_file(name) {
                Err(StoreError::NotFound { .. }) => {}
                removed => removed?,
            }
        }
        Ok(())
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
