//! The policies of all tenants: their sources, and how new ones replace them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::SystemTime;
use std::{fs, io, thread};

use minisign_verify::PublicKey;
use parking_lot::{Mutex, RwLock};

use super::kept::Kept;
use super::{
    Claims, DEFAULT_POLICY, DEFAULT_POLICY_DIGEST, Digest, Fetch, Freshness, Inner, LoadError, LoadOptions, Policy,
    Slot, SlotSettings, Source, Trial, Version, built_in, check_identity,
};
use crate::faults::caught;
use crate::sandbox::Sandbox;

static LOADS: Mutex<BTreeMap<&'static str, u64>> = Mutex::new(BTreeMap::new());

/// Number of attempts of this process to load a policy, by result: `loaded`, `on_trial`, `unchanged` or `refused`.
/// Results that did not occur are missing.
pub fn load_counts() -> BTreeMap<&'static str, u64> {
    LOADS.lock().clone()
}

/// File extension of a policy in a policy directory.
const POLICY_ENDING: &str = "wasm";

/// Number of digests from which on unused ones are removed.
const SHARED_MIN: usize = 64;

/// Settings of a registry, common to all tenants.
#[derive(Clone, Debug, Default)]
pub struct RegistrySettings {
    /// How to load policies. The tenant, its pin and its keys are those of each tenant.
    pub options: LoadOptions,
    /// Limits of each tenant's calls.
    pub slot: SlotSettings,
    /// A private directory for the last good policies, used by one process at a time. It lets a start with a bad policy
    /// serve the last good one, and enables [`Registry::rollback`].
    pub kept: Option<PathBuf>,
    /// Gets policies that are neither built in nor files. Default: `None`, they are refused.
    pub fetch: Option<Fetch>,
}

/// Where a component is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Location {
    /// In this host: the built-in policy, which needs no signature.
    #[default]
    BuiltIn,
    /// A file.
    File(PathBuf),
    /// Elsewhere, by a name that [`RegistrySettings::fetch`] knows. It is read at the start and when a reload is asked
    /// for, and not watched.
    Remote(String),
}

impl Location {
    /// The path of a file.
    pub fn file(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::BuiltIn | Self::Remote(_) => None,
        }
    }
}

/// Conditions of one load, besides those of its tenant.
#[derive(Clone, Copy, Debug, Default)]
pub struct Conditions {
    /// Accept only a component with this digest. Default: `None`.
    pub pin: Option<Digest>,
    /// Accept a component whose signature states an earlier version than the current one has, or none. Default: false.
    pub allow_older: bool,
}

impl Conditions {
    /// Those of a load that goes back on purpose.
    const OLDER: Self = Self { pin: None, allow_older: true };
}

/// The source of a tenant's policy.
#[derive(Clone, Debug, Default)]
pub struct TenantPolicy {
    /// The component.
    pub location: Location,
    /// The only accepted digest.
    pub pin: Option<Digest>,
    /// Keys, one of which must have signed the component. If empty, no signature is required.
    pub signers: Vec<PublicKey>,
    /// Trial that a new version runs before it replaces the old one. `None`: it replaces the old one at once.
    pub trial: Option<Trial>,
}

/// The result of loading an accepted policy.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// It is now the current version.
    Swapped(Arc<Version>),
    /// It is on trial beside the current one.
    OnTrial(Digest),
    /// It is already the current version.
    Unchanged(Arc<Version>),
}

/// A policy was refused. The current one, if any, stays.
#[derive(Debug, thiserror::Error)]
#[error("tenant `{tenant}`: {error}")]
pub struct Refused {
    /// The tenant.
    pub tenant: String,
    /// Digest of the component, if it could be read.
    pub digest: Option<Digest>,
    /// Number of the current version; `None` without a good one.
    pub serving: Option<u64>,
    /// The reason.
    #[source]
    pub error: Box<LoadError>,
}

/// The result of an attempt to load a policy.
pub type Attempt = Result<Loaded, Refused>;

/// An error of a registry.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A directory cannot be used.
    #[error("cannot use `{path}`")]
    Directory {
        /// The directory.
        path: String,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// No current or kept policy has this digest.
    #[error("no policy with SHA-256 {0} is known here: load it first")]
    UnknownDigest(Digest),
    /// The SHA-256 of no current or kept policy begins with these digits.
    #[error("no policy whose SHA-256 begins with {0} is known here: load it first")]
    UnknownBeginning(String),
    /// The SHA-256 of several policies begins with these digits.
    #[error("the SHA-256 of several policies begins with {0}: give more digits")]
    Ambiguous(String),
    /// The tenant does not exist.
    #[error("there is no tenant `{0}`")]
    Unknown(String),
    /// The current policy has no predecessor, or it was not kept.
    #[error("tenant `{0}` has no earlier policy")]
    NoEarlier(String),
    /// No policies are kept: see [`RegistrySettings::kept`].
    #[error("tenant `{0}` has no earlier policy: set policy-keep to keep the last two of each tenant")]
    NotKept(String),
    /// The policy was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The policies of all tenants.
///
/// Tenants with the same component share its compiled form. Loading runs on the calling thread, one load per tenant at
/// a time; calls to policies never wait for it.
#[derive(Debug)]
pub struct Registry {
    sandbox: Sandbox,
    options: LoadOptions,
    slot: SlotSettings,
    kept: Option<Arc<Kept>>,
    fetch: Option<Fetch>,
    entries: RwLock<BTreeMap<String, Arc<Entry>>>,
    directories: RwLock<BTreeMap<PathBuf, TenantPolicy>>,
    shared: Mutex<Shared>,
}

/// A tenant.
#[derive(Debug)]
pub(super) struct Entry {
    tenant: String,
    pub(super) from: TenantPolicy,
    slot: Arc<Slot>,
    /// What was last read, or why it could not be. Locked while a policy is loaded.
    seen: Mutex<Option<Result<Fingerprint, String>>>,
}

/// A source and the digest of its component.
type Identified = (Source, Digest);

/// The digest of a component, and its signature.
type Fingerprint = (Digest, Option<String>);

/// Compiled policies by digest. A cell is locked while its policy is compiled, so that other loads of it wait.
#[derive(Debug, Default)]
struct Shared {
    policies: HashMap<Digest, Arc<Mutex<Weak<Inner>>>>,
    /// Number of digests at which unused ones are next removed.
    sweep_at: usize,
}

impl Registry {
    /// Creates a registry without tenants.
    ///
    /// # Errors
    /// When the directory for the last good policies cannot be used.
    pub fn new(sandbox: Sandbox, settings: RegistrySettings) -> Result<Self, RegistryError> {
        let RegistrySettings { options, slot, kept, fetch } = settings;
        let open = |path: PathBuf| {
            Kept::open(&path).map(Arc::new).map_err(|error| directory_error(&path)(io::Error::other(error)))
        };
        Ok(Self {
            sandbox,
            options,
            slot,
            kept: kept.map(open).transpose()?,
            fetch,
            entries: RwLock::default(),
            directories: RwLock::default(),
            shared: Mutex::default(),
        })
    }

    /// Adds a tenant and loads its policy. If that is refused, the last good one is used, if one was kept, or else the one
    /// that was last fetched. An existing tenant keeps its slot and gets the new source.
    ///
    /// # Errors
    /// When the policy is refused. The tenant is added in any case.
    pub fn add(&self, tenant: &str, from: TenantPolicy) -> Attempt {
        let entry = self.insert(tenant, from);
        self.start(&entry)
    }

    /// As [`Registry::add`], for many tenants in parallel. Results are sorted by tenant.
    pub fn add_all(&self, tenants: BTreeMap<String, TenantPolicy>) -> Vec<(String, Attempt)> {
        let entries: Vec<_> = tenants.into_iter().map(|(tenant, from)| self.insert(&tenant, from)).collect();
        self.each(&entries, |entry| Some(self.start(entry)))
    }

    /// Adds a tenant for each file `TENANT.wasm` in a directory. [`Watch`](super::Watch) and [`Registry::reload`] add
    /// tenants of new files. Deleting a file does not remove its tenant: see [`Registry::remove`].
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn add_directory(&self, directory: &Path, like: TenantPolicy) -> Result<Vec<(String, Attempt)>, RegistryError> {
        let directory = path::absolute(directory).map_err(directory_error(directory))?;
        let tenants = self.new_tenants(&directory, &like).map_err(directory_error(&directory))?;
        self.directories.write().insert(directory, like);
        Ok(self.add_all(tenants))
    }

    /// Removes a tenant and its last good policy. Calls that hold its slot continue. Returns whether the tenant
    /// existed.
    pub fn remove(&self, tenant: &str) -> bool {
        let removed = self.entries.write().remove(tenant);
        if let Some(entry) = &removed {
            entry.slot.end_trial();
            if let Some(kept) = &self.kept {
                kept.forget(tenant);
            }
        }
        removed.is_some()
    }

    /// Returns the slot of a tenant. It stays the same as long as the tenant exists.
    pub fn slot(&self, tenant: &str) -> Option<Arc<Slot>> {
        self.entries.read().get(tenant).map(|entry| Arc::clone(&entry.slot))
    }

    /// Returns all tenants and their slots, sorted by name.
    pub fn slots(&self) -> Vec<(String, Arc<Slot>)> {
        self.entries.read().values().map(|entry| (entry.tenant.clone(), Arc::clone(&entry.slot))).collect()
    }

    /// Reloads the policies of all tenants, and the policy directories. Results are sorted by tenant.
    pub fn reload(&self) -> Vec<(String, Attempt)> {
        let mut results = self.each(&self.all(), |entry| Some(self.read_again(entry, Conditions::default())));
        results.extend(self.rescan());
        results
    }

    /// Reloads the policy of one tenant.
    ///
    /// # Errors
    /// When the tenant does not exist, or the policy is refused.
    pub fn reload_tenant(&self, tenant: &str, conditions: Conditions) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        Ok(self.read_again(&entry, conditions)?)
    }

    /// Loads a policy for a tenant from another source than its own. It stays current until another one is loaded.
    ///
    /// # Errors
    /// When the tenant does not exist, or the policy is refused.
    pub fn load(&self, tenant: &str, source: &Source, conditions: Conditions) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = entry.seen.lock();
        Ok(self.attempt(&entry, conditions, Ok(identified(source.clone())))?)
    }

    /// As [`Registry::load`], from another location than its own.
    ///
    /// # Errors
    /// As [`Registry::load`].
    pub fn load_from(&self, tenant: &str, from: &Location, conditions: Conditions) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = entry.seen.lock();
        Ok(self.attempt(&entry, conditions, self.read(from, Freshness::Newest))?)
    }

    /// Replaces the current policy by a known one with this digest: a kept one, or the current one of another tenant
    /// with the same keys. It stays current until the file of the tenant changes or is reloaded.
    ///
    /// # Errors
    /// When the tenant or the policy does not exist, or the policy is refused.
    pub fn swap(&self, tenant: &str, digest: &Digest, allow_older: bool) -> Result<Loaded, RegistryError> {
        let conditions = Conditions { pin: Some(*digest), allow_older };
        let entry = self.entry(tenant)?;
        let _loading = entry.seen.lock();
        if let Some(kept) = self.kept.as_deref().filter(|kept| kept.path(digest).exists()) {
            return Ok(self.report(&entry, Some(*digest), || self.restore(&entry, kept, digest, conditions))?);
        }
        let serves = |other: &Entry| {
            let version = other.slot.current().filter(|version| version.policy.digest() == digest)?;
            (other.from.signers == entry.from.signers).then(|| version.policy.clone())
        };
        let policy = self.all().iter().find_map(|other| serves(other)).ok_or(RegistryError::UnknownDigest(*digest))?;
        let take = || {
            if let Some(expected) = entry.from.pin.filter(|pin| pin != digest) {
                return Err(LoadError::Pin { expected, found: *digest });
            }
            policy.claims().check(Some(tenant), SystemTime::now())?;
            self.check_age(&entry, &policy, conditions)?;
            Ok(Loaded::Swapped(entry.slot.swap(policy)))
        };
        Ok(self.report(&entry, Some(*digest), take)?)
    }

    /// The SHA-256 that begins with these hexadecimal digits, of the current policies and those that are kept.
    ///
    /// # Errors
    /// [`RegistryError::UnknownBeginning`] and [`RegistryError::Ambiguous`].
    pub fn known_digest(&self, digits: &str) -> Result<Digest, RegistryError> {
        let current = self.all().into_iter().filter_map(|entry| Some(*entry.slot.current()?.policy.digest()));
        let kept = self.kept.as_deref().map(Kept::digests).unwrap_or_default();
        let begins = |digest: &Digest| digest.to_string().starts_with(&digits.to_ascii_lowercase());
        let mut found = current.chain(kept).filter(begins).collect::<BTreeSet<Digest>>().into_iter();
        match (found.next(), found.next()) {
            (Some(digest), None) => Ok(digest),
            (None, _) => Err(RegistryError::UnknownBeginning(digits.to_owned())),
            (Some(_), Some(_)) => Err(RegistryError::Ambiguous(digits.to_owned())),
        }
    }

    /// Replaces the current policy by the previous one, whose version may be earlier. It stays current until the file of the tenant changes or is
    /// reloaded.
    ///
    /// # Errors
    /// When the tenant does not exist or has no earlier policy, or the policy is now refused.
    pub fn rollback(&self, tenant: &str) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = entry.seen.lock();
        let kept = self.kept.as_deref().ok_or_else(|| RegistryError::NotKept(tenant.to_owned()))?;
        let earlier = kept.record(tenant).and_then(|record| record.previous);
        let digest = earlier.ok_or_else(|| RegistryError::NoEarlier(tenant.to_owned()))?;
        Ok(self.report(&entry, Some(digest), || self.restore(&entry, kept, &digest, Conditions::OLDER))?)
    }

    /// Returns all tenants.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        self.entries.read().values().map(Arc::clone).collect()
    }

    /// Returns the policy directories.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        self.directories.read().keys().cloned().collect()
    }

    /// Loads the policies of these tenants whose files have changed since they were last read, accepted or not.
    pub(super) fn refresh(&self, entries: &[Arc<Entry>]) -> Vec<(String, Attempt)> {
        self.each(entries, |entry| {
            entry.from.location.file()?;
            let mut loading = entry.seen.lock();
            let source = self.source(entry);
            let seen = Some(seen(&source));
            if *loading == seen {
                return None;
            }
            *loading = seen;
            Some(self.attempt(entry, Conditions::default(), source))
        })
    }

    /// Adds the tenants of new files in the policy directories.
    pub(super) fn rescan(&self) -> Vec<(String, Attempt)> {
        let directories = self.directories.read().clone();
        let tenants = directories.iter().flat_map(|(directory, like)| {
            self.new_tenants(directory, like).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %directory.display(), "cannot read a policy directory");
                BTreeMap::new()
            })
        });
        self.add_all(tenants.collect())
    }

    /// Adds a tenant, or replaces the source of an existing one.
    fn insert(&self, tenant: &str, mut from: TenantPolicy) -> Arc<Entry> {
        // Change events use absolute paths.
        if let Location::File(file) = &mut from.location
            && let Ok(absolute) = path::absolute(&*file)
        {
            *file = absolute;
        }
        let mut entries = self.entries.write();
        let known = entries.get(tenant).map(|entry| Arc::clone(&entry.slot));
        let slot = known.unwrap_or_else(|| Arc::new(Slot::new(None, self.slot)));
        let entry = Arc::new(Entry { tenant: tenant.to_owned(), from, slot, seen: Mutex::default() });
        entries.insert(tenant.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Loads the first policy of a tenant.
    fn start(&self, entry: &Entry) -> Attempt {
        let attempt = self.read_again(entry, Conditions::default());
        if attempt.is_err() && entry.slot.current().is_none() {
            let tenant = &entry.tenant;
            match unless_panic(|| self.last_good(entry)) {
                Ok(Some(digest)) => tracing::warn!(tenant, %digest, "the last good policy serves"),
                Ok(None) => {}
                Err(error) => tracing::error!(tenant, %error, "cannot serve the last good policy"),
            }
        }
        attempt
    }

    /// Restores the last good policy of a tenant without a current one, if there is one. Returns its digest.
    fn last_good(&self, entry: &Entry) -> Result<Option<Digest>, LoadError> {
        if let Some(kept) = &self.kept
            && let Some(record) = kept.record(&entry.tenant)
        {
            self.restore(entry, kept, &record.current, Conditions::default())?;
            return Ok(Some(record.current));
        }
        if !matches!(entry.from.location, Location::Remote(_)) {
            return Ok(None);
        }
        let (source, digest) = self.read(&entry.from.location, Freshness::LastFetched)?;
        self.take(entry, &source, digest, Conditions::default())?;
        Ok(Some(digest))
    }

    fn read_again(&self, entry: &Entry, conditions: Conditions) -> Attempt {
        let mut loading = entry.seen.lock();
        let source = self.source(entry);
        *loading = Some(seen(&source));
        self.attempt(entry, conditions, source)
    }

    fn source(&self, entry: &Entry) -> Result<Identified, LoadError> {
        self.read(&entry.from.location, Freshness::Newest)
    }

    fn read(&self, location: &Location, freshness: Freshness) -> Result<Identified, LoadError> {
        let source = unless_panic(|| match location {
            Location::BuiltIn => Ok(DEFAULT_POLICY.into()),
            Location::File(path) => Source::read(path, self.options.bytes_max),
            Location::Remote(name) => match &self.fetch {
                Some(fetch) => fetch.source(name, freshness),
                None => {
                    Err(LoadError::Fetch { name: name.clone(), reason: "this host fetches no policies".to_owned() })
                }
            },
        })?;
        Ok(identified(source))
    }

    /// Loads a policy, and reports the result.
    fn attempt(&self, entry: &Entry, conditions: Conditions, source: Result<Identified, LoadError>) -> Attempt {
        let digest = source.as_ref().ok().map(|(_, digest)| *digest);
        self.report(entry, digest, || {
            let (source, found) = source?;
            match conditions.pin {
                Some(expected) if expected != found => Err(LoadError::Pin { expected, found }),
                _ => self.take(entry, &source, found, conditions),
            }
        })
    }

    fn take(
        &self,
        entry: &Entry,
        source: &Source,
        digest: Digest,
        conditions: Conditions,
    ) -> Result<Loaded, LoadError> {
        let policy = self.policy(entry, source, digest)?;
        self.check_age(entry, &policy, conditions)?;
        match (entry.slot.current(), entry.from.trial) {
            (Some(version), _) if *version.policy.digest() == digest => {
                // The file went back to the current policy: its trial is obsolete.
                entry.slot.end_trial();
                if version.policy.claims() == policy.claims() {
                    return Ok(Loaded::Unchanged(version));
                }
                Ok(Loaded::Swapped(self.put(entry, policy, source)))
            }
            (Some(_), Some(trial)) => {
                let (tenant, source, kept) = (entry.tenant.clone(), source.clone(), self.kept.clone());
                let promoted = move |version: &Version| {
                    log_swap(&tenant, version);
                    keep(kept.as_deref(), &tenant, &version.policy, &source);
                };
                let begun = entry.slot.begin_trial_then(policy, trial, promoted);
                begun.map_err(|error| LoadError::Start(format!("cannot start the thread of its trial: {error}")))?;
                Ok(Loaded::OnTrial(digest))
            }
            _ => Ok(Loaded::Swapped(self.put(entry, policy, source))),
        }
    }

    /// Makes a policy the current one, and keeps it.
    fn put(&self, entry: &Entry, policy: Policy, source: &Source) -> Arc<Version> {
        let version = entry.slot.swap(policy);
        keep(self.kept.as_deref(), &entry.tenant, &version.policy, source);
        version
    }

    /// Replaces the current policy by a kept one.
    fn restore(&self, entry: &Entry, kept: &Kept, digest: &Digest, with: Conditions) -> Result<Loaded, LoadError> {
        let source = kept.source(&entry.tenant, digest, self.options.bytes_max)?;
        let policy = self.policy(entry, &source, *digest)?;
        self.check_age(entry, &policy, with)?;
        Ok(Loaded::Swapped(self.put(entry, policy, &source)))
    }

    /// Checks that a signed policy is not older than the current one, or before there is one, than the kept one.
    fn check_age(&self, entry: &Entry, policy: &Policy, conditions: Conditions) -> Result<(), LoadError> {
        // Without keys, nothing vouches for a version; the built-in policy is as old as this host.
        if conditions.allow_older || entry.from.signers.is_empty() || policy.is_default() {
            return Ok(());
        }
        let serving = match entry.slot.current() {
            Some(current) => current.policy.claims().version.clone(),
            None => self.kept.as_ref().and_then(|kept| kept.record(&entry.tenant)?.version),
        };
        let found = policy.claims().version.clone();
        match serving {
            Some(serving) if found.as_ref().is_none_or(|found| *found < serving) => {
                Err(LoadError::Older { found, serving })
            }
            _ => Ok(()),
        }
    }

    /// Checks a policy, and compiles it unless another tenant already has it.
    fn policy(&self, entry: &Entry, source: &Source, digest: Digest) -> Result<Policy, LoadError> {
        let TenantPolicy { pin, signers, .. } = entry.from.clone();
        let options = LoadOptions { pin, signers, tenant: Some(entry.tenant.clone()), ..self.options.clone() };
        check_identity(&source.bytes, &digest, &options)?;
        let needs_none = options.signers.is_empty() || digest == DEFAULT_POLICY_DIGEST;
        let claims = Arc::new(if needs_none { Claims::default() } else { source.check_signature(&options)? });
        let cell = self.shared.lock().cell(digest);
        let mut compiled = cell.lock();
        if let Some(inner) = compiled.upgrade() {
            return Ok(Policy { inner, claims });
        }
        let inner = Inner::compile(&self.sandbox, &source.bytes, digest, &options)?;
        *compiled = Arc::downgrade(&inner);
        Ok(Policy { inner, claims })
    }

    /// Makes an attempt, counts and logs its result. After a panic the policy is refused, and the current one stays.
    fn report(
        &self,
        entry: &Entry,
        digest: Option<Digest>,
        attempt: impl FnOnce() -> Result<Loaded, LoadError>,
    ) -> Attempt {
        let tenant = &entry.tenant;
        let loaded = unless_panic(attempt);
        let count = |result| *LOADS.lock().entry(result).or_default() += 1;
        match &loaded {
            Ok(Loaded::Swapped(version)) => {
                count("loaded");
                log_swap(tenant, version);
            }
            Ok(Loaded::OnTrial(digest)) => {
                count("on_trial");
                tracing::info!(tenant, %digest, "policy on trial");
            }
            Ok(Loaded::Unchanged(_)) => count("unchanged"),
            Err(_) => count("refused"),
        }
        loaded.map_err(|error| {
            let serving = entry.slot.current().map(|version| version.number);
            let digest_shown = digest.map(tracing::field::display);
            tracing::error!(tenant, digest = digest_shown, serving, %error, "policy refused");
            entry.slot.refuse(&error);
            Refused { tenant: tenant.clone(), digest, serving, error: Box::new(error) }
        })
    }

    /// Processes these tenants in parallel, as many at a time as components are compiled.
    fn each(&self, entries: &[Arc<Entry>], act: impl Fn(&Entry) -> Option<Attempt> + Sync) -> Vec<(String, Attempt)> {
        let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let work = || {
            while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(attempt) = act(entry) {
                    results.lock().insert(entry.tenant.clone(), attempt);
                }
            }
        };
        let helpers = (self.options.compiler.limits().at_once.get() as usize).min(entries.len()).saturating_sub(1);
        thread::scope(|scope| {
            for _ in 0..helpers {
                // Without this thread, the others do its work.
                let _ = thread::Builder::new().name("lro-load".into()).spawn_scoped(scope, work);
            }
            work();
        });
        results.into_inner().into_iter().collect()
    }

    fn entry(&self, tenant: &str) -> Result<Arc<Entry>, RegistryError> {
        let entry = self.entries.read().get(tenant).map(Arc::clone);
        entry.ok_or_else(|| RegistryError::Unknown(tenant.to_owned()))
    }

    /// Tenants of a policy directory that are new or still use the shared policy.
    fn new_tenants(&self, directory: &Path, like: &TenantPolicy) -> io::Result<BTreeMap<String, TenantPolicy>> {
        let mut tenants = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
            let Some(name) = name.filter(|_| path.extension().is_some_and(|ending| ending == POLICY_ENDING)) else {
                continue;
            };
            // A tenant with the shared policy gets its own, with the keys it has.
            let from = match self.entries.read().get(name) {
                Some(entry) if entry.from.location != like.location => continue,
                Some(entry) => entry.from.clone(),
                None => like.clone(),
            };
            tenants.insert(name.to_owned(), TenantPolicy { location: Location::File(path.clone()), ..from });
        }
        Ok(tenants)
    }
}

impl Shared {
    fn cell(&mut self, digest: Digest) -> Arc<Mutex<Weak<Inner>>> {
        if self.policies.len() >= self.sweep_at.max(SHARED_MIN) {
            let is_used =
                |cell: &Arc<Mutex<Weak<Inner>>>| Arc::strong_count(cell) > 1 || cell.lock().strong_count() > 0;
            self.policies.retain(|_, cell| is_used(cell));
            self.sweep_at = self.policies.len() * 2;
        }
        Arc::clone(self.policies.entry(digest).or_default())
    }
}

/// Computes the digest, which each step needs of what may be 64 MiB.
fn identified(source: Source) -> Identified {
    let digest = built_in::digest(&source.bytes);
    (source, digest)
}

/// What is compared to know whether a source has changed.
fn seen(source: &Result<Identified, LoadError>) -> Result<Fingerprint, String> {
    source.as_ref().map(|(source, digest)| (*digest, source.signature.clone())).map_err(ToString::to_string)
}

/// Keeps the current policy for the next start. A failure is only logged.
fn keep(kept: Option<&Kept>, tenant: &str, policy: &Policy, source: &Source) {
    let Some(kept) = kept else { return };
    let error = match caught(|| kept.put(tenant, policy, source)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    tracing::warn!(tenant, digest = %policy.digest(), error, "cannot keep the policy for the next start");
}

/// Runs a step of loading, and turns a panic into an error.
fn unless_panic<T>(step: impl FnOnce() -> Result<T, LoadError>) -> Result<T, LoadError> {
    caught(step).unwrap_or_else(|panic| Err(LoadError::Panic(panic)))
}

fn log_swap(tenant: &str, version: &Version) {
    tracing::info!(tenant, digest = %version.policy.digest(), version = version.number, "policy loaded");
}

fn directory_error(path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    let path = path.display().to_string();
    move |source| RegistryError::Directory { path, source }
}
