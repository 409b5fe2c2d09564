//! Access relative to an open descriptor.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use lro_system::files::open_directory;
use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::{Directory, bytes_on_disk};
use crate::store::StoreError;
use crate::store::error::failed;

/// Mode of all directories of the store.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Mode of all files of the store.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Permissions that a private directory must not grant.
const WRITABLE_BY_OTHERS: u32 = 0o022;
/// Permissions that a private file must not grant.
const OPEN_TO_OTHERS: u32 = 0o077;
/// Unit of the blocks that the system counts, whatever the file system.
const STAT_BLOCK_BYTES: u64 = 512;

/// What the system has allocated for a file, in bytes.
pub(super) fn allocated_bytes(metadata: &Metadata) -> u64 {
    metadata.blocks().saturating_mul(STAT_BLOCK_BYTES)
}

/// Whether other users have access to a file.
pub(in crate::store) fn is_open_to_others(metadata: &Metadata) -> bool {
    metadata.mode() & OPEN_TO_OTHERS != 0
}

/// Syncs the entries of a directory to disk.
pub(super) fn sync_entries(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

impl Directory {
    /// Opens a directory by path. The last component must not be a link.
    pub(in crate::store) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let handle = open_directory(&path).map_err(failed("open", &path))?;
        Ok(Self { handle, path })
    }

    /// Why others may change what is in it.
    pub(super) fn weakness(&self) -> Result<Option<&'static str>, StoreError> {
        let metadata = self.handle.metadata().map_err(failed("examine", &self.path))?;
        Ok(if metadata.uid() != geteuid().as_raw() {
            Some("it belongs to another user")
        } else if metadata.mode() & WRITABLE_BY_OTHERS != 0 {
            Some("others can write to it")
        } else {
            None
        })
    }

    /// Whether the path still refers to this directory.
    pub(in crate::store) fn is_at_its_path(&self) -> bool {
        let same = |here: Stat, there: Stat| (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        fs::fstat(&self.handle).is_ok_and(|here| fs::stat(&self.path).is_ok_and(|there| same(here, there)))
    }

    /// Opens it as a file.
    pub(crate) fn to_file(&self) -> Result<File, StoreError> {
        self.handle.try_clone().map_err(failed("open", &self.path))
    }

    /// Opens a subdirectory.
    pub(crate) fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, StoreError> {
        let path = self.path.join(name.as_ref());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.handle, name.as_ref(), flags, Mode::empty());
        let handle = opened.map_err(failed("open", &path))?;
        Ok(Self { handle: handle.into(), path })
    }

    /// Creates a private subdirectory, whatever the umask. `Ok(None)` if the name exists.
    pub(in crate::store) fn create_directory(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match fs::mkdirat(&self.handle, name, DIRECTORY_MODE) {
            Err(Errno::EXIST) => return Ok(None),
            made => made.map_err(failed("create", self.path.join(name)))?,
        }
        let created = self.directory(name)?;
        // The umask can also remove permissions of the owner.
        fs::fchmod(&created.handle, DIRECTORY_MODE).map_err(failed("set the mode of", &created.path))?;
        Ok(Some(created))
    }

    /// Opens a file for reading. Anything but a regular file with a single name is an error.
    pub(crate) fn file(&self, name: &str) -> Result<(File, Metadata), StoreError> {
        let path = self.path.join(name);
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        // Without NONBLOCK, opening a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.handle, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(unexpected("it is a symbolic link")),
            Err(Errno::NXIO) => return Err(unexpected("it is not a regular file")),
            opened => File::from(opened.map_err(failed("open", &path))?),
        };
        let metadata = file.metadata().map_err(failed("examine", &path))?;
        if !metadata.is_file() {
            return Err(unexpected("it is not a regular file"));
        }
        match metadata.nlink() {
            1 => Ok((file, metadata)),
            // The file was removed after it was opened.
            0 => Err(StoreError::NotFound { path }),
            _ => Err(unexpected("it has another name")),
        }
    }

    /// Creates a private file, whatever the umask, and opens it for writing.
    pub(in crate::store) fn create_file(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.handle, name, flags, FILE_MODE);
        let file = File::from(opened.map_err(failed("create", self.path.join(name)))?);
        self.make_private(&file, name)?;
        Ok(file)
    }

    /// Sets the mode of an open file to the one of the store.
    pub(in crate::store) fn make_private(&self, file: &File, name: &str) -> Result<(), StoreError> {
        fs::fchmod(file, FILE_MODE).map_err(failed("set the mode of", self.path.join(name)))
    }

    /// Lists the names in this directory, in no particular order.
    pub(crate) fn names(&self) -> Result<impl Iterator<Item = Result<OsString, StoreError>>, StoreError> {
        let entries = Dir::read_from(&self.handle).map_err(failed("list", &self.path))?;
        let names = entries.map(|entry| match entry {
            Ok(entry) => Ok(OsString::from_vec(entry.file_name().to_bytes().to_vec())),
            Err(error) => Err(failed("list", &self.path)(error)),
        });
        Ok(names.filter(|name| !name.as_ref().is_ok_and(|name| matches!(name.as_bytes(), b"." | b".."))))
    }

    /// Disk usage of an entry, as quotas count it; `None` if it is gone. Does not follow links.
    pub(super) fn entry_bytes(&self, name: &OsStr) -> Result<Option<u64>, StoreError> {
        match fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            stat => {
                let stat = stat.map_err(failed("examine", &self.path))?;
                let [length, blocks] = [stat.st_size, stat.st_blocks].map(|count| u64::try_from(count).unwrap_or(0));
                Ok(Some(bytes_on_disk(length, blocks.saturating_mul(STAT_BLOCK_BYTES))))
            }
        }
    }

    /// Whether a name refers to an open file.
    pub(in crate::store) fn names_file(&self, name: &str, file: &File) -> Result<bool, StoreError> {
        let opened = fs::fstat(file).map_err(failed("examine", self.path.join(name)))?;
        match fs::statat(&self.handle, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            stat => Ok(stat.map_err(failed("examine", self.path.join(name)))?.st_ino == opened.st_ino),
        }
    }

    /// Renames an entry of this directory. An existing directory is replaced only if it is empty.
    pub(in crate::store) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        fs::renameat(&self.handle, from, &self.handle, to).map_err(failed("rename", self.path.join(from)))
    }

    /// As [`rename`](Self::rename), unless the new name exists. Returns whether it was renamed.
    pub(super) fn rename_new(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        match fs::renameat_with(&self.handle, from, &self.handle, to, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => Ok(false),
            renamed => renamed.map(|()| true).map_err(failed("rename", self.path.join(from))),
        }
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), StoreError> {
        fs::unlinkat(&self.handle, name, AtFlags::empty()).map_err(failed("remove", self.path.join(name)))
    }

    /// Syncs a file to disk.
    pub(in crate::store) fn sync_file(&self, name: &str) -> Result<(), StoreError> {
        let (file, _) = self.file(name)?;
        file.sync_all().map_err(failed("synchronize", self.path.join(name)))
    }

    /// Syncs the entries of this directory to disk.
    pub(in crate::store) fn sync(&self) -> Result<(), StoreError> {
        self.handle.sync_all().map_err(failed("synchronize", &self.path))
    }
}
