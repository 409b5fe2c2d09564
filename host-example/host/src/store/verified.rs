//! Remembers verified files, so that they need not be hashed again.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::Digest;

/// Maximum number of verified files that a store remembers. At the limit, it forgets them all.
pub const VERIFIED_FILES_MAX: usize = 4096;

/// Time after which another change of a file is sure to have a later timestamp, whatever the resolution of the file
/// system.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(2);

/// Metadata that identifies a version of a file. Times are those since the beginning of 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: Duration,
    changed: Duration,
}

impl FileState {
    #[cfg(unix)]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;

        let metadata = file.metadata()?;
        let time = |seconds: i64, nanoseconds: i64| {
            Duration::new(u64::try_from(seconds).unwrap_or(0), u32::try_from(nanoseconds).unwrap_or(0))
        };
        Ok(Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: time(metadata.mtime(), metadata.mtime_nsec()),
            changed: time(metadata.ctime(), metadata.ctime_nsec()),
        })
    }

    /// The time at which the content was changed stands for that of any change, which the standard library does not know.
    #[cfg(windows)]
    pub(super) fn of(file: &File) -> io::Result<Self> {
        use cap_fs_ext::MetadataExt;

        let modified = file.metadata()?.modified()?.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let metadata = cap_std::fs::File::from_std(file.try_clone()?).metadata()?;
        let (device, inode, size) = (metadata.dev(), metadata.ino(), metadata.len());
        Ok(Self { device, inode, size, modified, changed: modified })
    }

    /// Whether any change from `now` on would change the metadata.
    pub(super) fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        now.checked_sub(self.changed).is_some_and(|age| age >= CLOCK_STEP_MAX)
    }
}

/// Verified files with their digests.
#[derive(Debug, Default)]
pub(super) struct Verified(Mutex<HashSet<(FileState, Digest)>>);

impl Verified {
    pub(super) fn contains(&self, state: FileState, digest: Digest) -> bool {
        self.0.lock().contains(&(state, digest))
    }

    pub(super) fn insert(&self, state: FileState, digest: Digest) {
        let mut files = self.0.lock();
        if files.len() >= VERIFIED_FILES_MAX {
            files.clear();
        }
        files.insert((state, digest));
    }
}
