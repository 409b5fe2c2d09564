//! The preopened directory, and the files written to it.

use crate::bindings::lro::filter::types::PolicyError;
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// The only directory a policy may write to.
pub(crate) struct Directory(Descriptor);

impl Directory {
    /// The preopened directory.
    pub(crate) fn preopened() -> Result<Self, PolicyError> {
        match get_directories().into_iter().next() {
            Some((directory, _)) => Ok(Self(directory)),
            None => Err(PolicyError::Io("no directory is preopened".to_owned())),
        }
    }

    /// A new, empty file.
    pub(crate) fn create(&self, name: &str) -> Result<File, PolicyError> {
        let flags = OpenFlags::CREATE | OpenFlags::EXCLUSIVE;
        let opened = self.0.open_at(PathFlags::empty(), name, flags, DescriptorFlags::WRITE);
        Ok(File { descriptor: opened.map_err(|code| failed(code, name))?, name: name.to_owned(), bytes: 0 })
    }

    pub(crate) fn rename(&self, old: &str, new: &str) -> Result<(), PolicyError> {
        self.0.rename_at(old, &self.0, new).map_err(|code| failed(code, old))
    }

    pub(crate) fn remove(&self, name: &str) -> Result<(), PolicyError> {
        self.0.unlink_file_at(name).map_err(|code| failed(code, name))
    }
}

/// A file being written from front to back.
pub(crate) struct File {
    descriptor: Descriptor,
    name: String,
    bytes: u64,
}

impl File {
    /// Bytes appended so far.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn append(&mut self, bytes: &[u8]) -> Result<(), PolicyError> {
        self.write_at(bytes, self.bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Overwrites bytes.
    pub(crate) fn write_at(&self, mut bytes: &[u8], mut offset: u64) -> Result<(), PolicyError> {
        while !bytes.is_empty() {
            let written = self.descriptor.write(bytes, offset).map_err(|code| failed(code, &self.name))?;
            let rest =
                usize::try_from(written).ok().filter(|written| *written > 0).and_then(|written| bytes.get(written..));
            let wrong = || PolicyError::Io(format!("{}: {written} bytes of {} were written", self.name, bytes.len()));
            bytes = rest.ok_or_else(wrong)?;
            offset += written;
        }
        Ok(())
    }
}

fn failed(code: ErrorCode, name: &str) -> PolicyError {
    match code {
        ErrorCode::InsufficientSpace | ErrorCode::Quota | ErrorCode::FileTooLarge => PolicyError::NoSpace,
        other => PolicyError::Io(format!("{name}: {}", other.message())),
    }
}
