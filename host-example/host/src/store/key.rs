//! Secret keys shared by all processes that use a directory.

use std::fmt;
use std::fs::File;
use std::io::Read;

use rustix::fs::Stat;

use super::StoreError;
use super::directory::Directory;
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
            opened => return opened.and_then(|(file, stat)| read(directory, name, file, stat)),
        }
        let mut key = [0; KEY_BYTES];
        getrandom::fill(&mut key).map_err(|error| StoreError::Random(error.into()))?;
        if directory.put_new(name, &key)? {
            return Ok(Self(key));
        }
        let (file, stat) = directory.file(name)?;
        read(directory, name, file, stat)
    }
}

fn read(directory: &Directory, name: &str, mut file: File, stat: Stat) -> Result<Key, StoreError> {
    let path = directory.path.join(name);
    let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
    if stat.st_mode & 0o077 != 0 {
        return Err(unexpected("others have access to it"));
    }
    if u64::try_from(stat.st_size) != Ok(KEY_BYTES as u64) {
        return Err(unexpected("a key has 32 bytes"));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key).map_err(failed("read", &path))?;
    Ok(Key(key))
}
