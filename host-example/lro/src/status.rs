//! `lro status`: shows the gateways running on this machine, and what they have done on the last days.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, value_parser};
use lro_gateway::history;
use lro_gateway::settings::Config;
use lro_gateway::status::{Status, live};
use lro_gateway::{Snapshot, ToolDay, parts};
use lro_host::store::Store;
use serde::Serialize;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::exit::Exit;
use crate::replicas::addresses;
use crate::rows::Rows;
use crate::{exchange, output, table};

/// Refresh interval of --watch.
const REFRESH_INTERVAL: Duration = Duration::from_secs(1);

/// How often to check for a signal.
const SIGNAL_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Moves the cursor to the upper left corner and clears the screen.
const CLEAR: &[u8] = b"\x1b[H\x1b[2J";

/// How long the gateway may take to say whether it works.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(5);

const EXAMPLES: &str = "Examples:
  lro status
  lro status --watch
  lro status --json | jq .totals.tokens_saved
  lro status --days 7                tokens saved on each of the last days, by tool
  lro status --health                whether the gateway at gateway.metrics-listen works
  lro status --health --gateway http://127.0.0.1:9808";

/// Show the gateways that use this offload directory (--dir), and their statistics
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Print one line of JSON: {"gateways", "totals"}; with --days {"days", "total"}
    #[arg(long)]
    json: bool,
    /// Refresh every second until Ctrl-C; prints JSON lines if stdout is not a terminal
    #[arg(long)]
    watch: bool,
    /// Show what was done with the results of each tool on this many days, today included, by gateways and hooks; days are those of UTC
    #[arg(long, value_name = "DAYS", conflicts_with = "watch", value_parser = value_parser!(u32).range(1..))]
    days: Option<u32>,
    /// Ask a gateway (--gateway) whether it works, and exit with 1 if it does not: for containers, which have no
    /// other program for that
    #[arg(long, conflicts_with_all = ["json", "watch", "days"])]
    health: bool,
    /// Address of the metrics of the gateway that --health asks, such as http://127.0.0.1:9808; several are asked one after the
    /// other [default: gateway.metrics-listen]
    #[arg(long = "gateway", value_name = "URL", env = "LRO_GATEWAY", value_delimiter = ',')]
    gateways: Vec<String>,
}

/// The output of `--json`.
#[derive(Serialize)]
struct Report {
    gateways: Vec<Gateway>,
    totals: Snapshot,
}

#[derive(Serialize)]
struct Gateway {
    uptime_ms: u64,
    #[serde(flatten)]
    status: Status,
}

/// The output of `--days --json`.
#[derive(Serialize)]
struct History {
    days: Vec<ToolDay>,
    /// The sum of all days and tools, whose names are empty.
    total: ToolDay,
}

/// One line of the table of `--days`. Field names are the headings.
#[derive(Serialize)]
struct DayRow {
    day: String,
    tool: String,
    calls: u64,
    large: u64,
    #[serde(rename = "in")]
    bytes_in: String,
    #[serde(rename = "out")]
    bytes_out: String,
    #[serde(rename = "tokens saved")]
    tokens_saved: u64,
}

/// One line of the table of other messages than tool results. Field names are the headings.
#[derive(Serialize)]
struct MethodRow<'a> {
    method: &'a str,
    messages: u64,
    size: String,
    tokens: u64,
}

/// One line of the table. Field names are the headings.
#[derive(Serialize)]
struct Row {
    pid: String,
    up: String,
    calls: u64,
    pass: u64,
    offload: u64,
    truncate: u64,
    reject: u64,
    fail: u64,
    #[serde(rename = "in")]
    bytes_in: String,
    #[serde(rename = "out")]
    bytes_out: String,
    #[serde(rename = "tokens saved")]
    tokens_saved: u64,
    policy: String,
    #[serde(rename = "own calls")]
    own_calls: u64,
    client: String,
    server: String,
}

/// Asks each gateway whether it works.
fn health(gateways: &[String], config: &Config) -> anyhow::Result<Exit> {
    let mut exit = Exit::Success;
    for url in addresses(gateways, config)? {
        let asked = exchange::wait(async {
            let client = exchange::client().timeout(HEALTH_TIMEOUT).build()?;
            let response = client.get(format!("{url}/healthz")).send().await?;
            anyhow::Ok((response.status(), response.text().await?))
        });
        let cannot = || format!("no gateway answers at {url} (--gateway URL, LRO_GATEWAY or gateway.metrics-listen)");
        let (status, text) = asked.with_context(cannot)?;
        output::text(&text)?;
        if !status.is_success() {
            exit = Exit::Error;
        }
    }
    Ok(exit)
}

pub(crate) fn run(arguments: &Arguments, config: &Config) -> anyhow::Result<Exit> {
    if arguments.health {
        return health(&arguments.gateways, config);
    }
    let store = Store::open_unswept(parts::store_config(config))?;
    if let Some(days) = arguments.days {
        let history = History::of(&store, days)?;
        if arguments.json {
            output::json(&history)?;
        } else {
            output::text(&history.to_table(&store)?)?;
        }
        return Ok(Exit::Success);
    }
    let draws = io::stdout().is_terminal() && !arguments.json;
    if !arguments.watch {
        let report = Report::of(&store)?;
        if arguments.json {
            output::json(&report)?;
        } else {
            output::text(&report.to_table(&store)?)?;
        }
        return Ok(Exit::Success);
    }
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    while !ends.load(Ordering::Relaxed) {
        let report = Report::of(&store)?;
        if draws {
            let drawn = report.to_table(&store)?;
            output::raw(CLEAR)?;
            output::text(&drawn)?;
        } else {
            output::json(&report)?;
        }
        let start = Instant::now();
        while start.elapsed() < REFRESH_INTERVAL && !ends.load(Ordering::Relaxed) {
            thread::sleep(SIGNAL_POLL_INTERVAL);
        }
    }
    Ok(Exit::Success)
}

impl Report {
    fn of(store: &Store) -> anyhow::Result<Self> {
        let statuses = live(store);
        let statuses = statuses
            .with_context(|| format!("cannot read the status of the gateways in {}", store.root().display()))?;
        let totals = statuses.iter().map(|status| &status.totals).sum();
        let gateways = statuses.into_iter().map(|status| Gateway { uptime_ms: status.uptime_ms(), status }).collect();
        Ok(Self { gateways, totals })
    }

    fn to_table(&self, store: &Store) -> anyhow::Result<String> {
        if self.gateways.is_empty() {
            return Ok(format!("no gateway runs with the directory {}\n", store.root().display()));
        }
        let of_gateway = |gateway: &Gateway| {
            let Status { about, client, totals, .. } = &gateway.status;
            Row {
                pid: about.pid.to_string(),
                up: time(Duration::from_millis(gateway.uptime_ms)),
                client: client.clone().unwrap_or_default(),
                server: about.server.clone(),
                ..Row::of(totals)
            }
        };
        let mut rows: Vec<Row> = self.gateways.iter().map(of_gateway).collect();
        if rows.len() > 1 {
            rows.push(Row { pid: "all".to_owned(), ..Row::of(&self.totals) });
        }
        let methods = self.totals.methods.iter().map(|(method, sizes)| MethodRow {
            method,
            messages: sizes.messages,
            size: bytes(sizes.bytes),
            tokens: sizes.tokens,
        });
        let methods: Vec<MethodRow<'_>> = methods.collect();
        let gateways = drawn(&rows)?;
        if methods.is_empty() { Ok(gateways) } else { Ok(format!("{gateways}\n{}", drawn(&methods)?)) }
    }
}

impl History {
    fn of(store: &Store, days: u32) -> anyhow::Result<Self> {
        let days = history::of_days(store, days);
        let days = days.with_context(|| format!("cannot read the history in {}", store.root().display()))?;
        let total = days.iter().fold(ToolDay::default(), |mut sum, day| {
            sum.add(day);
            sum
        });
        Ok(Self { days, total })
    }

    fn to_table(&self, store: &Store) -> anyhow::Result<String> {
        if self.days.is_empty() {
            return Ok(format!("no result of a tool on these days with the directory {}\n", store.root().display()));
        }
        let mut rows: Vec<DayRow> = self.days.iter().map(DayRow::of).collect();
        if rows.len() > 1 {
            rows.push(DayRow { day: "all".to_owned(), ..DayRow::of(&self.total) });
        }
        drawn(&rows)
    }
}

impl DayRow {
    fn of(count: &ToolDay) -> Self {
        Self {
            day: count.day.clone(),
            tool: count.tool.clone(),
            calls: count.calls,
            large: count.large,
            bytes_in: bytes(count.bytes_in),
            bytes_out: bytes(count.bytes_out),
            tokens_saved: count.tokens_saved,
        }
    }
}

/// A table of rows, whose field names are the headings.
pub(crate) fn drawn(rows: &[impl Serialize]) -> anyhow::Result<String> {
    let lines = rows.iter().map(serde_json::to_string).collect::<serde_json::Result<Vec<String>>>()?;
    let mut table = Vec::new();
    table::write(&mut Rows::of(&lines.join("\n"))?, &mut table)?;
    Ok(String::from_utf8(table)?)
}

impl Row {
    fn of(totals: &Snapshot) -> Self {
        let verdicts = &totals.verdicts;
        Self {
            pid: String::new(),
            up: String::new(),
            calls: totals.calls,
            pass: verdicts.pass,
            offload: verdicts.offload,
            truncate: verdicts.truncate,
            reject: verdicts.reject,
            fail: verdicts.fail,
            bytes_in: bytes(totals.bytes_in),
            bytes_out: bytes(totals.bytes_out),
            tokens_saved: totals.tokens_saved,
            policy: time(Duration::from_micros(totals.policy_micros)),
            own_calls: totals.own_calls,
            client: String::new(),
            server: String::new(),
        }
    }
}

/// Formats a size with three digits and a unit, such as `12.3 MB`.
fn bytes(count: u64) -> String {
    let mut amount = count as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if amount < 999.5 {
            return rounded(amount, unit);
        }
        amount /= 1000.0;
    }
    rounded(amount, "TB")
}

/// Formats a duration in its largest units, such as `1.25 s` or `2 h 5 min`.
fn time(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 86_400, seconds / 3600, seconds / 60) {
        (0, 0, 0) if seconds == 0 => rounded(time.as_secs_f64() * 1e3, "ms"),
        (0, 0, 0) => rounded(time.as_secs_f64(), "s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {} min", minutes % 60),
        (days, hours, _) => format!("{days} d {} h", hours % 24),
    }
}

/// Formats an amount with three digits, or fewer if it is whole.
fn rounded(amount: f64, unit: &str) -> String {
    match amount {
        amount if amount.fract() == 0.0 || amount >= 99.95 => format!("{amount:.0} {unit}"),
        amount if amount >= 9.995 => format!("{amount:.1} {unit}"),
        amount => format!("{amount:.2} {unit}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_have_three_digits() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "1 kB"),
            (1234, "1.23 kB"),
            (999_600, "1.00 MB"),
            (12_345_678, "12.3 MB"),
        ];
        for (count, expected) in cases {
            assert_eq!(bytes(count), expected);
        }
        let cases = [
            (0, "0 ms"),
            (1234, "1.23 ms"),
            (999_900, "1000 ms"),
            (61_000_000, "1 min 1 s"),
            (7_500_000_000, "2 h 5 min"),
        ];
        for (micros, expected) in cases {
            assert_eq!(time(Duration::from_micros(micros)), expected);
        }
    }
}
