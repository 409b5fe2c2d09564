//! The policies of all tenants: where they come from, and how new ones take over.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::io;
use std::path::{self, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};
use std::thread;

use metrics::counter;
use minisign_verify::PublicKey;

use super::kept::Kept;
use super::source::Fingerprint;
use super::{
    DEFAULT_POLICY, Digest, Inner, LoadOptions, Policy, PolicyError, Slot, SlotSettings, Source, Trial, Version,
    identify,
};
use crate::faults::caught;
use crate::sandbox::Sandbox;

/// Counter of the attempts to load a policy, by result.
pub const LOADS: &str = "lro_policy_loads_total";

/// Ending of the name of a policy in a directory of them.
const POLICY_ENDING: &str = "wasm";

/// From so many digests on, those that nobody uses any more are looked for.
const SHARED_MIN: usize = 64;

/// What all tenants have in common.
#[derive(Clone, Debug, Default)]
pub struct RegistrySettings {
    /// How policies are loaded. Pin and keys are those of each tenant.
    pub options: LoadOptions,
    /// The bounds of each tenant's calls.
    pub slot: SlotSettings,
    /// A private directory for the last good policies: a start with a bad one serves the last good one, and
    /// [`Registry::rollback`] works. One process at a time may use it. Without, neither is so.
    pub kept: Option<PathBuf>,
}

/// Where a tenant's policy comes from.
#[derive(Clone, Debug, Default)]
pub struct TenantPolicy {
    /// The component; none is the built-in policy, which needs no signature.
    pub file: Option<PathBuf>,
    /// The only digest that is taken.
    pub pin: Option<Digest>,
    /// The keys one of which has to have signed it; none asks for no signature.
    pub signers: Vec<PublicKey>,
    /// How a new version runs beside the old one before it takes over; none lets it take over at once.
    pub trial: Option<Trial>,
}

/// What came of an attempt to load a policy that is good.
#[derive(Clone, Debug)]
pub enum Loaded {
    /// It took over as this version.
    Swapped(Arc<Version>),
    /// It runs beside the old one.
    OnTrial(Digest),
    /// It serves already.
    Unchanged(Arc<Version>),
}

/// A policy that was refused. What served before goes on serving.
#[derive(Debug, thiserror::Error)]
#[error("tenant `{tenant}`: {error}")]
pub struct Refused {
    /// Whose it would have been.
    pub tenant: String,
    /// Its digest, when it could be read.
    pub digest: Option<Digest>,
    /// The number of the version that serves; none when there is no good one.
    pub serving: Option<u64>,
    /// Why.
    #[source]
    pub error: Box<PolicyError>,
}

/// What came of an attempt to load a policy.
pub type Attempt = Result<Loaded, Refused>;

/// Why a registry could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RegistryError {
    /// A directory cannot be used.
    #[error("cannot use `{path}`")]
    Directory {
        /// The directory.
        path: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// No policy of this digest serves, or was kept.
    #[error("no policy with SHA-256 {0} is known here: load it")]
    UnknownDigest(Digest),
    /// There is no tenant of this name.
    #[error("there is no tenant `{0}`")]
    Unknown(String),
    /// Nothing came before what serves, or it was not kept.
    #[error("there is no earlier policy of tenant `{0}`")]
    NoEarlier(String),
    /// The policy was refused.
    #[error(transparent)]
    Refused(#[from] Refused),
}

/// The policies of all tenants.
///
/// Tenants with the same component share its compiled form. Loading is done by the threads that ask for it, one load of a
/// tenant at a time; calls never wait for it.
#[derive(Debug)]
pub struct Registry {
    sandbox: Sandbox,
    options: LoadOptions,
    slot: SlotSettings,
    kept: Option<Arc<Kept>>,
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
    /// What was read last, or why it could not be. Locked while a policy is loaded.
    seen: Mutex<Option<Result<Fingerprint, String>>>,
}

/// Compiled policies by digest. A cell is locked while its policy is compiled, so that others wait for it.
#[derive(Debug, Default)]
struct Shared {
    policies: HashMap<Digest, Arc<Mutex<Weak<Inner>>>>,
    /// The number of digests at which unused ones are looked for.
    sweep_at: usize,
}

impl Registry {
    /// A registry without tenants.
    ///
    /// # Errors
    /// When the directory for the last good policies cannot be used.
    pub fn new(sandbox: Sandbox, settings: RegistrySettings) -> Result<Self, RegistryError> {
        let RegistrySettings { options, slot, kept } = settings;
        let open = |path: PathBuf| {
            Kept::open(&path).map(Arc::new).map_err(|error| directory_error(&path)(io::Error::other(error)))
        };
        Ok(Self {
            sandbox,
            options,
            slot,
            kept: kept.map(open).transpose()?,
            entries: RwLock::default(),
            directories: RwLock::default(),
            shared: Mutex::default(),
        })
    }

    /// Adds a tenant and loads its policy. When that is refused, the last good one serves, if one was kept. A tenant that is
    /// there already keeps its slot, and from now on gets its policy from elsewhere.
    ///
    /// # Errors
    /// When the policy is refused. The tenant is there in any case.
    pub fn add(&self, tenant: &str, from: TenantPolicy) -> Attempt {
        let entry = self.insert(tenant, from);
        self.start(&entry)
    }

    /// As [`Registry::add`] for many tenants, some of them at the same time. Results are in the order of the names.
    pub fn add_all(&self, tenants: BTreeMap<String, TenantPolicy>) -> Vec<(String, Attempt)> {
        let entries: Vec<_> = tenants.into_iter().map(|(tenant, from)| self.insert(&tenant, from)).collect();
        self.each(&entries, |entry| Some(self.start(entry)))
    }

    /// Adds a tenant for each file `TENANT.wasm` in a directory. [`Watch`](super::Watch) and [`Registry::reload`] add those
    /// that come later. A file that goes away does not take its tenant along: that takes [`Registry::remove`].
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn add_directory(&self, directory: &Path, like: TenantPolicy) -> Result<Vec<(String, Attempt)>, RegistryError> {
        let directory = path::absolute(directory).map_err(directory_error(directory))?;
        let tenants = self.new_tenants(&directory, &like).map_err(directory_error(&directory))?;
        write(&self.directories).insert(directory, like);
        Ok(self.add_all(tenants))
    }

    /// Removes a tenant, and the last good policy that was kept for it. Calls that hold its slot go on. Tells whether there was
    /// one.
    pub fn remove(&self, tenant: &str) -> bool {
        let removed = write(&self.entries).remove(tenant);
        if let Some(entry) = &removed {
            entry.slot.end_trial();
            if let Some(kept) = &self.kept {
                kept.forget(tenant);
            }
        }
        removed.is_some()
    }

    /// What the calls of a tenant go through. It stays the same as long as the tenant is there.
    pub fn slot(&self, tenant: &str) -> Option<Arc<Slot>> {
        read(&self.entries).get(tenant).map(|entry| Arc::clone(&entry.slot))
    }

    /// All tenants and their slots, by name.
    pub fn slots(&self) -> Vec<(String, Arc<Slot>)> {
        read(&self.entries).values().map(|entry| (entry.tenant.clone(), Arc::clone(&entry.slot))).collect()
    }

    /// Reads the policies of all tenants again, and the directories of policies. Results are in the order of the names.
    pub fn reload(&self) -> Vec<(String, Attempt)> {
        let mut results = self.each(&self.all(), |entry| Some(self.read_again(entry)));
        results.extend(self.rescan());
        results
    }

    /// Reads the policy of one tenant again.
    ///
    /// # Errors
    /// When there is no such tenant, or the policy is refused.
    pub fn reload_tenant(&self, tenant: &str) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        Ok(self.read_again(&entry)?)
    }

    /// Loads a policy for a tenant from elsewhere than its file. It serves until another one is loaded. A pin holds for this
    /// load alone, beside that of the tenant.
    ///
    /// # Errors
    /// When there is no such tenant, or the policy is refused.
    pub fn load(&self, tenant: &str, source: &Source, pin: Option<Digest>) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = lock(&entry.seen);
        Ok(self.attempt(&entry, pin, Ok(source.clone()))?)
    }

    /// Puts a policy that is known by its digest in the place of the current one: one that was kept, or that serves another
    /// tenant that takes the same signatures. It serves until the file of the tenant changes, or is loaded again.
    ///
    /// # Errors
    /// When there is no such tenant, no such policy, or it is refused.
    pub fn swap(&self, tenant: &str, digest: &Digest) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = lock(&entry.seen);
        if let Some(kept) = self.kept.as_deref().filter(|kept| kept.path(digest).exists()) {
            return Ok(self.report(&entry, Some(*digest), || self.restore(&entry, kept, digest))?);
        }
        let serves = |other: &Entry| {
            let version = other.slot.current().filter(|version| version.policy.digest() == digest)?;
            (other.from.signers == entry.from.signers).then(|| version.policy.clone())
        };
        let policy = self.all().iter().find_map(|other| serves(other)).ok_or(RegistryError::UnknownDigest(*digest))?;
        let take = || match entry.from.pin.filter(|pin| pin != digest) {
            Some(expected) => Err(PolicyError::Pin { expected, found: *digest }),
            None => Ok(Loaded::Swapped(entry.slot.swap(policy))),
        };
        Ok(self.report(&entry, Some(*digest), take)?)
    }

    /// Puts the policy that served before in the place of the current one. It serves until the file of the tenant changes, or
    /// is loaded again.
    ///
    /// # Errors
    /// When there is no such tenant or no earlier policy, or it is refused now.
    pub fn rollback(&self, tenant: &str) -> Result<Loaded, RegistryError> {
        let entry = self.entry(tenant)?;
        let _loading = lock(&entry.seen);
        let earlier = || Some((self.kept.as_deref()?, self.kept.as_deref()?.record(tenant)?.previous?));
        let (kept, digest) = earlier().ok_or_else(|| RegistryError::NoEarlier(tenant.to_owned()))?;
        Ok(self.report(&entry, Some(digest), || self.restore(&entry, kept, &digest))?)
    }

    /// Every tenant.
    pub(super) fn all(&self) -> Vec<Arc<Entry>> {
        read(&self.entries).values().map(Arc::clone).collect()
    }

    /// The directories of policies.
    pub(super) fn directories(&self) -> Vec<PathBuf> {
        read(&self.directories).keys().cloned().collect()
    }

    /// Loads the policies of these tenants that changed since they were last read, whatever came of it then.
    pub(super) fn refresh(&self, entries: &[Arc<Entry>]) -> Vec<(String, Attempt)> {
        self.each(entries, |entry| {
            let mut loading = lock(&entry.seen);
            let source = self.source(entry);
            let seen = Some(source.as_ref().map(Source::fingerprint).map_err(ToString::to_string));
            if *loading == seen {
                return None;
            }
            *loading = seen;
            Some(self.attempt(entry, None, source))
        })
    }

    /// Adds the tenants of files that came into the directories of policies.
    pub(super) fn rescan(&self) -> Vec<(String, Attempt)> {
        let directories = read(&self.directories).clone();
        let tenants = directories.iter().flat_map(|(directory, like)| {
            self.new_tenants(directory, like).unwrap_or_else(|error| {
                tracing::warn!(%error, path = %directory.display(), "directory of policies not readable");
                BTreeMap::new()
            })
        });
        self.add_all(tenants.collect())
    }

    /// Makes a tenant, or gives one that is there another origin.
    fn insert(&self, tenant: &str, mut from: TenantPolicy) -> Arc<Entry> {
        // What is told of changes names whole paths.
        from.file = from.file.map(|file| path::absolute(&file).unwrap_or(file));
        let mut entries = write(&self.entries);
        let known = entries.get(tenant).map(|entry| Arc::clone(&entry.slot));
        let slot = known.unwrap_or_else(|| Arc::new(Slot::new(None, self.slot)));
        let entry = Arc::new(Entry { tenant: tenant.to_owned(), from, slot, seen: Mutex::default() });
        entries.insert(tenant.to_owned(), Arc::clone(&entry));
        entry
    }

    /// Loads the first policy of a tenant.
    fn start(&self, entry: &Entry) -> Attempt {
        let attempt = self.read_again(entry);
        if attempt.is_err()
            && entry.slot.current().is_none()
            && let Some(kept) = &self.kept
            && let Some(record) = kept.record(&entry.tenant)
        {
            let (tenant, digest) = (&entry.tenant, record.current);
            match self.restore(entry, kept, &digest) {
                Ok(_) => tracing::warn!(tenant, %digest, "the last good policy serves"),
                Err(error) => tracing::error!(tenant, %digest, %error, "the last good policy cannot serve"),
            }
        }
        attempt
    }

    fn read_again(&self, entry: &Entry) -> Attempt {
        let mut loading = lock(&entry.seen);
        let source = self.source(entry);
        *loading = Some(source.as_ref().map(Source::fingerprint).map_err(ToString::to_string));
        self.attempt(entry, None, source)
    }

    fn source(&self, entry: &Entry) -> Result<Source, PolicyError> {
        match &entry.from.file {
            Some(path) => unless_panic(|| Source::read(path, self.options.bytes_max)),
            None => Ok(DEFAULT_POLICY.into()),
        }
    }

    /// Loads a policy, which has to be the pinned one for this time, and tells what came of it.
    fn attempt(&self, entry: &Entry, pin: Option<Digest>, source: Result<Source, PolicyError>) -> Attempt {
        let digest = source.as_ref().ok().map(|source| Digest::of(&source.bytes));
        self.report(entry, digest, || match (pin, digest) {
            (Some(expected), Some(found)) if expected != found => Err(PolicyError::Pin { expected, found }),
            _ => self.take(entry, &source?),
        })
    }

    fn take(&self, entry: &Entry, source: &Source) -> Result<Loaded, PolicyError> {
        let policy = self.policy(&entry.from, source)?;
        let digest = *policy.digest();
        match (entry.slot.current(), entry.from.trial) {
            (Some(version), _) if *version.policy.digest() == digest => {
                // What is on trial is no longer wanted.
                entry.slot.end_trial();
                Ok(Loaded::Unchanged(version))
            }
            (Some(_), Some(trial)) => {
                let (tenant, source, kept) = (entry.tenant.clone(), source.clone(), self.kept.clone());
                let promoted = move |version: &Version| {
                    log_swap(&tenant, version);
                    keep(kept.as_deref(), &tenant, digest, &source);
                };
                let begun = entry.slot.begin_trial_then(policy, trial, promoted);
                begun.map_err(|error| PolicyError::Start(format!("needs a thread for its trial: {error}")))?;
                Ok(Loaded::OnTrial(digest))
            }
            _ => {
                let version = entry.slot.swap(policy);
                keep(self.kept.as_deref(), &entry.tenant, digest, source);
                Ok(Loaded::Swapped(version))
            }
        }
    }

    /// Puts a policy that was kept in the place of the current one.
    fn restore(&self, entry: &Entry, kept: &Kept, digest: &Digest) -> Result<Loaded, PolicyError> {
        let source = Source::read(&kept.path(digest), self.options.bytes_max)?;
        let found = Digest::of(&source.bytes);
        if found != *digest {
            return Err(PolicyError::Pin { expected: *digest, found });
        }
        let version = entry.slot.swap(self.policy(&entry.from, &source)?);
        keep(Some(kept), &entry.tenant, *digest, &source);
        Ok(Loaded::Swapped(version))
    }

    /// A policy that passed every check, with the compiled form of another tenant if there is one.
    fn policy(&self, from: &TenantPolicy, source: &Source) -> Result<Policy, PolicyError> {
        let options = LoadOptions { pin: from.pin, ..self.options.clone() };
        let digest = identify(&source.bytes, &options)?;
        if !from.signers.is_empty() && source.bytes != DEFAULT_POLICY {
            source.check_signature(&from.signers)?;
        }
        let cell = lock(&self.shared).cell(digest);
        let mut compiled = lock(&cell);
        if let Some(inner) = compiled.upgrade() {
            return Ok(Policy { inner });
        }
        let policy = Policy::compile(&self.sandbox, &source.bytes, digest, &options)?;
        *compiled = Arc::downgrade(&policy.inner);
        Ok(policy)
    }

    /// Makes an attempt, counts and logs what came of it. After a panic the policy is refused, and what served before serves.
    fn report(
        &self,
        entry: &Entry,
        digest: Option<Digest>,
        attempt: impl FnOnce() -> Result<Loaded, PolicyError>,
    ) -> Attempt {
        let tenant = &entry.tenant;
        let loaded = unless_panic(attempt);
        let count = |result| counter!(LOADS, "result" => result).increment(1);
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

    /// Does something with each of these tenants, with as many at a time as components are compiled.
    fn each(&self, entries: &[Arc<Entry>], act: impl Fn(&Entry) -> Option<Attempt> + Sync) -> Vec<(String, Attempt)> {
        let (next, results) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
        let work = || {
            while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                if let Some(attempt) = act(entry) {
                    lock(&results).insert(entry.tenant.clone(), attempt);
                }
            }
        };
        let helpers = (self.options.compiler.limits().at_once.get() as usize).min(entries.len()).saturating_sub(1);
        thread::scope(|scope| {
            for _ in 0..helpers {
                // What a thread that the system does not give would do, the others do.
                let _ = thread::Builder::new().name("lro-load".into()).spawn_scoped(scope, work);
            }
            work();
        });
        results.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter().collect()
    }

    fn entry(&self, tenant: &str) -> Result<Arc<Entry>, RegistryError> {
        let entry = read(&self.entries).get(tenant).map(Arc::clone);
        entry.ok_or_else(|| RegistryError::Unknown(tenant.to_owned()))
    }

    /// The tenants of a directory of policies that are not there yet.
    fn new_tenants(&self, directory: &Path, like: &TenantPolicy) -> io::Result<BTreeMap<String, TenantPolicy>> {
        let mut tenants = BTreeMap::new();
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| !name.starts_with('.'));
            let Some(name) = name.filter(|_| path.extension().is_some_and(|ending| ending == POLICY_ENDING)) else {
                continue;
            };
            // Whoever has the policy of all others gets its own, by the same keys as before.
            let from = match read(&self.entries).get(name) {
                Some(entry) if entry.from.file != like.file => continue,
                Some(entry) => entry.from.clone(),
                None => like.clone(),
            };
            tenants.insert(name.to_owned(), TenantPolicy { file: Some(path.clone()), ..from });
        }
        Ok(tenants)
    }
}

impl Shared {
    fn cell(&mut self, digest: Digest) -> Arc<Mutex<Weak<Inner>>> {
        if self.policies.len() >= self.sweep_at.max(SHARED_MIN) {
            let is_used = |cell: &Arc<Mutex<Weak<Inner>>>| Arc::strong_count(cell) > 1 || lock(cell).strong_count() > 0;
            self.policies.retain(|_, cell| is_used(cell));
            self.sweep_at = self.policies.len() * 2;
        }
        Arc::clone(self.policies.entry(digest).or_default())
    }
}

/// Remembers a policy that serves. When that fails, it is only lost for the next start.
fn keep(kept: Option<&Kept>, tenant: &str, digest: Digest, source: &Source) {
    let Some(kept) = kept else { return };
    let error = match caught(|| kept.put(tenant, digest, source)) {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => panic,
    };
    tracing::warn!(tenant, %digest, error, "policy not kept for the next start");
}

/// What a step of a load gives, a panic being one of its refusals.
fn unless_panic<T>(step: impl FnOnce() -> Result<T, PolicyError>) -> Result<T, PolicyError> {
    caught(step).unwrap_or_else(|panic| Err(PolicyError::Panic(panic)))
}

fn log_swap(tenant: &str, version: &Version) {
    tracing::info!(tenant, digest = %version.policy.digest(), version = version.number, "policy loaded");
}

fn directory_error(path: &Path) -> impl FnOnce(io::Error) -> RegistryError {
    let path = path.display().to_string();
    move |source| RegistryError::Directory { path, source }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn read<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
