//! Imports stand in three groups: the standard library, other crates, this crate. rustfmt sorts within a group, and its own
//! grouping is not stable.

use std::fs;
use std::path::{Path, PathBuf};

use lro_tests::{read, workspace};

/// Folders with sources, and those in them that are installed or built.
const FOLDERS: [&str; 3] = ["guest", "host-example", "tests"];
const FOREIGN: [&str; 2] = ["node_modules", "target"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Standard,
    Others,
    Own,
}

impl Group {
    fn of(import: &str) -> Self {
        let path = import.trim_start_matches("use ").trim_start_matches("::");
        match path.split([':', ';', ' ']).next() {
            Some("std" | "core" | "alloc") => Self::Standard,
            Some("crate" | "self" | "super") => Self::Own,
            _ => Self::Others,
        }
    }
}

/// The first import of a file that is in another group than its neighbours say, or is not parted from another group.
fn misplaced(source: &str) -> Option<&str> {
    let mut before: Option<(Group, bool)> = None;
    let mut is_inside = false;
    for line in source.lines() {
        if is_inside {
            is_inside = !line.contains(';');
        } else if line.starts_with("use ") {
            let group = Group::of(line);
            let is_right = match before {
                Some((last, true)) => last < group,
                Some((last, false)) => last == group,
                None => true,
            };
            if !is_right {
                return Some(line);
            }
            before = Some((group, false));
            is_inside = !line.contains(';');
        } else if line.is_empty() {
            before = before.map(|(last, _)| (last, true));
        } else {
            before = None;
        }
    }
    None
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap()) {
        let path = entry.path();
        if entry.file_type().unwrap().is_dir() {
            if !FOREIGN.iter().any(|name| path.ends_with(name)) {
                sources(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn imports_stand_in_three_groups() {
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&workspace().join(folder), &mut files));
    assert!(files.len() > 300, "{}", files.len());
    let texts = files.iter().map(|file| (file, read(file)));
    let wrong: Vec<String> =
        texts.filter_map(|(file, text)| Some(format!("{}: {}", file.display(), misplaced(&text)?))).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn misplaced_imports_are_found() {
    assert_eq!(
        misplaced("use std::fmt;\n\nuse serde::{\n    Deserialize,\n};\n\nuse crate::a;\nuse super::b;\n"),
        None
    );
    assert_eq!(misplaced("use std::fmt;\nuse serde::Serialize;\n"), Some("use serde::Serialize;"));
    assert_eq!(misplaced("use crate::a;\n\nuse std::fmt;\n"), Some("use std::fmt;"));
    assert_eq!(misplaced("use std::fmt;\n\nuse std::io;\n"), Some("use std::io;"));
    assert_eq!(misplaced("use crate::a;\n\nmod b;\n\nuse std::fmt;\n"), None);
}
