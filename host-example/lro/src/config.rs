//! `lro config`: the effective settings and the origin of each.

use clap::Args;
use lro_gateway::settings::{self, Config};
use serde_json::value::RawValue;

use crate::exit::Exit;
use crate::output;

const EXAMPLES: &str = "Examples:
  lro config
  MCP_LRO_THRESHOLD=1000 lro config --unit bytes
  lro config --json | jq -r '.[] | select(.origin != \"default\") | .key'";

/// Show the effective settings and the origin of each value
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one line of JSON: a list of {key, value, origin}
    #[arg(long)]
    json: bool,
}

#[derive(serde::Serialize)]
struct Entry<'a> {
    key: &'a str,
    value: &'a RawValue,
    origin: String,
}

impl<'a> Entry<'a> {
    fn new(entry: &'a settings::Entry) -> serde_json::Result<Self> {
        let value = serde_json::from_str(&entry.value)?;
        Ok(Self { key: &entry.key, value, origin: entry.origin.to_string() })
    }
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    let entries = config.explain();
    if arguments.json {
        output::json(&entries.iter().map(Entry::new).collect::<serde_json::Result<Vec<_>>>()?)?;
        return Ok(Exit::Success);
    }
    let width = |length: fn(&settings::Entry) -> usize| entries.iter().map(length).max().unwrap_or(0);
    let (keys, values) = (width(|entry| entry.key.chars().count()), width(|entry| entry.value.chars().count()));
    let row = |entry: &settings::Entry| format!("{:keys$}  {:values$}  {}\n", entry.key, entry.value, entry.origin);
    output::text(&entries.iter().map(row).collect::<String>())?;
    Ok(Exit::Success)
}
