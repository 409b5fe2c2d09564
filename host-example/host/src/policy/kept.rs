//! The last good policies, so that a start does not depend on what lies where policies come from.
//!
//! `DIGEST.wasm` is a component and `DIGEST.wasm.minisig` its signature; a record for each tenant names the digest that
//! serves and the one before. Everything is written in one step, so a process that is killed leaves the old or the new. A
//! directory belongs to one process at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};

use super::source::{SIGNATURE_SUFFIX, signature_path};
use super::{Digest, Source};
use crate::faults::fail_point;
use crate::store::StoreError;
use crate::store::directory::Directory;

/// Ending of a component's name.
const COMPONENT: &str = "wasm";
/// Ending of a record's name, which begins with the digest of the tenant's: a tenant may have any name.
const RECORD: &str = "json";

/// What serves a tenant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    tenant: String,
    pub(super) current: Digest,
    pub(super) previous: Option<Digest>,
}

/// A directory of policies that were good.
#[derive(Debug)]
pub(super) struct Kept {
    directory: Directory,
    records: Mutex<BTreeMap<String, Record>>,
}

impl Kept {
    /// Uses a directory, makes it when it is missing, and removes what no record names.
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
        *kept.records() = records;
        Ok(kept)
    }

    /// Where the component of this digest lies, if it was kept.
    pub(super) fn path(&self, digest: &Digest) -> PathBuf {
        self.directory.path.join(component_name(digest))
    }

    /// What served a tenant last.
    pub(super) fn record(&self, tenant: &str) -> Option<Record> {
        self.records().get(tenant).cloned()
    }

    /// Notes that a policy serves a tenant from now on. The record comes last: what it names is on the disk by then.
    pub(super) fn put(&self, tenant: &str, digest: Digest, source: &Source) -> Result<(), StoreError> {
        fail_point!("policy::keep", |source| StoreError::Io { action: "write", path: self.path(&digest), source });
        let mut records = self.records();
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

    /// Forgets a tenant.
    pub(super) fn forget(&self, tenant: &str) {
        let mut records = self.records();
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

    fn records(&self) -> MutexGuard<'_, BTreeMap<String, Record>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
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
    read.inspect_err(|error| tracing::warn!(%error, path = %path.display(), "record of a policy not usable")).ok()
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path)
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %path.display(), "file of a policy not removed");
    }
}
