//! Compiled policies on disk, so that a second start compiles nothing.
//!
//! Compiled code is run as it is, so whoever can write to the directory can run anything in this process. It is made with
//! mode 0700 and refused when another user owns it or may write to it.

use super::Digest;
use crate::faults::fail_point;
use std::fs::{self, DirBuilder};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use wasmtime::Engine;
use wasmtime::component::Component;

/// A directory of compiled code, keyed by the policy's digest and by everything of the engine that compiled code depends
/// on.
#[derive(Clone, Debug)]
pub struct CompileCache {
    directory: PathBuf,
}

impl CompileCache {
    /// Uses a directory, and makes it when it is missing.
    ///
    /// # Errors
    /// When it cannot be made, is not ours, or others may write to it.
    pub fn open(directory: impl Into<PathBuf>) -> io::Result<Self> {
        let directory = directory.into();
        make_private(&directory)?;
        Ok(Self { directory })
    }

    /// The compiled form of a policy, when it is there and fits the engine.
    pub(super) fn load(&self, engine: &Engine, digest: &Digest) -> Option<Component> {
        let path = self.path(engine, digest);
        if !path.exists() {
            return None;
        }
        let loaded = load(engine, &path);
        loaded.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "compiled policy not usable")).ok()
    }

    /// Keeps a compiled policy. A failure is logged and costs only the next start.
    pub(super) fn store(&self, engine: &Engine, digest: &Digest, component: &Component) {
        let path = self.path(engine, digest);
        if let Err(error) =
            component.serialize().map_err(io::Error::other).and_then(|code| replace(&path, &code, false))
        {
            tracing::warn!(%error, path = %path.display(), "compiled policy not kept");
        }
    }

    fn path(&self, engine: &Engine, digest: &Digest) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        self.directory.join(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }
}

/// Loads compiled code, which runs as it is: from a private directory only, and of a file that this program wrote.
pub(super) fn load(engine: &Engine, path: &Path) -> wasmtime::Result<Component> {
    fail_point!("policy::load-code", wasmtime::Error::new);
    // SAFETY: callers pass a file that this program, as `CompileCache::store` or as the child of a `Compiler`, wrote from
    // compiled code of this version of wasmtime, in a directory that nobody but this user may write to.
    #[expect(unsafe_code, reason = "loading compiled code is the purpose of the cache and of the compiling child")]
    unsafe {
        Component::deserialize_file(engine, path)
    }
}

/// Makes a directory when it is missing, and checks that nobody but this user may write to it.
pub(super) fn make_private(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let metadata = fs::symlink_metadata(directory)?;
    let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
    if !ours || metadata.mode() & 0o022 != 0 {
        let text = format!("{}: must be a directory of this user that nobody else may write to", directory.display());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    }
    Ok(())
}

/// Writes a private file in one step: a reader sees what was there before, or all of the new. A durable one is on the disk
/// before it has its name.
pub(super) fn replace(path: &Path, bytes: &[u8], durable: bool) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| {
            file.write_all(bytes)?;
            fail_point!("policy::replace", std::convert::identity::<io::Error>);
            if durable { file.sync_all() } else { Ok(()) }
        })
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
