//! Loads compiled code, which runs unchecked.

use std::fs::File;
use std::io;
use std::thread::available_parallelism;
#[cfg(target_os = "linux")]
use std::{io::Write, os::fd::AsRawFd, path::Path};

use lro_system::files::read_exact_at;
use sha2::{Digest, Sha256};
use wasmtime::Engine;
use wasmtime::component::Component;

#[cfg(target_os = "linux")]
use super::anonymous;
use crate::at_once::each_at_once;
use crate::faults::fail_point;

/// Size of the parts that are hashed at the same time.
const PART_BYTES: usize = 512 << 10;
/// Maximum number of threads that do so.
const THREADS_MAX: usize = 4;
const THREAD: &str = "lro-load";

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
    /// Copies so many bytes of a file from an offset on.
    pub(super) fn of(file: &File, from: u64, bytes: u64) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Ok(memory) = sealed(file, from, bytes) {
            return Ok(Self::Sealed(memory));
        }
        collected(file, from, bytes).map(Self::Owned)
    }

    /// The digests of its parts, in their order.
    pub(super) fn digests(&self) -> io::Result<Vec<[u8; 32]>> {
        match self {
            #[cfg(target_os = "linux")]
            Self::Sealed(memory) => {
                let parts = parts(memory.metadata()?.len()).collect();
                let digest = |(from, bytes)| Ok(Sha256::digest(collected(memory, from, bytes)?).into());
                each_at_once(THREAD, threads(), parts, digest)
            }
            Self::Owned(code) => digests(code),
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

/// The digests of the parts of code, as [`Copied::digests`] has them.
pub(super) fn digests(code: &[u8]) -> io::Result<Vec<[u8; 32]>> {
    each_at_once(THREAD, threads(), code.chunks(PART_BYTES).collect(), |part| Ok(Sha256::digest(part).into()))
}

/// Reads so many bytes of a file from an offset on.
fn collected(file: &File, from: u64, bytes: u64) -> io::Result<Vec<u8>> {
    let mut code = vec![0; usize::try_from(bytes).map_err(io::Error::other)?];
    read_exact_at(file, from, &mut code)?;
    Ok(code)
}

#[cfg(target_os = "linux")]
fn sealed(file: &File, from: u64, bytes: u64) -> io::Result<File> {
    let mut memory = anonymous::file("lro-code")?;
    for (start, bytes) in parts(bytes) {
        memory.write_all(&collected(file, from + start, bytes)?)?;
    }
    anonymous::sealed(memory)
}

fn threads() -> usize {
    available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// Where the parts of so many bytes begin, and their sizes.
#[cfg(target_os = "linux")]
fn parts(bytes: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..bytes).step_by(PART_BYTES).map(move |start| (start, (bytes - start).min(PART_BYTES as u64)))
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
        load(engine, &collected(memory, 0, memory.metadata()?.len())?)
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
        let code = Component::new(&engine, COMPONENT).unwrap().serialize().unwrap();
        let bytes = code.len() as u64;
        file.write_all(b"head").unwrap();
        file.write_all(&code).unwrap();
        let mapped = || std::fs::read_to_string("/proc/self/maps").unwrap().contains("/memfd:lro-code");
        let copied = load_sealed(&engine, &sealed(&file, 4, bytes).unwrap(), "/no/such/file".as_ref()).unwrap();
        assert!(!mapped());
        drop(copied);
        let component = Copied::of(&file, 4, bytes).unwrap().load(&engine).unwrap();
        assert!(mapped());
        drop(component);
        let component = Copied::Owned(collected(&file, 4, bytes).unwrap()).load(&engine).unwrap();
        assert!(!mapped());
        drop(component);
    }

    #[test]
    fn a_copy_of_compiled_code_is_sealed_and_whole() {
        let code: Vec<u8> = (0..PART_BYTES * 5 / 2 + 7).map(|place| (place % 251) as u8).collect();
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head").unwrap();
        file.write_all(&code).unwrap();
        let copied = Copied::of(&file, 4, code.len() as u64).unwrap();
        file.write_all(b", grown").unwrap();
        let Copied::Sealed(memory) = &copied else { panic!("{copied:?}") };
        assert_eq!((&*memory).write_all(b"other").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(collected(memory, 0, memory.metadata().unwrap().len()).unwrap(), code);
        assert_eq!(copied.digests().unwrap(), digests(&code).unwrap());
        assert_eq!(copied.digests().unwrap().len(), 3);
    }

    #[test]
    fn a_file_that_shrinks_is_not_copied() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"head and code").unwrap();
        assert_eq!(Copied::of(&file, 5, 9).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
