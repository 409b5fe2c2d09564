//! `wasi:filesystem` for policies: that of wasmtime-wasi, with the limits of the call on creating and writing, and
//! without the operations that policies do not need.
//!
//! Links, directories and timestamps are rejected: with `not-permitted` where a policy could exploit them, else with
//! `unsupported`. A path must be a plain file name: digests are keyed by name, and `./a` would be a second name of `a`.

use std::io::ErrorKind;
use std::pin::pin;
use std::sync::Arc;

use lro_system::files::is_reserved;
use wasmtime::component::{HasData, Resource};
use wasmtime_wasi::filesystem::{Descriptor, Dir, FsPerms, OpenMode, WasiFilesystemCtxView};
use wasmtime_wasi::p2::bindings::filesystem::{preopens, types as wasi};
use wasmtime_wasi::p2::bindings::sync::filesystem::types::{
    self as sync, Advice, DescriptorFlags, DescriptorStat, DescriptorType, DirectoryEntry, DirectoryEntryStream,
    ErrorCode, MetadataHashValue, NewTimestamp, OpenFlags, PathFlags,
};
use wasmtime_wasi::p2::bindings::sync::io::streams::{InputStream, OutputStream};
use wasmtime_wasi::p2::pipe::{ClosedInputStream, SinkOutputStream};
use wasmtime_wasi::p2::{FsError, FsResult};
use wasmtime_wasi::runtime::poll_noop;

use super::output::{OpenFile, OpenPermit, WriteError};
use super::state::CallState;
use super::streams::FileStream;

/// Path of the preopened directory, as the policy sees it. Of several, their numbers follow.
const PREOPEN: &str = "/";

/// Ties [`View`] to the linker.
pub(super) struct Filesystem;

impl HasData for Filesystem {
    type Data<'a> = View<'a>;
}

/// The file system of one call.
pub(super) struct View<'a>(pub(super) &'a mut CallState);

type Fd = Resource<Descriptor>;

impl View<'_> {
    fn wasi(&mut self) -> WasiFilesystemCtxView<'_> {
        WasiFilesystemCtxView { ctx: &mut self.0.wasi, table: &mut self.0.table }
    }

    /// Checks the name of a new file against the limit and the contract, so that no name on disk has a special meaning
    /// to a terminal, a shell or another system.
    fn check_new_name(&self, name: &str) -> FsResult<()> {
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if name.len() > self.0.output.name_bytes() {
            return refuse(wasi::ErrorCode::NameTooLong);
        }
        if name.is_empty() || name.starts_with('.') || !name.bytes().all(allowed) {
            return refuse(wasi::ErrorCode::NotPermitted);
        }
        Ok(())
    }

    /// Takes a permit for a file or listing to be opened, if one is left.
    fn take_open_permit(&mut self) -> FsResult<OpenPermit> {
        self.0.output.take_open_permit().map_err(|_| wasi::ErrorCode::Quota.into())
    }

    /// The file of a descriptor, which must have been opened in this mode.
    fn file(&self, fd: &Fd, mode: OpenMode) -> FsResult<Arc<OpenFile>> {
        let Descriptor::File(file) = self.0.table.get(fd)? else { return refuse(wasi::ErrorCode::IsDirectory) };
        if mode == OpenMode::WRITE && file.perms.write_not_permitted() || !file.open_mode.contains(mode) {
            return refuse(wasi::ErrorCode::NotPermitted);
        }
        self.0.files.get(&fd.rep()).cloned().ok_or_else(|| wasi::ErrorCode::BadDescriptor.into())
    }

    fn output_stream(&mut self, fd: &Fd, offset: Option<u64>) -> FsResult<Resource<OutputStream>> {
        let stream = FileStream { open: self.file(fd, OpenMode::WRITE)?, offset };
        let nowhere: OutputStream = Box::new(SinkOutputStream);
        let handle = self.0.table.push(nowhere)?;
        self.0.streams.insert(handle.rep(), stream);
        Ok(handle)
    }

    /// Identifies a file. Must be deterministic, so it is not the system's inode.
    fn hash(number: u32) -> MetadataHashValue {
        MetadataHashValue { lower: number.into(), upper: 0 }
    }

    /// Waits until earlier writes have reached the file.
    fn drain(&mut self) -> FsResult<()> {
        self.0.output.drain().map_err(write_error)
    }
}

/// Polls a future that never waits, because the context lets file operations block the thread.
fn ready<T>(future: impl Future<Output = FsResult<T>>) -> FsResult<T> {
    poll_noop(pin!(future))
        .unwrap_or_else(|| Err(FsError::trap(wasmtime::format_err!("a file operation did not complete at once"))))
}

fn refuse<T>(code: wasi::ErrorCode) -> FsResult<T> {
    Err(code.into())
}

/// Checks that a path is a plain file name.
fn check_name(path: &str) -> FsResult<()> {
    if path.contains('/') || matches!(path, "." | "..") || is_reserved(path) {
        refuse(wasi::ErrorCode::NotPermitted)
    } else {
        Ok(())
    }
}

fn write_error(error: WriteError) -> FsError {
    match error {
        WriteError::Quota(_) => wasi::ErrorCode::Quota.into(),
        WriteError::Deadline => FsError::trap(wasmtime::Trap::Interrupt),
        // Wasmtime does not know it on every system.
        WriteError::Io(error) if error.kind() == ErrorKind::StorageFull => wasi::ErrorCode::InsufficientSpace.into(),
        WriteError::Io(error) => error.into(),
    }
}

impl preopens::Host for View<'_> {
    fn get_directories(&mut self) -> wasmtime::Result<Vec<(Fd, String)>> {
        let mut preopens = Vec::new();
        for (number, (directory, permissions)) in self.0.directories.iter().enumerate() {
            let mode = match permissions {
                FsPerms::ReadOnly => OpenMode::READ,
                FsPerms::ReadWrite => OpenMode::READ | OpenMode::WRITE,
            };
            let open_permit = self.0.output.take_open_permit()?;
            let directory = Dir::new(directory.try_clone()?, *permissions, mode, true);
            let fd = self.0.table.push(Descriptor::Dir(directory))?;
            self.0.open_permits.insert(fd.rep(), open_permit);
            self.0.preopens.insert(fd.rep(), number);
            let path = if number == 0 { PREOPEN.to_owned() } else { format!("{PREOPEN}{number}") };
            preopens.push((fd, path));
        }
        Ok(preopens)
    }
}

impl sync::Host for View<'_> {
    fn convert_error_code(&mut self, error: FsError) -> wasmtime::Result<ErrorCode> {
        sync::Host::convert_error_code(&mut self.wasi(), error)
    }

    fn filesystem_error_code(&mut self, error: Resource<wasmtime::Error>) -> wasmtime::Result<Option<ErrorCode>> {
        sync::Host::filesystem_error_code(&mut self.wasi(), error)
    }
}

impl sync::HostDescriptor for View<'_> {
    fn open_at(
        &mut self,
        fd: Fd,
        path_flags: PathFlags,
        path: String,
        open_flags: OpenFlags,
        flags: DescriptorFlags,
    ) -> FsResult<Fd> {
        check_name(&path)?;
        self.drain()?;
        if open_flags.contains(OpenFlags::CREATE) {
            self.check_new_name(&path)?;
            self.0.output.create().map_err(write_error)?;
        }
        let open_permit = self.take_open_permit()?;
        let directory = self.0.preopens.get(&fd.rep()).copied();
        let (name, truncates) = (path.clone(), open_flags.contains(OpenFlags::TRUNCATE));
        let (path_flags, open_flags, flags) = (path_flags.into(), open_flags.into(), flags.into());
        let fd = ready(wasi::HostDescriptor::open_at(&mut self.wasi(), fd, path_flags, name, open_flags, flags))?;
        match self.0.table.get(&fd)? {
            Descriptor::File(opened) => {
                let incoming = directory.map(|number| self.0.incoming.file(number, &path)).unwrap_or_default();
                let opened = self.0.output.opened(open_permit, Arc::clone(&opened.file), incoming, &path, truncates);
                self.0.files.insert(fd.rep(), Arc::new(opened));
            }
            Descriptor::Dir(_) => drop(self.0.open_permits.insert(fd.rep(), open_permit)),
        }
        Ok(fd)
    }

    fn write(&mut self, fd: Fd, bytes: Vec<u8>, offset: u64) -> FsResult<u64> {
        let file = self.file(&fd, OpenMode::WRITE)?;
        self.0.output.write(&file, offset, bytes).map_err(write_error)
    }

    fn drop(&mut self, fd: Fd) -> wasmtime::Result<()> {
        self.0.files.remove(&fd.rep());
        self.0.open_permits.remove(&fd.rep());
        self.0.preopens.remove(&fd.rep());
        wasi::HostDescriptor::drop(&mut self.wasi(), fd)
    }

    /// Waits for earlier writes. The host decides whether to flush them to disk when it publishes.
    fn sync_data(&mut self, _: Fd) -> FsResult<()> {
        self.drain()
    }

    /// As `sync_data`.
    fn sync(&mut self, _: Fd) -> FsResult<()> {
        self.drain()
    }

    fn read(&mut self, fd: Fd, length: u64, offset: u64) -> FsResult<(Vec<u8>, bool)> {
        let open = self.file(&fd, OpenMode::READ)?;
        self.drain()?;
        let bytes = open.read(offset, length, &self.0.clock)?;
        let at_end = bytes.is_empty();
        Ok((bytes, at_end))
    }

    fn stat(&mut self, fd: Fd) -> FsResult<DescriptorStat> {
        self.drain()?;
        Ok(ready(wasi::HostDescriptor::stat(&mut self.wasi(), fd))?.into())
    }

    fn stat_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<DescriptorStat> {
        check_name(&path)?;
        self.drain()?;
        Ok(ready(wasi::HostDescriptor::stat_at(&mut self.wasi(), fd, flags.into(), path))?.into())
    }

    fn rename_at(&mut self, fd: Fd, old: String, new_fd: Fd, new: String) -> FsResult<()> {
        check_name(&old)?;
        check_name(&new)?;
        self.check_new_name(&new)?;
        self.drain()?;
        ready(wasi::HostDescriptor::rename_at(&mut self.wasi(), fd, old.clone(), new_fd, new.clone()))?;
        self.0.output.renamed(&old, &new);
        Ok(())
    }

    fn unlink_file_at(&mut self, fd: Fd, path: String) -> FsResult<()> {
        check_name(&path)?;
        self.drain()?;
        ready(wasi::HostDescriptor::unlink_file_at(&mut self.wasi(), fd, path.clone()))?;
        self.0.output.removed(&path);
        Ok(())
    }

    fn read_directory(&mut self, fd: Fd) -> FsResult<Resource<DirectoryEntryStream>> {
        self.drain()?;
        let open_permit = self.take_open_permit()?;
        let listing = ready(wasi::HostDescriptor::read_directory(&mut self.wasi(), fd))?;
        self.0.open_permits.insert(listing.rep(), open_permit);
        Ok(listing)
    }

    fn get_flags(&mut self, fd: Fd) -> FsResult<DescriptorFlags> {
        Ok(ready(wasi::HostDescriptor::get_flags(&mut self.wasi(), fd))?.into())
    }

    fn get_type(&mut self, fd: Fd) -> FsResult<DescriptorType> {
        Ok(ready(wasi::HostDescriptor::get_type(&mut self.wasi(), fd))?.into())
    }

    fn is_same_object(&mut self, a: Fd, b: Fd) -> wasmtime::Result<bool> {
        Ok(a.rep() == b.rep())
    }

    fn set_size(&mut self, _: Fd, _: u64) -> FsResult<()> {
        refuse(wasi::ErrorCode::Unsupported)
    }

    fn create_directory_at(&mut self, _: Fd, _: String) -> FsResult<()> {
        refuse(wasi::ErrorCode::NotPermitted)
    }

    fn remove_directory_at(&mut self, _: Fd, _: String) -> FsResult<()> {
        refuse(wasi::ErrorCode::NotPermitted)
    }

    fn link_at(&mut self, _: Fd, _: PathFlags, _: String, _: Fd, _: String) -> FsResult<()> {
        refuse(wasi::ErrorCode::NotPermitted)
    }

    fn symlink_at(&mut self, _: Fd, _: String, _: String) -> FsResult<()> {
        refuse(wasi::ErrorCode::NotPermitted)
    }

    fn readlink_at(&mut self, _: Fd, _: String) -> FsResult<String> {
        refuse(wasi::ErrorCode::NotPermitted)
    }

    fn set_times(&mut self, _: Fd, _: NewTimestamp, _: NewTimestamp) -> FsResult<()> {
        refuse(wasi::ErrorCode::Unsupported)
    }

    fn set_times_at(&mut self, _: Fd, _: PathFlags, _: String, _: NewTimestamp, _: NewTimestamp) -> FsResult<()> {
        refuse(wasi::ErrorCode::Unsupported)
    }

    fn advise(&mut self, _: Fd, _: u64, _: u64, _: Advice) -> FsResult<()> {
        Ok(())
    }

    fn read_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<InputStream>> {
        let open = self.file(&fd, OpenMode::READ)?;
        let nothing: InputStream = Box::new(ClosedInputStream);
        let handle = self.0.table.push(nothing)?;
        self.0.streams.insert(handle.rep(), FileStream { open, offset: Some(offset) });
        Ok(handle)
    }

    fn write_via_stream(&mut self, fd: Fd, offset: u64) -> FsResult<Resource<OutputStream>> {
        self.output_stream(&fd, Some(offset))
    }

    fn append_via_stream(&mut self, fd: Fd) -> FsResult<Resource<OutputStream>> {
        self.output_stream(&fd, None)
    }

    fn metadata_hash(&mut self, fd: Fd) -> FsResult<MetadataHashValue> {
        Ok(Self::hash(self.0.files.get(&fd.rep()).map_or(0, |open| open.number())))
    }

    fn metadata_hash_at(&mut self, fd: Fd, flags: PathFlags, path: String) -> FsResult<MetadataHashValue> {
        // A policy cannot create links, so this one was planted.
        if self.stat_at(fd, flags, path.clone())?.type_ == DescriptorType::SymbolicLink {
            return refuse(wasi::ErrorCode::Loop);
        }
        Ok(Self::hash(self.0.output.number_of_name(&path)))
    }
}

impl sync::HostDirectoryEntryStream for View<'_> {
    fn read_directory_entry(&mut self, stream: Resource<DirectoryEntryStream>) -> FsResult<Option<DirectoryEntry>> {
        let mut wasi = self.wasi();
        let entry = ready(wasi::HostDirectoryEntryStream::read_directory_entry(&mut wasi, stream))?;
        Ok(entry.map(Into::into))
    }

    fn drop(&mut self, stream: Resource<DirectoryEntryStream>) -> wasmtime::Result<()> {
        self.0.open_permits.remove(&stream.rep());
        wasi::HostDirectoryEntryStream::drop(&mut self.wasi(), stream)
    }
}
