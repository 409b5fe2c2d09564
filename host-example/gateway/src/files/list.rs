//! Lists files.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use cap_std::fs::DirEntry;
use lro_host::store::rfc3339;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{FileError, Files, Place, Root, is_hidden};
use crate::session::Session;

/// Most directory entries that one list looks at.
const ENTRIES_MAX: usize = 200_000;

/// Files, in the order of their depth and then their names.
#[derive(Debug, Default, Serialize)]
pub(super) struct Listing {
    files: Vec<Listed>,
    /// What to do to see the files that are left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    more: Option<&'static str>,
    /// How many files have names that a question cannot have.
    #[serde(skip_serializing_if = "Option::is_none")]
    left_out: Option<LeftOut>,
}

/// Files that cannot be asked about.
#[derive(Debug, Serialize)]
struct LeftOut {
    files: u64,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
struct Listed {
    file: String,
    bytes: u64,
    /// Time of the last change, RFC 3339 in UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    changed: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handle: Option<String>,
    /// Kind and number of records, of a file that is offloaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    sections: Option<Value>,
}

/// A directory to look into.
struct Pending<'a> {
    root: &'a Root,
    path: PathBuf,
    depth: u32,
}

const NOT_UTF_8: &str = "their paths are not UTF-8, and cannot be asked for: rename them";

const MORE: &str = "there are more files: name a directory in `path`, or a part of their names in `contains`";

impl Files {
    /// Lists the files beneath a directory, or of all roots, whose paths contain a text; in at most so many bytes of JSON.
    pub(super) fn list(
        &self,
        session: &Session,
        path: Option<&str>,
        contains: Option<&str>,
        bytes_max: u32,
    ) -> Result<Listing, FileError> {
        let places = match path {
            Some(path) => vec![self.place(path)?],
            None => self.roots.iter().map(|root| Place { root, path: PathBuf::new() }).collect(),
        };
        let contains = contains.map(str::to_lowercase);
        let (mut listing, mut room, mut entries) = (Listing::default(), bytes_max as usize, 0);
        let mut unnamed = 0;
        let mut add = |root: &Root, path: &Path| {
            if root.file.is_none() && root.name.join(path).to_str().is_none() {
                unnamed += 1;
                return true;
            }
            let shown = root.shown(path);
            if contains.as_ref().is_some_and(|text| !shown.to_lowercase().contains(text.as_str())) {
                return true;
            }
            let Some(listed) = self.listed(session, root, path, shown) else { return true };
            let size = serde_json::to_string(&listed).map_or(0, |json| json.len() + 1);
            if listing.files.len() >= self.limits.listed as usize || size > room {
                listing.more = Some(MORE);
                return false;
            }
            room -= size;
            listing.files.push(listed);
            true
        };
        let mut pending = VecDeque::new();
        for Place { root, path } in places {
            match &root.file {
                Some(file) => drop(add(root, file)),
                None => pending.push_back(Pending { root, path, depth: 0 }),
            }
        }
        'all: while let Some(Pending { root, path, depth }) = pending.pop_front() {
            for (name, is_directory) in self.entries(root, &path, &mut entries) {
                let path = path.join(name);
                if is_directory && depth < self.limits.depth {
                    pending.push_back(Pending { root, path, depth: depth + 1 });
                } else if !is_directory && !add(root, &path) {
                    break 'all;
                }
            }
        }
        listing.left_out = (unnamed > 0).then_some(LeftOut { files: unnamed, reason: NOT_UTF_8 });
        if entries > ENTRIES_MAX {
            listing.more = Some(MORE);
        }
        Ok(listing)
    }

    /// The files and directories in a directory, sorted by name; none if it cannot be read.
    fn entries(&self, root: &Root, path: &Path, seen: &mut usize) -> Vec<(PathBuf, bool)> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let read = root.directory.read_dir(path);
        let read = read.inspect_err(|error| tracing::debug!(%error, path = %path.display(), "cannot list a directory"));
        let mut entries = Vec::new();
        for entry in read.into_iter().flatten().flatten() {
            *seen += 1;
            if *seen > ENTRIES_MAX {
                break;
            }
            let name = entry.file_name();
            if (self.limits.hidden || !is_hidden(&name))
                && !self.is_own(root, &path.join(&name))
                && let Some(is_directory) = is_directory(root, path, &entry)
            {
                entries.push((PathBuf::from(name), is_directory));
            }
        }
        entries.sort_unstable();
        entries
    }

    /// An entry of the list; `None` for what has vanished meanwhile.
    fn listed(&self, session: &Session, root: &Root, path: &Path, shown: String) -> Option<Listed> {
        let metadata = root.directory.metadata(path).ok()?;
        let known = self.known(session, &shown);
        let sections = known.as_ref().map(|offload| {
            let files = offload.record().files.iter();
            let section = |file: &lro_host::store::FileRecord| {
                let about = match file.has_lines() {
                    true => json!({ "kind": file.kind, "records": file.records, "bytes": file.bytes }),
                    false => json!({ "kind": file.kind, "bytes": file.bytes }),
                };
                (file.section.clone(), about)
            };
            Value::Object(files.map(section).collect::<Map<_, _>>())
        });
        Some(Listed {
            file: shown,
            bytes: metadata.len(),
            changed: metadata.modified().ok().map(|changed| rfc3339(changed.into_std())),
            handle: known.map(|offload| offload.id().to_string()),
            sections,
        })
    }
}

/// Whether an entry is a directory; `None` if it is neither that nor a file beneath the root. A link to a directory is not
/// followed: it may lead up.
fn is_directory(root: &Root, directory: &Path, entry: &DirEntry) -> Option<bool> {
    let kind = entry.file_type().ok()?;
    let is_file = kind.is_file()
        || (kind.is_symlink()
            && root.directory.metadata(directory.join(entry.file_name())).is_ok_and(|target| target.is_file()));
    (kind.is_dir() || is_file).then(|| kind.is_dir())
}
