//! What was said in a session before.

use std::fs::{self, File, OpenOptions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, io};

use lro_system::files::cache_directory;

/// Age at which a stamp is removed. A session that fails for longer says so again.
const STAMP_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Whether nothing was said in this session yet. Without a place for stamps, every failure is the first.
pub(super) fn is_first(agent: &str, session: &str) -> bool {
    let mut hasher = DefaultHasher::new();
    (agent, session).hash(&mut hasher);
    let name = format!("{:016x}", hasher.finish());
    for folder in folders() {
        match stamped(&folder, &name) {
            Ok(_) => return true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return false,
            Err(_) => {}
        }
    }
    true
}

/// Beside the default store; where nothing can be written, among temporary files.
fn folders() -> impl Iterator<Item = PathBuf> {
    let cache = cache_directory(|name| env::var_os(name));
    cache.into_iter().chain([env::temp_dir()]).map(|folder| folder.join("lro-filter-hooks"))
}

fn stamped(folder: &Path, name: &str) -> io::Result<File> {
    fs::create_dir_all(folder)?;
    let stamp = OpenOptions::new().write(true).create_new(true).open(folder.join(name))?;
    for entry in fs::read_dir(folder)?.flatten() {
        let age = entry.metadata().and_then(|metadata| metadata.modified()).ok().and_then(|time| time.elapsed().ok());
        if age.is_some_and(|age| age > STAMP_AGE_MAX) {
            drop(fs::remove_file(entry.path()));
        }
    }
    Ok(stamp)
}
