//! Compiled policies on disk, so that a second start compiles nothing.
//!
//! Compiled code is run as it is, so whoever can write to the directory can run anything in this process. It is made with
//! mode 0700 and refused when another user owns it or may write to it.

use super::Digest;
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
        DirBuilder::new().recursive(true).mode(0o700).create(&directory)?;
        let metadata = fs::symlink_metadata(&directory)?;
        let ours = metadata.is_dir() && metadata.uid() == rustix::process::geteuid().as_raw();
        if !ours || metadata.mode() & 0o022 != 0 {
            let text =
                format!("{}: must be a directory of this user that nobody else may write to", directory.display());
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
        }
        Ok(Self { directory })
    }

    /// The compiled form of a policy, when it is there and fits the engine.
    pub(super) fn load(&self, engine: &Engine, digest: &Digest) -> Option<Component> {
        let path = self.path(engine, digest);
        if !path.exists() {
            return None;
        }
        // SAFETY: the file was written by `store` from `Component::serialize`, by rename, into a directory that nobody but
        // this user may write to (checked by `open`).
        #[expect(unsafe_code, reason = "loading compiled code is the purpose of the cache")]
        let loaded = unsafe { Component::deserialize_file(engine, &path) };
        loaded.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "compiled policy not usable")).ok()
    }

    /// Keeps a compiled policy. A failure is logged and costs only the next start.
    pub(super) fn store(&self, engine: &Engine, digest: &Digest, component: &Component) {
        let path = self.path(engine, digest);
        if let Err(error) = component.serialize().map_err(io::Error::other).and_then(|code| replace(&path, &code)) {
            tracing::warn!(%error, path = %path.display(), "compiled policy not kept");
        }
    }

    fn path(&self, engine: &Engine, digest: &Digest) -> PathBuf {
        let mut hasher = DefaultHasher::new();
        engine.precompile_compatibility_hash().hash(&mut hasher);
        self.directory.join(format!("{digest}-{:016x}.cwasm", hasher.finish()))
    }
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", std::process::id()));
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}
