//! Files at an offset, and private ones.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use lro_system::files::{
    append_at, cache_directory, is_reserved, open_directory, open_without_waiting, private_directories, private_files,
    read_at, write_all_at,
};
use tempfile::TempDir;

#[test]
fn what_is_read_and_written_at_an_offset_is_there() {
    let directory = TempDir::new().unwrap();
    let file = OpenOptions::new().read(true).write(true).create_new(true).open(directory.path().join("file")).unwrap();
    write_all_at(&file, 0, b"0123456789").unwrap();
    write_all_at(&file, 4, b"....").unwrap();
    let mut bytes = [0; 4];
    assert_eq!((read_at(&file, 2, &mut bytes).unwrap(), bytes), (4, *b"23.."));
    assert_eq!(read_at(&file, 8, &mut bytes).unwrap(), 2);
    assert_eq!(read_at(&file, 10, &mut bytes).unwrap(), 0);
}

#[test]
fn a_vector_is_filled_up_to_its_capacity() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("file");
    fs::write(&path, b"0123456789").unwrap();
    let (file, mut bytes) = (File::open(path).unwrap(), Vec::with_capacity(6));
    bytes.extend_from_slice(b">>");
    let room = bytes.capacity() - bytes.len();
    assert_eq!(append_at(&file, 3, &mut bytes).unwrap(), room.min(7));
    assert!(b">>3456789".starts_with(&bytes[..6]), "{bytes:?}");
    let before = bytes.clone();
    bytes.reserve(1);
    assert_eq!((append_at(&file, 10, &mut bytes).unwrap(), bytes), (0, before));
}

#[test]
fn only_directories_are_opened_as_such() {
    let directory = TempDir::new().unwrap();
    fs::write(directory.path().join("file"), b"").unwrap();
    open_directory(directory.path()).unwrap();
    assert_eq!(open_directory(&directory.path().join("file")).unwrap_err().kind(), ErrorKind::NotADirectory);
    assert_eq!(open_directory(&directory.path().join("absent")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn private_files_and_directories_are_created() {
    let directory = TempDir::new().unwrap();
    let inner = directory.path().join("inner");
    private_directories().create(&inner).unwrap();
    let path = inner.join("file");
    private_files().create_new(true).open(&path).unwrap().write_all(b"secret").unwrap();
    let mut read = String::new();
    open_without_waiting(&path).unwrap().read_to_string(&mut read).unwrap();
    assert_eq!(read, "secret");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o077;
        assert_eq!((mode(&inner), mode(&path)), (0, 0));
    }
}

#[test]
fn a_name_that_is_no_file_of_a_directory_is_reserved() {
    for name in ["NUL", "con.jsonl", "Com1.txt", "a:b", "a\\b", "a."] {
        assert_eq!(is_reserved(name), cfg!(windows), "{name}");
    }
    for name in ["records.jsonl", "console", "com10", "null.txt"] {
        assert!(!is_reserved(name), "{name}");
    }
}

#[test]
fn the_cache_is_where_the_variables_say() {
    let folder = std::env::temp_dir();
    let set = |pairs: &[(&str, &Path)]| {
        let pairs: Vec<(String, OsString)> =
            pairs.iter().map(|(name, path)| ((*name).to_owned(), path.into())).collect();
        cache_directory(|name| pairs.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone()))
    };
    assert_eq!(set(&[("XDG_CACHE_HOME", &folder.join("a")), ("HOME", &folder)]), Some(folder.join("a")));
    assert_eq!(set(&[("XDG_CACHE_HOME", Path::new("relative")), ("HOME", &folder)]), Some(folder.join(".cache")));
    assert_eq!(set(&[]), None);
    let local = set(&[("LOCALAPPDATA", &folder)]);
    assert_eq!(local, cfg!(windows).then_some(folder));
}
