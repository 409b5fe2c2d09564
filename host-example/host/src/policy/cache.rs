//! Compiled policies on disk, so that a second start compiles nothing.
//!
//! Compiled code is run as it is, so whoever can write to the directory could run anything in this process. The directory is
//! made with mode 0700 and refused when another user owns it or may write to it. Each file begins with a code of
//! authentication by a key that lies in the directory too: a process of the same user that cannot see the directory, as a
//! server that is started isolated, cannot make such a file either. What is checked are the very bytes that are loaded.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::Digest;
use crate::faults::fail_point;
use crate::store::StoreError;
use crate::store::directory::Directory;
use crate::store::key::Key;

/// Name of the key in the directory.
const KEY: &str = ".code-key";

/// What the code of authentication covers besides the file, so that it stands for nothing else.
const CONTEXT: &[u8] = b"lro compiled code 1\0";

/// Bytes of the code of authentication, an HMAC-SHA256.
const SEAL_BYTES: usize = 32;

/// Most bytes of a file: as much as a component can take to be compiled by default.
const FILE_BYTES_MAX: u64 = super::COMPILE_MEMORY_BYTES_DEFAULT;

/// A directory of compiled code, keyed by the policy's digest and by everything of the engine that compiled code depends
/// on. A clone shares it with its original.
#[derive(Clone, Debug)]
pub struct CompileCache {
    directory: Arc<Directory>,
    key: Key,
}

impl CompileCache {
    /// Uses a directory, and makes it when it is missing.
    ///
    /// # Errors
    /// [`StoreError::UnsafeRoot`] when it is not ours or others may write to it; [`StoreError::Unexpected`] when its key is
    /// not as it was made.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = Directory::private(&directory.into(), true)?;
        directory.remove_unnamed()?;
        Ok(Self { key: Key::of(&directory, KEY)?, directory: Arc::new(directory) })
    }

    /// The compiled form of a policy, when it is there, was made here, and fits the engine.
    pub(super) fn load(&self, engine: &Engine, digest: &Digest) -> Option<Component> {
        let name = name(engine, digest);
        let loaded = match self.directory.read(&name, FILE_BYTES_MAX) {
            Err(StoreError::NotFound { .. }) => return None,
            Err(error) => Err(error.into()),
            Ok(file) => match self.unsealed(&name, &file) {
                Some(code) => load(engine, code),
                None => Err(wasmtime::Error::msg("it was not written by this user's gateway, or has changed")),
            },
        };
        let path = self.directory.path.join(name);
        loaded.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "compiled policy not usable")).ok()
    }

    /// Keeps a compiled policy. A failure is logged and costs only the next start.
    pub(super) fn store(&self, engine: &Engine, digest: &Digest, component: &Component) {
        let name = name(engine, digest);
        let stored = component.serialize().and_then(|code| {
            let seal = self.seal(&name, &code).finalize().into_bytes();
            Ok(self.directory.put(&name, &[seal.as_slice(), &code].concat())?)
        });
        if let Err(error) = stored {
            let path = self.directory.path.join(name);
            tracing::warn!(error = %format!("{error:#}"), path = %path.display(), "compiled policy not kept");
        }
    }

    /// The code in a file of this name, if the file is as it was written.
    fn unsealed<'a>(&self, name: &str, file: &'a [u8]) -> Option<&'a [u8]> {
        let (seal, code) = file.split_at_checked(SEAL_BYTES)?;
        self.seal(name, code).verify_slice(seal).is_ok().then_some(code)
    }

    fn seal(&self, name: &str, code: &[u8]) -> Hmac<Sha256> {
        // A key shorter than a block counts as if it were filled up with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(self.key.0).for_each(|(to, from)| *to = from);
        let mac = Hmac::<Sha256>::new(&block.into());
        [CONTEXT, name.as_bytes(), b"\0", code].iter().fold(mac, |mac, part| mac.chain_update(part))
    }
}

fn name(engine: &Engine, digest: &Digest) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    format!("{digest}-{:016x}.cwasm", hasher.finish())
}

/// Loads compiled code, which runs as it is: only what this program wrote, see [`CompileCache`] and [`Compiler`](super::Compiler).
pub(super) fn load(engine: &Engine, code: &[u8]) -> wasmtime::Result<Component> {
    fail_point!("policy::load-code", wasmtime::Error::new);
    // SAFETY: callers pass bytes that this program made of compiled code of this version of wasmtime: sealed with the key of
    // the cache, or come from the child of a `Compiler` through memory that has no name.
    #[expect(unsafe_code, reason = "loading compiled code is the purpose of the cache and of the compiling child")]
    unsafe {
        Component::deserialize(engine, code)
    }
}
