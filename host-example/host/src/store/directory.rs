//! An open directory: everything in it is reached through its descriptor and without following links.

use std::{
    ffi::{OsStr, OsString},
    fs::{DirBuilder, File, canonicalize},
    io::{Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::{
            ffi::{OsStrExt, OsStringExt},
            fs::DirBuilderExt,
        },
    },
    path::{self, Path, PathBuf},
    time::{Duration, SystemTime},
};

use rustix::{
    fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat},
    io::{Errno, retry_on_intr},
    process::geteuid,
};

use super::{StoreError, Ulid, error::failed};
use crate::faults::fail_point;

/// Mode of every directory of the store.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Mode of every file of the store.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Access that nobody but the owner of a private directory may have.
const WRITABLE_BY_OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);

/// Beginning and end of the name of a file that does not have its own name yet; the id of the moment stands between them.
const UNNAMED: (&str, &str) = (".new-", ".tmp");
/// Age of such a file at which no live process is writing it any more.
const UNNAMED_AGE_MAX: Duration = Duration::from_secs(3600);

/// What a file or a directory takes up besides its data: its inode and its name.
const ENTRY_BYTES: u64 = 4096;

/// Data is kept in blocks of at least so many bytes, whatever the system has told of a file that it has not written yet.
const BLOCK_BYTES: u64 = 4096;

/// Unit of [`Stat::st_blocks`], whatever the file system.
const STAT_BLOCK_BYTES: u64 = 512;

/// Bytes that a file of this length takes up, as quotas count them: whole blocks, more of them where the system says so,
/// and [`ENTRY_BYTES`].
pub(super) fn bytes_on_disk(length: u64, stat_blocks: u64) -> u64 {
    let data = length.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
    data.max(stat_blocks.saturating_mul(STAT_BLOCK_BYTES)).saturating_add(ENTRY_BYTES)
}

/// An open directory, and the path that errors name it by.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: OwnedFd,
    pub(crate) path: PathBuf,
}

/// A file that does not have its own name yet. Dropped before it has, it is removed.
struct Unnamed<'a> {
    directory: &'a Directory,
    name: String,
}

impl Directory {
    /// Opens a directory that must belong to this user, and that nobody else may write to. It is made when it is missing; with
    /// `durable` the disk has it then.
    pub(crate) fn private(path: &Path, durable: bool) -> Result<Self, StoreError> {
        let absolute = path::absolute(path).map_err(failed("find", path))?;
        let missing: Vec<&Path> = absolute.ancestors().take_while(|directory| !directory.exists()).collect();
        DirBuilder::new().recursive(true).mode(DIRECTORY_MODE.bits()).create(path).map_err(failed("create", path))?;
        for parent in missing.into_iter().filter_map(Path::parent).filter(|_| durable) {
            File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("synchronize", parent))?;
        }
        let directory = Self::open(canonicalize(path).map_err(failed("find", path))?)?;
        let stat = fs::fstat(&directory.descriptor).map_err(failed("examine", &directory.path))?;
        let reason = if stat.st_uid != geteuid().as_raw() {
            "it belongs to another user"
        } else if Mode::from_raw_mode(stat.st_mode).intersects(WRITABLE_BY_OTHERS) {
            "others can write to it"
        } else {
            return Ok(directory);
        };
        Err(StoreError::UnsafeRoot { path: directory.path, reason })
    }

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
    pub(crate) fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, StoreError> {
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
    pub(crate) fn file(&self, name: &str) -> Result<(File, Stat), StoreError> {
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

    /// Writes a private file in one step: a reader finds what was there before, or all of this. The disk has it then.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        let unnamed = Unnamed::new(self, bytes)?;
        self.rename(&unnamed.name, name)?;
        self.sync()
    }

    /// As [`put`](Self::put), unless there is something of this name. Tells whether there was not.
    pub(crate) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        let unnamed = Unnamed::new(self, bytes)?;
        match fs::renameat_with(&self.descriptor, &unnamed.name, &self.descriptor, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Ok(false),
            renamed => renamed.map_err(failed("rename", self.path.join(&unnamed.name)))?,
        }
        self.sync().map(|()| true)
    }

    /// All of a file of this directory, which must have at most so many bytes.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let (file, stat) = self.file(name)?;
        let path = self.path.join(name);
        if u64::try_from(stat.st_size).is_ok_and(|size| size > bytes_max) {
            return Err(StoreError::Unexpected { path, reason: "it is larger than such a file can be" });
        }
        let mut bytes = Vec::new();
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed("read", path))?;
        Ok(bytes)
    }

    /// Removes files that a dead process did not get to name.
    pub(crate) fn remove_unnamed(&self) -> Result<(), StoreError> {
        let newest = SystemTime::now().checked_sub(UNNAMED_AGE_MAX).unwrap_or(SystemTime::UNIX_EPOCH);
        for name in self.names()? {
            let name = name?;
            let id = name.to_str().and_then(|name| name.strip_prefix(UNNAMED.0)?.strip_suffix(UNNAMED.1));
            if id.and_then(|id| id.parse::<Ulid>().ok()).is_some_and(|id| id.time() < newest) {
                fs::unlinkat(&self.descriptor, &name, AtFlags::empty())
                    .map_err(failed("remove", self.path.join(&name)))?;
            }
        }
        Ok(())
    }

    /// Gives an open file of this directory the mode of the store.
    pub(super) fn make_private(&self, file: &File, name: &str) -> Result<(), StoreError> {
        fs::fchmod(file, FILE_MODE).map_err(failed("set the mode of", self.path.join(name)))
    }

    /// The names in this directory, in no order.
    pub(crate) fn names(&self) -> Result<impl Iterator<Item = Result<OsString, StoreError>>, StoreError> {
        let entries = Dir::read_from(&self.descriptor).map_err(failed("list", &self.path))?;
        let names = entries.map(|entry| match entry {
            Ok(entry) => Ok(OsString::from_vec(entry.file_name().to_bytes().to_vec())),
            Err(error) => Err(failed("list", &self.path)(error)),
        });
        Ok(names.filter(|name| !name.as_ref().is_ok_and(|name| matches!(name.as_bytes(), b"." | b".."))))
    }

    /// Bytes that this directory and the files in it take up, as quotas count them; links not followed.
    pub(super) fn bytes_on_disk(&self) -> Result<u64, StoreError> {
        let mut bytes = ENTRY_BYTES;
        for name in self.names()? {
            match fs::statat(&self.descriptor, name?.as_os_str(), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                stat => {
                    let stat = stat.map_err(failed("examine", &self.path))?;
                    let [length, blocks] =
                        [stat.st_size, stat.st_blocks].map(|count| u64::try_from(count).unwrap_or(0));
                    bytes = bytes.saturating_add(bytes_on_disk(length, blocks));
                }
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

    /// Removes a file of this directory.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), StoreError> {
        fs::unlinkat(&self.descriptor, name, AtFlags::empty()).map_err(failed("remove", self.path.join(name)))
    }

    /// Waits until the disk has a file of this directory.
    pub(super) fn sync_file(&self, name: &str) -> Result<(), StoreError> {
        let (file, _) = self.file(name)?;
        file.sync_all().map_err(failed("synchronize", self.path.join(name)))
    }

    /// Waits until the disk has the names in this directory.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        retry_on_intr(|| fs::fsync(self.descriptor.as_fd())).map_err(failed("synchronize", &self.path))
    }
}

impl<'a> Unnamed<'a> {
    fn new(directory: &'a Directory, bytes: &[u8]) -> Result<Self, StoreError> {
        let id = Ulid::generate().map_err(failed("read", "/dev/urandom"))?;
        let name = format!("{}{id}{}", UNNAMED.0, UNNAMED.1);
        let mut file = directory.create_file(&name)?;
        let unnamed = Self { directory, name };
        let path = || directory.path.join(&unnamed.name);
        fail_point!("store::put", failed("write", path()));
        file.write_all(bytes).map_err(failed("write", path()))?;
        file.sync_all().map_err(failed("synchronize", path()))?;
        Ok(unnamed)
    }
}

impl Drop for Unnamed<'_> {
    fn drop(&mut self) {
        match self.directory.remove_file(&self.name) {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "unfinished file not removed"),
        }
    }
}
