//! `lro clean`: removes offloads that have expired, what dead processes left, or everything.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use clap::Args;
use lro_host::settings::Config;
use lro_host::store::{TIME_TO_LIVE_MAX, Ulid};

use crate::exit::Exit;
use crate::{host, output};

const EXAMPLES: &str = "Examples:
  lro clean
  lro clean --ttl-seconds 60
  lro clean --all --json";

/// Remove offloads that have expired, and what processes that ended early left behind
///
/// Files that the store did not write, and what other processes are writing, stay.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Remove every published offload, of all tenants, whatever its age
    #[arg(long)]
    all: bool,
    /// Print one line of JSON: {"offloads", "orphans", "bytes", "left"}
    #[arg(long)]
    json: bool,
}

/// What was removed, and what is left.
#[derive(serde::Serialize)]
struct Cleaned {
    /// Published offloads removed.
    offloads: u64,
    /// Unpublished directories removed.
    orphans: u64,
    /// Bytes of the files in both.
    bytes: u64,
    /// Published offloads that stay.
    left: u64,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    // Opening the store sweeps it, and does not tell what it removed.
    let count = || Holdings::count(&config.dir).with_context(|| format!("cannot read `{}`", config.dir.display()));
    let before = count()?;
    let store = host::store(config)?;
    if arguments.all {
        // After the greatest time to live everything made until now has expired.
        store.sweep(SystemTime::now() + TIME_TO_LIVE_MAX)?;
    }
    let after = count()?;
    let cleaned = Cleaned {
        offloads: before.offloads.saturating_sub(after.offloads),
        orphans: before.orphans.saturating_sub(after.orphans),
        bytes: before.bytes.saturating_sub(after.bytes),
        left: after.offloads,
    };
    if arguments.json {
        output::json(&cleaned)?;
    } else {
        let Cleaned { offloads, orphans, bytes, left } = cleaned;
        output::text(&format!(
            "removed: offloads {offloads}, orphans {orphans}, bytes {bytes}; left: offloads {left}\n"
        ))?;
    }
    Ok(Exit::Success)
}

/// What the directories of the tenants hold.
#[derive(Default)]
struct Holdings {
    offloads: u64,
    orphans: u64,
    bytes: u64,
}

impl Holdings {
    fn count(root: &Path) -> io::Result<Self> {
        let mut holdings = Self::default();
        for (_, tenant) in directories(root)? {
            for (name, path) in directories(&tenant)? {
                if name.parse::<Ulid>().is_ok() {
                    holdings.offloads += 1;
                } else if name.starts_with(".staging-") || name.starts_with(".removing-") {
                    holdings.orphans += 1;
                } else {
                    continue;
                }
                for file in read_directory(&path)? {
                    holdings.bytes += file.metadata().map_or(0, |metadata| metadata.len());
                }
            }
        }
        Ok(holdings)
    }
}

/// Names and paths of the directories in one, links not followed.
fn directories(path: &Path) -> io::Result<Vec<(String, PathBuf)>> {
    let entries = read_directory(path)?.into_iter();
    let directories = entries.filter(|entry| entry.file_type().is_ok_and(|file_type| file_type.is_dir()));
    Ok(directories.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path())).collect())
}

/// What is missing, or goes while it is looked at, is empty.
fn read_directory(path: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        entries => entries?.collect(),
    }
}
