//! The last good policies, so that a start does not depend on the current policy files.
//!
//! `DIGEST.wasm` is a component; a record for each tenant names the current and the previous digest, with their
//! signatures: two tenants may have the same component, each with another signature. Files are replaced atomically,
//! so a killed process leaves either the old or the new one. Only one process at a time may use a directory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::source::signature_path;
use super::{Digest, LoadError, Policy, SignedVersion, Source};
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
    /// Version of the current one, as its signature states it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) version: Option<SignedVersion>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    signatures: BTreeMap<Digest, String>,
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

    /// Reads a component of at most `bytes_max` bytes, with the signature it has for this tenant, else for another one.
    pub(super) fn source(&self, tenant: &str, digest: &Digest, bytes_max: u64) -> Result<Source, LoadError> {
        let source = Source::read(&self.path(digest), bytes_max)?;
        let found = Digest::of(&source.bytes);
        if found != *digest {
            return Err(LoadError::Pin { expected: *digest, found });
        }
        let records = self.records.lock();
        let mut all = records.get(tenant).into_iter().chain(records.values());
        let signature = all.find_map(|record| record.signatures.get(digest)).cloned();
        Ok(Source { signature: signature.or(source.signature), ..source })
    }

    /// The last policies of a tenant.
    pub(super) fn record(&self, tenant: &str) -> Option<Record> {
        self.records.lock().get(tenant).cloned()
    }

    /// The policies of all tenants.
    pub(super) fn digests(&self) -> Vec<Digest> {
        self.records.lock().values().flat_map(digests).collect()
    }

    /// Records the current policy of a tenant. The record is written last, when its component is already on disk.
    pub(super) fn put(&self, tenant: &str, policy: &Policy, source: &Source) -> Result<(), StoreError> {
        let digest = *policy.digest();
        fail_point!("policy::keep", |source| StoreError::Io { action: "write", path: self.path(&digest), source });
        let mut records = self.records.lock();
        let old = records.get(tenant).cloned();
        if !self.path(&digest).exists() {
            self.directory.put(&component_name(&digest), &source.bytes)?;
        }
        // The same component may be signed anew.
        let previous =
            old.as_ref().and_then(|old| if old.current == digest { old.previous } else { Some(old.current) });
        let mut signatures = old.as_ref().map(|old| old.signatures.clone()).unwrap_or_default();
        signatures.retain(|signed, _| Some(*signed) == previous);
        signatures.extend(source.signature.clone().map(|signature| (digest, signature)));
        let version = policy.claims().version.clone();
        let record = Record { tenant: tenant.to_owned(), current: digest, previous, version, signatures };
        if old.as_ref() == Some(&record) {
            return Ok(());
        }
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
