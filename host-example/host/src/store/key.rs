//! Secret keys shared by all processes that use a directory.

use std::fmt;
use std::fs::{File, Metadata};
use std::io::Read;

use super::StoreError;
use super::directory::{Directory, is_open_to_others};
use super::error::failed;

/// Size of a key.
pub(crate) const KEY_BYTES: usize = 32;

/// A secret key. `Debug` does not show it.
#[derive(Clone)]
pub(crate) struct Key(pub(crate) [u8; KEY_BYTES]);

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Key(…)")
    }
}

impl Key {
    /// Reads the key of this name, or creates it. If several processes create it at the same time, all use the same
    /// one.
    pub(crate) fn of(directory: &Directory, name: &str) -> Result<Self, StoreError> {
        match directory.file(name) {
            Err(StoreError::NotFound { .. }) => {}
            opened => return opened.and_then(|(file, metadata)| read(directory, name, file, &metadata)),
        }
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| StoreError::Random(error.into()))?;
        if directory.put_new(name, &key)? {
            return Ok(Self(key));
        }
        let (file, metadata) = directory.file(name)?;
        read(directory, name, file, &metadata)
    }
}

fn read(directory: &Directory, name: &str, mut file: File, metadata: &Metadata) -> Result<Key, StoreError> {
    let path = directory.path.join(name);
    let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
    if is_open_to_others(metadata) {
        return Err(unexpected("others have access to it"));
    }
    if metadata.len() != KEY_BYTES as u64 {
        return Err(unexpected("a key has 32 bytes"));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key).map_err(failed("read", &path))?;
    Ok(Key(key))
}
