//! Loads compiled code, which runs unchecked.

use std::fs::File;
use std::io;
#[cfg(target_os = "linux")]
use std::{io::Write, os::fd::AsRawFd, path::Path};

use wasmtime::Engine;
use wasmtime::component::Component;

#[cfg(target_os = "linux")]
use super::anonymous;
use crate::digest::each_block;
use crate::faults::fail_point;

/// Loads compiled code. Only for code that this program compiled, see [`Compiler`](super::Compiler), or was built with, see
/// [`ahead_of_time`](super::ahead_of_time).
pub(super) fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    fail_point!("policy::load-code", wasmtime::Error::new);
    // SAFETY: callers pass code that this program compiled with this version of wasmtime: it was authenticated with the
    // key of the cache, comes from the child of a `Compiler` through an anonymous memory file, or is part of this program.
    #[expect(unsafe_code, reason = "loading compiled code is the purpose of the cache and of the compiling child")]
    unsafe {
        Component::deserialize(engine, code)
    }
}

/// A copy of compiled code in memory that nothing else can change, so that what is checked is what is loaded.
#[derive(Debug)]
#[cfg(not(target_os = "linux"))]
pub(super) struct Copied(Vec<u8>);

#[cfg(not(target_os = "linux"))]
impl Copied {
    /// Copies a file from an offset on.
    pub(super) fn of(file: &File, from: u64) -> io::Result<Self> {
        let mut code = Vec::new();
        each_block(file, from, |block| Ok(code.extend_from_slice(block)))?;
        Ok(Self(code))
    }

    /// Passes all of it on, to check it.
    pub(super) fn each_block(&self, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        Ok(read(&self.0))
    }

    /// As [`load`]. Only for code that was authenticated with the key of the cache.
    pub(super) fn load(self, engine: &Engine) -> wasmtime::Result<Component> {
        load(engine, &self.0)
    }
}

/// A copy of compiled code in memory that nothing else can change, so that what is checked is what is loaded. It is mapped,
/// not copied once more.
#[derive(Debug)]
#[cfg(target_os = "linux")]
pub(super) struct Copied(File);

#[cfg(target_os = "linux")]
impl Copied {
    /// Copies a file from an offset on.
    pub(super) fn of(file: &File, from: u64) -> io::Result<Self> {
        let mut memory = anonymous::file("lro-code")?;
        each_block(file, from, |block| memory.write_all(block))?;
        anonymous::sealed(memory).map(Self)
    }

    /// Passes all of it on, block by block, to check it.
    pub(super) fn each_block(&self, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        each_block(&self.0, 0, |block| {
            read(block);
            Ok(())
        })
    }

    /// As [`load`]. Only for code that was authenticated with the key of the cache.
    pub(super) fn load(self, engine: &Engine) -> wasmtime::Result<Component> {
        let path = format!("/proc/self/fd/{}", self.0.as_raw_fd());
        self.load_at(engine, path)
    }

    /// As [`load`](Self::load), with the path by which this process opens the memory.
    fn load_at(self, engine: &Engine, path: impl AsRef<Path>) -> wasmtime::Result<Component> {
        fail_point!("policy::load-code", wasmtime::Error::new);
        // SAFETY: as for `load`; the memory is sealed, so that its mapping does not change.
        #[expect(unsafe_code, reason = "as for `load`")]
        let mapped = unsafe { Component::deserialize_file(engine, path) };
        mapped.or_else(|error| {
            // Where `/proc` is not mounted, or memory of this kind may not be mapped as code.
            tracing::debug!(%error, "compiled code is copied, as it cannot be mapped");
            let mut code = Vec::new();
            self.each_block(|block| code.extend_from_slice(block))?;
            load(engine, &code)
        })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    const COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";

    #[test]
    fn compiled_code_is_mapped_and_copied_where_it_cannot_be_mapped() {
        let engine = Engine::default();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head").unwrap();
        file.write_all(&Component::new(&engine, COMPONENT).unwrap().serialize().unwrap()).unwrap();
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("/memfd:lro-code");
        let copied = Copied::of(&file, 4).unwrap().load_at(&engine, "/no/such/file").unwrap();
        assert!(!mapped());
        drop(copied);
        let component = Copied::of(&file, 4).unwrap().load(&engine).unwrap();
        assert!(mapped());
        drop(component);
    }

    #[test]
    fn a_copy_of_compiled_code_is_sealed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"code").unwrap();
        let mut copy = Copied::of(&file, 0).unwrap();
        let error = copy.0.write_all(b"other").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        file.write_all(b", changed").unwrap();
        let mut found = Vec::new();
        copy.each_block(|block| found.extend_from_slice(block)).unwrap();
        assert_eq!(found, b"code");
    }
}
