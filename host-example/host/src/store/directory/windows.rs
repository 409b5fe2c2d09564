//! Access by path: the system has none relative to an open directory. What is at a path is opened even if it is a link, and
//! is refused then.
//!
//! Directories stay closed between uses, because one with anything open in it cannot be renamed. Access rights are those
//! of the parent directory. Windows cannot synchronize the entries of a directory; the file system writes them in order.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use cap_fs_ext::MetadataExt;
use lro_system::files::{open_directory, open_itself};
use tempfile::TempPath;

use super::{Directory, file_bytes};
use crate::store::StoreError;
use crate::store::error::failed;

/// Zero: the system does not say.
pub(super) fn allocated_bytes(_: &Metadata) -> u64 {
    0
}

/// No: access rights are those of the directory.
pub(in crate::store) fn is_open_to_others(_: &Metadata) -> bool {
    false
}

/// Does nothing.
pub(super) fn sync_entries(_: &Path) -> io::Result<()> {
    Ok(())
}

/// Device and number of an open file, and how many names it has.
fn identity(file: &File) -> io::Result<(u64, u64, u64)> {
    let metadata = cap_std::fs::File::from_std(file.try_clone()?).metadata()?;
    Ok((metadata.dev(), metadata.ino(), metadata.nlink()))
}

impl Directory {
    /// A directory by path. The last component must not be a link.
    pub(in crate::store) fn open(path: PathBuf) -> Result<Self, StoreError> {
        open_directory(&path).map_err(failed("open", &path))?;
        Ok(Self { path })
    }

    /// `None`: access rights are not examined.
    pub(super) fn weakness(&self) -> Result<Option<&'static str>, StoreError> {
        Ok(None)
    }

    /// Whether there is a directory at the path.
    pub(in crate::store) fn is_at_its_path(&self) -> bool {
        self.path.is_dir()
    }

    /// Opens it as a file.
    pub(crate) fn to_file(&self) -> Result<File, StoreError> {
        open_directory(&self.path).map_err(failed("open", &self.path))
    }

    /// A subdirectory.
    pub(crate) fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, StoreError> {
        Self::open(self.path.join(name.as_ref()))
    }

    /// Creates a subdirectory. `Ok(None)` if the name exists.
    pub(in crate::store) fn create_directory(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match fs::create_dir(self.path.join(name)) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(None),
            made => {
                made.map_err(failed("create", self.path.join(name)))?;
                self.directory(name).map(Some)
            }
        }
    }

    /// Opens a file for reading. Anything but a regular file with a single name is an error.
    pub(crate) fn file(&self, name: &str) -> Result<(File, Metadata), StoreError> {
        let path = self.path.join(name);
        let file = open_itself(&path, OpenOptions::new().read(true)).map_err(failed("open", &path))?;
        let metadata = file.metadata().map_err(failed("examine", &path))?;
        let (_, _, names) = identity(&file).map_err(failed("examine", &path))?;
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        match names {
            _ if metadata.is_symlink() => Err(unexpected("it is a symbolic link")),
            _ if !metadata.is_file() => Err(unexpected("it is not a regular file")),
            1 => Ok((file, metadata)),
            // The file was removed after it was opened.
            0 => Err(StoreError::NotFound { path }),
            _ => Err(unexpected("it has another name")),
        }
    }

    /// Creates a file, and opens it for reading and writing.
    pub(in crate::store) fn create_file(&self, name: &str) -> Result<File, StoreError> {
        let path = self.path.join(name);
        File::create_new(&path).map_err(failed("create", path))
    }

    /// Does nothing: access rights are those of the directory.
    pub(in crate::store) fn make_private(&self, _: &File, _: &str) -> Result<(), StoreError> {
        Ok(())
    }

    /// Lists the names in this directory, in no particular order.
    pub(crate) fn names(&self) -> Result<impl Iterator<Item = Result<OsString, StoreError>>, StoreError> {
        let entries = fs::read_dir(&self.path).map_err(failed("list", &self.path))?;
        Ok(entries.map(|entry| Ok(entry.map_err(failed("list", &self.path))?.file_name())))
    }

    /// Disk usage of an entry, as quotas count it; `None` if it is gone. Does not follow links.
    pub(super) fn entry_bytes(&self, name: &OsStr) -> Result<Option<u64>, StoreError> {
        match fs::symlink_metadata(self.path.join(name)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            metadata => Ok(Some(file_bytes(&metadata.map_err(failed("examine", &self.path))?))),
        }
    }

    /// Whether a name refers to an open file.
    pub(in crate::store) fn names_file(&self, name: &str, file: &File) -> Result<bool, StoreError> {
        let path = self.path.join(name);
        let named = match open_itself(&path, OpenOptions::new().read(true)) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            named => named.and_then(|named| identity(&named)),
        };
        let opened = identity(file).map_err(failed("examine", &path))?;
        Ok(named.map_err(failed("examine", path))? == opened)
    }

    /// Renames an entry of this directory. A file is replaced, a directory is not.
    pub(in crate::store) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        fs::rename(self.path.join(from), self.path.join(to)).map_err(failed("rename", self.path.join(from)))
    }

    /// As [`rename`](Self::rename), unless the new name exists. Returns whether it was renamed.
    pub(super) fn rename_new(&self, from: &str, to: &str) -> Result<bool, StoreError> {
        let file = TempPath::try_from_path(self.path.join(from)).map_err(failed("find", self.path.join(from)))?;
        match file.persist_noclobber(self.path.join(to)) {
            Err(failure) if failure.error.kind() == ErrorKind::AlreadyExists => Ok(false),
            renamed => renamed.map(|()| true).map_err(|failure| failed("rename", self.path.join(from))(failure.error)),
        }
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        fs::remove_file(&path).map_err(failed("remove", path))
    }

    /// Syncs a file to disk.
    pub(in crate::store) fn sync_file(&self, name: &str) -> Result<(), StoreError> {
        let path = self.path.join(name);
        // The system syncs what can be written to.
        let file = open_itself(&path, OpenOptions::new().write(true)).map_err(failed("open", &path))?;
        file.sync_all().map_err(failed("synchronize", path))
    }

    /// Does nothing.
    pub(in crate::store) fn sync(&self) -> Result<(), StoreError> {
        Ok(())
    }
}
