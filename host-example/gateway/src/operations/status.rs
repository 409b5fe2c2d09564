//! Status of the live gateways, for `lro status`.
//!
//! Each gateway keeps one small file, `{dir}/.gateways/{owner}.json`, named by the owner of its open store. Readers
//! skip the files of closed stores, even if the process was killed.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use lro_host::store::{Store, Ulid};
use lro_system::files::private_files;
use serde::{Deserialize, Serialize};

use super::{history, records};
use crate::metrics::{Metrics, Snapshot, ToolDay};
use crate::settings::shown_url;
use crate::upstream::{Launch, Upstream};

/// Directory of the status files, in that of the store.
const DIRECTORY: &str = ".gateways";

/// Extension of a status file.
const EXTENSION: &str = "json";

/// Extension of a status file while it is written.
const UNFINISHED: &str = "new";

/// Maximum number of gateways to read.
const GATEWAYS_MAX: usize = 1_000;

/// Maximum size of a status file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Maximum length of the command or URL of a server, in characters.
const SERVER_CHARACTERS_MAX: usize = 200;

/// Replaces what may be secret, and what is truncated.
const HIDDEN: &str = "…";

/// Parts of the names of arguments whose values may be secret, in lower case.
const SECRETS: [&str; 8] = ["auth", "bearer", "credential", "header", "key", "pass", "secret", "token"];

/// The unchanging facts about a running gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct About {
    /// Id of the process.
    pub pid: u32,
    /// Version of the command.
    pub version: String,
    /// When the gateway started, in milliseconds of Unix time.
    pub started_ms: u64,
    /// Command or URL of the server, without what may be secret.
    pub server: String,
    /// The URL it listens on; `None` on standard input and output.
    pub listen: Option<String>,
    /// The URL of its metrics.
    pub metrics: Option<String>,
}

/// The status of a live gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// The unchanging facts.
    #[serde(flatten)]
    pub about: About,
    /// Name and version of the client that last introduced itself.
    pub client: Option<String>,
    /// The totals so far.
    #[serde(flatten)]
    pub totals: Snapshot,
    /// The counts by day and tool that are not in the [history](super::history) yet.
    #[serde(default)]
    pub days: Vec<ToolDay>,
}

impl About {
    /// Describes this process in front of a server, started now.
    pub fn new(upstream: &Upstream) -> Self {
        Self {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started_ms: now_ms(),
            server: server(upstream),
            listen: None,
            metrics: None,
        }
    }
}

impl Status {
    /// The current status.
    pub(crate) fn of(about: &About, metrics: &Metrics) -> Self {
        Self { about: about.clone(), client: metrics.client(), totals: metrics.snapshot(), days: metrics.days() }
    }

    /// Milliseconds since the gateway started.
    pub fn uptime_ms(&self) -> u64 {
        now_ms().saturating_sub(self.about.started_ms)
    }
}

/// Returns the live gateways that use this store, the oldest first. Invalid files are skipped.
///
/// # Errors
/// If the directory of the files exists and cannot be read.
pub fn live(store: &Store) -> io::Result<Vec<Status>> {
    let mut found = Vec::new();
    for (owner, path) in files(store)? {
        if found.len() < GATEWAYS_MAX && records::has_extension(&path, EXTENSION) && is_live(store, owner) {
            found.extend(read(&path));
        }
    }
    found.sort_by_key(|status: &Status| (status.about.started_ms, status.about.pid));
    Ok(found)
}

/// Removes the status files of gateways that were killed. What they had counted goes to the [history](super::history).
///
/// # Errors
/// If the directory of the files cannot be read, a file cannot be removed, or the history cannot be written.
pub fn remove_dead(store: &Store) -> io::Result<()> {
    for (owner, path) in files(store)? {
        if is_live(store, owner) {
            continue;
        }
        let status = read(&path).filter(|_| records::has_extension(&path, EXTENSION));
        // Of several processes, the one that removes the file adds its counts.
        if records::remove(&path)?
            && let Some(status) = status
        {
            history::append(store, &status.days)?;
        }
    }
    Ok(())
}

/// Writes the status file of this gateway, and removes it on drop.
#[derive(Debug)]
pub(crate) struct Writer {
    file: PathBuf,
    unfinished: PathBuf,
    // While the store is open, the gateway counts as live.
    _store: Store,
}

impl Writer {
    /// Creates the directory, and removes stale files from it.
    pub(crate) fn new(store: &Store) -> io::Result<Self> {
        let owner = store.owner().map_err(io::Error::other)?;
        let directory = directory(store);
        records::create(&directory)?;
        remove_dead(store)?;
        let file = directory.join(owner.to_string());
        Ok(Self {
            unfinished: file.with_extension(UNFINISHED),
            file: file.with_extension(EXTENSION),
            _store: store.clone(),
        })
    }

    /// Replaces the file atomically.
    pub(crate) fn write(&mut self, status: &Status) -> io::Result<()> {
        let text = serde_json::to_vec(status)?;
        private_files().create(true).truncate(true).open(&self.unfinished)?.write_all(&text)?;
        fs::rename(&self.unfinished, &self.file)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        for path in [&self.file, &self.unfinished] {
            if let Err(error) = records::remove(path) {
                tracing::warn!(%error, path = %path.display(), "cannot remove the status file for `lro status`");
            }
        }
    }
}

fn directory(store: &Store) -> PathBuf {
    store.root().join(DIRECTORY)
}

/// The status files of all gateways, live or not.
fn files(store: &Store) -> io::Result<Vec<(Ulid, PathBuf)>> {
    records::files(&directory(store), |owner| owner.parse().ok())
}

fn is_live(store: &Store, owner: Ulid) -> bool {
    store.owner().is_ok_and(|own| own == owner) || store.is_gone(owner).is_ok_and(|gone| !gone)
}

fn read(path: &Path) -> Option<Status> {
    let mut text = Vec::new();
    File::open(path).and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut text)).ok()?;
    serde_json::from_slice(&text)
        .inspect_err(|error| tracing::debug!(%error, path = %path.display(), "invalid status file"))
        .ok()
}

fn now_ms() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(now.as_millis()).unwrap_or(u64::MAX)
}

fn server(upstream: &Upstream) -> String {
    let text = match upstream {
        Upstream::Http(endpoint) => shown_url(endpoint.url().as_str()),
        Upstream::Command(launch) => command(launch),
        Upstream::None => "no server: it reads offloads".to_owned(),
    };
    if text.chars().count() <= SERVER_CHARACTERS_MAX {
        return text;
    }
    text.chars().take(SERVER_CHARACTERS_MAX - 1).chain(HIDDEN.chars()).collect()
}

fn command(launch: &Launch) -> String {
    let program = Path::new(&launch.program).file_name().unwrap_or(&launch.program);
    let mut words = vec![program.to_string_lossy().into_owned()];
    let mut hides_next = false;
    for argument in &launch.arguments {
        let (word, names_secret) = shown(argument);
        let hides = hides_next && !word.starts_with('-');
        words.push(if hides { HIDDEN.to_owned() } else { word });
        hides_next = names_secret;
    }
    words.join(" ")
}

/// An argument with secrets hidden, and whether the next argument is its value and may be secret.
fn shown(argument: &OsString) -> (String, bool) {
    let word = argument.to_string_lossy();
    let is_secret = |name: &str| SECRETS.iter().any(|secret| name.to_lowercase().contains(secret));
    match word.split_once(['=', ':', ' ']) {
        _ if word.contains("://") => (shown_url(&word), false),
        Some((name, _)) if is_secret(name) => (format!("{name}={HIDDEN}"), false),
        None if word.starts_with('-') => (word.to_string(), is_secret(&word)),
        _ => (word.into_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown_command(words: &[&str]) -> String {
        let [program, arguments @ ..] = words else { return String::new() };
        let arguments = arguments.iter().map(OsString::from);
        server(&Upstream::Command(Launch::new(program, arguments)))
    }

    #[test]
    fn a_command_is_shown_without_secrets() {
        let cases: [(&[&str], &str); 7] = [
            (&["/usr/bin/npx", "-y", "@scope/server", "/data"], "npx -y @scope/server /data"),
            (&["server", "--api-key", "hunter2", "--port", "80"], "server --api-key … --port 80"),
            (&["server", "--token=hunter2", "PASSWORD=hunter2"], "server --token=… PASSWORD=…"),
            (&["server", "Authorization: Bearer hunter2"], "server Authorization=…"),
            (&["server", "-H", "Bearer hunter2"], "server -H Bearer=…"),
            (&["server", "https://me:hunter2@host/path?key=hunter2"], "server https://…@host/path?…"),
            (&["server", "--key", "--verbose"], "server --key --verbose"),
        ];
        for (words, expected) in cases {
            assert_eq!(shown_command(words), expected);
        }
        assert_eq!(shown_command(&["server", &"x".repeat(1000)]).chars().count(), SERVER_CHARACTERS_MAX);
    }
}
