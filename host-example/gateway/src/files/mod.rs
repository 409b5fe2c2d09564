//! Files on disk that clients ask about as they ask about large results: a file is offloaded when it is first asked about.
//!
//! Only what lies beneath the given directories, or is a given file, can be reached: paths are resolved relative to open
//! directories, and neither `..` nor a link leads out of them.

mod list;
mod offload;
mod tool;

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::path::{Component, Path, PathBuf, absolute};

use cap_fs_ext::{MetadataExt, OpenOptionsSyncExt};
use cap_std::ambient_authority;
use cap_std::fs::{Dir, Metadata, OpenOptions};
use lro_system::files::{real_path, resolved};
use parking_lot::Mutex;

pub(crate) use self::offload::PruneTime;
pub(crate) use self::tool::{FILES_TOOL, answer, definitions, guidance, with_handles};

/// Default of [`FileLimits::bytes`]: 1 GiB.
pub const SERVED_BYTES_DEFAULT: NonZeroU64 = NonZeroU64::new(1 << 30).unwrap();

/// Default of [`FileLimits::listed`].
pub const LISTED_DEFAULT: u32 = 500;

/// Default of [`FileLimits::depth`].
pub const DEPTH_DEFAULT: u32 = 12;

/// Locks of offloads in progress. Two files may share one: then one of them waits.
const LOCKS: usize = 32;

/// Bounds of the files that can be asked about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileLimits {
    /// Largest file, in bytes.
    pub bytes: NonZeroU64,
    /// Most files in one list.
    pub listed: u32,
    /// How many directories deep a list goes: 0 lists the files of the directory itself.
    pub depth: u32,
    /// Whether files and directories whose names begin with a dot can be asked about.
    pub hidden: bool,
}

impl Default for FileLimits {
    /// The defaults of this module, without hidden files.
    fn default() -> Self {
        Self { bytes: SERVED_BYTES_DEFAULT, listed: LISTED_DEFAULT, depth: DEPTH_DEFAULT, hidden: false }
    }
}

/// Why a directory or file cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FilesError {
    /// It cannot be opened.
    #[error("cannot serve `{path}`")]
    Open {
        /// The path, as it was given.
        path: PathBuf,
        /// The error of the system.
        #[source]
        source: io::Error,
    },
    /// It is neither.
    #[error("cannot serve `{0}`: it is neither a directory nor a regular file")]
    Kind(PathBuf),
}

/// Directories and files that clients may ask about.
#[derive(Debug)]
pub struct Files {
    roots: Vec<Root>,
    /// Directory of the store, with the offloads of all tenants: no file in it can be asked about.
    store: PathBuf,
    limits: FileLimits,
    offloading: [Mutex<()>; LOCKS],
    pruned: PruneTime,
}

/// A directory, or a file in one.
#[derive(Debug)]
struct Root {
    /// What the paths of its files begin with; empty for a directory that is alone.
    name: PathBuf,
    /// Its absolute path as given, and without links.
    paths: [PathBuf; 2],
    directory: Dir,
    /// The only file of the directory that is served.
    file: Option<PathBuf>,
}

/// Why a file cannot be asked about. The model reads it.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FileError {
    #[error("there is no file `{0}`: `{FILES_TOOL}` lists the files")]
    Unknown(String),
    #[error("`{0}` is not beneath the directories that are served: `{FILES_TOOL}` lists the files")]
    Outside(String),
    #[error(
        "`{0}` leads to what is not beneath the directories that are served, or through a link with an absolute path, which is \
         not followed: name the file itself, as `{FILES_TOOL}` lists it"
    )]
    Link(String),
    #[error("`{0}` is hidden: the server shows hidden files if it is started with --hidden")]
    Hidden(String),
    #[error("`{0}` is a directory: `{FILES_TOOL}` lists its files")]
    Directory(String),
    #[error("`{0}` is not a regular file")]
    Kind(String),
    #[error("`{path}` has {bytes} bytes, more than the {limit} that the server reads (--file-bytes)")]
    TooLarge { path: String, bytes: u64, limit: NonZeroU64 },
    #[error("cannot read `{path}`: {source}")]
    Read { path: String, source: io::Error },
    #[error("cannot read `{path}`: {reason}")]
    Refused { path: String, reason: String },
}

/// A path beneath a root, without links.
#[derive(Debug)]
struct Place<'a> {
    root: &'a Root,
    /// Relative to the directory of the root; empty for that itself.
    path: PathBuf,
}

/// An open file.
#[derive(Debug)]
struct OpenFile<'a> {
    place: Place<'a>,
    file: File,
    state: FileState,
}

/// What changes when a file does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Time of the last change, if the file system has one.
    changed: Option<cap_std::time::SystemTime>,
}

impl FileState {
    fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino(), bytes: metadata.len(), changed: metadata.modified().ok() }
    }
}

impl Root {
    fn open(given: &Path) -> Result<Self, FilesError> {
        let failed = |source| FilesError::Open { path: given.to_owned(), source };
        let real = real_path(given).map_err(failed)?;
        let kind = real.metadata().map_err(failed)?;
        let (directory, file) = match (real.parent(), real.file_name()) {
            _ if kind.is_dir() => (real.as_path(), None),
            (Some(parent), Some(name)) if kind.is_file() => (parent, Some(PathBuf::from(name))),
            _ => return Err(FilesError::Kind(given.to_owned())),
        };
        let directory = Dir::open_ambient_dir(directory, ambient_authority()).map_err(failed)?;
        let name = given.components().filter(|part| *part != Component::CurDir).collect();
        Ok(Self { name, paths: [absolute(given).map_err(failed)?, real], directory, file })
    }

    /// The rest of a path that begins at this root.
    fn rest<'p>(&self, path: &'p Path) -> Option<&'p Path> {
        match path.is_absolute() {
            true => self.paths.iter().find_map(|root| path.strip_prefix(root).ok()),
            false => path.strip_prefix(&self.name).ok(),
        }
    }

    /// What models call a file.
    fn shown(&self, path: &Path) -> String {
        let shown = if self.file.is_some() { self.name.clone() } else { self.name.join(path) };
        shown.to_string_lossy().into_owned()
    }
}

impl Files {
    /// Opens directories and files. Nothing is read yet. Models name a file by its path relative to the directory; of several
    /// directories and files, by the path as given here; or by an absolute path. What is in the directory `store` stays out of reach.
    ///
    /// # Errors
    /// [`FilesError`] if one cannot be opened.
    pub fn open(paths: &[PathBuf], limits: FileLimits, store: &Path) -> Result<Self, FilesError> {
        let mut roots = paths.iter().map(|path| Root::open(path)).collect::<Result<Vec<_>, _>>()?;
        if let [root] = roots.as_mut_slice() {
            root.name = root.file.clone().unwrap_or_default();
        }
        let offloading = std::array::from_fn(|_| Mutex::default());
        Ok(Self { roots, store: resolved(store), limits, offloading, pruned: PruneTime::default() })
    }

    /// Finds what a model names.
    fn place(&self, given: &str) -> Result<Place<'_>, FileError> {
        let path = Path::new(given);
        let path = path.strip_prefix(".").unwrap_or(path);
        let mut error = FileError::Outside(given.to_owned());
        for root in &self.roots {
            let Some(rest) = root.rest(path) else { continue };
            match self.place_in(root, rest, given) {
                Ok(place) => return Ok(place),
                Err(failed) => error = failed,
            }
        }
        Err(error)
    }

    fn place_in<'a>(&self, root: &'a Root, rest: &Path, given: &str) -> Result<Place<'a>, FileError> {
        let rest = match (&root.file, rest.as_os_str().is_empty()) {
            (Some(file), true) => file,
            (Some(_), false) => return Err(FileError::Unknown(given.to_owned())),
            (None, true) => return Ok(Place { root, path: PathBuf::new() }),
            (None, false) => rest,
        };
        let path = root.directory.canonicalize(rest).map_err(|error| failure(given, error))?;
        if root.file.is_none() && !self.limits.hidden && path.iter().any(is_hidden) {
            return Err(FileError::Hidden(given.to_owned()));
        }
        if self.is_own(root, &path) {
            return Err(FileError::Outside(given.to_owned()));
        }
        Ok(Place { root, path })
    }

    /// Whether a path, without links, is that of the store, or in it.
    fn is_own(&self, root: &Root, path: &Path) -> bool {
        root.paths[1].join(path).starts_with(&self.store)
    }

    /// Opens the file that a model names.
    fn file(&self, given: &str) -> Result<OpenFile<'_>, FileError> {
        let place = self.place(given)?;
        if place.path.as_os_str().is_empty() {
            return Err(FileError::Directory(given.to_owned()));
        }
        let failed = |error| failure(given, error);
        let metadata = place.root.directory.metadata(&place.path).map_err(failed)?;
        if metadata.is_dir() {
            return Err(FileError::Directory(given.to_owned()));
        }
        // To open a pipe would wait for a writer.
        let options = OpenOptions::new().read(true).nonblock(true).clone();
        let file = place.root.directory.open_with(&place.path, &options).map_err(failed)?;
        let metadata = file.metadata().map_err(failed)?;
        if !metadata.is_file() {
            return Err(FileError::Kind(given.to_owned()));
        }
        let (state, limit) = (FileState::of(&metadata), self.limits.bytes);
        if state.bytes > limit.get() {
            return Err(FileError::TooLarge { path: given.to_owned(), bytes: state.bytes, limit });
        }
        Ok(OpenFile { place, file: file.into_std(), state })
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}

fn failure(given: &str, error: io::Error) -> FileError {
    match error.kind() {
        io::ErrorKind::NotFound => FileError::Unknown(given.to_owned()),
        // The system has no such error: the path leads out, or a link begins at the root of the system.
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => FileError::Link(given.to_owned()),
        _ => FileError::Read { path: given.to_owned(), source: error },
    }
}
