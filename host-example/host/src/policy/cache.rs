//! On-disk cache of compiled policies, so that a restart compiles nothing.
//!
//! Compiled code runs unchecked, so anyone who can write to the directory could run code in this process. The directory
//! is created with mode 0700, and rejected if another user owns it or may write to it. Each file begins with a message
//! authentication code, made with a key in the same directory: a process of the same user that cannot see the
//! directory, such as an isolated server, cannot create a valid file. The bytes that are checked are the bytes that are
//! loaded.
//!
//! The size of the directory is limited: what was used longest ago is removed first.

use std::cmp::Reverse;
use std::fs::{File, Metadata};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use hmac::{Hmac, Mac};
use lro_system::files::read_at;
use sha2::Sha256;
use wasmtime::Engine;
use wasmtime::component::Component;

use super::Digest;
use super::code::{self, Copied};
use crate::store::StoreError;
use crate::store::directory::{Directory, file_bytes};
use crate::store::key::Key;

/// Name of the key file in the directory.
const KEY: &str = ".code-key";

/// Domain separator of the message authentication code.
const CONTEXT: &[u8] = b"lro compiled code 2\0";

/// Size of the message authentication code, an HMAC-SHA256.
const MAC_BYTES: usize = 32;

/// Maximum size of a file, in bytes: the default memory limit of compiling.
const FILE_BYTES_MAX: u64 = super::COMPILE_MEMORY_BYTES_DEFAULT;

/// File extension of compiled code.
const CODE: &str = ".cwasm";

/// Default of [`CompileCache::with_bytes_max`]: 1 GiB, the code of about 300 policies like the default one.
pub const COMPILE_CACHE_BYTES_DEFAULT: u64 = 1 << 30;

/// How exactly a file says when it was last used: a use is recorded only this long after the one before.
const USE_INTERVAL: Duration = Duration::from_secs(3600);

/// A directory of compiled code, keyed by the digest of the policy and the compatibility hash of the engine. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct CompileCache {
    directory: Arc<Directory>,
    key: Key,
    bytes_max: u64,
}

impl CompileCache {
    /// Opens the cache in a directory, and creates the directory if it is missing.
    ///
    /// # Errors
    /// [`StoreError::UnsafeRoot`] when another user owns the directory or may write to it; [`StoreError::Unexpected`]
    /// when its key file is not valid.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = Directory::private(&directory.into(), true)?;
        directory.remove_stale_temporaries()?;
        let key = Key::of(&directory, KEY)?;
        Ok(Self { directory: Arc::new(directory), key, bytes_max: COMPILE_CACHE_BYTES_DEFAULT })
    }

    /// Limits the disk usage of all compiled code, in bytes. When new code exceeds it, code that was used longest ago is
    /// removed, but never the new one. Default: [`COMPILE_CACHE_BYTES_DEFAULT`].
    #[must_use]
    pub fn with_bytes_max(self, bytes_max: u64) -> Self {
        Self { bytes_max, ..self }
    }

    /// Loads the compiled form of a policy, if it is in the cache, authentic, and compatible with the engine.
    pub(super) fn load(&self, engine: &Engine, digest: &Digest) -> Option<Component> {
        let name = name(engine, digest);
        let loaded = match self.directory.file(&name) {
            Err(StoreError::NotFound { .. }) => return None,
            Err(error) => Err(error.into()),
            Ok((file, metadata)) => self.authenticated(&name, &file, &metadata).and_then(|code| {
                record_use(&file, &metadata);
                code.load(engine)
            }),
        };
        let path = self.directory.path.join(name);
        loaded
            .inspect_err(
                |error| tracing::warn!(%error, path = %path.display(), "cannot use a compiled policy of the cache"),
            )
            .ok()
    }

    /// Stores a compiled policy. A failure is only logged: the next start compiles again.
    pub(super) fn store(&self, engine: &Engine, digest: &Digest, component: &Component) {
        let name = name(engine, digest);
        let stored = component.serialize().and_then(|code| {
            let mac = self.mac(&name, &code::digests(&code)?).finalize().into_bytes();
            self.directory.put(&name, &[mac.as_slice(), &code].concat())?;
            Ok(self.make_room(&name)?)
        });
        if let Err(error) = stored {
            let path = self.directory.path.join(name);
            tracing::warn!(error = %format!("{error:#}"), path = %path.display(), "cannot store a compiled policy in the cache");
        }
    }

    /// Removes code that was used longest ago, until all of it is within the limit. Keeps the code called `kept`.
    fn make_room(&self, kept: &str) -> Result<(), StoreError> {
        let mut files = Vec::new();
        for name in self.directory.names()? {
            let Ok(name) = name?.into_string() else { continue };
            // Another process may have removed it.
            let Ok((_, metadata)) = self.directory.file(&name) else { continue };
            if name.ends_with(CODE) {
                files.push((name != kept, Reverse(metadata.modified().ok()), file_bytes(&metadata), name));
            }
        }
        files.sort_unstable();
        let mut bytes = 0_u64;
        for (is_other, _, size, name) in files {
            bytes = bytes.saturating_add(size);
            if is_other && bytes > self.bytes_max {
                self.directory.remove_if_there(&name)?;
            }
        }
        Ok(())
    }

    /// Copies the code in a file, and checks the copy against the authentication code before it.
    fn authenticated(&self, name: &str, file: &File, metadata: &Metadata) -> wasmtime::Result<Copied> {
        wasmtime::ensure!(metadata.len() <= FILE_BYTES_MAX, "it is larger than {FILE_BYTES_MAX} bytes");
        let mut expected = [0; MAC_BYTES];
        let is_whole = read_at(file, 0, &mut expected)? == MAC_BYTES;
        let code = Copied::of(file, MAC_BYTES as u64, metadata.len().saturating_sub(MAC_BYTES as u64))?;
        wasmtime::ensure!(
            is_whole && self.mac(name, &code.digests()?).verify_slice(&expected).is_ok(),
            "it was not written by this user's gateway, or has changed"
        );
        Ok(code)
    }

    /// The authentication code of a file with this name, whose code has these digests.
    fn mac(&self, name: &str, digests: &[[u8; 32]]) -> Hmac<Sha256> {
        // HMAC pads a key shorter than a block with zeros.
        let mut block = [0; 64];
        block.iter_mut().zip(self.key.0).for_each(|(to, from)| *to = from);
        let mac = Hmac::<Sha256>::new(&block.into());
        [CONTEXT, name.as_bytes(), b"\0", digests.as_flattened()].iter().fold(mac, |mac, part| mac.chain_update(part))
    }
}

/// Records that a file was used. A system that does not let it counts from when the file was written.
fn record_use(file: &File, metadata: &Metadata) {
    if metadata.modified().is_ok_and(|used| used.elapsed().is_ok_and(|age| age > USE_INTERVAL)) {
        let _ = file.set_modified(SystemTime::now());
    }
}

fn name(engine: &Engine, digest: &Digest) -> String {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    CONTEXT.hash(&mut hasher);
    format!("{digest}-{:016x}{CODE}", hasher.finish())
}
