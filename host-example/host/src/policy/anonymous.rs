//! Files without a name, which only this process and its children can open.

use std::fs::File;
use std::io;

/// Creates a file in memory, which shows up under this name in lists of open files.
#[cfg(target_os = "linux")]
pub(super) fn file(name: &str) -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};
    use rustix::io::Errno;

    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let made = match memfd_create(name, flags | MemfdFlags::NOEXEC_SEAL) {
        // Linux before 6.3 does not know the flag; later versions may require it.
        Err(Errno::INVAL) => memfd_create(name, flags),
        made => made,
    };
    Ok(made?.into())
}

/// Creates a file that the directory for temporary files does not list: where files in memory cannot be shared with a child.
#[cfg(not(target_os = "linux"))]
pub(super) fn file(_: &str) -> io::Result<File> {
    tempfile::tempfile()
}

/// Seals a file, so that no process can change it any more.
#[cfg(target_os = "linux")]
pub(super) fn sealed(file: File) -> io::Result<File> {
    use rustix::fs::{SealFlags, fcntl_add_seals};

    fcntl_add_seals(&file, SealFlags::WRITE | SealFlags::GROW | SealFlags::SHRINK | SealFlags::SEAL)?;
    Ok(file)
}

/// Returns the file as it is: no other process has opened it.
#[cfg(not(target_os = "linux"))]
pub(super) fn sealed(file: File) -> io::Result<File> {
    Ok(file)
}
