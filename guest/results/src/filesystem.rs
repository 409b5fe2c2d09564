//! `wasi:filesystem` for policies: one directory without directories, and the files in it.
//!
//! Links, directories and timestamps are rejected: with `not-permitted` where a policy could exploit them, else with
//! `unsupported`. A path must be a plain file name.

use std::rc::Rc;

use crate::bindings::exports::wasi::clocks::wall_clock::Datetime;
use crate::bindings::exports::wasi::filesystem::types::{
    Advice, DescriptorBorrow, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, ErrorBorrow, Filesize,
    MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use crate::bindings::exports::wasi::filesystem::{preopens, types};
use crate::directory::{Permit, Shared};
use crate::streams::{InputStream, OutputStream, StreamError};
use crate::{ErrorCode, Results, State, Storage};

/// Maximum bytes of one read: 256 KiB.
const READ_BYTES_MAX: u64 = 256 << 10;

/// Path of the preopened directory.
const PREOPEN: &str = "/";

/// An open file or the directory.
pub struct Descriptor<S: Storage> {
    file: Option<Shared<S>>,
    flags: DescriptorFlags,
    _permit: Permit,
}

/// The names in the directory when it was listed.
pub struct Listing {
    names: std::cell::RefCell<std::vec::IntoIter<String>>,
    _permit: Permit,
}

/// Checks that a path is a plain file name.
fn check_name(path: &str) -> Result<(), ErrorCode> {
    if path.contains('/') || matches!(path, "." | "..") { Err(ErrorCode::NotPermitted) } else { Ok(()) }
}

impl<S: Storage> Descriptor<S> {
    fn file(&self, mode: DescriptorFlags) -> Result<&Shared<S>, ErrorCode> {
        let file = self.file.as_ref().ok_or(ErrorCode::IsDirectory)?;
        if self.flags.contains(mode) { Ok(file) } else { Err(ErrorCode::NotPermitted) }
    }

    fn check_directory(&self) -> Result<(), ErrorCode> {
        if self.file.is_none() { Ok(()) } else { Err(ErrorCode::NotDirectory) }
    }

    fn stat_of(file: Option<&Shared<S>>) -> DescriptorStat {
        DescriptorStat {
            type_: file.map_or(DescriptorType::Directory, |_| DescriptorType::RegularFile),
            link_count: 1,
            size: file.map_or(0, |file| file.borrow().bytes),
            data_access_timestamp: None,
            data_modification_timestamp: None,
            status_change_timestamp: None,
        }
    }

    fn hash_of(file: Option<&Shared<S>>) -> MetadataHashValue {
        MetadataHashValue { lower: file.map_or(0, |file| file.borrow().number.into()), upper: 0 }
    }

    /// Runs `work` on the file of this name.
    fn at<T>(&self, path: &str, work: impl FnOnce(&Shared<S>) -> T) -> Result<T, ErrorCode> {
        self.check_directory()?;
        check_name(path)?;
        S::with(|state| state.directory.file(path).map(work).ok_or(ErrorCode::NoEntry))
    }
}

impl<S: Storage> preopens::Guest for Results<S> {
    fn get_directories() -> Vec<(types::Descriptor, String)> {
        let open = |state: &mut State<S>| if state.directory.is_open { state.directory.permit().ok() } else { None };
        let Some(permit) = S::with(open) else { return Vec::new() };
        let flags = DescriptorFlags::READ | DescriptorFlags::WRITE | DescriptorFlags::MUTATE_DIRECTORY;
        let directory = Descriptor::<S> { file: None, flags, _permit: permit };
        vec![(types::Descriptor::new(directory), PREOPEN.to_owned())]
    }
}

impl<S: Storage> types::Guest for Results<S> {
    type Descriptor = Descriptor<S>;
    type DirectoryEntryStream = Listing;

    fn filesystem_error_code(error: ErrorBorrow<'_>) -> Option<ErrorCode> {
        Some(error.get::<StreamError>().0)
    }
}

impl<S: Storage> types::GuestDescriptor for Descriptor<S> {
    fn open_at(
        &self,
        _: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> Result<types::Descriptor, ErrorCode> {
        self.check_directory()?;
        check_name(&path)?;
        let opened = S::with(|state| {
            let directory = &mut state.directory;
            if open_flags.contains(OpenFlags::CREATE) {
                directory.check_new_name(&path)?;
                directory.count_file()?;
            }
            let permit = directory.permit()?;
            let file = match directory.file(&path).map(Rc::clone) {
                Some(_) if open_flags.contains(OpenFlags::EXCLUSIVE) => return Err(ErrorCode::Exist),
                Some(_) if open_flags.contains(OpenFlags::DIRECTORY) => return Err(ErrorCode::NotDirectory),
                Some(file) => {
                    if open_flags.contains(OpenFlags::TRUNCATE) {
                        directory.clear(&file)?;
                    }
                    file
                }
                None if open_flags.contains(OpenFlags::CREATE) => directory.create(&path)?,
                None => return Err(ErrorCode::NoEntry),
            };
            Ok(Self { file: Some(file), flags, _permit: permit })
        })?;
        Ok(types::Descriptor::new(opened))
    }

    fn write(&self, bytes: Vec<u8>, offset: Filesize) -> Result<Filesize, ErrorCode> {
        let file = self.file(DescriptorFlags::WRITE)?;
        let length = bytes.len() as u64;
        S::with(|state| state.directory.write(file, offset, bytes))?;
        Ok(length)
    }

    fn read(&self, length: Filesize, offset: Filesize) -> Result<(Vec<u8>, bool), ErrorCode> {
        let file = self.file(DescriptorFlags::READ)?;
        let bytes = S::with(|state| state.directory.read(file, offset, length.min(READ_BYTES_MAX)))?;
        let at_end = bytes.is_empty();
        Ok((bytes, at_end))
    }

    fn stat(&self) -> Result<DescriptorStat, ErrorCode> {
        Ok(Self::stat_of(self.file.as_ref()))
    }

    fn stat_at(&self, _: PathFlags, path: String) -> Result<DescriptorStat, ErrorCode> {
        self.at(&path, |file| Self::stat_of(Some(file)))
    }

    fn rename_at(&self, old: String, new_directory: DescriptorBorrow<'_>, new: String) -> Result<(), ErrorCode> {
        self.check_directory()?;
        new_directory.get::<Self>().check_directory()?;
        check_name(&old)?;
        check_name(&new)?;
        S::with(|state| {
            state.directory.check_new_name(&new)?;
            state.directory.rename(&old, &new)
        })
    }

    fn unlink_file_at(&self, path: String) -> Result<(), ErrorCode> {
        self.check_directory()?;
        check_name(&path)?;
        S::with(|state| state.directory.remove(&path))
    }

    fn read_directory(&self) -> Result<types::DirectoryEntryStream, ErrorCode> {
        self.check_directory()?;
        let listing = S::with(|state| {
            let permit = state.directory.permit()?;
            let names: Vec<String> = state.directory.names().cloned().collect();
            Ok(Listing { names: names.into_iter().into(), _permit: permit })
        })?;
        Ok(types::DirectoryEntryStream::new(listing))
    }

    fn get_flags(&self) -> Result<DescriptorFlags, ErrorCode> {
        Ok(self.flags)
    }

    fn get_type(&self) -> Result<DescriptorType, ErrorCode> {
        Ok(Self::stat_of(self.file.as_ref()).type_)
    }

    fn is_same_object(&self, other: DescriptorBorrow<'_>) -> bool {
        std::ptr::eq(self, other.get::<Self>())
    }

    fn metadata_hash(&self) -> Result<MetadataHashValue, ErrorCode> {
        Ok(Self::hash_of(self.file.as_ref()))
    }

    fn metadata_hash_at(&self, _: PathFlags, path: String) -> Result<MetadataHashValue, ErrorCode> {
        self.at(&path, |file| Self::hash_of(Some(file)))
    }

    fn read_via_stream(&self, offset: Filesize) -> Result<types::InputStream, ErrorCode> {
        let file = Rc::clone(self.file(DescriptorFlags::READ)?);
        Ok(types::InputStream::new(InputStream::of(file, offset)))
    }

    fn write_via_stream(&self, offset: Filesize) -> Result<types::OutputStream, ErrorCode> {
        let file = Rc::clone(self.file(DescriptorFlags::WRITE)?);
        Ok(types::OutputStream::new(OutputStream::of(file, Some(offset))))
    }

    fn append_via_stream(&self) -> Result<types::OutputStream, ErrorCode> {
        let file = Rc::clone(self.file(DescriptorFlags::WRITE)?);
        Ok(types::OutputStream::new(OutputStream::of(file, None)))
    }

    fn advise(&self, _: Filesize, _: Filesize, _: Advice) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// The host decides whether to flush files to disk when it publishes them.
    fn sync_data(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// As `sync_data`.
    fn sync(&self) -> Result<(), ErrorCode> {
        Ok(())
    }

    fn set_size(&self, _: Filesize) -> Result<(), ErrorCode> {
        Err(ErrorCode::Unsupported)
    }

    fn set_times(&self, _: NewTimestamp, _: NewTimestamp) -> Result<(), ErrorCode> {
        Err(ErrorCode::Unsupported)
    }

    fn set_times_at(&self, _: PathFlags, _: String, _: NewTimestamp, _: NewTimestamp) -> Result<(), ErrorCode> {
        Err(ErrorCode::Unsupported)
    }

    fn create_directory_at(&self, _: String) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotPermitted)
    }

    fn remove_directory_at(&self, _: String) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotPermitted)
    }

    fn link_at(&self, _: PathFlags, _: String, _: DescriptorBorrow<'_>, _: String) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotPermitted)
    }

    fn symlink_at(&self, _: String, _: String) -> Result<(), ErrorCode> {
        Err(ErrorCode::NotPermitted)
    }

    fn readlink_at(&self, _: String) -> Result<String, ErrorCode> {
        Err(ErrorCode::NotPermitted)
    }
}

impl types::GuestDirectoryEntryStream for Listing {
    fn read_directory_entry(&self) -> Result<Option<DirectoryEntry>, ErrorCode> {
        let next = self.names.borrow_mut().next();
        Ok(next.map(|name| DirectoryEntry { type_: DescriptorType::RegularFile, name }))
    }
}

/// Where time stands still.
pub(crate) const EPOCH: Datetime = Datetime { seconds: 0, nanoseconds: 0 };
