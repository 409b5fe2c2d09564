//! Loads the policies that change on the disk.
//!
//! An event of the file system is a hint only. After it, and after a moment of quiet, the file is read, and loaded when its
//! bytes or its signature are others than those that were read last. Directories are watched, not files, so that a file may
//! be replaced by a rename and a symbolic link by another one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};

use super::registry::{Entry, Registry};
use super::source::signature_path;
use crate::faults::{caught, fail_point};

/// How long nothing may have happened before a file is read: 200 ms.
pub const DEBOUNCE: Duration = Duration::from_millis(200);

/// How long a file that never comes to rest is waited for: 2 s.
pub const DEBOUNCE_MAX: Duration = Duration::from_secs(2);

/// How often directories are looked for that came later, and links that lead elsewhere.
const TICK: Duration = Duration::from_secs(5);

/// Watches the files of a registry as long as it lives.
#[derive(Debug)]
pub struct Watch {
    messages: Sender<Message>,
}

#[derive(Debug)]
enum Message {
    Event(notify::Result<Event>),
    Stop,
}

/// What happened since files were last read.
#[derive(Debug, Default)]
struct Changes {
    paths: BTreeSet<PathBuf>,
    /// Events were lost, so anything may have happened.
    lost: bool,
}

impl Watch {
    /// Begins to watch, on a thread of its own. Tenants may come and go.
    ///
    /// # Errors
    /// When the system does not tell of changes, or gives no thread.
    pub fn start(registry: Arc<Registry>) -> notify::Result<Self> {
        let (messages, incoming) = mpsc::channel();
        let events = messages.clone();
        let watcher = notify::recommended_watcher(move |event| {
            // Fails only when the thread is gone, which ends the watcher too.
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
    // What changed between loading and watching.
    registry.refresh(&registry.all());
    // After a panic, what was to be loaded is looked for at the next step.
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
        |entry: &Entry| entry.from.file.as_deref().and_then(Path::parent).is_some_and(|it| found.contains(it));
    let is_touched = |entry: &Arc<Entry>| changes.touch(entry) || is_found(entry);
    let touched: Vec<_> = registry.all().into_iter().filter(is_touched).collect();
    registry.refresh(&touched);
    registry.rescan();
}

/// What happens until there is a moment of quiet; nothing after a while without events. An error ends the thread.
fn collect(messages: &Receiver<Message>) -> Result<Changes, RecvTimeoutError> {
    let mut changes = Changes::default();
    let mut message = match messages.recv_timeout(TICK) {
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
            // Reading is no change.
            Ok(Event { kind: EventKind::Access(_), .. }) => {}
            Ok(event) => {
                self.lost |= event.need_rescan();
                self.paths.extend(event.paths);
            }
            Err(error) => {
                tracing::warn!(%error, "changes of policies may have been missed");
                self.lost = true;
            }
        }
    }

    /// Whether the policy of a tenant may have changed. What is reached through links may have changed with anything.
    fn touch(&self, entry: &Entry) -> bool {
        let Some(file) = &entry.from.file else { return false };
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
    /// Watches where policies lie now, and nothing else. Tells of the directories that were not watched before.
    fn follow(&mut self, registry: &Registry) -> BTreeSet<PathBuf> {
        let mut wanted: BTreeSet<_> = registry.directories().into_iter().collect();
        for entry in registry.all() {
            let Some(file) = &entry.from.file else { continue };
            wanted.extend(file.parent().map(Path::to_owned));
            wanted.extend(fs::canonicalize(file).ok().and_then(|target| Some(target.parent()?.to_owned())));
        }
        for old in self.watched.difference(&wanted) {
            let _ = self.watcher.unwatch(old);
        }
        self.watched.retain(|old| wanted.contains(old));
        let mut found = BTreeSet::new();
        for new in wanted.difference(&self.watched) {
            match self.watcher.watch(new, RecursiveMode::NonRecursive) {
                Ok(()) => drop(found.insert(new.clone())),
                // Tried again at the next tick.
                Err(error) => tracing::debug!(%error, path = %new.display(), "directory not watched"),
            }
        }
        self.watched.extend(found.iter().cloned());
        found
    }

    /// Gives up directories that something happened to themselves: another one may be in their place.
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
