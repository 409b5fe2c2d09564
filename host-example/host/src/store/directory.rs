//! Directory handles: all access is relative to an open descriptor and follows no links.

use std::ffi::{OsStr, OsString};
use std::fs::{DirBuilder, File, canonicalize};
use std::io::{Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::DirBuilderExt;
use std::path::{self, Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{self, AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, Stat};
use rustix::io::Errno;
use rustix::process::geteuid;

use super::error::failed;
use super::{StoreError, Ulid};
use crate::faults::fail_point;

/// Mode of all directories of the store.
const DIRECTORY_MODE: Mode = Mode::RWXU;
/// Mode of all files of the store.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
/// Permissions that a private directory must not grant.
const WRITABLE_BY_OTHERS: Mode = Mode::WGRP.union(Mode::WOTH);

/// Prefix and suffix of the name of a temporary file; a ULID is between them.
const TEMPORARY_AFFIXES: (&str, &str) = (".new-", ".tmp");
/// Age from which on no live process is still writing a temporary file.
const TEMPORARY_AGE_MAX: Duration = Duration::from_secs(3600);

/// Bytes that a file or directory uses besides its data, for its inode and name.
const ENTRY_BYTES: u64 = 4096;

/// Minimum block size assumed, because the system may not have allocated the blocks of a new file yet.
const BLOCK_BYTES: u64 = 4096;

/// Unit of [`Stat::st_blocks`], whatever the file system.
const STAT_BLOCK_BYTES: u64 = 512;

/// Disk usage of a file, as quotas count it: whole blocks, or the allocated ones if they are more, plus
/// [`ENTRY_BYTES`].
pub(super) fn bytes_on_disk(length: u64, stat_blocks: u64) -> u64 {
    let data = length.div_ceil(BLOCK_BYTES).saturating_mul(BLOCK_BYTES);
    data.max(stat_blocks.saturating_mul(STAT_BLOCK_BYTES)).saturating_add(ENTRY_BYTES)
}

/// An open directory, and its path for error messages.
#[derive(Debug)]
pub(crate) struct Directory {
    descriptor: File,
    pub(crate) path: PathBuf,
}

/// A temporary file, removed when dropped unless it was renamed.
struct TemporaryFile<'a> {
    directory: &'a Directory,
    name: String,
}

impl Directory {
    /// Opens a directory that must belong to this user and not be writable by others. Creates it if it is missing; with
    /// `durable`, also syncs it to disk.
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

    /// Opens a directory by path. The last component must not be a link.
    pub(super) fn open(path: PathBuf) -> Result<Self, StoreError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let descriptor = fs::openat(CWD, &path, flags, Mode::empty()).map_err(failed("open", &path))?;
        Ok(Self { descriptor: descriptor.into(), path })
    }

    /// Whether the path still refers to this directory.
    pub(super) fn is_at_its_path(&self) -> bool {
        let same = |here: Stat, there: Stat| (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino);
        fs::fstat(&self.descriptor).is_ok_and(|here| fs::stat(&self.path).is_ok_and(|there| same(here, there)))
    }

    /// Returns the descriptor.
    pub(super) fn into_file(self) -> File {
        self.descriptor
    }

    /// Opens a subdirectory.
    pub(crate) fn directory(&self, name: impl AsRef<OsStr>) -> Result<Self, StoreError> {
        let path = self.path.join(name.as_ref());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.descriptor, name.as_ref(), flags, Mode::empty());
        let descriptor = opened.map_err(failed("open", &path))?;
        Ok(Self { descriptor: descriptor.into(), path })
    }

    /// Creates a private subdirectory, whatever the umask. `Ok(None)` if the name exists.
    pub(super) fn create_directory(&self, name: &str) -> Result<Option<Self>, StoreError> {
        match fs::mkdirat(&self.descriptor, name, DIRECTORY_MODE) {
            Err(Errno::EXIST) => return Ok(None),
            made => made.map_err(failed("create", self.path.join(name)))?,
        }
        let created = self.directory(name)?;
        // The umask can also remove permissions of the owner.
        fs::fchmod(&created.descriptor, DIRECTORY_MODE).map_err(failed("set the mode of", &created.path))?;
        Ok(Some(created))
    }

    /// Opens a file for reading. Anything but a regular file with a single name is an error.
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
            // The file was removed after it was opened.
            0 => Err(StoreError::NotFound { path }),
            _ => Err(unexpected("it has another name")),
        }
    }

    /// Creates a private file, whatever the umask, and opens it for writing.
    pub(super) fn create_file(&self, name: &str) -> Result<File, StoreError> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = fs::openat(&self.descriptor, name, flags, FILE_MODE);
        let file = File::from(opened.map_err(failed("create", self.path.join(name)))?);
        self.make_private(&file, name)?;
        Ok(file)
    }

    /// Writes a private file atomically and syncs it to disk: a reader sees the old or the new content.
    pub(crate) fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.put_with(name, bytes, true)
    }

    /// As [`put`](Self::put), but syncs only if `durable`.
    pub(super) fn put_with(&self, name: &str, bytes: &[u8], durable: bool) -> Result<(), StoreError> {
        let temporary = TemporaryFile::new(self, bytes, durable)?;
        self.rename(&temporary.name, name)?;
        if durable { self.sync() } else { Ok(()) }
    }

    /// As [`put`](Self::put), unless the name exists. Returns whether the file was written.
    pub(crate) fn put_new(&self, name: &str, bytes: &[u8]) -> Result<bool, StoreError> {
        let temporary = TemporaryFile::new(self, bytes, true)?;
        match fs::renameat_with(&self.descriptor, &temporary.name, &self.descriptor, name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => return Ok(false),
            renamed => renamed.map_err(failed("rename", self.path.join(&temporary.name)))?,
        }
        self.sync().map(|()| true)
    }

    /// Reads a whole file of at most `bytes_max` bytes.
    pub(crate) fn read(&self, name: &str, bytes_max: u64) -> Result<Vec<u8>, StoreError> {
        let (file, stat) = self.file(name)?;
        let path = self.path.join(name);
        if u64::try_from(stat.st_size).is_ok_and(|size| size > bytes_max) {
            return Err(StoreError::Unexpected { path, reason: "it is larger than the limit" });
        }
        // One allocation: growing it would move the bytes.
        let mut bytes = Vec::with_capacity(usize::try_from(stat.st_size).unwrap_or_default());
        file.take(bytes_max).read_to_end(&mut bytes).map_err(failed("read", path))?;
        Ok(bytes)
    }

    /// Removes temporary files that dead processes left behind.
    pub(crate) fn remove_stale_temporaries(&self) -> Result<(), StoreError> {
        let newest = SystemTime::now().checked_sub(TEMPORARY_AGE_MAX).unwrap_or(SystemTime::UNIX_EPOCH);
        for name in self.names()? {
            let name = name?;
            let id = name
                .to_str()
                .and_then(|name| name.strip_prefix(TEMPORARY_AFFIXES.0)?.strip_suffix(TEMPORARY_AFFIXES.1));
            if id.and_then(|id| id.parse::<Ulid>().ok()).is_some_and(|id| id.time() < newest) {
                fs::unlinkat(&self.descriptor, &name, AtFlags::empty())
                    .map_err(failed("remove", self.path.join(&name)))?;
            }
        }
        Ok(())
    }

    /// Sets the mode of an open file to the one of the store.
    pub(super) fn make_private(&self, file: &File, name: &str) -> Result<(), StoreError> {
        fs::fchmod(file, FILE_MODE).map_err(failed("set the mode of", self.path.join(name)))
    }

    /// Lists the names in this directory, in no particular order.
    pub(crate) fn names(&self) -> Result<impl Iterator<Item = Result<OsString, StoreError>>, StoreError> {
        let entries = Dir::read_from(&self.descriptor).map_err(failed("list", &self.path))?;
        let names = entries.map(|entry| match entry {
            Ok(entry) => Ok(OsString::from_vec(entry.file_name().to_bytes().to_vec())),
            Err(error) => Err(failed("list", &self.path)(error)),
        });
        Ok(names.filter(|name| !name.as_ref().is_ok_and(|name| matches!(name.as_bytes(), b"." | b".."))))
    }

    /// Disk usage of this directory and its files, as quotas count it. Does not follow links.
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

    /// Whether a name refers to an open file.
    pub(super) fn names_file(&self, name: &str, file: &File) -> Result<bool, StoreError> {
        let opened = fs::fstat(file).map_err(failed("examine", self.path.join(name)))?;
        match fs::statat(&self.descriptor, name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(false),
            stat => Ok(stat.map_err(failed("examine", self.path.join(name)))?.st_ino == opened.st_ino),
        }
    }

    /// Renames an entry of this directory. An existing directory is replaced only if it is empty.
    pub(super) fn rename(&self, from: &str, to: &str) -> Result<(), StoreError> {
        fs::renameat(&self.descriptor, from, &self.descriptor, to).map_err(failed("rename", self.path.join(from)))
    }

    /// Removes a file.
    pub(crate) fn remove_file(&self, name: &str) -> Result<(), StoreError> {
        fs::unlinkat(&self.descriptor, name, AtFlags::empty()).map_err(failed("remove", self.path.join(name)))
    }

    /// Syncs a file to disk.
    pub(super) fn sync_file(&self, name: &str) -> Result<(), StoreError> {
        let (file, _) = self.file(name)?;
        file.sync_all().map_err(failed("synchronize", self.path.join(name)))
    }

    /// Syncs the entries of this directory to disk.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.descriptor.sync_all().map_err(failed("synchronize", &self.path))
    }
}

impl<'a> TemporaryFile<'a> {
    fn new(directory: &'a Directory, bytes: &[u8], durable: bool) -> Result<Self, StoreError> {
        let id = Ulid::generate().map_err(StoreError::Random)?;
        let name = format!("{}{id}{}", TEMPORARY_AFFIXES.0, TEMPORARY_AFFIXES.1);
        let mut file = directory.create_file(&name)?;
        let temporary = Self { directory, name };
        let path = || directory.path.join(&temporary.name);
        fail_point!("store::put", failed("write", path()));
        file.write_all(bytes).map_err(failed("write", path()))?;
        if durable {
            file.sync_all().map_err(failed("synchronize", path()))?;
        }
        Ok(temporary)
    }
}

impl Drop for TemporaryFile<'_> {
    fn drop(&mut self) {
        match self.directory.remove_file(&self.name) {
            Ok(()) | Err(StoreError::NotFound { .. }) => {}
            Err(error) => tracing::warn!(error = &error as &dyn std::error::Error, "cannot remove a temporary file"),
        }
    }
}
