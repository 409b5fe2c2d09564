//! File systems, and what is weaker on them.

use std::io;
use std::path::Path;

/// A file system.
pub(crate) struct FileSystem {
    pub(crate) name: String,
    /// What is weaker on it, and the way out.
    pub(crate) weakness: Option<&'static str>,
}

/// File systems by the number that Linux gives them, and what is weaker on them.
#[cfg(target_os = "linux")]
const KNOWN: [(i64, &str, Option<&str>); 11] = [
    (0xef53, "ext4", None),
    (0x5846_5342, "xfs", None),
    (0x9123_683e, "btrfs", None),
    (0x2fc1_2fc1, "zfs", None),
    (0x794c_7630, "overlay", None),
    (0x0102_1994, "tmpfs", Some("offloads are in memory, and gone when the machine stops")),
    (0x6969, "NFS", Some(REMOTE)),
    (0xff53_4d42, "CIFS", Some(REMOTE)),
    (0xfe53_4d42, "SMB", Some(REMOTE)),
    (0x0102_1997, "9p", Some(REMOTE)),
    (0x6573_5546, "FUSE", Some(REMOTE)),
];

#[cfg(target_os = "linux")]
const REMOTE: &str = "locks and renames may not hold between machines: choose a local disk with --dir";

impl FileSystem {
    /// The file system that a path is on.
    #[cfg(target_os = "linux")]
    pub(crate) fn of(path: &Path) -> io::Result<Option<Self>> {
        let number = rustix::fs::statfs(path)?.f_type;
        let known = KNOWN.iter().find(|(other, ..)| *other == number);
        Ok(Some(match known {
            Some((_, name, weakness)) => Self { name: (*name).to_owned(), weakness: *weakness },
            None => Self { name: format!("file system {number:#x}"), weakness: None },
        }))
    }

    /// Not known: other systems number them otherwise.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn of(_: &Path) -> io::Result<Option<Self>> {
        Ok(None)
    }
}
