//! Owns the results and the files of a policy's calls. The files are in the directory that the host preopens, which must be empty.
#![cfg(target_arch = "wasm32")]

use std::cell::RefCell;

use lro_results::{ErrorCode, Results, State, Storage, bindings};

mod host {
    wit_bindgen::generate!({
        path: ["../../wit", "../../wit/0.1.0", "../../wit/adapter"],
        world: "lro:adapter/lro-directory",
        generate_all,
    });
}

use host::wasi::filesystem::preopens::get_directories;
use host::wasi::filesystem::types::{Descriptor, DescriptorFlags, ErrorCode as HostCode, OpenFlags, PathFlags};

thread_local! {
    static STATE: RefCell<State<Host>> = RefCell::default();
}

type Component = Results<Host>;

bindings::export!(Component with_types_in bindings);

/// Files in the directory of the host.
#[derive(Default)]
struct Host {
    directory: Option<Descriptor>,
}

impl Host {
    fn directory(&self) -> Result<&Descriptor, ErrorCode> {
        self.directory.as_ref().ok_or(ErrorCode::BadDescriptor)
    }
}

/// The error of the host as one for the policy.
fn code(code: HostCode) -> ErrorCode {
    match code {
        HostCode::Access => ErrorCode::Access,
        HostCode::Exist => ErrorCode::Exist,
        HostCode::FileTooLarge => ErrorCode::FileTooLarge,
        HostCode::InsufficientSpace => ErrorCode::InsufficientSpace,
        HostCode::NameTooLong => ErrorCode::NameTooLong,
        HostCode::NoEntry => ErrorCode::NoEntry,
        HostCode::NotPermitted => ErrorCode::NotPermitted,
        HostCode::Quota => ErrorCode::Quota,
        HostCode::ReadOnly => ErrorCode::ReadOnly,
        _ => ErrorCode::Io,
    }
}

impl Storage for Host {
    type File = Descriptor;

    fn with<T>(work: impl FnOnce(&mut State<Self>) -> T) -> T {
        STATE.with_borrow_mut(work)
    }

    fn open(&mut self) -> Result<(), String> {
        let first = get_directories().into_iter().next();
        let (directory, _) = first.ok_or("no directory is preopened")?;
        let cannot = |code: HostCode| format!("the preopened directory cannot be listed: {code}");
        let listing = directory.read_directory().map_err(cannot)?;
        if listing.read_directory_entry().map_err(cannot)?.is_some() {
            return Err("the preopened directory is not empty".to_owned());
        }
        self.directory = Some(directory);
        Ok(())
    }

    fn create(&mut self, name: &str) -> Result<Descriptor, ErrorCode> {
        let (open, flags) = (OpenFlags::CREATE | OpenFlags::EXCLUSIVE, DescriptorFlags::READ | DescriptorFlags::WRITE);
        self.directory()?.open_at(PathFlags::empty(), name, open, flags).map_err(code)
    }

    fn write(&mut self, file: &mut Descriptor, mut offset: u64, bytes: Vec<u8>) -> Result<(), ErrorCode> {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let written = file.write(rest, offset).map_err(code)?;
            let left = usize::try_from(written).ok().filter(|written| *written > 0).and_then(|from| rest.get(from..));
            rest = left.ok_or(ErrorCode::Io)?;
            offset += written;
        }
        Ok(())
    }

    fn read(&self, file: &Descriptor, offset: u64, length: u64) -> Result<Vec<u8>, ErrorCode> {
        file.read(length, offset).map(|(bytes, _)| bytes).map_err(code)
    }

    fn clear(&mut self, file: &mut Descriptor) -> Result<(), ErrorCode> {
        file.set_size(0).map_err(code)
    }

    fn rename(&mut self, old: &str, new: &str) -> Result<(), ErrorCode> {
        let directory = self.directory()?;
        directory.rename_at(old, directory, new).map_err(code)
    }

    fn remove(&mut self, name: &str) -> Result<(), ErrorCode> {
        self.directory()?.unlink_file_at(name).map_err(code)
    }
}
