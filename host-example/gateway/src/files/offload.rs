//! Offloads a file that is asked about, once for each of its states.

use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use lro_host::filter::{Decision, Filter, Offloaded, Outcome, Request};
use lro_host::sandbox::types::Abilities;
use lro_host::sandbox::{Part, PartKind, Payload};
use lro_host::store::{Digest, Offload, Store, Ulid};
use lro_system::files::private_directories;
use lro_transport::{Spool, SpoolError};
use serde_json::json;
use tempfile::NamedTempFile;

use super::tool::FILES_TOOL;
use super::{FileError, FileState, Files, LOCKS, OpenFile};
use crate::session::Session;
use crate::settings::{DecisionMode, PolicySettings};

/// Directory in that of the store: for each state of a file, the handle of its offload.
const DIRECTORY: &str = ".files";

/// Bytes to read at a time.
const SLICE_BYTES: usize = 256 << 10;

/// Minimum time between two looks for handles of expired offloads.
const PRUNE_INTERVAL: Duration = Duration::from_secs(600);

/// When handles of expired offloads were last removed, in seconds of Unix time.
#[derive(Debug, Default)]
pub(crate) struct PruneTime(AtomicU64);

impl Files {
    /// The offload of the file that a model names. Blocks while it is written.
    pub(super) fn offload(&self, session: &Session, given: &str) -> Result<Offload, FileError> {
        let refused = |reason: String| FileError::Refused { path: given.to_owned(), reason };
        let file = self.file(given)?;
        let store = session.rules.filter.store.as_ref().map_err(|error| refused(error.for_client()))?;
        let settings = settings(session);
        let key = self.key(session, &file, &settings);
        let lock = usize::from(key.as_bytes().first().copied().unwrap_or_default()) % LOCKS;
        let _turn = self.offloading.get(lock).map(|lock| lock.lock());
        let entry = store.root().join(DIRECTORY).join(key);
        if let Some(known) = known(&entry, store, session.tenant()) {
            return Ok(known);
        }
        let (payload, is_stable) = self.payload(session, given, file)?;
        let decision = decide(session, given, settings, &payload);
        let offloaded = offloaded(decision).map_err(refused)?;
        // What changed meanwhile is written again when it is next asked about.
        if is_stable {
            let kept = keep(&entry, offloaded.offload.id());
            let _ = kept
                .inspect_err(|error| tracing::warn!(%error, "the file will be written again: cannot keep its handle"));
        }
        self.prune(session, store);
        Ok(offloaded.offload)
    }

    /// The offload of a file in its present state, if there is one.
    pub(super) fn known(&self, session: &Session, given: &str) -> Option<Offload> {
        let store = session.rules.filter.store.as_ref().ok()?;
        let key = self.key(session, &self.file(given).ok()?, &settings(session));
        known(&store.root().join(DIRECTORY).join(key), store, session.tenant())
    }

    /// The same for the same state of a file, the same tenant, policy and settings.
    fn key(&self, session: &Session, file: &OpenFile<'_>, settings: &PolicySettings) -> String {
        let place = (&file.place.root.paths[1], &file.place.path, file.state);
        let policy = session.rules.filter.slot.current().map(|version| version.policy.digest().to_string());
        let documents = session.rules.config.gateway_tool(FILES_TOOL).documents;
        let state = format!("{:?}", (env!("CARGO_PKG_VERSION"), session.tenant(), place, policy, settings, documents));
        Digest::of(state.as_bytes()).to_string()
    }

    /// Reads a file, and whether it stayed the same meanwhile. Its bytes are memory, or a map of a copy that nothing can
    /// change.
    fn payload(&self, session: &Session, given: &str, file: OpenFile<'_>) -> Result<(Arc<Payload>, bool), FileError> {
        let OpenFile { place, file: mut source, state } = file;
        let failed = |source| FileError::Read { path: given.to_owned(), source };
        let spooled = |error: SpoolError| FileError::Refused { path: given.to_owned(), reason: error.to_string() };
        let mut spool = Spool::new(Arc::clone(&session.rules.limits));
        let mut slice = vec![0; SLICE_BYTES];
        loop {
            let read = match source.read(&mut slice) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(failed(error)),
            };
            spool.push(slice.get(..read).unwrap_or_default()).map_err(spooled)?;
            if spool.len() > self.limits.bytes.get() {
                let (bytes, limit) = (spool.len(), self.limits.bytes);
                return Err(FileError::TooLarge { path: given.to_owned(), bytes, limit });
            }
        }
        let (bytes, after) = (spool.finish().map_err(spooled)?, state_of(&source).map_err(failed)?);
        let part = Part::text(PartKind::Text, bytes.clone())
            .unwrap_or_else(|_| Part::binary(bytes).with_media_type("application/octet-stream"));
        let part = part.with_name(place.root.shown(&place.path));
        Ok((Arc::new(Payload::new(vec![part])), after == state))
    }

    /// Removes the handles of offloads that have expired, now and then.
    fn prune(&self, session: &Session, store: &Store) {
        let now = SystemTime::now();
        let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let last = self.pruned.0.load(Ordering::Relaxed);
        let is_due = seconds.saturating_sub(last) >= PRUNE_INTERVAL.as_secs();
        if !is_due || self.pruned.0.compare_exchange(last, seconds, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        let config = &session.rules.config;
        let age = config.gateway_tool(FILES_TOOL).time_to_live();
        let age = age.unwrap_or(Duration::from_secs(config.ttl_seconds.get()));
        let is_expired = |entry: &fs::DirEntry| {
            let made = entry.metadata().and_then(|metadata| metadata.modified());
            made.is_ok_and(|made| now.duration_since(made).is_ok_and(|passed| passed > age))
        };
        let entries = fs::read_dir(store.root().join(DIRECTORY)).into_iter().flatten().flatten();
        for entry in entries.filter(is_expired) {
            // Another process may have done so.
            let _ = fs::remove_file(entry.path());
        }
    }
}

fn state_of(file: &File) -> std::io::Result<FileState> {
    let file = cap_std::fs::File::from_std(file.try_clone()?);
    Ok(FileState::of(&file.metadata()?))
}

/// The settings for files: whatever their size, all of them is offloaded.
fn settings(session: &Session) -> PolicySettings {
    PolicySettings {
        mode: DecisionMode::Always,
        inline_keys: Vec::new(),
        inline_limit: 0,
        ..session.rules.config.for_tool(FILES_TOOL)
    }
}

fn decide(session: &Session, given: &str, settings: PolicySettings, payload: &Arc<Payload>) -> Decision {
    let tool_settings = session.rules.config.gateway_tool(FILES_TOOL);
    let request = Request {
        session: session.owner.session.clone(),
        query: Some(json!({ "path": given }).to_string()),
        abilities: Abilities::EXTRACT_TOOL | Abilities::READ_TOOL,
        settings: Arc::new(settings),
        time_to_live: tool_settings.time_to_live(),
        ..Request::new(session.tenant(), FILES_TOOL)
    };
    let filter = Filter { failure: tool_settings.failure, ..session.rules.filter.clone() }
        .for_documents(tool_settings.documents);
    filter.apply(&request, payload)
}

/// What was offloaded, or why it was not.
fn offloaded(decision: Decision) -> Result<Box<Offloaded>, String> {
    let failure = decision.failure.map(|error| error.for_client());
    match decision.outcome {
        Outcome::Offload(offloaded) => Ok(offloaded),
        Outcome::Reject(reason) | Outcome::Fail(reason) => Err(reason),
        Outcome::Pass | Outcome::Truncate { .. } => {
            Err(failure.unwrap_or_else(|| "the policy does not offload it".to_owned()))
        }
    }
}

/// The offload whose handle is kept in this file, unless it has expired.
fn known(entry: &Path, store: &Store, tenant: &str) -> Option<Offload> {
    let id: Ulid = fs::read_to_string(entry).ok()?.parse().ok()?;
    store.find(tenant, id).ok()
}

/// Keeps a handle. Whoever writes last wins: both offloads have the same content.
fn keep(entry: &Path, id: Ulid) -> std::io::Result<()> {
    let directory: PathBuf = entry.parent().unwrap_or(Path::new(".")).to_owned();
    match private_directories().create(&directory) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let mut file = NamedTempFile::new_in(&directory)?;
    file.write_all(id.to_string().as_bytes())?;
    file.persist(entry)?;
    Ok(())
}
