//! The key that all processes on one root share.

use std::{
    fs::File,
    io::{ErrorKind, Read, Write},
};

use rustix::fs::Stat;

use super::{StoreError, Ulid, directory::Directory, error::failed};

/// Name of the key in the root.
const KEY: &str = ".cursor-key";

/// Bytes of a key.
const KEY_BYTES: usize = 32;

/// Reads the key, and makes it when there is none.
pub(super) fn read_or_make(root: &Directory) -> Result<[u8; KEY_BYTES], StoreError> {
    match root.file(KEY) {
        Err(StoreError::NotFound { .. }) => make(root),
        Ok((file, stat)) => read(root, file, stat),
        Err(error) => Err(error),
    }
}

/// It has its name only once it is complete. Of several processes that make one at the same time, one succeeds.
fn make(root: &Directory) -> Result<[u8; KEY_BYTES], StoreError> {
    let mut key = [0; KEY_BYTES];
    let random = File::open("/dev/urandom").and_then(|mut source| source.read_exact(&mut key));
    let id = random.and_then(|()| Ulid::generate()).map_err(failed("read", "/dev/urandom"))?;
    let name = format!("{KEY}-{id}");
    let mut file = root.create_file(&name)?;
    let written = file.write_all(&key).and_then(|()| file.sync_all());
    let named = written.map_err(failed("write", root.path.join(&name))).and_then(|()| root.rename_new(&name, KEY));
    if named.is_err() {
        root.remove_file(&name)?;
    }
    match named {
        Ok(()) => Ok(key),
        Err(StoreError::Io { source, .. }) if source.kind() == ErrorKind::AlreadyExists => {
            let (file, stat) = root.file(KEY)?;
            read(root, file, stat)
        }
        Err(error) => Err(error),
    }
}

fn read(root: &Directory, mut file: File, stat: Stat) -> Result<[u8; KEY_BYTES], StoreError> {
    let path = root.path.join(KEY);
    let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
    if stat.st_mode & 0o077 != 0 {
        return Err(unexpected("others have access to it"));
    }
    if u64::try_from(stat.st_size) != Ok(KEY_BYTES as u64) {
        return Err(unexpected("a key has 32 bytes"));
    }
    let mut key = [0; KEY_BYTES];
    file.read_exact(&mut key).map_err(failed("read", &path))?;
    Ok(key)
}
