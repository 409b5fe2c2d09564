//! An open directory: everything in it is reached through its descriptor and without following links.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    os::{
        fd::OwnedFd,
        unix::ffi::{OsStrExt, OsStringExt},
    },
    path::PathBuf,
};

use rustix::{
    fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat},
    io::Errno,
};

use super::{StoreError, error::failed};

/// Mode of every directory of the store.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Mode of every file of the store.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);

/// An open directory, and the path that errors name it by.
#[derive(Debug)]
pub(super) struct Directory {
    descriptor: OwnedFd,
    pub(super) path: PathBuf,
}

impl Directory {
    /// Opens the directory of a path, whose last step must not be a link.
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::openat(CWD, &path, flags, Mode::empty()).map_err(failed("open", &path))?;
        Ok(Self { descriptor, path })
    }

    /// Whether the path still leads to this directory.
    pub(super) fn is_at_its_path(&self) -> bool {
        let same = |here: Stat, there: Stat| (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        fs::fstat(&self.descriptor).is_ok_and(|here| fs::stat(&self.path).is_ok_and(|there| same(here, there)))
    }

    /// The open directory alone.
    pub(super) fn into_file(self) -> File {
        self.descriptor.into()
    }

    /// Opens a directory in this one.
    pub(super) fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, StoreError> {
        let path = self.path.join(name.as_ref());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.descriptor, name.as_ref(), flags, Mode::empty());
        let descriptor = opened.map_err(failed("open", &path))?;
        Ok(Self { descriptor, path })
    }

    /// Makes a directory in this one, private whatever the umask. `Ok(None)` when there is something of this name.
    pub(super) fn create_directory(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match fs::mkdirat(&self.descriptor, name, DIRECTORY_MODE) {
            Err(Errno::EXIST) => return Ok(None),
            made => made.map_err(failed("create", self.path.join(name)))?,
        }
        let created = self.directory(name)?;
        // The umask can take bits away from the owner.
        fs::fchmod(&created.descriptor, DIRECTORY_MODE).map_err(failed("set the mode of", &created.path))?;
        Ok(Some(created))
    }

    /// Opens a file in this directory for reading. Anything but a regular file that has no other name is unexpected.
    pub(super) fn file(&self, name: &str) -> Result<(File, Stat), StoreError> {
        let path = self.path.join(name);
        let unexpected = |reason| StoreError::Unexpected { path: path.clone(), reason };
        // Without NONBLOCK, opening a named pipe would wait for a writer.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = match fs::openat(&self.descriptor, name, flags, Mode::empty()) {
            Err(Errno::LOOP) => return Err(unexpected("it is a symbolic link")),
            Err(Errno::NXIO) => return Err(unexpected("it is not a regular file")),
            opened => File::from(opened.map_err(failed("open", &path))?),
        };
        let stat = fs::fstat(&file).map_err(failed("examine", &path))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(unexpected("it is not a regular file"));
        }
        match stat.st_nlink {
            1 => Ok((file, stat)),
            // Removed since it was opened.
            0 => Err(StoreError::NotFound { path }),
            _ => Err(unexpected("it has another name")),
        }
    }

    /// Makes a file in this directory, private whatever the umask, and opens it for writing.
    pub(super) fn create_file(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.descriptor, name, flags, FILE_MODE);
        let file = File::from(opened.map_err(failed("create", self.path.join(name)))?);
        self.make_private(&file, name)?;
        Ok(file)
    }

    /// Gives an open file of this directory the mode of the store.
    pub(super) fn make_private(&self, file: &File, name: &str) -> Result<(), StoreError> {
        fs::fchmod(file, FILE_MODE).map_err(failed("set the mode of", self.path.join(name)))
    }

    /// The names in this directory, in no order.
    pub(super) fn names(&self) -> Result<impl Iterator<Item = Result<OsString, StoreError>>, StoreError> {
        let entries = Dir::read_from(&self.descriptor).map_err(failed("list", &self.path))?;
        let names = entries.map(|entry| match entry {
            Ok(entry) => Ok(OsString::from_vec(entry.file_name().to_bytes().to_vec())),
            Err(error) => Err(failed("list", &self.path)(error)),
        });
        Ok(names.filter(|name| !name.as_ref().is_ok_and(|name| matches!(name.as_bytes(), b"." | b".."))))
    }

    /// Bytes of the files in this directory, links not followed.
    pub(super) fn bytes(&self) -> Result<u64, StoreError> {
        let mut bytes = 0;
        for name in self.names()? {
            match fs::statat(&self.descriptor, name?.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                stat => bytes += u64::try_from(stat.map_err(failed("examine", &self.path))?.st_size).unwrap_or(0),
            }
        }
        Ok(bytes)
    }

    /// Whether an open file is the one of this name.
    pub(super) fn names_file(&self, name: &str, file: &File) -> Result<bool, StoreError> {
        let opened = fs::fstat(file).map_err(failed("examine", self.path.join(name)))?;
        match fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            stat => Ok(stat.map_err(failed("examine", self.path.join(name)))?.st_ino == opened.st_ino),
        }
    }

    /// Renames something in this directory. A directory of the new name is replaced only when it is empty.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        fs::renameat(&self.descriptor, from, &self.descriptor, to).map_err(failed("rename", self.path.join(from)))
    }

    /// Renames something in this directory, unless there is something of the new name.
    pub(super) fn rename_new(&self, from: &str, to: &str) -> Result<(), StoreError> {
        let renamed = fs::renameat_with(&self.descriptor, from, &self.descriptor, to, RenameFlags::NOREPLACE);
        renamed.map_err(failed("rename", self.path.join(from)))
    }

    /// Removes a file of this directory.
    pub(super) fn remove_file(&self, name: &str) -> Result<(), StoreError> {
        fs::unlinkat(&self.descriptor, name, AtFlags::empty()).map_err(failed("remove", self.path.join(name)))
    }

    /// Waits until the disk has a file of this directory.
    pub(super) fn sync_file(&self, name: &str) -> Result<(), StoreError> {
        let (file, _) = self.file(name)?;
        file.sync_all().map_err(failed("synchronize", self.path.join(name)))
    }

    /// Waits until the disk has the names in this directory.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        fs::fsync(&self.descriptor).map_err(failed("synchronize", &self.path))
    }
}
