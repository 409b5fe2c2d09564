//! `lro audit`: what the tools of the running gateways, or of a recorded session, cost.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytes::Bytes;
use clap::Args;
use lro_gateway::settings::Config;
use lro_gateway::status::live;
use lro_gateway::{Recorded, Snapshot, ToolCost, parts};
use lro_host::store::Store;
use serde::Serialize;

use crate::exit::Exit;
use crate::output::{self, Terminal};
use crate::status::drawn;

const EXAMPLES: &str = "Examples:
  lro audit
  lro audit session.jsonl
  lro audit --preset 25k session.jsonl
  lro audit --toml session.jsonl >> lro.toml
  lro audit --json - < session.jsonl | jq '.tools[] | select(.large > 0)'";

/// Show what tools cost, and which settings would help
///
/// Without a file, shows what the gateways have counted that run on this offload directory (--dir). A file holds the JSON-RPC
/// messages of client and server, one a line, in the order in which they were sent.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// File of JSON-RPC messages of a recorded session, one a line; `-` is stdin
    file: Option<PathBuf>,
    /// Print one line of JSON: {"tools", "settings"}
    #[arg(long, conflicts_with = "toml")]
    json: bool,
    /// Print only the settings that would help, as TOML
    #[arg(long)]
    toml: bool,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    tools: Vec<ToolCost>,
    settings: String,
}

/// One line of the table. Field names are the headings.
#[derive(Serialize)]
struct Row<'a> {
    tool: &'a str,
    calls: u64,
    large: u64,
    repeated: u64,
    tokens: u64,
    largest: u64,
    definition: u64,
    #[serde(rename = "asks for less by")]
    limiting: String,
}

pub(crate) fn run(arguments: &Arguments, config: &Config, terminal: &Terminal) -> anyhow::Result<Exit> {
    let tools = match &arguments.file {
        Some(file) => read(file, config, terminal)?.tools().into_iter().cloned().collect(),
        None => running(config)?,
    };
    let settings = tools.iter().map(ToolCost::settings).collect();
    let report = Report { tools, settings };
    if arguments.json {
        output::json(&report)?;
        return Ok(Exit::Success);
    }
    if !arguments.toml {
        let rows: Vec<Row<'_>> = report.tools.iter().map(Row::of).collect();
        output::text(&drawn(&rows)?)?;
    }
    if !report.settings.is_empty() {
        let gap = if arguments.toml { "" } else { "\nSettings that would help:\n\n" };
        output::text(&format!("{gap}{}", report.settings))?;
    }
    Ok(Exit::Success)
}

/// What the running gateways have counted.
fn running(config: &Config) -> anyhow::Result<Vec<ToolCost>> {
    let store = Store::open_unswept(parts::store_config(config))?;
    let gateways = live(&store)?;
    let tools = gateways.iter().map(|gateway| &gateway.totals).sum::<Snapshot>().tools;
    match (gateways.is_empty(), tools.is_empty()) {
        (true, _) => bail!(
            "no gateway runs on the directory `{}`: start one, name its directory with --dir, or name a file of a recorded session",
            store.root().display()
        ),
        (false, true) => bail!("the running gateways have seen no list of tools and no result of one yet"),
        (false, false) => Ok(tools),
    }
}

/// Reads the messages. A line that is none is skipped with a warning, a line longer than a message may be is an error.
fn read(path: &Path, config: &Config, terminal: &Terminal) -> anyhow::Result<Recorded> {
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin().lock()),
        false => Box::new(File::open(path).with_context(|| format!("cannot read `{}`", path.display()))?),
    };
    let (mut input, mut recorded) = (BufReader::new(input), Recorded::default());
    let limit = config.gateway.message_bytes.get();
    let (mut others, mut lines) = (0_u64, 0_u64);
    loop {
        let mut line = Vec::new();
        let size = input.by_ref().take(limit).read_until(b'\n', &mut line).context("cannot read the messages")?;
        if size == 0 {
            break;
        }
        lines += 1;
        if size as u64 == limit && !line.ends_with(b"\n") {
            bail!("line {lines} has more than {limit} bytes (gateway.message-bytes)");
        }
        let is_blank = line.trim_ascii().is_empty();
        others += u64::from(!is_blank && !recorded.push(Bytes::from(line), config));
    }
    if others > 0 {
        terminal.warning(&format!("{others} of {lines} lines are not JSON-RPC messages"));
    }
    if recorded.tools().is_empty() {
        bail!("`{}` has no list of tools and no call of one", path.display());
    }
    Ok(recorded)
}

impl<'a> Row<'a> {
    fn of(tool: &'a ToolCost) -> Self {
        let limiting = match &tool.limiting {
            None => "not listed".to_owned(),
            Some(names) if names.is_empty() => "nothing".to_owned(),
            Some(names) => names.join(", "),
        };
        let ToolCost { calls, large, repeated, tokens, tokens_max, definition_tokens, .. } = *tool;
        Self {
            tool: &tool.tool,
            calls,
            large,
            repeated,
            tokens,
            largest: tokens_max,
            definition: definition_tokens,
            limiting,
        }
    }
}
