//! What was done with the results of each tool on each day, for `lro status --days`.
//!
//! There is one file for each day, `{dir}/.history/{day}.jsonl`. A gateway appends a line for each tool when the day or the
//! gateway has ended. What a killed one had counted is in its status file, and is appended when that is removed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use lro_host::store::Store;
use lro_system::files::private_files;

use super::records;
use super::status::live;
use crate::metrics::{ToolDay, day_of};

/// Directory of the files, in that of the store.
const DIRECTORY: &str = ".history";

/// Extension of a file.
const EXTENSION: &str = "jsonl";

/// Size beyond which the file of a day takes no more counts: some 100,000 lines.
const FILE_BYTES_MAX: u64 = 16 << 20;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// Appends counts to the files of their days.
///
/// # Errors
/// If the directory or a file cannot be written.
pub fn append(store: &Store, counts: &[ToolDay]) -> io::Result<()> {
    let mut lines: BTreeMap<&str, Vec<u8>> = BTreeMap::new();
    for count in counts {
        let text = lines.entry(&count.day).or_default();
        serde_json::to_writer(&mut *text, count)?;
        text.push(b'\n');
    }
    if lines.is_empty() {
        return Ok(());
    }
    let directory = directory(store);
    records::create(&directory)?;
    for (day, text) in lines {
        // In one write, as other gateways append to the same file.
        let mut file = private_files().append(true).create(true).open(directory.join(day).with_extension(EXTENSION))?;
        if file.metadata()?.len() < FILE_BYTES_MAX {
            file.write_all(&text)?;
        }
    }
    Ok(())
}

/// The counts of the last days, today included, of gateways that have ended and of those that run: the latest day first, and of
/// a day the tools with most tokens saved. Lines that cannot be read are skipped.
///
/// # Errors
/// If a directory or file exists and cannot be read.
pub fn of_days(store: &Store, days: u32) -> io::Result<Vec<ToolDay>> {
    let oldest = oldest_of(days);
    let mut found: BTreeMap<(String, String), ToolDay> = BTreeMap::new();
    let mut count = |one: ToolDay| {
        let key = (one.day.clone(), one.tool.clone());
        found.entry(key).and_modify(|sum| sum.add(&one)).or_insert(one);
    };
    for (day, path) in files(store)? {
        if day >= oldest {
            // A line that names another day is not of this file.
            read(&path)?.into_iter().filter(|one| one.day == day).for_each(&mut count);
        }
    }
    live(store)?.into_iter().flat_map(|status| status.days).filter(|one| one.day >= oldest).for_each(&mut count);
    let mut all: Vec<ToolDay> = found.into_values().collect();
    all.sort_by(|one, other| other.day.cmp(&one.day).then(other.tokens_saved.cmp(&one.tokens_saved)));
    Ok(all)
}

/// Removes the files of earlier days than these last ones.
///
/// # Errors
/// If the directory exists and cannot be read, or a file cannot be removed.
pub(crate) fn remove_before(store: &Store, days: u32) -> io::Result<()> {
    let oldest = oldest_of(days);
    for (_, path) in files(store)?.into_iter().filter(|(day, _)| *day < oldest) {
        records::remove(&path)?;
    }
    Ok(())
}

/// The first of the last days.
fn oldest_of(days: u32) -> String {
    let now = SystemTime::now();
    day_of(now.checked_sub(DAY * days.saturating_sub(1)).unwrap_or(SystemTime::UNIX_EPOCH))
}

fn directory(store: &Store) -> PathBuf {
    store.root().join(DIRECTORY)
}

/// The files, with their days.
fn files(store: &Store) -> io::Result<Vec<(String, PathBuf)>> {
    let mut files = records::files(&directory(store), |day| Some(day.to_owned()))?;
    files.retain(|(_, path)| records::has_extension(path, EXTENSION));
    Ok(files)
}

fn read(path: &Path) -> io::Result<Vec<ToolDay>> {
    let mut text = Vec::new();
    match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        file => file?.take(2 * FILE_BYTES_MAX).read_to_end(&mut text)?,
    };
    Ok(text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect())
}
