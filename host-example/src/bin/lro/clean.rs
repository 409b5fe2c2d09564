//! `lro clean`: removes offloads that have expired, what dead processes left, or everything.

use std::time::SystemTime;

use clap::Args;
use lro_host::settings::Config;
use lro_host::store::{Store, Sweep, TIME_TO_LIVE_MAX};

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
    let store = Store::open(host::store_config(config))?;
    let mut swept = store.opening_sweep();
    if arguments.all {
        // After the greatest time to live everything made until now has expired.
        let all = store.sweep(SystemTime::now() + TIME_TO_LIVE_MAX)?;
        swept.expired += all.expired;
        swept.orphans += all.orphans;
        swept.bytes += all.bytes;
    }
    let Sweep { expired: offloads, orphans, bytes } = swept;
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
