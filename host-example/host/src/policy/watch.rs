//! Reloads policies that change on disk.
//!
//! File system events are only hints. After an event and a quiet period, the file is read, and loaded if its bytes or
//! its signature have changed. Directories are watched instead of files, so that renames and replaced symbolic links
//! are noticed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};
use std::{fs, thread};

use lro_system::files::real_path;
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::registry::{Entry, Registry};
use super::source::signature_path;
use crate::faults::{caught, fail_point};

/// Quiet period before a changed file is read: 200 ms.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// Maximum time to wait for the quiet period: 2 s.
pub const DEBOUNCE_MAX: Duration = Duration::from_secs(2);

/// How often to look for new directories and changed symbolic links.
const POLL_INTERVAL: Duration = Duration::from_secs(5);

/// Watches the policy files of a registry until it is dropped.
#[derive(Debug)]
pub struct Watch {
    messages: Sender<Message>,
}

#[derive(Debug)]
enum Message {
    Event(notify::Result<Event>),
    Stop,
}

/// Changes since the files were last read.
#[derive(Debug, Default)]
struct Changes {
    paths: BTreeSet<PathBuf>,
    /// Events were lost, so any file may have changed.
    lost: bool,
}

impl Watch {
    /// Starts to watch, on a new thread. Follows tenants that are added and removed.
    ///
    /// # Errors
    /// When the system does not support watching, or the thread cannot be started.
    pub fn start(registry: Arc<Registry>) -> notify::Result<Self> {
        let (messages, incoming) = mpsc::channel();
        let events = messages.clone();
        let watcher = notify::recommended_watcher(move |event| {
            // Fails only after the thread has ended, which ends the watcher too.
            let _ = events.send(Message::Event(event));
        })?;
        let mut directories = Directories { watcher, watched: BTreeSet::new() };
        directories.follow(&registry);
        let thread = thread::Builder::new().name("lro-watch".into());
        thread.spawn(move || run(&registry, &incoming, directories)).map_err(notify::Error::io)?;
        Ok(Self { messages })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.messages.send(Message::Stop);
    }
}

fn run(registry: &Registry, messages: &Receiver<Message>, mut directories: Directories) {
    // Changes between loading and watching.
    registry.refresh(&registry.all());
    // After a panic, the next step checks all files.
    let mut has_failed = false;
    loop {
        let Ok(mut changes) = collect(messages) else { return };
        changes.lost |= has_failed;
        has_failed = caught(|| step(registry, &changes, &mut directories)).is_err();
    }
}

/// Loads what changed.
fn step(registry: &Registry, changes: &Changes, directories: &mut Directories) {
    fail_point!("policy::watch");
    directories.forget(changes);
    let found = directories.follow(registry);
    let is_found =
        |entry: &Entry| entry.from.location.file().and_then(Path::parent).is_some_and(|it| found.contains(it));
    let is_touched = |entry: &Arc<Entry>| changes.touch(entry) || is_found(entry);
    let touched: Vec<_> = registry.all().into_iter().filter(is_touched).collect();
    registry.refresh(&touched);
    registry.rescan();
}

/// Collects changes until the quiet period; returns none after [`POLL_INTERVAL`] without events. An error ends the
/// thread.
fn collect(messages: &Receiver<Message>) -> Result<Changes, RecvTimeoutError> {
    let mut changes = Changes::default();
    let mut message = match messages.recv_timeout(POLL_INTERVAL) {
        Err(RecvTimeoutError::Timeout) => return Ok(changes),
        message => message?,
    };
    let until = Instant::now() + DEBOUNCE_MAX;
    loop {
        match message {
            Message::Stop => return Err(RecvTimeoutError::Disconnected),
            Message::Event(event) => changes.add(event),
        }
        let left = until.saturating_duration_since(Instant::now());
        message = match messages.recv_timeout(DEBOUNCE.min(left)) {
            Err(RecvTimeoutError::Timeout) => return Ok(changes),
            message => message?,
        };
    }
}

impl Changes {
    fn add(&mut self, event: notify::Result<Event>) {
        match event {
            // Reading does not change a file.
            Ok(Event { kind: EventKind::Access(_), .. }) => {}
            Ok(event) => {
                self.lost |= event.need_rescan();
                self.paths.extend(event.paths);
            }
            Err(error) => {
                tracing::warn!(%error, "policy changes may have been missed");
                self.lost = true;
            }
        }
    }

    /// Whether the policy of a tenant may have changed. A symbolic link may have changed with any event.
    fn touch(&self, entry: &Entry) -> bool {
        let Some(file) = entry.from.location.file() else { return false };
        let is_own = || self.paths.contains(file) || self.paths.contains(&signature_path(file));
        self.lost || is_own() || (!self.paths.is_empty() && is_link(file))
    }
}

/// The directories that are watched.
struct Directories {
    watcher: RecommendedWatcher,
    watched: BTreeSet<PathBuf>,
}

impl Directories {
    /// Watches exactly the directories that contain policies now. Returns the newly watched ones.
    fn follow(&mut self, registry: &Registry) -> BTreeSet<PathBuf> {
        let mut wanted: BTreeSet<_> = registry.directories().into_iter().collect();
        for entry in registry.all() {
            let Some(file) = entry.from.location.file() else { continue };
            wanted.extend(file.parent().map(Path::to_owned));
            wanted.extend(real_path(file).ok().and_then(|target| Some(target.parent()?.to_owned())));
        }
        for old in self.watched.difference(&wanted) {
            let _ = self.watcher.unwatch(old);
        }
        self.watched.retain(|old| wanted.contains(old));
        let mut found = BTreeSet::new();
        for new in wanted.difference(&self.watched) {
            match self.watcher.watch(new, RecursiveMode::NonRecursive) {
                Ok(()) => drop(found.insert(new.clone())),
                // Tried again at the next poll.
                Err(error) => tracing::debug!(%error, path = %new.display(), "cannot watch a directory"),
            }
        }
        self.watched.extend(found.iter().cloned());
        found
    }

    /// Stops watching directories that themselves changed: they may have been replaced.
    fn forget(&mut self, changes: &Changes) {
        for gone in self.watched.intersection(&changes.paths) {
            let _ = self.watcher.unwatch(gone);
        }
        self.watched.retain(|directory| !changes.paths.contains(directory));
    }
}

fn is_link(file: &Path) -> bool {
    fs::symlink_metadata(file).is_ok_and(|metadata| metadata.is_symlink())
}
