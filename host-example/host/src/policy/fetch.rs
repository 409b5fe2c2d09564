//! Policies from elsewhere, such as a registry of components: how a host asks for them, and the last of them on disk.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::{Digest, LoadError, SIGNATURE_BYTES_MAX, Source};
use crate::store::StoreError;
use crate::store::directory::Directory;

/// Number of names whose last component is cached; those fetched longest ago go first.
const NAMES_MAX: usize = 32;

/// Maximum size of a record: a name and a signature, with room for escapes.
const RECORD_BYTES_MAX: u64 = 4 * SIGNATURE_BYTES_MAX;

/// Age from which on a component without a record is not about to get one from another process.
const UNNAMED_AGE: Duration = Duration::from_secs(3600);

/// Which component a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Freshness {
    /// What it stands for now.
    Newest,
    /// What it stood for when it was last fetched, without asking anyone.
    LastFetched,
}

/// Gets the policies of [`Location::Remote`](super::Location::Remote). Clones share it.
#[derive(Clone)]
pub struct Fetch(Arc<Get>);

type Get = dyn Fn(&str, Freshness) -> Result<Source, LoadError> + Send + Sync;

impl Fetch {
    /// Fetches by this function. It may block; it is called on the thread that loads, and by several at the same time.
    pub fn new(get: impl Fn(&str, Freshness) -> Result<Source, LoadError> + Send + Sync + 'static) -> Self {
        Self(Arc::new(get))
    }

    pub(super) fn source(&self, name: &str, freshness: Freshness) -> Result<Source, LoadError> {
        (self.0)(name, freshness)
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Fetch(…)")
    }
}

/// A directory of fetched components by digest, `DIGEST.wasm`, and of what names last stood for. Only this user can
/// write to it. It holds the components of the 32 names fetched last. Processes and clones share it.
#[derive(Clone, Debug)]
pub struct ComponentCache {
    directory: Arc<Directory>,
}

/// What a name last stood for. Its file is called after the digest of the name.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    name: String,
    component: Digest,
    signature: Option<String>,
}

impl ComponentCache {
    /// Opens the cache in a directory, and creates the directory if it is missing.
    ///
    /// # Errors
    /// [`StoreError::UnsafeRoot`] when another user owns the directory or may write to it.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let directory = Directory::private(&directory.into(), true)?;
        directory.remove_stale_temporaries()?;
        Ok(Self { directory: Arc::new(directory) })
    }

    /// The component with this digest, if it is here, unchanged and not larger than `bytes_max`.
    pub fn component(&self, digest: &Digest, bytes_max: u64) -> Option<Vec<u8>> {
        self.read(&component_name(digest), bytes_max).filter(|bytes| Digest::of(bytes) == *digest)
    }

    /// What a name stood for when it was last put here.
    pub fn last(&self, name: &str, bytes_max: u64) -> Option<Source> {
        let record: Record = serde_json::from_slice(&self.read(&record_name(name), RECORD_BYTES_MAX)?).ok()?;
        let is_its = record.name == name;
        let bytes = self.component(&record.component, bytes_max).filter(|_| is_its)?;
        Some(Source { bytes, signature: record.signature })
    }

    /// Records what a name stands for. A failure is only logged: the next start fetches it again.
    pub fn put(&self, name: &str, source: &Source) {
        let stored = self.try_put(name, source).and_then(|()| self.remove_unused());
        if let Err(error) = stored {
            tracing::warn!(error = &error as &dyn std::error::Error, name, "cannot cache a fetched policy");
        }
    }

    fn try_put(&self, name: &str, source: &Source) -> Result<(), StoreError> {
        let component = Digest::of(&source.bytes);
        if self.component(&component, u64::MAX).is_none() {
            self.directory.put(&component_name(&component), &source.bytes)?;
        }
        let record = Record { name: name.to_owned(), component, signature: source.signature.clone() };
        let file = record_name(name);
        let path = self.directory.path.join(&file);
        let text = serde_json::to_vec(&record).map_err(|source| StoreError::Manifest { path, source })?;
        self.directory.put(&file, &text)
    }

    /// Removes the oldest records beyond [`NAMES_MAX`], and components that no record names.
    fn remove_unused(&self) -> Result<(), StoreError> {
        let names = self.directory.names()?.collect::<Result<Vec<OsString>, _>>()?;
        let files: Vec<(String, SystemTime)> = names.iter().filter_map(|name| self.dated(name.to_str()?)).collect();
        let (mut records, components): (Vec<_>, Vec<_>) = files
            .into_iter()
            .filter(|(name, _)| name.ends_with(".json") || name.ends_with(".wasm"))
            .partition(|(name, _)| name.ends_with(".json"));
        records.sort_by_key(|(_, changed)| std::cmp::Reverse(*changed));
        for (name, _) in records.drain(records.len().min(NAMES_MAX)..) {
            self.directory.remove_file(&name)?;
        }
        let read = |name: &str| serde_json::from_slice(&self.read(name, RECORD_BYTES_MAX)?).ok();
        let named: BTreeSet<String> = records
            .iter()
            .filter_map(|(name, _)| read(name))
            .map(|record: Record| component_name(&record.component))
            .collect();
        let is_old = |changed: &SystemTime| changed.elapsed().is_ok_and(|age| age > UNNAMED_AGE);
        for (name, _) in components.iter().filter(|(name, changed)| is_old(changed) && !named.contains(name)) {
            self.directory.remove_file(name)?;
        }
        Ok(())
    }

    /// A file and when it was last changed.
    fn dated(&self, name: &str) -> Option<(String, SystemTime)> {
        let (_, metadata) = self.directory.file(name).ok()?;
        Some((name.to_owned(), metadata.modified().ok()?))
    }

    fn read(&self, file: &str, bytes_max: u64) -> Option<Vec<u8>> {
        match self.directory.read(file, bytes_max) {
            Ok(bytes) => Some(bytes),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => {
                tracing::warn!(error = &error as &dyn std::error::Error, "cannot use a fetched policy of the cache");
                None
            }
        }
    }
}

fn component_name(digest: &Digest) -> String {
    format!("{digest}.wasm")
}

fn record_name(name: &str) -> String {
    format!("{}.json", Digest::of(name.as_bytes()))
}
