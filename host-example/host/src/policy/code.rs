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
pub(super) enum Copied {
    /// A sealed file in memory. It is mapped, not copied once more.
    #[cfg(target_os = "linux")]
    Sealed(File),
    /// Where there are no such files, or this process may not write them.
    Owned(Vec<u8>),
}

impl Copied {
    /// Copies a file from an offset on, at most so many bytes, also if it grows meanwhile.
    pub(super) fn of(file: &File, from: u64, bytes_max: u64) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(memory) = sealed(file, from, bytes_max) {
            return Ok(Self::Sealed(memory));
        }
        collected(file, from, bytes_max).map(Self::Owned)
    }

    /// Passes all of it on, in blocks, to check it.
    pub(super) fn each_block(&self, mut read: impl FnMut(&[u8])) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sealed(memory) => each_block(memory, 0, |block| {
                read(block);
                Ok(())
            }),
            Self::Owned(code) => {
                read(code);
                Ok(())
            }
        }
    }

    /// As [`load`]. Only for code that was authenticated with the key of the cache.
    pub(super) fn load(self, engine: &Engine) -> wasmtime::Result<Component> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sealed(memory) => {
                let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
                load_sealed(engine, &memory, path.as_ref())
            }
            Self::Owned(code) => load(engine, &code),
        }
    }
}

fn collected(file: &File, from: u64, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut code = Vec::new();
    copy(file, from, bytes_max, |block| {
        code.extend_from_slice(block);
        Ok(())
    })?;
    Ok(code)
}

#[cfg(target_os = "linux")]
fn sealed(file: &File, from: u64, bytes_max: u64) -> io::Result<File> {
    let mut memory = anonymous::file("lro-code")?;
    copy(file, from, bytes_max, |block| memory.write_all(block))?;
    anonymous::sealed(memory)
}

fn copy(file: &File, from: u64, bytes_max: u64, mut to: impl FnMut(&[u8]) -> io::Result<()>) -> io::Result<()> {
    let mut left = bytes_max;
    each_block(file, from, |block| {
        let too_large = || io::Error::other(format!("it is larger than {bytes_max} bytes"));
        left = left.checked_sub(block.len() as u64).ok_or_else(too_large)?;
        to(block)
    })
}

/// Maps the code in sealed memory that this process opens by a path, or copies it.
#[cfg(target_os = "linux")]
fn load_sealed(engine: &Engine, memory: &File, path: &Path) -> wasmtime::Result<Component> {
    fail_point!("policy::load-code", wasmtime::Error::new);
    // SAFETY: as for `load`; the memory is sealed, so that its mapping does not change.
    #[expect(unsafe_code, reason = "as for `load`")]
    let mapped = unsafe { Component::deserialize_file(engine, path) };
    mapped.or_else(|error| {
        // Where `/proc` is not mounted, or memory of this kind may not be mapped as code.
        tracing::debug!(%error, "compiled code is copied, as it cannot be mapped");
        load(engine, &collected(memory, 0, u64::MAX)?)
    })
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
        let copied = load_sealed(&engine, &sealed(&file, 4, u64::MAX).unwrap(), "/no/such/file".as_ref()).unwrap();
        assert!(!mapped());
        drop(copied);
        let component = Copied::of(&file, 4, u64::MAX).unwrap().load(&engine).unwrap();
        assert!(mapped());
        drop(component);
        let component = Copied::Owned(collected(&file, 4, u64::MAX).unwrap()).load(&engine).unwrap();
        assert!(!mapped());
        drop(component);
    }

    #[test]
    fn a_copy_of_compiled_code_is_sealed() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"code").unwrap();
        let mut memory = sealed(&file, 0, 4).unwrap();
        assert_eq!(memory.write_all(b"other").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        file.write_all(b", changed").unwrap();
        let mut found = Vec::new();
        Copied::Sealed(memory).each_block(|block| found.extend_from_slice(block)).unwrap();
        assert_eq!(found, b"code");
    }

    #[test]
    fn a_copy_of_compiled_code_is_bounded() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head and code").unwrap();
        assert!(Copied::of(&file, 5, 8).is_ok());
        assert_eq!(Copied::of(&file, 5, 7).unwrap_err().to_string(), "it is larger than 7 bytes");
    }
}
