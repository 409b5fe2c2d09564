//! Files: private ones, and reading and writing at an offset.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Whether names that differ in case alone are those of the same file, as they usually are here.
pub const IGNORES_CASE: bool = cfg!(any(windows, target_os = "macos"));

/// Whether a name may stand for something else than a file of that name in its directory. Windows: a device such as `NUL`, a
/// stream of a file, a file in another directory, and a name that the system cuts; elsewhere never, of a name without `/`.
pub fn is_reserved(name: &str) -> bool {
    if !cfg!(windows) {
        return false;
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_ascii_uppercase();
    let is_port =
        stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT")).is_some_and(|rest| rest.chars().count() == 1);
    let is_device = is_port || matches!(stem.as_str(), "CON" | "PRN" | "AUX" | "NUL" | "CONIN$" | "CONOUT$");
    is_device || name.contains(['\\', ':']) || name.ends_with(['.', ' '])
}

/// Creates directories that only their owner can enter: with mode 0700, less the umask.
///
/// Windows: with the access rights of the parent directory.
pub fn private_directories() -> DirBuilder {
    let builder = DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        use std::os::unix::fs::DirBuilderExt;

        let mut builder = builder;
        builder.mode(0o700);
        builder
    };
    builder
}

/// Options for writing files that only their owner can open: those that are created get mode 0600, less the umask.
///
/// Windows: the access rights of their directory.
pub fn private_files() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Opens a file for reading, without waiting for a writer if it is a named pipe.
///
/// # Errors
/// When it cannot be opened.
pub fn open_without_waiting(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::{Mode, OFlags};

        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }
    // Named pipes are not among the files of this system.
    #[cfg(windows)]
    File::open(path)
}

/// Opens a directory, to open files relative to it. The last component must not be a link.
///
/// # Errors
/// When it cannot be opened; Windows: [`NotADirectory`](io::ErrorKind::NotADirectory) for anything else.
pub fn open_directory(path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use rustix::fs::{Mode, OFlags};

        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::open(path, flags, Mode::empty())?.into())
    }
    #[cfg(windows)]
    {
        let directory = open_itself(path, OpenOptions::new().read(true))?;
        match directory.metadata()?.is_dir() {
            true => Ok(directory),
            false => Err(io::ErrorKind::NotADirectory.into()),
        }
    }
}

/// Opens what is at this path, even if it is a directory or a link.
///
/// # Errors
/// When it cannot be opened.
#[cfg(windows)]
pub fn open_itself(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;

    use windows_sys::Win32::Storage::FileSystem::{FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT};

    options.custom_flags(FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT).open(path)
}

/// The path of what is there, without links. Windows: without the prefix `\\?\`, which most programs do not take.
///
/// # Errors
/// When there is nothing, or a directory on the way cannot be read.
pub fn real_path(path: &Path) -> io::Result<PathBuf> {
    #[cfg(unix)]
    return std::fs::canonicalize(path);
    #[cfg(windows)]
    return dunce::canonicalize(path);
}

/// As [`real_path`]; of what is not there, the absolute path.
pub fn resolved(path: &Path) -> PathBuf {
    real_path(path).or_else(|_| std::path::absolute(path)).unwrap_or_else(|_| path.to_owned())
}

/// Reads once at an offset, whatever the position of the file. Returns zero at its end.
///
/// # Errors
/// When it cannot be read; not when a signal interrupts it.
pub fn read_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        #[cfg(unix)]
        let read = std::os::unix::fs::FileExt::read_at(file, bytes, offset);
        #[cfg(windows)]
        let read = std::os::windows::fs::FileExt::seek_read(file, bytes, offset);
        match read {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Fills a buffer with the bytes at an offset.
///
/// # Errors
/// As for [`read_at`]; [`UnexpectedEof`](io::ErrorKind::UnexpectedEof) if the file ends before.
pub fn read_exact_at(file: &File, offset: u64, bytes: &mut [u8]) -> io::Result<()> {
    let mut read = 0;
    while let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        match read_at(file, offset + read as u64, rest)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            more => read += more,
        }
    }
    Ok(())
}

/// As [`read_at`], into the free capacity of a vector.
///
/// # Errors
/// As for [`read_at`].
pub fn append_at(file: &File, offset: u64, bytes: &mut Vec<u8>) -> io::Result<usize> {
    #[cfg(unix)]
    {
        use rustix::buffer::spare_capacity;
        use rustix::io::{pread, retry_on_intr};

        Ok(retry_on_intr(|| pread(file, spare_capacity(bytes), offset))?)
    }
    #[cfg(windows)]
    {
        let before = bytes.len();
        bytes.resize(bytes.capacity(), 0);
        let read = read_at(file, offset, bytes.get_mut(before..).unwrap_or_default());
        bytes.truncate(before + *read.as_ref().unwrap_or(&0));
        read
    }
}

/// Writes all bytes at an offset, whatever the position of the file.
///
/// # Errors
/// When not all can be written.
pub fn write_all_at(file: &File, offset: u64, bytes: &[u8]) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::FileExt::write_all_at(file, bytes, offset);
    #[cfg(windows)]
    {
        let mut written = 0;
        while let Some(rest) = bytes.get(written..).filter(|rest| !rest.is_empty()) {
            match std::os::windows::fs::FileExt::seek_write(file, rest, offset + written as u64)? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                more => written += more,
            }
        }
        Ok(())
    }
}

/// Has a part of a file written to the disk in the background: synchronizing the file waits for less then, and reports what fails.
/// Linux; elsewhere nothing happens.
pub fn begin_write_back(file: &File, offset: u64, bytes: u64) {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;

        let (Ok(offset), Ok(bytes)) = (offset.try_into(), bytes.try_into()) else { return };
        #[expect(unsafe_code, reason = "rustix does not have this call")]
        // SAFETY: the descriptor is that of an open file.
        unsafe {
            libc::sync_file_range(file.as_raw_fd(), offset, bytes, libc::SYNC_FILE_RANGE_WRITE);
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (file, offset, bytes);
}

/// Where programs of this user keep what they can make again: `XDG_CACHE_HOME`, else `.cache` in `HOME`; Windows: else
/// `LOCALAPPDATA`. `None` if no variable is an absolute path.
pub fn cache_directory(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let found = path("XDG_CACHE_HOME").or_else(|| path("HOME").map(|home| home.join(".cache")));
    if cfg!(windows) { found.or_else(|| path("LOCALAPPDATA")) } else { found }
}
