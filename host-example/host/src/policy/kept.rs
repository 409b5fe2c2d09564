//! The last good policies, so that a start does not depend on the current policy files.
//!
//! `DIGEST.wasm` is a component and `DIGEST.wasm.minisig` its signature; a record for each tenant names the current and
//! the previous digest. Files are replaced atomically, so a killed process leaves either the old or the new one. Only
//! one process at a time may use a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::source::{SIGNATURE_SUFFIX, signature_path};
use super::{Digest, Source};
use crate::faults::fail_point;
use crate::store::StoreError;
use crate::store::directory::Directory;

/// File extension of a component.
const COMPONENT: &str = "wasm";
/// File extension of a record. Its name is the digest of the tenant's, which may be any text.
const RECORD: &str = "json";

/// The policies of a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    tenant: String,
    pub(super) current: Digest,
    pub(super) previous: Option<Digest>,
}

/// A directory of the last good policies.
#[derive(Debug)]
pub(super) struct Kept {
    directory: Directory,
    records: Mutex<BTreeMap<String, Record>>,
}

impl Kept {
    /// Opens a directory, creates it if it is missing, and removes files that no record names.
    pub(super) fn open(directory: &Path) -> Result<Self, StoreError> {
        let directory = Directory::private(directory, true)?;
        let mut records = BTreeMap::new();
        let mut others = Vec::new();
        for name in directory.names()? {
            let path = directory.path.join(name?);
            match path.extension().filter(|ending| *ending == RECORD).and_then(|_| read_record(&path)) {
                Some(record) => drop(records.insert(record.tenant.clone(), record)),
                None => others.push(path),
            }
        }
        let kept = Self { directory, records: Mutex::default() };
        let named: BTreeSet<_> = records.values().flat_map(digests).map(|digest| kept.path(&digest)).collect();
        let is_kept = |path: &Path| named.contains(path) || named.contains(&path.with_extension(""));
        for path in others.iter().filter(|path| !is_kept(path)) {
            remove(path);
        }
        *kept.records.lock() = records;
        Ok(kept)
    }

    /// Path of the component with this digest.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.path.join(component_name(digest))
    }

    /// The last policies of a tenant.
    pub(super) fn record(&self, tenant: &str) -> Option<Record> {
        self.records.lock().get(tenant).cloned()
    }

    /// Records the current policy of a tenant. The record is written last, when its component is already on disk.
    pub(super) fn put(&self, tenant: &str, digest: Digest, source: &Source) -> Result<(), StoreError> {
        fail_point!("policy::keep", |source| StoreError::Io { action: "write", path: self.path(&digest), source });
        let mut records = self.records.lock();
        let old = records.get(tenant).cloned();
        if old.as_ref().is_some_and(|old| old.current == digest) {
            return Ok(());
        }
        let component = component_name(&digest);
        if let Some(signature) = &source.signature {
            self.directory.put(&format!("{component}{SIGNATURE_SUFFIX}"), signature.as_bytes())?;
        }
        if !self.path(&digest).exists() {
            self.directory.put(&component, &source.bytes)?;
        }
        let previous = old.as_ref().map(|old| old.current);
        let record = Record { tenant: tenant.to_owned(), current: digest, previous };
        let (name, path) = (record_name(tenant), self.record_path(tenant));
        let text = serde_json::to_vec(&record).map_err(|source| StoreError::Manifest { path, source })?;
        self.directory.put(&name, &text)?;
        records.insert(tenant.to_owned(), record);
        self.remove_unused(&records, old);
        Ok(())
    }

    /// Removes the record of a tenant.
    pub(super) fn forget(&self, tenant: &str) {
        let mut records = self.records.lock();
        let old = records.remove(tenant);
        remove(&self.record_path(tenant));
        self.remove_unused(&records, old);
    }

    /// Removes the components that only this record named.
    fn remove_unused(&self, records: &BTreeMap<String, Record>, old: Option<Record>) {
        let Some(old) = old else { return };
        let unused = |digest: &Digest| !records.values().any(|record| digests(record).any(|it| it == *digest));
        for path in digests(&old).filter(unused).map(|digest| self.path(&digest)) {
            remove(&path);
            remove(&signature_path(&path));
        }
    }

    fn record_path(&self, tenant: &str) -> PathBuf {
        self.directory.path.join(record_name(tenant))
    }
}

fn component_name(digest: &Digest) -> String {
    format!("{digest}.{COMPONENT}")
}

fn record_name(tenant: &str) -> String {
    format!("{}.{RECORD}", Digest::of(tenant.as_bytes()))
}

fn digests(record: &Record) -> impl Iterator<Item = Digest> + use<> {
    [Some(record.current), record.previous].into_iter().flatten()
}

fn read_record(path: &Path) -> Option<Record> {
    let read = fs::read(path).and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
    read.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "cannot read the record of a policy")).ok()
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "cannot remove a policy file");
    }
}
