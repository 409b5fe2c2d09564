//! Remembers verified files, so that they need not be hashed again.

use std::collections::HashSet;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use parking_lot::Mutex;

use super::Digest;

/// Maximum number of verified files that a store remembers. At the limit, it forgets them all.
pub const VERIFIED_FILES_MAX: usize = 4096;

/// Time after which another change of a file is sure to have a later timestamp, whatever the resolution of the file
/// system.
const CLOCK_STEP_MAX: Duration = Duration::from_secs(2);

/// Metadata that identifies a version of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl From<&Metadata> for FileState {
    fn from(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl FileState {
    /// Whether any change from `now` on would change the metadata.
    pub(super) fn is_settled(&self, now: SystemTime) -> bool {
        let now = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let changed =
            Duration::new(u64::try_from(self.changed.0).unwrap_or(0), u32::try_from(self.changed.1).unwrap_or(0));
        now.checked_sub(changed).is_some_and(|age| age >= CLOCK_STEP_MAX)
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
