//! `lro clean`: removes expired offloads and leftovers of dead processes, or all offloads.

use std::time::SystemTime;

use clap::Args;
use lro_gateway::parts;
use lro_gateway::settings::Config;
use lro_host::store::{Removal, Store, Sweep, TIME_TO_LIVE_MAX};

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro clean
  lro clean --dry-run
  lro clean --ttl-seconds 60
  lro clean --all --json";

/// Remove expired offloads and what dead processes left behind
///
/// Keeps files that the store did not write, and offloads that other processes are writing.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Remove all published offloads of all tenants, whatever their age
    #[arg(long)]
    all: bool,
    /// List what would be removed, without removing it
    #[arg(long)]
    dry_run: bool,
    /// Print one line of JSON: {"offloads", "orphans", "bytes", "left"}; with --dry-run an array of {"path", "expired", "bytes"}
    #[arg(long)]
    json: bool,
}

/// Result of a clean.
#[derive(serde::Serialize)]
struct Cleaned {
    /// Number of published offloads removed.
    offloads: u64,
    /// Number of unpublished directories removed.
    orphans: u64,
    /// Disk usage of both, in bytes.
    bytes: u64,
    /// Number of published offloads that remain.
    left: u64,
}

/// A directory that would be removed.
#[derive(serde::Serialize)]
struct Listed {
    path: String,
    /// Whether it is an expired offload; otherwise a dead process left it.
    expired: bool,
    /// Disk usage in bytes.
    bytes: u64,
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    if arguments.dry_run {
        return list(arguments, config);
    }
    let store = Store::open_unswept(parts::store_config(config))?;
    let Sweep { expired: offloads, orphans, bytes } = store.sweep(time(arguments))?;
    lro_gateway::status::remove_dead(&store)?;
    let left = store.usage().offloads;
    if arguments.json {
        output::json(&Cleaned { offloads, orphans, bytes, left })?;
    } else {
        output::text(&format!(
            "removed: offloads {offloads}, orphans {orphans}, bytes {bytes}; left: offloads {left}\n"
        ))?;
    }
    Ok(Exit::Success)
}

fn list(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    let store = Store::open_unswept(parts::store_config(config))?;
    let mut removals = store.removals(time(arguments))?;
    removals.sort_by(|one, other| one.path.cmp(&other.path));
    let listed = removals.into_iter().map(|Removal { path, is_expired: expired, bytes }| Listed {
        path: path.display().to_string(),
        expired,
        bytes,
    });
    let listed: Vec<Listed> = listed.collect();
    if arguments.json {
        output::json(&listed)?;
        return Ok(Exit::Success);
    }
    for Listed { path, expired, bytes } in &listed {
        let kind = if *expired { "offload" } else { "orphan" };
        output::text(&format!("{kind} {path}: {bytes} bytes\n"))?;
    }
    let bytes: u64 = listed.iter().map(|removal| removal.bytes).sum();
    output::text(&format!("to be removed: directories {}, bytes {bytes}\n", listed.len()))?;
    Ok(Exit::Success)
}

/// The time at which what is to be removed has expired: after the maximum time to live, that is all.
fn time(arguments: &Arguments) -> SystemTime {
    let now = SystemTime::now();
    if arguments.all { now + TIME_TO_LIVE_MAX } else { now }
}
