//! A configuration on the disk, and its backup.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

/// Most bytes of a configuration: Claude Code keeps its history in the same file.
pub const FILE_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// What is put behind the name of a configuration to name its backup.
const BACKUP: &str = ".before-lro";

/// Some programs put it before a text.
const BYTE_ORDER_MARK: char = '\u{feff}';

/// A file that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// It cannot be read.
    #[error("cannot read {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It cannot be written. The file has the text it had.
    #[error("cannot write {}: {source}", file.display())]
    Write {
        /// The file.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// What is written in its place would belong to somebody else. The file has the text it had.
    #[error(
        "cannot give what replaces {} to its owner and group, {owner}:{group}: {source}; try again as its owner, or as root",
        file.display()
    )]
    Owner {
        /// The file.
        file: PathBuf,
        /// The user who owns it.
        owner: u32,
        /// Its group.
        group: u32,
        /// Why.
        source: io::Error,
    },
    /// Another program has written it meanwhile. The file has that program's text.
    #[error("{} was changed by another program meanwhile: close the client, and try again", .0.display())]
    Changed(PathBuf),
}

/// A configuration as it was read.
#[derive(Debug)]
pub struct Configuration {
    /// The file, which may be a symbolic link.
    file: PathBuf,
    /// Its bytes, with a byte order mark if there is one.
    text: String,
    /// What is put behind its name to name its backup.
    backup: &'static str,
}

impl Configuration {
    /// Reads a file; `None` if there is none.
    ///
    /// # Errors
    ///
    /// The file cannot be read, is not a regular file, is larger than [`FILE_BYTES_MAX`], or is not UTF-8.
    pub fn read(file: &Path) -> Result<Option<Self>, FileError> {
        match read(file) {
            Ok(text) => Ok(Some(Self { file: file.to_owned(), text, backup: BACKUP })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(FileError::Read { file: file.to_owned(), source }),
        }
    }

    /// With another name of the backup: its end, behind the name of the file.
    pub(crate) fn with_backup(self, backup: &'static str) -> Self {
        Self { backup, ..self }
    }

    /// The file.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Whether the file is in TOML, by its name.
    pub fn is_toml(&self) -> bool {
        self.file.extension().is_some_and(|extension| extension == "toml")
    }

    /// Its text, without a byte order mark.
    pub fn text(&self) -> &str {
        self.text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&self.text)
    }

    /// The file of its backup.
    pub fn backup_file(&self) -> PathBuf {
        let mut name = OsString::from(&self.file);
        name.push(self.backup);
        name.into()
    }

    /// Its backup, if there is one.
    ///
    /// # Errors
    ///
    /// As for [`Configuration::read`].
    pub fn backup(&self) -> Result<Option<Self>, FileError> {
        Self::read(&self.backup_file())
    }

    /// Keeps a text as the backup.
    ///
    /// # Errors
    ///
    /// The backup cannot be written.
    pub fn back_up(&self, text: &str) -> Result<(), FileError> {
        self.write(&self.backup_file(), text)
    }

    /// Removes the backup.
    ///
    /// # Errors
    ///
    /// It cannot be removed.
    pub fn remove_backup(&self) -> Result<(), FileError> {
        let file = self.backup_file();
        fs::remove_file(&file).map_err(|source| FileError::Write { file, source })
    }

    /// Writes another text, whole or not at all, with the permissions, the owner and the group of the file. A symbolic link stays
    /// one.
    ///
    /// # Errors
    ///
    /// The file was changed after it was read, or cannot be written, or its owner and group cannot be kept.
    pub fn replace(&self, text: &str) -> Result<(), FileError> {
        let now = read(&self.file).map_err(|source| FileError::Read { file: self.file.clone(), source })?;
        if now != self.text {
            return Err(FileError::Changed(self.file.clone()));
        }
        let target = fs::canonicalize(&self.file).map_err(|source| self.cannot_write(&self.file, source))?;
        self.write(&target, text)
    }

    fn write(&self, file: &Path, text: &str) -> Result<(), FileError> {
        let cannot_write = |source| self.cannot_write(file, source);
        let begun = || -> io::Result<(NamedTempFile, Metadata)> {
            let folder = file.parent().ok_or(io::ErrorKind::NotADirectory)?;
            Ok((NamedTempFile::new_in(folder)?, fs::metadata(&self.file)?))
        };
        let (mut new, old) = begun().map_err(cannot_write)?;
        #[cfg(unix)]
        self.give(new.as_file(), &old)?;
        let written = move || -> io::Result<()> {
            new.as_file().set_permissions(old.permissions())?;
            if self.text.starts_with(BYTE_ORDER_MARK) {
                new.write_all(BYTE_ORDER_MARK.encode_utf8(&mut [0; 4]).as_bytes())?;
            }
            new.write_all(text.as_bytes())?;
            new.as_file().sync_all()?;
            new.persist(file)?;
            Ok(())
        };
        written().map_err(cannot_write)
    }

    /// Gives a new file to the owner and the group of the one that it replaces: as root, it would be root's, and its owner could
    /// not read it.
    #[cfg(unix)]
    fn give(&self, new: &File, old: &Metadata) -> Result<(), FileError> {
        use std::os::unix::fs::{MetadataExt, fchown};

        let (owner, group) = (old.uid(), old.gid());
        let given = || match new.metadata()? {
            new if (new.uid(), new.gid()) == (owner, group) => Ok(()),
            _ => fchown(new, Some(owner), Some(group)),
        };
        given().map_err(|source| FileError::Owner { file: self.file.clone(), owner, group, source })
    }

    fn cannot_write(&self, file: &Path, source: io::Error) -> FileError {
        FileError::Write { file: file.to_owned(), source }
    }
}

/// The text of a file, up to [`FILE_BYTES_MAX`].
fn read(file: &Path) -> io::Result<String> {
    // Opening a named pipe would wait for a writer.
    if !fs::metadata(file)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file"));
    }
    let mut text = String::new();
    let read = File::open(file)?.take(FILE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if read as u64 > FILE_BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, format!("larger than {FILE_BYTES_MAX} bytes")));
    }
    Ok(text)
}
