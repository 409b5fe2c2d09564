//! Tries to reach what lies outside the preopened directory.
//!
//! The descriptor reports for every attempt whether it succeeded (`"ok"`) or how it was rejected.

use std::collections::BTreeMap;

use crate::bindings::exports::lro::filter::lro_filter::{Descriptor, PolicyError};
use crate::bindings::wasi::filesystem::preopens::get_directories;
use crate::bindings::wasi::filesystem::types::{DescriptorFlags, ErrorCode, OpenFlags, PathFlags};

/// Paths that lead outside, whatever the directory is called. `outside.txt` and `secret.txt` are planted by the test: in
/// the parent directory, in the root of the file system, and behind the links it puts in the way.
const PATHS: [&str; 20] = [
    "..",
    "../",
    "../outside.txt",
    "../../outside.txt",
    "./../outside.txt",
    "sub/../../outside.txt",
    "..//outside.txt",
    "/",
    "/etc/passwd",
    "/etc/passwd/",
    "//etc/passwd",
    "/proc/self/environ",
    "planted-link",
    "planted-link/",
    "planted-directory/secret.txt",
    "planted-directory/../outside.txt",
    "planted-directory/",
    "planted-slash",
    "planted-slash/",
    "planted-slash/secret.txt",
];

pub(crate) fn attempts() -> Result<Descriptor, PolicyError> {
    let Some((directory, _)) = get_directories().into_iter().next() else {
        return Err(PolicyError::Io("no directory is preopened".to_owned()));
    };
    let mut attempts = Vec::new();
    for path in PATHS {
        for (how, links) in [("", PathFlags::empty()), (" following links", PathFlags::SYMLINK_FOLLOW)] {
            let open = |flags, access| directory.open_at(links, path, flags, access).map(drop);
            note(&mut attempts, "read", how, path, open(OpenFlags::empty(), DescriptorFlags::READ));
            note(&mut attempts, "write", how, path, open(OpenFlags::empty(), DescriptorFlags::WRITE));
            note(&mut attempts, "create", how, path, open(OpenFlags::CREATE, DescriptorFlags::WRITE));
            // Not `stat-at`: its answer contains times, which would add an import that no policy gets.
            note(&mut attempts, "examine", how, path, directory.metadata_hash_at(links, path).map(drop));
        }
        note(&mut attempts, "remove", "", path, directory.unlink_file_at(path));
        note(&mut attempts, "make directory", "", path, directory.create_directory_at(path));
        note(&mut attempts, "remove directory", "", path, directory.remove_directory_at(path));
        note(&mut attempts, "rename from", "", path, directory.rename_at(path, &directory, "stolen"));
    }
    let own = directory.open_at(PathFlags::empty(), "own", OpenFlags::CREATE, DescriptorFlags::WRITE);
    let Ok(own) = own else { return Err(PolicyError::Io("the directory cannot be written at all".to_owned())) };
    note(&mut attempts, "rename to", "", "../outside.txt", directory.rename_at("own", &directory, "../outside.txt"));
    note(&mut attempts, "hard link", "", "own", directory.link_at(PathFlags::empty(), "own", &directory, "second"));
    let link = directory.link_at(PathFlags::empty(), "../outside.txt", &directory, "third");
    note(&mut attempts, "hard link", "", "../outside.txt", link);
    note(&mut attempts, "symbolic link", "", "/etc/passwd", directory.symlink_at("/etc/passwd", "evil"));
    note(&mut attempts, "symbolic link", "", "..", directory.symlink_at("..", "up"));
    note(&mut attempts, "symbolic link", "", "own", directory.symlink_at("own", "alias"));
    note(&mut attempts, "make directory", "", "sub", directory.create_directory_at("sub"));
    note(&mut attempts, "read link", "", "planted-link", directory.readlink_at("planted-link").map(drop));
    drop(own);
    directory.unlink_file_at("own").map_err(|code| PolicyError::Io(format!("own: {}", code.name())))?;
    Ok(crate::answer(format!("{{\"attempts\":[{}]}}", attempts.join(",")), Vec::new()))
}

/// Other spellings of the name of an existing file, or of one in its directory.
const SPELLINGS: [&str; 8] = ["./own", "own/", ".//own", "own/.", "./new", "new/", ".", ".."];

pub(crate) fn spellings() -> Result<Descriptor, PolicyError> {
    let Some((directory, _)) = get_directories().into_iter().next() else {
        return Err(PolicyError::Io("no directory is preopened".to_owned()));
    };
    let own = directory.open_at(PathFlags::empty(), "own", OpenFlags::CREATE, DescriptorFlags::WRITE);
    own.map(drop).map_err(|code| PolicyError::Io(format!("own: {}", code.name())))?;
    let mut attempts = Vec::new();
    for path in SPELLINGS {
        let open = |flags, access| directory.open_at(PathFlags::empty(), path, flags, access).map(drop);
        note(&mut attempts, "create", "", path, open(OpenFlags::CREATE, DescriptorFlags::WRITE));
        note(&mut attempts, "write", "", path, open(OpenFlags::empty(), DescriptorFlags::WRITE));
        note(&mut attempts, "read", "", path, open(OpenFlags::empty(), DescriptorFlags::READ));
        note(&mut attempts, "rename to", "", path, directory.rename_at("own", &directory, path));
        note(&mut attempts, "rename from", "", path, directory.rename_at(path, &directory, "own"));
        note(&mut attempts, "remove", "", path, directory.unlink_file_at(path));
    }
    Ok(crate::answer(format!("{{\"attempts\":[{}]}}", attempts.join(",")), vec![crate::file("own", 0)]))
}

/// Opens one name repeatedly while another process replaces it, and reports what it read.
pub(crate) fn swapped(amount: usize) -> Result<Descriptor, PolicyError> {
    let Some((directory, _)) = get_directories().into_iter().next() else {
        return Err(PolicyError::Io("no directory is preopened".to_owned()));
    };
    let mut read = BTreeMap::new();
    for _ in 0..amount {
        for path in ["swapped", "swapped-directory/secret.txt"] {
            let file = directory.open_at(PathFlags::SYMLINK_FOLLOW, path, OpenFlags::empty(), DescriptorFlags::READ);
            let text = file.and_then(|file| file.read(100, 0));
            let text =
                text.map_or_else(|code| code.name().to_owned(), |(text, _)| String::from_utf8_lossy(&text).into());
            *read.entry(text).or_insert(0) += 1;
        }
    }
    Ok(crate::answer(format!("{read:?}"), Vec::new()))
}

/// Names that the contract does not allow, and one of the greatest length that it allows.
pub(crate) fn names() -> Result<Descriptor, PolicyError> {
    let Some((directory, _)) = get_directories().into_iter().next() else {
        return Err(PolicyError::Io("no directory is preopened".to_owned()));
    };
    let own = directory.open_at(PathFlags::empty(), "own", OpenFlags::CREATE, DescriptorFlags::WRITE);
    own.map(drop).map_err(|code| PolicyError::Io(format!("own: {}", code.name())))?;
    let (longest, longer, giant) = ("a".repeat(128), "a".repeat(129), "a".repeat(500_000));
    let unsafe_names =
        ["", " ", ".hidden", "-\n", "a\0b", "a\x1b[31m", "a b", "a:b", "a\\b", "a\u{e9}", "a\u{202e}b", "*"];
    let names = unsafe_names.into_iter().chain([longest.as_str(), longer.as_str(), giant.as_str()]);
    let mut attempts = Vec::new();
    for (index, name) in names.enumerate() {
        let create = directory.open_at(PathFlags::empty(), name, OpenFlags::CREATE, DescriptorFlags::WRITE);
        note(&mut attempts, "create", "", &index.to_string(), create.map(drop));
        let renamed = directory.rename_at("own", &directory, name);
        if renamed.is_ok() {
            let _ = directory.rename_at(name, &directory, "own");
        }
        note(&mut attempts, "rename to", "", &index.to_string(), renamed);
    }
    Ok(crate::answer(format!("{{\"attempts\":[{}]}}", attempts.join(",")), vec![crate::file("own", 0)]))
}

fn note(attempts: &mut Vec<String>, what: &str, how: &str, path: &str, outcome: Result<(), ErrorCode>) {
    let outcome = outcome.map_or_else(|code| code.name(), |()| "ok");
    attempts.push(format!("[\"{what}{how}\",\"{path}\",\"{outcome}\"]"));
}
