//! Directories of the store in which gateways keep files for `lro status`.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use lro_system::files::private_directories;

/// Creates a directory, unless it is there.
pub(super) fn create(directory: &Path) -> io::Result<()> {
    match private_directories().create(directory) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        created => created,
    }
}

/// The files with a name that is understood: their paths and what the name without its extension means. None if the directory
/// is missing.
pub(super) fn files<T>(directory: &Path, meaning: impl Fn(&str) -> Option<T>) -> io::Result<Vec<(T, PathBuf)>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let known = path.file_stem().and_then(|stem| stem.to_str()).and_then(&meaning);
        found.extend(known.map(|known| (known, path)));
    }
    Ok(found)
}

/// Whether a file has this extension.
pub(super) fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// Removes a file, and returns whether it was there.
pub(super) fn remove(path: &Path) -> io::Result<bool> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        removed => removed.map(|()| true),
    }
}
